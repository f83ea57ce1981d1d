"""Instances that must be on one node, taken together."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iallocator.model.instance import Instance

    Units = Mapping[str, Sequence[str]]
    """Instance -> all that must be on its node, itself among them; others are on their own."""

__all__ = ["items_of"]


def items_of(instances: Iterable[Instance], units: Units) -> list[list[Instance]]:
    """`instances` in their order, those of one unit together where the first of them stands."""
    if not units:
        return [[instance] for instance in instances]
    items: dict[Sequence[str], list[Instance]] = {}
    for instance in instances:
        items.setdefault(units.get(instance.name, (instance.name,)), []).append(instance)
    return list(items.values())
