"""Ways to move an instance, ranked by the strategy of the group that it moves into."""

from __future__ import annotations

from iallocator.placement.results import RankedMoves
from iallocator.ranking import ranks_nodes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.placement.working import Working
    from iallocator.scoring.candidates import Candidates


__all__ = ["rank_moves", "unranked_extra"]


def rank_moves(
    working: Working,
    strategy: str,
    group: Group,
    instance: Instance,
    candidates: Candidates,
    present: Nodes,
    primary_given: bool = False,
) -> RankedMoves:
    """Rank `candidates`, places in `group` for an instance that is off the state now.

    `strategy` is the name of the group's, `present` where the instance was.
    `primary_given`: a strategy has a say in the secondary only.
    """
    if strategy == "score":
        return RankedMoves(*working.bonds.with_soft_costs(instance, candidates))

    if not ranks_nodes(strategy):
        from iallocator.ranking.lost_allocations import rank

        return RankedMoves(*rank(working.state, group, instance, candidates, working.bonds))
    from iallocator.ranking.pairs import order_candidates

    ordered = order_candidates(strategy, working, instance, candidates, present, primary_given)
    return RankedMoves(ordered, ordered.scores, ordered)


def unranked_extra(
    working: Working, name: str, instance: Instance, present: Nodes, primary: int
) -> dict[str, Any]:
    """What a strategy adds to the entry of ``solutions`` where there is nothing to rank.

    `name` is that of the strategy.  The instance, which is off the state now, can only
    go from `present` to `primary`.
    """
    if name == "score":
        return {}

    if not ranks_nodes(name):
        return {}
    from iallocator.ranking.base import RankQuery, strategy_module

    task = RankQuery(name, working, instance, present)
    return strategy_module(name).order(task, [primary]).extra(primary)
