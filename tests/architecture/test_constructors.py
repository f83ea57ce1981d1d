"""Constructors that are written by hand take few arguments: what belongs together is a value."""

from __future__ import annotations

import ast

from .imports import PACKAGE

MOST = 8
"""Parameters of a constructor beside ``self``; the fields of dataclasses are not counted."""


def parameters(constructor: ast.FunctionDef) -> int:
    """How many arguments a caller may give."""
    found = constructor.args
    return len(found.posonlyargs) + len(found.args) + len(found.kwonlyargs) - 1


def test_constructors_take_at_most_eight_arguments() -> None:
    """A reader of a call can distinguish the arguments."""
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
    """The test above can fail."""
    (made,) = ast.parse("def __init__(self, a, /, b, *, c, d=1): ...").body
    assert isinstance(made, ast.FunctionDef)
    assert parameters(made) == 4
