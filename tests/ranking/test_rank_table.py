"""Nodes compared in arrays, renewed where they change, rank as they do one by one."""

from __future__ import annotations

import random

import pytest

from benchmarks.clusters import Shape, document
from iallocator.model.state import State
from iallocator.ranking.pacemaker.capacity_usage import CapacityUsage
from iallocator.ranking.pacemaker.rules import Choice, _wins
from iallocator.tags.pacemaker import PacemakerTags, lacking
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading


@pytest.mark.parametrize("tagged", [False, True])
def test_standings_after_placements_are_what_pairwise_comparison_finds(tagged: bool) -> None:
    """Of all nodes, of most and of few, and wherever the instance runs; what is lacking, too."""
    whole = document(Shape(20, "rbd", per_node=3, fullness=0.3))
    rng = random.Random(tagged)
    for entry in [*whole["nodes"].values(), *whole["instances"].values()]:
        names = rng.sample(("ram", "io", "gpu"), rng.randint(1, 3))
        entry["tags"] = [f"iallocator:utilization:{n}:{rng.randint(1, 4)}" for n in names] * tagged
    cluster = read_cluster(whole, Reading())
    facts = PacemakerTags(cluster, (), [], "iallocator:")
    usage = CapacityUsage(facts, State(cluster), range(20))
    for _ in range(40):
        usage.take(rng.randrange(20), facts.of(rng.choice(cluster.instances)).needs)
        choice = Choice("balanced", cluster, usage, facts.weights)
        choice.present = rng.choice((None, rng.randrange(20)))
        nodes = choice.by_tie(rng.sample(range(20), rng.choice((3, 15, 20))))
        assert usage.rank_table().wins(nodes, choice.present) == _wins(choice, nodes)
        needs = facts.of(rng.choice(cluster.instances)).needs
        assert usage.lacking(nodes, needs) == {i for i in nodes if lacking(usage.free[i], needs)}
