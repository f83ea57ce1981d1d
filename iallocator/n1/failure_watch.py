"""Keep the bounds of all failures of a group while the state changes.

The spare memory of a failure is the memory that any single node can lose while the failure stays
tolerated. A change of a node concerns few failures: those of the node itself, those with failovers
to it, and those with too little spare memory left. Only these failures are evaluated again.

Cost: O(n) once for *n* failures, then O(1) for each failure that a change concerns.
"""

from __future__ import annotations

from _bisect import bisect_left, insort_right  # the part in C, which is in the interpreter
from math import inf

from iallocator.constraints.table import entry_rejection, move_rejections
from iallocator.model.columns import DISK, MEMORY
from iallocator.n1 import PROVED_LOST, PROVED_SAFE, sum_of_shares
from iallocator.n1.bounds import capacities_for, check_bounds, known_demand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1 import Failure, Rules
    from iallocator.n1.bounds import Demand, Demands

__all__ = ["FailureWatch"]

BOUND_ERROR = 1.0
"""The largest rounding error of the sum in `SpareMemory`, in MiB. It causes at most one more
evaluation."""


class SpareMemory:
    """Failure -> its spare memory in MiB, or a lower bound of it; see `check_bounds`.

    If a node loses memory, the spare memory of any failure decreases by at most that amount; if a
    node gains memory, it does not decrease, except with shares (`iallocator.n1.pools`): each of
    them may use that memory.  So the stored value minus all these amounts is a lower bound.
    Renewing it costs nothing, because one sum serves all failures.
    """

    __slots__ = ("_changes", "_gone", "_noted", "_order")

    def __init__(self) -> None:
        self._gone = 0.0
        self._changes = 0
        self._noted: dict[
            Failure, tuple[float, float, int]
        ] = {}  # spare memory, sum of spare and `_gone` when stored, `_changes` when stored
        self._order: list[
            tuple[float, Failure]
        ] = []  # (sum of spare and `_gone` when stored, failure), sorted

    def note(self, failure: Failure, spare: float) -> None:
        """Store the spare memory of `failure` in the present state."""
        self.forget(failure)
        self._noted[failure] = spare, spare + self._gone, self._changes
        insort_right(self._order, (spare + self._gone, failure))

    def forget(self, failure: Failure) -> None:
        """Remove the stored spare memory of `failure`."""
        if failure in self._noted:
            _, key, _ = self._noted.pop(failure)
            del self._order[bisect_left(self._order, (key, failure))]

    def least(self, failure: Failure) -> float:
        """Return a lower bound of the spare memory of `failure`, in MiB; -1 if none is known."""
        if failure not in self._noted:
            return -1
        return self._noted[failure][1] - self._gone - BOUND_ERROR

    def lower_all(self, amount: float) -> None:
        """Subtract `amount` MiB, which is not negative, from all bounds after a node changed."""
        self._gone += amount
        self._changes += 1

    def outdated(self, amount: float) -> list[Failure]:
        """Return the failures with a stored bound below `amount` MiB that is out of date.

        A bound is out of date if it is older than the last change of a node.
        """
        return [
            failure for failure in self._below(amount) if self._noted[failure][2] != self._changes
        ]

    def less_than(self, amount: float) -> list[tuple[float, Failure]]:
        """Return (spare memory, failure) for each failure with less than `amount` MiB, ascending.

        The bounds below `amount` must be up to date; see `outdated`.
        """
        pairs = ((self._noted[failure][0], failure) for failure in self._below(amount))
        return sorted(one for one in pairs if one[0] < amount)

    def _below(self, amount: float) -> Iterator[Failure]:
        """Yield the failures with a lower bound of spare memory below `amount`, lowest first."""
        for key, failure in self._order:
            if key - self._gone >= amount + BOUND_ERROR:
                return
            yield failure


NO_FAILOVERS: Mapping[int, float] = {}
"""The failovers of a failure that has none, or that cannot become tolerated."""


