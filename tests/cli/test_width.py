"""Test that text with any names fits the terminal, and 100 columns in a pipe."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import pytest

from iallocator.cli import main
from iallocator.commands import COMMANDS
from iallocator.errors import terminal_width
from iallocator.render.table import Column, Page, Table, columns_of
from tests.builders import Json, allocate, as_bytes, cluster, instance

LINES = (
    "ask allocate --memory=1g --disk=10g --disk-template=drbd", "ask evacuate {node}",
    "balance", "balance -v", "balance -p --print-instances", "balance-groups", "capacity",
    "capacity --standard-alloc=1g,1g,1", "check", "check --failures=2", "compress", "config",
    "constraints --all", "explain", "explain -v", "explain --all", "make-room",
    "maintain --force", "maintain --force --parallel=1",
    "place --strategy=pacemaker-balanced", "reboot --force", "reboot --force --print-moves",
    "redistribute", "repair", "rescue {node}", "show", "show -p --print-instances",
    "squeeze --minimal-resources=0 --target-resources=0",
)  # fmt: skip
"""One command line for each command that prints tables."""

WITHOUT_TABLES = {"history", "metrics", "replay", "report", "snapshot"}
"""Commands that print no tables, but pages, files or lines for programs."""

WIDTHS = (60, 80, 100, 120, 200)


def long_names(name: str) -> Json:
    """Return a cluster in which nodes and instances have names of more than 60 letters."""
    held = {
        "a": instance("node1", "node2", memory=900),
        "b": instance("node2", "node1", memory=1000),
        "c": instance("node1", memory=500, disk_template="plain"),
    }
    document = allocate(cluster({"a-group-with-a-long-name": 3, "east": 2}, instances=held))
    for number in range(1, 6):
        host = f"{name}-node{number}.rack-12.datacentre-frankfurt.example.com"
        document = json.loads(json.dumps(document).replace(f'"node{number}"', f'"{host}"'))
    document["instances"] = {
        f"customer-application-{key}.prod.example.org": one
        for key, one in document["instances"].items()
    }
    return document


def test_every_command_with_tables_is_tested() -> None:
    """Each command that prints tables has a command line in this module."""
    assert {words.split()[0] for words in LINES} == COMMANDS.keys() - WITHOUT_TABLES


@pytest.mark.parametrize("words", LINES)
@pytest.mark.parametrize("name", ["virtualisation-host", "仮想化サーバー"])
def test_text_with_long_names_fits_the_terminal_and_100_columns_in_a_pipe(
    words: str,
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With long names, no line on stdout is wider than the terminal, or 100 columns in a pipe."""
    document = long_names(name)
    path = tmp_path / "request.json"
    path.write_bytes(as_bytes(document))
    line = [*words.format(node=next(iter(document["nodes"]))).split(), str(path)]

    def too_wide(width: int) -> list[str]:
        assert main(line) in (0, 1)
        out, err = capsys.readouterr()
        assert out, err
        return [one for one in out.splitlines() if columns_of(one) > width]

    assert too_wide(100) == []
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys.stdout, "fileno", lambda: 1)
    for width in WIDTHS:
        size = os.terminal_size((width, 40))
        monkeypatch.setattr("posix.get_terminal_size", lambda _, size=size: size)
        assert too_wide(width) == []


@pytest.mark.parametrize(("chosen", "used"), [("", 90), ("72", 72), ("none", 90), ("9999", 200)])
def test_columns_in_the_environment_have_precedence(
    chosen: str, used: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """$COLUMNS is the width on a terminal, but not in a pipe."""
    monkeypatch.setenv("COLUMNS", chosen)
    assert terminal_width(io.StringIO()) == 100
    monkeypatch.setattr("posix.get_terminal_size", lambda _: os.terminal_size((90, 40)))
    with open(os.devnull) as stream:
        assert terminal_width(stream) == used


def test_width_of_letters_is_that_of_the_terminal() -> None:
    """Wide letters count as two columns, and combining accents as none."""
    assert [columns_of(text) for text in ("abc", "数据", "e\u0301", "")] == [3, 4, 1, 0]


def test_table_wraps_cells_without_losing_anything() -> None:
    """A table wraps cells at blanks, then at punctuation in names, then anywhere."""
    page = Page(width=40)
    table = Table(Column("name"), Column("n", True), Column("why"))
    table.add("first-host.with-a-name:second-host", "12345678", "one two three four five six seven")
    page.table(table)
    lines = page.text().splitlines()
    assert max(map(len, lines)) <= 40
    letters = sorted("".join(lines[1:]).replace(" ", ""))
    assert letters == sorted(
        "first-host.with-a-name:second-host12345678onetwothreefourfivesixseven"
    )


def test_one_long_list_does_not_wrap_the_other_rows() -> None:
    """In a table with one long list, the rows without it have one line each."""
    page = Page(width=44)
    table = Table("of", "way", "after")
    for number in range(9):
        table.add(f"host{number}", "node1:node2 -> node2:node1", "7" if number else "11, 12, 13")
    page.table(table, indent=0)
    lines = page.text().splitlines()
    assert max(map(len, lines)) <= 44
    assert [line.split()[:1] for line in lines[:3]] == [["of"], ["host0"], ["13"]]
    assert [line.split()[0] for line in lines[3:]] == [f"host{number}" for number in range(1, 9)]


def test_table_that_is_too_wide_continues_below_after_its_first_column() -> None:
    """A table that is too wide continues below, with its first column repeated.

    No number is broken; rows without text in a part are omitted there.
    """
    page = Page(width=30)
    table = Table("name", Column("a", True, "sizes"), Column("b", True, "sizes"), "why", "note")
    table.add("first", "1234567890", "9876543210", "reason", "words")
    table.add("", "", "", "", "more")
    page.table(table, indent=0)
    first, _, second = page.text().partition("\n\n")
    assert first.splitlines() == [
        "       --------sizes---------",
        "name            a           b",
        "first  1234567890  9876543210",
    ]
    assert second.splitlines() == [
        "name   why     note",
        "first  reason  words",
        "               more",
    ]
