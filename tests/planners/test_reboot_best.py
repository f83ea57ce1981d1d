"""Compare the groups of reboot with the best possible ones, found by trying every placement."""

from __future__ import annotations

import pytest

from benchmarks.gap import as_text
from benchmarks.planners_gap import fewest_groups, reboot_case, rebooted
from tests.cli.effects_of_planners import HARD_TO_DRAIN
from tests.command import json_of

FOUND_BY_SEARCH = [(190, "shared"), (224, "mixed"), (119, "plain and shared")]
"""Full clusters: every greedy choice of nodes violates N+1, and another one keeps it."""


@pytest.mark.parametrize(("seed", "kind"), FOUND_BY_SEARCH)
def test_search_finds_nodes_where_greedy_choices_fail(seed: int, kind: str) -> None:
    """A node that can be drained is drained, although the first choices violate N+1."""
    machines, homes = reboot_case(seed, kind)
    nodes, groups, _ = rebooted(as_text(machines, homes))
    assert (nodes, groups) == {
        "shared": ([0], 1),
        "mixed": ([0, 1, 2, 3, 4], 5),
        "plain and shared": ([2, 3, 4], 3),
    }[kind]


def test_optimal_proves_that_the_groups_are_the_fewest() -> None:
    """The default search ends before the proof."""
    plain = json_of("reboot", "--force", "-", document=HARD_TO_DRAIN)
    proved = json_of("reboot", "--force", "--optimal", "-", document=HARD_TO_DRAIN)
    assert (plain["reached"], plain["proved"]) == (6, False)
    assert (proved["reached"], proved["bound"], proved["proved"]) == (6, 6, True)


@pytest.mark.parametrize("kind", ["shared", "mixed", "plain and shared"])
def test_groups_are_the_fewest_possible_ones(kind: str) -> None:
    """All nodes that can be drained are drained, in the least number of groups."""
    compared = 0
    for seed in range(1000, 1012):
        machines, homes = reboot_case(seed, kind)
        if len(machines) < 6:
            best = fewest_groups(machines, homes)
            if best is not None:
                compared += 1
                assert rebooted(as_text(machines, homes))[:2] == best
    assert compared >= 3
