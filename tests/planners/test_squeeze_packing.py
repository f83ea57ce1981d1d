"""Emptying nodes at once, without comparing every move with all others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.clusters import Shape, document
from iallocator.cli import main
from iallocator.planners.balance.greedy import GreedyBalancer
from iallocator.planners.plan import Plan

Json = dict[str, Any]


def _squeeze(shape: Shape, folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> Json:
    """Return the plan, which the model has verified."""
    path = folder / "cluster.json"
    path.write_text(json.dumps(document(shape)))
    assert main(["squeeze", "--json", "--verify-plan", *options, str(path)]) in (0, 130)
    plan: Json = json.loads(capsys.readouterr().out)
    return plan


@pytest.mark.parametrize(("template", "option"), [("rbd", "--all"), ("drbd", "--drbd")])
def test_packing_alone_makes_plans_that_hold(
    template: str,
    option: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Stopped before anything is balanced, it has freed nodes, and knows the scores."""
    shape = Shape(8, template, per_node=6, crowding=0.3)
    whole = _squeeze(shape, tmp_path, capsys, option, "--exact-search=no")

    def stop(self: GreedyBalancer, by_value: bool = False) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(GreedyBalancer, "run", stop)
    packed = _squeeze(shape, tmp_path, capsys, option, "--exact-search=no")
    assert packed["nodes"]
    assert len(packed["nodes"]) <= len(whole["nodes"])
    assert packed["groups"][0]["reason"] == "interrupted"
    assert packed["scores"]["after"] == packed["moves"][-1]["score"] > 0


def test_squeeze_balances_once_where_packing_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all sets of nodes that are asked about only the last is balanced."""
    runs: list[GreedyBalancer] = []
    run = GreedyBalancer.run

    def counted(self: GreedyBalancer, by_value: bool = False) -> Plan:
        runs.append(self)
        return run(self, by_value)

    monkeypatch.setattr(GreedyBalancer, "run", counted)
    plan = _squeeze(Shape(10, "rbd"), tmp_path, capsys)
    assert len(plan["nodes"]) > 2
    assert len(runs) == 1
