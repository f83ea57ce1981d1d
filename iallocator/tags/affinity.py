"""The tags of instances that relate them to others.

====================================================  =========================================
``colocate:must:NAME``, ``colocate:should:NAME``       on one node with the others of that name
``separate:must:NAME``, ``separate:should:NAME``       on another node than each of the others
``order:after:INSTANCE``, ``order:should-after:...``   it may start only when that one runs
``priority:N``                                         higher goes first
``keep-running``                                       it is never stopped to make room
``cannot-stop``                                        it does not stop when it is told to
``no-force-stop``                                      it must not be stopped by force
====================================================  =========================================

The prefix (``iallocator:``) stands before each.  After NAME may follow ``:DOMAIN``, a prefix of
node tags: not the same node then, but the same failure domain (``rack``: the nodes that
share a tag ``rack:...``); and for *should* ``:WEIGHT``, a number.
"""

from __future__ import annotations

from iallocator.model.constraint import (
    APART,
    MUST,
    ORDER,
    PRIORITY,
    SHOULD,
    TOGETHER,
    Constraint,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iallocator.model.instance import Instance

__all__ = [
    "CANNOT_STOP", "DEFAULT_WEIGHT", "KEEP_RUNNING", "NO_FORCE_STOP", "Parsed", "parse",
]  # fmt: skip

DEFAULT_WEIGHT = 1.0
"""What breaking a *should* costs, in units of the score, where the tag does not say."""

HEAVIEST = 1e9
"""The largest weight: sums of such stay far within the range of floats."""

RELATIONS = {"colocate": TOGETHER, "separate": APART}
ORDERS = {"after": MUST, "should-after": SHOULD}
WORDS = {TOGETHER: "together with", APART: "apart from"}

KEEP_RUNNING = "keep-running"
CANNOT_STOP = "cannot-stop"
NO_FORCE_STOP = "no-force-stop"

MARKS = {
    KEEP_RUNNING: "is not stopped to make room",
    CANNOT_STOP: "does not stop when told to",
    NO_FORCE_STOP: "is not stopped by force",
}


class Parsed:
    """What the tags say.

    Attributes
    ----------
    constraints:
        In the order of the instances; relations once in each direction.
    priorities:
        Instance name -> priority, where it is not 0.
    marks:
        Mark (`KEEP_RUNNING`, `CANNOT_STOP`, `NO_FORCE_STOP`) -> the instances that have it.
    unusable:
        Tags with our prefix and a known kind that cannot be understood, for people.
    lonely:
        Names to be together with that no other instance has, for people: misspelt, perhaps.
    """

    __slots__ = ("constraints", "lonely", "marks", "priorities", "unusable")

    def __init__(self) -> None:
        self.constraints: list[Constraint] = []
        self.marks: dict[str, list[str]] = {mark: [] for mark in MARKS}
        self.priorities: dict[str, int] = {}
        self.unusable: list[str] = []
        self.lonely: list[str] = []


class _Membership:
    """One instance in a named group of instances that are to be together or apart."""

    __slots__ = ("domain", "instance", "strength", "tag", "weight")

    def __init__(self, instance: str, tag: str, strength: str, domain: str, weight: float) -> None:
        self.instance = instance
        self.tag = tag
        self.strength = strength
        self.domain = domain
        self.weight = weight


def parse(instances: Iterable[Instance], prefix: str) -> Parsed:
    """The constraints that the tags of `instances` express."""
    parsed = Parsed()
    named: dict[tuple[str, str], list[_Membership]] = {}
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
            elif kind in MARKS and not rest:
                parsed.marks[kind].append(instance.name)
                parsed.constraints.append(
                    Constraint(ORDER, MUST, instance.name, MARKS[kind], f"tag {tag}")
                )
    for (kind, name), members in named.items():
        parsed.constraints += _pairs(kind, name, members)
        if kind == "colocate" and len({member.instance for member in members}) == 1:
            only = members[0]
            parsed.lonely.append(f"{only.instance}: {only.tag}: no other instance has that name")
    return parsed


def _relation(
    parsed: Parsed,
    named: dict[tuple[str, str], list[_Membership]],
    instance: Instance,
    tag: str,
    kind: str,
    rest: str,
) -> None:
    strength, *words = rest.split(":")
    weight = DEFAULT_WEIGHT if strength == SHOULD else 0.0
    if strength == SHOULD and len(words) > 1 and _number(words[-1]) is not None:
        weight = _number(words.pop()) or 0.0
    usable = strength in (MUST, SHOULD) and 1 <= len(words) <= 2 and all(words) and weight >= 0
    if not usable:
        parsed.unusable.append(f"{instance.name}: {tag}")
        return
    domain = words[1] if len(words) > 1 else ""
    member = _Membership(instance.name, tag, strength, domain, weight)
    named.setdefault((kind, words[0]), []).append(member)


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
        value = int(rest)
    except ValueError:
        parsed.unusable.append(f"{instance.name}: {tag}")
        return
    parsed.priorities[instance.name] = value
    parsed.constraints.append(
        Constraint(PRIORITY, SHOULD, instance.name, f"priority {value}", f"tag {tag}")
    )


def _pairs(kind: str, name: str, members: Sequence[_Membership]) -> Iterable[Constraint]:
    """One constraint per ordered pair of members; the weaker of the two tags counts.

    Failure domains that both name, if they differ, make one each.
    """
    relation = RELATIONS[kind]
    for one in members:
        for other in members:
            if one.instance == other.instance:
                continue
            strength = MUST if one.strength == other.strength == MUST else SHOULD
            weights = [m.weight for m in (one, other) if m.strength == SHOULD]
            for domain in sorted({one.domain or other.domain, other.domain or one.domain}):
                where = f" ({domain})" if domain else ""
                yield Constraint(
                    relation, strength, one.instance, f"{WORDS[relation]} {other.instance}{where}",
                    f"tag {one.tag}", other=other.instance, domain=domain,
                    weight=min(weights, default=0.0),
                )  # fmt: skip


def _number(text: str) -> float | None:
    """A weight: a number from -1e9 to 1e9, or None."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) <= HEAVIEST else None
