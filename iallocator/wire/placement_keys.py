"""``placement_keys``: lists of keys at the cluster, at an instance, at a request."""

from __future__ import annotations

from iallocator.errors import RequestError
from iallocator.model.keys import CLASSES, LEVELS, SPECIAL, PlacementKey
from iallocator.wire.fields import LARGEST, absent, describe, name_of, objects, one_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.wire.fields import Raw

__all__ = ["read_keys"]


def read_keys(raw: Raw, level: str = "server") -> tuple[PlacementKey, ...]:
    """The keys in `raw`, in their order; `level` is that of keys which name none.

    Raises
    ------
    RequestError
        At a level, class or special name that does not exist, or what is no number.
    """
    found: list[PlacementKey] = []
    for position, item in enumerate(objects(raw, "placement_keys", [])):
        try:
            found.append(_key(item, level))
        except RequestError as error:
            raise error.below(f"placement_keys/{position}") from None
    return tuple(found)


def _key(raw: Raw, level: str) -> PlacementKey:
    own_level = LEVELS.index(one_of(raw, "level", LEVELS, level))
    kind = one_of(raw, "class", CLASSES)
    if kind == "special":
        name = SPECIAL[one_of(raw, "name", tuple(SPECIAL))]
    else:
        name = name_of(raw, "name")
    return PlacementKey(
        name, _number(raw, "value"), _number(raw, "weight"), kind != "customer", own_level
    )


def _number(raw: Raw, key: str) -> float:
    """A number, of either sign."""
    value = raw.get(key, absent)
    if (type(value) is int or type(value) is float) and -LARGEST <= value <= LARGEST:
        return value
    got = "but it is missing" if value is absent else f"got {describe(value)}"
    raise RequestError(key, f"expected a number from {-LARGEST} to {LARGEST}, {got}")
