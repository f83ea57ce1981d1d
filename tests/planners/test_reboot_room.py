"""Test that sums rule out only sets of nodes that are really impossible."""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import Any

from iallocator.options.settings import Settings
from iallocator.planners.reboot.drain_plan import DrainPlanner, RebootContext, RebootOptions
from iallocator.planners.reboot.reboot import plan_reboots
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading
from tests.builders import cluster, instance, rbd


def _crowded(rng: Random) -> dict[str, Any]:
    """Return a few nodes in two groups, with instances of every kind."""
    free = {f"node{k}": 10000 for k in range(1, 6)}
    names = list(free)
    instances = {}
    for k in range(rng.randint(4, 12)):
        memory = rng.choice([1500, 3000, 5000])
        home = max(rng.sample(names, 2), key=lambda name: free[name])
        template = rng.choice(["rbd", "rbd", "plain", "drbd"])
        nodes = [home]
        if template == "drbd":
            group = names[:3] if home in names[:3] else names[3:]
            nodes.append(rng.choice([name for name in group if name != home]))
        if free[home] >= memory:
            free[home] -= memory
            instances[f"i{k}"] = instance(*nodes, disk_template=template, memory=memory)
    return cluster({"east": 3, "west": 2}, memory=10000, instances=instances)


def test_set_that_sums_reject_is_rejected_by_simulation() -> None:
    """Each rejected set of two or more nodes is also rejected by brute force."""
    rejected = 0
    for seed in range(40):
        model = read_cluster(_crowded(Random(seed)), Reading())
        planner = DrainPlanner(RebootContext(model, Settings()), RebootOptions(force=True))
        for size in (2, 3):
            for gone in combinations(range(5), size):
                if planner.bound.lacks(gone):
                    rejected += 1
                    planner.bound.lacks = lambda drained: False  # type: ignore[method-assign]
                    assert planner.plan(gone).reason
                    del planner.bound.lacks
    assert rejected > 20


def test_fewest_groups_by_memory_are_proved() -> None:
    """Each node has capacity for half of another one: two of six can be drained, proved by sums."""
    instances = {f"i{k}": rbd(f"node{1 + k % 6}", memory=1000) for k in range(24)}
    model = read_cluster(cluster(6, memory=6400, instances=instances), Reading())
    settings = Settings()
    settings.n1 = "off"
    done = plan_reboots(model, settings, RebootOptions(force=True))
    assert len(done.rounds) == 3
    assert done.plan.reason == "no fewer groups are possible: proved"
