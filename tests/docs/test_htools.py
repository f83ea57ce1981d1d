"""Test the page of htools' options against the option tables, and against installed tools."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from shutil import which

import pytest

from iallocator.commands import options_of
from iallocator.options.table import COMMON

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "htools.md").read_text()

COMMANDS = dict(re.findall(r"(?m)^\| `(\w+)` \| `iallocator ?([a-z-]*)` \|$", PAGE))

ROWS = re.findall(r"(?m)^\| (`-.*?`) \| ([a-z, ]+) \| (.*) \|$", PAGE)


def known(tool: str) -> set[str]:
    """Return the names of all options of the command that replaces `tool`."""
    command = COMMANDS[tool]
    table = options_of(command) if command else COMMON
    return {name for option in table for name in option.names}


@pytest.mark.parametrize(("names", "tools", "here"), ROWS, ids=[row[0] for row in ROWS])
def test_option_of_htools_with_equal_meaning_is_accepted(names: str, tools: str, here: str) -> None:
    """Each command accepts the options that have equal meaning in its program of htools."""
    for tool in tools.split(", "):
        if here.startswith("no:") or f"no for {tool}" in here:
            continue
        assert set(re.findall(r"`(-[\w-]+)`", names)) <= known(tool), tool


@pytest.mark.parametrize("tool", sorted(set(COMMANDS) - {"hail"}))
def test_page_has_every_option_of_the_tool_that_is_installed(tool: str) -> None:
    """The manual's page on htools has each option of an installed program of htools."""
    if which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    text = subprocess.run([tool, "--help"], capture_output=True, text=True, check=True).stdout
    reported = {
        name
        for names, tools, _ in ROWS
        if tool in tools.split(", ")
        for name in re.findall(r"`(--[\w-]+)`", names)
    }
    heads = " ".join(line[:45] for line in text.splitlines())
    listed = set(re.findall(r"(?<!\S)--([a-z0-9-]+)", heads))
    assert {f"--{name}" for name in listed} == reported
