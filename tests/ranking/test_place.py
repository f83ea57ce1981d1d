"""Test what `place` does beyond Pacemaker's rules: limits, steps, scores and N+1."""

from __future__ import annotations

import json
import random
from pathlib import Path
from random import Random
from typing import Any

import pytest

from iallocator.cli import answer, main
from iallocator.commands.start import run_command
from iallocator.errors import UsageError
from iallocator.limits.node import HARD_LIMITS, PRIMARY, SECONDARY, checks_for
from iallocator.model.node_view import NodeView, capacities
from iallocator.model.state import State
from iallocator.placement.evaluator import Evaluator
from iallocator.placement.move_check import MoveChecks
from iallocator.planners.place.scheduler import SchedulingPass
from iallocator.scoring.scalar import score_of
from tests import builders
from tests.builders import Json, allocate_rbd, as_bytes, cluster, instance, rbd
from tests.command import json_of
from tests.constraints.scenarios import random_document
from tests.model.make import model_of

from .pacemaker import KINDS


def place(document: Json, kind: str = "balanced", *options: str) -> Json:
    """Return the plan of `place` with the Pacemaker strategy `kind`."""
    return json_of("place", f"--strategy=pacemaker-{kind}", *options, document=document)


def scenario(seed: int) -> Json:
    """Return a random, nearly full cluster of two groups."""
    random = Random(seed)
    instances = {}
    for number in range(random.randint(6, 16)):
        group = random.choice([["node1", "node2", "node3"], ["node4", "node5"]])
        template = random.choice(["drbd", "rbd", "rbd", "plain"])
        where = random.sample(group, 2 if template == "drbd" else 1)
        instances[f"i{number}"] = instance(
            *where, disk_template=template, memory=random.choice([256, 512, 1024]),
            admin_state=random.choice(["up", "up", "up", "down"]),
            auto_balance=random.random() < 0.9,
        )  # fmt: skip
    state = random.choice([{}, {"drained": True}, {"offline": True}])
    return cluster(
        {"default": 3, "annex": 2}, memory=8192, instances=instances, changes={"node2": state}
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(8))
def test_places_are_within_hard_limits_and_reached_step_by_step(kind: str, seed: int) -> None:
    """`place` keeps hard limits and groups, and its steps lead to the placement."""
    document = scenario(seed)
    found = place(document, kind, "--n1=off")
    model = model_of(document)
    index = {node.name: node.index for node in model.nodes}
    state = State(model)
    ends = {}
    for entry in found["instances"]:
        one = next(i for i in model.instances if i.name == entry["instance"])
        nodes = tuple(index[name] for name in entry["to"])
        if entry["from"] == entry["to"] or not (one.kind.planners_move and one.auto_balance):
            assert entry["to"] in ([], entry["from"])
            continue  # it uses what it uses now
        ends[one.name] = nodes
        assert {model.nodes[i].group for i in nodes} <= {model.group_of(one)}
        state.remove(one, state.where[one.name])
    for one in model.instances:
        if not ends.get(one.name):
            continue
        views = [
            NodeView(state.row(i), capacities(model.nodes[i]), state.reserved[i])
            for i in ends[one.name]
        ]
        state.place(one, ends[one.name])
        for role, (i, before) in enumerate(zip(ends[one.name], views)):
            after = NodeView(state.row(i), capacities(model.nodes[i]), state.reserved[i])
            checks = checks_for(SECONDARY if role else PRIMARY, one, HARD_LIMITS)
            assert not any(c.fails(before, after, one) for c in checks)
            assert model.nodes[i].online
    reached = {n: list(i["nodes"]) for n, i in document["instances"].items()}
    for step in found["transition"]["steps"]:
        if "instance" in step and step["to"]:
            reached[step["instance"]] = step["to"]
    left = {one["name"] for one in found["transition"]["left"]}
    for entry in found["instances"]:
        if entry["to"] and entry["instance"] not in left:
            assert reached[entry["instance"]] == entry["to"]


def test_moves_are_elementary_and_lead_to_the_placement() -> None:
    """The moves of `place` for drbd create a secondary first, then fail over."""
    document = cluster(nodes=4, instances={"mail": instance("node1", "node2", memory=512)})
    tags = ["iallocator:score:node1:-INFINITY", "iallocator:score:node2:-INFINITY"]
    document["instances"]["mail"]["tags"] = tags
    found = place(document)
    assert found["placement"] == {"mail": "node3"}
    (move,) = found["moves"]
    assert (move["from"], move["to"]) == (["node1", "node2"], ["node3", "node4"])
    assert move["move"] == "r:node3 f r:node4"
    assert found["job_sets"] == [[0]]


