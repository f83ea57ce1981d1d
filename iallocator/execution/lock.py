"""One execution at a time on a cluster: a lock on a file in the run directory."""

from __future__ import annotations

import fcntl
import os
import re

from iallocator.errors import UsageError
from iallocator.execution.errors import ExecutionError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["ClusterLock", "run_directory"]


def run_directory() -> str:
    """Where locks are: ``/run/iallocator``; of others than root their own run directory."""
    if os.geteuid() == 0:
        return "/run/iallocator"
    base = os.environ.get("XDG_RUNTIME_DIR")
    return os.path.join(base, "iallocator") if base else f"/tmp/iallocator-{os.geteuid()}"


class ClusterLock:
    """Held while a plan is carried out on the cluster called `name`; the kernel frees it.

    Raises
    ------
    ExecutionError
        On entering, if another process holds it; says which.
    """

    def __init__(self, name: str, directory: str = "") -> None:
        safe = re.sub(r"[^A-Za-z0-9._-]", "_", name) or "cluster"
        self.path = os.path.join(directory or run_directory(), f"{safe}.lock")
        self._handle = -1

    def __enter__(self) -> ClusterLock:
        try:
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
            self._handle = os.open(self.path, flags, 0o600)
        except OSError as error:
            raise UsageError(f"{self.path}: {error.strerror}") from None
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(self._handle, 100).decode("ascii", "replace").strip()
            os.close(self._handle)
            raise ExecutionError(
                f"another execution is under way on this cluster: {holder or 'unknown'} "
                f"(lock {self.path})"
            ) from None
        os.truncate(self._handle, 0)
        os.write(self._handle, f"process {os.getpid()}\n".encode())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._handle)
