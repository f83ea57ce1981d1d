"""Follow the recipe for a constraint in ARCHITECTURE.md with a toy: at most N primaries a node."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .architecture import ARCHITECTURE
from .imports import PACKAGE

ROOT = PACKAGE.parent

TOY: dict[tuple[str, str], tuple[str, str]] = {
    ("model/cluster.py", "Node"): (
        "    def __init__(\n        self,\n        name: str,\n        group: Group,\n        *,\n"
        "        memory: NodeMemory",
        '''    @property
    def most_primaries(self) -> float:
        """How many primaries the node may have."""
        tags = (tag.rpartition(":")[2] for tag in self.tags if tag.startswith("most:"))
        return min(map(int, tags), default=float("inf"))

<ANCHOR>''',
    ),
    ("model/node_view.py", "NodeView"): (
        "    # Values that are not sums over instances\n",
        "    most_primaries: Quantity\n<ANCHOR>",
    ),
    ("model/node_view.py", "NodeView.__init__"): (
        "            self.stored,\n",
        "<ANCHOR>            self.most_primaries,\n",
    ),
    ("model/node_view.py", "capacities"): (
        "        1 if node.online and node.has_internal else 0,\n",
        "<ANCHOR>        node.most_primaries,\n",
    ),
    ("limits/node.py", "Resource"): (
        "_CPUS = Resource(\n",
        """_INSTANCES = Resource(
    "instances", 5, lambda used, node: node.most_primaries - used, rising=True
)
<ANCHOR>""",
    ),
    ("limits/node.py", "PRIMARY"): (
        "PRIMARY = RoleLimits(\n    POOLS,\n",
        """<ANCHOR>    Check(
        "FailCount", lambda b, a, i: a.primaries > a.most_primaries, "primaries",
        Lack("places for instances", "", lambda b, a, i: a.primaries - a.most_primaries,
             resource=_INSTANCES),
    ),
""",
    ),
    ("limits/node.py", "REASONS"): (
        '    "FailInternal": "an internal error",\n',
        '    "FailCount": "number of instances",\n<ANCHOR>',
    ),
    ("limits/words.py", "memory"): (
        "def memory(b",
        """def primaries(b: NodeView, a: NodeView, i: Instance) -> str:
    return f"is the primary of {b.primaries:.12g} instances, {a.most_primaries:.12g} are allowed"


<ANCHOR>""",
    ),
}
"""(File, symbol) of the recipe -> the text there, and what replaces it."""


def with_toy(folder: Path, left_out: tuple[str, str] | None) -> Path:
    """Return a folder with a copy of the package that has the toy, but for one entry."""
    shutil.copytree(PACKAGE, folder / "iallocator")
    for place, (anchor, text) in TOY.items():
        if place != left_out:
            path = folder / "iallocator" / place[0]
            source = path.read_text(encoding="utf-8")
            assert source.count(anchor) == 1, f"{place}: update the text that the toy looks for"
            new = text.replace("<ANCHOR>", anchor)
            if left_out == ("limits/node.py", "Resource"):
                new = re.sub(r",\s+resource=_INSTANCES", "", new)
            path.write_text(source.replace(anchor, new), encoding="utf-8")
    return folder


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check every path with the package in `folder`."""
    return subprocess.run(
        [sys.executable, str(Path(__file__).with_name("toy_paths.py"))],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_toy_limit_is_enforced_on_every_path(tmp_path: Path) -> None:
    """Allocations, exact search, moves, planners, transitions, capacity, N+1, explanations."""
    done = run(with_toy(tmp_path, None))
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("left_out", TOY, ids=lambda place: f"{place[0]}: {place[1]}")
def test_toy_limit_without_one_entry_of_the_recipe_fails(
    left_out: tuple[str, str], tmp_path: Path
) -> None:
    """Each entry of the recipe is needed."""
    assert run(with_toy(tmp_path, left_out)).returncode != 0


def test_toy_follows_the_recipe() -> None:
    """The recipe names each place that the toy changes in the tables of limits and nodes."""
    recipe = ARCHITECTURE.split("**A constraint.**")[1].split("**A statistic.**")[0]
    for file, symbol in TOY:
        assert f"`iallocator/{file}: {symbol}`" in recipe, (file, symbol)
