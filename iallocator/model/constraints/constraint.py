"""One requirement that cannot be split further."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = [
    "APART", "CAPACITY", "EVERY", "KINDS", "LOCATION", "MUST", "ORDER", "PRIORITY", "SHOULD",
    "TOGETHER", "Constraint", "SharedConstraint",
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

    def binds(self, instance: str) -> bool:
        """Whether `instance` is bound by it, by name."""
        return instance == self.instance

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


class SharedConstraint:
    """One constraint on all of a set of instances, with each other.

    Attributes
    ----------
    kind:
        `TOGETHER` or `APART`.
    strength, weight, domain, origin:
        As of `Constraint`, of each of `members` towards those that ask the same; towards
        others of the same name the weaker counts.
    name:
        What the set is called.
    members:
        Those that are bound.
    others:
        Those that they are bound to, too, by a constraint of the same name.
    """

    __slots__ = (
        "domain", "kind", "members", "name", "origin", "others", "strength", "weight",
    )  # fmt: skip

    def __init__(
        self,
        kind: str,
        strength: str,
        name: str,
        members: Sequence[str],
        origin: str,
        *,
        others: Sequence[str] = (),
        domain: str = "",
        weight: float = 0.0,
    ) -> None:
        self.kind = kind
        self.strength = strength
        self.name = name
        self.members = members
        self.others = others
        self.origin = origin
        self.domain = domain
        self.weight = weight

    @property
    def must(self) -> bool:
        """Whether a placement that breaks it is no placement."""
        return self.strength == MUST

    @property
    def what(self) -> str:
        """What is required, for people."""
        verb = "together with" if self.kind == TOGETHER else "apart from"
        where = f" ({self.domain})" if self.domain else ""
        beside = f" and {len(self.others)} others" if self.others else ""
        return f"{verb} each other{beside} of {self.name}{where}"

    def binds(self, instance: str) -> bool:
        """Whether `instance` is bound by it."""
        return instance in self.members

    def document(self) -> dict[str, Any]:
        """As plain data."""
        entry: dict[str, Any] = {
            "kind": self.kind,
            "strength": self.strength,
            "name": self.name,
            "members": list(self.members),
            "what": self.what,
            "origin": self.origin,
        }
        if self.others:
            entry["others"] = list(self.others)
        if self.domain:
            entry["domain"] = self.domain
        if not self.must:
            entry["weight"] = self.weight
        return entry
