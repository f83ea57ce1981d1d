"""Test that ARCHITECTURE.md describes every package, and that sub-packages form no cycle."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

import pytest

from tests.paths import ROOT

from .architecture import layers, rows
from .imports import PACKAGE, imports, package_of, sources
from .test_imports import MAY_IMPORT

BESIDE = ("benchmarks", "bin", "docs", "fixtures", "packaging", "schemas", "tests", "tools", ".ci")
"""The folders beside the package, each with a row in ARCHITECTURE.md."""

PACKAGES = sorted(name for name, path in sources().items() if path.name == "__init__.py")

SUB_PACKAGES = [name for name in PACKAGES if name.count(".") > 1]


def _below(parent: str, module: str) -> str:
    """Return the sub-package of `parent` that contains `module`; "" if there is none."""
    name = ".".join(module.split(".")[: parent.count(".") + 2])
    return name if name in PACKAGES and name.startswith(parent + ".") else ""


@pytest.mark.parametrize("name", SUB_PACKAGES)
def test_sub_package_is_named_in_the_row_of_its_package(name: str) -> None:
    """Each sub-package is named in the row of its package in ARCHITECTURE.md."""
    assert f"`{name.rpartition('.')[2]}/`" in rows()[package_of(name)][2]


@pytest.mark.parametrize("folder", BESIDE)
def test_folder_beside_the_package_has_a_row(folder: str) -> None:
    """Each folder beside the package has a row in ARCHITECTURE.md."""
    assert (ROOT / folder).is_dir()
    assert rows()[folder][1]


def test_every_package_has_a_question_and_contents() -> None:
    """Each package has a question and contents in ARCHITECTURE.md; a module has a description."""
    packages = {package_of(name) for name in PACKAGES if name.count(".") == 1}
    assert [name for name in packages if not rows()[name][1].endswith("?")] == []
    assert [name for name in MAY_IMPORT if not rows()[name][2]] == []


@pytest.mark.parametrize(("page", "longest"), [("ARCHITECTURE.md", 200), ("CONTRIBUTING.md", 80)])
def test_page_for_contributors_is_short(page: str, longest: int) -> None:
    """ARCHITECTURE.md and CONTRIBUTING.md are short; details are in docs/design."""
    assert len((ROOT / page).read_text(encoding="utf-8").splitlines()) <= longest


def test_picture_of_imports_shows_every_package_above_what_it_imports() -> None:
    """In the picture of imports, each package is above those that it imports."""
    floors = {package: floor for floor, names in enumerate(layers()) for package in names}
    assert set(floors) == set(MAY_IMPORT)
    wrong = [
        f"{package} imports {other}, which is not below it"
        for package, named in MAY_IMPORT.items()
        for other in named
        if floors[package] >= floors[other]
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("parent", [name for name in PACKAGES if name != "iallocator"])
def test_sub_packages_of_a_package_import_each_other_in_one_direction(parent: str) -> None:
    """Sub-packages of a package import each other in one direction only."""
    needs: dict[str, set[str]] = {}
    for found in imports():
        here, there = _below(parent, found.module), _below(parent, found.imported)
        if here and there and here != there:
            needs.setdefault(here, set()).add(there)
    while free := [name for name in needs if not needs[name] & needs.keys()]:
        for name in free:
            del needs[name]
    assert needs == {}


# Constructors take few arguments; arguments that belong together are one object.

MOST = 8
"""Largest number of parameters of a constructor beside ``self``, except of dataclasses."""


def parameters(constructor: ast.FunctionDef) -> int:
    """Return the number of arguments that a caller may give to a constructor."""
    found = constructor.args
    return len(found.posonlyargs) + len(found.args) + len(found.kwonlyargs) - 1


def test_constructors_take_at_most_eight_arguments() -> None:
    """A constructor takes at most eight arguments."""
    wrong = [
        f"{path.relative_to(PACKAGE)}: {one.name} takes {parameters(made)}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for one in ast.walk(ast.parse(path.read_text()))
        if isinstance(one, ast.ClassDef)
        for made in one.body
        if isinstance(made, ast.FunctionDef) and made.name == "__init__"
        if parameters(made) > MOST
    ]
    assert not wrong, "\n".join(wrong)


def test_all_kinds_of_parameters_are_counted() -> None:
    """The count of parameters includes every kind of parameter."""
    (made,) = ast.parse("def __init__(self, a, /, b, *, c, d=1): ...").body
    assert isinstance(made, ast.FunctionDef)
    assert parameters(made) == 4


# Small numbers have a name: no calculation has a tolerance of its own.

LARGEST = 1e-4
"""Numbers up to this value, except 0, count as tolerances."""


def nameless(tree: ast.Module) -> Iterator[tuple[int, float]]:
    """Yield line and value of each small number outside constants with a docstring."""
    named = {id(part) for one in documented(tree) for part in ast.walk(one)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in named:
            continue
        if isinstance(node.value, float) and 0 < node.value <= LARGEST:
            yield node.lineno, node.value


def documented(tree: ast.Module) -> list[ast.stmt]:
    """Return the assignments of the module that have a docstring, alone or in a block."""
    found: list[ast.stmt] = []
    block: list[ast.stmt] = []
    for one in tree.body:
        if isinstance(one, ast.Assign | ast.AnnAssign):
            adjacent = block and block[-1].end_lineno == one.lineno - 1
            block = [*block, one] if adjacent else [one]
        elif isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant):
            found += block
            block = []
        else:
            block = []
    return found


def is_number(value: ast.expr | None) -> bool:
    """Return whether an expression consists of numbers only."""
    parts = [part for part in ast.walk(value) if isinstance(part, ast.expr)] if value else []
    numbers = [part.value for part in parts if isinstance(part, ast.Constant)]
    allowed = (ast.Constant, ast.Tuple, ast.UnaryOp, ast.BinOp)
    return (
        bool(numbers)
        and all(isinstance(part, allowed) for part in parts)
        and all(type(number) in (int, float) for number in numbers)
    )


def undocumented(tree: ast.Module) -> list[int]:
    """Return the lines of a module with numeric constants that have no docstring."""
    known = documented(tree)
    return [
        one.lineno
        for one in tree.body
        if isinstance(one, ast.Assign | ast.AnnAssign) and is_number(one.value)
        if one not in known
    ]


CONVERSIONS = (1024, 2**20, 3600, 86400)
"""The factors of units that `iallocator.units` names."""


def conversions(tree: ast.Module) -> list[int]:
    """Return the lines that multiply or divide by a factor in `CONVERSIONS`."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div | ast.FloorDiv)
        for side in (node.left, node.right)
        if isinstance(side, ast.Constant) and side.value in CONVERSIONS
    ]


