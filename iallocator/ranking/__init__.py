"""Which of the acceptable placements is best: the table of strategies.

``score`` is what the kernel does.  ``lost-allocations`` has a rank of its own.  Every
other one is a module with a function ``order``, see `iallocator.ranking.base`.
"""

from __future__ import annotations

__all__ = ["ALIASES", "LOSSES", "SCORE", "SEQUENCED", "STRATEGIES", "ranks_nodes"]

SCORE = "score"
LOSSES = "lost-allocations"

STRATEGIES = {
    SCORE: "",
    LOSSES: "lost_allocations",
    "pacemaker-default": "pacemaker",
    "pacemaker-utilization": "pacemaker",
    "pacemaker-balanced": "pacemaker",
    "pacemaker-minimal": "pacemaker",
    "affinity": "affinity",
}
"""Name -> module in this package; several may share one: `RankQuery.strategy` tells them apart."""

ALIASES = {
    "utilization": "pacemaker-utilization",
    "balanced": "pacemaker-balanced",
    "minimal": "pacemaker-minimal",
}
"""Short names -> names in `STRATEGIES`."""


SEQUENCED = frozenset(name for name, module in STRATEGIES.items() if module == "pacemaker")
"""Strategies that say in which order several instances choose, by a function ``sequence``."""


def ranks_nodes(name: str) -> bool:
    """Whether a strategy is a module with ``order``."""
    return name not in (SCORE, LOSSES)
