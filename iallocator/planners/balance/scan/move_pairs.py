"""The scores after pairs of moves, all at once.

A move changes the statistics of a few nodes.  Of two moves together the changes add up,
but for the squares at nodes that both change: there the product of the changes counts
twice.  So all pairs follow from one matrix product per statistic.  That is exact but
for what is no sum over instances: the memory reserved for the worst peer, and tags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.model.node_view import NodeView
from iallocator.scoring.metrics import DOMAINS, STATISTICS
from iallocator.scoring.score_delta import spread, values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Floats
    from iallocator.model.moves import ElementaryMove, Move
    from iallocator.planners.balance.scan.node_table import NodeTable

__all__ = ["pair_scores"]

BLOCK = 16_384
"""Pairs that are looked at together: 128 KiB in each array on the way."""


def pair_scores(table: NodeTable, firsts: Sequence[Move], seconds: Sequence[Move]) -> Floats:
    """Matrix of the scores after one of `firsts` and one of `seconds`.

    Infinite for two moves of the same instance.  Cost: moves × nodes per statistic for
    the changes, firsts × seconds for the scores.
    """
    known = {_key(move): row for row, move in enumerate(firsts)}
    others = [move for move in seconds if _key(move) not in known]
    rows = list(range(len(firsts)))
    known |= {_key(move): len(rows) + row for row, move in enumerate(others)}
    deltas, conflicts = _changes(table, [*firsts, *others])
    follow = [known[_key(move)] for move in seconds]
    one, domains = deltas[:, rows], conflicts[rows]
    other, more_domains = deltas[:, follow], conflicts[follow]
    total: Floats = np.zeros((len(firsts), len(seconds)))
    weights: dict[bytes, float] = {}
    leaders: dict[bytes, int] = {}
    for k, statistic in enumerate(STATISTICS):
        if statistic.spread:  # those that change alike are looked at once
            key = table.values[k].tobytes() + one[k].tobytes() + other[k].tobytes()
            leaders.setdefault(key, k)
            weights[key] = weights.get(key, 0.0) + statistic.weight
            continue
        added, more = one[k].sum(axis=1), other[k].sum(axis=1)
        if k == DOMAINS:
            added, more = domains, more_domains
        total += statistic.weight * (table.totals.sums[k] + added[:, None] + more[None, :])
    for key, k in leaders.items():
        _add_deviations(total, weights[key], table, k, one[k], other[k])
    names = {move.instance.name: k for k, move in enumerate((*firsts, *seconds))}
    numbers = [
        np.array([names[move.instance.name] for move in moves]) for moves in (firsts, seconds)
    ]
    total[numbers[0][:, None] == numbers[1][None, :]] = np.inf
    return total


def _key(move: Move) -> tuple[str, tuple[ElementaryMove, ...]]:
    """Return what distinguishes a move from all others on one state."""
    return move.instance.name, move.steps


def _add_deviations(
    total: Floats, weight: float, table: NodeTable, k: int, one: Floats, other: Floats
) -> None:
    """Add `weight` times the deviation of a statistic after each pair of changes, moves × nodes.

    Some rows at a time, so that what is on the way stays in the cache.
    """
    values, totals = table.values[k], table.totals
    first, second = [(2 * values * change + change * change).sum(axis=1) for change in (one, other)]
    added, more = one.sum(axis=1), other.sum(axis=1)
    products = one @ other.T
    height = max(1, BLOCK // max(1, len(other)))
    for start in range(0, len(one), height):
        rows = slice(start, start + height)
        square = totals.squares[k] + first[rows, None] + second[None, :]
        square += 2 * products[rows]
        sums = totals.sums[k] + added[rows, None] + more[None, :]
        variance = np.maximum(spread(sums, square, totals.counts[k]), 0.0)
        total[rows] += weight * np.sqrt(variance)


def _changes(table: NodeTable, moves: Sequence[Move]) -> tuple[Floats, Floats]:
    """Statistic × move × node, what is added; and per move to the conflicts in domains."""
    state = table.state
    where: list[tuple[int, int]] = []
    rows: list[tuple[float, ...]] = []
    reserved: list[float] = []
    domains: Floats = np.zeros(len(moves))
    before = state.domain_conflicts(table.group)
    for number, move in enumerate(moves):
        with state.trial():
            move.apply(state)
            for index in move.nodes:
                where.append((number, table.position[index]))
                rows.append(state.row(index))
                reserved.append(state.reserved[index])
            if state.domains:
                domains[number] = state.domain_conflicts(table.group) - before
    deltas: Floats = np.zeros((len(STATISTICS), len(moves), len(table.nodes)))
    number, position = np.array(where, dtype=np.intp).T
    view = NodeView(
        list(np.array(rows, dtype=np.float64).T),
        list(table.fixed[:, position]),
        np.array(reserved, dtype=np.float64),
    )
    for k, value in enumerate(values(view, table.centres)):
        deltas[k, number, position] = value - table.values[k, position]
    return deltas, domains