@pytest.mark.parametrize("wrong", [undocumented, conversions])
def test_numbers_have_names_and_reasons(wrong: Callable[[ast.Module], list[int]]) -> None:
    """Each numeric constant has a docstring, and units are converted by names of `units`."""
    found = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line in wrong(ast.parse(path.read_text()))
    ]
    assert not found, "\n".join(found)


def test_constants_without_docstring_and_conversions_are_found() -> None:
    """The searches find a numeric constant without a docstring, and a factor in a conversion."""
    text = 'A = 1\nB = (2, 3)\n"""Why."""\n\nC = -4.0\nD = x / 1024\nE = 1024\n'
    assert undocumented(ast.parse(text)) == [5, 7]
    assert conversions(ast.parse(text)) == [6]


def test_every_small_number_is_a_constant_with_a_reason() -> None:
    """Each small number is a constant with a docstring."""
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {value}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, value in nameless(ast.parse(path.read_text()))
    ]
    assert not found, "\n".join(found)


def test_number_within_a_calculation_is_found() -> None:
    """The search for small numbers without a name finds one within a calculation."""
    text = 'GOOD = 1e-9\n"""Why."""\n\ndef f(x):\n    return x > 2e-9\n'
    assert list(nameless(ast.parse(text))) == [(5, 2e-9)]
