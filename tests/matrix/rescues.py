"""Define paths on which another event moves the tested instance, such as a node failure."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tests.builders import Json, as_bytes
from tests.command import run

from .requests import moving_scenario
from .scenarios import BEST, HELD, KEEPER, NEXT, SOURCE, SPARE, Scenario, cluster_document, newcomer

__all__ = [
    "ask_failures", "ask_forecast", "ask_make_room", "ask_undo", "failures", "forecast",
    "make_room", "moved_away", "racks", "read_forecast", "read_tolerated",
]  # fmt: skip


def make_room(kind: str, split: bool) -> Scenario:
    """Return a scenario in which a request fits only after a move of the tested instance."""
    scenario = moving_scenario(kind, split)
    request = newcomer("shared", memory=2000) | {"name": "arrival", "restrict-to-nodes": [SOURCE]}
    scenario.document["request"] = request
    return scenario


def moved_away(kind: str, split: bool) -> Scenario:
    """Return a scenario in which a plan moved the tested instance from `best` to `source`."""
    scenario = moving_scenario(kind, split)
    scenario.node(SOURCE)["total_memory"] += scenario.subject["memory"]
    return scenario


def ask_undo(scenario: Scenario) -> Json:
    """Return the undo plan for the journal of the plan that moved the tested instance."""
    there = list(scenario.subject["nodes"])
    home = [BEST if role == scenario.role else node for role, node in enumerate(there)]
    step = {"number": 1, "kind": "migrate", "instance": "subject", "from": home, "to": there}
    head = {
        "event": "begin", "format": 1, "run": "run", "command": "balance", "cluster": "cluster",
        "singly": False, "unable": [], "expected": {}, "reason": "", "priority": None,
        "transition": {
            "steps": [{**step, "after": [], "opcodes": [{"OP_ID": "OP_TEST"}]}],
            "jobs": [{"steps": [1]}],
        },
    }  # fmt: skip
    done = {"event": "by hand", "jobs": [1]}
    with tempfile.NamedTemporaryFile("w") as journal:
        journal.write(f"{json.dumps(head)}\n{json.dumps(done)}\n")
        journal.flush()
        words = ("--json", "--verify-plan", f"--undo={journal.name}", *scenario.options)
        answer = run("balance", *words, stdin=as_bytes(scenario.finished()))
    plan: Json = json.loads(answer.stdout)
    assert answer.returncode == bool(plan["transition"]["left"]), answer.stderr.decode()
    return plan


def failures(kind: str, split: bool) -> Scenario:
    """Return a scenario in which only node `best` can restart the tested instance."""
    scenario = _only_best(moving_scenario(kind, split))
    del scenario.document["instances"]["at-source"]
    scenario.node(SOURCE)["total_memory"] = 20000
    scenario.subject["memory"] = 4000
    return scenario


def racks(kind: str, split: bool) -> Scenario:
    """Return a scenario in which the node of the tested instance is a failure domain of its own."""
    scenario = failures(kind, split)
    scenario.tag(None, "htools:nlocation:rack")
    for name, node in scenario.document["nodes"].items():
        scenario.tag(node, "rack:a" if name == SOURCE else "rack:b")
    scenario.options.append("--racks")
    return scenario


def _only_best(scenario: Scenario) -> Scenario:
    """Return the scenario with free capacity on the node `best` only."""
    for name in (NEXT, SPARE):
        if name in scenario.document["nodes"]:
            scenario.node(name)["total_memory"] = HELD[name] + 300
    return scenario


def ask_failures(scenario: Scenario) -> Json:
    """Return the report of `check` for single failures, and for domains."""
    words = ("--json", "--no-simulation", "--failures=1", *scenario.options)
    done = run("check", *words, stdin=as_bytes(scenario.finished()))
    assert done.stdout, done.stderr.decode()
    found: Json = json.loads(done.stdout)
    return found


def read_tolerated(scenario: Scenario, found: Json) -> list[str]:
    """Return [`best`] if the tested instance can restart after every failure, else []."""
    failed = found["node_failures"]
    losing = [one for one in failed["sets"]["losing"] if "subject" in one["lost"]]
    fallen = [one for one in failed.get("domains", ()) if one["domain"] == "rack:a"]
    if "--racks" in scenario.options:
        losing = [one for one in fallen if "subject" in one["lost"]]
    return [] if losing else [BEST]


def forecast(kind: str, split: bool) -> Scenario:
    """Return a scenario in which only node `best` has capacity for one more tested instance."""
    scenario = _only_best(Scenario(cluster_document([BEST, NEXT, KEEPER]), kind))
    scenario.wanted = newcomer(kind)
    scenario.options.append("--n1=off")  # no other node could take it over from `best`
    return scenario


def ask_forecast(scenario: Scenario) -> Json:
    """Return how many more instances like the tested instance fit in the forecast."""
    assert scenario.wanted is not None
    document = scenario.finished()
    with tempfile.TemporaryDirectory() as folder:
        past = Path(folder) / "1.json"
        past.write_bytes(as_bytes(document | {"request": scenario.wanted}))
        words = ("--json", f"--replay={folder}", "-l1", "--tiered-alloc=1g,1g,1", *scenario.options)
        done = run("capacity", *words, stdin=as_bytes(document))
    assert done.returncode == 0, done.stderr.decode()
    found: Json = json.loads(done.stdout)
    return found


def read_forecast(scenario: Scenario, found: Json) -> list[str]:
    """Return [`best`] if one more instance fits in the forecast, else []."""
    return [BEST] if found["forecast"]["highest"] else []


def ask_make_room(scenario: Scenario) -> Json:
    """Return the only move after which the new instance fits, if there is one."""
    words = ("--json", "--verify-plan", "--make-room=1", *scenario.options)
    done = run("make-room", *words, stdin=as_bytes(scenario.finished()))
    assert done.returncode in (0, 1), done.stderr.decode()
    plan: Json = json.loads(done.stdout)
    assert bool(plan["moves"]) == (done.returncode == 0)
    return plan
