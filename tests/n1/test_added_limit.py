"""Test that a limit added to the table applies in every N+1 mode, compared with brute force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from random import Random

import pytest

from iallocator.constraints.checks import Check, Lack
from iallocator.limits import node as node_limits
from iallocator.limits.node import PRIMARY, SECONDARY
from iallocator.model.columns import COLUMNS, MEMORY
from iallocator.model.moves import Move
from iallocator.n1 import MOVED_WITHIN, Rules, plan_rules
from iallocator.n1.tolerance import FailureTolerance
from iallocator.n1.unrestarted import UnrestartedSearch
from iallocator.options.settings import Settings
from iallocator.planners.outcome import Failures
from iallocator.planners.plan_limits import PlanLimits
from iallocator.planners.restarts import Restarts
from tests.builders import Json, allocate, cluster, instance

from .tight import Case, alone, context_of

PRIMARIES, SECONDARIES = COLUMNS.index("primaries"), COLUMNS.index("secondaries")
MOST = 4
"""Number of primaries that a node may have by the added limit; for `BOTH`, of instances."""

FEW = Check(
    "FailMem",
    lambda before, after, _: after.primaries > MOST,
    "memory",
    Lack("places for primaries", "", lambda before, after, _: after.primaries - MOST),
)
BOTH = Check(
    "FailMem",
    lambda before, after, _: after.primaries + after.secondaries > MOST,
    "memory",
    Lack(
        "places for instances", "",
        lambda before, after, _: after.primaries + after.secondaries - MOST,
    ),
)  # fmt: skip
"""A limit on the number of instances of a node, in both roles.

A drbd instance that fails over stays within the limit, as it counts on its secondary before.
"""

Lost = tuple[int, int]


@pytest.fixture(autouse=True)
def few_primaries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add to the table a hard limit of `MOST` primaries on a node, for all instances."""
    monkeypatch.setattr(PRIMARY, "checks", (*PRIMARY.checks, FEW))
    monkeypatch.setattr(node_limits, "_KNOWN", {})


def scenario(rng: Random, kind: str, most: int = 5 * MOST) -> Case:
    """Return four nodes with memory for about `MOST` instances each.

    `most` limits the instances of a node in both roles; `kind` is their disk template.
    """
    names = [f"node{k}" for k in range(1, 5)]
    memory = rng.choice((1000, 1500, 2500))
    residents: dict[str, Json] = {}
    for name in names:
        left = memory
        for size in rng.choices((100, 200, 300, 500), k=rng.choice((1, 2, 3, 3, 4))):
            template = rng.choice(("rbd", "drbd", "plain")) if kind == "mixed" else kind
            nodes = [name]
            if template == "drbd":
                nodes.append(rng.choice([other for other in names if other != name]))
            held = [node for one in residents.values() for node in one["nodes"]]
            if size < left and all(held.count(node) < most for node in nodes):
                left -= size
                residents[f"i{len(residents)}"] = instance(
                    *nodes, memory=size, disk=10, disk_template=template
                )
    made = cluster(4, memory=memory, disk=10**6, cpus=640, instances=residents)
    template = rng.choice(("rbd", "drbd", "plain")) if kind == "mixed" else kind
    size = rng.choice((100, 300) if template == "plain" else (0, 100, 300))
    return context_of(allocate(made, memory=size, disk=10, disk_template=template), "off")


def least_lost(case: Case, failing: tuple[int, ...], both: bool = False) -> Lost:
    """Return the least number of instances, and the least MiB, that are lost if `failing` fail.

    The nodes `failing` fail at once. With `both`, the added limit is `BOTH`.
    """
    columns = case.state.columns
    state = case.state
    room = {
        index: (
            columns[MEMORY][index] - 1,
            MOST - columns[PRIMARIES][index] - both * columns[SECONDARIES][index],
        )
        for index in range(4)
        if index not in failing
    }
    items: list[tuple[int, list[int], int]] = []
    gone: list[int] = []
    for index in failing:
        for one in state.primaries[index].values():
            nodes = state.where[one.name]
            targets = [nodes[1]] if one.template == "drbd" else list(room)
            allowed = [target for target in targets if target in room]
            memory = int(one.memory) if one.uses_memory else 0
            places = 0 if both and one.template == "drbd" else 1
            (items.append((memory, allowed, places)) if allowed else gone.append(memory))
    items.sort(key=lambda item: (len(item[1]), -item[0]))
    fewest = least = None
    for count in range(len(items) + 1):
        for out in combinations(range(len(items)), count):
            lost = sum(items[k][0] for k in out)
            if (fewest is None or least is None or lost < least) and _fits(
                [one for k, one in enumerate(items) if k not in out], dict(room)
            ):
                fewest = count if fewest is None else fewest
                least = lost if least is None else min(least, lost)
    assert fewest is not None
    assert least is not None
    return fewest + len(gone), least + sum(gone)


