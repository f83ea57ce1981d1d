"""Compare two runs with inputs that differ in form only, so that results must be equal."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from tests.builders import Json
from tests.paths import ROOT

from .case import FROZEN, Case, Outcome, run

__all__ = ["broken_relations"]


HURRIED = 0.4
"""Seconds after which a planner with a limit of one second may have used up its time."""

STARTING = 0.3
"""Seconds that the start of a process may take."""

EVERY, EVERY_SEED = 4, 100
"""Shares of cases that are run in other forms, and with another hash seed: one of each number."""

PREFIX = "zq0"
"""Prefix of every name in a renamed document, which no other name has."""

RUN = re.compile(rb'"run": ?"[^"]*"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}:[0-9]+')
"""The name of an execution, or of a repair in a tag: they contain the time and random digits."""

TABLES = ("nodes", "nodegroups", "instances")


def broken_relations(case: Case, done: Outcome, number: int) -> list[str]:
    """Run `case` again in other forms; return the relations to the result `done` that are violated.

    Only some case numbers are run again.
    """
    if number % EVERY or done.status != 0 or "doc" not in case.files:
        return []
    try:
        document = json.loads(case.files["doc"], parse_constant=_no_number)
        json.dumps(document, allow_nan=False)  # 1e999 cannot be written again
    except (ValueError, RecursionError):
        return []
    rng = Random(number)
    return [
        complaint
        for complaint, holds in RELATIONS.items()
        if number % EVERY_SEED == 0 or holds is not _same_in_another_process
        if not holds(case, done, document, rng)
    ]


def _no_number(name: str) -> None:
    raise ValueError(name)


def _same_in_another_order(case: Case, done: Outcome, document: Json, rng: Random) -> bool:
    """Return whether the result is equal with the members of tables in another order."""
    if _ordered(case):
        return True
    return _alike(done, run(_with(case, _shuffled(rng, document))))


def _same_in_another_process(case: Case, done: Outcome, document: Json, rng: Random) -> bool:
    """Return whether the result is equal with another hash seed, and so another order of sets."""
    seed = FROZEN | {"PYTHONHASHSEED": str(rng.randrange(10**6)), "PYTHONPATH": str(ROOT)}
    with TemporaryDirectory() as folder:
        for name, raw in case.files.items():
            (Path(folder) / name).parent.mkdir(exist_ok=True)
            (Path(folder) / name).write_bytes(raw)
        start = time.perf_counter()
        other = subprocess.run(
            [sys.executable, "-m", "iallocator", *case.arguments],
            cwd=folder, env=os.environ | seed, capture_output=True, check=False,
        )  # fmt: skip
        seconds = time.perf_counter() - start
    if max(done.seconds, seconds - STARTING) > HURRIED or case.arguments[0] == "capacity":
        return True  # a time limit may have ended it
    return (other.returncode, RUN.sub(b"", other.stdout)) == (done.status, RUN.sub(b"", done.out))


def _succeeds_with_more_memory(case: Case, done: Outcome, document: Json, rng: Random) -> bool:
    """Return whether the request succeeds with more memory, unless N+1 has effect.

    With N+1, more memory can protect an instance that was not protected before.
    """
    if not _is_request(case, document, "allocate") or not {"--n1=off"} & set(case.arguments):
        return True
    other = run(_with(case, _roomier(document)))
    if max(done.seconds, other.seconds) > HURRIED:
        return True
    return not _succeeded(done) or _succeeded(other)


def _same_by_other_names(case: Case, done: Outcome, document: Json, rng: Random) -> bool:
    """Return whether the result is equal with other names, which only break ties."""
    if not _is_request(case, document) or "--seed=7" in case.arguments:
        return True
    if _names_in_words(case, document):
        return True
    other = run(_with(case, _renamed(document)))
    back = other._replace(out=other.out.replace(PREFIX.encode(), b""))
    return _alike(done, back)


def _same_beside_another_group(case: Case, done: Outcome, document: Json, rng: Random) -> bool:
    """Return whether one more group, which is unallocable, leaves the result unchanged."""
    if not _is_request(case, document) or not document.get("nodegroups"):
        return True
    other = run(_with(case, _with_a_group(document)))
    if max(done.seconds, other.seconds) > HURRIED:
        return True
    return _result(done) == _result(other)


RELATIONS: dict[str, Callable[[Case, Outcome, Json, Random], bool]] = {
    "the order of keys changes the answer": _same_in_another_order,
    "the hash seed changes the answer": _same_in_another_process,
    "more memory turns yes to no": _succeeds_with_more_memory,
    "other names change the answer": _same_by_other_names,
    "an irrelevant group changes the answer": _same_beside_another_group,
}
"""Error text -> function that returns whether the relation holds."""


def _ordered(case: Case) -> bool:
    """Return whether the document's order can change the result.

    The order matters in hail, in a rule of Pacemaker, in snapshots, and if a time limit ends a run.
    """
    ordered = ("place", "capacity", "snapshot")
    as_hail = any(word.startswith("--compat=") for word in case.arguments) or any(
        b'compat = "' in content for content in case.files.values()
    )
    return as_hail or case.arguments[0] in ordered


def _alike(one: Outcome, other: Outcome) -> bool:
    """Return whether two runs have equal output, or may have been ended by a time limit."""
    if max(one.seconds, other.seconds) > HURRIED:
        return True
    return (one.status, RUN.sub(b"", one.out), one.crash) == (
        other.status, RUN.sub(b"", other.out), other.crash
    )  # fmt: skip


def _with(case: Case, document: Json) -> Case:
    raw = json.dumps(document).encode("utf-8", "surrogatepass")
    return case._replace(files=case.files | {"doc": raw})


def _shuffled(rng: Random, document: Json) -> Json:
    """Return the document with the members of its tables in another order."""
    shuffled = dict(document)
    for name in TABLES:
        table = document.get(name)
        if isinstance(table, dict):
            keys = list(table)
            rng.shuffle(keys)
            shuffled[name] = {key: table[key] for key in keys}
    return shuffled


def _is_request(case: Case, document: Json, kind: str = "") -> bool:
    request = document.get("request")
    return (
        case.name.startswith("request")
        and "--validate" not in case.arguments
        and isinstance(request, dict)
        and kind in ("", request.get("type"))
        and not any(word.startswith("--compat=") for word in case.arguments)
    )


def _names(document: Json) -> set[str]:
    found = {name for table in TABLES for name in document.get(table) or ()}
    groups = (document.get("nodegroups") or {}).values()
    return found | {group["name"] for group in groups}


def _names_in_words(case: Case, document: Json) -> bool:
    """Return whether a name occurs in a tag, in an option, or as a word of the format."""
    names = _names(document)
    request = document["request"]
    new = [request, *(one for one in request.get("instances") or () if isinstance(one, dict))]
    names |= {one["name"] for one in new if isinstance(one.get("name"), str)}
    holders = [one for table in TABLES for one in (document.get(table) or {}).values()]
    tags = [document.get("cluster_tags"), *(one.get("tags") for one in [*holders, *new])]
    words = [*case.arguments, *(tag for one in tags if isinstance(one, list) for tag in one)]
    if any(name.isalpha() or not name for name in names):
        return True
    return any(name in word for name in names for word in words)


def _renamed(document: Json) -> Json:
    """Return the document with `PREFIX` before every name that stands alone."""
    names = _names(document)

    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {PREFIX + k if k in names else k: changed(one) for k, one in value.items()}
        if isinstance(value, list):
            return [changed(one) for one in value]
        return PREFIX + value if isinstance(value, str) and value in names else value

    renamed: Json = changed(document)
    return renamed


def _with_a_group(document: Json) -> Json:
    """Return the document with one more group and node, which accept no instances."""
    policy = next(iter(document["nodegroups"].values())).get("ipolicy", {})
    group = {"name": "zzz", "alloc_policy": "unallocable", "networks": [], "tags": [],
             "ipolicy": policy}  # fmt: skip
    node = {"group": "zzz-uuid", "offline": True, "drained": False, "master_candidate": False,
            "tags": [], "ndparams": {}}  # fmt: skip
    return document | {
        "nodegroups": document["nodegroups"] | {"zzz-uuid": group},
        "nodes": document["nodes"] | {"zzz-node": node},
    }


def _roomier(document: Json) -> Json:
    """Return the document with a thousand MiB more on every node."""
    roomier: Json = json.loads(json.dumps(document))
    nodes = roomier.get("nodes")
    for node in nodes.values() if isinstance(nodes, dict) else ():
        if isinstance(node, dict):
            for key in ("total_memory", "free_memory"):
                value = node.get(key)
                if isinstance(value, int) and not isinstance(value, bool) and value < 2**52:
                    node[key] = value + 1000
    return roomier


def _result(done: Outcome) -> object:
    """Return the result of an answer without reasons; the status if there is no answer."""
    if done.status != 0 or not done.out.strip():
        return done.status, done.crash
    answer = json.loads(done.out)
    result = answer["result"]
    # Three lists of lists: moved, failed, jobs; an entry of multi-evacuate begins with a name
    if len(result) == 3 and all(
        isinstance(part, list) and all(isinstance(one, list) for one in part) for part in result
    ):
        result = [result[0], [name for name, _ in result[1]], result[2]]
    return answer["success"], result


def _succeeded(done: Outcome) -> bool:
    return done.status == 0 and b'"success":true' in done.out.replace(b" ", b"")
