"""The largest differences of computed numbers that count as equal, and the largest numbers.

Each constant names what is compared, with its unit and the reason for its size.  A tolerance of a
single calculation is defined beside it, for example `iallocator.scoring.metrics.VARIANCE_ROUNDING`.
"""

from __future__ import annotations

__all__ = [
    "AMOUNT_TOLERANCE",
    "BOUND_TOLERANCE",
    "GAIN_TOLERANCE",
    "LARGEST_LOAD",
    "LARGEST_NUMBER",
    "LEAST_DIVISOR",
    "LEAST_GAIN",
    "LEAST_GAIN_FROM",
    "LEAST_SCORE",
    "MOST_KERNEL_RENEWALS",
    "SCORE_DECIMALS",
    "SCORE_TOLERANCE",
    "SPELLING_SIMILARITY",
    "VARIANCE_TOLERANCE",
    "WRITTEN_DECIMALS",
]  # fmt: skip

SCORE_TOLERANCE = 1e-9
"""Scores, no unit: those that differ by less are equal.

A score is a sum of some hundred terms of about 1, so rounding moves it by about 1e-13, and scores
are printed and compared with eight decimals.
"""

MOST_KERNEL_RENEWALS = 63
"""Renewals of the sums of a score after changes; then all sums are computed again.

Each renewal adds a rounding error of about 1e-16 of the sum.
"""

SCORE_DECIMALS = 10
"""Scores and affinities are rounded to so many decimals before they are compared.

Values of equal placements, which are summed in different orders, are then equal, too.
"""

WRITTEN_DECIMALS = 8
"""Decimals of a score in answers and documents; as of hail."""

LEAST_SCORE = 1e-9
"""Scores, no unit: the default of ``--min-score``, at which balancing ends; as of hbal."""

LEAST_GAIN, LEAST_GAIN_FROM = 0.01, 0.1
"""Scores, no unit: the defaults of ``--min-gain`` and ``--min-gain-limit``; as of hbal.

A move must gain at least `LEAST_GAIN` once the score is at or below `LEAST_GAIN_FROM`.
"""

GAIN_TOLERANCE = 1e-10
"""Gains of a move, as a share of the score, or of 1 if that is more: a smaller gain is rounding.

Less than `SCORE_TOLERANCE`, because both scores of a gain come from the same scan.
"""

VARIANCE_TOLERANCE = 1e-12
"""Variances, and sums of what moves add to them, as a share of their size: less is rounding.

A score shows the root of a variance, so that 1e-12 is 1e-6 of a deviation.
"""

BOUND_TOLERANCE = 1e-6
"""Lower bounds of scores, as a share of the score: by so much rounding may put them too high.

A deviation that becomes 0 is the root of a variance of `VARIANCE_TOLERANCE` at most, which is a
rounding error.
"""

AMOUNT_TOLERANCE = 1e-9
"""Virtual cpus, and shares of an amount or a result: those that differ by less are equal.

A node of 10 cpus with a ratio of 4.1 allows 41 virtual cpus, not 40.99999999999999.
"""

LEAST_DIVISOR = 1e-6
"""Ratios and factors in the input, no unit: their minimum, so that quotients stay finite."""

LARGEST_NUMBER = 2**53
"""Numbers in the input, in any unit: beyond this, floats skip whole numbers."""

LARGEST_LOAD = 1e9
"""The utilisation of a node or an instance, no unit: sums of squares stay far from infinity."""

SPELLING_SIMILARITY = 0.6
"""Two words, no unit: their minimum similarity, from 0 to 1, for a spelling suggestion."""
