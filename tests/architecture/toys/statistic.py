"""Follow the recipe for a statistic in ARCHITECTURE.md with two toys: a deviation and a sum."""

from __future__ import annotations

from pathlib import Path

from . import Changes, Done, Place, Toy, run

PLACES: Changes = {
    ("iallocator/scoring/metrics.py", "STATISTICS"): (
        ")  # fmt: skip\n"
        '"""All statistics, in the order in which they are listed and explained."""\n',
        """    Statistic(
        "toy_spread", 0.75, lambda n: n.primaries * n.per_cpu,
        "toy differs", "toy more even",
    ),
    Statistic(
        "toy_sum", 0.5, lambda n: (n.primaries + n.secondaries) * n.per_cpu,
        "toy in all", "less toy", spread=False,
    ),
<ANCHOR>""",
    ),
    ("tests/property/plain.py", "Plain.terms"): (
        '        yield "reserved_mem_total", 0.25, sum(self._reserved_share(n) for n in online)\n',
        """<ANCHOR>
        def toy(node: str, there: int) -> float:
            cpus = self.number(node, "total_cpus")
            return there / cpus if cpus else 0.0

        primaries = [toy(node, len(_real(self.primaries(node)))) for node in online]
        yield "toy_spread", 0.75, _spread(primaries)
        yield "toy_sum", 0.5, sum(toy(node, self._instances(node)) for node in online)
""",
    ),
    ("docs/reference/statistics.md", ""): (
        "\nA soft constraint that is violated",
        """| `toy_spread` | standard deviation of primaries / cpus | online | ratio | 0.75 |
| `toy_sum` | sum of instances / cpus | online | ratio | 0.5 |
<ANCHOR>""",
    ),
}

PATHS = (
    "tests/scoring",  # one candidate, arrays, pairs, equal instances, rounding as hail
    "tests/property/test_state.py",
    "tests/property/test_scores.py",  # answers of requests, counted again
    "tests/property/test_kernels.py",
    "tests/n1/test_batched_simulation.py",  # failures in batches
    "tests/planners/test_move_scan.py",  # all moves at once
)
"""Tests that compare one form of the score with another, or with `tests/property/plain.py`."""

SLOW = (
    "evacuate", "multi", "change", "without_memory_for", "blocks_of_rows", "most_promising",
    "refreshed", "off",
)  # fmt: skip
"""Words in the names of slow tests, which are left out."""


class _Statistics(Toy):
    def check(self, folder: Path) -> Done:
        """Run the tests of each form of the score, and the script for commands."""
        done = run_tests(folder, "-k", f"not ({' or '.join(SLOW)})", *PATHS)
        return done if done.returncode else super().check(folder)

    def check_without(self, folder: Path, left_out: Place) -> Done:
        """Run tests of scores and of the page in a copy that lacks one place of the recipe."""
        checks = ("tests/property/test_scores.py", "tests/scoring/test_metrics.py")
        return run_tests(folder, "-k", "relocate or page", *checks)


def run_tests(folder: Path, *arguments: str) -> Done:
    """Run tests of the copy of the project in `folder`; `arguments` are those of pytest."""
    options = ("-q", "-x", "-p", "no:cacheprovider")
    return run(folder, "-m", "pytest", *options, *arguments)


TOY = _Statistics(
    "statistic",
    "statistic_paths.py",
    PLACES,
    most_files=3,
    folders=("iallocator", "schemas", "tests", "benchmarks", "docs/reference"),
)
