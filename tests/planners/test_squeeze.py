"""Test `squeeze`: which nodes are powered down and on, in which order, and its output."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from iallocator.cli import main
from iallocator.deadline import SIGNALLED, Stopped
from iallocator.model.state import State
from iallocator.planners.plan import Plan
from iallocator.planners.squeeze.headroom import Headroom
from iallocator.sources.text import read_text
from iallocator.wire.reading import Reading
from tests.aliases import Capture
from tests.builders import Json, cluster, instance, rbd
from tests.command import json_of, plan_of, printed

from .hsqueeze import standby_cluster, text_cluster

MASTER = ("--master-node", "node1")
ONE_LEFT = "--n1=off"
"""Option without N+1, so that the last online node may run all instances."""


def reasons(plan: Json) -> dict[str, str]:
    """Return why each kept node is kept, by the name of the node."""
    return {one["node"]: one["reason"] for one in plan["kept"]}


def test_squeeze_frees_nodes_with_the_fewest_instances_first() -> None:
    """`squeeze` first frees nodes with the fewest instances; it never frees the master node."""
    homes = ("node1", "node2", "node2", "node2", "node3", "node4", "node4")
    document = cluster(
        4, memory=8192, instances={f"i{k}": rbd(home) for k, home in enumerate(homes)}
    )
    plan = plan_of("squeeze", document, *MASTER, ONE_LEFT, "--target-resources=0.5")
    assert (plan["action"], plan["switched_nodes"]) == ("offline", ["node3", "node4", "node2"])
    plan = plan_of("squeeze", document, *MASTER, "--target-resources=3")
    assert plan["switched_nodes"] == ["node3", "node4"]
    assert "in all" in reasons(plan)["node2"]


def test_squeeze_frees_preferred_nodes_first_and_avoided_ones_last() -> None:
    """`squeeze` frees preferred nodes first and avoided nodes last."""
    document = cluster(4, instances={f"i{k}": rbd(f"node{k}") for k in (1, 2, 3, 4)})
    options = (*MASTER, ONE_LEFT, "--prefer=node4", "--avoid=node2")
    plan = plan_of("squeeze", document, *options)
    assert plan["switched_nodes"] == ["node4", "node3", "node2"]


def test_squeeze_leaves_drbd_instances_by_default() -> None:
    """`squeeze` moves drbd instances and their secondaries only with --drbd."""
    document = cluster(4, instances={"web": instance("node2", "node3")})
    plan = plan_of("squeeze", document, *MASTER)
    assert plan["switched_nodes"] == ["node4"]
    assert "web" in reasons(plan)["node2"]
    assert "secondary of web" in reasons(plan)["node3"]
    plan = plan_of("squeeze", document, *MASTER, "--drbd")
    assert len(plan["switched_nodes"]) == 2
    freed = set(plan["switched_nodes"])
    assert not freed & {name for move in plan["moves"][-1:] for name in move["to"]}


def test_squeeze_with_option_all_moves_instances_that_are_not_auto_balanced(tmp_path: Path) -> None:
    """`squeeze` moves instances without auto_balance only with --all."""
    text = text_cluster_of("i1|128|0|1|running|N|node2||ext||1|-")
    path = tmp_path / "cluster.data"
    path.write_text(text)
    for options, freed in (((), []), (("--drbd",), []), (("--all",), ["node2"])):
        assert json_of("squeeze", ONE_LEFT, "-t", str(path), *options)["switched_nodes"] == freed, (
            options
        )


def text_cluster_of(*instances: str) -> str:
    """Return the text file of two nodes, the first one the master, with lines of `instances`."""
    node = "|4096|0|4096|1000|1000|8|{}|uuid|1|"
    ends = "1,1,0,0,0,1;99999,64,9999999,16,8,12|ext|4.0|32.0"
    parts = [
        ["group|uuid|preferred|"],
        ["node1" + node.format("M"), "node2" + node.format("N").replace("|0|4096", "|0|3968")],
        instances, [], [f"{name}|128,1,1024,1,1,1|{ends}" for name in ("", "group")],
    ]  # fmt: skip
    return "\n".join("".join(line + "\n" for line in part) for part in parts)


def test_squeeze_without_a_master_warns_and_keeps_a_node(tmp_path: Path, capsys: Capture) -> None:
    """If the master is unknown, `squeeze` prints a warning and keeps one node on."""
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(cluster(3)))
    assert main(["squeeze", "--json", str(path)]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("Warning: the master node is unknown")
    assert len(json.loads(captured.out)["switched_nodes"]) == 2
    assert main(["squeeze", "--json", str(path), *MASTER]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert json.loads(captured.out)["switched_nodes"] == ["node2", "node3"]
    assert main(["squeeze", "--quiet", "--json", str(path)]) == 0
    assert capsys.readouterr().err == ""


def test_squeeze_keeps_instances_in_their_group() -> None:
    """`squeeze` keeps a node on in each group with instances, which cannot change their group."""
    document = cluster({"a": 2, "b": 2}, instances={"i1": rbd("node1"), "i3": rbd("node3")})
    plan = plan_of("squeeze", document, *MASTER, ONE_LEFT)
    assert plan["switched_nodes"] == ["node2", "node4"]
    assert plan["moves"] == []


FULL = {f"i{k}": rbd("node1", memory=1000) for k in range(8)}


def test_squeeze_powers_on_standby_nodes_by_priority() -> None:
    """`squeeze` powers on standby nodes by the numbers in their tags, then those without one.

    Nodes that are offline for other reasons are not powered on.
    """
    tags = {
        "node2": ["htools:standby:auto"],
        "node3": ["htools:standby:priority:20"],
        "node4": ["htools:standby:priority:3", "htools:standby:auto"],
        "node5": ["pink:bunny"],
    }
    changes = {name: {"offline": True, "tags": some} for name, some in tags.items()}
    document = cluster(5, instances=FULL, changes=changes)
    plan = plan_of("squeeze", document, *MASTER)
    assert (plan["action"], plan["switched_nodes"]) == ("online", ["node4"])
    assert plan["node_tag_changes"] == {
        "add_by_node": {},
        "remove_by_node": {"node4": ["htools:standby:auto"]},
    }
    assert plan["shell_commands"][:2] == [
        "gnt-node power -f on node4",
        "gnt-node modify --offline=no node4",
    ]
    assert "gnt-node remove-tags node4 htools:standby:auto" in plan["shell_commands"]
    assert "node5" not in reasons(plan)
    plan = plan_of("squeeze", document, *MASTER, "--minimal-resources=5")
    assert plan["switched_nodes"] == ["node4", "node3"]
    plan = plan_of("squeeze", document, *MASTER, "--prefer=node2")
    assert plan["switched_nodes"] == ["node2"]


def test_squeeze_powers_on_nothing_where_moving_is_enough() -> None:
    """`squeeze` powers on no standby node if moves create the required reserve."""
    changes = {"node3": {"offline": True, "tags": ["htools:standby:auto"]}}
    document = cluster(3, instances=FULL, changes=changes)
    plan = plan_of("squeeze", document, *MASTER)
    assert (plan["action"], plan["switched_nodes"]) == ("none", [])
    assert plan["moves"]
    assert plan["shell_commands"]


def test_squeeze_leaves_no_node_for_a_second_run_to_free(tmp_path: Path) -> None:
    """`squeeze` frees all nodes in one plan, so that a second run frees none.

    Moves that reach the minimal resources make further nodes free. No instance moves to a freed
    node. hsqueeze frees none of the nodes.
    """
    path, after = tmp_path / "cluster.json", tmp_path / "after"
    document = cluster(4, instances=FULL)
    path.write_text(json.dumps(document))
    first = json_of("squeeze", "--verify-plan", *MASTER, "-S", str(after), str(path))
    assert (first["action"], first["switched_nodes"]) == ("offline", ["node2", "node3"])
    assert all(move["to"] == ["node4"] for move in first["moves"])
    second = json_of("squeeze", *MASTER, "-t", f"{after}.squeezed")
    assert (second["action"], second["switched_nodes"], second["moves"]) == ("none", [], [])
    compat = plan_of("squeeze", document, *MASTER, "--compat=hail")
    assert (compat["action"], compat["switched_nodes"]) == ("none", [])


def test_squeeze_regards_a_node_of_unknown_size_as_the_smallest(
    tmp_path: Path, capsys: Capture
) -> None:
    """`squeeze` regards a node of unknown size as the smallest node.

    In a captured request, nodes that are off report no sizes.
    """
    nothing = {"total_memory": 0, "free_memory": 0, "total_cpus": 0, "total_disk": 0}
    changes = {"node2": {"offline": True, "tags": ["htools:standby:x"], **nothing}}
    document = cluster(2, instances=FULL, changes=changes)
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(document))
    assert main(["squeeze", "--json", str(path), *MASTER]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["switched_nodes"] == ["node2"]
    assert "node2: size unknown" in captured.err


@pytest.mark.slow
def test_squeeze_with_two_thresholds_does_not_oscillate(tmp_path: Path) -> None:
    """`squeeze` with two thresholds makes no moves in a second run."""
    path = tmp_path / "cluster.data"
    switched = 0
    for seed in range(12):
        path.write_text(text_cluster(seed) if seed % 2 else standby_cluster(seed))
        save = ("-S", str(tmp_path / "after"))
        first = json_of("squeeze", "-t", str(path), *save, "--verify-plan")
        if any("not enough" in group["reason"] for group in first["groups"]):
            continue
        after = str(tmp_path / "after.squeezed")
        again = json_of("squeeze", "-t", after)
        if first["action"] == "offline":
            assert again["action"] != "online", seed
        if again["action"] == "offline":
            assert set(again["switched_nodes"]).isdisjoint(first["switched_nodes"]), seed
        switched += len(first["switched_nodes"])
    assert switched > 3


def test_squeeze_to_less_than_the_minimum_warns(tmp_path: Path, capsys: Capture) -> None:
    """`squeeze` warns if the target is below the minimum, as nodes would be switched repeatedly."""
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(cluster(2, instances={"i": rbd("node2", memory=6500)})))
    levels = (ONE_LEFT, "--minimal-resources=1", "--target-resources=0.5")
    assert main(["squeeze", "--json", str(path), *MASTER, *levels]) == 0
    captured = capsys.readouterr()
    assert "--target-resources is less" in captured.err
    assert json.loads(captured.out)["switched_nodes"] == ["node2"]


def test_squeeze_leaves_freed_nodes_empty_and_others_with_the_reserve(tmp_path: Path) -> None:
    """`squeeze` leaves the nodes it frees empty, and the others with the reserve.

    The text file saved with -S shows that.
    """
    freed = 0
    for seed in range(100, 124):
        path = tmp_path / "cluster.data"
        path.write_text(text_cluster(seed, (3, 6)))
        save = ("-S", str(tmp_path / "after"))
        plan = json_of("squeeze", "-t", str(path), *save)
        if plan["action"] != "offline":
            continue
        raw = (tmp_path / "after.squeezed").read_bytes()
        after = read_text(raw, "after", Reading())
        state, reserve = State(after.cluster), Headroom(after.policy.standard, 2.0)
        for node in after.cluster.nodes:
            if node.name in plan["switched_nodes"]:
                freed += 1
                assert not list(state.instances_on(node.index)), (seed, node.name)
                assert any(tag.startswith("htools:standby:") for tag in node.tags)
            elif node.online:
                assert reserve.lacks(state, node.index) == "", (seed, node.name)
            else:
                assert not state.primaries[node.index]
    assert freed > 5


def test_squeeze_commands_drain_first_and_power_off_last(tmp_path: Path) -> None:
    """The commands of squeeze drain nodes first and power them off last."""
    changes = {"node3": {"tags": ["htools:standby:manual"]}}
    document = cluster(3, instances={"i2": rbd("node2")}, changes=changes)
    path, script = tmp_path / "cluster.json", tmp_path / "script"
    path.write_text(json.dumps(document))
    assert "gnt-node" not in printed("squeeze", str(path), *MASTER, ONE_LEFT, f"-C{script}")
    lines = [line.strip() for line in script.read_text().splitlines()]
    assert lines[:2] == ["#!/bin/sh", "set -e"]
    run = [line for line in lines if line.startswith("gnt")]
    assert [line for line in run if line.endswith("node3")] == [
        "gnt-node modify --drained=yes --auto-promote node3",
        "gnt-node modify --offline=yes node3",
        "gnt-node power -f off node3",
    ]
    assert [line for line in run if "node3" not in line] == [
        "gnt-node modify --drained=yes --auto-promote node2",
        "gnt-instance migrate -f -n node1 i2",
        "gnt-node modify --offline=yes node2",
        "gnt-node power -f off node2",
        "gnt-node add-tags node2 htools:standby:auto",
    ]


def test_squeeze_has_the_reason_why_a_node_cannot_be_freed() -> None:
    """The table of squeeze names every node that stays on, with the reason."""
    document = cluster(
        3,
        memory=4096,
        instances={"big": rbd("node2", memory=3000), "local": instance("node3"),
                   "own": rbd("node1", memory=1500)},
    )  # fmt: skip
    out = printed("squeeze", *MASTER, "--minimal-resources=0.5", document=document)
    assert out.startswith("0 nodes freed; proved to be the most possible\n\nNo action\n")
    lines = {line.split()[0]: line for line in out.splitlines() if line.startswith("  node")}
    assert "master" in lines["node1"]
    assert "big" in lines["node2"] or "in all" in lines["node2"]
    assert "local" in lines["node3"]


def test_squeeze_without_time_powers_down_nothing() -> None:
    """With --time-limit 0, `squeeze` powers down no node and reports the limit."""
    plan = plan_of("squeeze", cluster(3), *MASTER, "--time-limit=0", status=3)
    assert (plan["action"], plan["switched_nodes"]) == ("none", [])
    assert plan["groups"][0]["reason"] == "time is up"


def test_squeeze_interrupted_prints_the_plan_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """After Ctrl-C, `squeeze` prints a complete plan and ends with exit status 130."""
    import iallocator.commands.plans as command

    calls = []

    def interrupt(plan: Plan) -> None:
        calls.append(plan)
        if len(calls) == 1:
            raise Stopped(SIGNALLED)

    monkeypatch.setattr(command, "say_plan", interrupt)
    plan = json_of(
        "squeeze",
        *MASTER,
        document=cluster(4, instances={f"i{k}": rbd(f"node{k}") for k in range(1, 5)}),
        status=130,
    )
    assert plan["groups"][0]["reason"] == "interrupted"
    assert all(set(move["to"]).isdisjoint(plan["switched_nodes"]) for move in plan["moves"])


@pytest.mark.parametrize(
    ("option", "problem"),
    [("--master-node=nope", "--master-node: unknown node nope"),
     ("--prefer=node1,nope", "--prefer: unknown node nope"),
     ("--avoid=nope", "--avoid: unknown node nope"),
     ("--group=nope", "--group: unknown group nope"),
     ("--target-resources=-1", "a number from 0 to 9007199254740992")],
)  # fmt: skip
def test_squeeze_names_an_invalid_value(
    option: str, problem: str, tmp_path: Path, capsys: Capture
) -> None:
    """`squeeze` reports an unknown node or group, or an invalid value of an option, as an error."""
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(cluster(2)))
    assert main(["squeeze", option, str(path)]) == 2
    assert problem in capsys.readouterr().err


def _renamed(document: Json, names: dict[str, str]) -> Json:
    """Return `document` with new names of nodes; `names` maps old names to new ones."""
    instances = {
        name: one | {"nodes": [names[node] for node in one["nodes"]]}
        for name, one in document["instances"].items()
    }
    nodes = {names[name]: node for name, node in document["nodes"].items()}
    return document | {"instances": instances, "nodes": nodes}


def test_squeeze_frees_as_many_nodes_whatever_their_names() -> None:
    """Without a known master, `squeeze` frees as many nodes whatever the nodes' names are."""
    last = "it is the last online node, and the master node is unknown"
    freed = 0
    for seed in range(30):
        rng = random.Random(f"squeeze renamed/{seed}")
        count = rng.randint(2, 6)
        homes = [f"node{rng.randint(1, count)}" for _ in range(rng.randint(0, 4))]
        held = {f"i{k}": rbd(home, memory=512) for k, home in enumerate(homes)}
        document = cluster(count, instances=held)
        names = list(document["nodes"])
        shuffled = rng.sample(names, len(names))
        options = (ONE_LEFT, "--target-resources=1")
        plan = plan_of("squeeze", document, *options)
        other = plan_of("squeeze", _renamed(document, dict(zip(names, shuffled))), *options)
        assert len(plan["switched_nodes"]) == len(other["switched_nodes"]) == count - 1, seed
        assert [one["reason"] for one in plan["kept"]] == [last]
        freed += len(plan["switched_nodes"])
    assert freed > 30


def test_squeeze_without_a_master_keeps_no_node_where_others_stay_online() -> None:
    """`squeeze` keeps no node on for an unknown master if instances keep other nodes on."""
    fixed = {f"fixed{k}": instance(f"node{k}") for k in (1, 2)}
    document = cluster(4, instances=fixed | {"web": rbd("node3")})
    plan = plan_of("squeeze", document, ONE_LEFT)
    assert sorted(plan["switched_nodes"]) == ["node3", "node4"]
    assert set(reasons(plan)) == {"node1", "node2"}
