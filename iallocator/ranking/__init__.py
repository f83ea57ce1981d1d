"""The table of strategies.  A strategy selects the best of the acceptable placements.

The kernel implements ``score``.  The module of ``lost-allocations`` ranks placements.  All other
strategies are modules with a function ``order`` that ranks nodes, see `iallocator.ranking.base`.
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
"""Name of a strategy -> its module in this package. A module of several strategies reads
`RankQuery.strategy`."""

ALIASES = {
    "utilization": "pacemaker-utilization",
    "balanced": "pacemaker-balanced",
    "minimal": "pacemaker-minimal",
}
"""Short name of a strategy -> its name in `STRATEGIES`."""


SEQUENCED = frozenset(name for name, module in STRATEGIES.items() if module == "pacemaker")
"""The strategies with a function ``sequence``, which returns the order in which several instances
are placed."""


def ranks_nodes(name: str) -> bool:
    """Return whether the strategy `name` ranks nodes, by a function ``order`` of its module."""
    return name not in (SCORE, LOSSES)
