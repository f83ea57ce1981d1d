"""A rule between the members of a named set: all together, or each apart from the others."""

from __future__ import annotations

__all__ = ["ALWAYS", "Member", "Rule", "domains_between", "weight_between"]

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
