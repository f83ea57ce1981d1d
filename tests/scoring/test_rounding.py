"""Scores to the last digit: the same one by one and all at once, and equal but for rounding."""

from __future__ import annotations

from random import Random

import pytest

from iallocator.compat import behaviour_of
from iallocator.model.state import State
from iallocator.scoring import rounding
from iallocator.scoring.rounding import RunningSums
from iallocator.scoring.scalar import score_of
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading
from tests.scoring.test_incremental import crowd


@pytest.mark.parametrize("seed", range(12))
def test_scores_by_running_sums_are_those_of_the_kernel_whatever_adds_them_up(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Moved or new, location and exclusion tags included; arrays add up to the same last digit."""
    reading = Reading(behaviour=behaviour_of("hail"), static_kvm_memory=0)
    made = read_cluster(crowd(seed, 4 + seed % 5), reading)
    state, rng, scope = State(made), Random(seed), range(len(made.nodes))
    for moved in made.instances[:6]:
        state.remove(moved, state.where[moved.name])
        places = [tuple(rng.sample(scope, moved.required_nodes)) for _ in range(8)]
        sums = RunningSums(state, scope, moved)
        one_by_one = sums.moved(places)
        for place, anew, changed in zip(places, one_by_one, sums.created(places)):
            with state.trial():
                state.place(moved, place)
                assert anew == pytest.approx(score_of(state, scope), abs=1e-9)
                assert changed == pytest.approx(anew, abs=1e-6)
        with monkeypatch.context() as patch:
            patch.setattr(rounding, "MANY", 0)
            assert sums.moved(places) == one_by_one
        state.place(moved, places[0])
