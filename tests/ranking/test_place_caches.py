"""What placing a cluster anew keeps from one instance to the next changes nothing that is found."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from iallocator.cli import main
from iallocator.placement.evaluator import Evaluator
from iallocator.placement.move_check import MoveChecks
from iallocator.planners.place.scheduler import SchedulingPass
from tests import builders
from tests.constraints.worlds import random_document

STRATEGIES = ("default", "utilization", "balanced", "minimal")


@pytest.mark.parametrize("seed", range(8))
def test_place_without_what_is_kept_finds_the_same(
    seed: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Demands of failures and limits of nodes, worked out anew each time they are asked for."""
    path = tmp_path / "cluster.json"
    path.write_bytes(builders.as_bytes(random_document(random.Random(seed), 5, 14)))
    command = ["place", "--json", f"--strategy=pacemaker-{STRATEGIES[seed % 4]}", str(path)]
    kept = main(command), capsys.readouterr().out
    tolerance, asked = SchedulingPass.tolerance, 0

    def forgetful(self: SchedulingPass, *question: Any) -> object:
        nonlocal asked
        asked += 1
        for failures in self._failures.values():
            failures._known_watches, failures._demands, failures._version = {}, {}, -1
        return tolerance(self, *question)

    def verdicts(one: Evaluator) -> MoveChecks:
        return MoveChecks(
            one._context, one.group, one.limit_policies, one.rules, one.scope.nodes, ""
        )

    monkeypatch.setattr(SchedulingPass, "tolerance", forgetful)
    monkeypatch.setattr(Evaluator, "_move_checks", property(verdicts))
    assert (main(command), capsys.readouterr().out) == kept
    assert asked
