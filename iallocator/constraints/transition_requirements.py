"""Constraints on the order of steps, as demands on a transition."""

from __future__ import annotations

from iallocator.model.constraints import ORDER
from iallocator.transition.requirements import Demands

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.constraints.relations import Relations

__all__ = ["demands_of"]


def demands_of(relations: Relations | None) -> Demands:
    """Return the orders, separations, instances not to stop, and nodes that no step may use."""
    if relations is None:
        return Demands()
    orders = [
        (bond.other, bond.instance, bond.strength)
        for bond in relations.constraints
        if bond.kind == ORDER and bond.other
    ]
    return Demands(
        apart=relations.apart,
        orders=sorted(dict.fromkeys(orders)),
        sites=relations.domains.sites,
        keep_running=frozenset(relations.keep_running),
        stuck=frozenset(relations.stuck),
        may_pass=relations.may_pass,
    )
