"""Test the ranking by lost allocations against its definition for every pair of nodes."""

from __future__ import annotations

import pytest

from iallocator.constraints.no_affinity import NoAffinity
from iallocator.model.cluster import Cluster
from iallocator.model.instance import Instance
from iallocator.model.node_view import Capacities
from iallocator.model.state import State
from iallocator.ranking.lost_allocations import rank, room_for
from iallocator.requests import Allocate
from iallocator.scoring.candidates import Candidates
from iallocator.scoring.scalar import ScalarKernel
from iallocator.wire.reading import Reading
from iallocator.wire.request import read_request
from tests.conformance.documents import document
from tests.model.make import model_of
from tests.seeds import seeds


def lost(cluster: Cluster, instance: Instance, nodes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the lost slots of each instance size: those before the placement less those after."""
    before, after = State(cluster), State(cluster)
    after.place(instance, nodes)
    group = cluster.nodes[nodes[0]].group
    sizes = [i.low for i in sorted(group.policy.intervals, key=lambda i: -i.low.disk)]
    return tuple(
        sum(
            room_for(size, cluster.nodes[n], before.row(n), before.reserved[n])
            - room_for(size, cluster.nodes[n], after.row(n), after.reserved[n])
            for n in nodes
        )
        for size in sizes
    )


@pytest.mark.parametrize("seed", seeds(20, 60))
def test_rank_of_every_candidate_is_its_lost_allocations(seed: int) -> None:
    """The ranking lists every candidate in the order of its lost allocations and score."""
    raw = document(seed, "allocate")
    cluster = model_of(raw)
    request = read_request(raw, cluster, Reading())
    assert isinstance(request, Allocate)
    state, instance = State(cluster), request.instance
    for group in cluster.groups:
        nodes = [i for i in group.nodes if cluster.nodes[i].online]
        kernel = ScalarKernel(state, nodes, Capacities(cluster.nodes))
        pair = instance.required_nodes == 2
        found: Candidates = (
            kernel.pairs(instance, nodes, nodes, {})
            if pair
            else kernel.singles(instance, nodes, {})
        )
        ranked, scores = rank(state, group, instance, found, NoAffinity())
        assert ranked.rows() == found.rows()
        for number in range(found.rows()):
            expected = sorted((lost(cluster, instance, n), n) for _, n in found.row(number))
            got = list(ranked.row(number))
            assert sorted((vector, n) for (vector, _), n in got) == expected
            assert [key for key, _ in got] == sorted(key for key, _ in got)
            assert {n: scores[n] for _, n in got} == {n: s for s, n in found.row(number)}
