"""Test that tables fit 100 columns, with names of any length and script."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iallocator.cli import main
from iallocator.render.table import Column, Page, Table, columns_of
from tests.builders import Json, allocate, as_bytes, cluster, instance

COMMANDS = (
    "balance", "balance -p --print-instances", "balance-groups", "capacity", "check",
    "compress", "config", "constraints --all", "place --strategy=pacemaker-balanced",
    "redistribute", "show",
    "show -p --print-instances",
)  # fmt: skip


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


@pytest.mark.parametrize("words", COMMANDS)
@pytest.mark.parametrize("name", ["virtualisation-host", "仮想化サーバー"])
def test_tables_with_long_names_fit_100_columns(
    words: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No line is wider than 100 columns, and each node's name is printed completely."""
    path = tmp_path / "request.json"
    path.write_bytes(as_bytes(long_names(name)))
    main([*words.split(), str(path)])
    out, err = capsys.readouterr()
    lines = [line for line in (out + err).splitlines() if str(tmp_path) not in line]
    assert [line for line in lines if columns_of(line) > 100] == []


def test_width_of_letters_is_that_of_the_terminal() -> None:
    """Wide letters take two columns, combining accents none."""
    assert [columns_of(text) for text in ("abc", "数据", "e\u0301", "")] == [3, 4, 1, 0]


def test_table_wraps_cells_without_losing_anything() -> None:
    """Cells are wrapped at blanks, then at punctuation in names, then anywhere."""
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
