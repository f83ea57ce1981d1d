"""Test the imports between packages, and where JSON, output and slow libraries are used."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from .architecture import package_imports
from .imports import Import, imports, nodes, package_of, sources

MAY_IMPORT = package_imports()
"""Package -> the packages that it imports, at run time or for types, beside `EVERYWHERE`.

This is the table of packages in ARCHITECTURE.md, in its order, from the top to the bottom.
"""

MAY_PRINT = {
    "errors",
    "files",
    "written_files",
    "process",
    "cli",
    "commands",
    "compat/htools",
    "render",
}
"""The packages that may write to stdout or stderr."""

MAY_HOLD_JSON = {"wire", "live", "commands", "explain", "render", "replay"}
"""The packages that may read or write JSON: those at the boundary, and some that show answers."""

EVERYWHERE = ("aliases", "light", "tolerances", "units")
"""Modules that every package may import."""

ENTRIES = {"iallocator.n1", "iallocator.n1.tolerance"}
"""The modules of `n1` that other packages may import."""

RESULTS = {
    "FailoverPlan", "InteractingNodes", "PassingGuard", "PlanGuard", "Speculation",
    "UnrestartedInstance",
}  # fmt: skip
"""Classes of results of `FailureTolerance`, which other packages import for types."""

VERIFIER = {f"iallocator.planners.{name}" for name in ("outcome", "restarts", "verify")}
"""Names of the modules of the verifier."""

STREAMS = ("sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__")

ONLY_IN = {
    "numpy": {"scoring", "n1", "solver", "ranking", "planners"},  # pays for large requests
    "highspy": {"solver"},  # the solver, optional
    "orjson": {"wire"},  # pays for large documents
    "jinja2": {"render"},  # needed for --html
    "jsonschema": {"wire"},  # needed for --validate
    "rich": {"commands"},  # needed for a bar on the terminal
}
"""Third-party package that loads slowly -> the packages that may load it."""


def test_imports_between_packages_are_those_of_the_architecture() -> None:
    """The table in ARCHITECTURE.md names exactly the packages that each package imports."""
    used: dict[str, dict[str, Import]] = {package_of(module): {} for module in sources()}
    for found in imports():
        here, there = package_of(found.module), package_of(found.imported)
        if found.imported.split(".")[0] == "iallocator" and here != there:
            used[here].setdefault(there, found)
    wrong = [
        f"{found}: add `{there}` to the row of `{here}` in ARCHITECTURE.md, or remove the import"
        for here, needed in used.items()
        for there, found in needed.items()
        if there not in MAY_IMPORT.get(here, ()) and there not in EVERYWHERE
    ]
    wrong += [
        f"`{here}` does not import `{there}`: remove it from the row of `{here}` in ARCHITECTURE.md"
        for here, named in MAY_IMPORT.items()
        for there in named
        if there not in used.get(here, {})
    ]
    assert not wrong, "\n".join(wrong)


def test_table_of_packages_names_every_package() -> None:
    """Every package and module has a row in the table of ARCHITECTURE.md."""
    assert {package_of(module) for module in sources()} == set(MAY_IMPORT)


def test_table_of_packages_is_in_layers() -> None:
    """A package imports only packages in lower rows of the table."""
    rows = list(MAY_IMPORT)
    wrong = [
        f"{package} imports {other}, which is not below it in the table"
        for package, named in MAY_IMPORT.items()
        for other in named
        if rows.index(other) <= rows.index(package)
    ]
    assert not wrong, "\n".join(wrong)


def test_imports_at_run_time_form_no_cycle() -> None:
    """No module imports itself through other modules, even if functions contain the imports."""
    graph = _graph(late=True)
    cycles = [module for module in graph if module in _reachable(graph, module)]
    assert not cycles, f"in a cycle: {', '.join(cycles)}"


def test_imports_for_types_form_no_cycle() -> None:
    """No module imports itself through other modules, even if imports for types count."""
    graph = _graph(late=True, typing=True)
    reached = {module: _reachable(graph, module) for module in graph}
    circular = {module for module in graph if module in reached[module]}
    assert circular == set()


def _graph(late: bool, typing: bool = False) -> dict[str, set[str]]:
    """Return module -> the modules of the package that it imports.

    With `late`, imports inside functions are included; with `typing`, those for the type checker.
    """
    graph: dict[str, set[str]] = {module: set() for module in sources()}
    for found in imports():
        if found.imported in graph and (typing or not found.typing) and (late or not found.late):
            graph[found.module].add(found.imported)
    return graph


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """Return all modules that `start` imports, directly or indirectly."""
    seen: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            waiting += graph[module]
    return seen


def test_imports_for_types_repeat_no_import_at_run_time() -> None:
    """No import for types repeats an import at run time."""
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


def test_n1_is_used_only_through_its_entry_points() -> None:
    """Other packages use `n1` only through its entry points; the verifier only its exact search.

    The verifier must not use `FailureTolerance`, which planners use.
    """
    exact = {"iallocator.n1", "iallocator.n1.exact"}
    wrong = [
        str(found)
        for found in imports()
        if package_of(found.imported) == "n1"
        and package_of(found.module) != "n1"
        and found.imported not in (exact if found.module in VERIFIER else ENTRIES)
        and not (found.typing and RESULTS.issuperset(found.given))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("package", "packages"), ONLY_IN.items())
def test_slow_packages_are_imported_only_where_needed(package: str, packages: set[str]) -> None:
    """Only permitted packages import a slow third-party package."""
    wrong = [str(found) for found in _loads(package) if package_of(found.module) not in packages]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", ONLY_IN)
def test_slow_package_is_not_loaded_at_start_up(package: str) -> None:
    """The program and the handlers import slow packages only inside functions."""
    graph = _graph(late=False)
    handlers = [module for module in graph if package_of(module) == "handlers"]
    needed = set().union(*(_reachable(graph, start) for start in ("iallocator.cli", *handlers)))
    wrong = [str(i) for i in _loads(package) if not i.late and i.module in needed]
    assert not wrong, "\n".join(wrong)


def _loads(package: str) -> list[Import]:
    """Return the imports by which modules of the package load `package`."""
    return [i for i in imports() if i.imported.split(".")[0] == package and not i.typing]


def test_json_is_read_and_written_only_at_the_boundary() -> None:
    """Only packages at the boundary read and write JSON."""
    wrong = [
        str(found)
        for found in imports()
        if found.imported.split(".")[0] in ("json", "orjson")
        and package_of(found.module) not in MAY_HOLD_JSON
    ]
    assert not wrong, "\n".join(wrong)


def test_output_is_written_only_by_cli_commands_and_report() -> None:
    """Only permitted packages print, or use stdout or stderr."""
    wrong = [
        f"{module}:{line} writes output"
        for module, line in _writes()
        if package_of(module) not in MAY_PRINT
    ]
    assert not wrong, "\n".join(wrong)


def _writes() -> Iterator[tuple[str, int]]:
    """Yield module and line of each call of print, and of each use of stdout or stderr."""
    for module, node in nodes():
        printed = isinstance(node, ast.Name) and node.id == "print"
        stream = isinstance(node, ast.Attribute) and ast.unparse(node) in STREAMS
        if printed or stream:
            assert isinstance(node, ast.expr)
            yield module, node.lineno
