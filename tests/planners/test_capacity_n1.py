"""Test the N+1 checks of capacity: results that are updated equal those of a new object."""

from __future__ import annotations

from random import Random

import pytest

from iallocator.model.instance import Backend, Disks, Instance
from iallocator.model.state import State
from iallocator.n1 import Rules
from iallocator.n1.tolerance import FailureTolerance
from iallocator.scoring import Kernels
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading
from tests.builders import cluster, rbd


def newcomer(rng: Random, number: int) -> Instance:
    """Return an instance of random size; one in seven is a drbd instance."""
    template = "drbd" if number % 7 == 6 else "rbd"
    return Instance(
        f"new{number}", Backend(rng.choice((300, 500, 900))), Disks(template, 1024, [1024])
    )


@pytest.mark.parametrize("mode", ["strict", "no-new", "no-worse"])
@pytest.mark.parametrize("seed", range(2))
def test_tolerance_after_placements_of_all_kinds_equals_a_new_one(seed: int, mode: str) -> None:
    """After any placements, the updated N+1 check gives the results of a new N+1 check."""
    rng, nodes = Random(seed), range(4)
    held = {f"i{k}": rbd(f"node{k % 4 + 1}", memory=3500) for k in nodes}
    scenario = read_cluster(cluster(4, instances=held), Reading(static_kvm_memory=0))
    state = State(scenario)
    kernels, rules = Kernels(state, ()), Rules(mode)
    kept, seen = FailureTolerance(state, rules, kernels=kernels), set()
    for number in range(12):
        one = newcomer(rng, number)
        places = [tuple(rng.sample(nodes, one.required_nodes)) for _ in range(3)]
        fresh = FailureTolerance(state, rules, kernels=kernels)
        found = [kept.accepts(one, place) for place in places]
        assert found == [fresh.accepts(one, place) for place in places], number
        seen.update(found)
        room = [p for p in places if min(state.columns[0][index] for index in p) > one.memory]
        for place in room[:1]:
            state.place(one, place)
            if len(place) == 1:
                more = [(one, place), (one.twin(f"more{number}", 99 + number), place)]
                state.place(*more[1])
                kept.placed(more)
            else:
                kept.placed([(one, place)])
    assert seen == {True, False}
