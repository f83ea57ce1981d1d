"""Steps of a plan that are done by hand: whether somebody says that they have been."""

from __future__ import annotations

import sys

from iallocator.deadline import Deadline
from iallocator.execution.jobs import describe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.execution.jobs import Job
    from iallocator.execution.records import Records

__all__ = ["Confirmation"]


class Confirmation:
    """Whether something has been done by hand: as the options say, or the person at the terminal.

    Each is asked for once.  The options speak of what was to be done when it was resumed.
    """

    def __init__(self, records: Records, done: bool) -> None:
        due = [job for job in records.jobs.values() if job.by_hand and records.free(job)]
        self._said = {job.number: True for job in due} if done else {}

    def __call__(self, job: Job) -> bool:
        if job.number not in self._said:
            self._said[job.number] = self._asked(job)
        return self._said[job.number]

    @staticmethod
    def _asked(job: Job) -> bool:
        if not (sys.stdin and sys.stdin.isatty() and sys.stderr and sys.stderr.isatty()):
            return False
        print(f"by hand: {describe(job)}. Has it been done? [y/N] ", end="", file=sys.stderr)
        sys.stderr.flush()
        if not Deadline(None).wait_or_signal(sys.stdin.fileno()):
            return False
        return sys.stdin.readline().strip().lower() in ("y", "yes")
