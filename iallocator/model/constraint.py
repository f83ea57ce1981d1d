"""One requirement that cannot be split further."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "APART", "CAPACITY", "EVERY", "KINDS", "LOCATION", "MUST", "ORDER", "PRIORITY", "SHOULD",
    "TOGETHER", "Constraint",
]  # fmt: skip

MUST = "must"
SHOULD = "should"

LOCATION = "location"
TOGETHER = "together"
APART = "apart"
CAPACITY = "capacity"
ORDER = "order"
PRIORITY = "priority"

KINDS = (LOCATION, TOGETHER, APART, CAPACITY, ORDER, PRIORITY)

EVERY = "*"
"""In the place of an instance: whichever it is."""


class Constraint:
    """A constraint on one instance.

    Attributes
    ----------
    kind:
        `LOCATION`, `TOGETHER`, `APART`, `CAPACITY`, `ORDER` or `PRIORITY`.
    strength:
        `MUST`: a placement that breaks it is no placement.  `SHOULD`: breaking it costs
        `weight` and is reported.
    weight:
        In units of the score, of Pacemaker's scores where `what` names a score; 0 for a must.
    instance:
        Name of the instance that is bound; `EVERY` for all of them.
    other:
        The instance that it is bound to, or "".
    domain:
        Prefix of the node tags that name failure domains; "": every node is its own.
    what:
        For people: what is required.
    origin:
        For people: the tag, option or member of the document that it came from.
    """

    __slots__ = ("domain", "instance", "kind", "origin", "other", "strength", "weight", "what")

    def __init__(
        self,
        kind: str,
        strength: str,
        instance: str,
        what: str,
        origin: str,
        *,
        other: str = "",
        domain: str = "",
        weight: float = 0.0,
    ) -> None:
        self.kind = kind
        self.strength = strength
        self.instance = instance
        self.what = what
        self.origin = origin
        self.other = other
        self.domain = domain
        self.weight = weight

    @property
    def must(self) -> bool:
        """Whether a placement that breaks it is no placement."""
        return self.strength == MUST

    @property
    def text(self) -> str:
        """What is required and where that comes from, for people."""
        return f"{self.what} ({self.origin})"

    @property
    def text_with_price(self) -> str:
        """The same of a should, with what breaking it costs."""
        return f"{self.text}: costs {self.weight:g}"

    def document(self) -> dict[str, Any]:
        """As plain data."""
        entry: dict[str, Any] = {
            "kind": self.kind,
            "strength": self.strength,
            "instance": self.instance,
            "what": self.what,
            "origin": self.origin,
        }
        if self.other:
            entry["other"] = self.other
        if self.domain:
            entry["domain"] = self.domain
        if not self.must:
            entry["weight"] = self.weight
        return entry
