"""Test that reported scores equal a new calculation, and that the best score is chosen."""

from __future__ import annotations

import pytest

from tests.builders import Json, cluster, instance
from tests.command import respond
from tests.conformance.documents import KINDS
from tests.seeds import seeds

from .answers import response_to, seeded
from .plain import Plain
from .walk import follow

SEEDS = seeds(16, 160)
OPTIONS: tuple[tuple[str, ...], ...] = ((), ("--n1=off", "--top=3", "--inter-group=yes"))
RANKS = {"preferred": 0, "last_resort": 1, "unallocable": 2}


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
@pytest.mark.parametrize("kind", KINDS)
def test_reported_score_equals_a_new_computation(kind: str, options: tuple[str, ...]) -> None:
    """Every score in a response equals the newly computed score after the placement."""
    wrong: list[str] = []
    for seed in SEEDS:
        request = seeded(seed, kind)
        plain = Plain(request)
        for found in follow(request, response_to(seed, kind, *options), plain):
            present = plain.now.get(found.name)
            plain.put(found.name, found.raw, found.nodes)
            score = plain.score(found.scope)
            plain.take(found.name)
            if present:
                plain.now[found.name] = present
            if abs(score - found.score) > 1e-8:
                wrong.append(f"{kind} {seed}: {found.name} {found.nodes} {found.score} != {score}")
    assert not wrong, "\n".join(wrong)


def test_secondary_of_an_offline_primary_is_not_checked_by_shared_locations() -> None:
    """A shared location with an offline primary does not affect a new secondary's score."""
    document = cluster(
        nodes=4,
        instances={"web": instance("node1", "node4")},
        changes={
            "node1": {"tags": ["power:1"], "drained": True},
            "node2": {"tags": ["power:1"]},
            "node3": {"tags": ["power:2"]},
        },
        tags=("htools:nlocation:power",),
    )
    request = {"type": "relocate", "name": "web", "relocate_from": ["node4"]}
    response = respond({**document, "request": request}, "--top=2")
    first, second = response["solutions"][0]["alternatives"]
    assert first["score"] == second["score"]
    assert response["result"] == ["node2"], "the first of equals by name"


def dedicated(request: Json) -> bool:
    """Return whether a node has exclusive storage, so that losses may decide, not scores."""
    return any(node["ndparams"]["exclusive_storage"] for node in request["nodes"].values())


def test_solutions_of_allocate_are_ranked_by_policy_then_score() -> None:
    """Solutions of allocate are sorted by allocation policy, then by score.

    Groups that accept the instance come first.
    """
    compared = 0
    for seed in seeds(60, 300):
        if dedicated(seeded(seed, "allocate")):
            continue
        solutions = response_to(seed, "allocate")["solutions"]
        usable = [entry for entry in solutions if entry["nodes"]]
        assert solutions[: len(usable)] == usable, seed
        ranks = [(RANKS[entry["alloc_policy"]], entry["score"]) for entry in usable]
        assert ranks == sorted(ranks), seed
        compared += len(ranks) > 1
    assert compared > 10


def test_result_of_allocate_is_the_first_solution() -> None:
    """The result of allocate is the first of its solutions."""
    for seed in seeds(60, 300):
        response = response_to(seed, "allocate")
        first = response["solutions"][:1]
        assert response["result"] == (first[0]["nodes"] if first else []), seed
        assert response["success"] is bool(response["result"]), seed


@pytest.mark.parametrize("count", [2, 5])
def test_top_placements_are_sorted_distinct_and_led_by_the_answer(count: int) -> None:
    """With ``--top N``, the best placements of a group are sorted, distinct, the chosen first."""
    listed = 0
    for seed in seeds(40, 160):
        response = response_to(seed, "allocate", f"--top={count}")
        usual = response_to(seed, "allocate")
        assert response["result"] == usual["result"], seed
        for entry, alone in zip(response["solutions"], usual["solutions"], strict=True):
            found = entry.get("placements", []) if entry["nodes"] else []
            assert [one["nodes"] for one in found[:1]] == [alone["nodes"]][: len(found)], seed
            assert len({tuple(one["nodes"]) for one in found}) == len(found) <= count, seed
            scores = [one["score"] for one in found]
            assert scores == sorted(scores) or dedicated(seeded(seed, "allocate")), seed
            listed += len(found) == count
    assert listed > 12


def test_top_lists_all_placements_up_to_n() -> None:
    """With a large ``--top N`` and without N+1, every possible placement is listed."""
    for seed in seeds(12, 100):
        for entry in response_to(seed, "allocate", "--top=5", "--n1=off")["solutions"]:
            found = entry.get("placements", []) if entry["nodes"] else []
            assert len(found) == min(5, entry["successes"]), seed


@pytest.mark.parametrize("kind", ["relocate", "node-evacuate", "change-group"])
def test_top_alternatives_of_a_move_are_sorted_and_led_by_the_answer(kind: str) -> None:
    """With ``--top N``, the best moves of an instance are sorted, the chosen one first."""
    for seed in seeds(12, 100):
        response = response_to(seed, kind, "--top=4")
        assert response["result"] == response_to(seed, kind)["result"], seed
        for entry in response["solutions"]:
            ways = entry.get("alternatives", [])
            assert [way["nodes"] for way in ways[:1]] == [entry["nodes"]][: len(ways)], seed
            assert len({tuple(way["nodes"]) for way in ways}) == len(ways) <= 4, seed
            assert [way["score"] for way in ways] == sorted(way["score"] for way in ways), seed
