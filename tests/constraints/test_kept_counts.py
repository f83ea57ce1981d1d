"""Test that updated counts of members per node, and penalties, equal new counts."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from iallocator.constraints import relations_of
from iallocator.constraints.relations import Relations
from iallocator.constraints.rule_counts import LiveRuleCounts, RuleCounts
from iallocator.model.instance import Instance
from iallocator.model.node_view import Capacities
from iallocator.model.state import State
from iallocator.planners.balance.scan.affinity import AffinityCosts, MoveAffinity
from iallocator.planners.balance.scan.arrays import NodeTable
from tests.constraints.scenarios import random_document
from tests.model.make import model_of


def scenario(seed: int) -> tuple[State, Relations]:
    """Return a state and its relations: ten instances with constraints on six nodes in racks."""
    for number in range(seed, seed + 1000, 100):
        cluster = model_of(random_document(Random(number), 6, 10))
        relations = relations_of(cluster)
        if relations is not None and len(relations.rules) > 1:
            return State(cluster), relations
    raise AssertionError("no scenario with rules")


def move_at_random(state: State, rng: Random) -> Instance:
    """Move a random instance to other nodes, or remove it; return the instance."""
    moved = rng.choice(state.cluster.instances)
    if moved.name in state.where:
        state.remove(moved, state.where[moved.name])
    if rng.random() < 0.9:
        state.place(moved, tuple(rng.sample(range(len(state.cluster.nodes)), len(moved.nodes))))
    return moved


def counted(counts: dict[Any, dict[int, int]]) -> dict[Any, dict[int, int]]:
    """Return the counts without zeros."""
    return {key: some for key, some in counts.items() if some}


def compare(rule_counts: RuleCounts, plain: RuleCounts, relations: Relations) -> None:
    """Assert that kept and new counts give equal results in all queries."""
    assert rule_counts.homes == plain.homes
    for rule in relations.rules:
        mine, theirs = (
            rule_counts.hard_members(rule, relations.domains),
            plain.hard_members(rule, relations.domains),
        )
        assert mine.every == theirs.every
        assert rule_counts.named(rule, relations.domains) >= plain.named(rule, relations.domains)
        assert counted(mine.named) == counted(theirs.named)
        assert counted(mine.by_domain) == counted(theirs.by_domain)
        present, others = rule_counts.present(rule), plain.present(rule)
        assert {n: set(m) for n, m in present.items() if m} == {
            n: set(m) for n, m in others.items()
        }


@pytest.mark.parametrize("seed", range(6))
def test_kept_counts_equal_new_counts_while_instances_move(seed: int) -> None:
    """While instances move, updated counts of members equal new counts.

    Tentative changes and removed instances are included.
    """
    state, relations = scenario(seed)
    rng, members = Random(seed), sorted(relations.members_of)
    rule_counts = LiveRuleCounts(relations.members_of, state)
    for number in range(12):
        pending = set(rng.sample(members, 2)) if number % 3 == 0 else set()
        with state.trial():
            move_at_random(state, rng)
            there = {n: w for n, w in state.where.items() if n not in pending}
            compare(rule_counts.now(pending), RuleCounts(relations.members_of, there), relations)
        move_at_random(state, rng)
        compare(rule_counts.now(), RuleCounts(relations.members_of, state.where), relations)


@pytest.mark.parametrize("seed", range(6))
def test_kept_penalties_of_a_scan_equal_new_ones_while_instances_move(seed: int) -> None:
    """While instances move, updated penalties of a scan equal new penalties."""
    state, relations = scenario(seed)
    rng, scope = Random(seed), range(len(state.cluster.nodes))
    instances = state.cluster.instances
    table = NodeTable(state, scope, Capacities(state.cluster.nodes))
    bonds = AffinityCosts(relations, relations.live(state))
    places = MoveAffinity(table, instances, bonds)
    for _ in range(8):
        moved = rng.choice(instances)
        state.remove(moved, state.where[moved.name])
        state.place(moved, tuple(rng.sample(scope, len(moved.nodes))))
        places.refresh()
        fresh = AffinityCosts(relations, LiveRuleCounts(relations.members_of, state))
        assert bonds.penalty(table.position) == pytest.approx(fresh.penalty(table.position))
        anew = MoveAffinity(table, instances, fresh)
        assert np.allclose(places.costs, anew.costs)
        assert (places.barred == anew.barred).all()
