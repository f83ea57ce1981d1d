"""Test affinity constraints in plans of balance and squeeze."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests import builders
from tests.builders import Json
from tests.command import plan_of
from tests.constraints.scenarios import (
    held_after_units,
    homes_after,
    random_document,
    violated_hard,
)
from tests.model.make import model_of
from tests.seeds import seeds


def _plan(document: Json, command: str, *options: str) -> Json:
    """Return the plan of `command` for `document` after it has passed its verification."""
    return plan_of(command, document, *options)


def _unbalanced(tags: dict[str, list[str]], nodes: int = 3) -> Json:
    """Return a cluster with the instances a to d on node1; the other nodes have none."""
    instances = {
        name: builders.rbd("node1", memory=2048, tags=tags.get(name, [])) for name in "abcd"
    }
    return builders.cluster(nodes=nodes, memory=16384, instances=instances)


def test_balance_keeps_colocated_instances_together() -> None:
    """`balance` keeps two colocated instances on one node, and spreads all others."""
    pair = ["iallocator:colocate:must:web"]
    document = _unbalanced({"a": pair, "b": pair})
    plan = _plan(document, "balance")
    homes = homes_after(document, plan)
    assert homes["a"] == homes["b"]
    assert len({homes["a"], homes["c"], homes["d"]}) == 3


def test_balance_keeps_racks_apart() -> None:
    """`balance` does not move an instance to the rack of an instance that it is separated from."""
    apart = ["iallocator:separate:must:db:rack"]
    instances = {
        "a": builders.rbd("node1", memory=2048, tags=apart),
        "b": builders.rbd("node3", memory=1024, tags=apart, auto_balance=False),
        "big": builders.rbd("node1", memory=9216, auto_balance=False),
        "other": builders.rbd("node2", memory=4096, auto_balance=False),
    }
    document = builders.cluster(nodes=4, memory=16384, instances=instances)
    for number, name in enumerate(document["nodes"]):
        document["nodes"][name]["tags"] = [f"rack:{number // 2}"]
    free = _plan(document, "balance", "--tag-prefix=other:")
    assert homes_after(document, free)["a"] == "node4"
    kept = _plan(document, "balance")
    assert homes_after(document, kept)["a"] == "node2"


def test_balance_moves_instances_whose_constraint_cannot_be_satisfied() -> None:
    """A violated hard constraint does not keep an instance where it is.

    Twelve instances on node1 must be apart by rack, and there are two racks of four nodes.
    """
    apart = ["iallocator:separate:must:db:rack"]
    instances = {f"inst{k}": builders.rbd("node1", memory=1024, tags=apart) for k in range(12)}
    document = builders.cluster(nodes=8, memory=16384, instances=instances)
    for number, name in enumerate(document["nodes"]):
        document["nodes"][name]["tags"] = [f"rack:{number // 4}"]
    homes = homes_after(document, _plan(document, "balance"))
    counts = Counter(homes.values())
    first_rack = [counts[f"node{k}"] for k in (1, 2, 3, 4)]
    assert sorted(first_rack) == [2, 3, 3, 3]  # a second one in the other rack would violate more


def test_balance_weighs_a_soft_constraint_against_the_score() -> None:
    """`balance` keeps a soft constraint with a high penalty; with a low one it may violate it."""
    dear = ["iallocator:colocate:should:web:50"]
    cheap = ["iallocator:colocate:should:web:0.001"]
    document = _unbalanced(dict.fromkeys("abcd", dear))
    assert _plan(document, "balance")["moves"] == []
    document = _unbalanced(dict.fromkeys("abcd", cheap))
    plan = _plan(document, "balance")
    first = plan["moves"][0]
    assert len(first["broken"]) == 3
    assert all(text.endswith("costs 0.001") for text in first["broken"])
    assert "together with" in first["broken"][0]


def test_balance_moves_for_a_soft_constraint_alone() -> None:
    """`balance` repairs a violated soft constraint though the score without penalties rises."""
    apart = ["iallocator:separate:should:db:20"]
    instances = {
        "a": builders.rbd("node1", memory=2048, tags=apart),
        "b": builders.rbd("node1", memory=2048, tags=apart),
        "big": builders.rbd("node2", memory=4096, auto_balance=False),
    }
    document = builders.cluster(nodes=2, memory=16384, instances=instances)
    assert _plan(document, "balance", "--compat=hail")["moves"] == []
    plan = _plan(document, "balance")
    homes = homes_after(document, plan)
    assert homes["a"] != homes["b"]
    assert plan["scores"]["after"] < plan["scores"]["before"] - 15


def test_squeeze_keeps_separated_instances_apart() -> None:
    """`squeeze` keeps a node on if its instance is separated from those of all other nodes."""
    apart = ["iallocator:separate:must:db"]
    instances = {
        name: builders.rbd(f"node{k}", memory=1024, tags=apart)
        for k, name in enumerate("abc", start=1)
    }
    document = builders.cluster(nodes=4, memory=65536, cpus=64, instances=instances)
    for node in document["nodes"].values():
        node["tags"] = ["htools:standby:auto"]
    free = _plan(document, "squeeze", "--n1=off", "--tag-prefix=other:")
    assert len(free["switched_nodes"]) == 3
    kept = _plan(document, "squeeze")
    assert kept["switched_nodes"] == ["node4"]
    reasons = {entry["node"]: entry["reason"] for entry in kept["kept"]}
    assert "has no other place" in reasons["node2"], reasons


@pytest.mark.parametrize("command", ["balance", "squeeze"])
def test_no_plan_violates_a_satisfied_hard_constraint(command: str) -> None:
    """No move of a plan violates a hard constraint that was satisfied before.

    A colocation group is checked after its last move.
    """
    chances = random.Random(5)
    moves = bound = 0
    for _ in seeds(3, 25):
        document = random_document(chances)
        plan = _plan(document, command)
        homes = {name: one["nodes"][0] for name, one in document["instances"].items()}
        held = violated_hard(document, homes)
        for after in held_after_units(homes, plan):
            now = violated_hard(document, after)
            assert now <= held, now - held
            held = now
        moves += len(plan["moves"])
        bound += sum(bool(document["instances"][m["instance"]]["tags"]) for m in plan["moves"])
    assert moves > 5
    assert bound > 1


def test_order_of_keys_changes_no_plan() -> None:
    """`balance` and `squeeze` make equal plans for any order of keys in the document."""
    chances = random.Random(11)
    for _ in seeds(2, 10):
        document = random_document(chances)
        plan = _plan(document, "balance")
        for part in ("nodes", "instances"):
            names = list(document[part])
            chances.shuffle(names)
            document[part] = {name: document[part][name] for name in names}
        assert _plan(document, "balance") == plan


def test_scan_after_moves_equals_a_new_one() -> None:
    """After moves, the scan of balance with soft constraints equals a new scan."""
    from iallocator.constraints import relations_of
    from iallocator.model.node_view import Capacities
    from iallocator.model.state import State
    from iallocator.planners.balance.move_kinds import MoveRules
    from iallocator.planners.balance.scan.affinity import AffinityCosts
    from iallocator.planners.balance.scan.scan import MoveScan
    from iallocator.planners.eligible import movable

    chances = random.Random(3)
    steps = 0
    for _ in range(25):
        cluster = model_of(random_document(chances))
        group = cluster.groups[0]
        fixed = Capacities(cluster.nodes)
        state = State(cluster)
        relations = relations_of(cluster)
        instances = movable(cluster, group)

        def affinity() -> AffinityCosts | None:
            if relations is None:  # noqa: B023
                return None
            return AffinityCosts(relations, relations.live(state))  # noqa: B023

        scan = MoveScan(state, group.nodes, fixed, instances, MoveRules(), affinity())
        for _ in range(6):
            found = scan.best()
            if found is None:
                break
            found.moves[0].apply(state)
            scan.follow(found.nodes)
            fresh = MoveScan(state, group.nodes, fixed, instances, MoveRules(), affinity())
            one, other = scan.best(), fresh.best()
            assert scan.score() == pytest.approx(fresh.score(), abs=1e-9)
            assert (one is None) == (other is None)
            if one is not None and other is not None:
                assert one.score == pytest.approx(other.score, abs=2e-8)
            assert found.score == pytest.approx(scan.score(), abs=2e-8)
            steps += 1
    assert steps > 60
