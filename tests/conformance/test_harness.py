"""Test the comparison itself: it reads answers and finds differences correctly."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from .compare import differences
from .documents import KINDS, document
from .fairness import comparable
from .oracle import Answer, read
from .runner import last_by_name_first

INFO = (
    "Request successful: Selected group: rack2, "
    "Group rack2 (preferred): score: 1.53318597, successes 3, failures 2 (FailMem: 1, FailN1: 1) "
    "for node(s) node5/node4, "
    "Group default (last_resort): No valid allocation solutions, failure reasons: FailMem: 3"
)


def answer(info: str = INFO, result: object = ("node5", "node4")) -> Answer:
    """Return a successful answer with the texts `info` and `result`."""
    return read(json.dumps({"success": True, "info": info, "result": result}).encode())


def test_read_successful_allocation_gives_one_result_per_group() -> None:
    """The comparison reads scores, nodes and counted reasons from `info`."""
    placed, rejected = answer().group_results
    assert answer().selected == placed.group == "rack2"
    assert (placed.score, placed.nodes) == ((1.53318597,), ("node5", "node4"))
    assert (placed.successes, placed.failures) == (3, {"FailMem": 1, "FailN1": 1})
    assert (rejected.policy, rejected.failures, rejected.nodes) == (
        "last_resort",
        {"FailMem": 3},
        (),
    )


def test_read_lost_allocations_gives_a_vector_of_numbers() -> None:
    """The comparison reads the score of a dedicated group as a vector with the free disk."""
    info = (
        "Request successful: Group a (preferred): score: ([0,0,1],20490), successes 3, "
        "failures 0 () for node(s) n2"
    )
    assert answer(info).group_results[0].score == (0.0, 0.0, 1.0, 20490.0)


def test_read_text_after_the_known_words_changes_nothing() -> None:
    """The comparison ignores words in `info` that follow hail's words."""
    assert (
        answer(INFO + "; node7 came closest and lacks 300 MiB").group_results
        == answer().group_results
    )


def test_read_group_not_tried_keeps_the_error() -> None:
    """A group that was not tried has an error and no counts."""
    info = "Request failed: Group a: error Not enough online nodes, Group b: error No online nodes"
    errors = [result.error for result in answer(info).group_results]
    assert errors == ["Not enough online nodes", "No online nodes"]


def test_differences_equal_answers_none() -> None:
    """The comparison ignores differences in the last printed digit."""
    assert differences(answer(INFO.replace("597,", "598,")), answer()) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1.53318597", "1.53319597"),
        ("node5/node4", "node4/node5"),
        ("FailN1: 1", "FailN1: 2"),
        ("successes 3", "successes 4"),
        ("(last_resort)", "(preferred)"),
        ("Selected group: rack2", "Selected group: default"),
    ],
)
def test_differences_one_word_changed_is_found(old: str, new: str) -> None:
    """The comparison finds a change in any part of a group's result."""
    assert len(differences(answer(INFO.replace(old, new)), answer())) == 1


def test_differences_opcode_field_changed_is_named() -> None:
    """The comparison names a changed field of an opcode, in any order of fields."""
    opcode = {"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": "i", "cleanup": False}
    turned = dict(reversed(opcode.items()))
    moved = [["i", "a", ["n2"]]]
    theirs = answer("", [moved, [], [[opcode]]])
    assert differences(answer("", [moved, [], [[turned]]]), theirs) == []
    found = differences(answer("", [moved, [], [[{**turned, "cleanup": True}]]]), theirs)
    assert found == ["job 0, opcode 0, cleanup: ours True, hail's False"]


def test_differences_rejection_against_answer_is_found() -> None:
    """The comparison finds a rejection by one program only."""
    assert differences(replace(answer(), status=2), answer())


@pytest.mark.parametrize("kind", KINDS)
def test_document_same_seed_same_document(kind: str) -> None:
    """A generated document depends only on its seed and kind."""
    assert document(7, kind) == document(7, kind)
    assert document(7, kind) != document(8, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_document_most_seeds_are_comparable(kind: str) -> None:
    """Few generated documents are excluded from the comparison."""
    usable = sum(comparable(document(seed, kind)) for seed in range(100))
    assert usable >= 85


def test_last_by_name_first_keeps_content() -> None:
    """`last_by_name_first` changes only the order of keys in a document."""
    original = document(3, "allocate")
    turned = last_by_name_first(original)
    assert turned == original
    assert list(turned["nodes"]) == sorted(original["nodes"], reverse=True)
