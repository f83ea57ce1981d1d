"""Test N+1 of instances on shared storage with overlapping pools against brute force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from statistics import pstdev

import pytest

from iallocator.model.moves import Move
from iallocator.n1 import PROVED_LOST, PROVED_SAFE, UNPROVED, simulation
from iallocator.n1.bounds import check_bounds, demand_of
from tests.builders import Json, allocate_rbd, cluster, instance
from tests.n1.tight import Case, alone, context_of, tolerates
from tests.seeds import seeds

from .scenarios import external, internal

CHUNKS = [range(start, start + 200) for start in range(0, 1000, 200)]
POOLS = ("nas", "san", "ceph")

MOST_SLOW = [CHUNKS[0], *(pytest.param(one, marks=pytest.mark.slow) for one in CHUNKS[1:])]
"""The seeds in chunks, of which only the first one is in every run."""


def tight(rng: Random, local: bool = False) -> Json:
    """Return small nodes with access to some of three pools, and a request.

    With `local`, there are also plain instances in volume groups, and drbd ones.
    """
    count, memory = rng.randint(3, 5), rng.choice((16, 30, 60))
    reach = {f"node{k}": rng.sample(POOLS, rng.choice((1, 2, 2, 3))) for k in range(1, count + 1)}
    pieces = rng.choice(((1, 2, 3), (memory // 4, memory // 3), (1, memory // 5, memory // 3)))
    fill = rng.choice((0.3, 0.5, 0.7))
    residents: dict[str, Json] = {}
    for home, pools in reach.items():
        budget = memory * fill * rng.uniform(0.4, 1.3)
        while (size := rng.choice(pieces)) <= budget and len(residents) < 18:
            budget -= size
            name = f"i{len(residents):02}"
            residents[name] = resident(rng, home, list(reach), pools, size, local)
    document = cluster(count, memory=memory, cpus=64, disk=3000, instances=residents)
    for home, pools in reach.items():
        node = document["nodes"][home]
        node["storage_pools"] = [internal("lvm"), *map(external, pools)]
        if local:
            node["storage_pools"].append(internal("fast", 40, rng.choice((5, 12, 40))))
        if rng.random() < 0.06:
            node["drained"] = True
    asked = rng.choice((1, 2, memory // 8, memory // 4, memory // 2))
    return allocate_rbd(document, memory=asked, storage_pool=rng.choice(POOLS))


def resident(
    rng: Random, home: str, nodes: list[str], pools: list[str], size: int, local: bool
) -> Json:
    """Return an instance of `size` MiB on `home`."""
    kind = rng.choice(("rbd", "rbd", "plain", "drbd")) if local else "rbd"
    if kind == "drbd":
        return instance(home, rng.choice([n for n in nodes if n != home]), memory=size, disk=1)
    if kind == "plain":
        disks: list[Json] = [{"size": rng.choice((2, 4, 8)), "spindles": 1}]
        if rng.random() < 0.7:
            disks[0]["vg"] = "fast"
        return instance(home, memory=size, disk_template=kind, disks=disks)
    return instance(home, memory=size, disk_template=kind, storage_pool=rng.choice(pools))


class Brute:
    """A simulation of failures in lists, by definition, from a document alone.

    All instances are external and run. The score is a sum of deviations over the online nodes: of
    free memory, of virtual cpus and, four times, of the primaries. Each instance on another node
    adds 4, and each primary there 16.
    """

    def __init__(self, document: Json, strict: bool) -> None:
        self.nodes = document["nodes"]
        self.strict = strict
        self.online = {n: not raw["drained"] for n, raw in self.nodes.items()}
        self.where = {name: raw["nodes"][0] for name, raw in document["instances"].items()}
        self.raw = dict(document["instances"])
        self.free = {name: raw["free_memory"] for name, raw in self.nodes.items()}

    def put(self, name: str, raw: Json, node: str) -> None:
        """Add a new instance on `node`."""
        self.raw[name], self.where[name] = raw, node
        self.free[node] -= raw["memory"]

    def reaches(self, node: str, name: str) -> bool:
        """Return whether the node has access to the pool of the instance."""
        pool = external(self.raw[name]["storage_pool"])
        return pool in self.nodes[node]["storage_pools"]

    def tolerates(self, failing: str) -> bool:
        """Return whether all instances of `failing` can be restarted, in the order of names."""
        where, free = dict(self.where), dict(self.free)
        for name in sorted(n for n, node in where.items() if node == failing):
            size = self.raw[name]["memory"]
            free[failing] += size
            best = None
            for node in self.nodes:
                taken = node != failing and (self.strict or self.online[node])
                if taken and self.reaches(node, name) and free[node] - size > 0:
                    where[name] = node
                    free[node] -= size
                    score = round(self.score(where, free), 10)
                    free[node] += size
                    best = min(best or (score, node), (score, node))
            if best is None:
                return False
            where[name] = best[1]
            free[best[1]] -= size
        return True

    def score(self, where: dict[str, str], free: dict[str, int]) -> float:
        """Return the cluster score with instances on `where`, without constant terms."""
        counts = Counter(where.values())
        online = [node for node in self.nodes if self.online[node]]
        total = int(next(iter(self.nodes.values()))["total_memory"])
        memory = pstdev([free[node] / total for node in online])
        cpus = pstdev([counts[node] / 64 for node in online])
        loads: float = 4 * pstdev([float(counts[node]) for node in online])
        return memory + cpus + loads + 20 * sum(counts[n] for n in self.nodes if n not in online)


@pytest.mark.parametrize("seeds", MOST_SLOW, ids=str)
@pytest.mark.parametrize("mode", ["strict", "no-new"])
def test_n1_of_overlapping_partitions_equals_brute_force(mode: str, seeds: range) -> None:
    """N+1 accepts a placement on overlapping pools as the definition does."""
    reported: Counter[bool] = Counter()
    for seed in seeds:
        document = tight(Random(f"pools/{seed}"))
        case = context_of(document, mode)
        tolerance = case.context.tolerance(case.context.all_nodes())
        before = Brute(document, mode == "strict")
        names = [node.name for node in case.cluster.nodes]
        watched = [n for n in names if mode == "strict" or before.online[n]]
        tolerated = {n: mode == "strict" or before.tolerates(n) for n in watched}
        within = case.cluster.reach(case.new)
        for index, name in enumerate(names):
            if not before.online[name] or (within is not None and index not in within):
                continue
            after = Brute(document, mode == "strict")
            after.put("new", document["request"], name)
            expected = all(after.tolerates(n) for n in watched if tolerated[n])
            if case.state.columns[0][index] - case.new.memory > 0:
                assert tolerance.allows(Move(case.new, (), (index,))) is expected, (
                    mode,
                    seed,
                    name,
                )
                reported[expected] += 1
    assert min(reported[True], reported[False]) > 20, reported


def cases(mode: str, seeds: range) -> Iterator[tuple[str, Case]]:
    """Yield nearly full clusters with external, plain and drbd instances."""
    for seed in seeds:
        yield f"{mode} {seed}", context_of(tight(Random(f"mixed/{seed}"), local=True), mode)


@pytest.mark.parametrize("mode", ["strict", "no-new"])
def test_bounds_result_on_shares_is_that_of_the_simulation(mode: str) -> None:
    """With storage pools, bounds call a failure tolerated or not only if a simulation agrees."""
    counts: Counter[int] = Counter()
    restricted = 0
    for name, case in cases(mode, seeds(80, 350)):
        for node, group in enumerate(n.group for n in case.cluster.nodes):
            demand = demand_of(case.state, (node,), case.rules)
            targets = case.rules.targets(case.cluster, group)
            kind, spare = check_bounds(case.state, (node,), demand, case.rules)
            counts[kind] += 1
            restricted += demand.shares is not None
            if kind != UNPROVED:
                assert tolerates(case, node) is (kind == PROVED_SAFE), (
                    f"{name}, node {node}: {kind}"
                )
            if kind == PROVED_SAFE and 0 < spare < float("inf"):
                assert_spare(case, node, spare, [t for t in targets if t != node])
    assert min(counts[PROVED_SAFE], counts[PROVED_LOST]) > 10
    assert counts[UNPROVED] < counts.total() / 4, counts
    assert restricted > 100


def assert_spare(case: Case, node: int, spare: float, targets: list[int]) -> None:
    """Assert that the failure is tolerated without the spare memory of any single node."""
    memory, failovers = case.state.columns[0], demand_of(case.state, (node,), case.rules).failovers
    for target in targets:
        if target not in failovers:
            memory[target] -= spare
            assert tolerates(case, node), (node, target, spare)
            memory[target] += spare


@pytest.mark.parametrize("mode", ["strict", "no-new"])
def test_failures_simulated_at_once_respect_pools(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With pools, failures simulated in arrays have the losses of single simulations."""
    monkeypatch.setattr(simulation, "WORTH_ARRAYS", -1)
    lost = 0
    for seed in seeds(35, 150):
        case = context_of(tight(Random(f"pools/{seed}")), mode)
        nodes = case.cluster.groups[0].nodes
        one_by_one = [node for node in nodes if not tolerates(case, node)]
        assert sorted(case.simulation.lost(alone(nodes))) == alone(one_by_one), f"{mode} {seed}"
        lost += len(one_by_one)
    assert lost > 10
