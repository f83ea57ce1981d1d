"""Read the imports of the package from its source, without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

__all__ = [
    "PACKAGE", "Import", "imports", "module_name", "nodes", "package_of", "sources", "tree",
]  # fmt: skip

PACKAGE = Path(__file__).resolve().parents[2] / "iallocator"


class Import(NamedTuple):
    """One import of a module.

    ``typing``: only the type checker executes it. ``function``: the function that contains it, or
    "". ``line``: its line. ``names``: the imported names, as they are called in the importing
    module. ``given``: the names that the imported module has for them.
    """

    module: str
    imported: str
    line: int
    typing: bool
    function: str
    names: tuple[str, ...] = ()
    given: tuple[str, ...] = ()

    @property
    def late(self) -> bool:
        """Return whether the import is inside a function."""
        return bool(self.function)

    def __str__(self) -> str:
        kind = " (for types)" if self.typing else ""
        return f"{self.module}:{self.line} imports {self.imported}{kind}"


@cache
def sources() -> dict[str, Path]:
    """Return the file of each module of the package, by the module's name."""
    return {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def tree(module: str) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse(sources()[module].read_text())


@cache
def nodes() -> tuple[tuple[str, ast.AST], ...]:
    """Return every node of the syntax of every module, with the module's name."""
    return tuple((module, node) for module in sources() for node in ast.walk(tree(module)))


def module_name(path: Path) -> str:
    """Return the dotted name of the module in the file at `path`."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_of(module: str) -> str:
    """Return the package or module right below ``iallocator`` that contains `module`."""
    parts = module.split(".")
    if parts[1:3] == ["compat", "htools"]:
        return "compat/htools"  # it runs planners, while `compat` lies below them
    return parts[1] if len(parts) > 1 else "__init__"


@cache
def imports() -> tuple[Import, ...]:
    """Return all imports of the package, also those inside functions."""
    return tuple(found for module in sources() for found in _found(tree(module), module))


def _found(
    above: ast.AST, module: str, typing: bool = False, function: str = ""
) -> Iterator[Import]:
    """Yield the imports below the syntax node `above`.

    `typing`: whether only the type checker executes these imports. `function`: the name of the
    function that contains them, or "".
    """
    for node in ast.iter_child_nodes(above):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, alias.name, node.lineno, typing, function)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}: relative import in line {node.lineno}"
            names = tuple(alias.asname or alias.name for alias in node.names)
            given = tuple(alias.name for alias in node.names)
            for target in _targets(node):
                yield Import(module, target, node.lineno, typing, function, names, given)
        elif isinstance(node, ast.If) and _is_type_checking(node.test):
            yield from _found(ast.Module(node.body, []), module, True, function)
            yield from _found(ast.Module(node.orelse, []), module, typing, function)
        else:
            inside = node if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else None
            yield from _found(node, module, typing, inside.name if inside else function)


def _targets(node: ast.ImportFrom) -> list[str]:
    """Return the modules that an import ``from X import a, b`` loads.

    These are X, and a and b if they are modules.
    """
    base = node.module or ""
    below = [f"{base}.{alias.name}" for alias in node.names]
    return [base, *(name for name in below if name in sources())]


def _is_type_checking(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"
