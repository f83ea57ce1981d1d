"""Measure two checkouts side by side, with the cases of ``benchmarks/RESULTS.md``.

``python -m benchmarks.versions OTHER [--pairs N] [--limit SECONDS] [--only TEXT;...]`` runs each
case with the checkout in which this program lies and with the one in the folder OTHER, in turn. It
prints processor time, peak memory and the median of the ratios, pair by pair. Both checkouts run
with the libraries of this one. A ratio above 1 means that this checkout is slower.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.__main__ import input_file, words_of_input
from benchmarks.cases import CASES
from benchmarks.measure import in_turn

HERE = Path(__file__).resolve().parents[1]

CHILD = "import sys; sys.path.insert(0, {root!r}); from iallocator.process import run; run()"

SLOWER, LARGER = 1.10, 1.10
"""Ratios of time and of memory above which a row is marked."""

NOTICEABLE = 0.005
"""Seconds of difference below which no row is marked, as starting Python varies as much."""


def main() -> int:
    """Print a row for each case, and the cases that are slower or need more memory."""
    parser = argparse.ArgumentParser(prog="benchmarks.versions", description=__doc__)
    parser.add_argument("other", type=Path, help="folder of the other checkout")
    parser.add_argument("--pairs", type=int, default=3, help="runs of each, in turn")
    parser.add_argument(
        "--limit", type=float, default=60, help="seconds of processor time that one run may take"
    )
    parser.add_argument("--only", default="", help="only cases named like one of these: A;B;...")
    options = parser.parse_args()
    if not (options.other / "iallocator").is_dir():
        parser.error(f"{options.other}: no checkout: it has no folder iallocator")
    python = [sys.executable, "-I", "-c"]
    sides = [[*python, CHILD.format(root=str(root.resolve()))] for root in (HERE, options.other)]
    print("| work | this, ms | other, ms | ratio | this, MiB | other, MiB | |")
    print("|---|---:|---:|---:|---:|---:|---|")
    marked, ratios = 0, []
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            if not any(text in case.name for text in options.only.split(";")):
                continue
            words = [*case.ours, *words_of_input(case, input_file(case, Path(folder)))]
            this, other, inverse = in_turn(
                [*sides[0], *words], [*sides[1], *words], options.pairs, lambda _: options.limit
            )
            ratio = 1 / inverse if inverse else 0.0
            ratios.append(ratio)
            slower = ratio > SLOWER and this.median - other.median > NOTICEABLE
            larger = this.peak_mib > LARGER * other.peak_mib
            marked += slower or larger
            note = " and ".join(["slower"] * slower + ["more memory"] * larger)
            print(
                f"| {case.name} | {this.median * 1e3:.0f} | {other.median * 1e3:.0f} "
                f"| {ratio:.2f} | {this.peak_mib:.0f} | {other.peak_mib:.0f} | {note} |",
                flush=True,
            )
    if ratios:
        print(
            f"\n{len(ratios)} cases, median ratio {statistics.median(ratios):.2f}, {marked} marked"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
