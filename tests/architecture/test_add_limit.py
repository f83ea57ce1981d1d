"""Follow the recipe for a constraint in ARCHITECTURE.md with a toy: at most N primaries a node."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from .toys import Place, assert_follows, copy_with, run_paths

TOY: dict[Place, tuple[str, str]] = {
    ("iallocator/model/cluster.py", "Node"): (
        "    def __init__(\n        self,\n        name: str,\n        group: Group,\n        *,\n"
        "        memory: NodeMemory",
        '''    @property
    def most_primaries(self) -> float:
        """How many primaries the node may have."""
        tags = (tag.rpartition(":")[2] for tag in self.tags if tag.startswith("most:"))
        return min(map(int, tags), default=float("inf"))

<ANCHOR>''',
    ),
    ("iallocator/model/node_view.py", "NodeView"): (
        "    # Values that are not sums over instances\n",
        "    most_primaries: Quantity\n<ANCHOR>",
    ),
    ("iallocator/model/node_view.py", "NodeView.__init__"): (
        "            self.stored,\n",
        "<ANCHOR>            self.most_primaries,\n",
    ),
    ("iallocator/model/node_view.py", "capacities"): (
        "        1 if node.online and node.has_internal else 0,\n",
        "<ANCHOR>        node.most_primaries,\n",
    ),
    ("iallocator/limits/node.py", "Resource"): (
        "_CPUS = Resource(\n",
        """_INSTANCES = Resource(
    "instances", 5, lambda used, node: node.most_primaries - used, rising=True
)
<ANCHOR>""",
    ),
    ("iallocator/limits/node.py", "PRIMARY"): (
        "PRIMARY = RoleLimits(\n    *_ACCESS,\n",
        """<ANCHOR>    Check(
        "FailCount", lambda b, a, i: a.primaries > a.most_primaries, "primaries",
        Lack("places for instances", "", lambda b, a, i: a.primaries - a.most_primaries,
             resource=_INSTANCES),
    ),
""",
    ),
    ("iallocator/limits/node.py", "REASONS"): (
        '    "FailInternal": "an internal error",\n',
        '    "FailCount": "number of instances",\n<ANCHOR>',
    ),
    ("iallocator/limits/words.py", "memory"): (
        "def memory(b",
        """def primaries(b: NodeView, a: NodeView, i: Instance) -> str:
    return f"is the primary of {b.primaries:.12g} instances, {a.most_primaries:.12g} are allowed"


<ANCHOR>""",
    ),
}


def run_without(folder: Path, left_out: Place | None) -> subprocess.CompletedProcess[str]:
    """Check every path with a copy of the package that has the toy, but for one place."""
    toy = TOY
    if left_out == ("iallocator/limits/node.py", "Resource"):
        toy = {
            at: (old, re.sub(r",\s+resource=_INSTANCES", "", new)) for at, (old, new) in TOY.items()
        }
    return run_paths(copy_with(folder, toy, left_out), "toy_limit_paths.py")


def test_toy_limit_is_enforced_on_every_path(tmp_path: Path) -> None:
    """Allocations, exact search, moves, planners, transitions, capacity, N+1, explanations."""
    done = run_without(tmp_path, None)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("left_out", TOY, ids=": ".join)
def test_toy_limit_without_one_entry_of_the_recipe_fails(left_out: Place, tmp_path: Path) -> None:
    """Each entry of the recipe is needed."""
    assert run_without(tmp_path, left_out).returncode != 0


def test_toy_follows_the_recipe() -> None:
    """The recipe names each place that the toy changes in the tables of limits and nodes."""
    assert_follows(TOY, "constraint")
