"""Imports go one way; raw JSON and output stay in the rooms that are made for them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from .imports import imports, room_of, sources

MAY_IMPORT = {
    "__init__": "",  # the version
    "errors": "",  # everything may fail, nothing is needed for that
    "options": "errors",  # a command line may be unusable
    "files": "errors",  # a file may be unreadable
    "model": "",  # facts and arithmetic: know nothing of documents, requests or choices
    "requests": "model",  # a request is about instances and groups
    "reply": "",  # an answer is plain data
    "filters": "model",  # what a node lacks follows from the model alone
    "transition": "model",  # opcodes follow from moves
    "scoring": "model filters",  # a candidate is checked where it is scored
    "strategies": "model scoring",  # a strategy ranks what the kernel found feasible
    "redundancy": "model filters scoring",  # a failure is played through with kernel and checks
    "context": "options model filters scoring redundancy",  # the tools of one request, assembled
    "wire": "errors model requests reply",  # bytes to model and reply to bytes, no decisions
    "handlers": "model requests reply filters transition scoring strategies redundancy context",
    # ^ all of the above but bytes and errors: what cannot be done is an answer
    "engine": "options model requests reply context wire handlers",  # bytes to reply
    "report": (
        "options model requests reply filters transition scoring strategies redundancy context "
        "handlers engine"
    ),  # looks at everything, changes nothing
    "replay": "errors files options engine",  # answers many documents, compares
    "commands": "__init__ errors files options engine report replay",  # one command: read, say
    "cli": "__init__ errors files options reply wire engine commands",  # arguments in, status out
    "__main__": "cli",  # hands over
}
"""Room -> the rooms that it may import, at run time or for types."""

FOR_TYPES_ONLY = {
    ("filters", "scoring"),  # checks read the `View` of a node, whoever made it
}
"""Directions that only the type checker may go, beyond `MAY_IMPORT`."""

MAY_PRINT = {"cli", "commands", "report"}
"""The rooms that write to stdout or stderr."""

MAY_HOLD_JSON = {"wire", "commands", "report", "replay"}
"""The rooms that see raw JSON: the boundary, and those that store or show answers."""

STREAMS = ("sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__")

ONLY_IN = {
    "numpy": "iallocator.scoring.arrays",  # slow to load, pays for large requests
    "orjson": "iallocator.wire.read",  # pays for large documents
    "jsonschema": "iallocator.wire.vocabulary",  # needed for --validate
}
"""Third-party package -> the one module that may load it."""


def _within() -> Iterator[tuple[str, str]]:
    """Directions that the table allows at run time."""
    for room, allowed in MAY_IMPORT.items():
        yield from ((room, other) for other in (room, *allowed.split()))


def test_imports_between_rooms_go_only_where_the_table_allows() -> None:
    """No module reaches into a room that it may not know."""
    allowed = set(_within())
    wrong = [
        str(found)
        for found in imports()
        if found.imported.split(".")[0] == "iallocator"
        and (way := (room_of(found.module), room_of(found.imported))) not in allowed
        and not (found.typing and way in FOR_TYPES_ONLY)
    ]
    assert not wrong, "\n".join(wrong)


def test_import_table_names_every_room_in_the_package() -> None:
    """The table above is about the code as it is: no room is missing, none is left over."""
    assert {room_of(module) for module in sources()} == set(MAY_IMPORT)


def test_import_table_is_in_layers() -> None:
    """Every room stands below those that may import it: the table itself allows no cycle."""
    rooms = list(MAY_IMPORT)
    wrong = [
        f"{room} may import {other}, which stands below it in the table"
        for room, other in _within()
        if rooms.index(other) > rooms.index(room)
    ]
    assert not wrong, "\n".join(wrong)


def test_imports_at_run_time_form_no_cycle() -> None:
    """No module needs itself, by whatever way round, not even inside a function."""
    graph: dict[str, set[str]] = {module: set() for module in sources()}
    for found in imports():
        if found.imported in graph and not found.typing:
            graph[found.module].add(found.imported)
    cycles = [module for module in graph if module in _reachable(graph, module)]
    assert not cycles, f"in a cycle: {', '.join(cycles)}"


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """All modules that `start` imports, directly or not."""
    seen: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            waiting += graph[module]
    return seen


def test_imports_for_types_repeat_no_import_at_run_time() -> None:
    """A name that a module has anyway is not imported once more for the type checker."""
    at_once = [found for found in imports() if not found.typing and not found.late]
    loaded = {(found.module, found.imported, name) for found in at_once for name in found.names}
    twice = [
        f"{found}, but {name} is there already"
        for found in imports()
        if found.typing
        for name in found.names
        if (found.module, found.imported, name) in loaded
    ]
    assert not twice, "\n".join(twice)


@pytest.mark.parametrize(("package", "home"), ONLY_IN.items())
def test_import_of_a_slow_package_stands_in_one_module(package: str, home: str) -> None:
    """Only the module that is made for it loads the package."""
    found = [i for i in imports() if i.imported.split(".")[0] == package]
    assert {i.module for i in found} <= {home}, "\n".join(map(str, found))


def test_json_is_read_and_written_only_at_the_boundary() -> None:
    """Whoever decides something does not know what a document looks like."""
    wrong = [
        str(found)
        for found in imports()
        if found.imported.split(".")[0] in ("json", "orjson")
        and room_of(found.module) not in MAY_HOLD_JSON
    ]
    assert not wrong, "\n".join(wrong)


def test_output_is_written_only_by_cli_commands_and_report() -> None:
    """No other room prints or touches stdout or stderr."""
    wrong = [
        f"{module}:{line} writes output"
        for module, path in sources().items()
        if room_of(module) not in MAY_PRINT
        for line in _writes(ast.parse(path.read_text()))
    ]
    assert not wrong, "\n".join(wrong)


def _writes(tree: ast.Module) -> Iterator[int]:
    """The lines that call print, or name sys.stdout or sys.stderr."""
    for node in ast.walk(tree):
        printed = isinstance(node, ast.Name) and node.id == "print"
        stream = isinstance(node, ast.Attribute) and ast.unparse(node) in STREAMS
        if printed or stream:
            assert isinstance(node, ast.expr)
            yield node.lineno
