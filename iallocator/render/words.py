"""Words for statistics, reasons of rejection, and durations."""

from __future__ import annotations

from iallocator.constraints.table import REASONS as LIMITS
from iallocator.scoring import metrics
from iallocator.units import HOUR

__all__ = ["GAINS", "REASON_WORDS", "RESULT_WORDS", "STATISTIC_WORDS", "duration_words"]

STATISTIC_WORDS = {
    **{statistic.name: statistic.more for statistic in metrics.STATISTICS},
    "penalty": "soft constraints are violated",
}
"""Statistic -> the change of the cluster that increases the statistic, in words."""

GAINS = {statistic.name: statistic.less for statistic in metrics.STATISTICS}
"""Statistic -> the improvement of the cluster that decreases the statistic, in words."""

REASON_WORDS = {
    **{name: words for name, words in LIMITS.items() if name != "FailSpindles"},
    "FailSpindles": LIMITS["FailSpindles"],
    "FailStrategy": "rejected by the strategy",
}
"""Reason of a rejection -> its subject in words, in the order in which `capacity` lists them."""

RESULT_WORDS = {"refused": "rejected"}
"""Result of a node in documents -> another word for it in texts and pages."""


def duration_words(seconds: float) -> str:
    """Return a duration in seconds, minutes or hours."""
    if seconds < 99.5:  # 99 or less when it is rounded
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 99.5 * 60 else f"{seconds / HOUR:.1f} h"
