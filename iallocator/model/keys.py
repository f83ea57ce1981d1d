"""Placement keys: names with a value, and a weight for the importance of equal values."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["CLASSES", "LEVELS", "SPECIAL_NAMES", "PlacementKey", "in_force"]

LEVELS = (
    "cluster", "billing entity", "customer product offer", "customer", "image product offer",
    "image", "vdc product offer", "vdc", "server product offer", "server",
    "first disk product offer", "first disk", "network product offer", "network",
    "first nic product offer", "first nic",
)  # fmt: skip
"""The objects that can have a key. Of several keys with one name, the last in this list applies."""

CLASSES = ("customer", "system", "special")
"""The classes of keys: set by the customer, by the administrator, or by the administrator for
computed values."""

SPECIAL_NAMES = {
    "#RAM": "#RAM", "#CPU": "#CPU", "#LOAD": "#LOAD", "ram": "#RAM", "cpu": "#CPU", "load": "#LOAD",
}  # fmt: skip
"""Each spelling of the name of a special key -> the name with ``#``."""


class PlacementKey:
    """One placement key of an object.

    Attributes
    ----------
    level:
        Position in `LEVELS`.
    system:
        True if the administrator set it: classes ``system`` and ``special``.
    name:
        The name; of a special key the form with ``#``.
    value, weight:
        Any numbers. A weight may be negative. A key with weight 0 is a normal key without
        influence.
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
    """Return name -> key, for the keys of one class that apply.

    Of several keys with one name, the key of the lowest level applies; on one level, the last. Keys
    without weight are ignored. Customers cannot set names that begin with ``#``. Administrators
    cannot set names that begin with ``_``, which nodes use for the keys of customers.
    """
    foreign = "_" if system else "#"
    best: dict[str, PlacementKey] = {}
    for key in keys:
        if key.system is system and key.weight and not key.name.startswith(foreign):
            other = best.get(key.name)
            if other is None or key.level >= other.level:
                best[key.name] = key
    return best
