"""Ways to move an instance, ranked by the strategy of the group that it moves into."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context
    from iallocator.ranking.pairs import OrderedCandidates
    from iallocator.scoring.candidates import Candidates

    Nodes = tuple[int, ...]

__all__ = ["RankedMoves", "rank_moves", "unranked_extra"]


class RankedMoves:
    """Candidates in the order of a strategy.

    ``scores`` are the cluster scores, empty if the candidates are ranked by those;
    ``order`` is what a strategy that ranks nodes has to say, else None.
    """

    __slots__ = ("candidates", "order", "scores")

    def __init__(
        self,
        candidates: Candidates,
        scores: dict[Nodes, float] | None = None,
        order: OrderedCandidates | None = None,
    ) -> None:
        self.candidates = candidates
        self.scores = scores or {}
        self.order = order


def rank_moves(
    context: Context,
    group: Group,
    instance: Instance,
    candidates: Candidates,
    present: Nodes,
    primary_given: bool = False,
) -> RankedMoves:
    """Rank `candidates`, places in `group` for an instance that is off the state now.

    `present` is where it was.  `primary_given`: a strategy has a say in the secondary only.
    """
    name = context.settings_of(group).strategy
    if name == "score":
        return RankedMoves(*context.bonds.priced(instance, candidates))
    from iallocator.ranking import ranks_nodes

    if not ranks_nodes(name):
        from iallocator.ranking.lost_allocations import rank

        return RankedMoves(*rank(context.state, group, instance, candidates))
    from iallocator.ranking.pairs import order_candidates

    ordered = order_candidates(name, context, instance, candidates, present, primary_given)
    return RankedMoves(ordered, ordered.scores, ordered)


def unranked_extra(
    context: Context, group: Group, instance: Instance, present: Nodes, primary: int
) -> dict[str, Any]:
    """What the strategy adds to the entry of ``solutions`` where there is nothing to rank.

    The instance, which is off the state now, can only go from `present` to `primary`.
    """
    name = context.settings_of(group).strategy
    if name == "score":
        return {}
    from iallocator.ranking import ranks_nodes

    if not ranks_nodes(name):
        return {}
    from iallocator.ranking.base import RankQuery, strategy_module

    task = RankQuery(name, context, instance, present)
    return strategy_module(name).order(task, [primary]).extra(primary)
