"""The fewest that are lost when several nodes fail, where more matters than sizes.

Failovers and those who may go to some nodes only (storage pools, migration tags) are packed at
once; what is found is carried out on the state, and counts if its limits hold.
"""

from __future__ import annotations

from iallocator.model.columns import DISK, MEMORY
from iallocator.n1.loss.evacuation import Evacuation
from iallocator.packing import LIMIT, Bins, Item, Packing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.loss.evacuation import Leaver
    from iallocator.n1.rules import Rules
    from iallocator.n1.simulation import Simulation

__all__ = ["JointPacking"]

WORK = 1_000_000
"""Places that all searches together look at: about a second."""


class JointPacking:
    """Searches as long as there is work to spend; `state` must not change meanwhile."""

    __slots__ = ("_leavers", "_others", "_rules", "_state", "_work")

    def __init__(self, state: State, rules: Rules, work: int = WORK) -> None:
        self._state = state
        self._rules = rules
        self._work = work
        self._leavers: dict[int, list[Leaver]] = {}
        self._others: dict[int, tuple[float, ...]] = {}  # see `Evacuation.others`

    def fewer_than(
        self, lost: Sequence[Instance], failing: Sequence[tuple[int, Simulation]]
    ) -> Sequence[Instance]:
        """Fewer than `lost` if the nodes of `failing` fail at once and that is enough; else those.

        `failing`: each node with what plays failures of its group through.
        """
        if self._work <= 0:
            return lost
        failed = {node for node, _ in failing}
        leaving = [(*one, sim) for node, sim in failing for one in self._leaving(node, sim)]
        if sum(len(members) for members, _, nodes, _ in leaving if not nodes - failed) >= len(lost):
            return lost
        nodes = sorted({t for *_, targets, _ in leaving for t in targets} - failed)
        places = self._packed([one[:3] for one in leaving], nodes)
        left = [m for (m, *_), place in zip(leaving, places) if place is None]
        found = [one for members in left for one in members]
        if len(found) < len(lost) and self._holds(leaving, places):
            return found
        return lost

    def _leaving(self, node: int, simulation: Simulation) -> list[Leaver]:
        if node not in self._leavers:
            evacuation = Evacuation(self._state, simulation.kernels, self._rules, simulation, node)
            self._leavers[node] = evacuation.leavers()
            self._others |= evacuation.others
        return self._leavers[node]

    def _packed(self, leaving: Sequence[Leaver], nodes: Sequence[int]) -> list[int | None]:
        """Per item the node that it goes to; None: it is left out."""
        position = {index: b for b, index in enumerate(nodes)}
        columns = self._state.columns
        items = [
            Item(
                item.memory,
                item.disk,
                frozenset(position[t] for t in targets if t in position),
                len(members),
                item.others,
            )
            for members, item, targets in leaving
        ]
        packing = Packing(
            items,
            Bins(
                [columns[MEMORY][index] - 1 for index in nodes],
                [max(0, columns[DISK][index] - 1) for index in nodes],
                [self._others[index] for index in nodes] if self._others else (),
            ),
            limit=min(LIMIT, self._work),
        )
        places = packing.solve().places
        self._work -= packing.work
        return [None if b is None else nodes[b] for b in places]

    def _holds(
        self,
        leaving: Collection[tuple[Sequence[Instance], Item, frozenset[int], Simulation]],
        places: Sequence[int | None],
    ) -> bool:
        """Whether all can be put there by the limits that count; failovers come first."""
        state = self._state
        moving = []
        with state.trial():
            for (members, _, _, simulation), target in zip(leaving, places):
                if target is None:
                    continue
                if members[0].template == "drbd":
                    if not simulation.fails_over(members[0]):
                        return False
                else:
                    moving.append((members, target, simulation))
            return all(simulation.goes(members, target) for members, target, simulation in moving)
