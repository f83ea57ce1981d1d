"""Simulate the lives of clusters under several policies, hail beside them.

``python -m benchmarks.life [--seeds N] [--requests N] [--only SCENARIO,...] [--policies A,B,...]``

Writes the table of ``benchmarks/LIFE.md`` to stdout, and with ``--out FOLDER`` ``life-table.md``,
``life.json`` and ``life.svg`` there.  The same seed gives the same life, whoever decides.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks.life.life import Outcome, live
from benchmarks.life.policies import POLICIES
from benchmarks.life.report import Results, drawn, table
from benchmarks.life.world import SCENARIOS

Job = tuple[str, str, int, int, bool]


def main(arguments: list[str] | None = None) -> int:
    """Run all lives, say what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=4, help="lives of each scenario")
    parser.add_argument("--first", type=int, default=0, help="number of the first life")
    parser.add_argument("--requests", type=int, default=800, help="instances asked for in a life")
    parser.add_argument("--only", default=",".join(SCENARIOS), help="scenarios: A,B,...")
    parser.add_argument("--policies", default=",".join(POLICIES), help="policies: A,B,...")
    parser.add_argument(
        "--mend", action="store_true", help="balance after every failure and repair, too"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="at a time")
    parser.add_argument("--out", type=Path, help="write table, numbers and picture here")
    options = parser.parse_args(arguments)
    jobs: list[Job] = [
        (scenario, policy, seed, options.requests, options.mend)
        for seed in range(options.first, options.first + options.seeds)
        for scenario in options.only.split(",")
        for policy in options.policies.split(",")
    ]
    results = _collected(jobs, options.jobs)
    print(table(results), end="")
    if options.out is not None:
        _write(options.out, results)
    return 0


def _collected(jobs: list[Job], at_a_time: int) -> Results:
    results: Results = {}
    if at_a_time == 1:
        return _sorted(zip(jobs, map(_live, jobs)), results)
    with ProcessPoolExecutor(at_a_time) as pool:
        return _sorted(zip(jobs, pool.map(_live, jobs)), results)


def _sorted(found: Iterable[tuple[Job, Outcome]], results: Results) -> Results:
    for (scenario, policy, seed, *_), outcome in found:
        results.setdefault(scenario, {}).setdefault(policy, []).append(outcome)
        print(f"{scenario} {policy} {seed}: {outcome}", file=sys.stderr, flush=True)
    return results


def _live(job: Job) -> Outcome:
    scenario, policy, seed, requests, mends = job
    return live(SCENARIOS[scenario], POLICIES[policy], seed, requests, mends)


def _write(folder: Path, results: Results) -> None:
    numbers = {
        scenario: {policy: [one._asdict() for one in lives] for policy, lives in by.items()}
        for scenario, by in results.items()
    }
    (folder / "life-table.md").write_text(table(results), encoding="utf-8")
    (folder / "life.json").write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    (folder / "life.svg").write_text(drawn(results), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
