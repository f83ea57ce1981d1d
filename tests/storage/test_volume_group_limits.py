"""Test several volume groups in placements, plans and capacity against brute force."""

from __future__ import annotations

from collections import Counter
from itertools import permutations, product
from random import Random
from typing import Any

import pytest

from tests.builders import Json, allocate, allocate_rbd, cluster, instance, rbd
from tests.command import json_of, plan_of, respond
from tests.seeds import seeds

GROUPS = ("lvm", "fast", "slow")

METADATA = 128
"""MiB of metadata of each drbd disk; by default, they are in ``lvm``."""

Free = dict[str, dict[str, int]]
"""Node -> volume group -> free MiB; a volume group that the node lacks is missing."""


def some_disks(rng: Random, template: str, groups: tuple[str, ...] = GROUPS) -> list[Json]:
    """Return one or two disks in some of the volume groups `groups`."""
    found = []
    for _ in range(rng.choice((1, 1, 2))):
        disk = {"size": rng.choice((300, 700, 1500)), "vg": rng.choice(groups), "spindles": 1}
        if template == "drbd" and rng.random() < 0.5:
            disk["metavg"] = rng.choice(groups)
        found.append(disk)
    return found


def needs(disks: list[Json], template: str) -> Counter[str]:
    """Return the MiB that disks use in each volume group of a node, by definition."""
    found: Counter[str] = Counter()
    for disk in disks:
        found[disk["vg"]] += disk["size"]
        if template == "drbd":
            found[disk.get("metavg", "lvm")] += METADATA
    return found


def takes(free: dict[str, int], needed: Counter[str]) -> bool:
    """Return whether a node has each volume group, with at least 1 MiB left in each."""
    return all(group in free and free[group] > size for group, size in needed.items())


def total_of(disks: list[Json], template: str) -> int:
    """Return the member ``disk_space_total`` of a request for `disks`, in MiB."""
    return sum(needs(disks, template).values())


def scenario(rng: Random, template: str) -> tuple[Json, Free]:
    """Return three to five nodes with volume groups and instances, and their free MiB."""
    names = [f"node{k}" for k in range(1, rng.randint(4, 6))]
    free: Free = {
        name: {vg: rng.choice((2000, 4000, 6000)) for vg in GROUPS if rng.random() < 0.6}
        for name in names
    }
    sizes = {name: dict(groups) for name, groups in free.items()}
    residents = {}
    for number in range(rng.randint(2, 3 * len(names))):
        disks = some_disks(rng, template)
        needed = needs(disks, template)
        homes = [name for name in names if takes(free[name], needed)]
        roles = 2 if template == "drbd" else 1
        if len(homes) < roles:
            continue
        nodes = rng.sample(homes, roles)
        for name in nodes:
            for group, size in needed.items():
                free[name][group] -= size
        residents[f"i{number}"] = instance(
            *nodes, memory=100, disk_template=template, disks=disks,
            disk_space_total=total_of(disks, template),
        )  # fmt: skip
    document = cluster(len(names), memory=30000, cpus=64, instances=residents)
    for name, node in document["nodes"].items():
        node |= {"total_disk": sizes[name].get("lvm", 0), "free_disk": free[name].get("lvm", 0)}
        node["volume_groups"] = [
            {"name": group, "total": sizes[name][group], "free": left}
            for group, left in free[name].items()
        ]
    return document, free


def asked_for(rng: Random, document: Json, template: str, name: str = "new") -> Json:
    """Return `document` with a request for an instance with disks in some volume groups."""
    disks = some_disks(rng, template)
    return allocate(
        document, name=name, memory=100, disk_template=template, disks=disks,
        disk_space_total=total_of(disks, template),
    )  # fmt: skip