def _fits(items: list[tuple[int, list[int], int]], room: dict[int, tuple[float, float]]) -> bool:
    """Return whether all items (MiB, nodes, slots) fit on the nodes, by brute force."""
    if not items:
        return True
    (memory, targets, taken), *rest = items
    for target in targets:
        free, places = room[target]
        if free >= memory and places >= taken:
            left = room | {target: (free - memory, places - taken)}
            if _fits(rest, left):
                return True
    return False


def candidates(case: Case) -> Iterator[tuple[int, ...]]:
    """Yield the nodes, primary first, that have capacity for the new instance of `case`."""
    state, new = case.state, case.new
    for primary in range(4):
        nodes = (primary, (primary + 1) % 4)[: new.required_nodes]
        memory = new.memory if new.uses_memory else 0
        if state.columns[MEMORY][primary] > memory and state.columns[PRIMARIES][primary] < MOST:
            yield nodes


def tolerated(case: Case, rules: Rules) -> list[bool]:
    """Return whether the failure of each node is tolerated, by a new simulation."""
    found = []
    for index in range(4):
        played = case.simulation_of(rules).fail((index,)) is None
        assert not played or least_lost(case, (index,)) == (0, 0)
        found.append(played)
    return found


@pytest.mark.parametrize("kind", ["rbd", "drbd", "plain", "mixed"])
@pytest.mark.parametrize("mode", ["strict", "no-new", "no-worse"])
def test_check_equals_brute_force(kind: str, mode: str) -> None:
    """With an added limit, N+1 accepts a new instance on the nodes that brute force accepts.

    The check of an allocation and the check of capacity are compared.
    """
    reported: Counter[bool] = Counter()
    for seed in range(25):
        case = scenario(Random(f"added/{kind}/{seed}"), kind)
        state, rules = case.state, case.context.rules(mode)
        filling = FailureTolerance(state, Rules(mode), kernels=case.context.kernels)
        before = tolerated(case, rules)
        lost = [least_lost(case, (index,)) for index in range(4)]
        for nodes in candidates(case):
            check = case.context.tolerance(case.context.all_nodes(), rules)
            accepted = check.allows(Move(case.new, (), nodes))
            with state.trial():
                state.place(case.new, nodes)
                after = tolerated(case, rules)
                more = [least_lost(case, (index,)) for index in range(4)]
            if mode == "no-worse":
                grown = any(b > a for now, then in zip(more, lost) for b, a in zip(now, then))
                assert not (accepted and grown), (seed, nodes)
                assert accepted or grown or any(map(any, lost)), (seed, nodes)
            else:
                expected = all(now or (mode == "no-new" and not then)
                               for now, then in zip(after, before))  # fmt: skip
                assert accepted is expected, (seed, nodes)
                assert filling.accepts(case.new, nodes) is expected, (seed, nodes)
            reported[accepted] += 1
    assert min(reported[True], reported[False]) > 1, reported


@pytest.mark.parametrize("kind", ["rbd", "drbd", "plain", "mixed"])
def test_simultaneous_failures_equal_brute_force(kind: str) -> None:
    """With an added limit, the loss for each pair of nodes is the least by brute force."""
    reported: Counter[bool] = Counter()
    for seed in range(12):
        case = scenario(Random(f"joint/{kind}/{seed}"), kind)
        failures = UnrestartedSearch(case.state, Rules("no-new"))
        for pair in combinations(range(4), 2):
            found = failures.lost(pair)
            assert len(found) == least_lost(case, pair)[0], (seed, pair)
            assert not (failures.certainly_tolerates(pair) and found), (seed, pair)
            reported[bool(found)] += 1
    assert min(reported[True], reported[False]) > 1 or kind == "drbd", reported


