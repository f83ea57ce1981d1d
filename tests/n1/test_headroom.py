"""Test that counting slots for restarts never contradicts the simulation of failures."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from iallocator.limits.node import FORCED_LIMITS
from iallocator.model.instance import Instance
from iallocator.model.state import State
from iallocator.n1 import Failure, Rules
from iallocator.n1.counting import CountedTolerance, GroupCounting, Speculation
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading
from tests.builders import cluster
from tests.seeds import seeds

from .tight import Case, context_of, document, newcomer, tight, tolerates

MODES = ("strict", "no-new")

LABELLED = pytest.mark.parametrize("labelled", [False, True], ids=["", "labels"])


def fitting(case: Case, new: Instance) -> list[int]:
    """Return the nodes that accept `new` by their hard limits."""
    nodes = range(len(case.cluster.nodes))
    kernel = case.context.kernels.make(case.state, nodes)
    found = kernel.singles(new, nodes, {}, FORCED_LIMITS)
    return [i for i in found.open(0)[1] if case.cluster.nodes[i].online]


def watched(case: Case) -> list[Failure]:
    """Return the failures that must be tolerated in the mode of `case`."""
    every = range(len(case.cluster.nodes))
    groups = case.cluster.groups
    return sorted({i for g in groups for i in case.rules.failing(case.cluster, g, every)})


def another(new: Instance, number: int) -> Instance:
    """Return a copy of `new` that restarts after all others if `number` is odd, else before."""
    twin = new.as_template(new.template)
    twin.name = f"{new.name}-{number}"
    twin.order = 1000 + number if number % 2 else -1000 - number
    return twin


def headroom_of(case: Case) -> CountedTolerance:
    """Return the N+1 check by counting for `case`."""
    return CountedTolerance(case.state, case.rules, watched(case))


@LABELLED
@pytest.mark.parametrize("mode", MODES)
def test_headroom_result_on_a_placement_is_that_of_the_simulation(
    mode: str, labelled: bool
) -> None:
    """The check by counting accepts a placement only if the simulation tolerates all failures."""
    counts: Counter[bool | None] = Counter()
    for seed in seeds(150, 700):
        counts += results_checked_by_simulation(tight(seed, mode, labelled))
    assert min(counts[True], counts[False]) >= 5


@pytest.mark.parametrize("mode", MODES)
def test_headroom_result_on_nodes_of_exclusive_storage_is_that_of_the_simulation(
    mode: str,
) -> None:
    """The check by counting equals the simulation on nodes with exclusive storage.

    Instances without disks are counted; those with disks may need spindles.
    """
    counts: Counter[bool | None] = Counter()
    for seed in seeds(120, 700):
        rng = Random(f"exclusive/{seed}")
        found = document(rng)
        for node in found["nodes"].values():
            if rng.random() < 0.5:
                node["ndparams"] = {"exclusive_storage": True, "spindle_count": 1}
                node["total_spindles"], node["free_spindles"] = 8, rng.choice((0, 1, 8))
        counts += results_checked_by_simulation(context_of(found, mode))
    assert min(counts[True], counts[False]) >= 5


def results_checked_by_simulation(case: Case) -> Counter[bool | None]:
    """Return how often each result occurs for the new instance, compared with the simulation."""
    counts: Counter[bool | None] = Counter()
    if case.new.required_nodes > 1:
        return counts
    headroom = headroom_of(case)
    for node in fitting(case, case.new):
        found = headroom.tolerates(case.new, node)
        counts[found] += 1
        if found is None:
            continue
        with case.state.trial():
            case.state.place(case.new, (node,))
            assert all(tolerates(case, *one) for one in watched(case)) is found, node
    return counts


@LABELLED
@pytest.mark.parametrize("mode", MODES)
def test_headroom_for_a_number_of_instances_is_true_for_all_placements(
    mode: str, labelled: bool
) -> None:
    """After as many instances as the headroom permits, every failure is tolerated.

    The instances are on any nodes. The updated values equal those of a new object.
    """
    promised = 0
    for seed in seeds(150, 700):
        case, chance = tight(seed, mode, labelled), Random(seed)
        if case.new.required_nodes > 1:
            continue
        groups = [group.index for group in case.cluster.groups]
        headroom = headroom_of(case)
        count = headroom.count(case.new, groups)
        for number in range(min(count, 12)):
            nodes = fitting(case, case.new)
            if not nodes:
                break
            new, node = another(case.new, number), chance.choice(nodes)
            case.state.place(new, (node,))
            headroom.placed([(new, (node,))])
            promised += 1
            assert all(tolerates(case, *one) for one in watched(case)), (seed, number)
        again = headroom_of(case)
        assert headroom.count(case.new, groups) == again.count(case.new, groups), seed
        for node in fitting(case, case.new):
            assert headroom.tolerates(case.new, node) is again.tolerates(case.new, node), seed
    assert promised > 60


@LABELLED
def test_undecided_failures_are_those_that_counting_does_not_decide(labelled: bool) -> None:
    """Arrays and scalars find the same failures that counting does not decide."""
    seen: Counter[bool | None] = Counter()
    for seed in seeds(40, 300):
        case, chance = tight(seed, "strict", labelled), Random(seed)
        if case.new.required_nodes > 1:
            continue
        for group in case.cluster.groups:
            counting = GroupCounting(case.state, case.rules, group, watched(case))
            nodes = [i for i in fitting(case, case.new) if i in group.nodes]
            if counting.intricate or not counting.counts(case.new) or not nodes:
                continue
            for number in range(3):
                new, node = another(case.new, number), chance.choice(nodes)
                found = {i: counting.tolerates_failure(i, new, node) for i in counting.queues}
                unsettled = {i: tolerated for i, tolerated in found.items() if not tolerated}
                assert counting.not_tolerated(new, node) == unsettled, (seed, number)
                seen.update(unsettled.values() or [True])
                case.state.place(new, (node,))
                counting.placed([(new, (node,))])
    assert min(seen.values()) >= 5


@LABELLED
def test_rejected_placements_are_those_with_a_failure_proved_not_tolerated(labelled: bool) -> None:
    """Counting by the least slots finds placements that lose some failure, as single checks do."""
    seen: Counter[bool] = Counter()
    for seed in seeds(60, 300):
        case = tight(seed, "strict", labelled)
        if case.new.required_nodes > 1:
            continue
        for group in case.cluster.groups:
            counting = GroupCounting(case.state, case.rules, group, watched(case))
            if counting.intricate or not counting.counts(case.new):
                continue
            taken = counting.sizes.of(case.new)
            nodes = [i for i in fitting(case, case.new) if i in group.nodes]
            for number, node in enumerate(nodes):
                for other in nodes:
                    lost = any(counting.loses(failing, taken, other) for failing in counting.queues)
                    assert counting.certainly_lost(case.new, other) is lost, (seed, number)
                    seen[lost] += 1
                new = another(case.new, number)
                case.state.place(new, (node,))
                counting.placed([(new, (node,))])
    assert min(seen[True], seen[False]) >= 5


@LABELLED
def test_speculated_placements_are_accepted_as_far_as_the_simulation_confirms_them(
    labelled: bool,
) -> None:
    """Speculative placements are accepted up to the first one that the simulation rejects.

    After the simulation, N+1 is as before all speculative placements.
    """
    counts: Counter[bool] = Counter()
    for seed in seeds(200, 900):
        case, chance = tight(seed, "strict", labelled), Random(seed)
        nodes = fitting(case, case.new)
        if case.new.required_nodes > 1 or not nodes or len(case.cluster.groups) > 1:
            continue
        case.rules.units = {}
        headroom = CountedTolerance(case.state, case.rules, watched(case), case.context.kernels)
        speculation = headroom.speculation(0)
        if speculation is None or not speculation.suits(case.new):
            continue
        path = [(another(case.new, number), chance.choice(nodes)) for number in range(4)]
        guessed, doubted = rehearsed(speculation, case, path)
        believed = speculation.confirmed()
        plainly = headroom_of(case)
        assert all(headroom.tolerates(case.new, i) is plainly.tolerates(case.new, i) for i in nodes)
        if believed is None:
            continue
        for new, node in path[:believed]:
            assert kept(case, new, node), seed
            case.state.place(new, (node,))
        if believed < guessed or doubted:
            assert not kept(case, *path[believed]), seed
        counts[True] += believed
        counts[False] += believed < guessed or doubted
    assert min(counts[True], counts[False]) > 5


def rehearsed(
    speculation: Speculation, case: Case, path: list[tuple[Instance, int]]
) -> tuple[int, bool]:
    """Return how many placements of `path` were predicted; and whether the next is known to be
    wrong.
    """
    speculation.start()
    found, doubted = 0, False
    with case.state.trial():
        for new, node in path:
            if node not in fitting(case, new):
                break
            doubted = not speculation.expect(new, node, ())
            if doubted:
                break
            case.state.place(new, (node,))
            speculation.placed(new, node)
            found += 1
    speculation.end()
    return found, doubted


def kept(case: Case, new: Instance, node: int) -> bool:
    """Return whether the rules accept `new` on `node`, by simulating every failure."""
    before = {one for one in watched(case) if tolerates(case, *one)}
    with case.state.trial():
        case.state.place(new, (node,))
        after = {one for one in watched(case) if tolerates(case, *one)}
    if case.rules.strict:
        return after.issuperset(watched(case))
    own = case.cluster.nodes[node].group.nodes
    return after.issuperset({one for one in before if one[0] in own})


@LABELLED
@pytest.mark.parametrize("mode", MODES)
def test_headroom_with_undecided_failures_simulated_equals_the_simulation(
    mode: str, labelled: bool
) -> None:
    """If counting does not decide, the simulated result is correct, also after placements."""
    counts: Counter[bool | None] = Counter()
    for seed in seeds(100, 500, 1000):
        case, chance = tight(seed, mode, labelled), Random(seed)
        if case.new.required_nodes > 1:
            continue
        case.rules.units = {}
        headroom = CountedTolerance(case.state, case.rules, watched(case), case.context.kernels)
        for number in range(3):
            nodes = fitting(case, case.new)
            new = another(case.new, number)
            for node in nodes:
                found = headroom.allows(new, node)
                counts[found] += 1
                if found is not None:
                    assert found is kept(case, new, node), (seed, number, node)
            if not nodes:
                break
            node = chance.choice(nodes)
            case.state.place(new, (node,))
            headroom.placed([(new, (node,))])
    assert min(counts[True], counts[False]) > 20


def test_counting_while_nodes_fill_equals_a_new_one() -> None:
    """While nodes fill up, updated counts give the results of new counts for all failures."""
    seen = set()
    for seed in range(8):
        chance = Random(seed)
        document = cluster(4, memory=400, disk=4000)
        state = State(read_cluster(document, Reading(static_kvm_memory=0)))
        group, rules = state.cluster.groups[0], Rules("strict", None)
        kept = GroupCounting(state, rules, group, [(i,) for i in range(4)])
        for number in range(12):
            one, node = newcomer(chance, number), chance.randrange(4)
            if not kept.counts(one):
                continue
            fresh = GroupCounting(state, rules, group, [(i,) for i in range(4)])
            assert not fresh.intricate
            for failing in range(4):
                other = newcomer(chance, 100)
                expected = fresh.tolerates_failure((failing,), other, failing)
                assert kept.tolerates_failure((failing,), other, failing) is expected, (
                    seed,
                    number,
                )
                seen.add(expected)
            state.place(one, (node,))
            kept.placed([(one, (node,))])
    assert seen == {True, False, None}
