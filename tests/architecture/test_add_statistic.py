"""Follow the recipe for a statistic in ARCHITECTURE.md with two toys: a deviation and a sum."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .toys import Place, assert_follows, copy_with, recipe, run, run_paths

TOYS: dict[Place, tuple[str, str]] = {
    ("iallocator/scoring/metrics.py", "STATISTICS"): (
        ')  # fmt: skip\n"""In the order in which they are listed and explained."""\n',
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

FOLDERS = ("iallocator", "schemas", "tests", "benchmarks", "docs/reference")

PATHS = (
    "tests/scoring",  # one candidate, arrays, pairs, equal instances, rounding as hail
    "tests/property/test_state_score.py",
    "tests/property/test_scores.py",  # answers of requests, counted again
    "tests/property/test_kernels.py",
    "tests/n1/test_batched_simulation.py",  # failures in batches
    "tests/planners/test_move_scan.py",  # all moves at once
)
"""Tests that compare a form of the score with another form, or with `tests/property/plain.py`."""

SLOW = (
    "evacuate", "multi", "change", "without_room", "some_rows", "most_promising", "refreshed",
    "off", "no_room",
)  # fmt: skip
"""Words of the tests that are left out because they take long."""


def run_tests(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run some tests of the project in `folder`."""
    options = ("-q", "-x", "-p", "no:cacheprovider")
    return run(folder, "-m", "pytest", *options, *arguments)


def test_toy_statistics_are_evaluated_alike_on_every_path(tmp_path: Path) -> None:
    """Candidates one by one, in arrays and in pairs; equal instances; scans; failures; commands."""
    folder = copy_with(tmp_path, TOYS, folders=FOLDERS)
    done = run_tests(folder, "-k", f"not ({' or '.join(SLOW)})", *PATHS)
    assert done.returncode == 0, done.stdout[-3000:]
    done = run_paths(folder, "toy_statistic_paths.py")
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("left_out", TOYS, ids=": ".join)
def test_toy_statistics_without_one_entry_of_the_recipe_fail(
    left_out: Place, tmp_path: Path
) -> None:
    """Each entry of the recipe is needed."""
    checks = ("tests/property/test_scores.py", "tests/scoring/test_metrics.py")
    done = run_tests(
        copy_with(tmp_path, TOYS, left_out, FOLDERS), "-k", "relocate or page", *checks
    )
    assert done.returncode == 1, done.stdout[-3000:]


def test_toys_follow_the_recipe() -> None:
    """The recipe names each place that the toys change, and no other file."""
    assert_follows(TOYS, "statistic")
    assert recipe("statistic").count("\n* `") == len(TOYS)
