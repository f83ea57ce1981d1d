"""Test `capacity --add-nodes`: a purchase adds what the cluster with the new nodes holds."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from statistics import median_low
from typing import Any

import pytest

from iallocator.cli import main
from tests.aliases import Capture
from tests.builders import Json, as_bytes, cluster, instance, policy, spec
from tests.command import json_of, printed, run
from tests.planners.capacities import cluster as text_cluster
from tests.schemas import conforms
from tests.seeds import seeds

EXAMPLE = "docs/examples/cluster.json"


def equal_nodes(count: int, **members: Any) -> Json:
    """Return a cluster of equal nodes with a policy that allows small instances only."""
    document = cluster(count, memory=8192, **members)
    document["ipolicy"] = policy(high=spec(4096, 8, 102400, 4, 4))
    for group in document["nodegroups"].values():
        group.pop("ipolicy", None)
    return document


def purchases(document: Json, *words: str) -> list[Json]:
    """Return the purchases in the document that `capacity --add-nodes` prints."""
    answer = json.loads(printed("capacity", "--json", *words, document=document))
    conforms(answer, "capacity")
    found: list[Json] = answer["purchases"]
    return found


SIZE = ("--standard-alloc=1g,1g,1", "--tiered-alloc=1g,1g,1", "--disk-template=rbd")


@pytest.mark.parametrize("nodes", [2, 3, 5])
@pytest.mark.parametrize("added", [1, 2, 4])
def test_gain_of_equal_nodes_is_their_capacity(nodes: int, added: int) -> None:
    """The gain of n equal nodes is their capacity, less the N+1 reserve of one node.

    Seven instances fit on each node, so n nodes hold 7 × (n - 1).
    """
    document = equal_nodes(nodes, cpus=16)
    spec_of_nodes = f"{added}:100g,8g,16,cost=4"
    words = ("--n1=strict", f"--add-nodes={spec_of_nodes}", *SIZE)
    (found,) = purchases(document, *words)
    assert found["groups"] == [
        {"group": "default", "count": 7 * (nodes - 1), "count_after": 7 * (nodes + added - 1)}
    ]
    assert (found["gain"], found["cost"]) == (7 * added, 4 * added)
    assert found["gain_per_cost"] == 7 / 4
    assert found["both_proved"]


def test_memory_ratio_counts_for_new_nodes() -> None:
    """With the memory ratio 2, a purchased node holds twice as many instances."""
    bought = "--add-nodes=2:100g,8g,16"
    (found,) = purchases(equal_nodes(2, cpus=16), "--n1=off", bought, "--memory-ratio=2", *SIZE)
    (without,) = purchases(equal_nodes(2, cpus=16), "--n1=off", bought, *SIZE)
    assert (without["count"], found["count"]) == (28, 60)
    tagged = equal_nodes(2, cpus=16, tags=("iallocator:memory-ratio:2",))
    (by_tag,) = purchases(tagged, "--n1=off", bought, *SIZE)
    assert by_tag["count"] == found["count"]


def test_gain_of_a_larger_node_is_limited_by_the_failover_capacity_of_the_others() -> None:
    """The gain of a larger node is limited by what other nodes can restart when it fails.

    A node of 32 GiB beside two of 8 GiB adds at most 14 instances.
    """
    (found,) = purchases(equal_nodes(2, cpus=64), "--n1=strict", "--add-nodes=1:100g,32g,64", *SIZE)
    assert found["groups"][0]["count_after"] == 14
    assert found["gain"] == 7


def test_purchases_are_ordered_by_gain_per_cost() -> None:
    """Purchases are sorted by gain per cost; of equal ones, the less expensive one is first."""
    words = [
        "--add-nodes=1:100g,8g,16,cost=8",
        "--add-nodes=2:100g,8g,16,cost=2",
        "--add-nodes=1:100g,8g,16,cost=2",
        "--add-nodes=1:100g,8g,16,cost=4+1:100g,8g,16,cost=4",
    ]
    found = purchases(equal_nodes(3, cpus=16), "--n1=strict", *words, *SIZE)
    assert [one["gain_per_cost"] for one in found] == [3.5, 3.5, 1.75, 0.875]
    assert [one["cost"] for one in found] == [2, 4, 8, 8]
    assert found[2]["nodes_by_group"] == {"default": 2}


def nodes_of_text(text: str) -> list[list[str]]:
    """Return the fields of each line of a node in a text file."""
    return [line.split("|") for line in text.split("\n\n")[1].strip().splitlines()]


@pytest.mark.parametrize("seed", seeds(12, 60))
def test_purchase_equals_a_file_with_the_nodes(seed: int, tmp_path: Path) -> None:
    """A purchase gives the placements of a text file that has the nodes already."""
    rng = Random(f"purchase/{seed}")
    text = text_cluster(seed)
    count, memory, disk = rng.randint(1, 3), rng.choice((4096, 9000)), rng.choice((20000, 99999))
    nodes = nodes_of_text(text)
    uuid = nodes[0][8]
    peers = [one for one in nodes if one[8] == uuid]
    peers = [one for one in peers if one[7] != "Y"] or peers
    own = median_low(int(one[2]) for one in peers)
    spindles = median_low(int(one[9]) for one in peers) if len(peers[0]) > 9 else 1
    own_cpus = median_low(int(one[13]) if len(one) > 13 else 1 for one in peers)
    lines = [
        f"zz{k}|{memory}|{own}|{memory - own}|{disk}|{disk}|8|N|{uuid}|{spindles}||N|0|{own_cpus}"
        for k in range(count)
    ]
    parts = text.split("\n\n")
    parts[1] = "\n".join([parts[1].strip("\n"), *lines])
    (tmp_path / "now").write_text(text)
    (tmp_path / "then").write_text("\n\n".join(parts))
    words = ["--standard-alloc=2g,512m,1", "--tiered-alloc=2g,512m,1", "--accept-existing-errors"]
    words.append(f"--n1={rng.choice(('strict', 'no-worse', 'off'))}")
    words.append(f"--disk-template={rng.choice(('drbd', 'plain', 'rbd'))}")
    then = json_of("capacity", "-t", str(tmp_path / "then"), *words)["standard"]
    bought = f"--add-nodes={count}:{disk},{memory},8,group={uuid}"
    now = json_of("capacity", "-t", str(tmp_path / "now"), bought, *words)
    (found,) = now["purchases"]
    assert found["count"] == then["count"]
    assert found["gain"] == then["count"] - now["standard"]["count"]
    names = {f"new-node-{k + 1}": f"zz{k}" for k in range(count)}
    placed = [[names.get(node, node) for node in one["nodes"]] for one in found["instances"]]
    assert placed == [one["nodes"] for one in then["instances"]]


def pooled() -> Json:
    """Return a cluster with storage pools, exclusion tags, and a label that instances require."""
    document = equal_nodes(
        3,
        tags=("htools:iextags:service",),
        instances={
            "a": instance("node1", disk_template="ext", memory=1024, tags=["service:x"]),
            "b": instance("node2", disk_template="plain", memory=512, tags=["service:x"]),
        },
    )
    document["instances"]["a"] |= {"storage_type": "external", "storage_pool": "nas"}
    for name in ("node1", "node2"):
        document["nodes"][name]["tags"] = ["iallocator:pool:external:nas"]
    return document


@pytest.mark.parametrize("tags", [(), ("iallocator:pool:external:nas",)])
@pytest.mark.parametrize("template", ["drbd", "plain", "rbd"])
def test_purchase_equals_a_document_with_the_nodes(tags: tuple[str, ...], template: str) -> None:
    """A purchase gives the placements of a document that has the nodes already.

    Pools, exclusion tags and the memory reserve of the nodes have effect.
    """
    document = pooled()
    grown = json.loads(json.dumps(document))
    own = document["nodes"]["node1"]["reserved_memory"]
    grown["nodes"]["zz"] = {
        **grown["nodes"]["node3"], "tags": list(tags), "total_memory": 6000,
        "free_memory": 6000 - own, "total_disk": 50000, "free_disk": 50000,
    }  # fmt: skip
    size = ("--standard-alloc=2g,512m,1", "--tiered-alloc=2g,512m,1")
    words = (*size, f"--disk-template={template}")
    then = json.loads(printed("capacity", "--json", *words, document=grown))["standard"]
    cpus = document["nodes"]["node3"]["total_cpus"]
    bought = f"--add-nodes=1:50000,6000,{cpus}" + "".join(f",tag={tag}" for tag in tags)
    (found,) = purchases(document, bought, *words)
    assert [
        [node.replace("new-node-1", "zz") for node in one["nodes"]] for one in found["instances"]
    ] == [one["nodes"] for one in then["instances"]]


@pytest.mark.parametrize("spindles", [0, 3])
def test_node_of_a_group_with_exclusive_storage_has_it(spindles: int) -> None:
    """A node bought for a group with exclusive storage has spindles as stated or as usual there.

    The usual number is the lower median of the group.
    """
    document = equal_nodes(2)
    for one in document["nodes"].values():
        one["ndparams"] = {"exclusive_storage": True}
        one |= {"total_spindles": 6, "free_spindles": 6}
    words = ("--n1=off", "--standard-alloc=1g,512m,1,2", "--tiered-alloc=1g,512m,1,2")
    given = f",spindles={spindles}" if spindles else ""
    bought = f"--add-nodes=1:50000,8000,8{given}"
    (found,) = purchases(document, bought, "--disk-template=plain", *words)
    assert found["groups"] == [
        {"group": "default", "count": 6, "count_after": 6 + (1 if given else 3)}
    ]


def test_group_of_the_purchase_is_chosen() -> None:
    """A purchase increases the capacity of the named group only."""
    document = equal_nodes(2, cpus=16)
    document["nodegroups"]["uuid-west"] = {**document["nodegroups"]["uuid-default"], "name": "west"}
    document["nodes"]["node3"] = {**document["nodes"]["node2"], "group": "uuid-west"}
    bought = "--add-nodes=1:100g,8g,16,group=west"
    (found,) = purchases(document, "--n1=strict", bought, *SIZE)
    assert found["groups"] == [{"group": "west", "count": 0, "count_after": 7}]
    (found,) = purchases(document, "--n1=strict", "-Gwest", bought, *SIZE)
    assert (found["count"], found["gain"]) == (7, 7)
    (found,) = purchases(document, "--n1=off", "--restrict-allocation-to=node1", bought, *SIZE)
    assert {tuple(one["nodes"]) for one in found["instances"]} == {("node1",), ("new-node-1",)}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--add-nodes=2", "expected COUNT:DISK,MEMORY,CPUS"),
        ("--add-nodes=0:1g,1g,1", "expected COUNT:DISK,MEMORY,CPUS"),
        ("--add-nodes=1001:1g,1g,1", "at most 1000 nodes of one kind"),
        ("--add-nodes=1:1g,1x,1", "expected COUNT:DISK,MEMORY,CPUS"),
        ("--add-nodes=1:1g,1g,1,price=3", "each of group, cost, spindles, node-memory, tag"),
        ("--add-nodes=1:1g,1g,1,cost=0", "a cost above 0"),
        ("--add-nodes=1:1g,1g,1,cost=1e9", "a cost above 0"),
        ("--add-nodes=1:1g,1g,1,cost=3,cost=4", "each of group, cost"),
        ("--add-nodes=1:1g,1g,1,node-memory=2g", "node-memory up to the memory of the node"),
        ("--add-nodes=1:1g,1g,1,group=west", "a group of the cluster (default), got west"),
        ("--add-nodes=1:1g,1g,1 --compat=hail", "--add-nodes and --compat hail exclude"),
        ("--add-nodes=1:1g,1g,1 -l3", "--add-nodes and --max-length exclude"),
        (
            "--add-nodes=1:1g,1g,1 --machine-readable",
            "exclude each other: use --json",
        ),
        ("--add-nodes=1:1g,1g,1,cost=3 --add-nodes=1:1g,1g,1", "a cost for every kind of node"),
    ],
)
def test_invalid_purchase_is_rejected(words: str, message: str, capsys: Capture) -> None:
    """An invalid --add-nodes is rejected with status 2, and the message has what was expected."""
    assert main(["capacity", EXAMPLE, *words.split()]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "(east, west), but none is given"),
        ("group=west -Geast", "the group of --group, got west"),
        ("group=east", "east is unallocable"),
    ],
)
def test_invalid_group_is_rejected(
    words: str, message: str, tmp_path: Path, capsys: Capture
) -> None:
    """A purchase is rejected if its group is ambiguous or accepts no instances."""
    document = cluster({"east": 1, "west": 1})
    document["nodegroups"]["uuid-east"]["alloc_policy"] = "unallocable"
    (tmp_path / "doc").write_bytes(as_bytes(document))
    member, _, option = words.partition(" ")
    bought = f"--add-nodes=1:1g,1g,1{',' * bool(member)}{member}"
    assert main(["capacity", str(tmp_path / "doc"), bought, *option.split()]) == 2
    assert message in capsys.readouterr().err


def test_unfinished_search_gives_no_gain() -> None:
    """If time ends first, the gain of a purchase is unknown, and the exit status is 3."""
    done = run("capacity", EXAMPLE, "--json", "--time-limit=0", "--add-nodes=1:100g,8g,16")
    assert done.returncode == 3
    (found,) = json.loads(done.stdout)["purchases"]
    assert (found["gain"], found["gain_per_cost"], found["both_proved"]) == (None, None, False)
    text = run("capacity", EXAMPLE, "--time-limit=0", "--add-nodes=1:100g,8g,16").stdout.decode()
    assert "unknown" in text


def test_page_has_the_purchases(tmp_path: Path) -> None:
    """The page of capacity lists each purchase with its gain."""
    pytest.importorskip("jinja2", reason="the template library is not installed")
    page = tmp_path / "page.html"
    run("capacity", EXAMPLE, f"--html={page}", "--add-nodes=2:800g,24g,16,cost=10")
    text = page.read_text()
    assert "2:800g,24g,16,cost=10" in text
    assert "+10" in text
