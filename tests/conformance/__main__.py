"""Compare with hail over many seeds, or measure hail.

`python -m tests.conformance --seeds 5000 -j 2` compares, and exits with 1 if an answer differs.
`... --kind relocate --stats` counts hail's answers and reasons. `... --kind allocate --dump 17`
prints document number 17.
"""

from __future__ import annotations

import argparse
import json
import os
import sys

from .documents import ALIKE, CROWDED, EXHAUSTED, KINDS, ODD, document
from .oracle import PROGRAMS, installed
from .runner import MODES, Case, Summary, ours, run, theirs
from .statistics import measure

SHOWN = 5


def main(argv: list[str] | None = None) -> int:
    """Run the comparison; return the exit status."""
    options = _parser().parse_args(argv)
    if options.dump is not None:
        json.dump(document(options.dump, options.kind[0]), sys.stdout, indent=1)
        print()
        return 0
    if options.programs:
        os.environ[PROGRAMS] = options.programs
    if not installed():
        print("hail is not installed", file=sys.stderr)
        return 2
    seeds = range(options.start, options.start + options.seeds)
    if options.stats:
        for kind in options.kind:
            print(measure(seeds, kind))
        return 0
    cases = [Case(seed, kind, options.mode) for kind in options.kind for seed in seeds]
    summary = run(cases, theirs if options.self_test else ours, options.jobs)
    print(report(summary))
    return 1 if summary.different else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", type=int, default=300, help="how many documents of each kind")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument(
        "--kind",
        choices=KINDS + EXHAUSTED + ALIKE + CROWDED + ODD,
        nargs="+",
        default=[*KINDS, *EXHAUSTED, *ALIKE, *CROWDED, *ODD],
    )
    parser.add_argument("--mode", choices=MODES, default="hail", help="how both sides are asked")
    parser.add_argument("--programs", default="", help="a folder with the hail of another release")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="processes")
    parser.add_argument("--dump", type=int, metavar="SEED", help="print one document, run nothing")
    parser.add_argument("--stats", action="store_true", help="measure hail's answers only")
    parser.add_argument("--self-test", action="store_true", help="compare hail with itself")
    return parser


def report(summary: Summary) -> str:
    """Return the number of each result, and the first differences in full."""
    left_out = sum(summary.left_out.values())
    compared = summary.equal + len(summary.different)
    counts = f"{summary.equal} equal, {len(summary.different)} different"
    lines = [f"{compared} documents compared: {counts}; {left_out} left out"]
    lines += [f"  left out: {count} {why}" for why, count in summary.left_out.most_common()]
    for case, differences in summary.different[:SHOWN]:
        lines += [f"{case.reproduce}", *(f"  {line}" for line in differences)]
    if len(summary.different) > SHOWN:
        seeds = ", ".join(str(case.seed) for case, _ in summary.different[SHOWN : SHOWN + 40])
        lines.append(f"and seeds {seeds}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
