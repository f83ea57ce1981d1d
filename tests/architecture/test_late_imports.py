"""Test that imports are inside functions only where they save time.

These places are the boundaries. At the first two, small runs show what is not needed: a module that
such a run loads may import, inside a function, a module that this run does not load.

* the request type, or a part of it that small requests do not need: see `REQUESTS`
* the command: see `COMMAND_LINES` and `TABLES`
* what one medium shows: the functions in `OF_ONE_MEDIUM`
* the first need of a library that loads slowly: see `SLOW`
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import groupby
from tempfile import NamedTemporaryFile
from typing import Any

from benchmarks import clusters
from iallocator.commands import COMMANDS
from tests.builders import allocate, as_bytes, cluster, instance, rbd

from .imports import Import, imports, package_of, sources
from .runs import run_with_modules

HELD = {f"i{k}": instance("node1", "node2") for k in range(3)}
"""Instances of a small cluster."""

REQUESTS: dict[str, dict[str, Any]] = {
    "relocate": {"name": "i0", "relocate_from": ["node2"], "required_nodes": 1},
    "node-evacuate": {"instances": ["i0"], "evac_mode": "all"},
    "multi-evacuate": {"evac_nodes": ["node1"]},
    "change-group": {"instances": ["i0"], "target_groups": []},
    "multi-allocate": {"instances": [allocate(cluster(nodes=4))["request"]]},
}
"""Type of a small request -> its members."""

COMMAND_LINES = (
    ["balance", "--help"], ["capacity", "-l1", "-"], ["check", "--machine-readable", "-"],
    ["constraints", "-"], ["repair", "-"], ["show", "-"],
)  # fmt: skip
"""Small commands: what they do not need is only for other commands, or for some options."""

TABLES = {
    "iallocator.compat.htools",
    *(
        f"iallocator.commands.{name}"
        for name, rows in Counter(row.module for row in COMMANDS.values()).items()
        if rows > 1
    ),
}
"""Modules with the functions of several commands, or from which one of several is chosen."""

OF_ONE_MEDIUM = {"facts", "metrics"}
"""Functions of results: what a page or a file of metrics has in addition to the document."""

SLOW = {
    "numpy": 90, "highspy": 130, "orjson": 10, "jinja2": 29, "markupsafe": 7, "jsonschema": 60,
    "rich": 20, "http.client": 25, "multiprocessing": 10, "ssl": 6, "secrets": 4, "hashlib": 2,
    "re": 5, "uuid": 2, "decimal": 2, "random": 1, "xml": 1, "iallocator.solver": 1,
}  # fmt: skip
"""Slow library -> the milliseconds in which a new process loaded it; with it, the solver."""

FIRST = "iallocator.process"
"""The module that receives signals before any other one is loaded."""


def test_imports_are_inside_functions_only_at_the_boundaries() -> None:
    """An import inside a function loads a slow library, or what only some runs or files need."""
    wrong = [
        f"{first}, inside a function at no boundary: move it to the top of the module"
        for first, targets in _late()
        if not _at_boundary(first, targets)
    ]
    assert not wrong, "\n".join(wrong)


def _late() -> Iterator[tuple[Import, set[str]]]:
    """Yield each statement inside a function that imports, and the modules that it loads."""
    late = (one for one in imports() if one.late and not one.typing)
    for _, some in groupby(late, lambda one: (one.module, one.line)):
        statement = list(some)
        yield statement[0], {one.imported for one in statement}


def _at_boundary(first: Import, targets: set[str]) -> bool:
    """Return whether a function may import `targets`: only some runs or files load them."""
    module = first.module
    return (
        module == FIRST
        or module in TABLES
        or (package_of(module) == "commands" and first.function in OF_ONE_MEDIUM)
        or bool(_slow(targets) - _slow({module}))
        or any(module in modules and not targets <= modules for modules in _runs().values())
    )


def _slow(modules: Iterable[str]) -> set[str]:
    """Return the slow libraries that loading `modules` loads, directly or indirectly."""
    at_once = defaultdict[str, set[str]](set)
    for one in imports():
        if not (one.late or one.typing):
            at_once[one.module].add(one.imported)
    seen, waiting = set[str](), list(modules)
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            waiting += at_once[module]
            waiting += [module.rpartition(".")[0]] * (module in sources() and "." in module)
    return {slow for slow in SLOW for one in seen if f"{one}.".startswith(f"{slow}.")}


@cache
def _runs() -> dict[str, set[str]]:
    """Return small run -> the modules that it loads."""
    whole = cluster(nodes=4, instances=HELD)
    documents = {kind: whole | {"request": {"type": kind, **r}} for kind, r in REQUESTS.items()}
    solo = cluster(nodes=4, instances={"solo": instance("node1")})
    moved = {"type": "allocate-secondary", "name": "solo", "required_nodes": 1}
    documents["allocate-secondary"] = solo | {"request": moved}
    for template in ("plain", "drbd", "rbd"):
        documents[template] = allocate(cluster(nodes=4), disk_template=template)
    tags = ["iallocator:separate:must:web"]
    large = {f"large{k}": rbd(f"node{k}", memory=3000) for k in (1, 2, 3)}
    documents["not N+1 compliant"] = allocate(cluster(nodes=3, memory=4096, instances=large))
    documents["tagged"] = allocate(cluster(nodes=4), tags=tags)
    found = {}
    for name, document in documents.items():
        answer, found[name] = run_with_modules(raw=as_bytes(document))
        assert '"success":' in answer
    raw = as_bytes(documents["drbd"])
    _, found["logged"] = run_with_modules("--log", os.devnull, raw=raw)
    for words in COMMAND_LINES:
        _, found[" ".join(words)] = run_with_modules(*words, raw=as_bytes(whole))
    with NamedTemporaryFile() as file:
        file.write(raw)
        file.flush()
        answer, found["hbal"] = run_with_modules("-I", file.name, program="hbal")
        assert "Cluster is empty" in answer
    with NamedTemporaryFile() as file:
        file.write(clusters.as_text(clusters.document(clusters.Shape(4))).encode())
        file.flush()
        for words in (["hinfo"], ["hcheck"], ["hsqueeze"], ["hspace", "-l1"], ["hbal", "-l0"]):
            name, *more = words
            found[" ".join(words)] = run_with_modules("-t", file.name, *more, program=name)[1]
    return found
