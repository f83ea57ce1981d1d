"""Check the recipes of ARCHITECTURE.md: each place that they name exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from .architecture import ARCHITECTURE
from .imports import PACKAGE

ROOT = PACKAGE.parent

RECIPES: dict[str, str] = dict(
    re.findall(
        r"(?ms)^\*\*An? ([a-z ]+)\.\*\*(.*?)(?=^\*\*An? |\Z)",
        ARCHITECTURE.split("## How to add")[1],
    )
)
"""What is added -> the recipe."""

PLACE = re.compile(r"`([\w/.-]+\.(?:py|json)): ([\w.-]+)`")

PLACES = [
    (title, *place)
    for title, body in RECIPES.items()
    for place in dict.fromkeys(PLACE.findall(body))
]


def names(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    """Yield the names that the statements define, those of classes with their class before them."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield prefix + node.name
            if isinstance(node, ast.ClassDef):
                yield from names(node.body, f"{node.name}.")
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                yield from (
                    prefix + one.id for one in ast.walk(target) if isinstance(one, ast.Name)
                )
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield prefix + node.target.id
        elif isinstance(node, ast.If):
            yield from names(node.body, prefix)


def test_there_is_a_recipe_for_everything_that_is_often_added() -> None:
    """Each recipe but that of a package names at least one place."""
    often = {"constraint", "statistic", "strategy", "request type", "disk template", "planner"}
    assert often | {"command", "option", "package"} == set(RECIPES)
    assert {title for title, *_ in PLACES} == set(RECIPES) - {"package"}


@pytest.mark.parametrize(("title", "file", "symbol"), PLACES)
def test_place_that_a_recipe_names_exists(title: str, file: str, symbol: str) -> None:
    """A module defines the symbol; a schema has it as a word."""
    text = (ROOT / file).read_text(encoding="utf-8")
    if file.endswith(".py"):
        assert symbol in set(names(ast.parse(text).body)), f"update the recipe for a {title}"
    else:
        assert f'"{symbol}"' in text, f"update the recipe for a {title}"
