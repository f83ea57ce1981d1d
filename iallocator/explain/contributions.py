"""What a score is made of, and what makes one better than another."""

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
    """Return the statistics as `kernel` has them, before and after alike."""
    return [
        Term(s.name, s.weight, value / s.weight, value / s.weight)
        for s, value in zip(STATISTICS, terms(kernel.totals, (), sqrt))
    ]


class Contributions:
    """The statistics of `kernel` before and after a placement of `instance`.

    `before` is how they stood before the instance was taken off the state.
    """

    def __init__(self, kernel: ScalarKernel, instance: Instance, before: list[Term]) -> None:
        self._kernel = kernel
        self._instance = instance
        self._before = before

    def of(self, nodes: tuple[int, ...]) -> list[Term]:
        """Every term of the score once the instance is on `nodes`."""
        after = self._kernel.terms_of(self._instance, nodes)
        return [
            Term(old.name, old.weight, old.before, new / old.weight)
            for old, new in zip(self._before, after)
        ]

    def score(self, nodes: tuple[int, ...]) -> float:
        """The score once the instance is on `nodes`."""
        return float(sum(self._kernel.terms_of(self._instance, nodes)))


class Difference(NamedTuple):
    """One statistic in two placements."""

    mine: Term
    other: Term

    @property
    def amount(self) -> float:
        """How much more the other placement's score and penalty have; positive speaks for mine."""
        return self.other.contribution_after - self.mine.contribution_after

    @property
    def nothing(self) -> bool:
        """Whether the statistic is 0 wherever one looks."""
        shown = (self.mine.before, self.mine.after, self.other.after)
        return not any(round(value, DECIMALS) for value in shown)


def differences(mine: Placed, other: Placed) -> list[Difference]:
    """All statistics, what makes the largest difference first."""
    terms = [(a, b) for a, b in zip(mine.terms, other.terms) if PENALTY not in (a.name, b.name)]
    if mine.penalty or other.penalty:  # a group without violations has no such term
        before = next((t.before for t in (*mine.terms, *other.terms) if t.name == PENALTY), 0.0)
        both = [Term(PENALTY, 1.0, before, place.penalty) for place in (mine, other)]
        terms.append((both[0], both[1]))
    found = [Difference(a, b) for a, b in terms]
    return sorted(found, key=_weight)


def _weight(difference: Difference) -> tuple[float, float]:
    """Large differences first, then what the placement changed most."""
    mine = difference.mine
    moved = abs(mine.contribution_after - mine.contribution_before)
    return -round(abs(difference.amount), DECIMALS), -round(moved, DECIMALS)


def difference_document(mine: Placed, other: Placed, label: str) -> Json:
    """The comparison of two placements as JSON, without the statistics that are 0 everywhere."""
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
