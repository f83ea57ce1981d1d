"""Lock a cluster, so that only one execution at a time runs on it.

The lock is on a file in the run directory. It is only reliable if no other user can change the
directory. Therefore a directory of another user, or a link, is rejected, and a directory that
others can enter is closed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from contextlib import suppress

from iallocator.errors import UsageError
from iallocator.execution.jobs import ExecutionError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["ClusterLock", "run_directory"]


def run_directory() -> str:
    """Return the directory of the locks: ``/run/iallocator`` for root.

    For other users, it is in their own run directory, or in ``/tmp`` if they have none.
    """
    user = os.geteuid()
    if user == 0:
        return "/run/iallocator"
    base = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{user}"
    try:
        own = os.path.isabs(base) and os.stat(base).st_uid == user
    except OSError:
        own = False
    return os.path.join(base, "iallocator") if own else f"/tmp/iallocator-{user}"


class ClusterLock:
    """The lock of an execution on the cluster `name`; the kernel releases it at exit.

    Raises
    ------
    ExecutionError
        On entering the block, if another process holds the lock; the message names the process.
    UsageError
        On entering the block, if the directory or the file belongs to another user.
    """

    def __init__(self, name: str, directory: str = "") -> None:
        safe = re.sub(r"[^A-Za-z0-9._-]", "_", name) or "cluster"
        self.path = os.path.join(directory or run_directory(), f"{safe}.lock")
        self._handle = -1

    def __enter__(self) -> ClusterLock:
        try:
            directory = _own_directory(os.path.dirname(self.path))
            try:
                self._take(directory)
            finally:
                os.close(directory)
        except OSError as error:
            raise UsageError(f"{self.path}: {error.strerror}") from None
        os.truncate(self._handle, 0)
        os.pwrite(self._handle, f"process {os.getpid()}\n".encode(), 0)
        return self

    def _take(self, directory: int) -> None:
        """Open the file and lock it; repeat both if it was removed before it was locked."""
        name = os.path.basename(self.path)
        while True:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            self._handle = os.open(name, flags, 0o600, dir_fd=directory)
            opened = os.fstat(self._handle)
            if not stat.S_ISREG(opened.st_mode) or opened.st_uid != os.geteuid():
                os.close(self._handle)
                raise UsageError(f"{self.path}: expected a file of this user's own: remove it")
            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                holder = os.read(self._handle, 100).decode("ascii", "replace").strip()
                os.close(self._handle)
                raise ExecutionError(
                    f"another execution is under way on this cluster: {holder or 'unknown'} "
                    f"(lock {self.path})"
                ) from None
            try:
                there = os.stat(name, dir_fd=directory, follow_symlinks=False)
            except FileNotFoundError:
                there = None
            if there is not None and os.path.samestat(there, opened):
                return
            os.close(self._handle)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._handle)


def _own_directory(path: str) -> int:
    """Return a descriptor of the directory `path`; create it with mode 0700 if it is missing.

    Raises
    ------
    UsageError
        If `path` belongs to another user, or is not a directory.
    """
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        raise UsageError(
            f"{path}: expected a directory for locks, not a link or a file: remove it"
        ) from None
    status = os.fstat(handle)
    if status.st_uid != os.geteuid():
        os.close(handle)
        raise UsageError(
            f"{path}: the directory for locks belongs to user {status.st_uid}, and its owner can "
            f"remove locks: remove it, or set XDG_RUNTIME_DIR to a directory of your own"
        )
    if stat.S_IMODE(status.st_mode) != 0o700:
        os.fchmod(handle, 0o700)
    return handle
