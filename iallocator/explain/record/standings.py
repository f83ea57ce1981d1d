"""How every node stands that could take an instance: its best placement by the rank in use."""

from __future__ import annotations

from iallocator.explain.facts import Standing, scored
from iallocator.placement.results import penalty_in
from iallocator.ranking.lost_allocations import shown
from iallocator.scoring.candidates import keep_best

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Cluster
    from iallocator.ranking.pairs import OrderedCandidates
    from iallocator.scoring.candidates import Candidates, NodeBest


__all__ = ["best_of_nodes", "standings"]

MANY = 100_000
"""Placements from which on only the best beside each primary is looked at."""


def standings(
    cluster: Cluster,
    candidates: Candidates,
    score_of: Callable[[Any, Nodes], float],
    order: OrderedCandidates | None,
    rejected: Collection[Nodes],
    unchecked: Collection[Nodes],
) -> dict[str, Standing]:
    """Node -> its best placement of those that every node allows; none: no entry.

    `score_of` gives the score of a placement by its rank and nodes.  Placements that N+1
    `rejected` count only where a node has no other; of those `unchecked` that is not known.
    With an `order`, what a strategy says stands in the place of the score.
    """
    best = best_of_nodes(candidates, rejected)
    every = {nodes for _, _, nodes in best.values()}
    alone = candidates.feasible - len(rejected) < 2
    names = cluster.node_names(list(best))
    found = {}
    for name, (index, (lost, rank, nodes)) in zip(names, best.items()):
        score, penalty = None, 0.0
        if order is not None:
            told = _criteria(order, nodes, index)
        elif isinstance(rank, tuple):
            told = f"lost allocations {shown(rank)}"
        elif alone and len(every) < 2:
            told = "the only placement possible"
        else:
            score = score_of(rank, nodes)
            penalty = penalty_in(rank, score)
            told = f"score {scored(score, penalty)}"
            told += " for violated soft constraints" if penalty else ""
        told += "; N+1 not checked" if nodes in unchecked else ""
        found[name] = Standing(cluster.node_names(nodes), told, score, lost, penalty)
    return found


def best_of_nodes(candidates: Candidates, rejected: Collection[Nodes]) -> dict[int, NodeBest]:
    """Return for each node the best placement with it; of very many only the best in each row."""
    if candidates.feasible <= MANY:
        return candidates.best_of_nodes(rejected)
    best: dict[int, NodeBest] = {}
    keep_best(best, candidates.best(), rejected)
    return best


def _criteria(order: OrderedCandidates, nodes: Nodes, index: int) -> str:
    """What a strategy goes by for node `index` in its role."""
    if index != nodes[0]:
        found = order.second(nodes[0]).criteria(index)
    else:
        found = [] if order.first is None else order.first.criteria(index)
    return ", ".join(f"{rule} {value}" for rule, value in found if rule != "name")
