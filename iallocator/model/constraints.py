"""Affinity rules, the single constraints that follow from them, colocation groups, tag findings."""

from __future__ import annotations

from math import inf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from iallocator.model.instance import Instance

__all__ = [
    "ALL_INSTANCES",
    "APART",
    "CAPACITY",
    "CONSTRAINT_KINDS",
    "GROUP_DOMAIN",
    "HARD_WEIGHT",
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

CONSTRAINT_KINDS = (LOCATION, TOGETHER, APART, CAPACITY, ORDER, PRIORITY)

GROUP_DOMAIN = "group"
"""The prefix of failure domains that stands for node groups; it is not a prefix of node tags."""

ALL_INSTANCES = "*"
"""The value of `Constraint.instance` that stands for all instances."""


class Constraint:
    """A constraint on one instance.

    Attributes
    ----------
    kind:
        `LOCATION`, `TOGETHER`, `APART`, `CAPACITY`, `ORDER` or `PRIORITY`.
    strength:
        `MUST` (hard): a placement that violates it is not allowed. `SHOULD` (soft): a violation
        adds `weight` to the score and is reported.
    weight:
        The penalty in units of the cluster score, or of Pacemaker's scores if `what` names such a
        score. It is 0 for a hard constraint.
    instance:
        Name of the constrained instance; `ALL_INSTANCES` for all instances.
    other:
        Name of the second instance of the relation, or "".
    domain:
        Prefix of the node tags that name failure domains; "" if every node is its own domain.
    what:
        The requirement, in words.
    origin:
        The tag, option or member of the document that sets the constraint, in words.
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
        """Return whether this is a hard constraint: a placement that violates it is not allowed."""
        return self.strength == MUST

    def binds(self, instance: str) -> bool:
        """Return whether this constraint names `instance`."""
        return instance == self.instance

    @property
    def text(self) -> str:
        """Return the requirement, and the tag or option that requires it, in words."""
        return f"{self.what} ({self.origin})"

    @property
    def text_with_penalty(self) -> str:
        """Return `text`, and for a soft constraint the penalty of a violation."""
        return f"{self.text}: costs {self.weight:g}"

    def document(self) -> dict[str, Any]:
        """Return the constraint as plain data for JSON."""
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
    """One constraint on all pairs of a set of instances.

    Attributes
    ----------
    kind:
        `TOGETHER` or `APART`.
    strength, weight, domain, origin:
        The values of a `Constraint` between any two of `members`. Between a member and one of
        `others`, the weaker of their two constraints applies.
    name:
        The name of the set, from the tags.
    members:
        The instances with this constraint.
    others:
        The instances with another constraint of the same name; the members are related to them,
        too.
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
        """Return whether this is a hard constraint: a placement that violates it is not allowed."""
        return self.strength == MUST

    @property
    def what(self) -> str:
        """Return what is required, as plain text."""
        verb = "together with" if self.kind == TOGETHER else "apart from"
        where = f" ({self.domain})" if self.domain else ""
        beside = f" and {len(self.others)} others" if self.others else ""
        return f"{verb} each other{beside} of {self.name}{where}"

    def binds(self, instance: str) -> bool:
        """Return whether `instance` is one of the constrained members."""
        return instance in self.members

    def document(self) -> dict[str, Any]:
        """Return the constraint as plain data for JSON."""
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


HARD_WEIGHT = inf
"""The weight of a hard constraint: no gain of the score outweighs it."""


class Member:
    """One instance in a rule, by one of its tags.

    Attributes
    ----------
    instance, tag:
        Names. An instance with several tags is a member several times.
    position:
        Position in `Rule.members`.
    weight:
        Penalty of each violated pair, in units of the score; `HARD_WEIGHT` for a hard constraint.
    domain:
        Prefix of the node tags that name failure domains; "" if every node is its own domain.
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
        """Return whether the tag is hard; a pair is hard only if both tags are hard."""
        return self.weight == HARD_WEIGHT

    @property
    def shape(self) -> tuple[float, str]:
        """Return weight and domain: members of a rule with equal shapes are interchangeable."""
        return self.weight, self.domain


class Rule:
    """An affinity rule: a set of instances that stay together or apart.

    The rule is never expanded to pairs, because large sets have too many pairs.

    Attributes
    ----------
    kind:
        `TOGETHER` or `APART` of `iallocator.model.constraints`.
    name:
        The name of the set in the tags.
    members:
        The members, in the order of the instances.
    """

    __slots__ = ("kind", "members", "name")

    def __init__(self, kind: str, name: str) -> None:
        self.kind = kind
        self.name = name
        self.members: list[Member] = []


def weight_between(one: float, other: float) -> float:
    """Return the weight of a pair of members: the smaller of their two weights."""
    return min(one, other)


def domains_between(one: str, other: str) -> tuple[str, ...]:
    """Return the failure domains in which a rule applies to two members, by their tags.

    Both domains apply if each member names one.
    """
    if one == other or not other:
        return (one,)
    return tuple(sorted((one, other))) if one else (other,)


if TYPE_CHECKING:
    Units = Mapping[str, Sequence[str]]

    """Instance -> all members of its colocation group, itself included.

    Instances without a colocation group are missing.
    """


def items_of(instances: Iterable[Instance], units: Units) -> list[list[Instance]]:
    """Return lists of `instances` that move together, each at the position of its first instance.

    `units`: name of an instance -> its colocation group.
    """
    if not units:
        return [[instance] for instance in instances]
    items: dict[Sequence[str], list[Instance]] = {}
    for instance in instances:
        items.setdefault(units.get(instance.name, (instance.name,)), []).append(instance)
    return list(items.values())


def as_one(item: Sequence[Instance]) -> Instance:
    """Return one instance with the sums of the amounts of all of `item`.

    Use it to score a colocation group as a whole.
    """
    if len(item) == 1:
        return item[0]
    whole = item[0].as_template(item[0].template)
    whole.as_primary = tuple(map(sum, zip(*(one.as_primary for one in item))))
    whole.exclusion = tuple(dict.fromkeys(tag for one in item for tag in one.exclusion))
    whole.local = any(one.local for one in item)
    whole.desired = frozenset().union(*(one.desired for one in item))
    return whole


class TagFinding:
    """A problem of a tag that an administrator should know.

    Attributes
    ----------
    kind:
        ``unknown``, ``contradiction`` or ``lacking``.
    owner:
        The object that has the tag, in words: ``instance web``, ``the cluster``.
    tag:
        The whole tag.
    text:
        The problem, in words.
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
        """Return the finding as plain data for JSON."""
        return {"kind": self.kind, "owner": self.owner, "tag": self.tag, "text": self.text}
