"""Test exit status 3, for an analysis ended by the time limit, for each command with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from iallocator.cli import main
from iallocator.commands import COMMANDS
from iallocator.commands.usage import exit_statuses
from tests.aliases import Capture
from tests.builders import Json, as_bytes, cluster, rbd
from tests.planners.test_check import tight

LINES = {
    "balance": (), "balance-groups": (), "capacity": (), "check": (), "compress": (),
    "maintain": ("--force", "--after=stay"),
    "make-room": ("--request=allocate --memory=1g --disk=1g --disk-template=rbd",), "metrics": (),
    "place": ("--strategy=pacemaker-balanced",), "reboot": ("--force",), "redistribute": (),
    "rescue": ("node1",), "squeeze": (),
}  # fmt: skip
"""Command -> arguments of a command line."""

LEAVES_OUT = {"maintain", "make-room", "reboot", "rescue"}
"""Commands that end with status 1 without time, as they leave out nodes or instances."""


def healthy() -> Json:
    """Return a healthy cluster of two groups with uneven load."""
    held = {f"i{k}": rbd(f"node{1 + k % 2}", memory=500) for k in range(8)}
    return cluster({"g0": 4, "g1": 4}, memory=20000, instances=held)


def test_every_command_with_the_status_is_tested() -> None:
    """Each command that documents exit status 3 is tested, and no other one."""
    assert {name for name in COMMANDS if exit_statuses(name).get("3")} == LINES.keys()


@pytest.mark.parametrize("command", LINES)
def test_time_limit_that_ends_the_analysis_gives_status_3(
    command: str, tmp_path: Path, capsys: Capture
) -> None:
    """If only the time limit ends the analysis, the status is 3; without limit, it is 0.

    Commands in `LEAVES_OUT` end with status 1 then.
    """
    file = tmp_path / "document.json"
    file.write_bytes(as_bytes(tight() if command == "check" else healthy()))
    words = [command, *LINES[command], str(file)]
    assert main(words) == 0, capsys.readouterr().err
    capsys.readouterr()
    status = main([*words, "--time-limit=0"])
    output = "".join(capsys.readouterr())
    assert status == (1 if command in LEAVES_OUT else 3), output
    assert "the time limit of 0 s was reached" in output
