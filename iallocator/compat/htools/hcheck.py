"""hcheck: report the problems of each group, and whether balancing would help."""

from __future__ import annotations

from iallocator.compat.htools.backend import adjust, balanced, initial_state, load
from iallocator.compat.htools.formats import decimal
from iallocator.deadline import Deadline
from iallocator.documents.checkup import HCHECK_KEYS, Checkup
from iallocator.options.settings import Settings
from iallocator.planners.check.health import examine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from iallocator.compat.htools.backend import Given

__all__ = ["run"]

HCHECK_WORDS = {
    "N1_FAIL": "Nodes not N+1 happy",
    "CONFLICT_TAGS": "Nodes with conflicting instances",
    "OFFLINE_PRI": "Instances having the primary node offline",
    "OFFLINE_SEC": "Instances having a secondary node offline",
    "GN1_FAIL": "Nodes not directly evacuateable",
}
"""Key -> the kind of problem that it counts, in words."""


def run(given: Given) -> int:
    """Print the problems, now and after balancing; return the exit status: 1 with a problem."""
    source = load(given, Settings())
    adjust(given, source.cluster)
    cluster = source.cluster
    checks = not given.no_capacity_checks
    mode, min_disk = "strict" if checks else "off", given.min_disk or 0.0
    now = examine(initial_state(given, source), mode, min_disk, None, Deadline(None), {})
    checkup = Checkup(now, now, 0, checks)
    if checkup.hcheck_needs and not given.no_simulation:
        done = balanced(given, cluster)
        then = examine(done.after(), mode, min_disk, None, Deadline(None), {})
        checkup = Checkup(now, then, len(done.moves), checks)
    if given.machine_readable:
        print("\n".join(checkup.hcheck_lines(cluster.groups)))
    elif given.loudness > 0:
        print("\n".join(_text(checkup, bool(given.no_simulation))))
    return int(checkup.hcheck_needs and not given.no_simulation)


def _text(checkup: Checkup, alone: bool) -> Iterator[str]:
    """Yield the lines of the output; `alone`: whether no balancing was tried."""
    needs = checkup.hcheck_needs
    if alone:
        yield "Running in no-simulation mode."
    elif needs:
        yield "Cluster needs rebalancing."
    else:
        yield "No need to rebalance cluster, no problems found."
    stages = [("initially", checkup.before)]
    if needs and not alone:
        stages.append(("after rebalancing", checkup.after))
    for stage, groups in stages:
        sums = dict.fromkeys(HCHECK_KEYS, 0)
        for health in groups:
            yield f"\nStatistics for group {health.group.name} {stage}"
            for key, value in checkup.hcheck_counts(health):
                sums[key] += value
                yield f"    {HCHECK_WORDS[key]}: {value}"
            score = 0.0 if health.offline_nodes == len(health.group.nodes) else health.score
            yield f"    Group score: {decimal(score)}"
        yield f"\nCluster statistics {stage}"
        if not groups:  # hcheck prints the last value with the first title
            yield f"    {HCHECK_WORDS['N1_FAIL']}: {needs}"
            continue
        for key, value in sums.items():
            if key != "GN1_FAIL" or checkup.capacity_checks:
                yield f"    {HCHECK_WORDS[key]}: {value}"
        yield f"    Cluster is not healthy: {needs}"
