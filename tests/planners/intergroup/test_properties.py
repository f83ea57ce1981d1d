"""Test properties of plans between groups, on random clusters with overlapping storage pools."""

from __future__ import annotations

import pytest

from iallocator.model.state import State
from iallocator.model.storage import pools_of
from iallocator.options.settings import Settings
from iallocator.planners.intergroup.balance_groups import Loads
from iallocator.planners.intergroup.context import IntergroupContext
from iallocator.planners.intergroup.moving import Mover
from iallocator.planners.intergroup.redistribute import HEALTHY, Health, examine
from tests.builders import Json
from tests.model.make import model_of
from tests.seeds import seeds

from .scenarios import by_group, plan_of, random_super_cluster

SEEDS = seeds(10, 24)
COMMANDS = ("redistribute", "compress", "balance-groups")


def mover_on(document: Json, plan: Json | None = None) -> Mover:
    """Return a mover on the document's cluster, after the moves of a plan if there is one."""
    mover = Mover(IntergroupContext(model_of(document), Settings()))
    cluster = mover.context.cluster
    numbers = {node.name: node.index for node in cluster.nodes}
    for move in plan["moves"] if plan else ():
        instance = cluster.instance_named(move["instance"])
        assert instance is not None
        at = mover.context.cluster.node_names(mover.context.state.where[instance.name])
        assert at == move["from"]
        mover.put(instance, tuple(numbers[name] for name in move["to"]))
    return mover


def health_of(mover: Mover) -> dict[str, Health]:
    """Return the health of every group with nodes."""
    groups = [group for group in mover.context.cluster.groups if group.nodes]
    return {group.name: examine(mover, group) for group in groups}


def tolerated_failures(mover: Mover) -> set[int]:
    """Return the indices of the online nodes with a failure that is tolerated."""
    online = {node.index for node in mover.context.cluster.nodes if node.online}
    return online.difference(*(health.failing for health in health_of(mover).values()))


def instances_in(mover: Mover, group: str) -> list[str]:
    """Return the names of the instances that have at least one node in `group`."""
    state, nodes = mover.context.state, mover.context.cluster.nodes
    return [
        name
        for name, places in state.where.items()
        if any(nodes[index].group.name == group for index in places)
    ]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_plan_between_groups_keeps_every_limit(seed: int, command: str) -> None:
    """Each move targets a group with access to the pool, keeps N+1, and raises no score."""
    document = random_super_cluster(seed)
    plan = plan_of(command, document)
    before, after = mover_on(document), mover_on(document, plan)
    cluster = after.context.cluster
    for move in plan["moves"]:
        instance = cluster.instance_named(move["instance"])
        assert instance is not None
        numbers = {node.name: node.index for node in cluster.nodes}
        places = [numbers[name] for name in move["to"]]
        for pool in pools_of(instance):
            assert cluster.storage is not None
            assert cluster.storage.nodes_of(pool).issuperset(places)
        assert all(cluster.nodes[index].online for index in places)
        groups = {cluster.nodes[index].group.name for index in places}
        assert len(groups) == 1
        assert groups != {cluster.nodes[numbers[move["from"][0]]].group.name}
    emptied = {
        index
        for name in ([plan["chosen_group"]] if plan.get("chosen_group") else [])
        for index in next(g for g in cluster.groups if g.name == name).nodes
    }
    assert tolerated_failures(before) - emptied <= tolerated_failures(after)
    scores = [plan["objective"]["before"], *(m["objective_after"] for m in plan["moves"])]
    assert scores == sorted(scores, reverse=True)
    assert plan["objective"]["after"] == scores[-1]


@pytest.mark.parametrize("seed", SEEDS)
def test_redistribute_reports_the_health_of_the_model(seed: int) -> None:
    """`redistribute` reports the true health of groups before the plan.

    Repaired groups are healthy after.
    """
    document = random_super_cluster(seed)
    plan = plan_of("redistribute", document)
    before, after = health_of(mover_on(document)), health_of(mover_on(document, plan))
    for name, one in by_group(plan).items():
        assert one["state"] == before[name].state
        if one["repaired"] or one["state"] == HEALTHY:
            assert after[name].state == HEALTHY
        assert not (one["repaired"] and one["state"] == HEALTHY)
        if not one["repaired"]:
            gone = {m["instance"] for m in plan["moves"]}
            assert not gone.intersection(instances_in(mover_on(document), name))


@pytest.mark.parametrize("seed", SEEDS)
def test_compress_empties_the_chosen_group(seed: int) -> None:
    """`compress` leaves the chosen group empty, and moves no instance of another group."""
    document = random_super_cluster(seed)
    plan = plan_of("compress", document)
    if plan["chosen_group"] is None:
        assert plan["moves"] == plan["evacuable_groups"] == []
        return
    held = instances_in(mover_on(document), plan["chosen_group"])
    assert sorted(held) == sorted(move["instance"] for move in plan["moves"])
    after = mover_on(document, plan)
    assert instances_in(after, plan["chosen_group"]) == []
    assert plan["chosen_group"] == plan["evacuable_groups"][0]


@pytest.mark.parametrize("seed", seeds(5, 10))
def test_loads_after_a_move_are_those_of_the_model(seed: int) -> None:
    """The score stated for a move of balance-groups equals the score of newly summed loads."""
    mover = mover_on(random_super_cluster(seed))
    state: State = mover.context.state
    groups = [group for group in state.cluster.groups if group.nodes]
    for instance in state.cluster.instances:
        home = state.cluster.nodes[instance.nodes[0]]
        target = groups[(groups.index(home.group) + 1) % len(groups)]
        online = [i for i in target.nodes if state.cluster.nodes[i].online]
        if len(instance.nodes) > 1 or not online or not home.online:
            continue
        source, place = groups.index(home.group), groups.index(target)
        if source == place:
            continue
        loads = Loads(state, groups)
        expected = loads.score_after(instance.load, source, place)
        mover.put(instance, (online[0],))
        assert Loads(state, groups).score() == pytest.approx(expected, abs=1e-9)
        loads.move(instance.load, source, place)
        assert loads.score() == pytest.approx(expected, abs=1e-9)
        mover.put(instance, instance.nodes)
