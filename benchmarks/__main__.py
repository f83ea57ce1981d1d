"""Measure all cases side by side with hail, hbal, hspace, hsqueeze, hcheck or hroller.

``python -m benchmarks [--pairs N] [--only TEXT;...]`` writes ``benchmarks/RESULTS.md``,
``results.json`` and ``nodes.svg``.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.cases import CASES, Case
from benchmarks.clusters import as_text
from benchmarks.measure import ENOUGH, Measured, in_turn, run
from benchmarks.plot import draw
from benchmarks.profile import stages

HERE = Path(__file__).parent
HAIL = "/usr/lib/ganeti/iallocators/hail"


def main() -> int:
    """Measure the cases, and write the table, the numbers and the plot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plugin", default="iallocator", help="the executable to measure")
    parser.add_argument("--pairs", type=int, default=5, help="runs of each, in turn")
    parser.add_argument(
        "--limit", type=float, default=60, help="seconds of processor time that one run may take"
    )
    parser.add_argument("--only", default="", help="only cases named like one of these: A;B;...")
    parser.add_argument("--stages", action="store_true", help="only profile, keep the times")
    parser.add_argument("--peerless", action="store_true", help="run no peer, keep its times")
    options = parser.parse_args()
    if options.stages:
        return _write(_profiled())
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), options)
        for case in CASES:
            if any(text in case.name for text in options.only.split(";")):
                rows.append(bench.measure(case))
                print(_line(rows[-1]), flush=True)
    if options.only:
        rows = _merged(rows)
    return _write(rows)


