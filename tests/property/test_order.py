"""Test that the order and notation of a document's parts do not change its answer."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iallocator.cli import answer
from tests.builders import Json, allocate, cluster
from tests.command import respond
from tests.conformance.documents import KINDS
from tests.seeds import seeds

from .answers import seeded, shuffled


def raw_answer(request: Json) -> bytes:
    """Return the bytes of the response to `request`."""
    return answer(json.dumps(request).encode(), ["--top=3"])


@pytest.mark.parametrize("kind", KINDS)
def test_order_of_keys_does_not_change_the_answer(kind: str) -> None:
    """The answer is byte-equal for any order of keys in the document."""
    for seed in seeds(8, 50):
        request = seeded(seed, kind)
        assert raw_answer(shuffled(request, Random(seed))) == raw_answer(request), seed


@settings(max_examples=len(seeds(10, 50)), deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), order=st.randoms(use_true_random=False))
def test_order_of_keys_never_changes_the_answer_to_allocate(seed: int, order: Random) -> None:
    """For any drawn document, the answer is byte-equal for any order of keys."""
    request = seeded(seed, "allocate")
    assert raw_answer(shuffled(request, order)) == raw_answer(request)


def with_floats(value: Any) -> Any:
    """Return `value` with every whole number written as 3.0 instead of 3."""
    if isinstance(value, dict):
        return {key: with_floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [with_floats(item) for item in value]
    return float(value) if type(value) is int else value


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_written_as_floats_give_the_same_answer(kind: str) -> None:
    """The answer is equal if whole numbers are written with a decimal point."""
    for seed in seeds(8, 40):
        request = seeded(seed, kind)
        assert raw_answer(with_floats(request)) == raw_answer(request), seed


@pytest.mark.parametrize(
    ("template", "expected"),
    [("plain", ["node1"]), ("rbd", ["node1"]), ("drbd", ["node1", "node2"])],
)
def test_tie_of_identical_nodes_goes_to_the_first_by_name(
    template: str, expected: list[str]
) -> None:
    """Of equal nodes, the first one by name is chosen, in any order of the document."""
    request = allocate(cluster(nodes=4), disk_template=template)
    for seed in range(5):
        assert respond(shuffled(request, Random(seed)))["result"] == expected


def test_tie_between_pairs_goes_to_the_first_primary_then_the_first_secondary() -> None:
    """Of equal pairs of nodes, the first by primary and then by secondary is chosen."""
    request = allocate(cluster(nodes=4, changes={"node1": {"drained": True}}))
    offered = respond(request, "--top=9")["solutions"][0]["placements"]
    assert [one["nodes"] for one in offered] == [
        ["node2", "node3"], ["node2", "node4"], ["node3", "node2"], ["node3", "node4"],
        ["node4", "node2"], ["node4", "node3"],
    ]  # fmt: skip


def test_tie_between_groups_goes_to_the_first_by_name() -> None:
    """Of groups with equal policies and scores, the first one by name is chosen."""
    request = allocate(cluster(nodes={"beta": 2, "alpha": 2}), disk_template="plain")
    assert respond(request)["result"] == ["node3"]
    assert respond(shuffled(request, Random(1)))["result"] == ["node3"]
