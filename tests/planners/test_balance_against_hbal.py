"""Test that `balance` with hbal's rules has hbal's scores, move by move."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from iallocator.cli import main
from tests.builders import Json, allocate_rbd, cluster, rbd
from tests.command import run
from tests.conformance.documents import document
from tests.conformance.fairness import incomparable
from tests.paths import peer_data
from tests.seeds import seeds

from .hbal import as_text, hbal, installed

pytestmark = pytest.mark.skipif(not installed(), reason="hbal is not installed")

TOLERANCE = 1.5e-8
"""Largest difference of equal scores, as hbal prints eight decimals."""

OPTIONS = (
    ("--no-disk-moves",),
    ("--no-instance-moves",),
    ("--restricted-migration",),
    ("--evac-mode",),
    ("--evac-mode", "--restricted-migration"),
    ("--ignore-soft-errors",),
    ("--ignore-dynu",),
    ("--max-cpu=1.5",),
    ("--min-disk=0.6",),
    ("--min-gain=0.5", "--min-gain-limit=1000"),
    ("--max-length=2",),
    ("--min-score=2",),
)

HIDDEN = (12, 65, 77, 96)
"""Seeds of even clusters in which a bound once excluded the best move by a rounding error."""


def ours(*arguments: str) -> Json:
    """Return the plan of balance with hbal's rules, after executing it on the model."""
    done = run("balance", "--compat=hail", "--json", "--verify-plan", *arguments)
    assert (done.returncode, done.stderr) == (0, b"")
    plan: Json = json.loads(done.stdout)
    return plan


def difference(plan: Json, peer: Any) -> str:
    """Return the difference of `plan` to hbal's plan.

    "" if there is none, or if a tie explains it.
    """
    mine = [plan["scores"]["before"], *(move["score"] for move in plan["moves"])]
    theirs = peer.scores
    for step, (a, b) in enumerate(zip(mine, theirs)):
        if abs(a - b) > TOLERANCE:
            tied = any(
                (move["instance"], move["move"]) != (name, notation)
                for move, (name, _, notation) in zip(plan["moves"][: step - 1], peer.moves)
            )
            if tied and mine[-1] <= theirs[-1] + TOLERANCE:
                return ""
            return f"step {step}: {a:.8f}, hbal {b:.8f}: {plan['moves'][step - 1 : step]}"
    if len(mine) != len(theirs):
        return f"{len(mine) - 1} moves, hbal {len(theirs) - 1}"
    return ""


def comparable(raw: Json) -> bool:
    """Return whether hbal reads from hail's text file what iallocator reads from the document.

    Documents are excluded in which a node has another amount of memory for N+1 in hbal, and those
    with exclusive storage and instances without local disks: for hbal, these use spindles too.
    """
    exclusive = any(node["ndparams"]["exclusive_storage"] for node in raw["nodes"].values())
    shared = any(
        one["disks"] and one["disk_template"] not in ("drbd", "plain")
        for one in raw["instances"].values()
    )
    return not incomparable(raw, like_hail=True) and not (exclusive and shared)


def compare(seeds: range, folder: Path, *options: str) -> tuple[int, list[str]]:
    """Compare every group of generated documents; return how many, and the differences."""
    groups, wrong = 0, []
    for seed in seeds:
        raw = document(seed, ("relocate", "node-evacuate")[seed % 2])
        if not comparable(raw):
            continue
        text = as_text(raw, folder)
        captured = folder / "document.json"
        for group in raw["nodegroups"].values():
            peer = hbal(text, "-G", group["name"], *options)
            if peer is None:
                continue
            groups += 1
            plan = ours(str(captured), "-G", group["name"], *options)
            found = difference(plan, peer)
            if found:
                wrong.append(f"seed {seed}, group {group['name']}: {found}")
    return groups, wrong


def test_balance_of_generated_clusters_scores_as_hbal(tmp_path: Path) -> None:
    """`balance` with hbal's rules has hbal's score after every move, on dozens of groups."""
    groups, wrong = compare(seeds(16, 80), tmp_path)
    assert not wrong, "\n".join(wrong)
    assert groups >= 20


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
def test_balance_with_an_option_scores_as_hbal(options: tuple[str, ...], tmp_path: Path) -> None:
    """An option of balance has the effect of the hbal option with its name."""
    groups, wrong = compare(range(100, 130), tmp_path, *options)
    assert not wrong, "\n".join(wrong)
    assert groups >= 20


