"""Small numbers have a name: no calculation brings a tolerance of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .imports import PACKAGE

LARGEST = 1e-4
"""Numbers up to this, but 0, count as tolerances."""


def nameless(tree: ast.Module) -> Iterator[tuple[int, float]]:
    """Yield line and value of each small number that is not of a constant with a docstring."""
    named = {
        id(part)
        for one, after in zip(tree.body, tree.body[1:])
        if isinstance(one, ast.Assign)
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
        for part in ast.walk(one)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in named:
            continue
        if isinstance(node.value, float) and 0 < node.value <= LARGEST:
            yield node.lineno, node.value


def test_every_small_number_is_a_constant_with_a_reason() -> None:
    """A reader finds out what it is for, with its unit, where it is defined."""
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {value}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, value in nameless(ast.parse(path.read_text()))
    ]
    assert not found, "\n".join(found)


def test_number_within_a_calculation_is_found() -> None:
    """The test above can fail."""
    text = 'GOOD = 1e-9\n"""Why."""\n\ndef f(x):\n    return x > 2e-9\n'
    assert list(nameless(ast.parse(text))) == [(5, 2e-9)]
