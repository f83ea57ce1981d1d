"""Compare the programs of htools with this program under their names, in processor time.

``python -m benchmarks.htools EXECUTABLE [--pairs N] [--nodes 5,20,...] [--only hinfo,hbal]
[--write]`` runs each program on generated clusters in htools' text format, with 12 instances per
node, in turn with a link of the same name to EXECUTABLE, which `tools/install-plugin` wrote. It
prints a table with the medians of both, or writes it to ``benchmarks/HTOOLS.md``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from shutil import which

from benchmarks.clusters import Shape, as_text, document
from benchmarks.measure import Measured, in_turn

ARGUMENTS = {
    "hinfo": (), "hcheck": (), "hroller": ("--force",), "hsqueeze": (),
    "hspace": ("-l", "5"), "hbal": (),
}  # fmt: skip
"""Name of a program -> its arguments beside the file with the cluster."""

TEMPLATES = ("drbd", "plain", "rbd")
"""The disk templates of the instances."""


def main() -> int:
    """Print or write a row for each program and kind of instances, with a column for each size."""
    parser = argparse.ArgumentParser(prog="benchmarks.htools", description=__doc__)
    parser.add_argument("executable", type=Path, help="the installed program")
    parser.add_argument("--pairs", type=int, default=7, help="runs of each, in turn")
    parser.add_argument("--nodes", default="5,20,40,100,400", help="sizes of the clusters")
    parser.add_argument("--only", default=",".join(ARGUMENTS), help="names of the programs")
    parser.add_argument("--limit", type=float, default=30, help="seconds that one run may take")
    parser.add_argument("--write", action="store_true", help="write benchmarks/HTOOLS.md")
    options = parser.parse_args()
    sizes = [int(text) for text in options.nodes.split(",")]
    names = [name for name in ARGUMENTS if name in options.only.split(",")]
    for name in names:
        if which(name) is None:
            parser.error(f"{name} is not installed")
    lines = [
        "# The programs of htools by name",
        "",
        "Processor time of the programs of htools, under links with their names and as Debian has",
        "them, in milliseconds: ours / the original, with the start of the process. The figures",
        f"are medians of up to {options.pairs} runs in turn. The clusters have 12 instances per",
        "node. Bold: the original takes at least as long. `>`: a run was stopped after",
        f"{options.limit:g} s. Made by `python -m benchmarks.htools EXECUTABLE --write`.",
        "",
        f"| program | instances | {' | '.join(f'{size} nodes' for size in sizes)} |",
        f"|---|---|{'---:|' * len(sizes)}",
    ]
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            (Path(folder) / name).symlink_to(options.executable.resolve())
            for template in TEMPLATES:
                cells = []
                for size in sizes:
                    path = Path(folder) / f"{size}-{template}"
                    path.write_text(as_text(document(Shape(size, template))), encoding="utf-8")
                    words = [f"-t{path}", *ARGUMENTS[name]]
                    ours, theirs, ratio = in_turn(
                        [f"{folder}/{name}", *words], [which(name) or name, *words],
                        options.pairs, lambda _: options.limit,
                    )  # fmt: skip
                    cell = f"{_milliseconds(ours)} / {_milliseconds(theirs)}"
                    cells.append(f"**{cell}**" if ratio >= 1 and not ours.limited else cell)
                    print(f"{name} {size} {template}: {cell}", file=sys.stderr, flush=True)
                title = " ".join((name, *ARGUMENTS[name]))
                lines.append(f"| `{title}` | {template} | {' | '.join(cells)} |")
    text = "\n".join([*lines, ""])
    if options.write:
        Path(__file__).with_name("HTOOLS.md").write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 0


def _milliseconds(measured: Measured) -> str:
    return f"{'> ' * measured.limited}{measured.median * 1e3:.0f}"


if __name__ == "__main__":
    sys.exit(main())
