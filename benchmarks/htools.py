"""Compare the programs of htools with this program under their names, in processor time.

``python -m benchmarks.htools EXECUTABLE [--pairs N] [--nodes 5,20,...] [--only hinfo,hbal]`` runs
each program on generated clusters in htools' text format, with 12 instances per node, in turn with
a link of the same name to EXECUTABLE, which `tools/install-plugin` wrote. It prints a table in
milliseconds, medians of both. A ratio above 1 means that the original takes longer.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from shutil import which

from benchmarks.clusters import Shape, as_text, document
from benchmarks.measure import in_turn

ARGUMENTS = {
    "hinfo": (), "hcheck": (), "hroller": ("--force",), "hsqueeze": (),
    "hspace": ("-l", "5"), "hbal": (),
}  # fmt: skip
"""Name of a program -> its arguments beside the file with the cluster."""


def main() -> int:
    """Print a row for each program and cluster, and the rows in which this program is slower."""
    parser = argparse.ArgumentParser(prog="benchmarks.htools", description=__doc__)
    parser.add_argument("executable", type=Path, help="the installed program")
    parser.add_argument("--pairs", type=int, default=7, help="runs of each, in turn")
    parser.add_argument("--nodes", default="5,20,40,100,400", help="sizes of the clusters")
    parser.add_argument("--only", default=",".join(ARGUMENTS), help="names of the programs")
    parser.add_argument("--limit", type=float, default=30, help="seconds that one run may take")
    options = parser.parse_args()
    print("| program | cluster | ours, ms | original, ms | ratio |")
    print("|---|---|---:|---:|---:|")
    slower = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ARGUMENTS.keys() & options.only.split(","):
            (Path(folder) / name).symlink_to(options.executable.resolve())
        for nodes in map(int, options.nodes.split(",")):
            for template in ("drbd", "plain", "rbd"):
                path = Path(folder) / f"{nodes}-{template}"
                path.write_text(as_text(document(Shape(nodes, template))), encoding="utf-8")
                for name in (one for one in ARGUMENTS if one in options.only.split(",")):
                    original = which(name)
                    if original is None:
                        parser.error(f"{name} is not installed")
                    words = [f"-t{path}", *ARGUMENTS[name]]
                    ours, theirs, ratio = in_turn(
                        [f"{folder}/{name}", *words], [original, *words], options.pairs,
                        lambda _: options.limit,
                    )  # fmt: skip
                    row = f"{name}, {nodes} nodes {template}"
                    slower += [row] * (ratio < 1)
                    sign = "> " * theirs.limited
                    print(
                        f"| {' '.join((name, *ARGUMENTS[name]))} | {nodes} nodes {template} "
                        f"| {ours.median * 1e3:.0f} | {sign}{theirs.median * 1e3:.0f} "
                        f"| {sign}{ratio:.2f} |",
                        flush=True,
                    )
    print(f"\nThe original is faster in {len(slower)} rows:", "; ".join(slower))
    return 0


if __name__ == "__main__":
    sys.exit(main())