@pytest.mark.parametrize("seed", range(3))
def test_moves_have_the_score_of_their_group_after_each_of_them(seed: int) -> None:
    """Each move of `place` states the score of the group after it."""
    document = scenario(seed)
    model = model_of(document)
    index, state = {node.name: node.index for node in model.nodes}, State(model)
    moves = place(document, "balanced", "--n1=off")["moves"]
    for move in moves:
        one = next(i for i in model.instances if i.name == move["instance"])
        state.remove(one, state.where[one.name])
        state.place(one, tuple(index[name] for name in move["to"]))
        group = model.nodes[index[move["from"][0]]].group
        assert move["score"] == pytest.approx(score_of(state, group.nodes), abs=1e-6)
    assert moves


def test_placement_is_in_the_order_of_the_document_with_new_ones_last() -> None:
    """`place` places instances in the order of the document, new instances last."""
    instances = {name: rbd("node1") for name in ("zebra", "ant")}
    found = place(allocate_rbd(cluster(nodes=3, instances=instances), name="bee"))
    assert list(found["placement"]) == ["zebra", "ant", "bee"]
    assert [entry["instance"] for entry in found["instances"]] == ["zebra", "ant", "bee"]


def test_separated_instances_stay_apart() -> None:
    """`place` keeps separated instances apart, whatever the ranks of nodes are."""
    tags = ["iallocator:separate:must:web"]
    instances = {name: rbd("node1", tags=tags) for name in ("a", "b", "c")}
    found = place(cluster(nodes=2, instances=instances), "minimal", "--n1=off")
    assert found["placement"] == {"a": "node1", "b": "node2", "c": None}
    assert "must be apart from" in found["instances"][2]["reason"]


def test_failures_stay_tolerated_in_the_mode_of_n1() -> None:
    """`place` leaves out an instance if N+1 requires it in the mode strict, not in no-new."""
    instances = {f"i{n}": rbd(f"node{1 + n % 2}", memory=2500) for n in range(4)}
    document = cluster(nodes=2, memory=8000, instances=instances)
    full = {"i0": "node1", "i1": "node1", "i2": "node1", "i3": "node2"}
    assert place(document, "minimal", "--n1=off")["placement"] == full
    assert place(document, "minimal")["placement"] == full
    strict = place(document, "minimal", "--n1=strict")
    assert strict["placement"] == full | {"i3": None}
    assert "FailN1" in strict["instances"][3]["reason"]


def test_tolerated_failure_stays_tolerated() -> None:
    """`place` keeps a tolerated failure tolerated.

    The strategy `minimal` would use node1 for both instances; then the new one could not fail over
    to node2.
    """
    document = cluster(nodes=2, memory=8000, instances={"a": rbd("node1", memory=3000)})
    document = allocate_rbd(document, memory=4990)
    assert place(document, "minimal", "--n1=off")["placement"] == {"a": "node1", "new": "node1"}
    document["nodes"]["node2"] |= {"total_memory": 7000, "free_memory": 7000}
    assert place(document, "minimal")["placement"] == {"a": "node1", "new": None}


def test_place_with_a_strategy_that_is_not_of_pacemaker_is_an_error(tmp_path: Path) -> None:
    """`place` rejects a strategy that is not Pacemaker's, and names the four that are."""
    path = tmp_path / "document.json"
    path.write_bytes(as_bytes(cluster(nodes=1)))
    with pytest.raises(UsageError, match="pacemaker-default, -utilization"):
        run_command("place", ["place", "--strategy=score", str(path)])


