"""The failures of a group before a candidate is placed, kept for as long as that is true."""

from __future__ import annotations

from iallocator.limits.migration import may_not_receive
from iallocator.model.columns import MEMORY
from iallocator.n1.bounds import Demand, Room, known_demand, takes_over, verdict
from iallocator.n1.spare_memory import SpareMemory
from iallocator.n1.verdicts import INFINITE, LOST, SAFE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.bounds import Demands
    from iallocator.n1.rules import Rules

__all__ = ["FailureWatch"]

WORTH_A_ROOM = 8
"""So many failures that are looked at together are worth sorting what their targets can take."""

NOTHING: Mapping[int, float] = {}
"""What fails over where nothing does, or nothing can be saved."""


class FailureWatch:
    """What is known of the failures in a group before any candidate is placed.

    A failure is looked at again only where it may have changed: at a node that has changed
    itself, where mirrors lost the room for what fails over to them, where a lower bound of
    what is spare does not tell any more that it is survived, and where nothing bounds it.

    Attributes
    ----------
    failing:
        The nodes whose failure has to be survived.
    lost:
        Those whose failure sums told to be lost when it was last looked at.
    refuter:
        The node whose failure refuted the last candidate that was rejected.
    """

    __slots__ = (
        "_demands", "_group_targets", "_memory", "_noted", "_onto", "_place", "_sources", "_spare",
        "_stamps", "_state", "_unbounded", "_unsorted", "failing", "lost", "refuter",
    )  # fmt: skip

    def __init__(
        self,
        state: State,
        rules: Rules,
        failing: Sequence[int],
        demands: Demands,
    ) -> None:
        self._state = state
        self.failing = frozenset(failing)
        self.refuter: int | None = None
        self.lost: set[int] = set()
        self._spare = SpareMemory()
        self._place = {node: place for place, node in enumerate(failing)}
        self._demands: dict[int, Demand] = {}
        self._unbounded: set[int] = set()
        self._noted: dict[int, Mapping[int, float]] = {}
        self._onto: dict[int, list[tuple[float, int, int]]] = {}  # -MiB, place, failing node
        self._sources: dict[int, set[int]] = {}  # secondary -> whose failure asks it to take over
        self._unsorted: set[int] = set()
        groups = {state.cluster.nodes[node].group for node in failing}
        self._group_targets = {group.index: rules.targets(state.cluster, group) for group in groups}
        self._ask(failing, rules, demands)
        concerned = self.failing.union(*self._group_targets.values(), self._sources)
        self._memory = {index: state.columns[MEMORY][index] for index in concerned}
        self._stamps = {index: state.stamps[index] for index in concerned}

    def _ask(self, nodes: Collection[int], rules: Rules, demands: Demands) -> None:
        """Look at the failures of `nodes` as the state is now, and note them."""
        rooms: dict[int, Room] = {}
        for node in nodes:
            group = self._state.cluster.nodes[node].group.index
            targets = self._group_targets[group]
            if len(nodes) >= WORTH_A_ROOM and targets and group not in rooms:
                rooms[group] = Room(self._state, targets)
            self._note(node, self._asked(node, rules, targets, rooms.get(group), demands))
        for secondary in self._unsorted:
            self._onto[secondary].sort()
        self._unsorted.clear()

    def _asked(
        self,
        node: int,
        rules: Rules,
        targets: Sequence[int],
        room: Room | None,
        demands: Demands,
    ) -> Mapping[int, float]:
        """What fails over from `node` if that is survived, by secondary; notes what is spare."""
        state = self._state
        demand = known_demand(state, node, rules, demands)
        self._demand(node, demand)
        kind, spare = verdict(state, node, demand, rules, targets, room)
        self._spare.forget(node)
        bounded = kind == SAFE and spare >= 0 and demand.shares is None
        self._unbounded.discard(node)
        if demand.intricate or (demand.movers and not bounded):
            self._unbounded.add(node)
        (self.lost.add if kind == LOST else self.lost.discard)(node)
        if kind == LOST and not (rules.strict or rules.exact):
            return NOTHING
        if kind != SAFE:
            spare = -1
        if spare != INFINITE and (demand.movers or demand.intricate or not rules.exact):
            self._spare.note(node, spare)
        return demand.failovers

    def _demand(self, node: int, demand: Demand) -> None:
        """What the failure of `node` asks for from now on."""
        before = self._demands.get(node)
        if before is demand:
            return
        for secondary in before.failovers if before is not None else ():
            self._sources[secondary].discard(node)
        for secondary in demand.failovers:
            self._sources.setdefault(secondary, set()).add(node)
        self._demands[node] = demand

    def _note(self, node: int, failovers: Mapping[int, float]) -> None:
        """Count from now on with `failovers` of `node`, in the place of those before."""
        place, before = self._place[node], self._noted.get(node, NOTHING)
        if failovers is before:
            return
        for secondary, amount in before.items():
            self._onto[secondary].remove((-amount, place, node))
        for secondary, amount in failovers.items():
            self._onto.setdefault(secondary, []).append((-amount, place, node))
            self._unsorted.add(secondary)
        self._noted[node] = failovers

    def catch_up(
        self,
        state: State,
        rules: Rules,
        failing: Sequence[int],
        demands: Demands,
    ) -> bool:
        """Whether these failures are as noted, or could be noted anew where nodes have changed."""
        if state is not self._state or rules.strict:
            return False
        if self.failing != frozenset(failing):
            return False
        now = state.stamps
        changed = [index for index, then in self._stamps.items() if now[index] != then]
        if changed:
            self._renew(changed, rules, demands)
        return True

    def _renew(self, changed: Sequence[int], rules: Rules, demands: Demands) -> None:
        """Look again at the failures that nodes which have `changed` are concerned by."""
        state = self._state
        for index in changed:
            memory = state.columns[MEMORY][index]
            self._spare.vanish(self._memory[index] - memory)
            self._memory[index] = memory
        concerned = {node for index in changed for node in self._sources.get(index, ())}
        again = {node for node in concerned if not self._still_saved(node, changed)}
        again |= self._unbounded.union(self._spare.doubtful(0))
        again |= self.failing.intersection(changed)
        self._ask(again, rules, demands)
        for index in self._sources:
            self._memory.setdefault(index, state.columns[MEMORY][index])
            self._stamps.setdefault(index, state.stamps[index])
        self._stamps |= {index: state.stamps[index] for index in changed}

    def _still_saved(self, node: int, changed: Sequence[int]) -> bool:
        """Whether what fails over from `node` still does: only where it goes has changed."""
        demand = self._demands[node]
        noted = self._noted.get(node) is demand.failovers
        return noted and takes_over(self._state, demand, demand.failovers.keys() & changed)

    def movers(self, taken: float, rules: Rules) -> list[tuple[float, int]]:
        """(spare memory, node) of the failures where something needs a new node, if `taken` counts.

        Those that have less than `taken` MiB to spare, the most critical first; -1 where the
        cheap test does not tell.
        """
        for node in self._spare.doubtful(taken):
            targets = self._group_targets[self._state.cluster.nodes[node].group.index]
            _, spare = verdict(self._state, node, self._demands[node], rules, targets)
            self._spare.note(node, spare)
        return self._spare.less_than(taken)

    def needs_disk(self, node: int) -> bool:
        """Whether what leaves `node` when it fails needs disk elsewhere."""
        return self._demands[node].plain > 0

    def onto(self, node: int) -> Iterator[tuple[int, float]]:
        """(failing node, MiB that fail over from there to `node`), the most first."""
        return ((failing, -less) for less, _, failing in self._onto.get(node, ()))

    def takes_over(self, rules: Rules, instance: Instance, nodes: tuple[int, ...]) -> bool:
        """Whether the new primary's failure is plainly survived: only failovers, and room."""
        demand = self._demands[nodes[0]]
        if rules.strict or len(nodes) < 2 or demand.movers or demand.intricate or demand.single:
            return False
        cluster = self._state.cluster
        if may_not_receive(cluster, nodes[0], nodes[1:]) or not cluster.nodes[nodes[1]].online:
            return False
        amount = demand.failovers.get(nodes[1], 0) + instance.memory
        return self._state.columns[MEMORY][nodes[1]] - amount > 0
