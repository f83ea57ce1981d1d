"""Measure the whole process of a small allocation for several installed plugins.

``python -m benchmarks.startup [--runs N] PLUGIN...`` runs the plugins, a bare interpreter and hail
(if it is installed) alternately, in a new order in each round. The command prints a table in
milliseconds: processor time (user and system) and wall time, median and minimum.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.clusters import Shape, allocate

HAIL = "/usr/lib/ganeti/iallocators/hail"


def main() -> int:
    """Measure all plugins, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("plugins", nargs="+", help="executables that tools/install-plugin wrote")
    parser.add_argument("--runs", type=int, default=200, help="runs of each executable")
    options = parser.parse_args()
    with tempfile.NamedTemporaryFile("w", suffix=".json") as request:
        json.dump(allocate(Shape(5)), request)
        request.flush()
        interpreter = Path(options.plugins[0]).read_text(encoding="utf-8").split()[0][2:]
        commands = {"python -IS -c pass": [interpreter, "-IS", "-c", "pass"]}
        if Path(HAIL).exists():
            commands["hail"] = [HAIL, request.name]
        commands |= {plugin: [plugin, request.name] for plugin in options.plugins}
        times = _alternate(commands, options.runs)
    print("| command | processor, median | minimum | wall, median | minimum |")
    print("|---|---:|---:|---:|---:|")
    for name, runs in times.items():
        columns = [(f(c) * 1e3) for c in zip(*runs) for f in (statistics.median, min)]
        print(f"| {name} |", " | ".join(f"{column:.2f}" for column in columns), "|")
    return 0


def _alternate(commands: dict[str, list[str]], runs: int) -> dict[str, list[tuple[float, float]]]:
    """Run each command `runs` times; return the processor and wall seconds of each run."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    order = list(commands)
    for round_number in range(runs + 1):
        random.shuffle(order)
        for name in order:
            measured = _run(commands[name])
            if round_number:  # the first round fills the caches of the system
                times[name].append(measured)
    return times


def _run(command: list[str]) -> tuple[float, float]:
    silent = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    start = time.perf_counter()
    process = os.posix_spawn(command[0], command, {"PATH": "/usr/bin:/bin"}, file_actions=silent)
    _, status, usage = os.wait4(process, 0)
    wall = time.perf_counter() - start
    if status:
        raise SystemExit(f"{' '.join(command)}: exit status {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime, wall


if __name__ == "__main__":
    sys.exit(main())
