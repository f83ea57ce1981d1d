"""Test that ``affinity`` updates its kept values of nodes after moves of instances."""

from __future__ import annotations

from random import Random

from iallocator.model.instance import Instance
from iallocator.options.settings import Settings
from iallocator.placement.context import Context
from tests.builders import cluster, rbd
from tests.model.make import model_of


def ranks(context: Context, moved: Instance) -> list[tuple[int, ...]]:
    """Return the nodes for `moved` as ``affinity`` ranks them, best first."""
    evaluator, state = context.evaluator(context.cluster.groups[0]), context.state
    (home,) = state.where[moved.name]
    with state.trial():
        state.remove(moved, (home,))
        found = evaluator.candidates(moved, "moved", (home,), range(4))
        ranked = evaluator.ranked(moved, found, (home,))
        return [nodes for _, nodes in ranked.candidates.ranked()]


def test_affinity_ranks_an_instance_anew_after_others_have_moved() -> None:
    """``affinity`` ranks an instance by the memory that is free after others have moved."""
    made = {f"i{k}": rbd(f"node{k % 4 + 1}", memory=600 + 100 * k) for k in range(12)}
    settings = Settings()
    settings.strategy, settings.n1 = "affinity", "off"
    scenario = model_of(cluster(4, instances=made))
    context, rng, seen = Context(scenario, settings), Random(2), set()
    first, *others = scenario.instances
    for _ in range(20):
        moved = rng.choice(others)
        context.state.remove(moved, context.state.where[moved.name])
        context.state.place(moved, (rng.randrange(4),))
        fresh = Context(scenario, settings)
        for one in others:
            fresh.state.remove(one, one.nodes)
        for one in others:
            fresh.state.place(one, context.state.where[one.name])
        found = ranks(context, first)
        assert found == ranks(fresh, first)
        seen.add(tuple(found))
    assert len(seen) > 2
