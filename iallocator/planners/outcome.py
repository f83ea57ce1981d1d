"""Where a plan ends, compared with where it begins: what must not have become worse."""

from __future__ import annotations

from iallocator.limits.node import ALL_LIMITS, PRIMARY, SECONDARY, checks_for
from iallocator.n1.rules import CAME, LEFT, MOVED, plan_rules
from iallocator.n1.tolerance import FailureTolerance
from iallocator.planners.power_state import Switched
from iallocator.transition.execution import view_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.rules import Failure
    from iallocator.planners.plan_limits import PlanLimits

    Found = tuple[str, str]
    """The instance that it is about, "" for none, and what is wrong."""

__all__ = ["Failures", "Outcome"]


class Failures:
    """Which failures are survived where a plan begins, and where it ends: asked once.

    For all who carry out what begins at the same state, one after the other: the moves, the
    steps made of them.  Where both end alike, with the same instances in the same places,
    the same failures are lost.
    """

    __slots__ = ("_first", "_found", "_limits", "_primaries", "_where")

    def __init__(self, limits: PlanLimits) -> None:
        self._limits = limits
        self._first: dict[int, FailureTolerance] = {}
        self._where: dict[str, tuple[int, ...]] = {}
        self._primaries: list[dict[str, Instance]] = []
        self._found: dict[tuple[int, int], list[Failure]] = {}

    def of_group(self, state: State, group: Group) -> FailureTolerance:
        """Return the failures of `group`, measured in `state`, which is as at the beginning."""
        found = self._first.get(group.index)
        if found is None:
            mode = self._limits.settings.plan_n1(group.index)
            rules = plan_rules(mode, self._limits.relations)
            found = self._first[group.index] = FailureTolerance(state, rules, group=group)
            found.measure()
        return found

    def lost(self, state: State, group: Group, change: int) -> list[Failure]:
        """Return the failures that should be tolerated at the end, and are not."""
        if state.where != self._where or state.primaries != self._primaries:
            self._where = dict(state.where)
            self._primaries = [dict(here) for here in state.primaries]
            self._found = {}
        asked = group.index, change
        if asked not in self._found:
            failures = self.of_group(state, group).on(state)
            self._found[asked] = failures.broken(change, rescues=True)
        return self._found[asked]


