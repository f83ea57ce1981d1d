"""Compare two solvers for the exact search, HiGHS and CP-SAT, on equal problems.

`python -m benchmarks.solvers` needs both packages (``highspy``, ``ortools``); each runs in a
process of its own, because they cannot be loaded together. Medians over the problems of each size
are measured: seconds to the first answer, and seconds to the proof that there is none. For each
package, the size on disk with its dependencies and the seconds to import it are measured. The
result is ``benchmarks/SOLVERS.md``.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from iallocator.deadline import Deadline
from iallocator.solver import highs
from iallocator.solver.problem import FOUND, IMPOSSIBLE, Choice, Kind, Problem

REPORT = Path(__file__).with_name("SOLVERS.md")
SIZES = ((5, 10), (10, 30), (20, 60), (40, 120))
"""Numbers of nodes and instances of the problems."""

PER_SIZE = 12
LIMIT = 30.0
PACKAGES = {"HiGHS": ("highspy", "highspy"), "CP-SAT": ("ortools", "ortools.sat.python.cp_model")}


def problem(nodes: int, instances: int, seed: int) -> Problem:
    """Return a batch of instances that needs nearly all free capacity of the nodes."""
    rng = random.Random(seed)
    made = Problem()
    sizes = [(rng.choice((1, 2, 3, 4, 6, 8)) * 1024, rng.randint(1, 4)) for _ in range(instances)]
    tightness = rng.choice((0.93, 0.97, 0.99, 1.01))
    memory_each = sum(memory for memory, _ in sizes) / nodes / tightness
    cpus_each = sum(cpus for _, cpus in sizes) / nodes / 0.9
    for node in range(nodes):
        made.at_most(("memory", node), round(memory_each * rng.uniform(0.8, 1.2)))
        made.at_most(("cpus", node), round(cpus_each + 1))
    kinds: dict[tuple[int, int], list[str]] = {}
    for number, size in enumerate(sizes):
        kinds.setdefault(size, []).append(f"i{number}")
    for (memory, cpus), members in kinds.items():
        choices = [
            Choice(node, 0.0, {("memory", node): memory, ("cpus", node): cpus})
            for node in range(nodes)
        ]
        made.kinds.append(Kind(members, choices))
    return made


def solve_cp_sat(task: Problem, seconds: float) -> str:
    """Return the status that CP-SAT reports."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    used: dict[Any, list[Any]] = {}
    for number, kind in enumerate(task.kinds):
        count = len(kind.members)
        variables = [model.new_int_var(0, count, f"{number}-{k}") for k in range(len(kind.choices))]
        model.add(sum(variables) == count)
        for variable, choice in zip(variables, kind.choices):
            for row, amount in choice.uses.items():
                used.setdefault(row, []).append(int(amount) * variable)
    for row, terms in used.items():
        if row in task.bounds:
            model.add(sum(terms) <= int(task.bounds[row][1]))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    known = {cp_model.OPTIMAL: FOUND, cp_model.FEASIBLE: FOUND, cp_model.INFEASIBLE: IMPOSSIBLE}
    return known.get(status, "time out")


def timed(solver: str, task: Problem) -> tuple[str, float]:
    """Return the status and the time in seconds."""
    start = time.perf_counter()
    if solver == "HiGHS":
        status = highs.solve(task, Deadline.of_search(LIMIT)).status
    else:
        status = solve_cp_sat(task, LIMIT)
    return status, time.perf_counter() - start


def installed_size(package: str) -> float:
    """Return the MiB on disk of a package and everything that it requires."""
    seen: set[str] = set()
    waiting, size = [package], 0
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in seen:
            continue
        seen.add(name)
        try:
            dist = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        size += sum(file.size or 0 for file in dist.files or ())
        for line in dist.requires or ():
            if "extra ==" not in line:
                words = "".join(c if c.isalnum() or c in "-_." else " " for c in line)
                waiting.append(words.split()[0])
    return size / 2**20


def import_seconds(module: str) -> float:
    """Return the median of the seconds that a new interpreter takes to import a module."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _results(solver: str) -> list[list[tuple[str, float]]]:
    """Return the status and the seconds of every problem by size, from a separate process."""
    command = [sys.executable, "-m", "benchmarks.solvers", solver]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    results: list[list[tuple[str, float]]] = json.loads(done.stdout)
    return results


def measure(solver: str) -> None:
    """Print the results of one solver as JSON."""
    timed(solver, problem(2, 2, 0))  # loads its modules
    tasks = [[problem(*size, seed) for seed in range(PER_SIZE)] for size in SIZES]
    print(json.dumps([[timed(solver, task) for task in of_size] for of_size in tasks]))


def main() -> None:
    """Measure both solvers, and write the report."""
    lines = [
        "# Solvers for exact search",
        "",
        "`python -m benchmarks.solvers`: batches on nearly full nodes, one thread each.",
        "",
        "| | HiGHS (`highspy`) | CP-SAT (`ortools`) |",
        "|---|---|---|",
    ]
    sizes = [f"{installed_size(package):.0f} MiB" for package, _ in PACKAGES.values()]
    starts = [f"{import_seconds(module):.2f} s" for _, module in PACKAGES.values()]
    lines += [f"| size on disk, with dependencies | {' | '.join(sizes)} |"]
    lines += [f"| import | {' | '.join(starts)} |"]
    results = {solver: _results(solver) for solver in PACKAGES}
    for size, (nodes, instances) in enumerate(SIZES):
        found: dict[tuple[str, str], list[float]] = {}
        for solver, sizes_of in results.items():
            for status, took in sizes_of[size]:
                found.setdefault((solver, status), []).append(took)
        for status, what in ((FOUND, "first answer"), (IMPOSSIBLE, "proof of impossibility")):
            cells = [
                f"{statistics.median(times):.3f} s ({len(times)})" if times else "none"
                for times in (found.get((solver, status), []) for solver in PACKAGES)
            ]
            lines.append(f"| {what}, {nodes} nodes, {instances} instances | {' | '.join(cells)} |")
        late = [str(len(found.get((solver, "time out"), []))) for solver in PACKAGES]
        if any(count != "0" for count in late):
            lines.append(f"| no answer in {LIMIT:.0f} s, {nodes} nodes | {' | '.join(late)} |")
    lines += ["", "The number of problems is in brackets. ", ""]
    REPORT.write_text("\n".join(line.rstrip() for line in lines))
    print(REPORT.read_text())


def _asked() -> str:
    """Return the name of the one solver to measure; "" for the report on both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("solver", nargs="?", choices=list(PACKAGES), help="measure this one alone")
    solver = parser.parse_args().solver
    for package, _ in [PACKAGES[solver]] if solver else PACKAGES.values():
        if find_spec(package) is None:
            parser.error(f"{package} is not installed")
    return solver or ""


if __name__ == "__main__":
    solver = _asked()
    measure(solver) if solver else main()
