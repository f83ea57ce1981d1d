"""Test moves: the nodes of an instance after them, and their effect on the state."""

from __future__ import annotations

import pytest

from iallocator.model.moves import (
    DRBD_FAILOVER,
    FAILOVER_TO,
    REPLACE_SECONDARY,
    ElementaryMove,
    Move,
    places_after,
)
from iallocator.model.state import State

from .make import cluster, instance


@pytest.mark.parametrize(
    ("nodes", "steps", "expected"),
    [
        ((0, 1), [], (0, 1)),
        ((0, 1), [(DRBD_FAILOVER, 1)], (1, 0)),
        ((0, 1), [(DRBD_FAILOVER, 1), (DRBD_FAILOVER, 0)], (0, 1)),
        ((0, 1), [(REPLACE_SECONDARY, 2)], (0, 2)),
        ((0, 1), [(DRBD_FAILOVER, 1), (REPLACE_SECONDARY, 2)], (1, 2)),
        ((0, 1), [(REPLACE_SECONDARY, 2), (DRBD_FAILOVER, 2)], (2, 0)),
        ((0, 1), [(REPLACE_SECONDARY, 2), (DRBD_FAILOVER, 2), (REPLACE_SECONDARY, 3)], (2, 3)),
        ((0,), [(FAILOVER_TO, 3)], (3,)),
        ((0,), [(FAILOVER_TO, 3), (FAILOVER_TO, 1)], (1,)),
        ((0,), [(REPLACE_SECONDARY, 1)], (0, 1)),
    ],
)
def test_places_after_steps_follow_from_their_order(
    nodes: tuple[int, ...], steps: list[ElementaryMove], expected: tuple[int, ...]
) -> None:
    """A failover swaps the roles, a replacement changes the secondary, a migration the node."""
    assert places_after(nodes, steps) == expected


def test_steps_applied_to_a_state_move_the_resources_of_the_instance() -> None:
    """A move of drbd moves memory with the primary; the secondary reserves as much."""
    one = instance(nodes=(0, 1))
    state = State(cluster(nodes=3, instances=(one,)))
    assert (state.columns[0], state.reserved) == ([7192, 8192, 8192], [0, 1000, 0])
    move = Move.by_steps(one, (0, 1), [(DRBD_FAILOVER, 1), (REPLACE_SECONDARY, 2)])
    move.apply(state)
    assert move.after == (1, 2)
    assert (state.columns[0], state.reserved) == ([8192, 7192, 8192], [0, 0, 1000])
    assert state.where == {"web": (1, 2)}
    assert [list(names) for names in state.primaries] == [[], ["web"], []]


def test_steps_that_lead_back_restore_the_state() -> None:
    """Two failovers in a row restore the state."""
    one = instance(nodes=(0, 1))
    state = State(cluster(instances=(one,)))
    rows = [state.row(index) for index in (0, 1)]
    move = Move.by_steps(one, (0, 1), [(DRBD_FAILOVER, 1), (DRBD_FAILOVER, 0)])
    move.apply(state)
    assert move.after == (0, 1)
    assert [state.row(index) for index in (0, 1)] == rows


def test_reserved_memory_is_that_of_the_worst_peer() -> None:
    """The reserved memory of a node is the largest sum over the primaries of one other node."""
    made = [
        instance(name=name, memory=memory, nodes=(primary, 2))
        for name, memory, primary in (("a", 300, 0), ("b", 400, 0), ("c", 600, 1))
    ]
    state = State(cluster(nodes=3, instances=tuple(made)))
    assert (state.peers[2], state.reserved[2]) == ({0: 700, 1: 600}, 700)
    state.remove(made[0], (0, 2))
    assert state.reserved[2] == 600
