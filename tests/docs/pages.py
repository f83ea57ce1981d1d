"""Read the pages of the manual: blocks of code, and tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["MANUAL", "ROOT", "Block", "blocks", "name_of", "prose", "tables"]

ROOT = Path(__file__).parents[2]

MANUAL = sorted((ROOT / "docs").rglob("*.md"))
"""Every page in docs/."""


class Block(NamedTuple):
    """Represent a fenced block by the words after the fence, and its lines."""

    mark: str
    text: str


FENCED = re.compile(r"(?m)^```(.*)\n((?:.*\n)*?)```$")


def name_of(path: Path) -> str:
    """Return the path from the root of the project, for the names of tests."""
    return str(path.relative_to(ROOT))


def blocks(path: Path) -> list[Block]:
    """Return the fenced blocks of a page."""
    return [Block(*found) for found in FENCED.findall(path.read_text(encoding="utf-8"))]


def prose(path: Path) -> str:
    """Return a page without its fenced blocks."""
    return FENCED.sub("", path.read_text(encoding="utf-8"))


def tables(path: Path) -> Iterator[list[str]]:
    """Yield the lines of each table of a page."""
    for found in re.findall(r"(?m)(?:^\|.*\|\n)+", prose(path) + "\n"):
        yield found.splitlines()
