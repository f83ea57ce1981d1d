"""README and docs name everything that a person can type."""

from __future__ import annotations

import re
from functools import cache

import pytest

from iallocator.commands import COMMANDS, command_of
from iallocator.options.table import COMMON

from .imports import PACKAGE

OPTIONS = sorted({name for option in COMMON for name in option.names})
OF_COMMANDS = sorted(
    {
        (command, name)
        for command in COMMANDS
        for option in command_of(command).options
        for name in option.names
    }
)


@cache
def papers() -> str:
    """README and docs, in one."""
    root = PACKAGE.parent
    return "\n".join(path.read_text() for path in (root / "README.md", *root.glob("docs/**/*.md")))


def named(word: str) -> bool:
    """Whether `word` stands in some paper, on its own and not as the start of another."""
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", papers()) is not None


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_command_is_named_in_the_readme(command: str) -> None:
    """A command that nobody reads about is not there."""
    assert named(f"iallocator {command}")


@pytest.mark.parametrize("option", OPTIONS)
def test_common_option_is_named_in_the_readme(option: str) -> None:
    """An option that nobody reads about is not there."""
    assert named(option)


@pytest.mark.parametrize(("command", "option"), OF_COMMANDS)
def test_option_of_a_command_is_named_in_the_readme(command: str, option: str) -> None:
    """The options of single commands are told too."""
    assert named(option), f"{option} of {command}"
