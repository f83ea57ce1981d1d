"""Test `tools/compare`: it finds differences between two checkouts, and tries each option."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

from iallocator.commands import COMMANDS, options_of
from iallocator.options.table import COMMON
from tests.paths import ROOT
from tests.patience import PATIENCE

TOOL = ROOT / "tools" / "compare"

_loader = SourceFileLoader("compare_checkouts", str(TOOL))
_spec = spec_from_loader("compare_checkouts", _loader)
assert _spec is not None
compare = module_from_spec(_spec)
sys.modules["compare_checkouts"] = compare
_loader.exec_module(compare)


def test_every_option_is_drawn_or_omitted_for_a_reason() -> None:
    tables = [COMMON, *map(options_of, COMMANDS)]
    options = {one.target: one for table in tables for one in table}
    values = {*compare.VALUES, *compare.NODES, *compare.INSTANCES}
    for target, option in options.items():
        drawn = option.read is None or target in values
        assert (target in compare.SKIPPED) != drawn or option.read is None, target
    assert {*values, *compare.SKIPPED} <= {*options, "json"}


def test_comparison_of_a_checkout_with_itself_is_equal() -> None:
    done = _compare(ROOT, "--documents=2")
    assert done.returncode == 0, done.stdout
    (total,) = (line for line in done.stdout.splitlines() if line.startswith("all "))
    assert int(total.split()[1]) > 15
    assert total.split()[3:5] == ["0", "0"]


def test_changed_message_and_changed_decision_are_found(tmp_path: Path) -> None:
    """`tools/compare --decisions` ignores a changed message, but not a changed exit status."""
    shutil.copytree(ROOT / "iallocator", tmp_path / "iallocator")
    words = tmp_path / "iallocator" / "render" / "listings.py"
    _replace(words, '"what it is",', '"a new line",')
    done = _compare(tmp_path, "--documents=20", "--label=show")
    assert done.returncode == 1
    assert "a new line" in done.stdout
    assert _compare(tmp_path, "--documents=20", "--label=show", "--decisions").returncode == 0
    _replace(words, '"a new line",', '"what it is",')
    show = tmp_path / "iallocator" / "commands" / "show.py"
    result = 'Shown(command, document, {"lists": lists})'
    _replace(
        show,
        f"    return {result}",
        f"    shown = {result}\n    shown.status = 1\n    return shown",
    )
    done = _compare(tmp_path, "--documents=20", "--label=show", "--decisions")
    assert done.returncode == 1
    assert "exit status" in done.stdout


def _replace(file: Path, old: str, new: str) -> None:
    """Replace the text `old`, which occurs once in `file`, by `new`."""
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1
    file.write_text(text.replace(old, new), encoding="utf-8")


def _compare(other: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOL), str(other), "-j1", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
