"""Test that every file exists that a page of the project names."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.paths import ROOT

PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "ARCHITECTURE", "CONTRIBUTING")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "benchmarks").glob("*.md")),
]

ELSEWHERE = {
    "call.json": "is in a folder of captured calls",
    "external/": "is a prefix of volume groups, as Ganeti has them",
    "iallocator/ranking/longest_name.py": "is the worked example, which is not there yet",
}
"""Name on a page that the project does not contain -> the reason."""

PATH = re.compile(r"`((?:[\w.-]+/)*[\w.-]+(?:/|\.(?:py|md|jsonl?|svg|cfg|toml|html)))`")


@cache
def paths() -> tuple[str, ...]:
    """Return every file and folder of the project, relative to its root."""
    found = [p for p in ROOT.rglob("*") if not {".git", ".venv", "build"} & set(p.parts)]
    return tuple(f"/{path.relative_to(ROOT)}" for path in found)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_a_page_names_exist(path: Path) -> None:
    """A page of the project names only files and folders that exist."""
    named = set(PATH.findall(path.read_text(encoding="utf-8"))) - ELSEWHERE.keys()
    missing = [
        name for name in named if not any(one.endswith("/" + name.strip("/")) for one in paths())
    ]
    assert not missing, f"{path.relative_to(ROOT)} names {missing}"
