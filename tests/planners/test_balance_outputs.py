"""Test the printed and saved output of balance against hbal's output."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest

from iallocator.cli import main
from tests.aliases import Capture
from tests.builders import Json, as_bytes, cluster, instance
from tests.command import json_of
from tests.conformance.documents import document
from tests.seeds import seeds

from .hbal import as_text, hbal, installed
from .test_balance_against_hbal import comparable

pytestmark = pytest.mark.skipif(not installed(), reason="hbal is not installed")

TOLERANCE = 1.5e-8


def scenarios(seeds: range, folder: Path) -> list[tuple[Path, str]]:
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
    """Return the commands in a script; a failover is written as a migration."""
    text = text.replace("failover -f --ignore-consistency", "migrate -f")
    lines = (line.strip().replace("failover", "migrate") for line in text.splitlines())
    return [line for line in lines if line.startswith(("gnt-", "echo"))]


def test_balance_commands_on_generated_clusters_are_those_of_hbal(
    tmp_path: Path, capsys: Capture
) -> None:
    """`balance -C` prints the same gnt-instance commands in the same job sets as hbal."""
    compared = 0
    for path, group in scenarios(seeds(14, 20, 270), tmp_path):
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
    tmp_path: Path, capsys: Capture
) -> None:
    """`balance -S` saves the states before and after; hbal computes the stated scores from them."""
    compared = 0
    for path, group in scenarios(seeds(6, 15, 290), tmp_path):
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
    tmp_path: Path, capsys: Capture
) -> None:
    """-p and --print-instances print nodes and instances before and after the plan, to stderr."""
    path, group = scenarios(range(290, 291), tmp_path)[0]
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


def test_balance_of_several_groups_chooses_the_worst_group_that_improves(
    tmp_path: Path, capsys: Capture
) -> None:
    """Of several groups, `balance` chooses the one with the worst score that has a move."""
    compared = 0
    for seed in seeds(14, 30, 305):
        raw = document(seed, "relocate")
        if len(raw["nodegroups"]) < 2:
            continue
        path = as_text(raw, tmp_path)
        main(["balance", "--all-groups", "--json", "--max-length=1", "-t", str(path)])
        groups = json.loads(capsys.readouterr().out)["groups"]
        scores = [group["score"] for group in groups]
        assert scores == sorted(scores, reverse=True), seed
        main(["balance", "--json", "--max-length=1", "-t", str(path)])
        chosen = json.loads(capsys.readouterr().out)["groups"]
        improving = [group for group in groups if group["move_count"]]
        expected = improving[0] if improving else groups[0]
        assert [group["group"] for group in chosen] == [expected["group"]], seed
        compared += bool(improving)
    assert compared >= 3


def test_balance_of_a_group_without_online_nodes_plans_nothing() -> None:
    """`balance` makes no move in a group without online nodes."""
    down = {"node1": {"offline": True}, "node2": {"drained": True}}
    assert (
        json_of(
            "balance",
            document=cluster(2, instances={"a": instance("node1", "node2")}, changes=down),
        )["moves"]
        == []
    )


# Clusters with absurd proportions, in which gains drown in rounding: plans end nevertheless.


SIZES = (0, 1, 2, 100, 10**4, 10**7, 10**9, 10**12, 2**53 - 1)

AMOUNTS = (
    "total_disk", "free_disk", "total_memory", "free_memory", "total_cpus", "total_spindles",
    "free_spindles",
)  # fmt: skip

LONGER = 300
"""Number of moves that no plan for twelve instances needs."""


def absurd(seed: int) -> Json:
    """Return a cluster with a few nodes that report 0 or a thousand times their total as free."""
    rng = Random(f"absurd/{seed}")
    count = rng.randrange(2, 6)
    residents = {}
    for number in range(rng.randrange(1, 12)):
        template = rng.choice(("drbd", "rbd", "plain", "drbd"))
        homes = [f"node{k}" for k in rng.sample(range(1, count + 1), 2)]
        residents[f"i{number}"] = instance(
            *homes[: 2 if template == "drbd" else 1],
            memory=rng.choice((0, 1, 128, 4096)),
            disk_template=template,
        )
    document = cluster(count, memory=16384, disk=10**6, cpus=16, instances=residents)
    for node in document["nodes"].values():
        node |= {name: rng.choice(SIZES) for name in AMOUNTS if rng.random() < 0.25}
    return document


@pytest.mark.parametrize(
    "command",
    [("balance",), ("balance", "--compat=hail"), ("squeeze", "--all"), ("check",)],
)
def test_plans_for_extreme_clusters_end_and_every_score_is_lower(
    command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On clusters with extreme values, each move of balance lowers the score, so plans end."""
    path = tmp_path / "absurd.json"
    for seed in range(38, 48):  # in case 45 an instance moved back and forth
        path.write_bytes(as_bytes(absurd(seed)))
        words = [
            *command,
            "--json",
            "--time-limit=3600",
            *["--simulation"] * (command[0] == "check"),
        ]
        assert main([*words, str(path)]) in (0, 1), seed
        plan = json.loads(capsys.readouterr().out)
        scores = [plan["scores"]["before"], *(move["score"] for move in plan["moves"])]
        assert len(scores) < LONGER, seed
        if command[0] == "balance":
            assert plan["scores"]["after"] <= plan["scores"]["before"], seed
        if command == ("balance", "--compat=hail"):
            assert scores == sorted(set(scores), reverse=True), seed
