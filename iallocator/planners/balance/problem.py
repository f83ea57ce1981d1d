"""What is balanced: the nodes, the instances that may move, and the rules for it."""

from __future__ import annotations

from iallocator.model.moves import traffic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.constraints.relations import Relations
    from iallocator.model.instance import Instance
    from iallocator.model.node_view import Capacities
    from iallocator.model.state import State
    from iallocator.n1.baseline import Baseline
    from iallocator.planners.balance.move_kinds import MoveRules
    from iallocator.planners.balance.scan.scan import MoveScan

__all__ = ["BalanceProblem"]


class BalanceProblem:
    """What is balanced: the nodes of `scope` in `state`, `instances` that may move.

    `fixed` holds the capacities of every node of the cluster, `relations` the bonds between
    instances, `baseline` the failures that must be survivable in the end.  The order of
    `scope` and `instances` decides between equals.  Scores are worked out relative to `centres`,
    by default the means when a scan begins: with the same ones two agree to the last bit.
    """

    def __init__(
        self,
        state: State,
        scope: Sequence[int],
        fixed: Capacities,
        instances: Sequence[Instance],
        rules: MoveRules,
        relations: Relations | None = None,
        baseline: Baseline | None = None,
        centres: Sequence[float] | None = None,
    ) -> None:
        self.state = state
        self.centres = centres
        self.baseline = baseline
        self.relations = relations
        self.scope = scope
        self.fixed = fixed
        self.instances = instances
        self.rules = rules

    def scan(self) -> MoveScan:
        """All moves, as the state is now."""
        scan = self._scan(self.rules, self.relations)
        scan.set_prices(traffic)
        return scan

    def relaxed(self) -> MoveScan:
        """All moves, those that only soft limits or bonds forbid among them."""
        return self._scan(self.rules.without_soft_limits(), None)

    def _scan(self, rules: MoveRules, relations: Relations | None) -> MoveScan:
        # loads the array library, which is not needed where no move is looked for
        from iallocator.planners.balance.scan.scan import MoveScan

        return MoveScan(
            self.state, self.scope, self.fixed, self.instances, rules, relations, self.centres
        )

    def means(self) -> Sequence[float]:
        """The centres of a scan that begins now."""
        from iallocator.planners.balance.scan.arrays import NodeTable

        return self.centres or NodeTable(self.state, self.scope, self.fixed).centres
