"""Test the recipes of ARCHITECTURE.md: each place that they name exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from iallocator.commands import COMMANDS, settings_of
from iallocator.options.table import COMMON
from tests.paths import ROOT

from .architecture import ARCHITECTURE
from .imports import PACKAGE

RECIPES: dict[str, str] = dict(
    re.findall(
        r"(?ms)^\*\*An? ([a-z ]+)\.\*\*(.*?)(?=^\*\*An? |\Z)",
        ARCHITECTURE.split("## How to add")[1],
    )
)
"""Kind of addition -> the recipe."""

PLACE = re.compile(r"`([\w/.-]+\.(?:py|json)): ([\w.-]+)`")

PLACES = [
    (title, *place)
    for title, body in RECIPES.items()
    for place in dict.fromkeys(PLACE.findall(body))
]


def names(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    """Yield the names that statements define; names in a class begin with the name of the class."""
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


def test_everything_that_is_often_added_has_a_recipe() -> None:
    """Each frequent addition has a recipe, which names at least one place."""
    often = {"constraint", "statistic", "strategy", "request type", "disk template", "planner"}
    assert often | {"command", "option", "package"} == set(RECIPES)
    assert {title for title, *_ in PLACES} == set(RECIPES) - {"package"}


@pytest.mark.parametrize(("title", "file", "symbol"), PLACES)
def test_place_that_a_recipe_names_exists(title: str, file: str, symbol: str) -> None:
    """Each place that a recipe names is a symbol of a module, or a word of a schema."""
    text = (ROOT / file).read_text(encoding="utf-8")
    if file.endswith(".py"):
        assert symbol in set(names(ast.parse(text).body)), f"update the recipe for a {title}"
    else:
        assert f'"{symbol}"' in text, f"update the recipe for a {title}"


# README and manual name every command and option.

OPTIONS = sorted({name for option in COMMON for name in option.names})
OF_COMMANDS = sorted(
    {
        (command, name)
        for command in COMMANDS
        for option in settings_of(command).options
        for name in option.names
    }
)


@cache
def pages() -> str:
    """Return the text of README and manual."""
    root = PACKAGE.parent
    return "\n".join(path.read_text() for path in (root / "README.md", *root.glob("docs/**/*.md")))


def named(word: str) -> bool:
    """Return whether a page contains `word` as a word of its own."""
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", pages()) is not None


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_command_is_named_in_the_manual(command: str) -> None:
    """The manual names every command."""
    assert named(f"iallocator {command}")


@pytest.mark.parametrize("option", OPTIONS)
def test_common_option_is_named_in_the_manual(option: str) -> None:
    """The manual names every option of requests."""
    assert named(option)


@pytest.mark.parametrize(("command", "option"), OF_COMMANDS)
def test_option_of_a_command_is_named_in_the_manual(command: str, option: str) -> None:
    """The manual names every option of a single command."""
    assert named(option), f"{option} of {command}"
