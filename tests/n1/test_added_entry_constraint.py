"""Test that N+1 checks a constraint on entering a group that is added to the table."""

from __future__ import annotations

from collections import Counter

import pytest

from iallocator.constraints import table
from iallocator.constraints.table import PlacementConstraint
from iallocator.model.cluster import Group
from iallocator.model.columns import MEMORY
from iallocator.model.instance import Instance
from iallocator.model.moves import Move
from iallocator.n1 import Rules
from iallocator.n1.tolerance import FailureTolerance
from iallocator.n1.unrestarted import UnrestartedSearch

from .tight import Case, tight


class NotEven(PlacementConstraint):
    """A constraint: an instance with an even number of MiB must not enter a group."""

    def entry_rejection(self, group: Group, instance: Instance, exclusive: bool) -> str:
        return "" if instance.memory % 2 else "FailPolicy"


def tolerated(case: Case) -> list[bool]:
    """Return for each node whether its failure is tolerated, by a new simulation."""
    nodes = range(len(case.cluster.nodes))
    return [case.simulation_of(case.rules).fail((index,)) is None for index in nodes]


def test_added_constraint_counts_where_instances_are_created_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With `strict`, N+1 checks an added constraint for instances that must be created again.

    Such instances have disks that are lost with their node. All stages of the check agree.
    """
    changed = 0
    for seed in range(150):
        case = tight(seed, "strict")
        before = tolerated(case)
        with monkeypatch.context() as patched:
            patched.setattr(table, "_ON_ENTRY", (*table._ON_ENTRY, NotEven()))
            case = tight(seed, "strict")
            expected = tolerated(case)
            failures = FailureTolerance(case.state, case.rules, kernels=case.context.kernels)
            failing = [(index,) for index in range(len(expected))]
            lost = {one[0] for one in failures.not_tolerated(failing)}
            assert [index not in lost for index in range(len(expected))] == expected, seed
        changed += before != expected
    assert changed > 10


@pytest.mark.parametrize("mode", ["strict", "no-new"])
def test_added_constraint_counts_for_new_instances(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N+1 checks an added constraint for a new instance with disks that are lost with its node."""
    monkeypatch.setattr(table, "_ON_ENTRY", (*table._ON_ENTRY, NotEven()))
    outcomes: Counter[bool] = Counter()
    for seed in range(400):
        case = tight(seed, mode)
        state, new, nodes = case.state, case.new, case.cluster.nodes
        online = [index for index in case.cluster.groups[0].nodes if nodes[index].online]
        filling = FailureTolerance(state, case.rules, kernels=case.context.kernels)
        before = tolerated(case)
        for k, primary in enumerate(online):
            places = (primary, online[k - 1])[: new.required_nodes]
            if state.columns[MEMORY][primary] <= new.memory or len(set(places)) < len(places):
                continue
            with state.trial():
                state.place(new, places)
                after = tolerated(case)
            counted = range(len(nodes)) if mode == "strict" else online
            expected = all(after[i] or (mode == "no-new" and not before[i]) for i in counted)
            assert filling.accepts(new, places) is expected, (seed, places)
            check = case.context.tolerance(case.context.all_nodes(), case.rules)
            assert check.allows(Move(new, (), places)) is expected, (seed, places)
            outcomes[expected] += 1
    assert min(outcomes[True], outcomes[False]) > 10, outcomes


def test_added_constraint_counts_for_simultaneous_failures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If two nodes fail, an instance that an added constraint keeps from other nodes is lost."""
    monkeypatch.setattr(table, "_ON_ENTRY", (*table._ON_ENTRY, NotEven()))
    found: Counter[bool] = Counter()
    for seed in range(60):
        case = tight(seed, "strict")
        search = UnrestartedSearch(case.state, Rules("strict"))
        for index in range(len(case.cluster.nodes)):
            pair = index, (index + 1) % len(case.cluster.nodes)
            lost = {one.name for one in search.lost(pair)}
            barred = {
                one.name
                for node in pair
                for one in case.state.primaries[node].values()
                if not (one.forthcoming or one.memory % 2) and Rules("strict").recreates(one)
            }
            found[bool(barred)] += 1
            assert barred <= lost, (seed, pair)
    assert min(found.values()) > 10
