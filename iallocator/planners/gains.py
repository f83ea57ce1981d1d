"""What each move of a plan is good for: the statistics of the score that it changes."""

from __future__ import annotations

from math import sqrt

from iallocator.scoring.metrics import STATISTICS
from iallocator.scoring.scalar import kernel_of
from iallocator.scoring.score_delta import terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iallocator.model.moves import Move
    from iallocator.model.state import State

    Changes = list[tuple[str, float]]
    """(statistic, by how much its contribution to the score changes)."""

__all__ = ["changes_of_moves"]


def changes_of_moves(state: State, moves: Sequence[Move]) -> list[Changes]:
    """Per move how it changes the statistics of the groups of its nodes, made one by one.

    The moves begin at `state`, which is left as it is.  Cost: every node of the groups that are
    touched once, and then the nodes of each move.
    """
    with state.trial():
        groups = _Groups(state, frozenset().union(*(move.nodes for move in moves)))
        return [_changes(groups, move) for move in moves]


def _changes(groups: _Groups, move: Move) -> Changes:
    """What `move` changes, which is made."""
    before = groups.terms(move.nodes)
    move.apply(groups.state)
    changes = (after - now for now, after in zip(before, groups.terms(move.nodes)))
    return [(one.name, change) for one, change in zip(STATISTICS, changes)]


class _Groups:
    """The groups of `nodes`, each with its kernel."""

    def __init__(self, state: State, nodes: Iterable[int]) -> None:
        self.state = state
        self._nodes = state.cluster.nodes
        groups = {self._nodes[index].group for index in nodes}
        self._kernels = {group: kernel_of(state, group.nodes) for group in groups}

    def terms(self, nodes: Iterable[int]) -> list[float]:
        """Return the terms of the scores of the groups of `nodes` as they are now, added up."""
        found = []
        for group in {self._nodes[index].group for index in nodes}:
            self._kernels[group].follow()
            found.append(terms(self._kernels[group].totals, (), sqrt))
        return [sum(column) for column in zip(*found)]
