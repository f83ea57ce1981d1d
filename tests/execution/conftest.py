"""Provide a fixture for executions within the test process: own locks, no pauses."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the locks of a test in its own folder, and do not pause."""
    monkeypatch.setattr("iallocator.execution.lock.run_directory", lambda: str(tmp_path / "run"))
    monkeypatch.setattr("iallocator.execution.session.wait", lambda _: None)
    monkeypatch.setattr("iallocator.execution.session.PAUSES", (0, 0))
