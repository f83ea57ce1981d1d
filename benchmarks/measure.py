"""Timing whole processes: two commands in turn, so that a drifting machine hits both."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import time
from collections.abc import Sequence

__all__ = ["Measured", "in_turn"]


class Measured:
    """Wall seconds and peak memory of the runs of one command.

    ``limited``: a run was ended at the time limit; the times are lower bounds then.
    """

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.peak_mib = 0.0
        self.limited = False

    @property
    def median(self) -> float:
        """Median wall seconds."""
        return statistics.median(self.seconds)


def in_turn(
    ours: Sequence[str], theirs: Sequence[str], pairs: int, limit: float
) -> tuple[Measured, Measured, float]:
    """Run both commands `pairs` times in turn after a warm-up of ours.

    Returns both measurements and the median of the ratios theirs/ours, pair by pair.
    A command that reaches `limit` seconds is not run again; its time stands for all.
    """
    mine, peer = Measured(), Measured()
    _run(ours, Measured(), limit)
    ratios = []
    for _ in range(pairs):
        _run(ours, mine, limit)
        if not peer.limited and not (peer.seconds and peer.seconds[-1] > limit / 3):
            _run(theirs, peer, limit)
        ratios.append(peer.seconds[-1] / mine.seconds[-1])
    return mine, peer, statistics.median(ratios)


def _run(command: Sequence[str], into: Measured, limit: float) -> None:
    start = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={"PATH": "/usr/bin:/bin"}
    ) as process:
        timer_end = start + limit
        while True:
            done, _, usage = os.wait4(process.pid, os.WNOHANG)
            if done:
                process.returncode = 0
                break
            if time.perf_counter() > timer_end:
                process.send_signal(signal.SIGKILL)
                _, _, usage = os.wait4(process.pid, 0)
                process.returncode = -signal.SIGKILL
                into.limited = True
                break
            time.sleep(0.0005)
    into.seconds.append(time.perf_counter() - start)
    into.peak_mib = max(into.peak_mib, usage.ru_maxrss / 1024)
