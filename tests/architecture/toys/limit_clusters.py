"""Compare the toy limit with brute force on generated clusters: requests, planners, N+1.

Run by `test_toys.py` with a copy of the package that has the toy limit, as ``limit_clusters.py
START COUNT``: with the clusters of these seeds.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import product
from random import Random

from tests.builders import Json, allocate, cluster, instance
from tests.command import json_of, respond

MODES = ("strict", "no-new", "no-worse")
LARGE = 10**6
"""MiB of disk that are never short."""

Places = Mapping[str, tuple[str, ...]]
"""Instance -> its nodes, primary first."""

Loss = tuple[int, int]
"""The least number of lost instances, and the least MiB of lost instances."""


class Scenario:
    """A tight cluster, and what brute force computes about it.

    A node with the tag ``most:N`` may be the primary of N instances. Instances are on shared
    storage or drbd; if ``equal``, all have one size.
    """

    def __init__(self, seed: int) -> None:
        rng = Random(f"limit/{seed}")
        self.groups = {"a": 2, "b": 2} if rng.random() < 0.3 else {"a": rng.choice((3, 3, 4))}
        names = [f"node{k}" for k in range(1, sum(self.groups.values()) + 1)]
        self.group = dict(zip(names, [g for g, count in self.groups.items() for _ in range(count)]))
        self.most = {name: rng.choice((1, 2, 2, 3, 4)) for name in names}
        self.memory = rng.choice((700, 1000, 3000))
        self.equal = rng.random() < 0.5
        self.shared = rng.random() < 0.7
        self.sizes: dict[str, int] = {}
        residents: dict[str, Json] = {}
        for name in names:
            left = self.memory
            sizes = (200,) if self.equal else (100, 200, 300)
            for size in rng.choices(sizes, k=rng.randint(0, self.most[name])):
                if size < left:
                    left -= size
                    peers = [one for one in self.peers(name) if one != name]
                    drbd = not self.shared and rng.random() < 0.7
                    nodes = (name, rng.choice(peers)) if drbd else (name,)
                    self.sizes[f"i{len(self.sizes)}"] = size
                    residents[f"i{len(residents)}"] = instance(
                        *nodes, memory=size, disk=10, disk_template="drbd" if drbd else "rbd"
                    )
        self.document = cluster(
            self.groups, memory=self.memory, disk=LARGE, cpus=64, instances=residents
        )
        for name, most in self.most.items():
            self.document["nodes"][name]["tags"] = [f"most:{most}"]
        self.before: Places = {name: tuple(one["nodes"]) for name, one in residents.items()}
        self.size = 200 if self.equal else rng.choice((100, 300))
        self.template = "rbd" if self.shared else rng.choice(("rbd", "drbd"))
        self.sizes["new"] = self.size

    def peers(self, name: str) -> list[str]:
        """Return the nodes of the group of a node."""
        return [one for one, group in self.group.items() if group == self.group[name]]

    def room(self, places: Places, without: str = "") -> dict[str, tuple[int, int]]:
        """Return the free MiB and slots of each node, without the failed node `without`."""
        found = {}
        for name, most in self.most.items():
            own = [self.sizes[one] for one, nodes in places.items() if nodes[0] == name]
            if name != without:
                found[name] = self.memory - sum(own) - 1, most - len(own)
        return found

    def kept(self, places: Places) -> bool:
        """Return whether all limits hold with the instances on `places`."""
        return all(free >= 0 and slots >= 0 for free, slots in self.room(places).values())

    def loss(self, places: Places, failed: str) -> Loss:
        """Return the least loss if the node `failed` fails."""
        items = []
        for one, nodes in places.items():
            if nodes[0] == failed:
                others = [name for name in self.peers(failed) if name != failed]
                items.append((self.sizes[one], list(nodes[1:]) if len(nodes) > 1 else others))
        return least(items, self.room(places, failed))

    def decided(self, mode: str) -> bool:
        """Return whether brute force decides exactly as the simulation in the mode `mode`.

        The simulation restarts one instance after another, each on the best node. With instances of
        one size on shared storage, no other choice restarts more of them. With ``no-worse``, a new
        instance is checked more strictly if a failure loses instances already.
        """
        if not self.shared or (mode == "strict" and len(self.groups) > 1):
            return False  # memory is kept for drbd; strict requires failures of all groups
        if mode == "no-worse":
            return all(self.loss(self.before, name) == (0, 0) for name in self.most)
        return self.equal or mode == "off"

    def bad(
        self, mode: str, before: Places, after: Places, groups: Collection[str] = ()
    ) -> list[str]:
        """Return the failures in `groups` that a change must not leave; (): in all groups."""
        if mode == "off" or (mode == "no-new" and not self.decided(mode)):
            return []
        found = []
        for name in self.most:
            if groups and self.group[name] not in groups:
                continue
            first, then = self.loss(before, name), self.loss(after, name)
            grown = any(b > a for b, a in zip(then, first))
            lost = then > (0, 0) and (mode == "strict" or first == (0, 0))
            if grown if mode == "no-worse" else lost:
                found.append(name)
        return found


def least(items: list[tuple[int, list[str]]], room: dict[str, tuple[int, int]]) -> Loss:
    """Return the least number of items (MiB, nodes) that do not fit, and their least MiB."""
    found = [
        (chosen.count(None), sum(size for (size, _), one in zip(items, chosen) if one is None))
        for chosen in product(*([None, *targets] for _, targets in items))
        if _fit(items, chosen, room)
    ]
    return min(count for count, _ in found), min(size for _, size in found)


def _fit(
    items: list[tuple[int, list[str]]],
    chosen: tuple[str | None, ...],
    room: dict[str, tuple[int, int]],
) -> bool:
    """Return whether each node has memory and slots for the items that `chosen` puts on it."""
    for name in set(chosen) - {None}:
        taken = [size for (size, _), one in zip(items, chosen) if one == name]
        free, slots = room[str(name)]
        if free < sum(taken) or slots < len(taken):
            return False
    return True


def allocation(scenario: Scenario) -> Iterator[str]:
    """Yield the result of an allocation in every mode of N+1."""
    request = allocate(
        scenario.document, memory=scenario.size, disk=10, disk_template=scenario.template
    )
    for mode in (*MODES, "off"):
        answer = respond(request, f"--n1={mode}")
        if answer["success"]:
            after = {**scenario.before, "new": tuple(answer["result"])}
            assert scenario.kept(after), (mode, answer["result"])
            group = scenario.group[answer["result"][0]]
            assert not scenario.bad(mode, scenario.before, after, {group}), (mode, answer["result"])
        elif scenario.decided(mode) and scenario.template == "rbd":
            for name in scenario.most:
                after = {**scenario.before, "new": (name,)}
                assert not scenario.kept(after) or scenario.bad(mode, scenario.before, after), (
                    mode,
                    name,
                )
        yield f"allocate {mode} {'placed' if answer['success'] else 'rejected'}"


def evacuation(scenario: Scenario) -> Iterator[str]:
    """Yield the result of evacuations without N+1: as many instances as possible leave."""
    for name in scenario.most:
        leaving = [one for one, nodes in scenario.before.items() if nodes == (name,)]
        if not leaving:
            continue
        request = {"type": "node-evacuate", "instances": leaving, "evac_mode": "all"}
        moved, failed, _ = respond({**scenario.document, "request": request})["result"]
        after = {**scenario.before, **{one: tuple(nodes) for one, _, nodes in moved}}
        assert scenario.kept(after), (name, moved)
        others = {one: nodes for one, nodes in scenario.before.items() if one not in leaving}
        if scenario.shared:
            targets = [one for one in scenario.peers(name) if one != name]
            items = [(scenario.sizes[one], targets) for one in leaving]
            assert len(failed) == least(items, scenario.room(others))[0], (name, moved, failed)
        yield f"evacuate {'some' if failed else 'all'}"


def batch(scenario: Scenario) -> Iterator[str]:
    """Yield the result of a batch of three instances: as many as possible are placed."""
    one = allocate({}, memory=scenario.size, disk=10, disk_template="rbd")["request"]
    names = ("new1", "new2", "new3")
    request = {
        "type": "multi-allocate",
        "instances": [{**one, "type": "allocate", "name": name} for name in names],
    }
    answer = respond({**scenario.document, "request": request}, "--n1=off")
    placed, failed = answer["result"] or ([], names)
    scenario.sizes |= dict.fromkeys(names, scenario.size)
    after = {**scenario.before, **{name: tuple(nodes) for name, nodes in placed}}
    assert scenario.kept(after), placed
    if scenario.shared:
        fewest = least([(scenario.size, list(scenario.most))] * 3, scenario.room(scenario.before))[
            0
        ]
        assert len(failed) == fewest, answer
    yield f"batch {len(placed)}"


def capacity(scenario: Scenario) -> Iterator[str]:
    """Yield whether capacity equals the number of slots with memory."""
    size = f"--standard-alloc=10m,{scenario.size}m,1"
    found = json_of("capacity", "--n1=off", size, "--disk-template=rbd", document=scenario.document)
    count = found["standard"]["count"]
    room = scenario.room(scenario.before).values()
    expected = sum(min(slots, free // scenario.size) for free, slots in room)
    assert count == expected if scenario.shared else count <= expected, (count, expected)
    yield f"capacity {'0' if not count else 'more'}"


def plans(scenario: Scenario) -> Iterator[str]:
    """Yield the result of planners in every mode: limits and N+1 hold at the end."""
    commands = ["balance", "squeeze"]
    if len(scenario.groups) > 1:
        commands = ["balance-groups", "redistribute", "compress"]
    for command, mode in product(commands, (*MODES, "off")):
        words = ("--all-instances",) if command == "squeeze" else ()
        plan = json_of(command, "--verify-plan", f"--n1={mode}", *words, document=scenario.document)
        after = dict(scenario.before)
        for move in plan["moves"]:
            after[move["instance"]] = tuple(move["to"])
            assert command != "balance" or scenario.kept(after), (command, mode, move)
        assert scenario.kept(after), (command, mode)
        changed = {
            scenario.group[name]
            for one in after
            if after[one] != scenario.before[one]
            for name in after[one]
        }
        bad = scenario.bad(mode, scenario.before, after, changed) if changed else []
        assert not bad, (command, mode, plan["moves"], bad)
        yield f"{command} {mode} {'moves' if plan['moves'] else 'stays'}"


def main(start: int, count: int) -> None:
    """Check the clusters of `count` seeds, and print how often each result occurred."""
    outcomes: Counter[str] = Counter()
    for seed in range(start, start + count):
        for path in (allocation, evacuation, batch, capacity, plans):
            scenario = Scenario(seed)
            try:
                outcomes.update(path(scenario))
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, {path.__name__}: {error}") from error
    for outcome, times in sorted(outcomes.items()):
        print(f"{times:6} {outcome}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
