"""Carrying steps out on the model, one after the other, and what each of them runs into."""

from __future__ import annotations

from iallocator.limits.group import lacks_network
from iallocator.limits.migration import missing_migration_tags
from iallocator.limits.node import FORCED_LIMITS, PRIMARY, SECONDARY, checks_for
from iallocator.model.instance import primary_vector
from iallocator.model.node_view import NodeView, capacities
from iallocator.transition.step import DRAIN, FAILOVER, FENCE, MIGRATE, OFFLINE, ONLINE, UNDRAIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.transition.resources import Place
    from iallocator.transition.step import Step

__all__ = ["Execution", "view_of"]


class Execution:
    """Carries steps out on `state`, which changes: do it in a trial.

    A step must begin where its instance is.  Every node with a new role must be online and
    not be left by the plan, within its hard limits, reach the storage pools, and be in a
    group with the networks; the old primary of a failover stays as the mirror whatever its
    condition.  What runs moves only where migration tags let it.

    `closed` are nodes to which nothing comes, though they are online; `opened` those that
    are powered on before the first step. With `spindles` False, the free spindles of exclusive
    storage limit no step: htools check them move by move, and count them in another way.
    """

    __slots__ = ("_closed", "_fenced", "_held", "_opened", "_spindles", "_state")

    def __init__(
        self,
        state: State,
        closed: Collection[int] = (),
        opened: Collection[int] = (),
        spindles: bool = True,
    ) -> None:
        self._spindles = spindles
        self._state = state
        self._closed = set(closed)
        self._opened = set(opened)
        self._fenced: set[int] = set()
        self._held: dict[str, Instance] = {}

    def carry_out(self, step: Step) -> list[str]:
        """What is wrong with the step, which is made all the same where it can be."""
        if step.instance is not None:
            return [f"{step.name}: {problem}" for problem in self._move(step, step.instance)]
        if step.node is not None:
            kind = step.kind
            node = step.node
            if kind in (ONLINE, UNDRAIN):
                self._opened.add(node)
                self._closed.discard(node)
            elif kind == FENCE:
                self._fenced.add(node)
            elif kind in (DRAIN, OFFLINE):
                self._closed.add(node)
        return []

    def take_out(self, name: str) -> None:
        """Count with the instance no more, wherever it is."""
        instance = self._held.get(name) or self._state.cluster.instance_named(name)
        where = self._state.where.get(name)
        if instance is not None and where is not None:
            self._state.remove(instance, where)

    def _move(self, step: Step, instance: Instance) -> Iterator[str]:
        state, after = self._state, step.after
        assert after is not None
        before = state.where.get(instance.name)
        if before != (step.before.nodes if step.before else None):
            yield "is not where the step begins"
            return
        yield from self._hindrance(step, instance)
        if before is not None:
            state.remove(self._held.get(instance.name, instance), before)
        arriving = self._held[instance.name] = _as(instance, after)
        starts = after.running and not (step.before and step.before.running)
        new = [
            (role, index)
            for role, index in enumerate(after.nodes)
            if (before or ())[role : role + 1] != (index,) or (starts and role == 0)
        ]  # the other roles it has already
        barred = {index: self._barred(arriving, index, before or ()) for _, index in new}
        empty = {index: view_of(state, index) for _, index in new}
        state.place(arriving, after.nodes)
        for role, index in new:
            here = index in (before or ())
            yield from self._unusable(index, role, here, starts)
            name = state.cluster.nodes[index].name
            if barred[index] and not (here and role == 1):  # nor the mirror left behind
                yield f"{name}: {barred[index]}"
            full = view_of(state, index)
            for check in checks_for(SECONDARY if role else PRIMARY, arriving, FORCED_LIMITS):
                if check.pools or (here and check.local):
                    continue  # looked at before; its disks are there already
                if check.reason == "FailSpindles" and not self._spindles:
                    continue
                if check.fails(empty[index], full, arriving):
                    yield f"{name}: {check.numbers(empty[index], full, arriving)}"

    def _hindrance(self, step: Step, instance: Instance) -> Iterator[str]:
        """Why the instance cannot go from its old primary to the new one."""
        before, after = step.before, step.after
        if before is None or after is None or step.kind not in (MIGRATE, FAILOVER):
            return
        source, target = before.nodes[0], after.nodes[0]
        nodes = self._state.cluster.nodes
        if step.kind == MIGRATE:
            running = self._held.get(instance.name, instance).uses_memory
            if not running or source in self._fenced:
                yield "cannot be migrated, it does not run"
            elif nodes[source].offline and source not in self._opened:
                yield f"cannot be migrated, {nodes[source].name} is offline"
        lacking = sorted(missing_migration_tags(self._state.cluster, source, target))
        if before.running and lacking:
            yield (
                f"{nodes[target].name} does not take what comes from {nodes[source].name}: "
                f"migration tag{'s' * (len(lacking) > 1)} {', '.join(lacking)}"
            )

    def _unusable(self, index: int, role: int, here: bool, starts: bool) -> Iterator[str]:
        """Why the node gets no new role, for its own condition."""
        node = self._state.cluster.nodes[index]
        if here and role == 1:
            return  # the mirror that a failover leaves behind
        usable = (node.online or index in self._opened) and index not in self._fenced
        if not usable and not (here and starts and index not in self._fenced):
            yield f"{node.name} is not online"
        elif index in self._closed and not here:
            yield f"{node.name} is to be left, nothing may come to it"

    def _barred(self, instance: Instance, index: int, before: tuple[int, ...]) -> str:
        """Why pools or networks keep an instance that is on no node now away; or ""."""
        state = self._state
        nodes, pools = state.cluster.nodes, state.pools
        if pools is not None and pools.bars(index, instance, index in before):
            return pools.why(index, instance)
        group = nodes[index].group
        left = {nodes[other].group.index for other in before}
        if group.index not in left and lacks_network(group, instance):
            missing = ", ".join(sorted(set(instance.networks) - group.networks))
            return f"group {group.name} is not connected to {missing}"
        return ""


def _as(instance: Instance, place: Place) -> Instance:
    """The instance as it is at `place`: running, or not."""
    if place.running == instance.uses_memory:
        return instance
    twin = instance.as_template(instance.template)
    twin.uses_memory = place.running
    twin.admin_state = "up" if place.running else "down"
    twin.as_primary = primary_vector(twin)
    return twin


def view_of(state: State, index: int, min_disk: float = 0.0) -> NodeView:
    """The node at `index` as checks see it; `min_disk` is the share of disk to keep free."""
    return NodeView.of(state, index, capacities(state.cluster.nodes[index], min_disk))
