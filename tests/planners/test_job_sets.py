"""Moves in job sets."""

from __future__ import annotations

from iallocator.ganeti.jobs import job_sets


def test_job_sets_of_moves_without_common_nodes_are_one() -> None:
    """Moves that touch different nodes run side by side."""
    assert job_sets([{1, 2}, {3, 4}, {5}]) == [[0, 1, 2]]


def test_job_sets_of_a_move_to_a_busy_node_begins_anew() -> None:
    """A set ends before the first move that touches a node already touched."""
    assert job_sets([{1, 2}, {3}, {2, 4}, {1}]) == [[0, 1], [2, 3]]


def test_job_sets_keep_the_order_of_moves() -> None:
    """A later move does not slip into an earlier set, even if its nodes are free there."""
    assert job_sets([{1}, {1}, {9}]) == [[0], [1, 2]]


def test_job_sets_of_no_moves_are_none() -> None:
    """An empty plan has no job sets."""
    assert job_sets([]) == []
