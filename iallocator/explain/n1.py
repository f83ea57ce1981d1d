"""Record the placements that global N+1 rejects, and the node failures that cause that."""

from __future__ import annotations

from iallocator.explain.facts import N1Rejection
from iallocator.model.moves import Move
from iallocator.n1 import UndecidedError
from iallocator.n1.tolerance import FailureTolerance
from iallocator.tolerances import SCORE_TOLERANCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from typing import Any

    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1 import Rules
    from iallocator.scoring.candidates import Candidates

__all__ = ["RecordingTolerance"]

MOST_EXPLAINED = 3
"""The most rejected placements of a group that are explained."""


class RecordingTolerance(FailureTolerance):
    """An N+1 check that records its results for an explanation."""

    def __init__(self, state: State, rules: Rules, *more: Any) -> None:
        super().__init__(state, rules, *more)
        self._cluster = state.cluster
        self._results: dict[tuple[str, tuple[int, ...]], bool] = {}
        self._before: dict[str, Nodes] = {}
        self._rejected: dict[tuple[str, int], set[tuple[int, ...]]] = {}  # by instance and group
        self._undecided: set[tuple[str, tuple[int, ...]]] = set()

    def _forget(self) -> None:
        super()._forget()
        self._results = {}
        self._before = {}
        self._rejected = {}
        self._undecided = set()

    def allows(self, move: Move) -> bool:
        """Return whether N+1 holds after `move`; every placement is checked once."""
        self._renew()
        instance, nodes = move.instance, move.after
        result = self._results.get((instance.name, nodes))
        if result is None:
            undecided = self.rules.effort.undecided
            result = self._results[instance.name, nodes] = super().allows(move)
            self._before[instance.name] = move.before
            if not result:
                home = self._cluster.nodes[nodes[0]].group.index
                self._rejected.setdefault((instance.name, home), set()).add(nodes)
                if self.rules.effort.undecided > undecided:
                    self._undecided.add((instance.name, nodes))
        return result

    def accepts(self, instance: Instance, nodes: Nodes) -> bool:
        """Return whether N+1 allows the move of `instance` from its initial nodes to `nodes`."""
        return self.allows(self._move(instance, nodes))

    def _move(self, instance: Instance, nodes: Nodes) -> Move:
        return Move(instance, self._before.get(instance.name, ()), nodes)

    def clear(self, instance: Instance, placements: Sequence[Nodes]) -> None:
        """Record those of `placements` that N+1 allows as a proof by sums of memory shows.

        All `placements` are of `instance`, and in one group.
        """
        first = self._move(instance, placements[0]) if placements else None
        for nodes in self.proved_allowed(first, placements) if first else ():
            self._results[instance.name, nodes] = True

    def unknown(self, instance: Instance, placements: Collection[Nodes]) -> list[Nodes]:
        """Return the `placements` of `instance` that have not been checked, sorted."""
        self._renew()
        results, name = self._results, instance.name
        return sorted(nodes for nodes in placements if (name, nodes) not in results)

    def decides(self, instance: Instance, nodes: tuple[int, ...]) -> bool:
        """Check a placement; return whether the budget of work was enough to decide it.

        An undecided placement is recorded neither as accepted nor as rejected.
        """
        if self._results.get((instance.name, nodes)):
            return True
        effort = self.rules.effort
        before = effort.undecided
        self.accepts(instance, nodes)
        if effort.undecided == before:
            return True
        del self._results[instance.name, nodes]
        home = self._cluster.nodes[nodes[0]].group.index
        self._rejected[instance.name, home].discard(nodes)
        return False

    def rejected(self, instance: Instance, group: Group) -> set[tuple[int, ...]]:
        """Return the placements of `instance` in `group` that were rejected so far."""
        self._renew()
        return set(self._rejected.get((instance.name, group.index), ()))

    def decided(self, instance: Instance, group: Group) -> list[tuple[int, ...]]:
        """Return the rejected placements of `instance` in `group` that certainly violate N+1."""
        self._renew()
        rejected = self._rejected.get((instance.name, group.index), ())
        return [nodes for nodes in rejected if (instance.name, nodes) not in self._undecided]

    def best_rejected(
        self,
        instance: Instance,
        group: Group,
        score: Callable[[Nodes], float],
        candidates: Candidates,
    ) -> list[tuple[float, Nodes]]:
        """Return (score, nodes) of the best rejected placements in `group`, best first.

        `score` computes the exact score of a placement. The rounded scores of `candidates` select
        the few placements for which that is necessary.
        """
        rejected = self.decided(instance, group)
        rounded = candidates.known_scores(rejected) if len(rejected) > MOST_EXPLAINED else None
        if rounded is not None:
            most = sorted(rounded)[MOST_EXPLAINED - 1] + SCORE_TOLERANCE
            rejected = [nodes for nodes, one in zip(rejected, rounded) if one <= most]
        return sorted((score(nodes), nodes) for nodes in rejected)[:MOST_EXPLAINED]

    def obstacles(
        self, instance: Instance, scored: Sequence[tuple[float, Nodes]]
    ) -> list[N1Rejection]:
        """Return for each placement in `scored` the node failure for which N+1 rejects it."""
        rejections = []
        for score, nodes in scored:
            stranded = self.obstacle(self._move(instance, nodes))
            if stranded is None:
                continue
            name = stranded.instance.name
            try:
                already = name in self.lost_before(stranded.failure)
            except UndecidedError:
                already = False
            failing = " and ".join(self._cluster.node_names(stranded.failure))
            placed, memory = self._cluster.node_names(nodes), stranded.instance.memory
            rejections.append(
                N1Rejection(placed, score, failing, name, memory, stranded.why, already)
            )
        return rejections
