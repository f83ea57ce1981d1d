"""Check that README and manual name every command and option."""

from __future__ import annotations

import re
from functools import cache

import pytest

from iallocator.commands import COMMANDS, settings_of
from iallocator.options.table import COMMON

from .imports import PACKAGE

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
    """Return whether a page contains `word`, and not only as a part of another word."""
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", pages()) is not None


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_command_is_named_in_the_manual(command: str) -> None:
    """Every command is in the manual."""
    assert named(f"iallocator {command}")


@pytest.mark.parametrize("option", OPTIONS)
def test_common_option_is_named_in_the_manual(option: str) -> None:
    """Every option of requests is in the manual."""
    assert named(option)


@pytest.mark.parametrize(("command", "option"), OF_COMMANDS)
def test_option_of_a_command_is_named_in_the_manual(command: str, option: str) -> None:
    """Every option of a single command is in the manual."""
    assert named(option), f"{option} of {command}"
