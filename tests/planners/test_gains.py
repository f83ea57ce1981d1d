"""What each move of a plan changes in the score's statistics, against scores made anew."""

from __future__ import annotations

from random import Random

import pytest

from iallocator.documents.plan import changes_of_moves
from iallocator.model.state import State
from iallocator.scoring.metrics import STATISTICS
from iallocator.scoring.scalar import terms_of
from tests.seeds import seeds

from .worlds import problem_of, worlds


def test_changes_of_moves_are_the_differences_of_the_terms_worked_out_anew() -> None:
    """Of moves made one after the other, good and bad; the state is left as it was."""
    rng, compared = Random(3), 0
    for name, cluster, group in worlds(seeds(8, 20, 390)):
        problem = problem_of(cluster, group)
        moves, expected = [], []
        with problem.state.trial():
            for _ in range(6):
                found = problem.scan().lowest(40, 2)
                if not found:
                    break
                (move,) = rng.choice(found).moves
                before = terms_of(problem.state, group.nodes)
                move.apply(problem.state)
                after = terms_of(problem.state, group.nodes)
                expected.append([now - then for then, now in zip(before, after)])
                moves.append(move)
        version = problem.state.version
        for told, wanted in zip(changes_of_moves(problem.state, moves), expected, strict=True):
            assert [statistic for statistic, _ in told] == [one.name for one in STATISTICS]
            assert [change for _, change in told] == pytest.approx(wanted, abs=1e-9), name
            compared += 1
        assert problem.state.version == version
        assert changes_of_moves(State(cluster), ()) == []
    assert compared > 30
