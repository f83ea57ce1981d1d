"""Test writing htools' text format: the written file reads as the same cluster."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from iallocator.errors import UsageError
from iallocator.model.columns import COLUMNS
from iallocator.model.state import State
from iallocator.sources.writer import write_text
from iallocator.wire.reading import Reading
from tests.conformance.documents import KINDS

from .clusters import LIKE_HAIL, READING, SMALL, generated, read, score

seeds = st.integers(0, 10_000)
kinds = st.sampled_from(KINDS)


def same_state(state: State, other: State) -> None:
    """Assert that both states have the same placement and equal free amounts."""
    assert state.where == other.where
    assert state.reserved == other.reserved
    exclusive = [node.exclusive_storage for node in state.cluster.nodes]
    for name, old, new in zip(COLUMNS, state.columns, other.columns):
        if "free_spindles" in name:
            old, new = ([v for v, e in zip(c, exclusive) if e] for c in (old, new))  # noqa: PLW2901
        assert old == new, name


def shaken(state: State, seed: int) -> None:
    """Move some instances of a state at random."""
    nodes = [node.index for node in state.cluster.nodes if node.online]
    for number, instance in enumerate(state.cluster.instances[:6]):
        places = instance.nodes
        others = [index for index in nodes if index not in places]
        if not others or not all(state.cluster.nodes[index].online for index in places):
            continue
        state.remove(instance, places)
        target = others[(seed + number) % len(others)]
        state.place(instance, (target, *places[1:]))


@settings(max_examples=60, deadline=None)
@given(seeds, kinds, st.sampled_from([READING, LIKE_HAIL]))
def test_cluster_written_and_read_is_in_the_same_state(
    seed: int, kind: str, reading: Reading
) -> None:
    """A document's cluster, written as text and read, has equal state and scores."""
    cluster = generated(seed, kind, reading)
    state = State(cluster)
    text = write_text(cluster, state, backwards=not reading.behaviour.orders_by_name)
    again = State(read(text, reading).cluster)
    same_state(state, again)
    for group in cluster.groups:
        if group.nodes:
            assert score(state, group.nodes) == score(again, group.nodes)


@settings(max_examples=60, deadline=None)
@given(seeds, kinds)
def test_state_after_moves_written_and_read_is_the_same(seed: int, kind: str) -> None:
    """A state after moves, written as text and read, has the amounts after the moves."""
    cluster = generated(seed, kind)
    # where it is not known what they will take, the start alone decides what is left
    assume(not any(i.forthcoming and i.spindles is None for i in cluster.instances))
    state = State(cluster)
    shaken(state, seed)
    again = State(read(write_text(cluster, state)).cluster)
    same_state(state, again)
    every = list(range(len(cluster.nodes)))
    assert score(state, every) == score(again, every)


@settings(max_examples=30, deadline=None)
@given(seeds, kinds)
def test_text_read_and_written_again_is_the_same_text(seed: int, kind: str) -> None:
    """A text file that is read and written again is unchanged."""
    cluster = generated(seed, kind)
    text = write_text(cluster, State(cluster))
    found = read(text)
    again = write_text(
        found.cluster, State(found.cluster), policy=found.policy, masters=found.masters
    )
    assert again == text


def test_small_text_keeps_policy_and_master() -> None:
    """The policies and the master of a text file are kept when it is written again."""
    found = read(SMALL, LIKE_HAIL)
    text = write_text(
        found.cluster, State(found.cluster), policy=found.policy, masters=found.masters,
        backwards=True,
    )  # fmt: skip
    assert text == SMALL


@pytest.mark.parametrize("name", ["a|b", "a\nb"])
def test_name_that_would_break_the_format_is_not_written(name: str) -> None:
    """A name that would make the text file unreadable is an error."""
    cluster = read(SMALL).cluster
    cluster.groups[0].name = name
    with pytest.raises(UsageError, match="cannot be written"):
        write_text(cluster, State(cluster))


def test_tag_with_a_comma_is_not_written() -> None:
    """A tag with a comma is an error in a text file, as it would be read as two tags."""
    cluster = read(SMALL).cluster
    cluster.nodes[0].tags = ["a,b"]
    with pytest.raises(UsageError, match="cannot be written"):
        write_text(cluster, State(cluster))
