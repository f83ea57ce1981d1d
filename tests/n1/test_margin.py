"""Test that the check of N+1 by bounds never contradicts the simulation of failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from random import Random

import pytest

from iallocator.model.columns import DISK, MEMORY
from iallocator.model.moves import Move
from iallocator.n1 import PROVED_LOST, PROVED_SAFE, UNPROVED, simulation
from iallocator.n1.bounds import RestartOrder, check_bounds, demand_of
from tests.builders import Json, allocate, cluster, instance
from tests.conformance.documents import document
from tests.seeds import seeds

from .tight import Case, alone, context_of, tight, tolerates

MODES = ("strict", "no-new")
CHUNKS = [range(start, start + 250) for start in seeds(500, 1500)[::250]]


def result_by_bounds(case: Case, node: int) -> int:
    """Return the result of the check by bounds for the failure of `node`."""
    demand = demand_of(case.state, (node,), case.rules)
    return check_bounds(case.state, (node,), demand, case.rules)[0]


def results(cases: Iterator[tuple[str, Case]]) -> Counter[int]:
    """Return how often each result by bounds occurs, compared with the simulation."""
    counts: Counter[int] = Counter()
    for name, case in cases:
        for node in range(len(case.cluster.nodes)):
            kind = result_by_bounds(case, node)
            counts[kind] += 1
            if kind != UNPROVED:
                assert tolerates(case, node) is (kind == PROVED_SAFE), (
                    f"{name}, node {node}: {kind}"
                )
    return counts


@pytest.mark.parametrize("seeds", CHUNKS, ids=str)
@pytest.mark.parametrize("mode", MODES)
def test_bounds_result_on_tight_clusters_is_that_of_the_simulation(mode: str, seeds: range) -> None:
    """On tight clusters, a failure that bounds call safe is tolerated, one called lost is not."""
    counts = results((f"{mode} {seed}", tight(seed, mode)) for seed in seeds)
    assert min(counts[PROVED_SAFE], counts[PROVED_LOST]) > 50
    assert counts[UNPROVED] < counts.total() / 4


@pytest.mark.parametrize("mode", MODES)
def test_bounds_result_on_generated_documents_is_that_of_the_simulation(mode: str) -> None:
    """On clusters of usual sizes, bounds decide nearly all failures, and correctly."""
    counts = results(
        (f"{mode} {seed}", context_of(document(seed, "allocate"), mode)) for seed in seeds(50, 150)
    )
    assert min(counts[PROVED_SAFE], counts[PROVED_LOST]) > 3


@pytest.mark.parametrize("exclusive", [False, True], ids=["shared", "exclusive"])
@pytest.mark.parametrize("mode", MODES)
def test_order_of_restarts_proves_only_what_the_simulation_finds(
    mode: str, exclusive: bool
) -> None:
    """A failure is tolerated if the order of restarts proves it, also where bounds decide less."""
    proved = more = 0
    for seed in seeds(500, 3000):
        case = tight(seed, mode, exclusive=exclusive)
        for node in range(len(case.cluster.nodes)):
            leaving = case.simulation.leaving((node,))
            if leaving and RestartOrder(case.state, (node,), leaving, case.rules).proves():
                assert tolerates(case, node), (seed, node)
                proved += 1
                more += result_by_bounds(case, node) == UNPROVED
    assert proved > 50
    assert more > 0


@pytest.mark.parametrize("mode", MODES)
def test_spare_memory_of_a_safe_failure_may_be_used_up(mode: str) -> None:
    """A failure called safe stays tolerated if one node loses the stated spare memory."""
    taken = 0
    for seed in seeds(100, 400):
        case = tight(seed, mode)
        memory = case.state.columns[0]
        for node in range(len(case.cluster.nodes)):
            group = case.cluster.nodes[node].group
            targets = case.rules.targets(case.cluster, group)
            demand = demand_of(case.state, (node,), case.rules)
            kind, spare = check_bounds(case.state, (node,), demand, case.rules)
            if kind != PROVED_SAFE or not 0 < spare < float("inf"):
                continue
            for target in targets:
                if target == node or target in demand.failovers:
                    continue
                memory[target] -= spare
                assert tolerates(case, node), f"{mode} {seed}: {node} with less on {target}"
                memory[target] += spare
                taken += 1
    assert taken > 60


def local_cluster(seed: int) -> Json:
    """Return a request in a cluster of six to eight nodes with plain and other instances."""
    rng = Random(f"shares/{seed}")
    residents: dict[str, Json] = {}
    nodes = rng.randint(6, 8)
    template = rng.choice(("plain", "rbd", "file"))
    for home in range(1, nodes + 1):
        for _ in range(rng.randint(0, 4)):
            kind = rng.choice(("plain", "plain", template))
            memory, disk = rng.choice((1, 2, 5)), rng.choice((1, 8, 20))
            residents[f"i{len(residents)}"] = instance(
                f"node{home}", memory=memory, disk=disk, disk_template=kind
            )
    found = cluster(nodes=nodes, memory=rng.choice((20, 30)), disk=100, instances=residents)
    return allocate(found, memory=1, disk=1, disk_template="plain")


@pytest.mark.parametrize("mode", MODES)
def test_any_two_nodes_may_be_unavailable_if_the_spare_memory_is_infinite(mode: str) -> None:
    """If the spare memory is infinite, a failure is tolerated without any two other nodes."""
    closed = 0
    for seed in seeds(150, 900):
        case = context_of(local_cluster(seed), mode)
        memory, disk = case.state.columns[MEMORY], case.state.columns[DISK]
        for node, group in enumerate(one.group for one in case.cluster.nodes):
            targets = case.rules.targets(case.cluster, group)
            demand = demand_of(case.state, (node,), case.rules)
            kind, spare = check_bounds(case.state, (node,), demand, case.rules)
            if not demand.plain or kind != PROVED_SAFE or spare < 0:
                continue
            for pair in combinations([one for one in targets if one != node], 2):
                if not demand.failovers.keys().isdisjoint(pair):
                    continue
                before = [(memory[one], disk[one]) for one in pair]
                for one in pair:
                    memory[one] = disk[one] = 0
                assert tolerates(case, node), f"{mode} {seed}: {node} without {pair}"
                for one, (mib, space) in zip(pair, before):
                    memory[one], disk[one] = mib, space
                closed += 1
    assert closed > 100


@pytest.mark.parametrize("mode", MODES)
def test_failures_simulated_at_once_equal_one_by_one(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulation in arrays finds the failures that simulations one by one find."""
    monkeypatch.setattr(simulation, "WORTH_ARRAYS", -1)
    lost = 0
    for seed in seeds(100, 500):
        case = tight(seed, mode)
        for group in case.cluster.groups:
            one_by_one = [node for node in group.nodes if not tolerates(case, node)]
            assert sorted(case.simulation.lost(alone(group.nodes))) == alone(one_by_one), (
                f"{mode} {seed}"
            )
            lost += len(one_by_one)
    assert lost > 40


@pytest.mark.parametrize("mode", ["no-new", "no-worse"])
def test_placement_that_sums_accept_keeps_every_tolerated_failure(mode: str) -> None:
    """A placement that sums accept keeps every tolerated failure tolerated."""
    cleared = 0
    for seed in seeds(300, 1500):
        case = tight(seed, mode)
        if case.new.required_nodes != 1:
            continue
        for group in case.cluster.groups:
            online = [index for index in group.nodes if case.cluster.nodes[index].online]
            before = {index for index in online if tolerates(case, index)}
            tolerance = case.context.tolerance(case.context.all_nodes())
            first = Move(case.new, (), tuple(online[:1]))
            for nodes in tolerance.proved_allowed(first, [(index,) for index in online]):
                cleared += 1
                with case.state.trial():
                    case.state.place(case.new, nodes)
                    assert all(tolerates(case, index) for index in before), f"{seed}: {nodes}"
    assert cleared > 50
