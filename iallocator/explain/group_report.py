"""What a node group offered, and what stood in the way, as data."""

from __future__ import annotations

from dataclasses import dataclass, field

from iallocator.explain.facts import NodeReport, Placed, Standing, Unsurvived

__all__ = ["GroupReport"]


@dataclass(slots=True)
class GroupReport:
    """A node group: what it offers, and what stands in the way.

    Attributes
    ----------
    obstacle:
        Why the whole group is out; "" if its nodes were looked at.
    placements:
        The best ones, best first.
    successes, failures:
        As in the response.
    unsurvived:
        The best of the placements that global N+1 rejected.
    closest:
        Where nothing fits: which node came closest and what it lacks.
    verdict:
        Why it comes after the group of the answer, or "".
    strategy:
        The strategy that ranked its nodes, where one did; else "".
    ranking:
        Its order of the nodes, each with the criteria in their order.
    rejected_by_strategy:
        Node -> why the strategy will not have it.
    standings:
        Node -> how it stands, of those that could take the instance by their limits.
    """

    name: str
    uuid: str
    alloc_policy: str
    obstacle: str = ""
    by_losses: bool = False
    strategy: str = ""
    ranking: list[tuple[str, list[tuple[str, str]]]] = field(default_factory=list)
    rejected_by_strategy: dict[str, str] = field(default_factory=dict)
    placements: list[Placed] = field(default_factory=list)
    successes: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    nodes: list[NodeReport] = field(default_factory=list)
    unsurvived: list[Unsurvived] = field(default_factory=list)
    closest: str = ""
    verdict: str = ""
    standings: dict[str, Standing] = field(default_factory=dict)

    @property
    def ranked_by(self) -> str:
        """What the placements were ranked by."""
        return self.strategy or ("lost_allocations" if self.by_losses else "score")
