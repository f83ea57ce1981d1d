"""Test the reports of `check` if the rules of N+1 say that several nodes fail together."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from iallocator.cli import main
from iallocator.n1 import Rules
from tests.builders import as_bytes, cluster, instance, rbd
from tests.command import json_of

HELD = {"d0": instance("node1", "node2", memory=10), "r0": rbd("node2"), "r1": rbd("node3")}
"""Instances on four nodes; d0 is lost if its two nodes fail together."""


@pytest.fixture(autouse=True)
def one_power_supply(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the rules of every check say that the first two nodes fail together."""

    def rules(mode: str, *arguments: object) -> Rules:
        return Rules(mode, *arguments, failures=[(0, 1), (2,), (3,)])  # type: ignore[arg-type,misc]

    monkeypatch.setattr("iallocator.planners.check.health.Rules", rules)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return the path of a document with the instances `HELD`."""
    path = tmp_path / "document.json"
    path.write_bytes(as_bytes(cluster(4, instances=HELD)))
    return path


def test_finding_names_all_nodes_that_fail_together(source: Path) -> None:
    """The finding for a failure of two nodes names both, and an instance that is lost."""
    document = json_of("check", "--no-simulation", str(source), status=1)
    (found,) = (one for one in document["groups"][0]["findings"] if one["kind"] == "global_n1")
    assert (found["node"], found["instance"]) == ("node1 and node2", "d0")
    assert found["text"].startswith("if they fail together, d0 cannot be restarted")


def test_page_shows_the_failure_of_each_node_with_the_others(source: Path) -> None:
    """The page shows for each node the nodes that fail together with it, and what is lost then."""
    pytest.importorskip("jinja2", reason="the template library is not installed")
    page = source.with_name("page.html")
    main(["check", "--no-simulation", f"--html={page}", str(source)])
    rows: dict[str, list[str]] = {}
    for row in re.findall(r"<tr[^>]*>(.*?)</tr>", page.read_text(), re.DOTALL):
        cells = [unescape(re.sub(r"<[^>]*>", " ", cell)) for cell in row.split("</td>")]
        words = [" ".join(cell.split()) for cell in cells]
        rows.setdefault(words[0], words[1:])
    assert rows["node1"][0].startswith("not tolerated 1 instance lost")
    assert rows["node1"][1].startswith("fails together with node2; if they fail together, d0")
    assert rows["node1"][1].endswith("1 instance (10 MiB) without a secondary")
    assert rows["node2"][0].startswith("not tolerated 1 instance lost")
    assert rows["node3"][0] == "tolerated"


def test_metrics_count_the_instances_that_nodes_lose_together(source: Path) -> None:
    """The metrics have the instance that is lost if two nodes fail together."""
    file = source.with_name("metrics")
    main(["check", "--no-simulation", f"--metrics={file}", str(source)])
    lines = file.read_text().splitlines()
    assert 'iallocator_failures_not_tolerated{group="default"} 1' in lines
    assert 'iallocator_instances_not_restartable{group="default"} 1' in lines
