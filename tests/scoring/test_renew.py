"""Test that a kernel that updates changed nodes equals a new kernel."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

import pytest

from iallocator.model.instance import Instance
from iallocator.model.node_view import NodeView
from iallocator.model.state import State
from iallocator.placement.what_if import KnownNodes, NodeHistory
from iallocator.scoring import Kernels
from iallocator.scoring.arrays import ArrayKernel
from iallocator.scoring.scalar import ScalarKernel, kernel_of, score_of
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading
from tests.scoring.test_incremental import crowd, newcomer

if TYPE_CHECKING:
    from iallocator.scoring.scalar import EarlierNodes


def state_of(seed: int) -> State:
    """Return a state with instances on nodes; every third seed has locations."""
    return State(read_cluster(crowd(seed, 4 + seed % 5), Reading(static_kvm_memory=0)))


def moves(state: State, seed: int, count: int) -> Iterator[set[int]]:
    """Move a random instance each time, and yield the changed nodes."""
    rng, scope = Random(seed), range(len(state.cluster.nodes))
    for _ in range(count if state.cluster.instances else 0):
        moved = rng.choice(state.cluster.instances)
        before = state.where[moved.name]
        after = tuple(rng.sample(scope, len(before)))
        state.remove(moved, before)
        state.place(moved, after)
        yield {*before, *after}


def places(
    kernel: ScalarKernel | ArrayKernel, one: Instance
) -> list[tuple[tuple[int, ...], float]]:
    """Return the permitted placements of `one` with their scores."""
    found = kernel.singles(one, range(len(kernel.state.cluster.nodes)), {}).ranked()
    return sorted((nodes, round(score, 9)) for score, nodes in found)


@pytest.mark.parametrize("arrays", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_updated_kernel_equals_a_new_one(seed: int, arrays: bool) -> None:
    """After each move, an updated kernel has the score and placements of a new kernel."""
    state = state_of(seed)
    scope, kernels = range(len(state.cluster.nodes)), Kernels(state, ())

    def made() -> ScalarKernel | ArrayKernel:
        if arrays:
            return kernels.make_array(state, scope)
        return ScalarKernel(state, scope, kernels.fixed)

    kernel, new = made(), newcomer("plain", 0)
    for _ in moves(state, seed, 12):
        kernel.follow()
        assert kernel.score() == pytest.approx(score_of(state, scope), abs=1e-9)
        assert places(kernel, new) == places(made(), new)


@pytest.mark.parametrize("seed", range(4))
def test_kernel_with_values_of_an_earlier_one_scores_as_a_new_one(seed: int) -> None:
    """A kernel that takes over values of an earlier kernel has the scores of a new kernel."""
    state = state_of(seed)
    scope = range(len(state.cluster.nodes))
    earlier: EarlierNodes = {}, {}
    new = newcomer("plain", 0)
    for _ in moves(state, seed, 12):
        kernel, fresh = kernel_of(state, scope, earlier=earlier), kernel_of(state, scope)
        assert kernel.score() == fresh.score() == score_of(state, scope)
        assert places(kernel, new) == places(fresh, new)


@pytest.mark.parametrize("arrays", [False, True])
@pytest.mark.parametrize("seed", [1, 3])
def test_kernel_follows_the_state_in_trials_and_after_them(seed: int, arrays: bool) -> None:
    """After a tentative change, the kernel has the nodes and the score from before."""
    state = state_of(seed)
    scope, kernels = range(len(state.cluster.nodes)), Kernels(state, ())
    kernel = (
        kernels.make_array(state, scope) if arrays else ScalarKernel(state, scope, kernels.fixed)
    )

    def score() -> float:
        kernel.follow()
        return kernel.score()

    for number in range(8):
        with state.trial():
            list(moves(state, number, 1))
            assert score() == pytest.approx(score_of(state, scope), abs=1e-9)
        assert score() == pytest.approx(score_of(state, scope), abs=1e-9)
        list(moves(state, -number, 1))
        assert score() == pytest.approx(score_of(state, scope), abs=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_history_of_nodes_equals_a_new_one(seed: int) -> None:
    """After each move, the kept facts of nodes equal newly computed ones."""
    state = state_of(seed)
    scope, kernels, history = range(len(state.cluster.nodes)), Kernels(state, ()), NodeHistory()

    def facts(known: KnownNodes) -> list[tuple[dict[str, object], dict[int, float]]]:
        """Return all numbers of each node, and the memory that it reserves for each other node."""
        names = [name for name in NodeView.__slots__ if name != "at"]
        return [
            ({name: getattr(known.views[i], name) for name in names}, dict(known.peers[i]))
            for i in scope
        ]

    assert facts(history.known(state, kernels, scope))
    for _ in moves(state, seed, 12):
        new = NodeHistory().known(state, kernels, scope)
        assert facts(history.known(state, kernels, scope)) == facts(new)
