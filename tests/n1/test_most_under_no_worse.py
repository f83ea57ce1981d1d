"""Test incomplete batches with ``--n1 no-worse``: as many instances as possible are placed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from random import Random

import pytest

from tests.builders import Json, allocate, cluster, instance
from tests.command import respond
from tests.seeds import seeds

from .test_no_worse import fits

NAMES = ("node1", "node2", "node3", "node4")
TOTAL = 2000
SIZES = (200, 300, 500, 700, 1100)

Homes = tuple[str, ...]
Placed = list[tuple[int, Homes]]
"""MiB and nodes of each instance; a drbd instance has two nodes."""


def crowd(rng: Random, mirrored: bool, nodes: Sequence[str]) -> Placed:
    """Return instances that fill half of `nodes` or more; secondaries are on other nodes."""
    found: Placed = []
    for name in nodes:
        left = rng.choice((700, 1100, 1500))
        while (size := rng.choice(SIZES)) < left:
            left -= size
            secondary = [rng.choice([n for n in nodes if n != name])] if mirrored else []
            found.append((size, (name, *secondary)))
    return found


def free_of(placed: Placed) -> dict[str, int]:
    """Return the free memory of every node."""
    left = dict.fromkeys(NAMES, TOTAL)
    for size, homes in placed:
        left[homes[0]] -= size
    return left


def parts(
    placed: Placed, failing: str, nodes: Sequence[str]
) -> Iterator[tuple[set[int], set[str]]]:
    """Yield parts of the instances of a failed node with their targets.

    No two parts share a target. Instances larger than each of `nodes` cannot be restarted by any
    placement, and are left out.
    """
    found: list[tuple[set[int], set[str]]] = []
    others = [n for n in nodes if n != failing]
    for number, (size, homes) in enumerate(placed):
        targets = set(homes[1:] or others) if homes[0] == failing and size < TOTAL else set()
        if targets:
            joined = [part for part in found if part[1] & targets]
            found = [part for part in found if part not in joined]
            members = {number}.union(*(part[0] for part in joined))
            found.append((members, targets.union(*(part[1] for part in joined))))
    yield from found


def loses_no_instance(placed: Placed, new: Sequence[int], nodes: Sequence[str]) -> bool:
    """Return whether all instances restart after each failure, including the `new` ones."""
    free = free_of(placed)
    for failing in nodes:
        for members, targets in parts(placed, failing, nodes):
            mine = {k for k in new if k in members or placed[k][1][0] in targets}
            position = {name: k for k, name in enumerate(sorted(targets))}
            items = sorted(
                (
                    (placed[k][0], frozenset(position[n] for n in placed[k][1][1:] or targets))
                    for k in members
                ),
                reverse=True,
                key=lambda item: item[0],
            )
            if mine and not fits(items, [free[name] - 1 for name in sorted(targets)]):
                return False
    return True


def kept_for(placed: Placed, node: str) -> int:
    """Return the MiB of a node that the failure of one other node can need at most."""
    peers = [name for name in NAMES if name != node]
    return max(
        sum(size for size, homes in placed if homes[1:] == (node,) and homes[0] == peer)
        for peer in peers
    )


def has_room(before: Placed, placed: Placed) -> bool:
    """Return whether each node has the memory, also for failovers, or lacked it before."""
    free, had = free_of(placed), free_of(before)
    return all(
        free[n] > 0 or free[n] == had[n] for n in NAMES
    ) and all(
        free[n] > kept_for(placed, n) or had[n] <= kept_for(before, n) for n in NAMES
    )  # fmt: skip


def by_priority(priorities: Sequence[int], chosen: Sequence[int]) -> tuple[int, ...]:
    """Return how many of `chosen` have each priority, the highest priority first."""
    levels = sorted(set(priorities), reverse=True)
    return tuple(sum(priorities[k] == level for k in chosen) for level in levels)


def document_of(placed: Placed, tags: dict[int, str], groups: dict[str, int]) -> Json:
    """Return a document with the instances `placed`, their tags, and nodes in `groups`."""
    instances = {
        f"i{k}": instance(*homes, memory=size, tags=[tags[k]] if k in tags else [],
                          disk_template="drbd" if len(homes) > 1 else "rbd")
        for k, (size, homes) in enumerate(placed)
    }  # fmt: skip
    return cluster(groups, memory=TOTAL, disk=10**6, cpus=640, instances=instances)


@pytest.mark.parametrize("mirrored", [False, True])
def test_batch_under_no_worse_is_placed_as_far_as_possible(mirrored: bool) -> None:
    """With no-worse, a batch is placed by priority as far as brute force can place it.

    No placed instance uses memory that a failover needs.
    """
    partly = 0
    for seed in seeds(10, 60):
        rng = Random(f"batch/{mirrored}/{seed}")
        placed = crowd(rng, mirrored, NAMES[:3])
        sizes = [rng.choice(SIZES) for _ in range(2 if mirrored else 3)]
        priorities = [rng.choice((0, 5)) for _ in sizes]
        places: list[Homes] = [(name,) for name in NAMES[:3]]
        if mirrored:
            places = [pair for pair in product(NAMES[:3], repeat=2) if pair[0] != pair[1]]
        best: tuple[int, ...] = ()
        for choice in product([(), *places], repeat=len(sizes)):
            new = [(size, homes) for size, homes in zip(sizes, choice) if homes]
            after = placed + new
            if has_room(placed, after) and loses_no_instance(
                after, range(len(placed), len(after)), NAMES[:3]
            ):
                chosen = [k for k, homes in enumerate(choice) if homes]
                best = max(best, by_priority(priorities, chosen))
        document = document_of(placed, {}, {"default": 3})
        document["request"] = {
            "type": "multi-allocate",
            "instances": [
                _wanted(k, size, priorities[k], mirrored) for k, size in enumerate(sizes)
            ],
        }
        response = respond(document, "--n1=no-worse")
        found = [int(name[3:]) for name, _ in response["result"][0]] if response["success"] else []
        assert by_priority(priorities, found) == best, (seed, response["info"])
        partly += 0 < len(found) < len(sizes)
    assert partly


def _wanted(number: int, memory: int, priority: int, mirrored: bool) -> Json:
    template = "drbd" if mirrored else "rbd"
    asked: Json = allocate({}, f"new{number}", memory=memory, disk_template=template)["request"]
    tags = {"tags": [f"iallocator:priority:{priority}"]}
    return {key: value for key, value in asked.items() if key != "type"} | tags


def test_change_of_group_under_no_worse_goes_as_far_as_possible() -> None:
    """With no-worse, as many instances change their group as brute force can move.

    No moved instance uses memory that a failover needs.
    """
    partly = 0
    for seed in seeds(6, 60):
        rng = Random(f"change/{seed}")
        there = crowd(rng, False, NAMES[1:])
        sizes = [rng.choice((200, 300, 500)) for _ in range(3)]
        priorities = [rng.choice((0, 5)) for _ in sizes]
        best: tuple[int, ...] = ()
        for choice in product([(), *((name,) for name in NAMES[1:])], repeat=len(sizes)):
            new = [(size, homes) for size, homes in zip(sizes, choice) if homes]
            after = there + new
            arrived = range(len(there), len(after))
            if has_room(there, after) and loses_no_instance(after, arrived, NAMES[1:]):
                chosen = [k for k, homes in enumerate(choice) if homes]
                best = max(best, by_priority(priorities, chosen))
        placed = [(size, ("node1",)) for size in sizes] + there
        tags = {k: f"iallocator:priority:{p}" for k, p in enumerate(priorities)}
        document = document_of(placed, tags, {"east": 1, "west": 3})
        document["request"] = {
            "type": "change-group", "instances": ["i0", "i1", "i2"],
            "target_groups": ["uuid-west"],
        }  # fmt: skip
        response = respond(document, "--n1=no-worse")
        found = [int(name[1:]) for name, *_ in response["result"][0]]
        assert by_priority(priorities, found) == best, (seed, response["info"])
        partly += 0 < len(found) < len(sizes)
    assert partly
