"""Compare a toy limit with brute force on generated clusters: requests, planners, N+1.

Run by `test_toys.py` with a copy of the package that has a toy limit, as ``limit_clusters.py
ROLES START COUNT``: with the clusters of these seeds. ROLES is 1 if the limit counts the primaries
of a node, 2 if it counts the instances in both roles.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import product
from json import loads
from random import Random

from tests.builders import Json, allocate, as_bytes, cluster, instance
from tests.command import json_of, respond, run

MODES = ("strict", "no-new", "no-worse")
LARGE = 10**6
"""MiB of disk that are never short."""

Places = Mapping[str, tuple[str, ...]]
"""Instance -> its nodes, primary first."""

Loss = tuple[int, int]
"""The least number of lost instances, and the least MiB of lost instances."""

Item = tuple[int, list[str], int]
"""The MiB of an instance, the nodes where it may restart, and the slots that it takes there."""


class Scenario:
    """A tight cluster, and what brute force computes about it.

    A node with the tag ``most:N`` may be the primary of N instances; with two `roles`, it may have
    N instances. Instances are on shared storage or drbd; if ``equal``, all have one size.
    """

    def __init__(self, seed: int, roles: int) -> None:
        self.roles = roles
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
        self.before: Places = {name: tuple(one["nodes"]) for name, one in residents.items()}
        for name in names:
            counted = [name in nodes[:roles] for nodes in self.before.values()]
            self.most[name] = max(self.most[name], sum(counted))
            self.document["nodes"][name]["tags"] = [f"most:{self.most[name]}"]
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
            counted = [name in nodes[: self.roles] for nodes in places.values()]
            if name != without:
                found[name] = self.memory - sum(own) - 1, most - sum(counted)
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
                taken = 0 if self.roles > 1 and len(nodes) > 1 else 1
                items.append((self.sizes[one], list(nodes[1:]) or others, taken))
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
        """Return the nodes with failures that a change of placement must not cause in `mode`.

        `groups`: the groups of these nodes; (): all groups.
        """
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


def least(items: list[Item], room: dict[str, tuple[int, int]]) -> Loss:
    """Return the least number of items that do not fit, and their least MiB."""
    found = [
        (chosen.count(None), sum(size for (size, *_), one in zip(items, chosen) if one is None))
        for chosen in product(*([None, *targets] for _, targets, _ in items))
        if _fit(items, chosen, room)
    ]
    return min(count for count, _ in found), min(size for _, size in found)


def _fit(
    items: list[Item],
    chosen: tuple[str | None, ...],
    room: dict[str, tuple[int, int]],
) -> bool:
    """Return whether each node has memory and slots for the items that `chosen` puts on it."""
    for name in set(chosen) - {None}:
        here = [item for item, one in zip(items, chosen) if one == name]
        free, slots = room[str(name)]
        if free < sum(size for size, *_ in here) or slots < sum(taken for *_, taken in here):
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
            items = [(scenario.sizes[one], targets, 1) for one in leaving]
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
        fewest = least(
            [(scenario.size, list(scenario.most), 1)] * 3, scenario.room(scenario.before)
        )[0]
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
    """Yield the results of planners in every mode; check that they keep limits and N+1."""
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


def filling(scenario: Scenario) -> Iterator[str]:
    """Yield the results of capacity in every mode; check limits and N+1 for each instance."""
    size = f"--standard-alloc=10m,{scenario.size}m,1"
    for mode in (*MODES, "off"):
        words = (f"--n1={mode}", size, f"--disk-template={scenario.template}")
        found = json_of("capacity", *words, document=scenario.document)["standard"]
        where = scenario.before
        for one in found["instances"]:
            scenario.sizes[one["instance"]] = scenario.size
            after = {**where, one["instance"]: tuple(one["nodes"])}
            assert scenario.kept(after), (mode, one)
            assert not scenario.bad(mode, where, after, {scenario.group[one["nodes"][0]]}), (
                mode,
                one,
            )
            where = after
        if scenario.equal and scenario.template == "rbd" and scenario.decided(mode):
            for name in scenario.most:
                after = {**where, "new": (name,)}
                assert not scenario.kept(after) or scenario.bad(mode, where, after), (mode, name)
        yield f"fill {mode} {'0' if not found['count'] else 'more'}"


def failures(scenario: Scenario) -> Iterator[str]:
    """Yield for each group whether a failure loses instances; `check` must report such failures."""
    done = run("check", "--no-simulation", "--json", stdin=as_bytes(scenario.document))
    for one in loads(done.stdout)["groups"]:
        lost = sum(
            scenario.loss(scenario.before, name) != (0, 0)
            for name in scenario.most
            if scenario.group[name] == one["group"]
        )
        reported = one["problems"]["global_n1"]
        assert reported == lost if scenario.shared and scenario.equal else reported >= lost, one
        yield f"check {'lost' if lost else 'tolerated'}"


def whole_placement(scenario: Scenario) -> Iterator[str]:
    """Yield the result of `place`: limits and N+1 hold for the instances that run."""
    for mode in (*MODES, "off"):
        plan = json_of("place", "--verify-plan", f"--n1={mode}", document=scenario.document)
        where = dict(scenario.before)
        for step in plan["transition"]["steps"] if scenario.shared else ():
            where[step["instance"]] = tuple(step.get("to") or where[step["instance"]])
            assert scenario.kept(where), (mode, step)
        where |= {move["instance"]: tuple(move["to"]) for move in plan["moves"]}
        where = {name: nodes for name, nodes in where.items() if plan["placement"].get(name)}
        assert scenario.kept(where), (mode, where)
        if plan["moves"] and (mode != "strict" or scenario.shared):
            assert not scenario.bad(mode, scenario.before, where), (mode, where)
        yield f"place {mode} {'moves' if plan['moves'] else 'stays'}"


def reboots(scenario: Scenario) -> Iterator[str]:
    """Check that every move of `reboot` keeps the limits; yield the numbers of groups of nodes."""
    words = ("reboot", "--master-node=node1", "--json", "--verify-plan", "--n1=off")
    done = run(*words, stdin=as_bytes(scenario.document))
    assert b"rejected" not in done.stderr, done.stderr
    where = dict(scenario.before)
    plan = loads(done.stdout or b'{"moves": [], "reboots": []}')
    for move in plan["moves"]:
        where[move["instance"]] = tuple(move["to"])
        assert scenario.kept(where), move
    yield f"reboot {len(plan['reboots'])}"


def more_room(scenario: Scenario) -> Iterator[str]:
    """Yield the result of `make-room`: at most two moves make the request fit."""
    request = allocate(scenario.document, memory=scenario.size, disk=10, disk_template="rbd")
    for mode in (*MODES, "off"):
        words = ("make-room", "--json", "--make-room=2", f"--n1={mode}")
        done = run(*words, stdin=as_bytes(request))
        moves = loads(done.stdout)["moves"] if done.stdout else []
        where = dict(scenario.before)
        for move in moves:
            where[move["instance"]] = tuple(move["to"])
            assert scenario.kept(where), (mode, move)
        if moves:
            assert _fits(scenario, where), (mode, moves)
        elif mode == "off" and scenario.shared and not _fits(scenario, where):
            assert not _fits_after(scenario, where, 2), mode
        yield f"make-room {mode} {len(moves)}"


def _fits(scenario: Scenario, where: Places) -> bool:
    """Return whether the new instance fits on a node, without N+1."""
    return any(scenario.kept({**where, "new": (name,)}) for name in scenario.most)


def _fits_after(scenario: Scenario, where: Places, moves: int) -> bool:
    """Return whether the new instance fits after at most `moves` moves within groups."""
    if _fits(scenario, where):
        return True
    return moves > 0 and any(
        _fits_after(scenario, after, moves - 1)
        for one, (home,) in where.items()
        for target in scenario.peers(home)
        if scenario.kept(after := {**where, one: (target,)})
    )


PATHS = (allocation, evacuation, batch, capacity, filling, plans, failures, whole_placement,
         reboots, more_room)  # fmt: skip


def main(roles: int, start: int, count: int) -> None:
    """Check the clusters of `count` seeds, and print how often each result occurred."""
    outcomes: Counter[str] = Counter()
    for seed in range(start, start + count):
        for path in PATHS:
            scenario = Scenario(seed, roles)
            try:
                outcomes.update(path(scenario))
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, {path.__name__}: {error}") from error
    for outcome, times in sorted(outcomes.items()):
        print(f"{times:6} {outcome}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