@pytest.mark.parametrize("template", ["plain", "drbd"])
def test_allocations_equal_brute_force(template: str) -> None:
    """An allocation can use exactly the nodes with free space in each volume group."""
    outcomes: Counter[bool] = Counter()
    for seed in seeds(40, 800):
        rng = Random(f"volume-groups/{template}/{seed}")
        document, free = scenario(rng, template)
        request = asked_for(rng, document, template)
        needed = needs(request["request"]["disks"], template)
        homes = [name for name in free if takes(free[name], needed)]
        expected = len(homes) * (len(homes) - 1 if template == "drbd" else 1)
        answer = respond(request, "--n1=off")
        outcomes[expected > 0] += 1
        assert answer["success"] is (expected > 0), (seed, answer)
        if expected:
            assert set(answer["result"]) <= set(homes), (seed, answer)
            assert answer["solutions"][0]["successes"] == expected, (seed, answer)
    assert min(outcomes.values()) > 3, outcomes


def test_batch_is_placed_if_there_is_a_way() -> None:
    """Exact search places a batch if the volume groups can hold all of it."""
    outcomes: Counter[bool] = Counter()
    for seed in seeds(25, 400):
        rng = Random(f"volume-groups/batch/{seed}")
        document, free = scenario(rng, "plain")
        wanted = [asked_for(rng, document, "plain", f"new{k}")["request"] for k in range(3)]
        needed = [needs(raw["disks"], "plain") for raw in wanted]
        expected = False
        for homes in product(free, repeat=3):
            sums: dict[str, Counter[str]] = {name: Counter() for name in homes}
            for home, own in zip(homes, needed):
                sums[home].update(own)
            expected = expected or all(takes(free[name], sums[name]) for name in sums)
        document["request"] = {"type": "multi-allocate", "instances": wanted}
        placed, *_ = respond(document, "--n1=off")["result"] or [[]]
        outcomes[expected] += 1
        assert (len(placed) == 3) is expected, (seed, placed)
    assert min(outcomes.values()) > 3, outcomes


def test_evacuations_equal_brute_force() -> None:
    """A drbd instance gets a new secondary if and only if a node has the free space."""
    outcomes: Counter[bool] = Counter()
    for seed in seeds(25, 400):
        rng = Random(f"volume-groups/evacuate/{seed}")
        document, free = scenario(rng, "drbd")
        if not document["instances"]:
            continue
        name = rng.choice(list(document["instances"]))
        raw = document["instances"][name]
        needed = needs(raw["disks"], "drbd")
        homes = {n for n in free if n not in raw["nodes"] and takes(free[n], needed)}
        request = {"type": "node-evacuate", "instances": [name], "evac_mode": "secondary-only"}
        done, _, _ = respond({**document, "request": request}, "--n1=off")["result"]
        outcomes[bool(homes)] += 1
        assert bool(done) is bool(homes), (seed, homes)
        for _, _, nodes in done:
            assert nodes[0] == raw["nodes"][0], seed
            assert nodes[1] in homes, seed
    assert min(outcomes.values()) > 3, outcomes


@pytest.mark.parametrize(
    ("command", "words"),
    [("balance", ()), ("balance", ("--no-instance-moves",)), ("squeeze", ("--drbd",))],
)
def test_plans_keep_within_volume_groups(command: str, words: tuple[str, ...]) -> None:
    """After each move, nodes have 1 MiB free in the volume groups of their new disks."""
    copies = 0
    for seed in seeds(3, 250):
        document, free = scenario(Random(f"volume-groups/plan/{seed}"), "drbd")
        plan: Any = plan_of(command, document, "--n1=off", *words)
        where = {name: list(raw["nodes"]) for name, raw in document["instances"].items()}
        for move in plan["moves"]:
            name, to = move["instance"], list(move["to"])
            needed = needs(document["instances"][name]["disks"], "drbd")
            for node in set(where[name]) - set(to):
                for group, size in needed.items():
                    free[node][group] += size
            for node in set(to) - set(where[name]):
                copies += 1
                assert takes(free[node], needed), (seed, move)
                for group, size in needed.items():
                    free[node][group] -= size
            where[name] = to
    assert copies > 0 or command == "squeeze" or words


