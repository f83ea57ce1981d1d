"""Define the paths that only display a cluster."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tests.builders import Json, as_bytes
from tests.command import run

from .requests import between_scenario, moving_scenario
from .scenarios import Scenario

__all__ = ["cluster", "report", "show"]


def cluster(kind: str, split: bool) -> Scenario:
    """Return a scenario with the tested instance on the node `source`, without a request."""
    return between_scenario(kind, split) if split else moving_scenario(kind, split)


def show(scenario: Scenario) -> Json:
    """Return the output of `show` for the cluster."""
    done = run("show", "--json", stdin=as_bytes(scenario.finished()))
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def report(scenario: Scenario) -> Json:
    """Return the HTML page that `report` writes for the cluster."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        done = run(
            "report", f"--html={page}", *scenario.options, stdin=as_bytes(scenario.finished())
        )
        assert done.returncode == 0, done.stderr.decode()
        return {"page": page.read_text()}
