"""Test that penalties of violated soft constraints are shown where they rank placements."""

from __future__ import annotations

import pytest

from tests.builders import Json, allocate_rbd, cluster, rbd
from tests.command import json_of, printed, respond
from tests.schemas import conforms

APART = ["iallocator:separate:should:x:2"]


CLUSTER = cluster(
    {"east": 3, "west": 2},
    instances={
        "a": rbd("node2", tags=APART, memory=256),
        "b": rbd("node4", tags=APART),
        "c": rbd("node1", memory=4000),
        "m": rbd("node3", memory=4000, tags=APART),
        "n": rbd("node5", memory=6000),
    },
)

NEW = allocate_rbd(CLUSTER, name="new", memory=512, tags=APART)

REQUESTS: dict[str, Json] = {
    "allocate": NEW["request"],
    "multi-allocate": {
        "type": "multi-allocate",
        "instances": [{**NEW["request"], "name": name} for name in ("x", "y")],
    },
    "relocate": {
        "type": "relocate", "name": "m", "relocate_from": ["node3"], "required_nodes": 1,
    },
    "node-evacuate": {"type": "node-evacuate", "instances": ["m"], "evac_mode": "all"},
    "change-group": {"type": "change-group", "instances": ["a"], "target_groups": []},
}  # fmt: skip


def ranked_lists(response: Json) -> list[list[Json]]:
    """Return each list of placements in `solutions` that is ranked by score and penalty."""
    found = []
    for entry in response["solutions"]:
        groups = entry.get("groups", [entry])
        usable = [one for one in groups if one["nodes"]]
        if len(usable) > 1 or "groups" in entry:
            found.append(usable)
        found += [one[key] for one in groups for key in ("placements", "alternatives")
                  if key in one]  # fmt: skip
    return found


@pytest.mark.parametrize("kind", REQUESTS)
def test_ranked_lists_are_sorted_by_score_and_penalty(kind: str) -> None:
    """Lists of placements are sorted by score and penalty together."""
    response = respond({**CLUSTER, "request": REQUESTS[kind]}, "--top=5", "--n1=off")
    conforms(response, "response")
    lists = ranked_lists(response)
    totals = [[round(one["score"] + one.get("penalty", 0), 6) for one in found] for found in lists]
    assert all(found == sorted(found) for found in totals)
    assert any("penalty" in one for found in lists for one in found)
    assert all(one["penalty"] > 0 for found in lists for one in found if "penalty" in one)


def test_info_shows_score_and_penalty_separately() -> None:
    """The `info` of an answer has the score and the penalty as separate numbers."""
    document = {**CLUSTER, "request": {**NEW["request"], "restrict-to-nodes": ["node2"]}}
    response = respond(document)
    (entry, *_) = response["solutions"]
    assert (entry["nodes"], entry["penalty"]) == (["node2"], 2)
    assert f"score: {entry['score']:.8f}, penalty: 2, successes 1" in response["info"]


@pytest.mark.parametrize("kind", ["allocate", "relocate", "node-evacuate"])
def test_explain_names_the_penalty_that_decided(kind: str) -> None:
    """`explain` names the penalty if it decided against a placement with a better score."""
    document = {**CLUSTER, "request": REQUESTS[kind]}
    text = " ".join(printed("explain", document=document).split())
    assert "node2 has a lower score, " in text
    assert "but a penalty of 2 for violated soft constraints." in text
    assert "Against it: penalty 2.0000 (soft constraints are violated)" in text
    found = json_of("explain", "--top=3", document=document)
    (decision,) = found["decisions"]
    (other,) = [one for one in decision["comparisons"] if one["with"] == "runner-up"]
    assert other["penalty"] == 2
    (row,) = [one for one in other["statistics"] if one["name"] == "penalty"]
    assert row["difference"] == 2
    total = sum(one["difference"] for one in other["statistics"])
    assert abs(total - other["difference"]) < 1e-8
    rows = [one for one in decision["groups"][0]["candidates"] if "score" in one]
    totals = [one["score"] + one.get("penalty", 0) for one in decision["groups"][0]["placements"]]
    assert totals == sorted(totals)
    assert {one["node"]: one.get("penalty") for one in rows}["node2"] == 2


def test_explain_names_the_penalty_of_the_answer() -> None:
    """`explain` names the soft constraint that the answer violates."""
    document = {**CLUSTER, "request": {**NEW["request"], "restrict-to-nodes": ["node2", "node3"]}}
    text = " ".join(printed("explain", document=document).split())
    assert "Penalty of violated soft constraints: 2." in text
    assert "Its place violates a soft constraint: should be apart from a" in text
    assert "node3" in text


def test_answer_without_soft_constraints_has_no_penalty() -> None:
    """The answer to a request without soft constraints has no penalty."""
    document = allocate_rbd(cluster(3))
    response = respond(document, "--top=3")
    assert "penalty" not in str(response)
    assert "enalty" not in printed("explain", document=document)
