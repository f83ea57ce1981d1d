"""Test that no answer moves an instance to nodes without access to its storage pools."""

from __future__ import annotations

import json
import subprocess
import sys
from random import Random

import pytest

from tests.builders import Json, allocate, cluster, instance, rbd
from tests.command import printed, respond
from tests.seeds import seeds

from .scenarios import POOLS, of_instance, reaching, super_cluster

SEEDS = [range(start, start + 40) for start in seeds(40, 160)[::40]]


def new(rng: Random, document: Json) -> Json:
    """Return a request for an instance in a random pool."""
    return allocate(
        document,
        memory=rng.randint(1, 1500),
        disk_template=rng.choice(("rbd", "ext")),
        storage_type="external",
        storage_pool=rng.choice(POOLS),
    )


@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_new_instance_goes_only_to_nodes_with_access_to_its_pool(seeds: range) -> None:
    """A new instance is placed only on nodes with access to its storage pool.

    Alternatives and potential secondaries have access, too.
    """
    placed = rejected = 0
    for seed in seeds:
        rng = Random(seed)
        request = new(rng, super_cluster(rng))
        within = reaching(request, of_instance(request["request"]))
        response = respond(request, "--top=5")
        assert response["success"] is bool(response["result"])
        for solution in response["solutions"]:
            own = {n for n, raw in request["nodes"].items()
                   if raw["group"] == solution["group_uuid"]}  # fmt: skip
            for placement in solution.get("placements", []):
                assert set(placement["nodes"]) <= within
            if solution["nodes"]:
                placed += 1
                others = solution["secondaries"]
                assert set(others) | set(solution["nodes"]) <= within & own
                assert not set(others) & set(solution["nodes"])
            elif not own & within:
                rejected += 1
                pool = "/".join(of_instance(request["request"]))
                assert f"does not have access to storage pool {pool}" in solution["reason"]
    assert placed > 10
    assert rejected > 10


@pytest.mark.parametrize("seeds", SEEDS, ids=str)
@pytest.mark.parametrize("kind", ["relocate", "node-evacuate", "change-group"])
def test_moved_instance_stays_in_its_pool(kind: str, seeds: range) -> None:
    """After every kind of request, a moved instance is on nodes with access to its pool."""
    moved = 0
    for seed in seeds:
        rng = Random(seed)
        document = super_cluster(rng)
        for name, raw in sorted(document["instances"].items())[::3]:
            response = respond({**document, "request": request(kind, name, raw)},
                                "--top=4", "--inter-group=yes")  # fmt: skip
            within = reaching(document, of_instance(raw))
            ends = list(ends_in(response["solutions"]))
            assert all(set(nodes) <= within for nodes in ends), (seed, name)
            moved += len(ends)
    assert moved > 20


def request(kind: str, name: str, raw: Json) -> Json:
    """Return a request of type `kind` to move the instance `name`."""
    if kind == "relocate":
        return {"type": kind, "name": name, "required_nodes": 1, "relocate_from": raw["nodes"]}
    if kind == "node-evacuate":
        return {"type": kind, "instances": [name], "evac_mode": "primary-only"}
    return {"type": kind, "instances": [name], "target_groups": []}


def ends_in(solutions: list[Json]) -> list[list[str]]:
    """Return every list of nodes in the solutions of an answer."""
    found = []
    for solution in solutions:
        remote = solution.get("remote")
        for one in (solution, *solution.get("alternatives", ()), *([remote] if remote else ())):
            found += [one["nodes"], one.get("secondaries", [])]
    return [nodes for nodes in found if nodes]


def test_potential_secondaries_are_listed_by_score() -> None:
    """The potential secondaries of an answer are sorted by score."""
    compared = 0
    for seed in seeds(15, 40):
        rng = Random(seed)
        request = new(rng, super_cluster(rng))
        for solution in respond(request, "--top=99", "--n1=off")["solutions"]:
            if solution["nodes"]:
                ranked = [one["nodes"][0] for one in solution["placements"]]
                assert ranked == [*solution["nodes"], *solution["secondaries"]]
                compared += len(ranked)
    assert compared > 30


@pytest.mark.parametrize("forms", ["scalar", "arrays"])
def test_kernels_with_and_without_arrays_reject_the_same_nodes(
    forms: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels with and without arrays reject the same nodes for storage pools."""
    from iallocator import scoring

    plain = [respond(case(seed)) for seed in range(30)]
    monkeypatch.setattr(scoring, "arrays_pay", lambda *asked: forms == "arrays")
    assert [respond(case(seed)) for seed in range(30)] == plain


def case(seed: int) -> Json:
    """Return a request in a random cluster of several groups with storage pools."""
    rng = Random(seed)
    return new(rng, super_cluster(rng))


def test_balancing_moves_stay_in_the_pool() -> None:
    """`balance` moves instances only to nodes with access to their storage pools."""
    moves = 0
    for seed in range(8):
        document = super_cluster(Random(f"balance/{seed}"), groups=1)
        command = ["balance", "--json", "--verify-plan", "--min-gain=0", "-"]
        raw = json.dumps(document).encode()
        done = subprocess.run(
            [sys.executable, "-m", "iallocator", *command],
            input=raw, capture_output=True, check=True,
        )  # fmt: skip
        for move in json.loads(done.stdout)["moves"]:
            within = reaching(document, of_instance(document["instances"][move["instance"]]))
            assert set(move["to"]) <= within, (seed, move)
            moves += 1
    assert moves > 10


@pytest.mark.parametrize("options", [(), ("--inter-group=yes",)], ids=str)
def test_evacuation_of_secondaries_moves_no_instance_without_a_secondary(
    options: tuple[str, ...],
) -> None:
    """Evacuation of secondaries neither moves nor offers to move an instance without one."""
    held = {"shared": rbd("node1"), "drbd": instance("node2", "node1")}
    document = cluster({"pair": 2, "other": 2}, instances=held)
    wanted = {"type": "node-evacuate", "instances": ["shared", "drbd"]}
    response = respond(document | {"request": wanted | {"evac_mode": "secondary-only"}}, *options)
    moved, failed, _ = response["result"]
    shared = next(one for one in response["solutions"] if one["instance"] == "shared")
    assert "remote" not in shared
    assert [name for name, _ in failed if name == "shared"] == ["shared"]
    assert failed[0][1] == "Instances of type rbd have no secondary to relocate"
    assert [name for name, *_ in moved] == (["drbd"] if options else [])


def test_explanation_of_secondaries_names_no_other_group_for_an_instance_without_one() -> None:
    """`explain` of evacuated secondaries names no other group for an instance without one."""
    document = cluster({"a": 2, "b": 2}, instances={"web": rbd("node1")})
    wanted = {"type": "node-evacuate", "instances": ["web"], "evac_mode": "secondary-only"}
    text = printed("explain", document=document | {"request": wanted})
    assert "no secondary" in text
    assert "ther group" not in text
