"""README and docs: short where they are read first, and true."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from iallocator.commands import COMMANDS, options_of
from iallocator.options.table import COMMON

ROOT = Path(__file__).parents[2]

PAPERS = [
    *(ROOT / f"{name}.md" for name in ("README", "ARCHITECTURE", "CONTRIBUTING")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "benchmarks").glob("*.md")),
]

SHOWN = re.compile(r"`(iallocator [a-z][^`\n]*)`|(?m:^    (iallocator [a-z].*?)(?:  .*)?$)")


def test_examples_show_what_the_program_prints() -> None:
    """Every command in them is run, and what stands below it compared."""
    command = [sys.executable, str(ROOT / "tools" / "examples")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert (ROOT / "README.md").read_text().count("```console") == 5


def test_readme_is_read_in_a_few_minutes() -> None:
    """150 lines at most, and the two commands within the first ten."""
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 150
    assert any("make demo" in line for line in lines[:10])
    assert any("make test" in line for line in lines[:10])


SECTIONS = ("Problem", "Approach", "Cost", "Source", "Alternatives", "Code")
"""What a design page says, in this order; a proof may stand before the cost."""

DESIGN = [path for path in sorted((ROOT / "docs/design").glob("*.md")) if path.stem != "README"]


@pytest.mark.parametrize("path", DESIGN, ids=lambda path: path.stem)
def test_design_page_has_all_sections_and_is_listed(path: Path) -> None:
    """Problem, approach, cost, source, alternatives, code; the table of contents links it."""
    text = path.read_text()
    found = re.findall(r"(?m)^## (.*)$", text)
    assert [title for title in found if title in SECTIONS] == list(SECTIONS)
    assert text.splitlines()[2].startswith("This page ")
    assert f"({path.name})" in (path.parent / "README.md").read_text()


@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    """Files exist, and so do the headings that links name in them."""
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if target.startswith("http"):
            continue
        name, _, heading = target.partition("#")
        other = path.parent / name if name else path
        assert other.exists(), target
        if heading:
            assert heading in headings(other), target


def headings(path: Path) -> set[str]:
    """The names by which the headings of a page can be linked to."""
    found = re.findall(r"(?m)^#+ (.*)$", path.read_text())
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in found}


def shown(path: Path) -> Iterator[list[str]]:
    """The words of each command of ours that a paper shows in a line or a block."""
    for within, below in SHOWN.findall(path.read_text()):
        yield shlex.split(within or below)[1:]


@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.name)
def test_commands_that_a_paper_shows_take_their_options(path: Path) -> None:
    """Long ones and short ones, with a value or without."""
    for words in shown(path):
        table = options_of(words[0]) if words[0] in COMMANDS else COMMON
        known = {name for option in table for name in option.names}
        given = {word.split("=")[0] for word in words if word.startswith("-") and word != "-"}
        given = {word if word.startswith("--") else word[:2] for word in given}
        assert given <= known, (words, given - known)
