"""Split scores into their statistics, and compare two scores statistic by statistic."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

from iallocator.aliases import Json
from iallocator.explain.facts import DECIMALS, PENALTY, Placed, Term
from iallocator.scoring.metrics import STATISTICS, terms

if TYPE_CHECKING:
    from iallocator.model.instance import Instance
    from iallocator.scoring.scalar import ScalarKernel

__all__ = [
    "Contributions",
    "Difference",
    "difference_document",
    "differences",
    "standing",
]


def standing(kernel: ScalarKernel) -> list[Term]:
    """Return the present statistics of `kernel`, with equal values before and after."""
    return [
        Term(s.name, s.weight, value / s.weight, value / s.weight)
        for s, value in zip(STATISTICS, terms(kernel.totals, (), sqrt))
    ]


class Contributions:
    """The statistics of `kernel` before and after a placement of `instance`.

    `before` has their values before the instance was removed from the state.
    """

    def __init__(self, kernel: ScalarKernel, instance: Instance, before: list[Term]) -> None:
        self._kernel = kernel
        self._instance = instance
        self._before = before

    def of(self, nodes: tuple[int, ...]) -> list[Term]:
        """Return every term of the score after placing the instance on `nodes`."""
        after = self._kernel.terms_of(self._instance, nodes)
        return [
            Term(old.name, old.weight, old.before, new / old.weight)
            for old, new in zip(self._before, after)
        ]

    def score(self, nodes: tuple[int, ...]) -> float:
        """Return the score after placing the instance on `nodes`; lower is better."""
        return float(sum(self._kernel.terms_of(self._instance, nodes)))


class Difference(NamedTuple):
    """One statistic in two placements."""

    mine: Term
    other: Term

    @property
    def amount(self) -> float:
        """Return by how much the term favours this placement over the other, in units of score."""
        return self.other.contribution_after - self.mine.contribution_after

    @property
    def nothing(self) -> bool:
        """True if the statistic is 0 before and in both placements."""
        shown = (self.mine.before, self.mine.after, self.other.after)
        return not any(round(value, DECIMALS) for value in shown)


def differences(mine: Placed, other: Placed) -> list[Difference]:
    """Return all statistics, those with the largest difference first."""
    terms = [(a, b) for a, b in zip(mine.terms, other.terms) if PENALTY not in (a.name, b.name)]
    if mine.penalty or other.penalty:  # a group without violations has no such term
        before = next((t.before for t in (*mine.terms, *other.terms) if t.name == PENALTY), 0.0)
        both = [Term(PENALTY, 1.0, before, place.penalty) for place in (mine, other)]
        terms.append((both[0], both[1]))
    found = [Difference(a, b) for a, b in terms]
    return sorted(found, key=_weight)


def _weight(difference: Difference) -> tuple[float, float]:
    """Return a key: large differences first, then the statistics that changed most."""
    mine = difference.mine
    moved = abs(mine.contribution_after - mine.contribution_before)
    return -round(abs(difference.amount), DECIMALS), -round(moved, DECIMALS)


def difference_document(mine: Placed, other: Placed, label: str) -> Json:
    """Return the comparison of two placements as JSON, without statistics that are 0 in both."""
    found = differences(mine, other)
    return {
        "with": label,
        "group": other.group,
        "nodes": other.nodes,
        "score": round(other.score, DECIMALS),
        **({"penalty": other.penalty} if other.penalty else {}),
        "difference": round(other.total - mine.total, DECIMALS),
        "statistics": [
            {
                "name": one.mine.name,
                "weight": one.mine.weight,
                "before": round(one.mine.before, DECIMALS),
                "answer": round(one.mine.after, DECIMALS),
                "other": round(one.other.after, DECIMALS),
                "contribution_before": round(one.mine.contribution_before, DECIMALS),
                "contribution_answer": round(one.mine.contribution_after, DECIMALS),
                "contribution_other": round(one.other.contribution_after, DECIMALS),
                "difference": round(one.amount, DECIMALS),
            }
            for one in found
            if not one.nothing
        ],
        "zero": sorted(one.mine.name for one in found if one.nothing),
    }
