"""Relations between instances in the form in which scans of many moves heed them."""

from __future__ import annotations

from iallocator.model.constraint import APART, TOGETHER
from iallocator.planners.balance.scan.affinity_table import Tie, Ties

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.constraints.relations import Relations

__all__ = ["ties_of"]


def ties_of(relations: Relations | None) -> Ties | None:
    """What keeps instances together, apart, or off nodes; None if nothing does."""
    if relations is None:
        return None
    ties = [
        Tie(
            bond.instance, bond.other, apart=bond.kind == APART, must=bond.must,
            domain=bond.domain, weight=bond.weight,
        )
        for bond in relations.constraints
        if bond.kind in (APART, TOGETHER)
    ]  # fmt: skip
    if not ties and relations.locations is None:
        return None
    nodes = relations.cluster.nodes
    sites = {
        domain: [frozenset(relations.sites(node.index, domain)) for node in nodes]
        for domain in {tie.domain for tie in ties}
    }
    return Ties(ties, sites, relations.locations)
