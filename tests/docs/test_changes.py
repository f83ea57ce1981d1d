"""Make the changes that the how-tos "Write a ..." show, and compare the output with the pages."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.docs.test_manual import blocks
from tests.paths import ROOT

MARK = "console run: after the change of this page"

Change = tuple[str, str]
"""A file of the package, and the text in front of which the code of the how-to is added."""

CHANGES: dict[str, tuple[Change, ...]] = {
    "write-a-limit": (
        ("constraints/table.py", "    _MEMORY_LIMIT,\n"),
        ("constraints/words.py", "def memory("),
    ),
    "write-a-statistic": (("scoring/metrics.py", ')  # fmt: skip\n"""All statistics,'),),
    "write-a-strategy": (("ranking/__init__.py", '}\n"""Name of a strategy'),),
}
"""How-to -> the places of the code in its blocks, in order."""


def code_of(name: str, text: str) -> list[str]:
    """Return the blocks of code that the how-to `name`, with this `text`, adds to files."""
    if name == "write-a-strategy":
        lines = re.findall(r"(?m)^Add the line `(.*?)`", text)
        return [f"    {line},\n" for line in lines]
    return [block.text + "\n\n" for block in blocks(ROOT / f"docs/how-to/{name}.md")
            if block.mark == "text"]  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_change_of_a_how_to_leads_to_the_output_on_its_page(name: str, tmp_path: Path) -> None:
    """With the code of a how-to in the package, the command of the page has the shown output.

    ``...`` in the shown output stands for any text.
    """
    page = ROOT / f"docs/how-to/{name}.md"
    text = page.read_text()
    package = tmp_path / "iallocator"
    shutil.copytree(ROOT / "iallocator", package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "schemas", tmp_path / "schemas")
    for new in re.findall(r"Write `iallocator/([\w/]+\.py)`:\n\n```python\n(.*?)```", text, re.S):
        (package / new[0]).write_text(new[1])
    for (file, anchor), code in zip(CHANGES[name], code_of(name, text), strict=True):
        changed = (package / file).read_text()
        assert changed.count(anchor) == 1, file
        (package / file).write_text(changed.replace(anchor, code + anchor))
    (block,) = (one for one in blocks(page) if one.mark == MARK)
    command, _, expected = block.text.partition("\n")
    words = shlex.split(command.removeprefix("$ .venv/bin/python"))
    found = subprocess.run(
        [sys.executable, "-P", *words], cwd=ROOT, capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    ).stdout  # fmt: skip
    pattern = re.sub(r"(?m)^\.\.\.\n", "*", expected.replace("[", "[[]"))
    assert fnmatchcase(found, pattern), found
