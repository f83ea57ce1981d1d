"""Check the tool that checks the language."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SHORT = "This page is short. It has two sentences.\n"

LONG = "This sentence has far too many words, " + "and goes on, " * 9 + "and never ends.\n"


def found(folder: Path, name: str, text: str) -> str:
    """Return what the tool prints about a file with this text, or "" if it is clean."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    command = [sys.executable, str(ROOT / "tools" / "prose"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == (1 if done.stdout else 0), done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.md", SHORT, ""),
        ("a.md", LONG, "page.md:1: a sentence of 37 words"),
        ("a.md", SHORT + "\n* Nobody moves.\n", '3: "Nobody": write'),
        ("a.md", "The output is `nobody`.\n", ""),
        ("a.md", "```\nnobody\n```\n", ""),
        ("a.md", f"| a | b |\n|---|---|\n| {LONG.strip()} | x |\n", "3: a sentence"),
        ("a.py", '"""Return the node."""\n', ""),
        ("a.py", '"""The same, but slower."""\n', 'a docstring begins with "The same"'),
        ("a.py", 'def f():\n    """Whether it fits."""\n', '2: a docstring begins with "Whether"'),
        ("a.py", 'X = 1\n"""Whoever asks."""\n', '2: "Whoever"'),
        ("a.py", "X = 1  # who knows\n", '1: "who"'),
        ("a.py", 'X = "who"\n', ""),
    ],
)
def test_text_with_a_discouraged_form_is_reported(
    name: str, text: str, expected: str, tmp_path: Path
) -> None:
    """Each finding has its line; code is left out."""
    printed = found(tmp_path, name, text)
    assert expected.removeprefix("page.md:") in printed
    assert bool(printed) is bool(expected)
