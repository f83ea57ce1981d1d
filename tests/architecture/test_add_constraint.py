"""Follow the recipe for an access constraint in ARCHITECTURE.md with a toy.

An instance with the tag ``iallocator:only:LABEL`` may be only on nodes with the tag LABEL.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .toys import Place, assert_follows, copy_with, run_paths

TOY: dict[Place, tuple[str, str]] = {
    ("iallocator/constraints/access.py", "TaggedAccess"): (
        "class _Nodes:\n",
        '''class Labels(TaggedAccess):
    """An instance may be only on nodes with a label."""

    name = "labels"
    reason = "FailLabel"
    about = "labels of nodes"
    unit = "places with its label"
    verbs = "have", "has"

    def required(self, instance: Instance, prefix: str) -> Hashable | None:
        start = f"{prefix}only:"
        return next((t[len(start) :] for t in instance.tags if t.startswith(start)), None)

    def accepts(self, node: Node, required: Hashable, prefix: str) -> bool:
        return required in node.tags

    def words(self, required: Hashable) -> str:
        return f"label {required}"

    def origin(self, required: Hashable, prefix: str) -> str:
        return f"tag {prefix}only:{required}"


<ANCHOR>''',
    ),
    ("iallocator/constraints/access.py", "ACCESS"): (
        "(StoragePools(),)",
        "(StoragePools(), Labels())",
    ),
    ("iallocator/tags/foreign.py", "OUR_TAGS"): (
        '        "pool": POOLS,\n    },\n}\n',
        '        "pool": POOLS,\n        "only": (),\n    },\n}\n',
    ),
}

SCRIPT = "toy_constraint_paths.py"


def test_toy_constraint_is_enforced_on_every_path(tmp_path: Path) -> None:
    """Requests, exact search, planners, N+1, the verifier, transitions, lists, explanations."""
    done = run_paths(copy_with(tmp_path, TOY), SCRIPT)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("left_out", TOY, ids=": ".join)
def test_toy_constraint_without_one_entry_of_the_recipe_fails(
    left_out: Place, tmp_path: Path
) -> None:
    """Each entry of the recipe is needed."""
    assert run_paths(copy_with(tmp_path, TOY, left_out), SCRIPT).returncode != 0


def test_toy_constraint_follows_the_recipe() -> None:
    """The recipe names each place that the toy changes."""
    assert_follows(TOY, "constraint")