def _write(rows: list[dict[str, Any]]) -> int:
    (HERE / "results.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    (HERE / "RESULTS.md").write_text(_table(rows), encoding="utf-8")
    (HERE / "nodes.svg").write_text(draw(rows), encoding="utf-8")
    return 0


def _profiled() -> list[dict[str, Any]]:
    """Return the stored rows, with the times of their stages measured again."""
    documents = {case.name: case.document for case in CASES}
    stored = json.loads((HERE / "results.json").read_text(encoding="utf-8"))
    rows = [row for row in stored if row["name"] in documents]
    for row in rows:
        if "stages_ms" in row:
            row["stages_ms"] = stages(json.dumps(documents[row["name"]]()).encode())
    return rows


def _merged(new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the stored rows in the order of the cases, with rows of `new` in place of old ones."""
    stored = json.loads((HERE / "results.json").read_text(encoding="utf-8"))
    by_name = {row["name"]: row for row in stored}
    for row in new:
        kept = {k: v for k, v in by_name.get(row["name"], {}).items() if k.startswith("hail_")}
        merged = by_name[row["name"]] = kept | row
        if "ratio" not in row and "hail_ms" in merged:
            merged["ratio"] = round(merged["hail_ms"] / merged["ours_ms"], 2)
    return [by_name[case.name] for case in CASES if case.name in by_name]


class Bench:
    """Measures cases; after a timeout, a peer program is not run on larger clusters of a curve."""

    def __init__(self, folder: Path, options: Any) -> None:
        self.folder = folder
        self.options = options
        self.stopped: dict[tuple[str, str], int] = {}
        """Work and disk template -> number of nodes at which the peer program was stopped."""
        self.warm: set[str] = set()
        """Commands of this program that have already run once."""

    def measure(self, case: Case) -> dict[str, Any]:
        """Measure a case, and return its row of the table."""
        path = input_file(case, self.folder)
        ours, theirs = [self.options.plugin, str(path)], [HAIL, str(path)]
        if case.ours:
            ours = [self.options.plugin, *case.ours, *words_of_input(case, path)]
            theirs = [*case.peer, *words_of_input(case, path)]
        alone = self._alone(case)
        self._warm_up(ours, (case.ours or ("",))[0])
        mine, peer, ratio = in_turn(
            ours, [] if alone else theirs, self.options.pairs, lambda t: self._limit(case, t)
        )
        row = {
            "name": case.name,
            "ours_ms": round(mine.median * 1e3, 1),
            "ours_mib": round(mine.peak_mib),
            "ours_runs": len(mine.seconds),
            "target": case.target,
            "limit_ms": case.seconds * 1e3,
            "nodes": case.nodes,
            "template": case.template,
            "work": case.work,
            "ours_stopped": mine.limited,
            "pairs": min(len(mine.seconds), len(peer.seconds)),
        }
        if not case.ours:
            row["stages_ms"] = stages(path.read_bytes())
        if not alone:
            row |= {
                "hail_ms": round(peer.median * 1e3, 1),
                "hail_mib": round(peer.peak_mib),
                "hail_stopped": peer.limited,
                "ratio": round(ratio, 2),
            }
            if peer.limited and case.work:
                self.stopped[case.work, case.template] = case.nodes
        return row

    def _alone(self, case: Case) -> bool:
        """Return whether only this program runs: there is no peer, or it would be stopped."""
        if self.options.peerless or not (case.peer if case.ours else case.seconds < 1):
            return True
        stopped = self.stopped.get((case.work, case.template), case.nodes)
        return not case.target and case.nodes > stopped

    def _limit(self, case: Case, took: float) -> float:
        """Return the time limit of a run in seconds; `took`: the seconds of this program, or 0.

        A peer program that reaches the limit has proved the target of the case.
        """
        limit = float(self.options.limit)
        return max(limit / 2, 1.1 * case.target * took) if case.target and took else limit

    def _warm_up(self, ours: list[str], command: str) -> None:
        """Run a command once if it is new, so that its modules are in the file cache."""
        if command not in self.warm:
            self.warm.add(command)
            run(ours, Measured(), float(self.options.limit))


def input_file(case: Case, folder: Path) -> Path:
    """Write the input of `case` into `folder`, and return its path.

    A separate process writes it, to keep its memory apart.
    """
    path = folder / ("cluster.data" if case.from_text else "request.json")
    child = get_context("fork").Process(target=_write_input, args=(case, path))
    child.start()
    child.join()
    if child.exitcode:
        raise SystemExit(f"{case.name}: no input")
    return path


def _write_input(case: Case, path: Path) -> None:
    whole = case.document()
    path.write_text(as_text(whole) if case.from_text else json.dumps(whole), encoding="utf-8")


def words_of_input(case: Case, path: Path) -> tuple[str, ...]:
    """Return the arguments that name the input of `case`."""
    return ("-t", str(path)) if case.from_text else (str(path),)


def _line(row: dict[str, Any]) -> str:
    return (
        f"{row['name']:62} ours {row['ours_ms']:9.1f} ms {row['ours_mib']:5} MiB   "
        f"peer {row.get('hail_ms', 0):10.1f} ms   ratio {row.get('ratio', 0):8.2f}"
    )


def _table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "# Processor time compared with htools",
        "",
        "Both programs run in turn as whole processes on one machine. The table shows medians of",
        "processor time, and the median of the ratios of the pairs. `make bench` measures again.",
        "Options have their defaults. There are 12 instances per node, with free capacity unless",
        "the row says otherwise. A ratio of 10 means that the peer takes ten times as long. The",
        "peer is hail for requests; for planners it is hbal, hspace, hsqueeze, hcheck or hroller.",
        "`nodes.svg` has the curves.",
        "",
        "The column `pairs` has the number of pairs, and of further runs of ours; `apart`: ours",
        "was measured again without the peer. A program is not run again if its runs would take",
        f"more than {ENOUGH:.0f} s in total. A run is stopped after `--limit` seconds. In rows",
        "with a goal (`wanted`), a run of the peer is stopped after half of that, but not before",
        "the result of the goal is known. A stopped run has a `>`; it is not repeated, and larger",
        "clusters of its curve are not measured.",
        "",
        "| work | ours, ms | ours, MiB | peer, ms | peer, MiB | ratio | pairs | wanted |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        more = "> " if row.get("hail_stopped") else ""
        late = "> " if row.get("ours_stopped") else ""
        clock = "" if "work" in row else " (by the clock)"
        wanted = f"{row['target']:.3g}" if row["target"] else ""
        if row["limit_ms"]:
            wanted = f"< {row['limit_ms']:.0f} ms"
        hail = f"{more}{row['hail_ms']:.0f}" if "hail_ms" in row else ""
        ratio = f"{more}{row['ratio']:.3g}" if "ratio" in row else ""
        lines.append(
            f"| {row['name']}{clock} | {late}{row['ours_ms']:.0f} | {row['ours_mib']} | {hail} "
            f"| {row.get('hail_mib', '')} | {ratio} "
            f"| {_pairs(row)} | {wanted} |"
        )
    lines += ["", "## Where our time goes, ms", "", _stage_table(rows), ""]
    return "\n".join(lines)


def _pairs(row: dict[str, Any]) -> str:
    """Return how often both programs of a row of the table were run, as text.

    If this program was run more often than the pairs, its number of runs is included.
    """
    pairs, runs = row.get("pairs", 0), row.get("ours_runs", 0)
    if not pairs:
        return "apart" if "hail_ms" in row and runs else f"{runs} alone" * (runs > 0)
    return f"{pairs} of {runs}" if runs > pairs else f"{pairs}"


def _stage_table(rows: list[dict[str, Any]]) -> str:
    rows = [row for row in rows if "stages_ms" in row]
    if not rows:
        return ""
    names = list(rows[0]["stages_ms"])
    lines = [f"| work | {' | '.join(names)} |", "|---|" + "---:|" * len(names)]
    lines += [
        f"| {row['name']} | " + " | ".join(f"{row['stages_ms'][n]:.1f}" for n in names) + " |"
        for row in rows
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
