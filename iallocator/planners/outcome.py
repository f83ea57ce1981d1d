"""Compare the final state of a plan with its initial state, to find limits that became worse."""

from __future__ import annotations

from iallocator.constraints.table import entry_rejection
from iallocator.limits.node import ALL_LIMITS, PRIMARY, SECONDARY, checks_for
from iallocator.n1 import ENTERED, MOVED_WITHIN, ONLY_LEFT, plan_rules
from iallocator.n1.exact import OfflineInstances
from iallocator.planners.power_state import Switched
from iallocator.planners.restarts import Restarts
from iallocator.transition.execution import view_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1 import Failure
    from iallocator.n1.exact import Loss
    from iallocator.planners.plan_limits import PlanLimits

    Found = tuple[str, str]
    """The name of an instance, or "", and a description of its problem."""

__all__ = ["Failures", "Outcome"]


class Failures:
    """The failures that are not tolerated at the end of a plan, compared with its beginning.

    One object serves all checks of moves and steps that begin in one state.  It keeps the result of
    a simulated failure for later end states, as long as the nodes concerned have the same
    instances.
    """

    __slots__ = (
        "_before", "_begin", "_contents", "_first", "_kept", "_limits", "_losses", "_where",
    )  # fmt: skip

    def __init__(self, limits: PlanLimits) -> None:
        self._limits = limits
        self._begin: State | None = None
        self._first: dict[int, Restarts] = {}  # index of a group -> restarts in the first state
        self._before: dict[Failure, bool | Loss] = {}  # tolerated, or with exact search the loss
        self._where: dict[str, tuple[int, ...]] = {}
        self._contents: list[dict[str, Instance]] = []
        self._kept: dict[Failure, frozenset[int] | None] = {}  # nodes that the restarts use
        self._losses: dict[Failure, Loss] = {}

    def begin(self, state: State) -> None:
        """Keep a copy of the first `state` that is given, as the initial state of the plan."""
        if self._begin is None:
            self._begin = state.copy()

    def lost(self, state: State, group: Group, change: int) -> list[Failure]:
        """Return the failures in `group` that must be tolerated in the final `state`, and are not.

        `change` is the largest change of the group by the plan: `ONLY_LEFT` (instances only leave
        the group), `MOVED_WITHIN` (they move inside it) or `ENTERED` (an instance enters it).
        """
        assert self._begin is not None
        limits, nodes = self._limits, state.cluster.nodes
        mode = limits.settings.plan_n1(group.index)
        if mode == "off":
            return []
        rules = plan_rules(mode, limits.relations)
        with Switched(state.cluster, off=limits.power.off, on=limits.power.on):
            self._drop_changed(state)
            restarts = Restarts(state, rules, group.nodes)
            failing = rules.of_online(state.cluster, group)
            for failure in failing:
                if failure not in self._kept:
                    self._kept[failure] = restarts.succeed(failure)
            lost = [failure for failure in failing if self._kept[failure] is None]
            if rules.exact:
                for failure in lost:
                    if failure not in self._losses:
                        self._losses[failure] = restarts.loss(failure)
                lost = [failure for failure in lost if self._losses[failure].instances]
        if not lost or (rules.requires_all and change != ONLY_LEFT):
            return lost

        # Compare with the first state, in which nodes are on or off as they are now
        first = self._first.get(group.index)
        if first is None:
            own = plan_rules(mode, limits.relations)
            first = self._first[group.index] = Restarts(self._begin, own, group.nodes)
        offline = [index for index in group.nodes if not nodes[index].online]
        several = len(group.nodes) - len(offline) > 1
        comparable = set(rules.of_online(state.cluster, group))
        back = (0, 0.0)
        if rules.exact:
            with Switched(state.cluster, off=limits.power.off, on=limits.power.on):
                back = OfflineInstances(state.cluster, group, rules, offline).back(state)
        broken = []
        for failure in lost:
            if failure not in comparable or not (several or change == ENTERED):
                continue
            if failure not in self._before:
                self._before[failure] = (
                    first.loss(failure)
                    if rules.exact
                    else first.succeed(failure, by_score_only=True) is not None
                )
            before = self._before[failure]
            if isinstance(before, bool):
                if before:
                    broken.append(failure)
                continue
            count = self._losses[failure].instances - before.instances_least
            memory = self._losses[failure].memory - before.memory_least
            worse = not before.instances or (several and (count > 0 or memory > 0))
            if worse and (not back[0] or count > back[0] or memory > back[1]):
                broken.append(failure)
        return broken

    def _drop_changed(self, state: State) -> None:
        """Drop kept results of failures if the instances on the nodes concerned have changed."""
        if not self._contents:
            self._contents = [{} for _ in state.primaries]
        changed = {
            index for index, held in enumerate(state.primaries) if held != self._contents[index]
        }
        if state.where != self._where:
            names = state.where.keys() | self._where.keys()
            for name in names:
                before, after = self._where.get(name, ()), state.where.get(name, ())
                if before != after:
                    changed.update(before, after)
        if not changed:
            return
        self._where = dict(state.where)
        for index in changed:
            self._contents[index] = dict(state.primaries[index])
        shared = state.access is not None  # nodes that hold the same instances may share a pool
        self._losses = {}
        self._kept = {
            failure: used
            for failure, used in self._kept.items()
            if used is not None
            and not shared
            and changed.isdisjoint(failure)
            and changed.isdisjoint(used)
        }


