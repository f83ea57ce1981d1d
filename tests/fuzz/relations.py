"""What two runs must have in common: order of keys, an unused group, more memory."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from .case import Case, Outcome, run

__all__ = ["broken_relations"]

Json = dict[str, Any]

HURRIED = 0.4
"""Seconds: planners are given one, and a busy machine may use it up."""

EVERY = 4
"""One case in so many is run again in another form."""


def broken_relations(case: Case, done: Outcome, number: int) -> list[str]:
    """What another form of a case changes that it must not change."""
    if number % EVERY or done.status != 0 or "doc" not in case.files:
        return []
    try:
        document = json.loads(case.files["doc"])
    except (ValueError, RecursionError):
        return []
    rng = Random(number)
    wrong = []
    if not _ordered(case):
        other = run(_with(case, _shuffled(rng, document)))
        in_time = max(done.seconds, other.seconds) < HURRIED  # else a limit of time may have struck
        if in_time and _comparable(other) != _comparable(done):
            wrong.append("the order of keys changes the answer")
    if _is_allocation(case, document):
        other = run(_with(case, _roomier(document)))
        if _succeeded(done) and not _succeeded(other):
            wrong.append("more memory turns yes to no")
    return wrong


def _ordered(case: Case) -> bool:
    """Whether the document's order breaks ties: as hail has it, and by a rule of Pacemaker's.

    Nor can what is out of time be compared, and capacity often is.
    """
    return "--compat=hail" in case.arguments or case.arguments[0] in ("place", "capacity")


def _with(case: Case, document: Json) -> Case:
    raw = json.dumps(document).encode("utf-8", "surrogatepass")
    return case._replace(files=case.files | {"doc": raw})


def _comparable(done: Outcome) -> tuple[int, bytes, str]:
    return done.status, done.out, done.crash


def _shuffled(rng: Random, document: Json) -> Json:
    """The same with the members of its tables in another order."""
    shuffled = dict(document)
    for name in ("nodes", "nodegroups", "instances"):
        table = document.get(name)
        if isinstance(table, dict):
            keys = list(table)
            rng.shuffle(keys)
            shuffled[name] = {key: table[key] for key in keys}
    return shuffled


def _is_allocation(case: Case, document: Json) -> bool:
    request = document.get("request")
    return (
        case.name.startswith("request")
        and isinstance(request, dict)
        and request.get("type") == "allocate"
        and not any(option.startswith("--n1=strict") for option in case.arguments)
        and "--compat=hail" not in case.arguments
    )


def _roomier(document: Json) -> Json:
    """Every node has a thousand MiB more."""
    roomier: Json = json.loads(json.dumps(document))
    nodes = roomier.get("nodes")
    for node in nodes.values() if isinstance(nodes, dict) else ():
        if isinstance(node, dict):
            for key in ("total_memory", "free_memory"):
                value = node.get(key)
                if isinstance(value, int) and not isinstance(value, bool) and value < 2**52:
                    node[key] = value + 1000
    return roomier


def _succeeded(done: Outcome) -> bool:
    return done.status == 0 and b'"success":true' in done.out.replace(b" ", b"")
