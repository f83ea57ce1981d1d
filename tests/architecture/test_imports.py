"""Imports go one way; raw JSON and output stay in the rooms that are made for them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from .imports import Import, imports, nodes, room_of, sources

MAY_IMPORT = {
    "aliases": "",  # names of types, which every room may use
    "tolerances": "",  # what counts as equal, which every room may use
    "__init__": "",  # the version
    "compat": "",  # how requests are answered where programs differ, as named facts
    "errors": "",  # everything may fail, nothing is needed for that
    "names": "errors",  # a name may mean nothing
    "deadline": "",  # when to end; every long loop may ask
    "files": "deadline errors",  # a file may be unreadable; a pipe may never end
    "model": "",  # facts and arithmetic: know nothing of documents, requests or choices
    "tags": "model",  # what this program's own tags say, as facts
    "requests": "model",  # a request is about instances and groups
    "reply": "",  # an answer is plain data
    "limits": "model",  # what a node lacks follows from the model alone
    "scoring": "deadline model limits",  # a candidate is checked where it is scored
    "solver": "deadline model scoring",  # an integer program knows nodes and amounts, no documents
    "packing": "solver",  # items and bins are amounts; many of few sizes need an integer program
    "n1": "deadline model limits scoring packing",  # a failure is simulated with kernel and checks
    "transition": "deadline model limits scoring",  # steps follow from places
    "ganeti": "errors model transition",  # what Ganeti is told of steps
    "constraints": "model tags requests limits scoring transition",
    # ^ what tags, options and requests ask for, of places and of steps
    "ranking": "model tags scoring",  # a strategy ranks what the kernel found feasible
    "options": "errors files names compat tags ranking",
    # ^ a command line may be unusable; scores are written one way; a strategy has a name
    "configuration": "errors files options",  # options in a file
    "placement": (
        "deadline names options model reply limits scoring n1 constraints ranking solver"
    ),  # the one engine: candidates, verdicts, moves
    "settings": "errors options model requests",  # settings from tags and requests
    "wire": "errors compat model requests reply ranking",  # bytes to model, reply to bytes
    "live": "deadline errors files wire",  # a running cluster, asked and told through its two doors
    "calls": "__init__ deadline errors files options configuration model requests reply wire",
    # ^ what was asked and answered, noted and read again
    "sources": "deadline errors files options model wire live calls",
    # ^ other places where a cluster may come from
    "execution": "deadline errors options model tags transition wire live",
    # ^ a plan's steps become jobs of a running cluster
    "handlers": "deadline options model requests reply limits transition ganeti placement",
    # ^ a request each
    "planners": (
        "compat deadline errors names options model tags requests reply limits transition ganeti "
        "scoring "
        "ranking n1 constraints packing solver placement handlers"
    ),
    # ^ many moves instead of one, by the same means
    "engine": (
        "deadline names options model requests reply settings ranking n1 placement wire sources "
        "handlers planners"
    ),
    # ^ to a reply
    "explain": (
        "errors names files options model requests reply ganeti limits scoring "
        "ranking n1 placement handlers planners engine"
    ),  # looks at everything, changes nothing
    "render": (
        "__init__ errors names files sources options constraints model requests reply transition "
        "planners engine explain"
    ),  # what people are shown
    "replay": "deadline errors files options configuration calls engine",  # answers, compares
    "commands": (
        "__init__ compat deadline errors names files options model tags requests constraints "
        "wire sources transition ganeti execution configuration calls "
        "planners settings engine explain render replay"
    ),
    # ^ one command: read, say
    "cli": (
        "__init__ deadline errors files options configuration calls reply wire engine render "
        "commands"
    ),
    # ^ arguments to status
    "process": "deadline cli",  # signals, and the end of a process
    "__main__": "process",  # hands over
}
"""Room -> the rooms that it may import, at run time or for types, beside `EVERYWHERE`."""

MAY_PRINT = {"errors", "files", "process", "cli", "commands", "render"}
"""The rooms that write to stdout or stderr."""

MAY_HOLD_JSON = {"wire", "live", "commands", "explain", "render", "replay"}
"""The rooms that see raw JSON: the boundary, and those that store or show answers."""

EVERYWHERE = ("aliases", "tolerances")
"""Modules that every room may import."""

STREAMS = ("sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__")

ONLY_IN = {
    "numpy": {"scoring", "n1", "solver", "ranking", "planners"},  # pays for large requests
    "highspy": {"solver"},  # the solver, optional
    "orjson": {"wire"},  # pays for large documents
    "jinja2": {"render"},  # needed for --html
    "jsonschema": {"wire"},  # needed for --validate
    "rich": {"commands"},  # needed for a bar on the terminal
}
"""Third-party package, slow to load -> the rooms that may load it."""


def _within() -> Iterator[tuple[str, str]]:
    """Directions that the table allows at run time."""
    for room, allowed in MAY_IMPORT.items():
        yield from ((room, other) for other in (room, *allowed.split()))
        yield from ((room, other) for other in EVERYWHERE if room not in EVERYWHERE)


def test_imports_between_rooms_go_only_where_the_table_allows() -> None:
    """No module reaches into a room that it may not know."""
    allowed = set(_within())
    wrong = [
        str(found)
        for found in imports()
        if found.imported.split(".")[0] == "iallocator"
        and (room_of(found.module), room_of(found.imported)) not in allowed
    ]
    assert not wrong, "\n".join(wrong)


def test_import_table_names_every_room_in_the_package() -> None:
    """Whoever builds a room says who may use it, and what it may use."""
    assert {room_of(module) for module in sources()} <= set(MAY_IMPORT)


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
    graph = _graph(late=True)
    cycles = [module for module in graph if module in _reachable(graph, module)]
    assert not cycles, f"in a cycle: {', '.join(cycles)}"


def test_imports_for_types_form_no_cycle() -> None:
    """A type that two modules need stands below both."""
    graph = _graph(late=True, typing=True)
    reached = {module: _reachable(graph, module) for module in graph}
    circular = {module for module in graph if module in reached[module]}
    assert circular == set()


def _graph(late: bool, typing: bool = False) -> dict[str, set[str]]:
    """Module -> the modules of the package that it imports.

    `late`: inside functions, too.  `typing`: for the type checker, too.
    """
    graph: dict[str, set[str]] = {module: set() for module in sources()}
    for found in imports():
        if found.imported in graph and (typing or not found.typing) and (late or not found.late):
            graph[found.module].add(found.imported)
    return graph


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


@pytest.mark.parametrize(("package", "rooms"), ONLY_IN.items())
def test_import_of_a_slow_package_stands_where_it_pays(package: str, rooms: set[str]) -> None:
    """Only the rooms that gain by it load the package."""
    wrong = [str(found) for found in _loads(package) if room_of(found.module) not in rooms]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", ONLY_IN)
def test_slow_package_is_not_loaded_at_the_start(package: str) -> None:
    """Neither the program nor a handler imports it on the way, only inside a function."""
    graph = _graph(late=False)
    handlers = [module for module in graph if room_of(module) == "handlers"]
    needed = set().union(*(_reachable(graph, start) for start in ("iallocator.cli", *handlers)))
    wrong = [str(i) for i in _loads(package) if not i.late and i.module in needed]
    assert not wrong, "\n".join(wrong)


def _loads(package: str) -> list[Import]:
    """The imports that load `package`."""
    return [i for i in imports() if i.imported.split(".")[0] == package and not i.typing]


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
        for module, line in _writes()
        if room_of(module) not in MAY_PRINT
    ]
    assert not wrong, "\n".join(wrong)


def _writes() -> Iterator[tuple[str, int]]:
    """Modules and lines that call print, or name sys.stdout or sys.stderr."""
    for module, node in nodes():
        printed = isinstance(node, ast.Name) and node.id == "print"
        stream = isinstance(node, ast.Attribute) and ast.unparse(node) in STREAMS
        if printed or stream:
            assert isinstance(node, ast.expr)
            yield module, node.lineno
