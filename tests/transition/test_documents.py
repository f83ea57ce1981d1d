"""Test transitions in responses and plans."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from iallocator.cli import answer
from iallocator.ganeti.jobs import transition_document
from iallocator.model.moves import Move
from iallocator.model.state import State
from iallocator.transition.assemble import plan_transition, transition_of_moves
from iallocator.transition.execution import check
from iallocator.transition.resources import room
from tests.builders import Json, as_bytes, cluster, instance, rbd
from tests.command import respond
from tests.conformance.documents import document
from tests.model.make import model_of
from tests.schemas import conforms, validator
from tests.seeds import seeds

MOVES = ("node-evacuate", "change-group")
SEEDS = seeds(8, 25)


def response(request: Json, *options: str) -> Json:
    """Return the program's response to `request`."""
    return dict(respond(request, *options))


def evacuate(base: Json, mode: str, *names: str) -> Json:
    """Return `base` with a request to evacuate the instances `names`."""
    request = {"type": "node-evacuate", "evac_mode": mode, "instances": list(names)}
    return {**base, "request": request}


@pytest.mark.parametrize("kind", MOVES)
@pytest.mark.parametrize("seed", SEEDS)
def test_transition_of_a_response_is_safe_and_leads_to_the_result(kind: str, seed: int) -> None:
    """A transition, executed in any permitted order, ends at the placement of the result."""
    raw = document(seed, kind)
    found = response(raw, "--n1=off")
    moved = {name: nodes for name, _, nodes in found["result"][0]} if found["success"] else {}
    assert ("transition" in found) == bool(moved)
    if not moved:
        return
    validator("response.schema.json#/$defs/transition").validate(found["transition"])
    where = {}
    for step in found["transition"]["steps"]:
        if "instance" in step:
            where[step["instance"]] = step["to"]
    assert where == moved
    scenario = model_of(raw)
    index = {node.name: node.index for node in scenario.nodes}
    by_name = {i.name: i for i in scenario.instances}
    moves = [
        Move.by_steps(
            by_name[entry["instance"]],
            by_name[entry["instance"]].nodes,
            [(one["move"], index[one["node"]]) for one in entry["moves"]],
        )
        for entry in found["solutions"]
        if entry["instance"] in moved
    ]
    state = State(scenario)
    transition = transition_of_moves(scenario, room(state), moves)
    assert transition_document(transition) == found["transition"]
    if not any("whatever is done before" in remark for remark in transition.remarks):
        offline = [p for p in check(state, transition, 5) if "is not online" not in p]
        assert offline == []


def test_jobs_of_the_result_follow_the_transition() -> None:
    """A job that moves an instance to a node depends on the job that frees the node."""
    held = {
        "first": instance("node1", "node2", memory=6000),
        "second": instance("node3", "node1", memory=6000),
        "third": instance("node4", "node5", memory=100),
    }
    base = cluster(5, instances=held)
    options = ("--n1=off", "--ignore-soft-errors")
    found = response(evacuate(base, "primary-only", *held), *options)
    jobs = found["result"][2]
    assert jobs[1][0]["depends"] == [[-1, ["success"]]]
    assert "depends" not in jobs[0][0]
    assert "depends" not in jobs[2][0]
    steps = {step["instance"]: step for step in found["transition"]["steps"]}
    assert steps["second"]["after"] == [steps["first"]["number"]]
    assert steps["second"]["because"] == ["memory on node1"]


def test_compat_hail_has_no_transition() -> None:
    """With --compat hail, answers have no transition."""
    base = cluster(3, instances={"a": instance("node1", "node2")})
    found = response(evacuate(base, "primary-only", "a"), "--compat=hail")
    assert set(found) == {"success", "info", "result", "solutions"}


def test_fencing_is_only_in_the_transition() -> None:
    """Fencing is a step of the transition, but no opcode for Ganeti.

    Instances of the offline node depend on the fencing.
    """
    held = {"a": instance("node1", "node2"), "b": instance("node3", "node2")}
    base = cluster(4, instances=held, changes={"node1": {"offline": True}})
    found = response(evacuate(base, "primary-only", "a", "b"), "--n1=off")
    steps = found["transition"]["steps"]
    assert [step["kind"] for step in steps] == ["fence", "migrate", "failover"]
    assert [step["after"] for step in steps] == [[], [], [1]]
    codes = {code["OP_ID"] for job in found["result"][2] for code in job}
    assert codes == {"OP_INSTANCE_MIGRATE"}


def test_shuffled_document_has_the_same_transition() -> None:
    """The transition is byte-equal for any order of nodes and instances in the document."""
    raw = document(3, "node-evacuate")
    turned = {**raw}
    for table in ("nodes", "instances", "nodegroups"):
        turned[table] = dict(reversed(raw[table].items()))
    assert answer(as_bytes(raw)) == answer(as_bytes(turned))


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program in a separate process."""
    command = [sys.executable, "-m", "iallocator", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True)


@pytest.mark.parametrize("name", ["steps.svg", "steps.dot"])
def test_balance_has_a_transition_and_draws_it(name: str, tmp_path: Path) -> None:
    """`balance` has a transition in its JSON, its text and its graph."""
    held = {f"vm{k}": instance("node1", "node2", memory=1000) for k in range(5)}
    path, drawn = tmp_path / "cluster.json", tmp_path / name
    path.write_bytes(as_bytes(evacuate(cluster(4, instances=held), "all", "vm0")))
    done = run("balance", "--json", "--verify-plan", f"--graph={drawn}", str(path))
    plan = json.loads(done.stdout)
    conforms(plan, "plan")
    steps = plan["transition"]["steps"]
    assert len(steps) >= len(plan["moves"]) > 0
    text = drawn.read_text()
    if name.endswith("svg"):
        assert len(list(ET.fromstring(text).iter("{http://www.w3.org/2000/svg}g"))) == len(steps)
    else:
        assert text.startswith("digraph")
        assert text.count("[label=") >= len(steps)
    lines = run("balance", str(path)).stdout
    assert f"Transition: {len(steps)} step" in lines


def test_explain_reports_the_transition() -> None:
    """`explain` has the steps of the transition in a table with their dependencies."""
    from iallocator.commands.other_options import Explain
    from iallocator.explain.explain import explain
    from iallocator.render import text_of

    held = {
        "first": instance("node1", "node2", memory=6000),
        "second": instance("node3", "node1", memory=6000),
    }
    base = evacuate(cluster(3, instances=held), "primary-only", *held)
    settings = Explain()
    settings.verbose = True
    settings.n1, settings.ignore_soft_errors = "off", True
    document = explain(as_bytes(base), settings).document()
    text = text_of("explanation", document, {"brief": False, "node": ""}, settings)
    _, _, table = text.partition("\nTransition: ")
    assert "1 (memory on node1)" in table


def test_instance_on_shared_storage_needs_no_spindles_of_its_own() -> None:
    """On exclusive storage without free spindles, an instance on shared storage fits."""
    web = rbd("node1")
    document = cluster(nodes=2, memory=16384, instances={"web": web})
    for node in document["nodes"].values():
        node["ndparams"]["exclusive_storage"] = True
    state = State(model_of(document))
    transition = plan_transition(state, {"web": (1,)})
    assert transition.remarks == []
    assert check(state, transition) == []
