"""Add toys to a copy of the project, at the places that a recipe of ARCHITECTURE.md names.

Each module of this package has one toy. The script beside it checks the toy on every path; it runs
with the copy, and exits with an error if a path ignores the toy.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.paths import ROOT

from ..architecture import ARCHITECTURE

ANCHOR = "<ANCHOR>"
"""Word in a new text that stands for the text that it replaces."""

Place = tuple[str, str]
"""File and symbol, as in a recipe; the symbol is "" for a new file or a page."""

Changes = Mapping[Place, tuple[str, str]]
"""Place -> the present text, "" for a new file, and the text that replaces it."""

Done = subprocess.CompletedProcess[str]

UNHURRIED = (
    "import runpy, sys; from iallocator import deadline; deadline.LAST_RESORT = 86400.0;"
    " runpy.run_path(sys.argv[1], run_name='__main__')"
)
"""Runs a script so that searches end by their work, as in `tests.conftest`, not by the clock."""


class Toy:
    """A small example of an addition to the project, and how it is checked.

    Attributes
    ----------
    recipe:
        The title of the recipe, for example "disk template".
    script:
        The name of the script that checks every path.
    places:
        The changes at the places of the recipe.
    most_files:
        How many files an addition of this kind changes at most.
    effect:
        Further changes that give the toy an effect.
    phrases:
        Phrases of recipes, by title, for the place of new files.
    folders:
        The folders of the project in the copy.
    """

    def __init__(
        self,
        recipe: str,
        script: str,
        places: Changes,
        most_files: int,
        effect: Changes | None = None,
        phrases: Sequence[tuple[str, str]] = (),
        folders: Sequence[str] = ("iallocator", "schemas"),
    ) -> None:
        self.recipe = recipe
        self.script = script
        self.places = places
        self.most_files = most_files
        self.effect: Changes = effect or {}
        self.phrases = phrases
        self.folders = folders

    def copy(self, folder: Path, left_out: Place | None = None) -> Path:
        """Copy the project with the toy to `folder`, without the change at `left_out`; return
        `folder`.

        Raises AssertionError if the text that a place looks for is not there exactly once.
        """
        ignored = shutil.ignore_patterns("__pycache__")
        for name in self.folders:
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignored)
        for name in ("pyproject.toml", "setup.cfg"):
            shutil.copy(ROOT / name, folder)
        for place, (anchor, text) in self.changes(left_out).items():
            path = folder / place[0]
            if not anchor:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, "utf-8")
                continue
            source = path.read_text(encoding="utf-8")
            assert source.count(anchor) == 1, f"{place}: update the text that the toy looks for"
            path.write_text(source.replace(anchor, text.replace(ANCHOR, anchor)), "utf-8")
        return folder

    def changes(self, left_out: Place | None) -> Changes:
        """Return the changes that make the toy, without those at the place `left_out`."""
        every = {**self.places, **self.effect}
        return {place: every[place] for place in every if place != left_out}

    def check(self, folder: Path) -> Done:
        """Run the script that checks every path with the copy of the project in `folder`."""
        return run(folder, "-c", UNHURRIED, str(Path(__file__).with_name(self.script)))

    def check_without(self, folder: Path, left_out: Place) -> Done:
        """Run the checks with the copy in `folder`, which lacks the changes at one place."""
        return self.check(folder)


def run(folder: Path, *arguments: str) -> Done:
    """Run Python with the package in `folder` and the tests of this project."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def recipe(title: str) -> str:
    """Return the text of the recipe with this title, for example "disk template"."""
    found = re.search(rf"(?ms)^\*\*An? {title}\.\*\*(.*?)(?=^\*\*An? |\Z)", ARCHITECTURE)
    assert found, title
    return found[1]
