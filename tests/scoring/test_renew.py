"""A kernel that looks again at the nodes that changed scores as one made anew."""

from __future__ import annotations

from random import Random

import pytest

from iallocator.model.state import State
from iallocator.scoring.state_score import kernel_of, score_of
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading
from tests.scoring.test_standing import crowd


@pytest.mark.parametrize("seed", range(12))
def test_kernel_renewed_scores_as_a_new_one(seed: int) -> None:
    """After each of thirty moves, locations and exclusion tags included."""
    made = read_cluster(crowd(seed, 4 + seed % 5), Reading(static_kvm_memory=0))
    state, rng, scope = State(made), Random(seed), range(len(made.nodes))
    kernel = kernel_of(state, scope)
    for _ in range(30 if made.instances else 0):
        moved = rng.choice(made.instances)
        before = state.where[moved.name]
        after = tuple(rng.sample(scope, len(before)))
        state.remove(moved, before)
        state.place(moved, after)
        kernel.renew({*before, *after})
        assert kernel.score() == pytest.approx(score_of(state, scope), abs=1e-9)
