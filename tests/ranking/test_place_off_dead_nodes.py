"""Test `place` with offline nodes: colocation groups stay whole, and few are left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise, product
from random import Random

import pytest

from tests.builders import Json, cluster, instance, rbd
from tests.command import plan_of
from tests.seeds import seeds

OFFLINE: Json = {"offline": True}
DRAINED: Json = {"drained": True}
TOGETHER = "iallocator:colocate:must:unit"
SIZES = (1000, 2000, 3000)

Homes = Mapping[str, str | None]


def place(given: Json, *options: str) -> Homes:
    """Return the new node of each instance by `place`; None for one that is not placed."""
    found: Homes = plan_of("place", given, "--strategy=utilization", *options)["placement"]
    return found


def _shared(home: str, *tags: str, memory: int = 512) -> Json:
    return rbd(home, memory=memory, tags=list(tags))


@pytest.mark.parametrize("secondary", [OFFLINE, DRAINED], ids=["offline", "drained"])
def test_place_leaves_out_an_instance_that_cannot_fail_over_and_its_dependents(
    secondary: Json,
) -> None:
    """`place` leaves out an instance that cannot fail over, and later members of its group."""
    given = cluster(
        4,
        instances={
            "first": _shared("node1", TOGETHER),
            "mirrored": instance("node1", "node2", tags=[TOGETHER]),
            "last": _shared("node1", TOGETHER),
            "other": _shared("node1"),
        },
        changes={"node1": OFFLINE, "node2": secondary},
    )
    found = place(given)
    assert (found["mirrored"], found["last"]) == (None, None)
    assert {found["first"], found["other"]} <= {"node3", "node4"}


@pytest.mark.parametrize(
    ("kinds", "homes"),
    [
        (("old", "old", "new", "old"), {"node2", "node4"}),
        (("new", "old", "old", "old"), {None}),
        (("", "old", "old", "new"), {"node2", "node3"}),
    ],
)
def test_place_off_a_dead_primary_checks_migration_tags_of_each_step(
    kinds: tuple[str, ...], homes: set[str | None]
) -> None:
    """`place` checks migration tags for each move after a failover from an offline node."""
    given = cluster(
        4,
        instances={"web": instance("node1", "node2")},
        changes={"node1": OFFLINE},
        tags=("htools:migration:cpu",),
    )
    for node, kind in zip(given["nodes"].values(), kinds, strict=True):
        node["tags"] = [f"cpu:{kind}"] if kind else []
    assert place(given)["web"] in homes
    for preferred in homes - {None}:
        given["instances"]["web"]["tags"] = [f"iallocator:score:{preferred}:100"]
        assert place(given)["web"] == preferred
    for forbidden in {"node3", "node4"} - homes:
        given["instances"]["web"]["tags"] = [f"iallocator:score:{forbidden}:100"]
        assert place(given)["web"] != forbidden


def test_place_keeps_n1_where_a_secondary_stays_on_a_drained_node() -> None:
    """`place` checks N+1 for an instance with a secondary that stays on a drained node.

    With no-new, the instance is left out; by default it is placed, as its failure is not tolerated
    before.
    """
    given = cluster(
        3,
        instances={"web": instance("node1", "node2", memory=1024), "full": _shared("node3")},
        changes={"node1": DRAINED, "node3": {"free_disk": 0}},
    )
    assert place(given, "--n1=no-new") == {"web": None, "full": "node3"}
    assert place(given)["web"] == "node2"  # its failure is not tolerated already


def test_place_leaves_instances_without_a_route_and_places_the_others() -> None:
    """`place` leaves instances that block each other, with their colocation groups.

    The two instances cannot be stopped. Other instances are placed.
    """
    stays = "iallocator:keep-running"
    given = cluster(
        3,
        memory=4096,
        instances={
            "one": _shared("node1", "iallocator:score:node2:9", stays, TOGETHER, memory=3000),
            "mate": _shared("node1", TOGETHER, memory=100),
            "other": _shared("node2", "iallocator:score:node1:9", stays, memory=3000),
            "free": _shared("node1", "iallocator:score:node3:9", memory=100),
        },
        changes={"node3": {"free_memory": 1000}},
    )
    expected = {"one": "node1", "mate": "node1", "other": "node2", "free": "node3"}
    assert place(given, "--n1=off") == expected


def test_place_moves_back_by_default_instances_that_cannot_be_restarted_again() -> None:
    """By default, `place` stops no instance on a drained node that could not be restarted again."""
    given = cluster(
        4,
        memory=3000,
        instances={
            "urgent": _shared("node1", "iallocator:priority:10", memory=2500),
            "here": _shared("node2", memory=2500),
            "there": _shared("node3", memory=2500),
        },
        changes={"node1": DRAINED},
    )
    assert None not in place(given).values()


def _scenario(chances: Random) -> Json:
    """Return a random cluster with offline nodes and colocation groups."""
    count = chances.choice((3, 4))
    names = [f"node{k}" for k in range(1, count + 1)]
    there: Json = {}
    for k in range(chances.randint(3, 5)):
        tags = [f"iallocator:colocate:must:u{chances.randint(1, 2)}"] * chances.choice((0, 1, 1))
        tags.append(f"iallocator:priority:{chances.randint(0, 2)}")
        there[f"i{k}"] = _shared(chances.choice(names), *tags, memory=chances.choice(SIZES))
    dead = chances.sample(names, chances.choice((1, 1, 2)))
    changes = {name: dict(chances.choice((OFFLINE, OFFLINE, DRAINED))) for name in dead}
    given = cluster(count, memory=20000, cpus=64, instances=there, changes=changes)
    for name, node in given["nodes"].items():
        used = sum(i["memory"] for i in there.values() if i["nodes"] == [name])
        node["reserved_memory"] = 0
        node["total_memory"] = max(chances.choice((3500, 5500, 7500)), used + 1)
        node["free_memory"] = node["total_memory"] - used
    return given


def _possible(given: Json) -> Iterator[Homes]:
    """Yield every placement that memory and colocation groups allow."""
    nodes, there = given["nodes"], given["instances"]
    up = [name for name, node in nodes.items() if not (node["offline"] or node["drained"])]
    for homes in product((None, *up), repeat=len(there)):
        found = dict(zip(there, homes, strict=True))
        if _whole(there, found) and all(
            _used(there, found, n) < nodes[n]["total_memory"] for n in up
        ):
            yield found


def _used(there: Json, homes: Homes, node: str) -> int:
    return sum(one["memory"] for name, one in there.items() if homes[name] == node)


def _whole(there: Json, homes: Homes) -> bool:
    """Return whether the members of each colocation group are placed together or left out."""
    units: dict[str, list[str | None]] = {}
    for name, one in there.items():
        for tag in one["tags"]:
            if ":must:" in tag:
                units.setdefault(tag, []).append(homes[name])
    return all(b in (None, a) for homes in units.values() for a, b in pairwise(homes))


def _left_out(there: Json, homes: Homes) -> list[int]:
    """Return the number of instances left out by priority, the highest first."""
    levels = (2, 1, 0)
    out = [one["tags"][-1] for name, one in there.items() if homes[name] is None]
    return [out.count(f"iallocator:priority:{level}") for level in levels]


@pytest.mark.parametrize("seed", seeds(10, 150))
def test_place_off_dead_nodes_leaves_out_as_few_as_possible(seed: int) -> None:
    """`place` off offline nodes leaves out as few instances as brute force, by priority."""
    pytest.importorskip("highspy")
    given = _scenario(Random(seed))
    there = given["instances"]
    found = place(given, "--n1=off")
    assert _whole(there, found)
    assert _left_out(there, found) == min(_left_out(there, homes) for homes in _possible(given))
