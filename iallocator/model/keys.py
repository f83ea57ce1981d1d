"""Placement keys: names with a value, and a weight that says how much that value matters."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["CLASSES", "LEVELS", "SPECIAL", "PlacementKey", "in_force"]

LEVELS = (
    "cluster", "billing entity", "customer product offer", "customer", "image product offer",
    "image", "vdc product offer", "vdc", "server product offer", "server",
    "first disk product offer", "first disk", "network product offer", "network",
    "first nic product offer", "first nic",
)  # fmt: skip
"""Where a key may be set; of keys with one name the later in this list wins."""

CLASSES = ("customer", "system", "special")
"""Who sets a key: the customer, the administrator, or the administrator about computed values."""

SPECIAL = {
    "#RAM": "#RAM", "#CPU": "#CPU", "#LOAD": "#LOAD", "ram": "#RAM", "cpu": "#CPU", "load": "#LOAD",
}  # fmt: skip
"""As a special key may be written -> its name."""


class PlacementKey:
    """A key as it is set somewhere.

    Attributes
    ----------
    level:
        Position in `LEVELS`.
    system:
        Whether the administrator set it: classes ``system`` and ``special``.
    name:
        Of a special key the form with ``#``.
    value, weight:
        Any number; a weight may be negative, and 0 makes it a normal key, without influence.
    """

    __slots__ = ("level", "name", "system", "value", "weight")

    def __init__(
        self, name: str, value: float, weight: float, system: bool = False, level: int = 0
    ) -> None:
        self.name = name
        self.value = value
        self.weight = weight
        self.system = system
        self.level = level


def in_force(keys: Iterable[PlacementKey], system: bool) -> dict[str, PlacementKey]:
    """Of the keys of one class the lowest of each name; of one level the last.

    Keys without weight are none.  Customers do not set names that begin with ``#``,
    nor administrators such that begin with ``_``: nodes have those for the others.
    """
    foreign = "_" if system else "#"
    best: dict[str, PlacementKey] = {}
    for key in keys:
        if key.system is system and key.weight and not key.name.startswith(foreign):
            other = best.get(key.name)
            if other is None or key.level >= other.level:
                best[key.name] = key
    return best
