"""Parse the tags of instances that relate them to other instances.

====================================================  =========================================
``colocate:must:NAME``, ``colocate:should:NAME``       on one node with other instances of NAME
``separate:must:NAME``, ``separate:should:NAME``       on no node with other instances of NAME
``order:after:INSTANCE``, ``order:should-after:...``   starts only when INSTANCE runs
``priority:N``                                         higher priorities are placed first
``keep-running``                                       is never stopped to free capacity
``cannot-stop``                                        does not stop on request
``no-force-stop``                                      must not be stopped by force
====================================================  =========================================

Each tag begins with the prefix ``iallocator:``. After NAME, ``:DOMAIN`` can follow, a prefix of
node tags. Then the constraint applies to failure domains instead of nodes: with ``rack``, a failure
domain contains the nodes that share a tag ``rack:...``. With ``group``, the failure domains are the
node groups. After a tag with *should*, ``:WEIGHT`` can follow, a number.
"""

from __future__ import annotations

from iallocator.model.constraints import (
    APART,
    HARD_WEIGHT,
    LOCATION,
    MUST,
    ORDER,
    PRIORITY,
    SHOULD,
    TOGETHER,
    Constraint,
    Member,
    Rule,
    weight_between,
)
from iallocator.tags.pacemaker_scores import read_integer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iallocator.model.instance import Instance

__all__ = [
    "CANNOT_STOP", "DEFAULT_WEIGHT", "KEEP_RUNNING", "NO_FORCE_STOP", "Parsed",
    "constraint_between", "constraint_to_many", "parse",
]  # fmt: skip

DEFAULT_WEIGHT = 1.0
"""Default penalty of a violated *should* constraint, in units of the score."""

LARGEST_WEIGHT = 1e9
"""The largest weight; sums of such weights stay far within the range of floats."""

NUMBER_CHARACTERS = frozenset("0123456789.+-eE")
"""The characters of a number."""

RELATIONS = {"colocate": TOGETHER, "separate": APART}
ORDERS = {"after": MUST, "should-after": SHOULD}
RULE_WORDS = {TOGETHER: "together with", APART: "apart from"}

KEEP_RUNNING = "keep-running"
CANNOT_STOP = "cannot-stop"
NO_FORCE_STOP = "no-force-stop"

MARK_WORDS = {
    KEEP_RUNNING: "is not stopped to make room",
    CANNOT_STOP: "cannot be stopped in an orderly way",
    NO_FORCE_STOP: "is not stopped by force",
}


class Parsed:
    """The meaning of the affinity tags of all instances.

    Attributes
    ----------
    constraints:
        Constraints of single instances, and those that name one other instance; in the order of the
        instances.
    rules:
        Constraints between all instances that use one NAME, one per NAME, in the order of the
        names.
    priorities:
        Instance name -> priority, if the priority is not 0.
    marks:
        Mark (`KEEP_RUNNING`, `CANNOT_STOP`, `NO_FORCE_STOP`) -> the instances that have it.
    unusable:
        Messages about tags that have the prefix and a known kind, and cannot be parsed.
    preferred:
        Instance name -> the labels that its nodes should have, each with its constraint.
    lonely:
        Messages about colocation names that only one instance has, perhaps misspelt.
    """

    __slots__ = ("constraints", "lonely", "marks", "preferred", "priorities", "rules", "unusable")

    def __init__(self) -> None:
        self.constraints: list[Constraint] = []
        self.rules: list[Rule] = []
        self.marks: dict[str, list[str]] = {mark: [] for mark in MARK_WORDS}
        self.priorities: dict[str, int] = {}
        self.unusable: list[str] = []
        self.lonely: list[str] = []
        self.preferred: dict[str, list[tuple[str, Constraint]]] = {}

    @property
    def keep_running(self) -> list[str]:
        """Return the instances that are never stopped to free capacity."""
        return self.marks[KEEP_RUNNING]

    @property
    def stuck(self) -> list[str]:
        """Return the instances that cannot be stopped, and must not be stopped by force."""
        forced = frozenset(self.marks[NO_FORCE_STOP])
        return [name for name in self.marks[CANNOT_STOP] if name in forced]


def parse(instances: Iterable[Instance], prefix: str) -> Parsed:
    """Return the meaning of the affinity tags of `instances`; `prefix`: the beginning of tags."""
    parsed = Parsed()
    named: dict[tuple[str, str], Rule] = {}
    labels: dict[str, tuple[str, float, str, str]] = {}
    for instance in instances:
        for tag in instance.tags:
            if not tag.startswith(prefix):
                continue
            kind, _, rest = tag[len(prefix) :].partition(":")
            if kind in RELATIONS:
                _relation(parsed, named, instance, tag, kind, rest)
            elif kind == "order":
                _order(parsed, instance, tag, rest)
            elif kind == "priority":
                _priority(parsed, instance, tag, rest)
            elif kind == "nodes" and rest.startswith(f"{SHOULD}:"):
                _preferred_label(parsed, labels, instance, tag, rest)
            elif kind in MARK_WORDS and not rest:
                parsed.marks[kind].append(instance.name)
                parsed.constraints.append(
                    Constraint(ORDER, MUST, instance.name, MARK_WORDS[kind], f"tag {tag}")
                )
    for rule in named.values():
        only = rule.members[0]
        if any(one.instance != only.instance for one in rule.members):
            parsed.rules.append(rule)
        elif rule.kind == TOGETHER:
            parsed.lonely.append(f"{only.instance}: {only.tag}: no other instance has that name")
    return parsed