def test_balance_with_an_offline_node_scores_as_hbal(tmp_path: Path) -> None:
    """`balance` evacuates the nodes given by -O, as hbal does."""
    wrong, count = [], 0
    for seed in seeds(12, 30, 200):
        raw = document(seed, "relocate")
        if not comparable(raw):
            continue
        text = as_text(raw, tmp_path)
        name, node = next(iter(raw["nodes"].items()))
        options = ("-O", name, "-G", raw["nodegroups"][node["group"]]["name"])
        peer = hbal(text, *options)
        if peer is not None:
            count += 1
            found = difference(ours(str(tmp_path / "document.json"), *options), peer)
            wrong += [f"seed {seed}: {found}"] if found else []
    assert not wrong, "\n".join(wrong)
    assert count > 4


def test_balance_of_a_group_without_online_nodes_scores_as_hbal(tmp_path: Path) -> None:
    """`balance` gives a group without online nodes the score 0, as hbal does."""
    held = {f"i{k}": rbd(f"node{k}") for k in (1, 2, 3)}
    raw = cluster({"a": 1, "b": 1, "c": 2}, instances=held, changes={"node1": {"offline": True}})
    raw = allocate_rbd(raw)
    text = as_text(raw, tmp_path)
    for options in (("-G", "a"), ("-G", "b", "-O", "node2"), ("-G", "c")):
        peer = hbal(text, *options)
        assert peer is not None
        plan = ours(str(tmp_path / "document.json"), *options)
        assert difference(plan, peer) == "", options
        assert (plan["scores"]["before"] == 0) == ("c" not in options)


def test_balance_with_chosen_instances_scores_as_hbal(tmp_path: Path) -> None:
    """`balance` selects with --select-instances and --exclude-instances as hbal does."""
    wrong = []
    for seed in seeds(6, 15, 230):
        raw = document(seed, "relocate")
        if not comparable(raw) or len(raw["instances"]) < 4:
            continue
        text = as_text(raw, tmp_path)
        names = list(raw["instances"])
        group = next(iter(raw["nodegroups"].values()))["name"]
        for option in ("--select-instances", "--exclude-instances"):
            options = (f"{option}={','.join(names[::2])}", "-G", group)
            peer = hbal(text, *options)
            if peer is not None:
                plan = ours(str(tmp_path / "document.json"), *options)
                found = difference(plan, peer)
                wrong += [f"seed {seed} {option}: {found}"] if found else []
    assert not wrong, "\n".join(wrong)


def test_balance_with_utilisation_scores_as_hbal(tmp_path: Path) -> None:
    """`balance -U` weighs instances by their utilisation as hbal does."""
    wrong = []
    for seed in seeds(8, 15, 245):
        raw = document(seed, "relocate")
        if not comparable(raw):
            continue
        text = as_text(raw, tmp_path)
        loads = tmp_path / "loads"
        lines = [
            f"{name} {k % 5 / 4} {k % 3 / 2} {k % 7 / 8} 1"
            for k, name in enumerate(raw["instances"])
        ]
        loads.write_text("\n".join(lines) + "\n")
        group = next(iter(raw["nodegroups"].values()))["name"]
        options = ("-U", str(loads), "-G", group)
        peer = hbal(text, *options)
        if peer is not None:
            found = difference(ours(str(tmp_path / "document.json"), *options), peer)
            wrong += [f"seed {seed}: {found}"] if found else []
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", peer_data("*.data"), ids=lambda path: str(path.stem))
def test_balance_of_peer_data_scores_as_hbal(path: Path) -> None:
    """On Ganeti's own test data, `balance` with hbal's rules has hbal's score after every move."""
    peer = hbal(path)
    assert peer is not None
    assert difference(ours("-t", str(path)), peer) == ""


