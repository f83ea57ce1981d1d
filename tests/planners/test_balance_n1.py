"""Test that `balance` keeps global N+1: a tolerated failure stays tolerated."""

from __future__ import annotations

from copy import deepcopy
from random import Random

import pytest

from iallocator.model.state import State
from iallocator.n1 import plan_rules
from iallocator.n1.tolerance import FailureTolerance
from tests.builders import Json, cluster, instance, rbd
from tests.command import json_of
from tests.model.make import model_of
from tests.n1.test_no_worse import lost_if, scenario
from tests.seeds import seeds

from .failures import intolerable, intolerable_in

SEEDS = seeds(10, 26, 34)


def _tight(seed: int) -> Json:
    """Return a cluster in which each node failure is barely tolerated, or barely not."""
    rng = Random(f"balance survival/{seed}")
    names = [f"node{k}" for k in range(1, rng.randint(3, 5) + 1)]
    free = dict.fromkeys(names, 8000)
    left = 8000 * (len(names) - 1) * rng.uniform(0.6, 1)
    sizes = rng.choice(((512, 1024, 2048), (1000, 3000), (700, 1500, 4000)))
    mirrored = rng.random() < 0.4
    instances = {}
    for k in range(60):
        home, secondary = rng.sample(names, 2)
        memory = rng.choice(sizes)
        if min(free[home], left) > memory:
            free[home] -= memory
            left -= memory
            drbd = mirrored and rng.random() < 0.5
            shared = {} if drbd else {"disk_template": "rbd"}
            places = (home, secondary) if drbd else (home,)
            instances[f"i{k}"] = instance(*places, memory=memory, **shared)
    return cluster(len(names), memory=8000, instances=instances)


def _balance(document: Json, *options: str) -> Json:
    return json_of("balance", "--min-gain=0", *options, document=document)


def _after(document: Json, plan: Json) -> set[str]:
    """Return the nodes with failures that are not tolerated after `plan`."""
    scenario = model_of(document)
    state = State(scenario)
    by_name = {node.name: node.index for node in scenario.nodes}
    instances = {one.name: one for one in scenario.instances}
    for move in plan["moves"]:
        one = instances[move["instance"]]
        state.remove(one, state.where[one.name])
        state.place(one, tuple(by_name[name] for name in move["to"]))
    return intolerable_in(state)


