"""Test that all planners use one definition of the health of a group."""

from __future__ import annotations

import random

import pytest

from iallocator.deadline import SIMULATIONS
from iallocator.model.state import State
from iallocator.n1 import Rules, plan_rules
from iallocator.n1.simulation import Simulation
from iallocator.n1.tolerance import FailureTolerance
from iallocator.options.settings import Settings
from iallocator.planners.check import health as checked
from iallocator.planners.intergroup import redistribute as between
from iallocator.planners.intergroup.context import IntergroupContext
from iallocator.planners.intergroup.moving import Mover

from .failures import intolerable_in
from .scenarios import scenarios


@pytest.mark.parametrize("mode", ["no-new", "strict"])
def test_health_of_a_group_is_the_same_for_every_planner(mode: str) -> None:
    """`check`, `redistribute` and the limits of plans name the same failing nodes of a group."""
    found = 0
    for name, cluster, group in scenarios(range(20)):
        state, settings = State(cluster), Settings()
        settings.n1 = mode
        simulated = intolerable_in(state)
        expected = {i for i in group.nodes if cluster.nodes[i].name in simulated}
        mover = Mover(IntergroupContext(cluster, settings))
        assert set(between.examine(mover, group).doomed) == expected, name
        failures = FailureTolerance(state, plan_rules(mode), group=group)
        failures.measure()
        lost = set(failures.failing()) - failures.comparison.initial.tolerated
        assert {node for (node,) in lost} == expected, name
        (reported,) = [one for one in checked.examine(state, "no-new") if one.group is group]
        listed = {one.node for one in reported.findings if one.kind == "global_n1"}
        assert listed == {cluster.nodes[i].name for i in expected}, name
        found += len(expected)
    assert found > 5


def test_health_by_sums_is_that_of_simulated_failures() -> None:
    """Each result of sums on the health of a group is confirmed by simulated failures."""
    found = 0
    for name, cluster, group in scenarios(range(20)):
        state = State(cluster)
        played = Simulation.of_group(state, group, Rules("strict"))
        expected = {cluster.nodes[i].name for i in group.nodes if played.fail((i,)) is not None}
        (reported,) = [one for one in checked.examine(state, "strict") if one.group is group]
        listed = {one.node for one in reported.findings if one.kind == "global_n1"}
        assert listed == expected, name
        found += len(expected)
    assert found > 5


def overload(state: State, node: int) -> None:
    """Move the primary of every second instance to `node`, whatever the limits."""
    for instance in state.cluster.instances[::2]:
        before = state.where[instance.name]
        if node not in before:
            state.remove(instance, before)
            state.place(instance, (node, *before[1:]))


def test_failures_that_are_undecided_when_the_work_is_spent_count_as_broken() -> None:
    """Without work left for simulations, failures that may lose more count as losing more."""
    found = more = 0
    for number, (name, cluster, group) in enumerate(scenarios(range(20))):
        state = State(cluster)
        rules = plan_rules("no-worse")
        failures = FailureTolerance(State(cluster), rules, group=group)
        failures.measure()
        overload(state, random.Random(number).choice(group.nodes))
        for rescues in (False, True):
            broken = failures.on(state).comparison.broken(rescues=rescues)
            rules.effort.work[SIMULATIONS] = 0
            unsure = failures.on(state).comparison.broken(rescues=rescues)
            del rules.effort.work[SIMULATIONS]
            assert set(broken) <= set(unsure), name
            found += bool(broken)
            more += len(unsure) > len(broken)
    assert found > 2
    assert more > 2


@pytest.mark.parametrize("mode", ["no-new", "no-worse", "strict"])
def test_first_failure_not_tolerated_is_the_first_of_all(mode: str) -> None:
    """The search for one failure that is not tolerated returns the first of all such failures."""
    found = 0
    for number, (name, cluster, group) in enumerate(scenarios(range(20))):
        state = State(cluster)
        failures = FailureTolerance(State(cluster), plan_rules(mode), group=group)
        failures.measure()
        overload(state, random.Random(number).choice(group.nodes))
        every = failures.on(state).comparison.broken()
        assert failures.on(state).comparison.first_broken() == next(iter(every), None), name
        found += bool(every)
    assert found > 2
