"""Test N+1 for nodes that fail together, compared with brute force over all placements.

A failure is a set of nodes, such as the nodes of a rack or of one power supply.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from random import Random

import pytest

from iallocator.model.columns import MEMORY
from iallocator.model.moves import Move
from iallocator.model.state import State
from iallocator.n1 import Failure, Rules, simulation
from iallocator.n1.counting import GroupCounting
from iallocator.n1.simulation import Simulation
from iallocator.n1.tolerance import FailureTolerance
from tests.builders import Json, allocate, cluster, instance

from .tight import Case, context_of

Lost = tuple[float, float]

RACKS: dict[str, list[Failure]] = {
    "pairs": [(0, 1), (2, 3), (4, 5)],
    "across groups": [(0, 3), (1, 4), (2, 5)],
    "overlapping": [(0, 1), (1, 2), (2,), (3, 4)],
}
KINDS = ("rbd", "drbd", "plain", "mixed")


def scenario(rng: Random, kind: str) -> Case:
    """Return two groups of three small nodes, with instances of the disk template `kind`."""
    homes = {f"node{k}": "a" if k <= 3 else "b" for k in range(1, 7)}
    memory = rng.choice((100, 150, 250))
    residents: dict[str, Json] = {}
    for name, group in homes.items():
        left = memory * rng.choice((0.3, 0.6, 0.8))
        for size in rng.choices((10, 20, 30, 50), k=rng.choice((1, 2, 3))):
            template = rng.choice(("rbd", "drbd", "plain")) if kind == "mixed" else kind
            nodes = [name]
            if template == "drbd":
                nodes.append(rng.choice([n for n, g in homes.items() if g == group and n != name]))
            if size < left:
                left -= size
                residents[f"i{len(residents)}"] = instance(
                    *nodes, memory=size, disk=10, disk_template=template
                )
    made = cluster({"a": 3, "b": 3}, memory=memory, disk=10**6, cpus=640, instances=residents)
    template = rng.choice(("rbd", "drbd", "plain")) if kind == "mixed" else kind
    size = rng.choice((10, 30, 60))
    return context_of(allocate(made, memory=size, disk=10, disk_template=template), "off")


def least_lost(state: State, failure: Failure) -> Lost:
    """Return the least number of instances, and the least MiB, that are lost after `failure`."""
    nodes = state.cluster.nodes
    free = {i: int(state.columns[MEMORY][i]) - 1 for i in range(len(nodes)) if i not in failure}
    items: list[tuple[int, list[int]]] = []
    gone: list[int] = []
    for index in failure:
        for one in state.primaries[index].values():
            where = state.where[one.name]
            own = nodes[index].group
            targets = [where[1]] if one.needs_secondary else own.nodes
            allowed = [t for t in targets if t in free]
            (items.append((one.memory, allowed)) if allowed else gone.append(one.memory))
    items.sort(key=lambda item: (len(item[1]), -item[0]))
    fewest = least = None
    for count in range(len(items) + 1):
        for out in combinations(range(len(items)), count):
            lost = sum(items[k][0] for k in out)
            if (fewest is None or least is None or lost < least) and _fits(
                [one for k, one in enumerate(items) if k not in out], free
            ):
                fewest = count if fewest is None else fewest
                least = lost if least is None else min(least, lost)
    assert fewest is not None
    assert least is not None
    return fewest + len(gone), least + sum(gone)


def _fits(items: list[tuple[int, list[int]]], free: dict[int, int]) -> bool:
    """Return whether all items (MiB, nodes) fit into the free memory, by brute force."""
    if not items:
        return True
    (memory, targets), *rest = items
    return any(
        free[target] >= memory and _fits(rest, free | {target: free[target] - memory})
        for target in targets
    )


def tolerance_of(case: Case, rules: Rules) -> FailureTolerance:
    """Return the N+1 check for the whole cluster of `case`."""
    return FailureTolerance(case.state, rules)


def simulated(case: Case, rules: Rules, failure: Failure) -> bool:
    """Return whether `failure` is tolerated if instances restart one after the other."""
    played = Simulation(case.state, case.context.kernels, rules, range(len(case.cluster.nodes)))
    result = played.fail(failure) is None
    assert not result or least_lost(case.state, failure) == (0, 0)
    return result


def candidates(case: Case) -> Iterator[tuple[int, ...]]:
    """Yield nodes, primary first, that have memory for the new instance of `case`."""
    for primary in range(6):
        for secondary in (primary - primary % 3 + (primary + k) % 3 for k in (1, 2)):
            if case.state.columns[MEMORY][primary] > case.new.memory:
                yield (primary, secondary)[: case.new.required_nodes]


@pytest.mark.parametrize("racks", RACKS)
def test_state_of_failures_together_is_that_of_brute_force(racks: str) -> None:
    """N+1 of nodes that fail together equals brute force with `no-worse`, else the simulation."""
    seen: Counter[bool] = Counter()
    for seed in range(80):
        case = scenario(Random(f"{racks}/{seed}"), KINDS[seed % len(KINDS)])
        failing = RACKS[racks]
        exact = tolerance_of(case, Rules("no-worse", failures=failing))
        losses = exact.losses(failing)
        for failure in failing:
            lost = least_lost(case.state, failure)
            assert (losses[failure].instances, losses[failure].memory) == lost, (seed, failure)
            seen[lost == (0, 0)] += 1
        tolerated = [one for one in failing if least_lost(case.state, one) == (0, 0)]
        assert exact.tolerated(failing) == tolerated, seed
        for mode in ("no-new", "strict"):
            rules = Rules(mode, failures=failing)
            kept = [one for one in failing if simulated(case, rules, one)]
            assert tolerance_of(case, rules).tolerated(failing) == kept, (seed, mode)
    assert min(seen[True], seen[False]) > 3, seen


@pytest.mark.parametrize("racks", RACKS)
@pytest.mark.parametrize("mode", ["strict", "no-new", "no-worse"])
def test_check_of_a_move_counts_failures_together(mode: str, racks: str) -> None:
    """A new instance is accepted if its placement keeps joint failures tolerated.

    Brute force decides with `no-worse`, restarts in order with other modes.
    """
    seen: Counter[bool] = Counter()
    for seed in range(40):
        case = scenario(Random(f"{racks}/{seed}"), KINDS[seed % len(KINDS)])
        state, rules = case.state, Rules(mode, failures=RACKS[racks])
        for nodes in candidates(case):
            group = case.cluster.nodes[nodes[0]].group
            failing = rules.failing(case.cluster, group, range(6))
            lost = [least_lost(state, one) for one in failing]
            before = [simulated(case, rules, one) for one in failing]
            accepted = tolerance_of(case, rules).allows(Move(case.new, (), nodes))
            with state.trial():
                state.place(case.new, nodes)
                more = [least_lost(state, one) for one in failing]
                after = [simulated(case, rules, one) for one in failing]
            if mode == "no-worse":
                grown = any(b > a for now, then in zip(more, lost) for b, a in zip(now, then))
                assert not (accepted and grown), (seed, nodes)
                assert accepted or grown or any(map(any, lost)), (seed, nodes)
            else:
                expected = all(
                    now or (mode == "no-new" and not then) for now, then in zip(after, before)
                )
                assert accepted is expected, (seed, nodes)
            seen[accepted] += 1
    assert min(seen[True], seen[False]) > 3, seen


@pytest.mark.parametrize("racks", ["pairs", "overlapping"])
def test_failures_together_simulated_in_arrays_equal_one_by_one(
    racks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Joint failures within a group have the same results in arrays as one by one."""
    monkeypatch.setattr(simulation, "WORTH_ARRAYS", -1)
    seen: Counter[bool] = Counter()
    for seed in range(60):
        case = scenario(Random(f"arrays/{seed}"), "rbd" if seed % 2 else "drbd")
        rules = Rules("no-new", failures=RACKS[racks])
        for group in case.cluster.groups:
            failing = [one for one in RACKS[racks] if set(one) <= set(group.nodes)]
            lost = [one for one in failing if not simulated(case, rules, one)]
            played = Simulation(case.state, case.context.kernels, rules, range(6))
            assert sorted(played.lost(failing)) == lost, seed
            seen[bool(lost)] += 1
    assert min(seen[True], seen[False]) > 3, seen


