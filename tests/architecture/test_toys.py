"""Follow the recipes of ARCHITECTURE.md with toys, and test that each path uses them.

A toy is a small example of an addition, such as a limit or a strategy.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest

from tests.seeds import seeds

from .toys import (
    Place,
    Toy,
    column,
    command,
    constraint,
    limit,
    option,
    recipe,
    request,
    run,
    statistic,
    strategy,
    template,
)

TOYS = [
    one.TOY
    for one in (column, command, constraint, limit, option, request, statistic, strategy, template)
]

LIMITS = [(limit.TOY, 1), (limit.BOTH_ROLES, 2)]
"""Toy limits, and in how many roles they count instances."""

LEFT_OUT = list(chain.from_iterable([(toy, place) for place in toy.places] for toy in TOYS))


def name(value: Toy | Place) -> str:
    """Return the name of a toy, or of a place in a recipe, for the names of tests."""
    return value.script[: -len("_paths.py")] if isinstance(value, Toy) else ": ".join(value)


@pytest.mark.parametrize("toy", TOYS, ids=name)
def test_toy_acts_on_every_path(toy: Toy, tmp_path: Path) -> None:
    """Each toy has effect on every path, which its script checks."""
    done = toy.check(toy.copy(tmp_path))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize(("toy", "left_out"), LEFT_OUT, ids=name)
def test_toy_without_one_place_of_its_recipe_fails(
    toy: Toy, left_out: Place, tmp_path: Path
) -> None:
    """The script of a toy fails if any place of the recipe is left out."""
    done = toy.check_without(toy.copy(tmp_path, left_out), left_out)
    assert done.returncode == 1, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize("toy", TOYS, ids=name)
def test_toy_follows_its_recipe(toy: Toy) -> None:
    """The recipe names each place that the toy changes, and these are few files."""
    text = recipe(toy.recipe)
    for (file, symbol), (before, _) in toy.places.items():
        if before:
            assert f"`{file}{': ' + symbol if symbol else ''}`" in text, (file, symbol)
    for title, phrase in toy.phrases:
        assert phrase in recipe(title)
    assert len({file for file, _ in (*toy.places, *toy.effect)}) <= toy.most_files


def test_recipe_for_a_statistic_names_no_more_places_than_the_toy_needs() -> None:
    """The toy changes each place that the recipe for a statistic names."""
    assert recipe("statistic").count("\n* `") == len(statistic.PLACES)


def test_plan_of_a_toy_planner_that_breaks_a_limit_is_rejected(tmp_path: Path) -> None:
    """A plan of a toy planner that breaks a limit is rejected by the verifier."""
    toy = command.without_checks()
    done = toy.check(toy.copy(tmp_path))
    assert done.returncode == 1
    assert "tight" in done.stderr, done.stderr[-3000:]


@pytest.mark.parametrize(("toy", "roles"), LIMITS, ids=["primaries", "both roles"])
def test_toy_limit_equals_brute_force_on_generated_clusters(
    toy: Toy, roles: int, tmp_path: Path
) -> None:
    """A toy limit is enforced by requests, planners and N+1 as by brute force."""
    every = seeds(6, 300)
    script = Path(limit.__file__).with_name("limit_clusters.py")
    done = run(toy.copy(tmp_path), str(script), str(roles), str(every.start), str(len(every)))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    counts = {words: int(count) for count, words in map(_outcome, done.stdout.splitlines())}
    for mode in ("strict", "no-new", "no-worse", "off"):
        assert counts[f"allocate {mode} placed"], counts
        assert counts[f"allocate {mode} rejected"], counts
    assert counts["evacuate some"], counts
    assert counts["evacuate all"], counts
    assert any(counts.get(f"squeeze {mode} moves") for mode in ("strict", "no-new", "off")), counts


def _outcome(line: str) -> tuple[str, str]:
    """Return the count and the words of a line of output of `limit_clusters.py`."""
    count, _, words = line.strip().partition(" ")
    return count, words
