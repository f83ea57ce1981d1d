"""README and docs: short where they are read first, and true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PAPERS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


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
