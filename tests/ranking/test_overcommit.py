"""Test nodes that report more memory than they have, to permit overcommitment."""

from __future__ import annotations

import json
from typing import Any

import pytest

from iallocator.commands.start import run_command
from tests.builders import Json, allocate_rbd, as_bytes, cluster, instance, rbd
from tests.command import respond

GIB = 1024


def _full(free: int, *tags: str, group_tags: tuple[str, ...] = ()) -> Json:
    """Return one node of 64 GiB with 64 instances of 1 GiB, which reports `free` MiB as free."""
    machines = {f"i{k:02}": rbd("node1", memory=GIB, vcpus=1) for k in range(64)}
    document = cluster(1, memory=64 * GIB, cpus=64, instances=machines)
    document["nodes"]["node1"] |= {"free_memory": free, "tags": list(tags)}
    document["nodegroups"]["uuid-default"]["tags"] = list(group_tags)
    return document


def _asked(document: Json, *options: str, memory: int = GIB, **members: Any) -> Json:
    """Return the response to a request for one more instance."""
    request = allocate_rbd(document, memory=memory, vcpus=1, **members)
    return respond(request, "--n1=off", *options)


@pytest.mark.parametrize("on_group", [False, True])
def test_contention_ratio_allows_more_allocated_memory_than_the_node_has(on_group: bool) -> None:
    """With a contention ratio, an instance fits on a node with all memory allocated.

    64 × 1 GiB on 64 GiB with ratio 2 and 30 GiB free leave capacity for one more.
    """
    tags = ["iallocator:ram-contention:2"]
    document = _full(30 * GIB, group_tags=tuple(tags)) if on_group else _full(30 * GIB, *tags)
    assert _asked(document, "--strategy=affinity")["result"] == ["node1"]
    assert not _asked(document, "--strategy=score")["success"]


def test_contention_ratio_does_not_apply_to_memory_in_use() -> None:
    """The contention ratio does not add free memory: a node that lacks free memory is rejected.

    Free memory must exceed size and overhead, which 2048 MiB do not.
    """
    document = _full(2 * GIB, "iallocator:ram-contention:2")
    assert not _asked(document, "--strategy=affinity")["success"]


def test_contention_ratio_limits_the_allocated_memory() -> None:
    """A node is rejected if the contention ratio does not leave memory for the instance.

    Ratio 1.02 of 64 GiB leaves 1310 MiB, less than an instance and the overhead.
    """
    document = _full(30 * GIB, "iallocator:ram-contention:1.02")
    assert not _asked(document, "--strategy=affinity")["success"]
    assert _asked(document, "--strategy=affinity", "--affinity-overhead=0")["success"]


def _advertised(machines: int, free: int) -> Json:
    """Return a node of 4096 MiB with instances of 1024 MiB that states a capacity of 6144 MiB."""
    running = {
        f"i{k}": rbd("node1", memory=1024, tags=["iallocator:utilization:memory:1024"])
        for k in range(machines)
    }
    document = cluster(1, memory=4096, cpus=16, instances=running)
    tags = ["iallocator:utilization:memory:6144"]
    document["nodes"]["node1"] |= {"free_memory": free, "tags": tags}
    return document


@pytest.mark.parametrize("kind", ["utilization", "balanced", "minimal"])
def test_advertised_capacity_allows_more_allocated_memory_than_the_node_has(kind: str) -> None:
    """An instance fits if the stated capacity of a node permits it, beyond its real memory.

    A fifth instance of 1024 MiB fits on 4096 MiB with a capacity of 6144 MiB.
    """
    document, option = _advertised(4, 1500), f"--strategy=pacemaker-{kind}"
    tags = ["iallocator:utilization:memory:1024"]
    assert _asked(document, option, tags=tags)["result"] == ["node1"]
    assert not _asked(_advertised(4, 0), option, tags=tags)["success"]
    assert not _asked(_advertised(4, 1000), option, tags=tags)["success"]
    assert not _asked(document, "--strategy=pacemaker-default", tags=tags)["success"]


def test_place_keeps_instances_that_fit_the_advertised_capacity(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """`place` keeps five instances on a node with a stated capacity for six of them."""
    path = tmp_path / "document.json"
    path.write_bytes(as_bytes(_advertised(5, 800)))
    line = ["place", "--json", "--strategy=utilization", "--verify-plan", str(path)]
    assert run_command("place", line) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["placement"].values()) == {"node1"}
    assert not found["moves"]


def _promising(home: str, *nodes: str, **members: Any) -> Json:
    """Return two nodes of 4096 MiB; node2 states 6144 MiB, and has little free memory."""
    machines = {"web": instance(home, *nodes, memory=1024, **members),
                "old": rbd("node2", memory=512)}  # fmt: skip
    document = cluster(2, memory=4096, cpus=16, instances=machines)
    for name, capacity in (("node1", 4096), ("node2", 6144)):
        document["nodes"][name]["tags"] = [f"iallocator:utilization:memory:{capacity}"]
    return document


@pytest.mark.parametrize(("free", "home"), [(900, "node1"), (1100, "node2")])
def test_place_moves_nothing_to_nodes_with_too_little_free_memory(
    free: int, home: str, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """`place` moves no instance to a node without free memory, whatever the node states."""
    document = _promising("node1", disk_template="rbd", tags=["iallocator:score:node2:5"])
    document["nodes"]["node2"]["free_memory"] = free
    path = tmp_path / "document.json"
    path.write_bytes(as_bytes(document))
    line = ["place", "--json", "--strategy=utilization", "--n1=off", "--verify-plan", str(path)]
    assert run_command("place", line) == 0
    assert json.loads(capsys.readouterr().out)["placement"]["web"] == home


@pytest.mark.parametrize(("free", "moved"), [(900, []), (1100, ["web"])])
def test_failover_needs_free_memory(free: int, moved: list[str]) -> None:
    """A failover needs free memory on the secondary, besides the stated capacity."""
    document = _promising("node1", "node2")
    document["nodes"]["node2"]["free_memory"] = free
    document["request"] = {
        "type": "node-evacuate", "instances": ["web"], "evac_mode": "primary-only",
    }  # fmt: skip
    options = ["--strategy=pacemaker-utilization", "--n1=off"]
    reply = respond(document, *options)
    assert [name for name, *_ in reply["result"][0]] == moved
    if not moved:
        assert "900 MiB really free" in reply["result"][1][0][1]


def test_key_of_a_group_counts_for_its_nodes_without_that_key() -> None:
    """A placement key in a tag of the group applies to its nodes without that key."""
    document = cluster(2, memory=65536)
    document["nodegroups"]["uuid-default"]["tags"] = ["iallocator:key:room:1"]
    document["nodes"]["node1"]["tags"] = ["iallocator:key:room:5"]
    wanted = ["iallocator:syskey:room:1:100"]
    assert _asked(document, "--strategy=affinity", tags=wanted)["result"] == ["node2"]