@pytest.mark.parametrize("racks", RACKS)
@pytest.mark.parametrize("mode", ["strict", "no-new"])
def test_headroom_of_equal_instances_counts_failures_together(mode: str, racks: str) -> None:
    """The headroom for equal instances is kept: any accepted placement tolerates joint failures.

    Each instance is accepted as by the simulation.
    """
    seen: Counter[bool] = Counter()
    for seed in range(24):
        case = scenario(Random(f"{racks}/{seed}"), KINDS[seed % len(KINDS)])
        state, rules, rng = case.state, Rules(mode, failures=RACKS[racks]), Random(seed)
        tolerance = tolerance_of(case, rules)
        for number in range(3):
            new = case.new.as_template(case.new.template)
            new.name, new.order = f"new{number}", 1000 + number
            places = list(candidates(case))
            promised = tolerance.headroom(new, range(len(case.cluster.groups)))
            accepted = []
            for nodes in places:
                group = case.cluster.nodes[nodes[0]].group
                failing = rules.failing(case.cluster, group, range(6))
                before = [simulated(case, rules, one) for one in failing]
                with state.trial():
                    state.place(new, nodes)
                    after = [simulated(case, rules, one) for one in failing]
                expected = all(
                    now or (mode == "no-new" and not then) for now, then in zip(after, before)
                )
                assert tolerance.accepts(new, nodes) is expected, (seed, nodes)
                assert expected or not promised, (seed, nodes)
                seen[expected] += 1
                accepted += [nodes] * expected
            if not accepted:
                break
            nodes = rng.choice(accepted)
            state.place(new, nodes)
            tolerance.placed([(new, nodes)])
    assert min(seen[True], seen[False]) > 3, seen


