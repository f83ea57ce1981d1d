"""Test batches with a budget of operations that ends at any point of the search."""

from __future__ import annotations

from random import Random

import pytest

from iallocator.deadline import ITERATIONS, LISTED, PER_SECOND, PLACEMENTS, TRIALS
from iallocator.options.settings import SEARCH_SECONDS
from iallocator.placement import context
from tests import builders
from tests.builders import Json
from tests.command import respond
from tests.seeds import seeds

pytest.importorskip("highspy")

EVENLY = (0, 100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200)
"""Budgets of a whole request, in moves × nodes, from nothing to enough."""


def simulated_batch(seed: int) -> Json:
    """Return a cluster and a batch with N+1 checks that need simulations."""
    rng = Random(f"effort/{seed}")
    residents = {
        f"i{k}": builders.rbd(f"node{1 + k % 4}", memory=rng.choice((512, 1024, 1536)))
        for k in range(12)
    }
    document = builders.cluster(4, memory=7168, cpus=64, instances=residents)
    wanted = []
    for number in range(4):
        request = builders.allocate(document, memory=rng.choice((512, 1024, 2048)))["request"]
        del request["type"]
        wanted.append(
            request | {"name": f"new{number}", "disk_template": "rbd", "required_nodes": 1}
        )
    return document | {"request": {"type": "multi-allocate", "instances": wanted}}


def placed(response: Json) -> int:
    """Return how many instances the response places."""
    return sum(1 for entry in response["solutions"] if entry["nodes"])


@pytest.mark.parametrize("options", [[], ["--optimal"]], ids=["default", "optimal"])
def test_batch_without_remaining_operations_places_no_fewer_than_greedy(
    options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the budget ends, a batch places no fewer instances than greedy placement does."""
    undecided = 0
    for seed in seeds(5, 12):
        asked = simulated_batch(seed)
        for effort in EVENLY:
            monkeypatch.setattr(context, "WORK_PER_SECOND", effort / 600)
            greedy = respond(asked, "--exact-search=no")
            found = respond(asked, *options)
            undecided += "undecided" in found["info"]
            assert placed(found) >= placed(greedy), (seed, effort)
    assert undecided > 10


def test_interrupted_exact_search_places_no_fewer_than_greedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If exact search is interrupted, it places no fewer instances than greedy placement."""
    ended = 0
    for seed, mode in ((2, "no-new"), (18, "no-new"), (26, "no-worse"), (36, "no-worse")):
        asked = simulated_batch(seed)
        for units in (0, 1, 2, 4, 8, 30):
            for means in ([TRIALS], [LISTED], [ITERATIONS, TRIALS, PLACEMENTS]):
                with monkeypatch.context() as patched:
                    for kind in means:
                        patched.setitem(PER_SECOND, kind, units / SEARCH_SECONDS)
                    found = respond(asked, f"--n1={mode}")
                ended += "budget of work" in found["info"]
                assert placed(found) >= 3, (seed, units, means)
    assert ended > 10


@pytest.mark.parametrize(("movable", "ended"), [(False, False), (True, True)])
def test_evacuation_lists_all_placements_only_if_the_failed_instance_has_one(
    movable: bool, ended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An evacuation enumerates all placements only if the failed instance has a permitted node.

    On large clusters, each instance has a million pairs of nodes.
    """
    monkeypatch.setitem(PER_SECOND, LISTED, 1 / SEARCH_SECONDS)
    residents = {
        "a": builders.rbd("node1", memory=600),
        "b": builders.instance("node1", memory=600, disk_template="rbd" if movable else "plain"),
    }
    residents["c"] = builders.rbd("node2", memory=700)
    document = builders.cluster(2, memory=1500, instances=residents)
    request = {"type": "node-evacuate", "instances": ["a", "b"], "evac_mode": "all"}
    info = respond({**document, "request": request})["info"]
    assert "1 instances failed to move and 1 were moved" in info
    assert ("budget of work" in info) is ended
