"""Add a toy to a copy of the project through the places that a recipe of ARCHITECTURE.md names."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from .architecture import ARCHITECTURE
from .imports import PACKAGE

ROOT = PACKAGE.parent

ANCHOR = "<ANCHOR>"
"""In the new text: where the text that it replaces is repeated."""

Place = tuple[str, str]
"""File, symbol: as in a recipe. The symbol of a file that is new, or is a page, is ""."""

Toy = Mapping[Place, tuple[str, str]]
"""Place -> the text there, and what replaces it; no text there: the file is new."""

FOLDERS = ("iallocator", "schemas")


def copy_with(
    folder: Path, toy: Toy, left_out: Place | None = None, folders: tuple[str, ...] = FOLDERS
) -> Path:
    """Return `folder` with a copy of parts of the project that has the toy, but for one place.

    Raises
    ------
    AssertionError
        If the text that a place looks for is not there exactly once.
    """
    ignored = shutil.ignore_patterns("__pycache__")
    for name in folders:
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignored)
    for name in ("pyproject.toml", "setup.cfg"):
        shutil.copy(ROOT / name, folder)
    for place, (anchor, text) in toy.items():
        if place == left_out:
            continue
        path = folder / place[0]
        if not anchor:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
            continue
        source = path.read_text(encoding="utf-8")
        assert source.count(anchor) == 1, f"{place}: update the text that the toy looks for"
        path.write_text(source.replace(anchor, text.replace(ANCHOR, anchor)), "utf-8")
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the copy in `folder` before this project, and with the tests of both."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def run_paths(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script of this folder, which checks the toy on every path, with the copy."""
    return run(folder, str(Path(__file__).with_name(script)))


def recipe(title: str) -> str:
    """Return the text of the recipe for a `title`, for example "disk template"."""
    found = re.search(rf"(?ms)^\*\*An? {title}\.\*\*(.*?)(?=^\*\*An? |\Z)", ARCHITECTURE)
    assert found, title
    return found[1]


def assert_follows(toy: Toy, title: str) -> None:
    """Check that the recipe names each place that the toy changes."""
    for file, symbol in toy:
        assert f"`{file}{': ' + symbol if symbol else ''}`" in recipe(title), (file, symbol)
