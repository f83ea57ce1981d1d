"""Test the state: changes can be undone exactly, and updates equal a new computation."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy, deepcopy
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iallocator.model.columns import COLUMNS
from iallocator.model.instance import Backend, Disks, Instance
from iallocator.model.moves import (
    DRBD_FAILOVER,
    FAILOVER_TO,
    REPLACE_SECONDARY,
    Move,
)
from iallocator.model.state import State
from iallocator.placement.context import Context
from iallocator.scoring.scalar import kernel_of, score_of, terms_of
from tests import builders
from tests.model.make import model_of
from tests.seeds import seeds

from .answers import context_for, newcomers, seeded
from .plain import Plain


def picture(state: State) -> dict[str, Any]:
    """Return a copy of every table of a state, with its entries in their order."""
    return {
        "columns": deepcopy(state.columns),
        "reserved": copy(state.reserved),
        "peers": deepcopy(state.peers),
        "primaries": [list(names) for names in state.primaries],
        "secondaries": [list(names) for names in state.secondaries],
        "exclusion": deepcopy(state.exclusion),
        "domains": copy(state.domains),
        "where": copy(state.where),
    }


def substance(state: State) -> dict[str, Any]:
    """Return a copy of every table of a state, without empty entries, independent of order."""
    found = picture(state)
    found["exclusion"] = [_counted(tags) for tags in found["exclusion"]]
    found["domains"] = _counted(found["domains"])
    for role in ("primaries", "secondaries"):
        found[role] = [sorted(names) for names in found[role]]
    return found


def _counted(counts: dict[Any, int]) -> dict[Any, int]:
    return {key: count for key, count in counts.items() if count}


def settled(seed: int) -> tuple[Context, list[Instance]]:
    """Return a generated cluster with its state, and new instances without nodes."""
    context, wanted = context_for(seeded(seed, "multi-allocate"))
    return context, newcomers(wanted)


def somewhere(context: Context, instance: Instance, rng: Random) -> tuple[int, ...]:
    """Return random nodes for `instance`, possible or not; () if the cluster is too small."""
    nodes = context.all_nodes()
    if len(nodes) < instance.required_nodes:
        return ()
    return tuple(rng.sample(nodes, instance.required_nodes))


def any_move(context: Context, instance: Instance, rng: Random) -> Move:
    """Return a possible move of `instance` from its current nodes."""
    nodes = context.state.where[instance.name]
    others = [index for index in context.all_nodes() if index not in nodes]
    if instance.template != "drbd":
        steps = [(FAILOVER_TO, rng.choice(others))] if others else []
        return Move.by_steps(instance, nodes, steps)
    steps = []
    if others:
        steps.append((REPLACE_SECONDARY, rng.choice(others)))
    if steps or len(nodes) > 1:
        steps.append((DRBD_FAILOVER, steps[0][1] if steps else nodes[1]))
    return Move.by_steps(instance, nodes, steps)


def disturb(context: Context, new: list[Instance], rng: Random, count: int) -> None:
    """Make `count` random changes: place, remove or move an instance."""
    state = context.state
    for _ in range(count):
        instance = rng.choice([*new, *context.cluster.instances])
        if instance.name not in state.where:
            nodes = somewhere(context, instance, rng)
            if nodes:
                state.place(instance, nodes)
        elif rng.random() < 0.3:
            state.remove(instance, state.where[instance.name])
        else:
            any_move(context, instance, rng).apply(state)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(seed=st.integers(0, 400), rng=st.randoms(use_true_random=False), count=st.integers(1, 12))
def test_trial_of_any_moves_restores_the_state_exactly(seed: int, rng: Random, count: int) -> None:
    """After a tentative change, also a nested one, the state and its order are as before."""
    context, new = settled(seed)
    before = picture(context.state)
    with context.state.trial():
        disturb(context, new, rng, count)
        between = picture(context.state)
        with context.state.trial():
            disturb(context, new, rng, count)
        assert picture(context.state) == between
        kept = context.state.trial()
        with kept:
            disturb(context, new, rng, count)
            kept.keep()
            between = picture(context.state)
        assert picture(context.state) == between
        disturb(context, new, rng, count)
    assert picture(context.state) == before


def test_changes_that_a_trial_keeps_are_those_of_the_state() -> None:
    """A trial that keeps its changes leaves the state as changes without a trial do."""
    for seed in seeds(5, 10):
        context, new = settled(seed)
        plainly, plain_new = settled(seed)
        disturb(plainly, plain_new, Random(seed), 6)
        kept = context.state.trial()
        with kept:
            disturb(context, new, Random(seed), 6)
            kept.keep()
        assert picture(context.state) == picture(plainly.state)
        assert not context.state.trying


@settings(max_examples=100, deadline=None, derandomize=True)
@given(seed=st.integers(0, 400), rng=st.randoms(use_true_random=False))
def test_place_then_remove_restores_the_state(seed: int, rng: Random) -> None:
    """If new instances are placed and removed in any order, the state is as before."""
    context, new = settled(seed)
    before = substance(context.state)
    placed = [(one, nodes) for one in new if (nodes := somewhere(context, one, rng))]
    for one, nodes in placed:
        context.state.place(one, nodes)
    for one, nodes in rng.sample(placed, len(placed)):
        context.state.remove(one, nodes)
    assert substance(context.state) == before


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 400), rng=st.randoms(use_true_random=False))
def test_instances_placed_at_once_equal_instances_placed_one_by_one(seed: int, rng: Random) -> None:
    """Instances placed at once have the effect on the state of instances placed one by one.

    Loads are equal to the last digit, and a tentative change undoes all of it.
    """
    state = settled(seed)[0].state
    one = Instance(
        "new",
        Backend(512),
        Disks(
            rng.choice(("plain", "rbd")), 1024, [1024], rng.choice((None, 1)), rng.random() < 0.3
        ),
        load=(0.1, 0.7, 1.3, 0.0),
    )
    nodes = range(len(state.columns[0]))
    arrivals = [(one.twin(f"new-{k}", k), (rng.choice(nodes),)) for k in range(20)]
    before, plainly, alike = picture(state), state.copy(), state.copy()
    for instance, place in arrivals:
        plainly.place(instance, place)
    with state.trial():
        state.place_alike(arrivals)
        assert picture(state) == picture(plainly)
    assert picture(state) == before
    alike.place_alike(arrivals)
    assert alike.stamps == plainly.stamps


@settings(max_examples=100, deadline=None, derandomize=True)
@given(seed=st.integers(0, 400), rng=st.randoms(use_true_random=False))
def test_moves_there_and_back_restore_the_state(seed: int, rng: Random) -> None:
    """If an instance moves away and returns, the state is as before."""
    context, _ = settled(seed)
    before = substance(context.state)
    moved = rng.sample(context.cluster.instances, min(5, len(context.cluster.instances)))
    for one in moved:
        any_move(context, one, rng).apply(context.state)
    for one in moved:
        context.state.remove(one, context.state.where[one.name])
    for one in moved:
        context.state.place(one, one.nodes)
    assert substance(context.state) == before


@pytest.mark.parametrize("count", [0, 1, 8])
def test_state_after_any_moves_equals_a_new_state(count: int) -> None:
    """After any moves, each column of each node equals that of a new state."""
    for seed in seeds(30, 80):
        context, new = settled(seed)
        rng = Random(seed)
        disturb(context, new, rng, count)
        plain = counted_again(context, seed)
        for node in context.cluster.nodes:
            expected = dict(figures(plain, node.name))
            row = dict(zip(COLUMNS, context.state.row(node.index), strict=True))
            row["reserved"] = context.state.reserved[node.index]
            differing = {k: (row[k], v) for k, v in expected.items() if row[k] != v}
            assert not differing, f"{seed} {node.name}"


def counted_again(context: Context, seed: int) -> Plain:
    """Return the plain model of the cluster with the placement of the state."""
    request = seeded(seed, "multi-allocate")
    plain = Plain(request)
    described = dict(request["instances"])
    for raw in request["request"]["instances"]:
        described[raw["name"]] = {**raw, "admin_state": "up"}
    plain.now = {}
    for name, nodes in context.state.where.items():
        plain.put(name, described[name], context.cluster.node_names(nodes))
    return plain


def figures(plain: Plain, node: str) -> Iterator[tuple[str, float]]:
    """Yield name and value of each column of a node by the plain model."""
    real = [one for one in plain.primaries(node) if not one.forthcoming]
    secondaries = [one for one in plain.secondaries(node) if not one.forthcoming]
    yield "memory", plain.free_memory(node)
    yield "memory_later", plain.free_memory_later(node)
    yield "reserved", plain.reserved(node)
    yield "primaries", len(real)
    yield "secondaries", len(secondaries)
    yield "net_load", len(real)
    yield "disk_load", len(real) + len(secondaries)
    for later, suffix in ((False, ""), (True, "_later")):
        yield "disk" + suffix, plain.free_disk(node, later)
        yield "cpus" + suffix, plain.used_cpus(node, later)
        if plain.exclusive(node):
            yield "free_spindles" + suffix, plain.free_spindles(node, later)
        else:
            yield "spindles" + suffix, plain.used_spindles(node, later)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(seed=st.integers(0, 400), rng=st.randoms(use_true_random=False))
def test_copy_of_a_state_is_equal_and_independent(seed: int, rng: Random) -> None:
    """A copy of a state is equal, and changes of one do not affect the other."""
    context, new = settled(seed)
    twin = context.state.copy()
    before = picture(twin)
    assert picture(context.state) == before
    assert twin.version == context.state.version
    disturb(context, new, rng, 6)
    assert picture(twin) == before
    assert all(getattr(twin, name) is not None for name in State.__slots__ if name != "_journal")


def node_pictures(state: State) -> list[Any]:
    """Return the instances and amounts of each node of the state, in order."""
    roles = (state.peers, state.primaries, state.secondaries, state.exclusion)
    return [
        (state.row(index), amount, *(list(role[index].items()) for role in roles))
        for index, amount in enumerate(state.reserved)
    ]


def pretended(state: State, rng: Random) -> Iterator[None]:
    """Apply tentative changes for the time of a block: swaps, missing memory and disks."""
    placed = [one for one in state.cluster.instances if one.name in state.where]
    if placed:
        one, other = rng.choice(placed), rng.choice(placed)
        home = state.where[one.name][:1]
        state.impersonate(one, other)
        yield
        state.keep_disks(one, home)
        yield
        state.take_memory(home[0], 1)
        yield


@pytest.mark.parametrize("seed", range(8))
def test_versions_of_a_state_identify_differences(seed: int) -> None:
    """Equal stamps mean unchanged nodes, and equal versions mean an unchanged state."""
    context, new = settled(seed)
    state, rng = context.state, Random(seed)
    seen: dict[tuple[int, int], Any] = {}

    def compare() -> None:
        pictures = node_pictures(state)
        assert seen.setdefault((-1, state.version), pictures) == pictures
        for index, one in enumerate(pictures):
            assert seen.setdefault((index, state.stamps[index]), one) == one

    for _ in range(6):
        compare()
        before = state.version, list(state.stamps)
        with state.trial():
            for _ in range(2):
                disturb(context, new, rng, 1)
                compare()
            for _ in pretended(state, rng):
                compare()
        assert (state.version, state.stamps) == before
        compare()
        disturb(context, new, rng, 1)


def test_state_drops_secondaries_of_instances_without_memory() -> None:
    """After the removal of two instances of 0 MiB with equal nodes, no node reserves memory.

    The instances are removed one after the other.
    """
    ours = {f"i{k}": builders.instance("node1", "node2", memory=0) for k in range(2)}
    cluster = model_of(builders.cluster(2, instances=ours))
    state = State(cluster)
    for one in cluster.instances:
        state.remove(one, state.where[one.name])
    assert (state.peers, state.reserved) == ([{}, {}], [0, 0])


# The score of a state is the sum of its terms, and terms are foretold as they come to be.


@pytest.mark.parametrize("seed", range(20))
def test_terms_of_a_placement_are_those_of_the_state_with_it(seed: int) -> None:
    """The predicted score terms of a placement equal those of the state after it."""
    context, _ = context_for(seeded(seed, "allocate"))
    state, scope = context.state, context.all_nodes()
    for instance in context.cluster.instances[:5]:
        with state.trial():
            state.remove(instance, instance.nodes)
            nodes = instance.nodes[::-1]
            foretold = kernel_of(state, scope).terms_of(instance, nodes)
            state.place(instance, nodes)
            assert foretold == pytest.approx(terms_of(state, scope), abs=1e-9)
            assert score_of(state, scope) == pytest.approx(sum(foretold), abs=1e-9)
