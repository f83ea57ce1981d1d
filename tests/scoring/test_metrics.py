"""Test the table of statistics: its formulas, and its page in the manual."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import numpy as np
import pytest

from iallocator.compat import behaviour_of
from iallocator.model.columns import COLUMNS
from iallocator.model.node_view import CAPACITIES, NodeView
from iallocator.model.state import State
from iallocator.scoring import rounding
from iallocator.scoring.metrics import DOMAINS, N1_COUNT, STATISTICS
from iallocator.scoring.proportional_statistics import LINEAR, coefficients
from iallocator.scoring.rounding import RunningSums
from iallocator.scoring.scalar import score_of
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading
from tests.scoring.test_incremental import crowd

PAGE = Path(__file__).parents[2] / "docs/reference/statistics.md"


def test_formulas_are_linear_except_those_with_code() -> None:
    """Each statistic is a linear formula of columns, unless it has code of its own."""
    special = {k for k, linear in enumerate(LINEAR) if linear is None}
    assert special == {N1_COUNT, DOMAINS}


@pytest.mark.parametrize("k", [k for k, linear in enumerate(LINEAR) if linear is not None])
def test_coefficients_are_the_changes_of_the_value(k: int) -> None:
    """A column increased by one changes a statistic by the coefficient of the column."""
    rng = np.random.default_rng(k)
    columns = list(rng.random((len(COLUMNS), 5)))
    view = NodeView(columns, list(rng.random((len(CAPACITIES), 5))), rng.random(5))
    value = STATISTICS[k].value
    for number, column in enumerate(COLUMNS):
        more = view.plus([float(number == other) for other in range(len(COLUMNS))], view.reserved)
        expected = coefficients(k, view).get(column, np.zeros(5))
        assert value(more) - value(view) == pytest.approx(expected, abs=1e-12)
    more = view.plus([0.0] * len(COLUMNS), view.reserved + 1)
    expected = coefficients(k, view).get("reserved", np.zeros(5))
    assert value(more) - value(view) == pytest.approx(expected, abs=1e-12)


def test_page_of_the_manual_lists_every_statistic_with_its_weight() -> None:
    """The page of statistics lists every statistic with its weight, in order."""
    rows = re.findall(r"^\| `(\w+)` .*\| ([\d.]+) \|$", PAGE.read_text(encoding="utf-8"), re.M)
    assert rows == [(one.name, f"{one.weight:g}") for one in STATISTICS]


# Scores to the last digit: the same one by one and all at once, and equal but for rounding.


@pytest.mark.parametrize("seed", range(12))
def test_scores_by_running_sums_are_those_of_the_kernel_in_any_order_of_addition(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores by running sums equal those of the kernel, also in arrays, to the last digit.

    Instances are moved or new, with tags.
    """
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
            patch.setattr(rounding, "VALUES_WORTH_ARRAYS", 0)
            assert sums.moved(places) == one_by_one
        state.place(moved, places[0])
