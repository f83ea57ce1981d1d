"""Follow the recipe for a disk template in ARCHITECTURE.md with a toy: disks on iSCSI targets."""

from __future__ import annotations

from pathlib import Path

import pytest

from .toys import Place, assert_follows, copy_with, run_paths

TOY: dict[Place, tuple[str, str]] = {
    ("iallocator/model/templates.py", "TEMPLATES"): (
        '        Template("gluster", SHARED,',
        '        Template("iscsi", SHARED, disk_key="provider"),\n<ANCHOR>',
    ),
    ("schemas/defs.schema.json", "gluster"): (
        '        "gluster",\n',
        '<ANCHOR>        "iscsi",\n',
    ),
}


def test_toy_template_is_treated_like_other_shared_storage_on_every_path(tmp_path: Path) -> None:
    """Requests, planners, N+1, validation, and documents in htools' format."""
    done = run_paths(copy_with(tmp_path, TOY), "toy_template_paths.py")
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("left_out", TOY, ids=": ".join)
def test_toy_template_without_one_entry_of_the_recipe_fails(
    left_out: Place, tmp_path: Path
) -> None:
    """Each entry of the recipe is needed."""
    assert run_paths(copy_with(tmp_path, TOY, left_out), "toy_template_paths.py").returncode != 0


def test_toy_template_follows_the_recipe() -> None:
    """The recipe names each place that the toy changes."""
    assert_follows(TOY, "disk template")
