"""Orders between instances as a graph: circles, and who depends on whom."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    Order = tuple[str, str, str]

__all__ = ["circular", "dependents", "without_circles"]


def dependents(orders: Sequence[Order], name: str) -> list[str]:
    """Everything that comes after `name`, directly or not, by name."""
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        first = waiting.pop()
        for one, other, _ in orders:
            if one == first and other not in seen:
                seen.add(other)
                waiting.append(other)
    return sorted(seen)


def circular(orders: Sequence[Order]) -> list[list[str]]:
    """The sets of instances that come after themselves, each as one way round and its rest."""
    after = {name: set(dependents(orders, name)) for name in {o[0] for o in orders}}
    found: list[list[str]] = []
    seen: set[str] = set()
    for name in sorted(after):
        if name in after[name] and name not in seen:
            circle = sorted(other for other in after[name] if name in after.get(other, ()))
            seen.update(circle)
            found.append(circle)
    return found


def without_circles(
    musts: Sequence[Order], shoulds: Sequence[Order]
) -> tuple[list[Order], list[Order]]:
    """`musts` and as many of `shoulds`, in their order, as make no circle; and the others."""
    kept, dropped = list(musts), []
    for order in shoulds:
        first, second, _ = order
        if first == second or first in dependents(kept, second):
            dropped.append(order)
        else:
            kept.append(order)
    return kept, dropped