def test_tag_sets_the_strategy_of_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tag for the strategy has effect on `place` as on requests."""
    path = tmp_path / "document.json"
    document = cluster(nodes=1, tags=("iallocator:strategy:minimal",))
    path.write_bytes(as_bytes(document))
    assert run_command("place", ["place", "--json", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["strategy"] == "pacemaker-minimal"


def test_cyclic_comparison_of_free_capacities_is_reported() -> None:
    """`place` reports a cycle of free capacities, and decides by name.

    Node b has more than c, c has more than d, and d has more than b.
    """
    document = cluster(nodes={"default": 4})
    amounts = {"node1": (0, 0, 0), "node2": (1, 2, 3), "node3": (3, 1, 2), "node4": (2, 3, 1)}
    for name, found in amounts.items():
        document["nodes"][name]["tags"] = [
            f"iallocator:utilization:{key}:{amount}" for key, amount in zip("xyz", found)
        ]
    answer = place(allocate_rbd(document))
    assert answer["placement"] == {"new": "node2"}
    assert answer["instances"][0]["reason"].startswith("rule 4")


def test_place_does_not_move_instances_that_cannot_be_stopped() -> None:
    """`place` does not move an instance that cannot be stopped, but counts its capacity."""
    stuck = ["iallocator:cannot-stop", "iallocator:no-force-stop"]
    apart = "iallocator:separate:must:web"
    instances = {
        "a": rbd("node1", tags=[apart, *stuck]),
        "b": rbd("node2", tags=[apart, "iallocator:score:node1:50"]),
        "c": rbd("node1", tags=[*stuck, "iallocator:score:node2:50"]),
    }
    plan = place(cluster(2, instances=instances), "minimal")
    assert plan["placement"] == {"a": "node1", "b": "node2", "c": "node1"}
    assert plan["moves"] == []


@pytest.mark.parametrize("exactly", ["yes", "no"])
@pytest.mark.parametrize("kind", KINDS)
def test_place_leaves_a_dead_secondary_where_no_other_node_takes_it(
    kind: str, exactly: str
) -> None:
    """`place` leaves a secondary on an offline node if no other node has capacity for it.

    An instance with an offline primary only fails over to its secondary.
    """
    down = {"node2": {"offline": True}}
    instances = {"a": instance("node1", "node2"), "b": instance("node2", "node1")}
    option = f"--exact-search={exactly}"
    plan = place(cluster(2, instances=instances, changes=down), kind, option)
    assert plan["placement"] == {"a": "node1", "b": "node1"}
    assert [(move["move"], move["to"]) for move in plan["moves"]] == [("f", ["node1", "node2"])]
    plan = place(cluster(3, instances={"a": instances["a"]}, changes=down), kind, option)
    assert [move["to"] for move in plan["moves"]] == [["node1", "node3"]]


def test_group_of_one_node_accepts_no_new_instance_that_its_failure_would_lose() -> None:
    """`place` creates no instance in a group of one node that could not restart it."""
    document = cluster({"pair": 2, "single": 1}, instances={})
    for name in ("node1", "node2"):
        document["nodes"][name] |= {"total_memory": 4096, "free_memory": 4096}
    document = allocate_rbd(document, memory=1024)
    assert place(document, "balanced", "--n1=off")["placement"] == {"new": "node3"}
    assert place(document, "balanced")["placement"] == {"new": "node1"}
    assert place(document, "balanced", "--n1=strict")["placement"] == {"new": "node1"}


def test_strict_stops_no_instance_because_of_a_failure_that_cannot_be_tolerated() -> None:
    """With strict N+1, `place` stops no instance because of a failure that no plan avoids.

    Two plain instances are too large for the other node.
    """
    pinned = {f"p{k}": instance(f"node{k}", memory=5000) for k in (1, 2)}
    others = {f"i{k}": rbd("node4") for k in (1, 2)}
    here = {"i0": rbd("node1")}
    found = place(
        cluster({"a": 2, "b": 2}, instances=pinned | here | others), "balanced", "--n1=strict"
    )
    assert None not in found["placement"].values()
    assert found["placement"]["i1"] != found["placement"]["i2"]


def test_strict_creates_no_instance_if_a_failure_cannot_be_tolerated() -> None:
    """With strict N+1, `place` creates no instance in a group with a failure not tolerated."""
    fixed = {"i0": instance("node3", "node2", memory=4096, auto_balance=False)}
    document = allocate_rbd(cluster(3, memory=4096, instances=fixed), memory=256)
    assert place(document, "balanced", "--n1=no-new")["placement"]["new"] == "node1"
    assert place(document, "balanced", "--n1=strict")["placement"]["new"] is None
    assert not json.loads(answer(as_bytes(document), ["--n1=strict"]))["success"]


# What placing a cluster anew keeps from one instance to the next changes nothing that is found.


STRATEGIES = ("default", "utilization", "balanced", "minimal")


@pytest.mark.parametrize("seed", range(8))
def test_place_without_kept_values_gives_the_same_result(
    seed: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`place` makes equal plans with and without values kept between instances."""
    path = tmp_path / "cluster.json"
    path.write_bytes(builders.as_bytes(random_document(random.Random(seed), 5, 14)))
    command = ["place", "--json", f"--strategy=pacemaker-{STRATEGIES[seed % 4]}", str(path)]
    kept = main(command), capsys.readouterr().out
    tolerance, asked = SchedulingPass.tolerance, 0

    def forget_failures(self: SchedulingPass, *question: Any) -> object:
        nonlocal asked
        asked += 1
        for failures in self._failures.values():
            failures._known_watches, failures._demands, failures._version = {}, {}, -1
        return tolerance(self, *question)

    def results(one: Evaluator) -> MoveChecks:
        return MoveChecks(
            one.context, one.group, one.limit_policies, one.rules, one.scope.nodes, ""
        )

    monkeypatch.setattr(SchedulingPass, "tolerance", forget_failures)
    monkeypatch.setattr(Evaluator, "_move_checks", property(results))
    assert (main(command), capsys.readouterr().out) == kept
    assert asked