class Outcome:
    """What the end of a plan is compared with; made where it begins.

    `touched`: per move or step the name of the instance, and the nodes that it concerns.
    `failures` may know already what becomes of them.  The methods look at the state at the end.
    """

    def __init__(
        self,
        state: State,
        touched: Iterable[tuple[str, Sequence[int]]],
        limits: PlanLimits,
        failures: Failures | None = None,
    ) -> None:
        self._limits = limits
        self._failures = failures or Failures(limits)
        self._nodes = state.cluster.nodes
        touched = list(touched)
        names = dict.fromkeys(name for name, _ in touched)
        self._before = {name: state.where.get(name, ()) for name in names}
        concerned = {self._nodes[index].group.index for _, nodes in touched for index in nodes}
        concerned |= {self._nodes[index].group.index for index in limits.leaving}
        groups = [g for g in state.cluster.groups if g.index in concerned]
        self._rows = {
            index: view_of(state, index, limits.min_disk)
            for group in groups
            for index in group.nodes
        }
        self._groups = groups
        for group in groups:
            self._failures.of_group(state, group)

    def of_instances(self, state: State) -> Iterator[Found]:
        """Groups and policy of those that moved; musts that held at first and do not in the end."""
        known = {i.name: i for index in self._rows for i in state.instances_on(index)}
        for name, before in self._before.items():
            after = state.where.get(name, ())
            if after == before or not after:
                continue
            instance = known[name]
            texts = [
                *self._of_group(instance, before, after),
                *self._of_mirrors(name, before, after),
            ]
            yield from ((name, f"{name}: {text}") for text in texts)
        yield from self._broken_musts(state)

    def _broken_musts(self, state: State) -> Iterator[Found]:
        relations = self._limits.relations
        if relations is None:
            return
        moved = {
            name: before[0] if before else None
            for name, before in self._before.items()
            if state.where.get(name, ())[:1] != before[:1]
        }
        for name, bond in relations.newly_broken(
            moved, state.where, relations.rule_counts(state.where)
        ):
            yield name, f"{name}: must be {bond.text}"

    def _of_group(
        self, instance: Instance, before: Sequence[int], after: Sequence[int]
    ) -> Iterator[str]:
        left = [self._nodes[index].group for index in before]
        home = self._nodes[after[0]].group
        if any(self._nodes[index].group is not home for index in after) and len(set(left)) < 2:
            yield "its nodes are in two groups"
        if home in left:
            return
        if left and not self._limits.between_groups:
            yield f"goes to group {home.name}, and is not to change its group"
        exclusive = self._nodes[after[0]].exclusive_storage
        reason = home.policy.rejects(instance, exclusive)
        if reason is not None:
            yield f"the policy of group {home.name} rejects it"
        if left and home.alloc_policy == "unallocable":
            yield f"group {home.name} is unallocable"

    def _of_mirrors(self, name: str, before: Sequence[int], after: Sequence[int]) -> Iterator[str]:
        relations = self._limits.relations
        if relations is None or relations.locations is None:
            return
        forbidden = relations.locations.forbidden(name)
        for index in after[1:]:
            if index not in before and index in forbidden:
                yield f"its mirror must be {forbidden[index].text}"

    def of_nodes(self, state: State) -> Iterator[Found]:
        """Nodes that the plan frees must be empty."""
        for index in sorted(self._limits.leaving):
            for instance in state.instances_on(index):
                yield instance.name, f"{self._nodes[index].name} is not empty: {instance.name}"

    def soft(self, state: State) -> Iterator[Found]:
        """Soft limits that a node keeps at first and breaks in the end, by what came there.

        For plans whose steps stand in no order in which one could look after each.  A node
        that something was forced to is left out, or that got something that takes nothing yet.
        """
        come: dict[int, list[tuple[Instance, int]]] = {}
        forced: set[int] = set()
        for name, before in self._before.items():
            for role, index in enumerate(state.where.get(name, ())):
                if before[role : role + 1] == (index,):
                    continue
                instance = (state.secondaries if role else state.primaries)[index][name]
                if instance.forthcoming or self._limits.forced(state, before, index):
                    forced.add(index)
                come.setdefault(index, []).append((instance, role))
        for index, arrived in come.items():
            if index not in forced:
                yield from self._soft_at(state, index, arrived)

    def _soft_at(
        self, state: State, index: int, arrived: Sequence[tuple[Instance, int]]
    ) -> Iterator[Found]:
        first, last = self._rows[index], view_of(state, index, self._limits.min_disk)
        for instance, role in arrived:
            here = index in self._before[instance.name]
            if here and role == 1:
                continue
            for check in checks_for(SECONDARY if role else PRIMARY, instance, ALL_LIMITS):
                if check.forced or check.later or (here and check.local):
                    continue  # looked at step by step; not yet there; its disks were there
                if check.reason == "FailTags" and not instance.exclusion:
                    continue  # somebody else's conflict
                if check.fails(first, last, instance) and not check.fails(first, first, instance):
                    text = check.numbers(first, last, instance)
                    yield instance.name, f"{instance.name}: {self._nodes[index].name}: {text}"

    def lost(self, state: State) -> dict[int, str]:
        """Nodes whose failure must be survivable in the end, and is not; with the reason."""
        found: dict[int, str] = {}
        with Switched(state.cluster, off=self._limits.leaving, on=self._limits.coming):
            for group in self._groups:
                change = self._change(state, group)
                for failure in sorted(set(self._failures.lost(state, group, change))):
                    if self._limits.hopeless.isdisjoint(failure):
                        names = " and ".join(state.cluster.node_names(failure))
                        found[failure[0]] = f"the failure of {names} would not be survived"
        return found

    def _change(self, state: State, group: Group) -> int:
        """What the plan did to a group: LEFT, MOVED or CAME."""
        if not self._limits.leaving.isdisjoint(group.nodes):
            return MOVED
        found = LEFT
        for name, before in self._before.items():
            after = state.where.get(name, ())
            if after == before or not after or self._nodes[after[0]].group is not group:
                continue
            if not before or self._nodes[before[0]].group is not group:
                return CAME
            found = MOVED
        return found
