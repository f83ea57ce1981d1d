"""The failures of a group before a candidate is placed, kept for as long as that is true."""

from __future__ import annotations

from iallocator.limits.migration import may_not_receive
from iallocator.model.columns import MEMORY
from iallocator.n1.bounds import Demand, Room, demand_of, takes_over, verdict
from iallocator.n1.verdicts import INFINITE, LOST, SAFE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.rules import Rules

    Demands = dict[int, tuple[int, Demand | None]]
    """Node -> its revision, and what its failure asks for then."""

__all__ = ["FailureWatch"]

NOTHING: Mapping[int, float] = {}
"""What fails over where nothing does, or nothing can be saved."""


class FailureWatch:
    """What is known of the failures in a group before any candidate is placed.

    Attributes
    ----------
    failing:
        The nodes whose failure has to be survived.
    movers:
        (spare memory, node) of the failures where something needs a new node, the most
        critical first; -1 where the cheap test does not tell.
    refuter:
        The node whose failure refuted the last candidate that was refused.
    """

    __slots__ = (
        "_demands", "_noted", "_onto", "_place", "_revisions", "_state", "_unsorted", "_wide",
        "failing", "movers", "refuter",
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
        self.movers: list[tuple[float, int]] = []
        self._wide = rules.strict
        self._place = {node: place for place, node in enumerate(failing)}
        self._demands: dict[int, Demand] = {}
        self._noted: dict[int, Mapping[int, float]] = {}
        self._onto: dict[int, list[tuple[float, int, int]]] = {}  # -MiB, place, failing node
        self._unsorted: set[int] = set()
        rooms: dict[int, Room] = {}
        for node in failing:
            group = state.cluster.nodes[node].group
            targets = rules.targets(state.cluster, group)
            if group.index not in rooms and targets:
                rooms[group.index] = Room(state, targets)
            self._note(node, self._asked(node, rules, targets, rooms.get(group.index), demands))
        concerned = self.failing.union(*(room.members for room in rooms.values()), self._onto)
        self._revisions = {} if state.trying else {i: state.revisions[i] for i in concerned}
        self.movers.sort()
        self._sort()

    def _sort(self) -> None:
        """Bring in order what has been noted."""
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
        """What fails over from `node` if that can be survived, by secondary; notes `movers`."""
        state = self._state
        revision, demand = demands.get(node, (-1, None))
        if demand is None or revision != state.revisions[node]:
            demand = demand_of(state, node, rules)
            demands[node] = state.revisions[node], demand
        self._demands[node] = demand
        self._wide |= demand.movers > 0 or demand.intricate
        kind, spare = verdict(state, node, demand, rules, targets, room)
        if kind == LOST and not (rules.strict or rules.exact):
            return NOTHING
        if kind != SAFE:
            spare = -1
        if spare != INFINITE and (demand.movers or not rules.exact):
            self.movers.append((spare, node))
        return demand.failovers

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
        if state is not self._state or state.trying or not self._revisions:
            return False
        if self.failing != frozenset(failing):
            return False
        now = state.revisions
        changed = [index for index, then in self._revisions.items() if now[index] != then]
        return not changed or self._renewed(changed, rules, demands)

    def _renewed(
        self,
        changed: Collection[int],
        rules: Rules,
        demands: Demands,
    ) -> bool:
        """Look again at the failures that ask something of the nodes that have `changed`, or are.

        False where that is not enough: what needs a new node depends on all nodes.
        """
        state = self._state
        if self._wide:
            return False
        for node, demand in list(self._demands.items()):
            if node in changed or not self._still_saved(node, demand, changed):
                targets = rules.targets(state.cluster, state.cluster.nodes[node].group)
                self._note(node, self._asked(node, rules, targets, None, demands))
        self._sort()
        self._revisions |= {index: state.revisions[index] for index in (*changed, *self._onto)}
        return not self._wide

    def _still_saved(self, node: int, demand: Demand, changed: Collection[int]) -> bool:
        """Whether a failure is survived as before: nothing else has changed than where it goes."""
        concerned = demand.failovers.keys() & changed
        if not concerned:
            return True
        noted = self._noted.get(node) is demand.failovers
        return noted and takes_over(self._state, demand, concerned)

    def onto(self, node: int) -> Iterator[tuple[int, float]]:
        """(failing node, MiB that fail over from there to `node`), the most first."""
        return ((failing, -less) for less, _, failing in self._onto.get(node, ()))

    def takes_over(self, rules: Rules, instance: Instance, nodes: tuple[int, ...]) -> bool:
        """Whether the new primary's failure is plainly survived: only failovers, and room."""
        demand = self._demands[nodes[0]]
        if rules.strict or len(nodes) < 2 or demand.movers or demand.intricate or demand.single:
            return False
        if may_not_receive(self._state.cluster, nodes[0], nodes[1:]):
            return False
        amount = demand.failovers.get(nodes[1], 0) + instance.memory
        return self._state.columns[MEMORY][nodes[1]] - amount > 0