@pytest.mark.parametrize("path", peer_data("hbal-*.data"), ids=lambda path: str(path.stem))
def test_balance_commands_are_those_of_hbal(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`balance -C` prints the commands of hbal in the job sets of hbal."""
    peer = hbal(path, "-C")
    assert peer is not None
    main(["balance", "--compat=hail", "-C", "-t", str(path)])
    mine = capsys.readouterr().out
    commands = [
        [line.strip() for line in text.splitlines() if line.lstrip()[:4] in ("gnt-", "echo")]
        for text in (mine, peer.output)
    ]
    assert commands[0] == commands[1]


EXCLUSIVE = """\
default|uuid-default|preferred||

node1|16384|512|6288|102400|0|2|Y|uuid-default|3|rack:a|N|0|1|1.0
node2|16384|512|9872|102400|12400|4|N|uuid-default|6||Y|2|1|1.0
node3|16384|512|15872|102400|62160|2|N|uuid-default|6|rack:a|N|3|1|1.0

i0|512|30000|1|running|Y|node1|node2|drbd|svc:a|1|-|N
i1|1024|30000|2|running|Y|node1|node3|drbd||1|1|N
i2|3000|30000|1|running|Y|node1|node2|drbd|svc:a|1|1|N
i3|512|10240|2|running|Y|node1|node3|drbd||1|2|N
i4|3000|30000|1|running|Y|node2||ext||1|1|N
i5|512|30000|1|running|Y|node1||plain||1|-|N
i6|3000|30000|2|running|Y|node2||plain||1|3|N
i7|1024|1024|2|running|Y|node1||ext|svc:a|1|3|N
i8|3000|1024|2|running|Y|node1||ext|svc:a|1|-|N

htools:iextags:svc

|128,1,1024,1,1,1|128,1,1024,1,1,1;32768,8,1048576,16,8,12|drbd,plain,ext|4.0|32.0
"""
"""An instance with unknown spindles, on nodes with exclusive storage."""


@pytest.mark.parametrize("options", [("--ignore-soft-errors",), ()])
def test_plan_with_hidden_spindles_is_printed_as_by_hbal(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    """A plan with instances of unknown spindles is printed as by hbal, in any order of steps."""
    path = tmp_path / "cluster.data"
    path.write_text(EXCLUSIVE)
    peer = hbal(path, *options)
    assert peer is not None
    assert peer.moves or not options
    plan = ours("-t", str(path), *options)
    assert difference(plan, peer) == ""


BUSY_SECONDARY = """\
default|uuid-default|preferred||

node1|16384|512|15872|102400|72400|2|Y|uuid-default|6||N|0|1|1.0
node2|16384|512|{free}|102400|72400|4|{offline}|uuid-default|6||N|2|1|1.0
node3|16384|512|12872|102400|102400|2|N|uuid-default|6||N|3|1|1.0

i0|512|30000|1|running|Y|node1|node2|drbd|svc:a|1|1|N
i1|3000|1024|2|running|Y|node3||ext|{tag}|1|1|N

htools:iextags:svc

|128,1,1024,1,1,1|128,1,1024,1,1,1;32768,8,1048576,16,8,12|drbd,plain,ext|4.0|32.0
"""
"""A cluster in which the primary of i0 is offline and its secondary, node2, cannot take over.

Instance i1 can have the exclusion tag of i0, so that i0 cannot move to node3.
"""


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"free": 100, "offline": "N", "tag": "svc:a"}, id="excluded"),
        pytest.param({"free": 100, "offline": "N", "tag": ""}, id="not excluded"),
        pytest.param({"free": 15000, "offline": "Y", "tag": "svc:a"}, id="secondary offline"),
    ],
)
def test_soft_limits_of_a_copy_off_an_offline_primary_are_those_of_hbal(
    values: dict[str, str], tmp_path: Path
) -> None:
    """Off an offline primary, soft limits apply to copies with a failover only, as in hbal."""
    path = tmp_path / "cluster.data"
    path.write_text(BUSY_SECONDARY.format(**values))
    peer = hbal(path)
    assert peer is not None
    assert difference(ours("-t", str(path)), peer) == ""


def even_cluster(seed: int) -> str:
    """Return a text file with equal drbd instances on equal nodes, one of them offline."""
    rng = Random(seed)
    nodes = [f"node{number}" for number in range(rng.randint(3, 5))]
    placed = [rng.sample(nodes, 2) for _ in range(rng.randint(4, 8))]
    down = rng.choice([*nodes, ""])
    lines = ["default|uuid|preferred||", ""]
    for name in nodes:
        memory = 16384 - 1024 * sum(primary == name for primary, _ in placed)
        disk = 65536 - 4096 * sum(name in both for both in placed)
        offline = "Y" if name == down else "N"
        lines.append(f"{name}|16384|0|{memory}|65536|{disk}|16|{offline}|uuid|1||N|0|1|1.0")
    lines.append("")
    for number, (primary, secondary) in enumerate(placed):
        lines.append(f"i{number}|1024|4096|1|running|Y|{primary}|{secondary}|drbd||1|-")
    return "\n".join([*lines, "", "", ""])


def test_balance_of_even_clusters_scores_as_hbal(tmp_path: Path) -> None:
    """`balance` finds a move to a deviation of exactly 0, which rounding errors of bounds may
    exclude.
    """
    wrong, path = [], tmp_path / "cluster.data"
    for seed in (*seeds(20, 150), *HIDDEN):
        path.write_text(even_cluster(seed))
        peer = hbal(path)
        if peer is not None and (found := difference(ours("-t", str(path)), peer)):
            wrong.append(f"seed {seed}: {found}")
    assert not wrong, "\n".join(wrong)