def _preferred_label(
    parsed: Parsed,
    labels: dict[str, tuple[str, float, str, str]],
    instance: Instance,
    tag: str,
    rest: str,
) -> None:
    """Add a tag ``nodes:should:LABEL[:WEIGHT]`` to `parsed`; the label may have colons.

    `labels`: tag -> its label and weight, the requirement in words, and its origin.
    """
    if tag not in labels:
        label, weight = labelled(rest.partition(":")[2])
        labels[tag] = label, weight, f"on nodes that have label {label}", f"tag {tag}"
    label, weight, what, origin = labels[tag]
    if not label or weight < 0:
        parsed.unusable.append(f"{instance.name}: {tag}")
        return
    constraint = Constraint(LOCATION, SHOULD, instance.name, what, origin, weight=weight)
    parsed.constraints.append(constraint)
    parsed.preferred.setdefault(instance.name, []).append((label, constraint))


def labelled(text: str) -> tuple[str, float]:
    """Return the label and the weight in ``LABEL[:WEIGHT]``; -1 for an invalid weight.

    The text after the last colon is the weight if it is a number.
    """
    label, colon, last = text.rpartition(":")
    weight = _weight(last) if colon else None
    return (text, DEFAULT_WEIGHT) if weight is None else (label, weight)


def _relation(
    parsed: Parsed,
    named: dict[tuple[str, str], Rule],
    instance: Instance,
    tag: str,
    kind: str,
    rest: str,
) -> None:
    strength, *words = rest.split(":")
    weight = DEFAULT_WEIGHT if strength == SHOULD else HARD_WEIGHT
    if strength == SHOULD and len(words) > 1 and (said := _weight(words[-1])) is not None:
        weight = said
        words.pop()
    usable = strength in (MUST, SHOULD) and 1 <= len(words) <= 2 and all(words) and weight >= 0
    if not usable:
        parsed.unusable.append(f"{instance.name}: {tag}")
        return
    domain = words[1] if len(words) > 1 else ""
    rule = named.get((kind, words[0]))
    if rule is None:
        rule = named[kind, words[0]] = Rule(RELATIONS[kind], words[0])
    Member(rule, instance.name, tag, weight, domain)


def _order(parsed: Parsed, instance: Instance, tag: str, rest: str) -> None:
    kind, _, other = rest.partition(":")
    if kind not in ORDERS or not other or other == instance.name:
        parsed.unusable.append(f"{instance.name}: {tag}")
        return
    strength = ORDERS[kind]
    weight = 0.0 if strength == MUST else DEFAULT_WEIGHT
    what = f"starts after {other}"
    parsed.constraints.append(
        Constraint(ORDER, strength, instance.name, what, f"tag {tag}", other=other, weight=weight)
    )


def _priority(parsed: Parsed, instance: Instance, tag: str, rest: str) -> None:
    try:
        value = read_integer(rest)
    except ValueError:
        parsed.unusable.append(f"{instance.name}: {tag}")
        return
    parsed.priorities[instance.name] = value
    parsed.constraints.append(
        Constraint(PRIORITY, SHOULD, instance.name, f"priority {value}", f"tag {tag}")
    )


def constraint_between(one: Member, other: Member, domain: str) -> Constraint:
    """Return the constraint of the instance `one` towards the instance `other`, for reports."""
    where = f" ({domain})" if domain else ""
    what = f"{RULE_WORDS[one.rule.kind]} {other.instance}{where}"
    weight = weight_between(one.weight, other.weight)
    return Constraint(
        one.rule.kind, MUST if weight == HARD_WEIGHT else SHOULD, one.instance, what,
        f"tag {one.tag}",
        other=other.instance, domain=domain, weight=0.0 if weight == HARD_WEIGHT else weight,
    )  # fmt: skip


def constraint_to_many(
    some: Sequence[tuple[Member, Member, str]], count: int, cost: float
) -> Constraint:
    """Return the constraint of one instance towards `count` others; `some` of them are named in it.

    `cost`: the sum of the penalties of the constraints towards all `count` instances.
    """
    constraint = constraint_between(*some[0])
    names = ", ".join(dict.fromkeys(other.instance for _, other, _ in some))
    what = f"{RULE_WORDS[constraint.kind]} {names} and others, {count} in all"
    return Constraint(
        constraint.kind, constraint.strength, constraint.instance, what, constraint.origin,
        domain=constraint.domain, weight=cost,
    )  # fmt: skip


def _weight(word: str) -> float | None:
    """Return the weight in `word`; -1 for an invalid number; None if it is not a number.

    A word that is not a number may be a domain.
    """
    try:
        number = float(word)
    except ValueError:
        return None
    plain = NUMBER_CHARACTERS.issuperset(word)  # excludes other digits of Unicode, and "_"
    return number if plain and 0 <= number <= LARGEST_WEIGHT else -1.0