SUPPLIES: list[Failure] = [(0, 1), (1, 2), (2, 3, 4), (5,), (6, 7)]
"""Sets of nodes of one group that fail together, by power supply."""


@pytest.mark.parametrize("kind", ["rbd", "plain"])
def test_counting_of_failures_together_equals_the_simulation(kind: str) -> None:
    """Counting decides joint failures as the simulation does, in arrays and one by one."""
    seen: Counter[object] = Counter()
    for seed in range(14):
        rng = Random(f"{kind}/{seed}")
        memory = rng.choice((80, 100, 150))
        held = {
            f"i{k}": instance(
                f"node{k % 8 + 1}",
                memory=rng.choice((10, 20, 30)),
                disk=10,
                disk_template=kind,
            )
            for k in range(rng.randrange(12, 24))
        }
        made = cluster(8, memory=memory, disk=10**6, cpus=640, instances=held)
        case = context_of(allocate(made, memory=20, disk=10, disk_template=kind), "off")
        state, rules = case.state, Rules("strict", failures=SUPPLIES)
        counting = GroupCounting(state, rules, case.cluster.groups[0], SUPPLIES)
        tolerance = tolerance_of(case, rules)
        assert counting.counts(case.new)
        assert not counting.intricate
        for number in range(4):
            new = case.new.as_template(case.new.template)
            new.name, new.order = f"new{number}", rng.choice((1000 + number, -1000 - number))
            places = [node for node in range(8) if counting.holds(new, node)]
            promised = counting.count(new)
            seen["promised"] += promised > 0
            for node in places:
                results = {one: counting.tolerates_failure(one, new, node) for one in SUPPLIES}
                open_ones = {one: kept for one, kept in results.items() if not kept}
                assert counting.not_tolerated(new, node) == open_ones, (seed, node)
                pairs = [(one, node) for one in SUPPLIES]
                assert counting.not_tolerated_with(None, -1, [])[0].keys() <= open_ones.keys()
                assert counting.not_tolerated_with(new, places[0], pairs)[1] == [*results.values()]
                lost = any(counting.loses(one, counting.sizes.of(new), node) for one in SUPPLIES)
                assert counting.certainly_lost(new, node) is lost, (seed, node)
                with state.trial():
                    state.place(new, (node,))
                    kept = {one: simulated(case, rules, one) for one in SUPPLIES}
                for one, found in results.items():
                    assert found is None or found is kept[one], (seed, node, one)
                    seen[found, len(one) > 1] += 1
                assert tolerance.accepts(new, (node,)) is all(kept.values()), (seed, node)
                assert all(kept.values()) or not promised, (seed, node)
            if not places:
                break
            node = rng.choice(places)
            state.place(new, (node,))
            counting.placed([(new, (node,))])
            tolerance.placed([(new, (node,))])
            fresh = GroupCounting(state, rules, case.cluster.groups[0], SUPPLIES)
            assert counting.count(new) == fresh.count(new), (seed, number)
            assert counting.not_tolerated(None, -1) == fresh.not_tolerated(None, -1), seed
    assert seen["promised"] > 3
    assert min(seen[found, True] for found in (True, False, None)) > 3, seen


