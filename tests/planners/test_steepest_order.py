"""Test that the first moves of a plan of balance lower the score most of all its moves."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.gap import as_text, large
from tests.command import json_of


@pytest.mark.parametrize("mode", ["off", "no-worse"])
def test_first_moves_help_about_as_much_as_a_plan_of_that_length(mode: str, tmp_path: Path) -> None:
    """After any number of moves, the score is about that of a plan limited to this number.

    An instance that moves once in the plan may have moved twice in the search that found it.
    """
    for seed in (1, 7, 17):
        file = tmp_path / "cluster.data"
        file.write_text(as_text(*large(seed)))
        words = ["balance", "-t", str(file), f"--n1={mode}"]
        plan = json_of(*words)
        scores = [plan["scores"]["before"], *(move["score"] for move in plan["moves"])]
        assert len(scores) > 20
        for count in (5, 10, 15, 20):
            limited = json_of(*words, f"-l{count}")
            gained = scores[0] - min(scores[: count + 1])
            assert gained > 0.98 * (scores[0] - limited["scores"]["after"]), (seed, count)
