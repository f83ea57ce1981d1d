"""The problem that balancing solves: the nodes, the instances that may move, and the rules."""

from __future__ import annotations

from iallocator.model.moves import traffic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.constraints.relations import Relations
    from iallocator.model.instance import Instance
    from iallocator.model.node_view import Capacities
    from iallocator.model.state import State
    from iallocator.n1.tolerance import FailureTolerance
    from iallocator.planners.balance.move_kinds import MoveRules
    from iallocator.planners.balance.scan.scan import MoveScan

__all__ = ["BalanceProblem"]


class BalanceProblem:
    """The nodes of `scope` in `state`, and the `instances` that can move between them.

    Parameters
    ----------
    scope, instances:
        Their order decides between moves with equal scores.
    fixed:
        The capacities of every node of the cluster.
    rules:
        Which moves are allowed.
    relations:
        The affinity constraints of the instances.
    failures:
        The failures, as measured initially: they must be tolerated in the end.
    centres:
        Scores are computed relative to these numbers; by default, to the means when a scan begins.
        Two scans with the same centres compute bit-identical scores.
    """

    def __init__(
        self,
        state: State,
        scope: Sequence[int],
        fixed: Capacities,
        instances: Sequence[Instance],
        rules: MoveRules,
        relations: Relations | None = None,
        failures: FailureTolerance | None = None,
        centres: Sequence[float] | None = None,
    ) -> None:
        self.state = state
        self.centres = centres
        self.failures = failures
        self.relations = relations
        self.scope = scope
        self.fixed = fixed
        self.instances = instances
        self.rules = rules

    def scan(self) -> MoveScan:
        """Return a scan of all moves in the present state."""
        scan = self._scan(self.rules, self.relations)
        scan.set_prices(traffic)
        return scan

    def relaxed(self) -> MoveScan:
        """Return a scan that includes moves which only soft limits or affinity forbid."""
        return self._scan(self.rules.without_soft_limits(), None)

    def _scan(self, rules: MoveRules, relations: Relations | None) -> MoveScan:
        # loads numpy, which is not needed if no move is searched
        from iallocator.planners.balance.scan.scan import MoveScan

        return MoveScan(
            self.state, self.scope, self.fixed, self.instances, rules, relations, self.centres
        )

    def means(self) -> Sequence[float]:
        """Return the centres of a scan that begins in the present state."""
        from iallocator.planners.balance.scan.arrays import NodeTable

        return self.centres or NodeTable(self.state, self.scope, self.fixed).centres