@pytest.mark.parametrize("racks", RACKS)
def test_instances_not_restarted_after_failures_together_are_as_few_as_possible(racks: str) -> None:
    """The search finds the least number of instances that cannot be restarted.

    Nodes fail together. Restarts in order may restart fewer instances than brute force.
    """
    seen: Counter[bool] = Counter()
    for seed in range(60):
        case = scenario(Random(f"{racks}/{seed}"), KINDS[seed % len(KINDS)])
        tolerance = tolerance_of(case, Rules("no-new"))
        for failure in RACKS[racks]:
            fewest, _ = least_lost(case.state, failure)
            assert len(tolerance.unrestarted(failure)) == fewest, (seed, failure)
            one_by_one = tolerance.all_unrestarted(failure)
            assert len(one_by_one) >= fewest, (seed, failure)
            first = tolerance.first_unrestarted(failure)
            assert (first is None) is (not one_by_one), (seed, failure)
            seen[bool(fewest)] += 1
    assert min(seen[True], seen[False]) > 3, seen


@pytest.mark.parametrize("racks", RACKS)
@pytest.mark.parametrize("mode", ["strict", "no-new", "no-worse"])
def test_plan_is_compared_with_the_initial_failures_together(mode: str, racks: str) -> None:
    """With no-worse, a plan violates N+1 if a joint failure loses more than before the plan.

    With no-new, a failure that was tolerated before must stay tolerated; with strict, all failures
    must be tolerated.
    """
    seen: Counter[bool] = Counter()
    for seed in range(20):
        case = scenario(Random(f"{racks}/{seed}"), KINDS[seed % len(KINDS)])
        state, group = case.state, case.cluster.groups[0]
        rules = Rules(mode, failures=RACKS[racks], plan=True)
        failures = FailureTolerance(state, rules, group=group)
        failures.measure()
        failing, guard = failures.failing(), failures.comparison.guard()
        lost = [least_lost(state, one) for one in failing]
        before = [simulated(case, rules, one) for one in failing]
        for nodes in candidates(case):
            with state.trial():
                state.place(case.new, nodes)
                if mode == "no-worse":
                    now = [least_lost(state, one) for one in failing]
                    expected = [
                        one
                        for one, more, then in zip(failing, now, lost)
                        if any(b > a for b, a in zip(more, then))
                    ]
                else:
                    after = [simulated(case, rules, one) for one in failing]
                    expected = [
                        one
                        for one, now_kept, kept in zip(failing, after, before)
                        if not now_kept and (kept or mode == "strict")
                    ]
                assert sorted(failures.comparison.broken()) == sorted(expected), (seed, nodes)
                assert (failures.comparison.first_broken() is None) is (not expected), (seed, nodes)
                if mode != "strict":
                    assert guard.keeps() is (not expected), (seed, nodes)
            seen[bool(expected)] += 1
    assert min(seen[True], seen[False]) > 3, seen
