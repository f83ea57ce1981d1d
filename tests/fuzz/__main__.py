"""Run cases number START to START + CASES, and keep those that fail.

`python -m tests.fuzz --cases 20000 -j 2` prints the number of runs and the failures. `... --show
17` prints case number 17. `... --keep DIR` writes the first case of each kind of failure, as a file
for `tests/fuzz/corpus`.
"""

from __future__ import annotations

import argparse
import gc
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from .case import Case, run
from .grammar import cases as grammar
from .make import make
from .oracles import complaints
from .relations import broken_relations

CHUNK, PROGRESS = 200, 2_000
"""Number of cases in a task of a process, and between two lines of progress."""

DAMAGERS: dict[str, Callable[[int], Case]] = {"values": make, "grammar": grammar.make}
"""Name of a damager -> function that returns the case with a number."""


def examine(number: int, damager: str = "values") -> list[str]:
    """Return the errors of case `number` of the damager called `damager`."""
    case = DAMAGERS[damager](number)
    done = run(case)
    return complaints(case, done) or broken_relations(case, done, number)


def _chunk(numbers: range, damager: str) -> list[tuple[int, list[str]]]:
    found = [(number, wrong) for number in numbers if (wrong := examine(number, damager))]
    gc.collect()  # a run of the program does without garbage collection
    return found


def shown(case: Case) -> str:
    """Return the arguments of the case, with long ones shortened."""
    return " ".join(argument[:60] for argument in case.arguments)


def _kind(complaint: str) -> str:
    """Return the category of a failure: its text without numbers and names."""
    return re.sub(r"\d+|'[^']*'|\"[^\"]*\"", "_", complaint)[:100]


def _results(cases: range, damager: str, jobs: int) -> Iterator[list[tuple[int, list[str]]]]:
    chunks = [cases[k : k + CHUNK] for k in range(0, len(cases), CHUNK)]
    check_chunk = partial(_chunk, damager=damager)
    if jobs == 1:
        yield from map(check_chunk, chunks)
        return
    # A spawned process does not import `__main__` of a package again: it would not find `_chunk`.
    with get_context("fork").Pool(jobs, maxtasksperchild=20) as pool:
        yield from pool.imap(check_chunk, chunks)


def main(argv: list[str] | None = None) -> int:
    """Run the cases that the arguments name; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("--damager", choices=DAMAGERS, default="values")
    parser.add_argument("--show", type=int)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args(argv)
    make_case = DAMAGERS[options.damager]
    if options.show is not None:
        case = make_case(options.show)
        print(*case.arguments)
        for raw in case.files.values():
            sys.stdout.buffer.write(raw + b"\n")
        return 0
    kinds: Counter[str] = Counter()
    numbers, count = range(options.start, options.start + options.cases), 0
    for failures in _results(numbers, options.damager, options.jobs):
        for number, wrong in failures:
            kind = _kind(wrong[0])
            kinds[kind] += 1
            if kinds[kind] == 1:
                print(f"case {number}: {shown(make_case(number))}", *wrong, sep="\n  ", flush=True)
                if options.keep:
                    options.keep.mkdir(exist_ok=True)
                    (options.keep / f"{number}.json").write_text(make_case(number).dump())
        count += min(CHUNK, options.cases - count)
        if count % PROGRESS == 0:
            print(f"{count} cases, {sum(kinds.values())} failed", flush=True)
    for kind, times in kinds.most_common():
        print(f"{times:6} {kind}")
    print(f"{options.cases} cases, {sum(kinds.values())} failed")
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main())
