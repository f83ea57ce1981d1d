"""Test that no other user can hold or remove the lock of an execution."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iallocator.cli import main
from iallocator.execution.jobs import ExecutionError
from iallocator.execution.lock import ClusterLock, run_directory
from tests.aliases import Capture

from .running import running

OTHER = 65534
"""ID of a user that is not root."""


def _rejected(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that -X with its lock in `folder` is rejected and submits no job."""
    monkeypatch.setattr("iallocator.execution.lock.run_directory", lambda: str(folder))
    with running(tmp_path) as scenario:
        words = ["balance", f"-L{scenario.path}", "-X", "--journal", str(tmp_path / "journal")]
        assert main(words) == 2
        assert not scenario.submitted


def test_link_for_the_directory_of_locks_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """A directory for locks that is a symbolic link is rejected."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "elsewhere")
    _rejected(tmp_path, tmp_path / "run", monkeypatch)
    assert "expected a directory for locks, not a link or a file" in capsys.readouterr().err
    assert not list((tmp_path / "elsewhere").iterdir())


def test_link_for_the_lock_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """A lock that is a symbolic link is rejected, and its target is not touched."""
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "cluster.example.com.lock").symlink_to(tmp_path / "precious")
    _rejected(tmp_path, tmp_path / "run", monkeypatch)
    assert (tmp_path / "precious").read_text() == "precious"
    assert capsys.readouterr().err.count("cluster.example.com.lock: ") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_directory_of_another_user_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """A directory for locks that belongs to another user is rejected."""
    (tmp_path / "run").mkdir()
    os.chown(tmp_path / "run", OTHER, OTHER)
    _rejected(tmp_path, tmp_path / "run", monkeypatch)
    assert f"belongs to user {OTHER}" in capsys.readouterr().err


def test_directory_that_others_can_enter_is_closed(tmp_path: Path) -> None:
    """A directory for locks gets the mode 0700 if other users could enter it."""
    (tmp_path / "run").mkdir(mode=0o777)
    (tmp_path / "run").chmod(0o777)
    with ClusterLock("c", str(tmp_path / "run")):
        assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700


def test_removed_lock_is_created_again(tmp_path: Path) -> None:
    """If the file of a held lock is removed, a new lock can be taken, and excludes others."""
    lock = ClusterLock("c", str(tmp_path / "run"))
    with lock:
        os.unlink(lock.path)
        second, third = (ClusterLock("c", str(tmp_path / "run")) for _ in range(2))
        with second, pytest.raises(ExecutionError, match="process"):
            third.__enter__()


def test_directory_of_locks_follows_the_environment_only_where_it_is_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """$XDG_RUNTIME_DIR is used for locks only if it belongs to the effective user.

    After ``su``, the variable may still name the directory of another user.
    """
    user = OTHER if os.geteuid() == 0 else os.geteuid()
    monkeypatch.setattr("iallocator.execution.lock.os.geteuid", lambda: user)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    if os.getuid() == 0:
        assert run_directory() == f"/tmp/iallocator-{user}"
        os.chown(tmp_path, user, user)
    assert run_directory() == str(tmp_path / "iallocator")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "relative")
    assert run_directory() == f"/tmp/iallocator-{user}"
