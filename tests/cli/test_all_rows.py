"""Test tables that are cut on a terminal: the option that they name prints all rows."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from iallocator.cli import main
from iallocator.commands import COMMANDS
from tests.aliases import Capture
from tests.builders import Json, as_bytes, cluster, instance
from tests.cli.test_width import WITHOUT_TABLES

LINES = (
    "ask evacuate node1", "balance", "balance -p --print-instances", "balance-groups",
    "capacity --tiered-alloc=1g,1g,1", "check", "check --failures=2", "compress", "config",
    "constraints", "explain", "maintain --force", "maintain --force --parallel=1",
    "make-room", "place", "reboot --force",
    "reboot --force --print-moves", "redistribute", "repair", "rescue node1", "show",
    "show -p --print-instances", "squeeze --minimal-resources=0 --target-resources=0",
)  # fmt: skip
"""One command line for each command that prints tables."""

NOT_CUT = {
    "balance-groups", "capacity --tiered-alloc=1g,1g,1", "compress", "make-room",
    "show",
}  # fmt: skip
"""Command lines with tables that are too short to be cut."""

MORE = re.compile(r"(?:\b\d+ more|names above are shortened)(?: \(|: )(.*)$", re.MULTILINE)


def large() -> Json:
    """Return 26 nodes with a request; one node is offline, two have 25 instances each."""
    tags = ["iallocator:separate:should:x"]
    held = {
        f"i{k:02}": instance("node1", memory=200, disk_template="rbd", tags=tags)
        if k % 2
        else instance("node2", f"node{3 + k % 19}", memory=200, tags=tags)
        for k in range(50)
    }
    document = cluster({"east": 22, "west": 4}, memory=64000, cpus=400, instances=held)
    document["nodes"]["node2"]["offline"] = True
    document["cluster_tags"] = tags
    document["request"] = {
        "type": "node-evacuate", "evac_mode": "all",
        "instances": [name for name in held if held[name]["nodes"][0] == "node1"],
    }  # fmt: skip
    return document


def on_terminal(words: list[str], capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the output of a command on a terminal of 120 columns."""
    with monkeypatch.context() as patched:
        patched.setenv("NO_COLOR", "1")
        patched.delenv("COLUMNS", raising=False)
        patched.setattr(sys.stdout, "isatty", lambda: True)
        patched.setattr(sys.stdout, "fileno", lambda: 1)
        patched.setattr("posix.get_terminal_size", lambda _: os.terminal_size((120, 40)))
        status = main(words)
    output = capsys.readouterr()
    assert status in (0, 1), output.err
    return output.out


def test_every_command_with_tables_is_tested() -> None:
    """Each command that prints tables has a command line in this module."""
    assert {words.split()[0] for words in LINES} == COMMANDS.keys() - WITHOUT_TABLES


@pytest.mark.parametrize("line", LINES)
def test_what_is_cut_is_printed_with_the_named_option(
    line: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The option that a cut list names prints the complete list."""
    path = tmp_path / "document.json"
    path.write_bytes(as_bytes(large()))
    words = [*line.split(), str(path)]
    text = on_terminal(words, capsys, monkeypatch)
    named = {one for hint in MORE.findall(text) for one in re.findall(r"--all[a-z-]*", hint)}
    assert bool(MORE.search(text)) == bool(named), text
    assert bool(named) == (line not in NOT_CUT), text
    for option in named:
        whole = on_terminal([*words, option], capsys, monkeypatch)
        assert not MORE.search(whole), whole
        assert len(whole) > len(text)


def test_campaign_of_many_groups_is_short_on_a_terminal(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal, the text of a campaign lists the first groups and counts the others."""
    path = tmp_path / "document.json"
    path.write_bytes(as_bytes(cluster({"east": 40})))
    words = ["maintain", "--force", "--parallel=1", str(path)]
    text = on_terminal(words, capsys, monkeypatch)
    assert len(text.splitlines()) < 80
    assert re.search(r"Groups \d+ to 40\n *\d+ more \(--all or --json\)\n", text)
    assert "\nGroup 40\n" in on_terminal([*words, "--all"], capsys, monkeypatch)
