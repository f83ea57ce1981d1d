"""Affinity rules, single constraints that follow from them, colocation groups, and tag findings."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from iallocator.model.instance import Instance

__all__ = [
    "ALWAYS",
    "APART",
    "CAPACITY",
    "EVERY",
    "KINDS",
    "LOCATION",
    "MUST",
    "ORDER",
    "PRIORITY",
    "SHOULD",
    "TOGETHER",
    "Constraint",
    "Member",
    "Rule",
    "SharedConstraint",
    "TagFinding",
    "domains_between",
    "items_of",
    "weight_between",
]

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


ALWAYS = float("inf")
"""The weight of a member that must: no price buys it off."""


class Member:
    """One instance in a rule, by one of its tags.

    Attributes
    ----------
    instance, tag:
        Names; an instance with several tags is a member several times.
    position:
        In `Rule.members`.
    weight:
        What each pair that it breaks costs, in units of the score; `ALWAYS`: it must not.
    domain:
        Prefix of the node tags that name failure domains; "": every node is its own.
    """

    __slots__ = ("domain", "instance", "position", "rule", "tag", "weight")

    def __init__(self, rule: Rule, instance: str, tag: str, weight: float, domain: str) -> None:
        self.rule = rule
        self.instance = instance
        self.tag = tag
        self.weight = weight
        self.domain = domain
        self.position = len(rule.members)
        rule.members.append(self)

    @property
    def must(self) -> bool:
        """Whether no price buys it off; towards members that only should, it only should."""
        return self.weight == ALWAYS

    @property
    def shape(self) -> tuple[float, str]:
        """All that tells it from other members: weight and domain."""
        return self.weight, self.domain


class Rule:
    """A set of instances that belong together, or apart; never written out as pairs.

    Attributes
    ----------
    kind:
        `TOGETHER` or `APART` of `iallocator.model.constraints.constraint`.
    name:
        What the tags call it.
    members:
        In the order of the instances.
    """

    __slots__ = ("kind", "members", "name")

    def __init__(self, kind: str, name: str) -> None:
        self.kind = kind
        self.name = name
        self.members: list[Member] = []


def weight_between(one: float, other: float) -> float:
    """What two members owe each other: the weaker of their tags counts."""
    return min(one, other)


def domains_between(one: str, other: str) -> tuple[str, ...]:
    """The failure domains that two members' domains ask for; where both name one, both count."""
    if one == other or not other:
        return (one,)
    return tuple(sorted((one, other))) if one else (other,)


if TYPE_CHECKING:
    Units = Mapping[str, Sequence[str]]

    """Instance -> all that must be on its node, itself among them; others are on their own."""


def items_of(instances: Iterable[Instance], units: Units) -> list[list[Instance]]:
    """`instances` in their order, those of one unit together where the first of them stands."""
    if not units:
        return [[instance] for instance in instances]
    items: dict[Sequence[str], list[Instance]] = {}
    for instance in instances:
        items.setdefault(units.get(instance.name, (instance.name,)), []).append(instance)
    return list(items.values())


class TagFinding:
    """Something about a tag that somebody should know.

    Attributes
    ----------
    kind:
        ``unknown``, ``contradiction`` or ``lacking``.
    owner:
        Who has it, in words: ``instance web``, ``the cluster``.
    tag:
        The whole tag.
    text:
        What is the matter with it, in words.
    """

    __slots__ = ("kind", "owner", "tag", "text")

    def __init__(self, kind: str, owner: str, tag: str, text: str) -> None:
        self.kind = kind
        self.owner = owner
        self.tag = tag
        self.text = text

    def __str__(self) -> str:
        return f"{self.owner}: tag {self.tag} {self.text}"

    def document(self) -> dict[str, str]:
        """As plain data."""
        return {"kind": self.kind, "owner": self.owner, "tag": self.tag, "text": self.text}