@pytest.mark.parametrize(
    "options",
    [
        (),
        pytest.param(("--cost=8",), marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_balance_keeps_every_tolerated_failure_tolerated(options: tuple[str, ...]) -> None:
    """`balance` keeps every tolerated failure tolerated; if strict, it leaves no other failure."""
    scores = dict.fromkeys(("no-new", "strict", "off"), 0.0)
    broken = moves = 0
    for seed in SEEDS:
        document = _tight(seed)
        before = intolerable(document)
        for mode in scores:
            plan = _balance(document, *options, f"--n1={mode}")
            scores[mode] += plan["scores"]["after"]
            moves += len(plan["moves"]) if mode == "strict" else 0
            after = _after(document, plan)
            broken += mode == "off" and not after <= before
            assert mode == "off" or after <= before, (seed, mode)
            assert mode != "strict" or not plan["moves"] or not after, seed
    assert broken > 0
    assert scores["off"] < min(scores["no-new"], scores["strict"])
    assert moves > 0


def test_balance_takes_the_next_best_move_where_the_best_breaks_n1() -> None:
    """If the best move of a step violates N+1, `balance` makes the next best move."""
    for seed in (20, 32, 50):
        document = _tight(seed)
        free = _balance(document, "--n1=off")["moves"]
        kept = _balance(document)["moves"]
        assert any(a != b for a, b in zip(free, kept)), seed


def test_balance_names_the_failure_that_prevents_moves() -> None:
    """If strict N+1 prevents all moves, the reason names the failing node and the instance."""
    homes = {"big": (1, 7900), "a": (2, 1000), "b": (2, 1000), "c": (3, 300), "d": (4, 300)}
    held = {name: rbd(f"node{home}", memory=memory) for name, (home, memory) in homes.items()}
    document = cluster(4, memory=8000, instances=held)
    assert _balance(document)["moves"]
    plan = _balance(document, "--n1=strict")
    assert plan["moves"] == []
    assert (
        "the failure of node1 would not be tolerated: big cannot be restarted"
        in plan["groups"][0]["reason"]
    )


def test_balance_checks_each_group_by_its_own_tags() -> None:
    """`balance` ignores N+1 in a group with the tag for that, but not in other groups."""
    for seed in SEEDS:
        document = _tight(seed)
        free = _balance(document, "--n1=off")
        if free["moves"] == _balance(document)["moves"]:
            continue
        (group,) = document["nodegroups"].values()
        group["tags"] = ["iallocator:n1:off"]
        assert _balance(document)["moves"] == free["moves"]
        assert _balance(document, "--n1=no-new")["moves"] != free["moves"]
        return
    raise AssertionError("N+1 makes no difference anywhere")


def test_balance_with_compat_hail_ignores_n1() -> None:
    """With --compat hail, `balance` does not check N+1, unless --n1 is given."""
    differs = 0
    for seed in SEEDS:
        document = _tight(seed)
        names = [
            {move["instance"] for move in _balance(document, *options)["moves"]}
            for options in (
                ("--compat=hail",), ("--compat=hail", "--n1=off"), ("--compat=hail", "--n1=no-new")
            )
        ]  # fmt: skip
        assert names[0] == names[1], seed
        differs += names[0] != names[2]
    assert differs > 0


@pytest.mark.parametrize("mode", ["no-new", "no-worse"])
def test_kept_tolerance_equals_the_simulation_after_every_move(mode: str) -> None:
    """After each random move, the updated bounds of N+1 equal the result of a simulation."""
    rejected = kept = 0
    for seed in SEEDS:
        scenario = model_of(_tight(seed))
        state, rng = State(scenario), Random(seed)
        failures = FailureTolerance(state, plan_rules(mode), group=scenario.groups[0])
        failures.measure()
        guard = failures.comparison.guard()
        for _ in range(30):
            one = rng.choice(scenario.instances)
            before = state.where[one.name]
            after = tuple(rng.sample(range(len(scenario.nodes)), len(before)))
            state.remove(one, before)
            state.place(one, after)
            expected = not failures.comparison.broken()
            assert guard.keeps() == failures.comparison.guard().keeps() == expected, seed
            if expected:
                kept += 1
                guard.moved()
            else:
                rejected += 1
                state.remove(one, after)
                state.place(one, before)
    assert min(kept, rejected) > 10


def test_balance_under_no_worse_moves_an_instance_off_an_offline_node_without_n1() -> None:
    """With --n1 no-worse, `balance` moves an instance off an offline node without memory for N+1.

    The instance is already lost on the offline node. It may use memory that no other instance needs
    for a failover.
    """
    residents = {
        "large": rbd("node1", memory=5000),
        "other": rbd("node2", memory=1900),
        "down": rbd("node3", memory=1000),
    }
    changes = {"node3": {"offline": True}}
    document = cluster(3, memory=8000, instances=residents, changes=changes)
    document["nodes"]["node2"] |= {"total_memory": 7500, "free_memory": 5600}
    plan = _balance(document, "--n1=no-worse")
    moves = [(one["instance"], one["to"]) for one in plan["moves"]]
    assert moves == [("down", ["node1"]), ("other", ["node1"]), ("large", ["node2"])]
    assert (
        "some instances that leave offline nodes could not be restarted if another node failed"
        in plan["groups"][0]["reason"]
    )
    document["nodes"]["node2"] |= {"total_memory": 9000, "free_memory": 7100}
    plan = _balance(document, "--n1=no-worse")
    assert plan["moves"][0]["instance"] == "down"
    assert "leave offline nodes" not in plan["groups"][0]["reason"]


@pytest.mark.parametrize("mode", ["no-new", "no-worse"])
def test_tolerance_of_two_states_is_that_of_each(mode: str) -> None:
    """The N+1 results kept for one state are not used for another state of equal size."""
    differed = 0
    for seed in seeds(3, 20):
        scenario, rng = model_of(_tight(seed)), Random(seed)
        group, states = scenario.groups[0], (State(scenario), State(scenario))
        kept = FailureTolerance(states[0], plan_rules(mode), group=group)
        kept.measure()
        for _ in range(3):
            found = []
            for state in states:
                moved = rng.choice(scenario.instances)
                count = len(moved.nodes)
                state.remove(moved, state.where[moved.name])
                state.place(moved, tuple(rng.sample(group.nodes, count)))
                found.append(kept.on(state).not_tolerated(kept.failing()))
                again = FailureTolerance(state, plan_rules(mode), group=group)
                assert found[-1] == again.not_tolerated(kept.failing())
            differed += found[0] != found[1]
    assert differed


# Default plans, checked by a plain search: no failure loses more after the plan than before.


COMMANDS = (
    "balance --min-gain=0",
    "squeeze --all --target-resources=0.5 --minimal-resources=0.1",
    "place --strategy=pacemaker-utilization",
)


def carried_out(document: Json, plan: Json) -> Json:
    """Return the cluster after the plan as a document; stopped instances use no memory."""
    done = deepcopy(document)
    for move in plan["moves"]:
        done["instances"][move["instance"]]["nodes"] = move["to"]
    for name, home in plan.get("placement", {}).items():
        if home is None:
            del done["instances"][name]
    for name in plan.get("nodes", ()) if "down" in (plan.get("action") or "") else ():
        done["nodes"][name]["drained"] = True
    return done


@pytest.mark.parametrize("template", ["rbd", "drbd", "mixed"])
def test_plan_by_default_leaves_no_failure_that_loses_more(template: str) -> None:
    """After a plan with default options, no node failure loses more instances or memory."""
    moved = 0
    for seed in seeds(2, 60):
        document = scenario(Random(f"plans/{template}/{seed}"), template)
        del document["request"]
        before = {name: lost_if(document, name) for name in document["nodes"]}
        for words in COMMANDS:
            done = carried_out(document, json_of(*words.split(), document=document))
            moved += done["instances"] != document["instances"]
            for name in (n for n, node in done["nodes"].items() if not node["drained"]):
                counts = zip(lost_if(done, name), before[name], strict=True)
                assert all(after <= first for after, first in counts), (seed, words, name)
    assert moved