@pytest.mark.parametrize("template", ["plain", "drbd"])
def test_capacity_equals_brute_force(template: str) -> None:
    """`capacity` places as many instances as the volume group ``lvm`` of nodes permits."""
    for seed in seeds(4, 200):
        rng = Random(f"volume-groups/capacity/{template}/{seed}")
        document, free = scenario(rng, template)
        size = 1200 - METADATA * (template == "drbd")
        found = json_of(
            "capacity", f"--standard-alloc={size},100,1", f"--disk-template={template}",
            "--n1=off", document=document,
        )  # fmt: skip
        slots = {name: max(0, groups.get("lvm", 0) - 1) // 1200 for name, groups in free.items()}
        total = sum(slots.values())
        placed = [one["nodes"] for one in found["standard"]["instances"]]
        used = Counter(node for nodes in placed for node in nodes)
        assert all(used[node] <= slots[node] for node in slots), (seed, used, slots)
        if template == "drbd":
            most = min(total // 2, total - max(slots.values()))
            assert len(placed) <= most
            assert bool(placed) is bool(most), seed
        else:
            assert len(placed) == total, (seed, slots, used)


@pytest.mark.parametrize("mode", ["strict", "no-new", "no-worse"])
def test_volume_groups_do_not_change_the_n1_of_drbd(mode: str) -> None:
    """Full volume groups do not change N+1 of drbd, as a failover needs no new disk."""
    outcomes: Counter[bool] = Counter()
    for seed in seeds(10, 300):
        rng = Random(f"volume-groups/n1/{seed}")
        names = [f"node{k}" for k in range(1, 5)]
        residents = {
            f"i{k}": instance(*nodes, memory=rng.choice((500, 900)), disk_space_total=228,
                              disks=[{"size": 100, "vg": "fast", "spindles": 1}])
            for k, nodes in enumerate(rng.sample(list(permutations(names, 2)), 7))
        }  # fmt: skip
        document = cluster(4, memory=rng.choice((2800, 3400)), cpus=64, instances=residents)
        request = allocate(document, memory=900, disk_template="diskless")
        plain = respond(request, f"--n1={mode}")
        for node in document["nodes"].values():
            node["volume_groups"] = [{"name": "lvm", "free": 1}, {"name": "fast", "free": 0}]
        full = respond(request, f"--n1={mode}")
        assert plain["success"] is full["success"], seed
        assert [one.get("successes") for one in (plain["solutions"] or [{}])] == [
            one.get("successes") for one in (full["solutions"] or [{}])
        ], seed
        outcomes[plain["success"]] += 1
    assert outcomes


def test_make_room_moves_disks_between_their_volume_groups() -> None:
    """`make-room` moves an instance off a full volume group to a node with space in it."""
    disks = [{"size": 500, "vg": "fast", "metavg": "lvm", "spindles": 1}]
    held = instance("node1", "node2", memory=100, disks=disks, disk_space_total=628)
    document = cluster(4, memory=30000, cpus=64, instances={"old": held})
    for name, free in (("node1", 100), ("node2", 100), ("node3", 600), ("node4", None)):
        groups = [{"name": "lvm", "total": 9000, "free": 8000}]
        groups += [] if free is None else [{"name": "fast", "total": 700, "free": free}]
        document["nodes"][name]["volume_groups"] = groups
    wanted = [{"size": 550, "vg": "fast", "spindles": 1}]
    request = allocate(document, memory=100, disk_template="plain", disks=wanted)
    request["request"]["disk_space_total"] = 550
    assert respond(request, "--n1=off")["result"] == ["node3"]
    document["nodes"]["node3"]["volume_groups"][1]["free"] = 540
    request = {**request, "nodes": document["nodes"]}
    assert not respond(request, "--n1=off")["success"]
    moved = plan_of("make-room", request, "--n1=off")["moves"]
    assert [(one["instance"], sorted(one["to"])) for one in moved] in (
        [("old", ["node1", "node3"])], [("old", ["node2", "node3"])],
    )  # fmt: skip


def several_groups(sizes: dict[str, dict[str, int]], residents: dict[str, Json]) -> Json:
    """Return nodes of 6000 MiB of memory with volume groups, and the instances `residents`.

    `sizes`: name of a node -> its volume groups -> their total MiB.
    """
    document = cluster(len(sizes), memory=6000, cpus=64, instances=residents)
    for name, groups in sizes.items():
        node = document["nodes"][name]
        left = dict(groups)
        for raw in residents.values():
            for group, size in needs(raw["disks"], "plain").items():
                if name in raw["nodes"]:
                    left[group] -= size
        node |= {"total_disk": groups.get("lvm", 0), "free_disk": left.get("lvm", 0)}
        node["volume_groups"] = [
            {"name": group, "total": groups[group], "free": left[group]} for group in groups
        ]
        node["tags"] = ["htools:standby:auto"]
    return document


def plain_in(group: str, node: str, memory: int, size: int = 700) -> Json:
    """Return an instance with one disk in a volume group."""
    disks = [{"size": size, "vg": group, "spindles": 1}]
    return instance(node, memory=memory, disk_template="plain", disks=disks, disk_space_total=size)


def test_squeeze_keeps_a_node_that_has_the_volume_group_of_an_instance() -> None:
    """`squeeze` keeps the only other node on that has the volume group of an instance.

    If node3 fails, only node1 can restart `b`, and one instance is lost; without node1, both would
    be lost. The free space of the default volume group does not count for disks in another one.
    """
    document = several_groups(
        {"node1": {"fast": 5000}, "node2": {}, "node3": {"lvm": 1500, "fast": 1500}},
        {"a": plain_in("lvm", "node3", 1500), "b": plain_in("fast", "node3", 900)},
    )
    for owner in (document, *document["nodegroups"].values()):
        owner["ipolicy"]["std"] |= {"memory-size": 300, "disk-size": 100}
    plan = plan_of("squeeze", document, "--target-resources=1", "--minimal-resources=0.5")
    assert plan["switched_nodes"] == ["node2"]


def test_instance_restarts_on_a_node_without_the_default_volume_group() -> None:
    """N+1 uses a node without the default volume group for an instance in another volume group.

    If node1 fails, `b` restarts on node2, and `a` on node3.
    """
    document = several_groups(
        {"node1": {"lvm": 1000, "fast": 1000}, "node2": {"lvm": 1000, "fast": 1000},
         "node3": {"fast": 1000}},
        {"a": plain_in("fast", "node1", 900), "b": plain_in("lvm", "node1", 1500)},
    )  # fmt: skip
    document["nodes"]["node2"] |= {"total_memory": 3000, "free_memory": 3000}
    request = allocate(document, memory=1000, disk_template="diskless", restrict=["node2"])
    answer = respond(request)
    assert answer["result"] == ["node2"], answer["info"]


def test_full_volume_group_rejects_no_instance_without_disks_in_it() -> None:
    """A node with a full volume group can restart instances on shared storage.

    Three instances of 1000 MiB must restart on two nodes. Only an exact search finds how.
    """
    for free in (4000, 1, 0):
        held = {f"i{k}": rbd("node1", memory=1000) for k in range(3)}
        document = cluster(3, memory=8000, instances=held)
        for name, memory in (("node2", 2250), ("node3", 1060)):
            document["nodes"][name].update(total_memory=memory, free_memory=memory)
        for raw in document["nodes"].values():
            raw["volume_groups"] = [{"name": "lvm"}, {"name": "fast", "total": 4000, "free": free}]
        assert respond(allocate_rbd(document, memory=100))["result"] == ["node2"], free
