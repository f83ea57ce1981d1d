"""Test that `place` uses the nodes that Pacemaker's scheduler uses.

If the scheduler's comparison of free capacity has a cycle, its answer depends on hash order. Such
problems are excluded.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.builders import Json
from tests.command import json_of
from tests.seeds import seeds

from .pacemaker import KINDS, TOOL, document, problem, scheduled

Free = dict[str, Counter[str]]

INFINITY = 1_000_000

PER_KIND = len(seeds(12, 42))
"""Number of problems for each strategy."""

LEAST = len(seeds(30, 120))
"""Least number of problems without a cycle of capacities for a meaningful test."""


def placed(given: Json, kind: str) -> Json:
    """Return the plan of `place` for a problem."""
    words = ("place", "--exact-search=no", f"--strategy=pacemaker-{kind}")
    return json_of(*words, document=document(given))


def attribute_difference(one: Counter[str], other: Counter[str]) -> int:
    """Return the number of attributes greater in `one`, minus that of those greater in `other`."""
    return sum((one[a] > other[a]) - (one[a] < other[a]) for a in {*one, *other})


def before(a: str, b: str, free: Free, count: Counter[str], home: str | None = None) -> bool:
    """Return whether `a` comes before `b` by the strategy ``balanced``, at equal score."""
    difference = attribute_difference(free[a], free[b])
    mine, other = (count[a], a != home, a.encode()), (count[b], b != home, b.encode())
    return difference > 0 or (difference == 0 and mine < other)


def circular(given: Json, kind: str, answer: Json) -> bool:
    """Return whether a choice of `answer` depends on a cycle, or on the order of equal nodes.

    Two choices can: the order of nodes by ``balanced``, and the node with most free capacity if no
    node can hold a whole group.
    """
    if kind == "default":
        return False
    nodes, instances = given["nodes"], given["instances"]
    free: Free = {name: Counter(one["capacity"]) for name, one in nodes.items()}
    count: Counter[str] = Counter()
    if kind == "balanced" and _not_in_line(nodes, free):
        return True
    usable = [name for name, one in nodes.items() if "state" not in one]
    for entry in answer["instances"]:
        name, one = entry["instance"], instances[entry["instance"]]
        if not entry["to"]:
            continue
        where = entry["to"][0]
        if where in usable and one.get("managed", True):
            unit = one.get("group", name)
            members = [i for i, other in instances.items() if other.get("group", i) == unit]
            first = members[0] == name
            if (
                first
                and len(members) > 1
                and _whole_group_is_too_much(
                    [instances[i]["needs"] for i in members], where, usable, free
                )
            ):
                return True
            rivals = [
                other
                for other in usable
                if other != where
                and first
                and (len(members) > 1 or _score(nodes, one, other) == _score(nodes, one, where))
                and all(free[other][a] >= n for a, n in one["needs"].items())
            ]
            stays = where == one.get("home") and _score(nodes, one, where) > 0
            if (
                kind == "balanced"
                and not (stays and len(members) == 1)
                and any(before(rival, where, free, count, one.get("home")) for rival in rivals)
            ):
                return True
        free[where].subtract({a: n for a, n in one["needs"].items() if a in free[where]})
        count[where] += 1
    return False


def _not_in_line(nodes: Json, free: Free) -> bool:
    """Return whether nodes with one score have no linear order."""
    classes: dict[object, list[str]] = {}
    for name, one in nodes.items():
        classes.setdefault(None if "state" in one else one.get("score", 0), []).append(name)
    none: Counter[str] = Counter()
    return any(
        len({sum(before(a, b, free, none) for b in names if b != a) for a in names}) < len(names)
        for names in classes.values()
    )


def _whole_group_is_too_much(needs: list[Json], where: str, usable: list[str], free: Free) -> bool:
    """Return whether the node `where` lacks capacity for a whole group of instances, and is not the
    one with the most free capacity.
    """
    whole: Counter[str] = Counter()
    for one in needs:
        whole.update(one)
    if all(free[where][a] >= n for a, n in whole.items()):
        return False
    return any(
        attribute_difference(free[other], free[where]) >= 0 for other in usable if other != where
    )


def _score(nodes: Json, one: Json, name: str) -> int:
    """Return the score of the instance `one` on the node `name`."""
    summands = [nodes[name].get("score", 0), one.get("scores", {}).get(name, 0)]
    if name == one.get("home"):
        summands.append(one.get("stickiness", 0))
    for word, value in (("-INFINITY", -INFINITY), ("INFINITY", INFINITY)):
        if word in summands:
            return value
    return sum(summands)


@pytest.mark.skipif(TOOL is None, reason="crm_simulate (pacemaker-cli-utils) is not installed")
def test_place_equals_the_scheduler_of_pacemaker() -> None:
    """`place` uses the nodes of Pacemaker's scheduler for random problems.

    The problems have scores, stickiness, priorities, groups, and nodes in every state.
    """
    compared = 0
    for kind in KINDS:
        for number in range(PER_KIND):
            given = problem(f"{kind}/{number}")
            answer = placed(given, kind)
            expected = scheduled(given, kind)
            if answer["placement"] != expected:
                assert circular(given, kind, answer), (kind, number, answer["placement"], expected)
            elif not circular(given, kind, answer):
                compared += 1
    assert compared >= LEAST
