"""Test names with spaces, quotes and markup in every output format of a plan."""

from __future__ import annotations

import json
import subprocess
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.builders import Json, as_bytes, cluster, instance
from tests.command import run

ODD = ["a b", "it's", 'q"x', "<hr>&amp;", "\N{LATIN SMALL LETTER U WITH DIAERESIS}\N{EM DASH}",
       "$(touch x)", ";-n", "`id`\\n", " x ", "r:x f"]  # fmt: skip
"""Texts of unusual characters, used as names of objects."""

PLANNERS = {
    "balance": ("--all-groups", "-l3"),
    "squeeze": ("--all",),
    "reboot": ("--force",),
    "check": ("--simulation",),
    "balance-groups": (),
    "compress": (),
    "redistribute": (),
    "place": ("--strategy=pacemaker-balanced",),
}
DRAWN = PLANNERS.keys() - {"check"}


def named(odd: str) -> Json:
    """Return a nearly full cluster with the text `odd` in every name."""
    residents = {f"d{odd}{k}": instance(f"n{odd}1", f"n{odd}2", memory=512) for k in range(4)}
    residents |= {
        f"s{odd}{k}": instance(f"n{odd}1", disk_template="ext", memory=512) for k in range(3)
    }
    text = cluster({"default": 4, "other": 3})
    text["nodes"] = {name.replace("node", f"n{odd}"): one for name, one in text["nodes"].items()}
    text["instances"] = residents
    text["nodes"][f"n{odd}1"]["free_memory"] -= 7 * 512
    for one in text["nodegroups"].values():
        one["name"] += odd
    return text


class Page(HTMLParser):
    """A parser that collects the text of a page, and the names of its elements."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self.elements: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        """Store the name of an element."""
        self.elements.add(tag)

    def handle_data(self, data: str) -> None:
        """Store the text between elements."""
        self.text += data


@pytest.mark.parametrize("odd", ODD)
def test_unusual_names_are_complete_in_every_form_of_a_plan(odd: str, tmp_path: Path) -> None:
    """In every output format of a plan, unusual names are complete and break no syntax."""
    document, name = named(odd), f"d{odd}0"
    moved = 0
    for command, options in PLANNERS.items():
        outputs = {"plain": (), "json": ("--json",), "page": (f"--html={tmp_path / 'page'}",)}
        if command in DRAWN:
            drawing = str(tmp_path / "drawing.svg")
            outputs |= {"dot": ("--graph",), "svg": (f"--graph={drawing}",)}
        for form, more in outputs.items():
            done = run(command, *options, *more, stdin=as_bytes(document))
            assert done.returncode in (0, 1), (command, form, done.stderr)
            if form == "json":
                moved += name in {one["instance"] for one in json.loads(done.stdout)["moves"]}
            if form == "page":
                page = Page()
                page.feed((tmp_path / "page").read_text())
                assert "hr" not in page.elements
            if form == "svg":
                ET.parse(drawing)
    assert moved


@pytest.mark.parametrize("odd", ODD)
def test_unusual_names_are_single_words_of_a_script(odd: str, tmp_path: Path) -> None:
    """In the script of a plan, each unusual name is one word of the shell command."""
    script = tmp_path / "script"
    done = run("balance", "--all-groups", "-l9", f"-C{script}", stdin=as_bytes(named(odd)))
    assert done.returncode == 0
    tool = tmp_path / "gnt-instance"
    tool.write_text('#!/bin/sh\nfor word; do printf "%s\\\\0" "$word"; done >> words\n')
    tool.chmod(0o755)
    subprocess.run(
        ["sh", str(script)], cwd=tmp_path, check=True, timeout=60, capture_output=True,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
    )  # fmt: skip
    words = (tmp_path / "words").read_text().split("\0")
    names = {word for word in words if odd in word}
    assert names
    assert names <= {*named(odd)["nodes"], *named(odd)["instances"]}
    assert {path.name for path in tmp_path.iterdir()} == {"script", "gnt-instance", "words"}


def test_page_has_a_failover_if_the_primary_is_offline() -> None:
    """The page shows a failover, not a migration, for an instance on an offline primary."""
    residents = {"a": instance("node1", "node2"), "b": instance("node3", "node2")}
    document = cluster(3, instances=residents, changes={"node1": {"offline": True}})
    page = run("balance", "--html=-", stdin=as_bytes(document)).stdout.decode()
    assert "fail over to its secondary" in page
    assert "migrate to its secondary" not in page


def test_page_has_a_move_for_local_disks() -> None:
    """The page shows a move with local disks as stop, copy and start."""
    residents = {f"i{k}": instance("node1", disk_template="plain") for k in range(6)}
    document = cluster(2, instances=residents)
    plan = run("balance", "--json", stdin=as_bytes(document))
    page = run("balance", "--html=-", stdin=as_bytes(document)).stdout.decode()
    kinds = {one["kind"] for one in json.loads(plan.stdout)["transition"]["steps"]}
    assert ("move to node2" in page) is ("move" in kinds)
    assert "migrate to" not in page


def test_explain_has_a_failover_if_the_primary_is_offline() -> None:
    """The text of explain names a failover, not a migration, if the primary is offline."""
    document = cluster(
        4, instances={"a": instance("node1", "node2")}, changes={"node1": {"offline": True}}
    )
    document["request"] = {
        "type": "node-evacuate",
        "instances": ["a"],
        "evac_mode": "primary-only",
    }
    text = run("explain", stdin=as_bytes(document)).stdout.decode()
    assert "fail over to node2" in text
    assert "migrate to node2" not in text
