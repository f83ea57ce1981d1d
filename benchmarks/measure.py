"""Time whole processes: two commands alternate, so that a drifting machine affects both.

Processor time is measured, because wall time depends on other load of the machine.
"""

from __future__ import annotations

import os
import statistics
import subprocess
from collections.abc import Callable, Sequence

__all__ = ["ENOUGH", "Measured", "in_turn", "run"]


class Measured:
    """Processor seconds and peak memory of the runs of one command.

    ``statuses``: the exit statuses of its runs. ``limited``: a run was stopped at the time limit,
    so the times are lower bounds. ``rejected``: a run ended with exit status 2, so nothing was
    measured.
    """

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.peak_mib = 0.0
        self.statuses: set[int] = set()
        self.limited = False
        self.rejected = False

    @property
    def median(self) -> float:
        """Return the median of the processor seconds."""
        return statistics.median(self.seconds)

    @property
    def again(self) -> bool:
        """Return whether another run is useful: no run was stopped, and all together took little
        time.
        """
        if not self.seconds:
            return True
        return not self.limited and sum(self.seconds) + self.seconds[-1] <= ENOUGH


ENOUGH = 12.0
"""Processor seconds of all runs of one command but the first, after which no further run begins."""


def in_turn(
    ours: Sequence[str], theirs: Sequence[str], pairs: int, limits: Callable[[float], float]
) -> tuple[Measured, Measured, float]:
    """Run the commands `ours` and `theirs` alternately, `pairs` times or less often if slow.

    `limits` returns how many seconds a run may take: for 0, a run of `ours`; for the seconds of
    that run, a run of `theirs`. If `theirs` is empty, only `ours` runs. Return both measurements
    and the median of the ratios theirs/ours, pair by pair (0 without any).
    """
    mine, peer = Measured(), Measured()
    for _ in range(pairs):
        if mine.again:
            run(ours, mine, limits(0))
        if theirs and peer.again and len(peer.seconds) < len(mine.seconds):
            run(theirs, peer, limits(mine.seconds[0]))
    ratios = [b / a for a, b in zip(mine.seconds, peer.seconds)]
    return mine, peer, statistics.median(ratios or [0])


def run(command: Sequence[str], into: Measured, limit: float) -> None:
    """Run a command for at most `limit` seconds of processor time; add its results to `into`."""
    with subprocess.Popen(
        ["prlimit", f"--cpu={max(1, int(limit))}", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin"},
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    into.statuses.add(process.returncode)
    into.limited |= process.returncode < 0
    into.rejected |= process.returncode == 2
    into.seconds.append(usage.ru_utime + usage.ru_stime)
    into.peak_mib = max(into.peak_mib, usage.ru_maxrss / 1024)