class Outcome:
    """The initial state of a plan, with methods that check a final state against it.

    `touched`: for each move or step, the name of its instance and the nodes that it concerns.
    `failures` keeps results of N+1 from one check to the next.
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
        concerned |= {self._nodes[index].group.index for index in limits.power.off}
        groups = [g for g in state.cluster.groups if g.index in concerned]
        self._rows = {
            index: view_of(state, index, limits.min_disk)
            for group in groups
            for index in group.nodes
        }
        self._groups = groups
        self._failures.begin(state)

    def of_instances(self, state: State) -> Iterator[Found]:
        """Yield limits of groups and hard constraints that moved instances violate in `state`.

        Hard constraints that were violated initially are left out.
        """
        known = {i.name: i for index in self._rows for i in state.instances_on(index)}
        for name, before in self._before.items():
            after = state.where.get(name, ())
            if after == before or not after:
                continue
            instance = known[name]
            texts = [
                *self._of_group(instance, before, after),
                *self._of_secondaries(name, before, after),
            ]
            yield from ((name, f"{name}: {text}") for text in texts)
        relations = self._limits.relations
        if relations is None:
            return
        moved = {
            name: before[0] if before else None
            for name, before in self._before.items()
            if state.where.get(name, ())[:1] != before[:1]
        }
        for name, constraint in relations.newly_broken(
            moved, state.where, relations.rule_counts(state.where)
        ):
            yield name, f"{name}: must be {constraint.text}"

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
            yield f"moves to group {home.name}, and must not change its group"
        if entry_rejection(home, instance, self._nodes[after[0]].exclusive_storage):
            yield f"the policy of group {home.name} rejects it"
        if left and home.alloc_policy == "unallocable":
            yield f"group {home.name} is unallocable"

    def _of_secondaries(
        self, name: str, before: Sequence[int], after: Sequence[int]
    ) -> Iterator[str]:
        relations = self._limits.relations
        if relations is None or relations.locations is None:
            return
        forbidden = relations.locations.forbidden(name)
        for index in after[1:]:
            if index not in before and index in forbidden:
                yield f"its secondary must be {forbidden[index].text}"

    def of_nodes(self, state: State) -> Iterator[Found]:
        """Yield a problem for each instance in `state` that is on a node that the plan empties."""
        for index in sorted(self._limits.power.off):
            for instance in state.instances_on(index):
                yield instance.name, f"{self._nodes[index].name} is not empty: {instance.name}"

    def soft(self, state: State) -> Iterator[Found]:
        """Yield the soft limits that a node violates in the final `state`, and did not initially.

        This check is for plans with steps in no fixed order.  It leaves out nodes to which an
        instance moved that may exceed soft limits, or that is forthcoming.
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
            if index in forced:
                continue
            first, last = self._rows[index], view_of(state, index, self._limits.min_disk)
            for instance, role in arrived:
                here = index in self._before[instance.name]
                if here and role == 1:
                    continue
                for check in checks_for(SECONDARY if role else PRIMARY, instance, ALL_LIMITS):
                    if check.forced or check.later or (here and check.local):
                        # `forced` limits are checked at each step; `later` ones only once the
                        # instance runs; a disk limit does not apply where the disks were before
                        continue
                    if check.reason == "FailTags" and not instance.exclusion:
                        continue  # a conflict of another instance
                    fails = check.fails(first, last, instance)
                    if fails and not check.fails(first, first, instance):
                        text = check.numbers(first, last, instance)
                        yield instance.name, f"{instance.name}: {self._nodes[index].name}: {text}"

    def lost(self, state: State) -> dict[Failure, str]:
        """Return failures that must be tolerated in the final `state` and are not -> the reason."""
        texts: dict[Failure, str] = {}
        for group in self._groups:
            change = self._change(state, group)
            for failure in sorted(self._failures.lost(state, group, change)):
                if self._limits.intolerable_nodes.isdisjoint(failure):
                    names = " and ".join(state.cluster.node_names(failure))
                    texts[failure] = f"the failure of {names} would not be tolerated"
        return texts

    def _change(self, state: State, group: Group) -> int:
        """Return how instances of the group move: `ONLY_LEFT`, `MOVED_WITHIN` or `ENTERED`."""
        if not self._limits.power.off.isdisjoint(group.nodes):
            return MOVED_WITHIN
        change = ONLY_LEFT
        for name, before in self._before.items():
            after = state.where.get(name, ())
            if after == before or not after or self._nodes[after[0]].group is not group:
                continue
            if not before or self._nodes[before[0]].group is not group:
                return ENTERED
            change = MOVED_WITHIN
        return change
