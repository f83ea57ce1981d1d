"""What balance shows and saves beside the plan, against hbal's own."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from iallocator.cli import main
from tests.builders import cluster, instance
from tests.command import json_of
from tests.conformance.documents import document
from tests.seeds import seeds

from .hbal import as_text, hbal, installed
from .test_balance_against_hbal import comparable

pytestmark = pytest.mark.skipif(not installed(), reason="hbal is not installed")

TOLERANCE = 1.5e-8
Output = pytest.CaptureFixture[str]


def worlds(seeds: range, folder: Path) -> list[tuple[Path, str]]:
    """Return text files of generated clusters, each with the name of its first group."""
    found = []
    for seed in seeds:
        raw: dict[str, Any] = document(seed, ("relocate", "node-evacuate")[seed % 2])
        if comparable(raw):
            (folder / str(seed)).mkdir()
            group = next(iter(raw["nodegroups"].values()))["name"]
            found.append((as_text(raw, folder / str(seed)), group))
    return found


def commands(text: str) -> list[str]:
    """Return the lines that a shell would run.

    hbal migrates also what does not run, and what Ganeti can only fail over off a dead node.
    """
    text = text.replace("failover -f --ignore-consistency", "migrate -f")
    lines = (line.strip().replace("failover", "migrate") for line in text.splitlines())
    return [line for line in lines if line.startswith(("gnt-", "echo"))]


def test_balance_commands_on_generated_clusters_are_those_of_hbal(
    tmp_path: Path, capsys: Output
) -> None:
    """-C prints the same gnt-instance commands in the same job sets, tie or not."""
    compared = 0
    for path, group in worlds(seeds(14, 20, 270), tmp_path):
        peer = hbal(path, "-C", "-G", group)
        if peer is None or not peer.moves:
            continue
        main(["balance", "--compat=hail", "-C", "-t", str(path), "-G", group])
        mine = capsys.readouterr().out
        ours = re.findall(r"^ +\d+  (\S+) .*a=(.*)$", mine, re.MULTILINE)
        if ours == [(name, notation) for name, _, notation in peer.moves]:
            assert commands(mine) == commands(peer.output), path
            compared += 1
    assert compared >= 3


def test_balance_saved_cluster_is_read_by_hbal_to_the_same_score(
    tmp_path: Path, capsys: Output
) -> None:
    """-S writes both states; hbal finds the score of the plan in either file."""
    compared = 0
    for path, group in worlds(seeds(6, 15, 290), tmp_path):
        options = ["balance", "--compat=hail", "--json", "-t", str(path), "-G", group]
        main([*options, "-S", str(tmp_path / "saved")])
        scores = json.loads(capsys.readouterr().out)["scores"]
        for suffix, moment in (("original", "before"), ("balanced", "after")):
            peer = hbal(tmp_path / f"saved.{suffix}", "-G", group)
            if peer is not None:
                assert peer.before == pytest.approx(scores[moment], abs=TOLERANCE), path
                compared += 1
    assert compared >= 6


def test_balance_print_nodes_and_instances_shows_both_moments(
    tmp_path: Path, capsys: Output
) -> None:
    """-p and --print-instances: before and after on stderr, with every name, moved or not."""
    path, group = worlds(range(290, 291), tmp_path)[0]
    lines = path.read_text().split("\n\n")
    fields = [line.split("|") for line in lines[1].split()]
    nodes = [one[0] for one in fields if one[8] == group]
    assert main(["balance", "-p", "--print-instances", "-t", str(path), "-G", group]) == 0
    shown = capsys.readouterr().err
    titles = ["Initial instance map ", "Initial cluster status ", "Final instance map ",
              "Final cluster status "]  # fmt: skip
    places = [shown.index(title) for title in titles]
    assert places == sorted(places)
    for part in (shown[places[1] : places[2]], shown[places[3] :]):
        assert all(re.search(rf"\b{re.escape(name)}\b", part) for name in nodes)


def test_balance_of_a_super_cluster_takes_the_worst_group_that_improves(
    tmp_path: Path, capsys: Output
) -> None:
    """Groups by falling score; the first with a move is the one that is balanced."""
    compared = 0
    for seed in seeds(14, 30, 305):
        raw = document(seed, "relocate")
        if len(raw["nodegroups"]) < 2:
            continue
        path = as_text(raw, tmp_path)
        main(["balance", "--all-groups", "--json", "-t", str(path)])
        groups = json.loads(capsys.readouterr().out)["groups"]
        scores = [group["before"] for group in groups]
        assert scores == sorted(scores, reverse=True), seed
        main(["balance", "--json", "-t", str(path)])
        chosen = json.loads(capsys.readouterr().out)["groups"]
        improving = [group for group in groups if group["moves"]]
        expected = improving[0] if improving else groups[0]
        assert [group["group"] for group in chosen] == [expected["group"]], seed
        compared += bool(improving)
    assert compared >= 3


def test_balance_of_a_group_without_online_nodes_plans_nothing() -> None:
    """No statistic counts there, and a mirrored instance has a place to look at all the same."""
    down = {"node1": {"offline": True}, "node2": {"drained": True}}
    assert (
        json_of(
            "balance",
            document=cluster(2, instances={"a": instance("node1", "node2")}, changes=down),
        )["moves"]
        == []
    )
