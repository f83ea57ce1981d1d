"""Timing whole processes: two commands in turn, so that a drifting machine hits both.

What counts is processor time: the wall clock says more of who else is at work.
"""

from __future__ import annotations

import os
import statistics
import subprocess
from collections.abc import Sequence

__all__ = ["Measured", "in_turn", "run"]


class Measured:
    """Processor seconds and peak memory of the runs of one command.

    ``limited``: a run was ended at the time limit; the times are lower bounds then.
    """

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.peak_mib = 0.0
        self.limited = False

    @property
    def median(self) -> float:
        """Median processor seconds."""
        return statistics.median(self.seconds)


def in_turn(
    ours: Sequence[str], theirs: Sequence[str], pairs: int, limit: float
) -> tuple[Measured, Measured, float]:
    """Run both commands `pairs` times in turn, several times after a warm-up of ours.

    Returns both measurements and the median of the ratios theirs/ours, pair by pair.
    A command that reaches `limit` seconds is not run again; its time stands for all.
    """
    mine, peer = Measured(), Measured()
    if pairs > 1:
        run(ours, Measured(), limit)
    ratios = []
    for _ in range(pairs):
        run(ours, mine, limit)
        if not peer.limited and not (peer.seconds and peer.seconds[-1] > limit / 3):
            run(theirs, peer, limit)
        ratios.append(peer.seconds[-1] / mine.seconds[-1])
    return mine, peer, statistics.median(ratios)


def run(command: Sequence[str], into: Measured, limit: float) -> None:
    """Run a command with `limit` seconds of processor time."""
    with subprocess.Popen(
        ["prlimit", f"--cpu={max(1, int(limit))}", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin"},
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    into.limited |= process.returncode < 0
    into.seconds.append(usage.ru_utime + usage.ru_stime)
    into.peak_mib = max(into.peak_mib, usage.ru_maxrss / 1024)