class FailureWatch:
    """The bounds of all failures in a group, before a candidate (a checked placement) is made.

    A failure is evaluated again only if its bound may have changed: if a node of it has changed, if
    a secondary has lost the memory for its failovers, if the lower bound of its spare memory no
    longer proves that it is tolerated, or if no bound is known.

    Attributes
    ----------
    failing:
        The failures that must be tolerated.
    lost:
        The failures that bounds proved intolerable at their last evaluation.
    uncertain:
        The failures that bounds do not prove to be tolerated.
    refuter:
        The failure that rejected the last rejected candidate.
    """

    __slots__ = (
        "_created", "_demands", "_memory", "_most_shares", "_noted", "_of_node", "_onto", "_place",
        "_sources", "_spare", "_stamps", "_state", "_targets", "_unbounded", "_unsorted",
        "failing", "lost", "refuter", "uncertain",
    )  # fmt: skip

    def __init__(
        self,
        state: State,
        rules: Rules,
        failing: Sequence[Failure],
        demands: Demands,
    ) -> None:
        self._state = state
        self.failing = frozenset(failing)
        self.refuter: Failure | None = None
        self.lost: set[Failure] = set()
        self.uncertain: set[Failure] = set()
        # the last instance, and whether the policy of its group accepts it
        self._created: tuple[Instance, bool] | None = None
        self._spare = SpareMemory()
        self._place = {failure: place for place, failure in enumerate(failing)}  # breaks ties
        self._of_node: dict[int, list[Failure]] = {}  # node -> the failures that it is part of
        for failure in failing:
            for node in failure:
                self._of_node.setdefault(node, []).append(failure)
        self._demands: dict[Failure, Demand] = {}
        self._unbounded: set[Failure] = set()
        self._most_shares = 0  # of a failure
        self._noted: dict[Failure, Mapping[int, float]] = {}
        self._onto: dict[int, list[tuple[float, int, Failure]]] = {}  # -MiB, place, failure
        self._sources: dict[int, set[Failure]] = {}  # secondary -> failures that fail over to it
        self._unsorted: set[int] = set()
        groups = {state.cluster.nodes[node].group for node in self._of_node}
        self._targets = {group: rules.targets(state.cluster, group) for group in groups}
        self._evaluate(failing, rules, demands)
        concerned = {*self._of_node, *self._sources}.union(*self._targets.values())
        self._memory = {index: state.columns[MEMORY][index] for index in concerned}
        self._stamps = {index: state.stamps[index] for index in concerned}

    def _evaluate(self, failing: Collection[Failure], rules: Rules, demands: Demands) -> None:
        """Evaluate the bounds of `failing` in the present state, and store the results."""
        state = self._state
        capacities = capacities_for(state, rules, failing)
        for failure in failing:
            demand, former = (
                known_demand(state, failure, rules, demands),
                self._demands.get(failure),
            )
            if former is not demand:
                for secondary in former.failovers if former is not None else ():
                    self._sources[secondary].discard(failure)
                for secondary in demand.failovers:
                    self._sources.setdefault(secondary, set()).add(failure)
                self._demands[failure] = demand
            kind, spare = check_bounds(state, failure, demand, rules, capacities)
            self._spare.forget(failure)
            shares = [one for part in (demand, *demand.parts) for one in part.shares or ()]
            pooled = any(share.pool is not None for share in shares)
            bounded = kind == PROVED_SAFE and spare >= 0 and not (demand.plain or pooled)
            self._most_shares = max(self._most_shares, len(shares))
            self._unbounded.discard(failure)
            if demand.intricate or (demand.movers and not bounded):
                self._unbounded.add(failure)
            (self.lost.add if kind == PROVED_LOST else self.lost.discard)(failure)
            (self.uncertain.discard if kind == PROVED_SAFE else self.uncertain.add)(failure)
            failovers: Mapping[int, float] = demand.failovers  # secondary -> MiB
            if kind == PROVED_LOST and not (rules.requires_all or rules.exact):
                failovers = NO_FAILOVERS
            elif demand.movers or demand.intricate or not rules.exact:
                if kind != PROVED_SAFE:
                    spare = -1
                if spare != inf:
                    self._spare.note(failure, spare)
            place, before = self._place[failure], self._noted.get(failure, NO_FAILOVERS)
            if failovers is before:
                continue
            for secondary, amount in before.items():
                self._onto[secondary].remove((-amount, place, failure))
            for secondary, amount in failovers.items():
                self._onto.setdefault(secondary, []).append((-amount, place, failure))
                self._unsorted.add(secondary)
            self._noted[failure] = failovers
        for secondary in self._unsorted:
            self._onto[secondary].sort()
        self._unsorted.clear()

    def catch_up(
        self,
        state: State,
        rules: Rules,
        failing: Sequence[Failure],
        demands: Demands,
    ) -> bool:
        """Evaluate again the failures that changed nodes affect; return False if that is
        impossible.

        It is impossible with ``strict``, for another state, and for other failures or targets than
        before.
        """
        if state is not self._state or rules.strict:
            return False
        if self.failing != frozenset(failing):
            return False
        if any(rules.targets(state.cluster, group) != t for group, t in self._targets.items()):
            return False
        now = state.stamps
        changed = [index for index, then in self._stamps.items() if now[index] != then]
        if changed:
            memory = state.columns[MEMORY]
            for index in changed:
                lost = self._memory[index] - memory[index]
                # Memory that a node gains can be used up by each share that has access to it
                self._spare.lower_all(lost if lost > 0 else -lost * self._most_shares)
                self._memory[index] = memory[index]
            again: set[Failure] = set()
            # if only secondaries changed, do its failovers still succeed?
            for index in changed:
                for failure in self._sources.get(index, ()):
                    failovers = self._demands[failure].failovers
                    noted = self._noted.get(failure) is failovers and failure not in self.lost
                    if not (noted and memory[index] > failovers[index]):
                        again.add(failure)
            again |= self._unbounded.union(self._spare.outdated(0))
            again |= {one for index in changed for one in self._of_node.get(index, ())}
            self._evaluate(again, rules, demands)
            for index in self._sources.keys() - self._stamps.keys():
                self._memory[index] = state.columns[MEMORY][index]
                self._stamps[index] = state.stamps[index]
            self._stamps |= {index: state.stamps[index] for index in changed}
        return True

    def with_less_spare(self, memory: float, rules: Rules) -> list[tuple[float, Failure]]:
        """Return (spare memory, failure) for each failure with less spare memory than `memory` MiB.

        The failures are those with an instance that needs a new node, the most critical first. The
        spare memory is -1 if bounds do not decide.
        """
        for failure in self._spare.outdated(memory):
            kind, spare = check_bounds(self._state, failure, self._demands[failure], rules)
            self._spare.note(failure, spare)
            if kind != PROVED_SAFE:
                self.uncertain.add(failure)
        return self._spare.less_than(memory)

    def needs_disk(self, failure: Failure) -> bool:
        """Return whether instances of `failure` need disk on another node."""
        return self._demands[failure].plain > 0

    def failovers_to(self, node: int) -> Iterator[tuple[Failure, float]]:
        """Yield each failure after which instances fail over to `node`, with their MiB, largest
        first.
        """
        return ((failing, -less) for less, _, failing in self._onto.get(node, ()))

    def endangered(self, rules: Rules, instance: Instance, nodes: tuple[int, ...]) -> list[Failure]:
        """Return the failures of the node ``nodes[0]`` that sums do not prove tolerated.

        A new `instance` on `nodes` is counted. Sums prove a failure tolerated if it has only
        failovers and there is memory for them, or if its spare memory covers what `instance` adds.
        """
        return [
            failure
            for failure in self._of_node.get(nodes[0], ())
            if not self._takes_over(failure, rules, instance, nodes)
        ]

    def _takes_over(
        self, failure: Failure, rules: Rules, instance: Instance, nodes: tuple[int, ...]
    ) -> bool:
        demand = self._demands[failure]
        if instance.uses_memory and not (instance.needs_secondary or instance.local):
            group = self._state.cluster.nodes[nodes[0]].group
            if rules.strict or demand.intricate or demand.plain or demand.shares is not None:
                return False
            if rules.recreates(instance) or instance.restricted or instance.name in rules.units:
                return False
            if demand.parts or demand.group is not group:
                return False
            # As in `check_bounds`: more memory moves, and a larger instance closes each target
            # earlier
            larger = max(0, instance.memory - demand.largest)
            lost = instance.memory + len(self._targets[group]) * larger
            return self._spare.least(failure) >= lost
        if instance.uses_memory and not instance.needs_secondary:
            node = nodes[0]
            state, demand = self._state, self._demands[failure]
            group = state.cluster.nodes[node].group
            if rules.strict or demand.intricate or demand.single or demand.failovers:
                return False
            if demand.spindles is not None:
                return False
            if demand.shares is not None or instance.restricted or instance.name in rules.units:
                return False
            if demand.parts or demand.group is not group:
                return False
            targets = self._targets[group]
            if move_rejections(state.cluster, node, targets):
                return False
            if self._created is None or self._created[0] is not instance:
                self._created = instance, not entry_rejection(group, instance)
            need = max(demand.largest, instance.memory)
            size = max(demand.largest_disk, instance.disk)
            memory, disk = state.columns[MEMORY], state.columns[DISK]
            kind, _ = sum_of_shares(
                ((memory[t] - need, disk[t] - size, inf) for t in targets if t not in failure),
                demand.moved + instance.memory - need,
                demand.plain_disk + instance.disk - size,
            )
            return self._created[1] and kind == PROVED_SAFE
        if rules.strict or len(nodes) < 2 or demand.movers or demand.intricate or demand.single:
            return False
        cluster = self._state.cluster
        if move_rejections(cluster, nodes[0], nodes[1:]) or not cluster.nodes[nodes[1]].online:
            return False
        if nodes[1] in failure or (rules.requires_all and failure in self.uncertain):
            return False
        amount = demand.failovers.get(nodes[1], 0) + instance.memory
        return self._state.columns[MEMORY][nodes[1]] - amount > 0
