"""Follow the recipe for an option in ARCHITECTURE.md with a toy: a note at the end of `info`."""

from __future__ import annotations

from pathlib import Path

import pytest

from .toys import Place, assert_follows, copy_with, run_paths

TOY: dict[Place, tuple[str, str]] = {
    ("iallocator/options/settings.py", "Settings"): (
        "    top: int = 1\n",
        '<ANCHOR>    note: str = "none"\n',
    ),
    ("iallocator/options/settings.py", "REQUEST_SETTINGS"): (
        '    "strategy", "stickiness", "n1",',
        '    "note", "strategy", "stickiness", "n1",',
    ),
    ("iallocator/options/table.py", "COMMON"): (
        '    Option("--top", "top",',
        '    Option("--note", "note", "end info with a word: none (default), red or blue",\n'
        '           Choice("none", "red", "blue"), "WORD"),\n<ANCHOR>',
    ),
    ("schemas/request.schema.json", "seed"): (
        '        "seed": {"$ref": ',
        '        "note": {"enum": ["none", "red", "blue"]},\n<ANCHOR>',
    ),
}

EFFECT: dict[Place, tuple[str, str]] = {
    ("iallocator/engine.py", ""): (
        "    for name, why in context.bonds.unsupported",
        '    reply.info += "" if settings.note == "none" else f"; {settings.note}"\n<ANCHOR>',
    ),
}
"""What the option is for."""


def test_toy_option_has_effect_wherever_it_can_be_set(tmp_path: Path) -> None:
    """The command line, a file, a key of the request, a tag; help; rejected by planners."""
    done = run_paths(copy_with(tmp_path, {**TOY, **EFFECT}), "toy_option_paths.py")
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("left_out", TOY, ids=": ".join)
def test_toy_option_without_one_entry_of_the_recipe_fails(left_out: Place, tmp_path: Path) -> None:
    """Each entry of the recipe is needed."""
    folder = copy_with(tmp_path, {**TOY, **EFFECT}, left_out)
    assert run_paths(folder, "toy_option_paths.py").returncode != 0


def test_toy_option_follows_the_recipe() -> None:
    """The recipe names each place that the toy changes."""
    assert_follows(TOY, "option")