@pytest.mark.parametrize("kind", ["drbd", "mixed"])
def test_instance_that_cannot_fail_over_keeps_its_place_as_secondary(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If two nodes fail, an instance that cannot fail over still counts on its secondary.

    The added limit is on the number of instances in both roles.
    """
    for role in (PRIMARY, SECONDARY):
        monkeypatch.setattr(role, "checks", (*(c for c in role.checks if c is not FEW), BOTH))
    for seed in range(125, 135):
        case = scenario(Random(f"joint/{kind}/{seed}"), kind, most=MOST)
        failures = UnrestartedSearch(case.state, Rules("no-new"))
        for pair in combinations(range(4), 2):
            expected = least_lost(case, pair, both=True)[0]
            assert len(failures.lost(pair)) == expected, (seed, pair)


@pytest.mark.parametrize("kind", ["rbd", "drbd", "plain", "mixed"])
@pytest.mark.parametrize("mode", ["strict", "no-new", "no-worse"])
def test_plan_keeps_n1_by_brute_force(kind: str, mode: str) -> None:
    """With an added limit, N+1 of plans gives the results of brute force.

    Checks of the whole group and of the changed nodes alone agree.
    """
    reported: Counter[bool] = Counter()
    for seed in range(20):
        case = scenario(Random(f"plan/{kind}/{seed}"), kind)
        group, rules = case.cluster.groups[0], Rules("no-worse" if mode == "no-worse" else "no-new")
        failures = FailureTolerance(case.state, plan_rules(mode), group=group)
        failures.measure()
        guard = failures.comparison.guard()
        before = tolerated(case, rules)
        lost = [least_lost(case, (index,)) for index in range(4)]
        for nodes in candidates(case):
            with case.state.trial():
                case.state.place(case.new, nodes)
                after = tolerated(case, rules)
                more = [least_lost(case, (index,)) for index in range(4)]
                left = failures.comparison.broken()
                kept = guard.keeps()
            if mode == "no-worse":
                grown = [i for i in range(4) if any(b > a for b, a in zip(more[i], lost[i]))]
                expected = grown
            else:
                expected = [i for i in range(4) if not after[i] and (before[i] or mode == "strict")]
            assert sorted(left) == alone(expected), (seed, nodes)
            assert kept is not bool(left) or mode == "strict", (seed, nodes)
            reported[bool(left)] += 1
    assert min(reported[True], reported[False]) > 1, reported


@pytest.mark.parametrize("kind", ["rbd", "drbd", "plain", "mixed"])
@pytest.mark.parametrize("mode", ["strict", "no-new", "no-worse"])
def test_verifier_rejects_the_failures_that_brute_force_rejects(kind: str, mode: str) -> None:
    """With an added limit, the verifier rejects no failure that brute force tolerates.

    If hail's order of restarts fails and another one succeeds, the verifier may accept the failure.
    """
    found: Counter[bool] = Counter()
    for seed in range(20):
        case = scenario(Random(f"verifier/{kind}/{seed}"), kind)
        group, rules = case.cluster.groups[0], plan_rules("no-new")
        settings = Settings()
        settings.n1 = mode
        failures = Failures(PlanLimits(settings))
        failures.begin(case.state)
        before = tolerated(case, rules)
        first = Restarts(case.state, rules, group.nodes)
        for index in range(4):
            assert (first.succeed((index,), by_score_only=True) is not None) is before[index]
        lost = [least_lost(case, (index,)) for index in range(4)]
        for nodes in candidates(case):
            with case.state.trial():
                case.state.place(case.new, nodes)
                broken = failures.lost(case.state, group, MOVED_WITHIN)
                after = tolerated(case, rules)
                more = [least_lost(case, (index,)) for index in range(4)]
            for index in range(4):
                rejected = (index,) in broken
                if mode == "no-worse":
                    grown = any(b > a for b, a in zip(more[index], lost[index]))
                    assert rejected is grown, (seed, nodes, index)
                    continue
                required = before[index] or mode == "strict"
                assert not rejected or (required and not after[index]), (seed, nodes, index)
                assert rejected or not required or more[index] == (0, 0), (seed, nodes, index)
            found[bool(broken)] += 1
    assert min(found[True], found[False]) > 1, found


@pytest.mark.parametrize("kind", ["rbd", "drbd"])
def test_simulation_in_arrays_equals_one_by_one(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an added limit, a simulation that may use arrays finds what one without arrays finds.

    Both find the failures that lose instances. Arrays handle memory alone, so the simulation must
    not use them.
    """
    monkeypatch.setattr("iallocator.n1.simulation.WORTH_ARRAYS", 0)
    monkeypatch.setattr("iallocator.n1.simulation.WORTH_LOADED_ARRAYS", 0)
    for seed in range(30):
        case = scenario(Random(f"arrays/{kind}/{seed}"), kind)
        rules = Rules("no-new")
        lost = [index for index, alive in enumerate(tolerated(case, rules)) if not alive]
        assert list(case.simulation_of(rules).lost(alone(range(4)))) == alone(lost), seed


def test_failover_plan_by_memory_alone_is_not_made() -> None:
    """With an added limit, no failover plan is made from memory alone."""
    case = scenario(Random("proofs"), "rbd")
    assert (
        FailureTolerance(case.state, Rules("no-worse")).failover_plan(case.cluster.groups[0])
        is None
    )


@pytest.mark.parametrize(("free", "lost"), [(6, 0), (2, 2)])
def test_spindles_decide_where_memory_and_disk_suffice(free: int, lost: int) -> None:
    """N+1 for two nodes checks free spindles, although memory and disk are sufficient.

    The disks of the failed nodes need four spindles. The only other node has `free` spindles.
    """
    held = {
        f"i{k}{j}": instance(
            f"node{k}", memory=100, disk_template="plain", disks=[{"size": 10, "spindles": 1}]
        )
        for k in range(1, 3)
        for j in range(2)
    }
    made = cluster(3, memory=10**5, disk=10**6, cpus=64, instances=held)
    for name, node in made["nodes"].items():
        node["ndparams"] = {"exclusive_storage": True, "spindle_count": 1}
        node["total_spindles"] = 8
        node["free_spindles"] = free if name == "node3" else 6
    case = context_of(allocate(made, memory=100, disk=10, disk_template="plain"), "off")
    failures = UnrestartedSearch(case.state, Rules("no-new"))
    assert len(failures.lost((0, 1))) == lost
    assert failures.certainly_tolerates((0, 1)) is False
