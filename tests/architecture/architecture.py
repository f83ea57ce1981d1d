"""Read the tables and the picture of imports in ARCHITECTURE.md."""

from __future__ import annotations

import re

from .imports import PACKAGE

__all__ = ["ARCHITECTURE", "Row", "layers", "package_imports", "rows"]

ARCHITECTURE = (PACKAGE.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")

Row = list[str]
"""The cells of one row of a table."""


def rows() -> dict[str, Row]:
    """Return name -> table row of each package, module and folder in ARCHITECTURE.md."""
    found: dict[str, Row] = {}
    for line in ARCHITECTURE.splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            name = cells[0].strip("`").rstrip("/").removesuffix(".py")
            assert name not in found, f"{name} has two rows"
            found[name] = cells
    return found


def package_imports() -> dict[str, tuple[str, ...]]:
    """Return the packages that each package imports, in the order of ARCHITECTURE.md."""
    return {name: tuple(cells[3].split()) for name, cells in rows().items() if len(cells) == 4}


def layers() -> list[list[str]]:
    """Return the lines of the picture of imports, from the top to the bottom."""
    picture = ARCHITECTURE.split("```text\n__main__\n")[1].split("```")[0]
    return [["__main__"], *(line.split(" · ") for line in picture.splitlines())]
