"""Simulate the lives of clusters under several policies, and under hail.

A life is one simulation: a series of events, answered by one policy. The table of
benchmarks/LIFE.md is written to stdout. With ``--out FOLDER``, each life is stored as a line of
lives.jsonl in the folder when it has ended. Stored lives are not simulated again, so a stopped run
can be continued, and seeds can be added. At the end, life-table.md and life.svg are written to the
folder. Equal seeds have equal events under every policy.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from benchmarks.life.life import Outcome, live
from benchmarks.life.policies import POLICIES
from benchmarks.life.records import Job, Records
from benchmarks.life.report import drawn, table
from benchmarks.life.simulated_cluster import SCENARIOS


def main(arguments: list[str] | None = None) -> int:
    """Simulate all lives, and write the results."""
    options = _parser().parse_args(arguments)
    jobs = [
        Job(scenario, policy, seed, options.requests, options.mend)
        for seed in range(options.first, options.first + options.seeds)
        for scenario in options.only
        for policy in options.policies
    ]
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
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


def _parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.life",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    number = partial(_whole, least=1)
    parser.add_argument(
        "--seeds", type=number, default=4, metavar="N", help="lives of each scenario (4)"
    )
    parser.add_argument(
        "--first", type=_whole, default=0, metavar="N", help="number of the first life (0)"
    )
    parser.add_argument(
        "--requests", type=number, default=800, metavar="N",
        help="instances asked for in a life (800)",
    )  # fmt: skip
    for option, known in (("--only", SCENARIOS), ("--policies", POLICIES)):
        parser.add_argument(
            option, type=partial(_some_of, known), default=list(known), metavar="A,B,...",
            help=f"only these: {', '.join(known)} (all)",
        )  # fmt: skip
    parser.add_argument(
        "--mend", action="store_true", help="balance after every failure and repair, too"
    )
    cores = os.cpu_count() or 1
    parser.add_argument(
        "--jobs", type=number, default=cores, metavar="N", help=f"at a time (cores: {cores})"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER",
        help="keep lives, table and picture here; it is made if there is none",
    )  # fmt: skip
    return parser


def _whole(word: str, least: int = 0) -> int:
    """Parse a whole number of at least `least`."""
    if not word.isdecimal() or int(word) < least:
        raise argparse.ArgumentTypeError(f"{word!r} is no whole number from {least} on")
    return int(word)


def _some_of(known: Collection[str], words: str) -> list[str]:
    """Return the names of `known` in a comma-separated list, each once."""
    names = list(dict.fromkeys(words.split(",")))
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
    return names


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
