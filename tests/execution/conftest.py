"""Provide fixtures for executions within the test process: own locks, short pauses."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the locks of a test in its own folder, and do not pause."""
    monkeypatch.setattr("iallocator.execution.lock.run_directory", lambda: str(tmp_path / "run"))
    monkeypatch.setattr("iallocator.execution.session.wait", lambda _: None)
    monkeypatch.setattr("iallocator.execution.session.PAUSES", (0, 0))


@pytest.fixture
def quick_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the locks of a test in its own folder, and shorten the waits for nodes that return."""
    monkeypatch.setattr("iallocator.execution.lock.run_directory", lambda: str(tmp_path / "run"))
    monkeypatch.setattr("iallocator.execution.session.PAUSES", (0, 0))
    for name in ("STOP_TEST_INTERVAL", "SHORTEST_QUERY_INTERVAL", "LONGEST_QUERY_INTERVAL"):
        monkeypatch.setattr(f"iallocator.execution.returning.{name}", 0.01)
