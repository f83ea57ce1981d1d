"""Simulate the lives of clusters under several policies, hail beside them.

``python -m benchmarks.life [--seeds N] [--requests N] [--only SCENARIO,...] [--policies A,B,...]``

Writes the table of ``benchmarks/LIFE.md`` to stdout.  With ``--out FOLDER`` every life becomes a
line of ``lives.jsonl`` there as soon as it has ended, and those that are there already are not
lived again: a run that was stopped goes on, and more seeds can be added.  In the end
``life-table.md`` and ``life.svg`` stand beside it.  The same seed gives the same life, whoever
decides.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks.life.life import Outcome, live
from benchmarks.life.policies import POLICIES
from benchmarks.life.records import Job, Records
from benchmarks.life.report import drawn, table
from benchmarks.life.world import SCENARIOS


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
    parser.add_argument("--out", type=Path, help="keep lives, table and picture here")
    options = parser.parse_args(arguments)
    jobs = [
        Job(scenario, policy, seed, options.requests, options.mend)
        for seed in range(options.first, options.first + options.seeds)
        for scenario in options.only.split(",")
        for policy in options.policies.split(",")
    ]
    records = Records(options.out and options.out / "lives.jsonl")
    missing = [job for job in jobs if job not in records]
    for job, outcome in zip(missing, _lived(missing, options.jobs)):
        records.add(job, outcome)
        print(f"{job.scenario} {job.policy} {job.seed}: {outcome}", file=sys.stderr, flush=True)
    results = records.results(jobs)
    print(table(results), end="")
    if options.out is not None:
        (options.out / "life-table.md").write_text(table(results), encoding="utf-8")
        (options.out / "life.svg").write_text(drawn(results), encoding="utf-8")
    return 0


def _lived(jobs: Iterable[Job], at_a_time: int) -> Iterator[Outcome]:
    if at_a_time == 1:
        yield from map(_live, jobs)
        return
    with ProcessPoolExecutor(at_a_time) as pool:
        yield from pool.map(_live, jobs)


def _live(job: Job) -> Outcome:
    return live(SCENARIOS[job.scenario], POLICIES[job.policy], job.seed, job.requests, job.mends)


if __name__ == "__main__":
    sys.exit(main())
