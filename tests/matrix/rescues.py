"""Define paths on which another event moves an instance: make-room, failures, growth."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tests.builders import Json, as_bytes
from tests.command import run

from .requests import moving_world
from .worlds import BEST, HELD, KEEPER, NEXT, SOURCE, SPARE, Scene, newcomer, world

__all__ = [
    "ask_failures", "ask_forecast", "ask_make_room", "ask_undo", "failures", "forecast",
    "make_room", "moved_away", "racks", "read_forecast", "read_tolerated",
]  # fmt: skip


def make_room(kind: str, split: bool) -> Scene:
    """Return a case in which a new instance fits only after a move of the subject."""
    scene = moving_world(kind, split)
    request = newcomer("shared", memory=2000) | {"name": "arrival", "restrict-to-nodes": [SOURCE]}
    scene.document["request"] = request
    return scene


def moved_away(kind: str, split: bool) -> Scene:
    """Return a case in which a plan has moved the subject from `best` to its source."""
    scene = moving_world(kind, split)
    scene.node(SOURCE)["total_memory"] += scene.subject["memory"]
    return scene


def ask_undo(scene: Scene) -> Json:
    """Return the undo plan for the journal of the plan that moved the subject."""
    there = list(scene.subject["nodes"])
    home = [BEST if role == scene.role else node for role, node in enumerate(there)]
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
        words = ("--json", "--verify-plan", f"--undo={journal.name}", *scene.options)
        answer = run("balance", *words, stdin=as_bytes(scene.finished()))
    plan: Json = json.loads(answer.stdout)
    assert answer.returncode == bool(plan["transition"]["left"]), answer.stderr.decode()
    return plan


def failures(kind: str, split: bool) -> Scene:
    """Return a case in which only `best` can restart the subject if its node fails."""
    scene = _only_best(moving_world(kind, split))
    del scene.document["instances"]["at-source"]
    scene.node(SOURCE)["total_memory"] = 20000
    scene.subject["memory"] = 4000
    return scene


def racks(kind: str, split: bool) -> Scene:
    """Return a case in which the node of the subject is a failure domain of its own."""
    scene = failures(kind, split)
    scene.tag(None, "htools:nlocation:rack")
    for name, node in scene.document["nodes"].items():
        scene.tag(node, "rack:a" if name == SOURCE else "rack:b")
    scene.options.append("--racks")
    return scene


def _only_best(scene: Scene) -> Scene:
    """Leave free capacity on `best` only."""
    for name in (NEXT, SPARE):
        if name in scene.document["nodes"]:
            scene.node(name)["total_memory"] = HELD[name] + 300
    return scene


def ask_failures(scene: Scene) -> Json:
    """Return the report of `check` for single failures, and for domains."""
    words = ("--json", "--no-simulation", "--failures=1", *scene.options)
    done = run("check", *words, stdin=as_bytes(scene.finished()))
    assert done.stdout, done.stderr.decode()
    found: Json = json.loads(done.stdout)
    return found


def read_tolerated(scene: Scene, found: Json) -> list[str]:
    """Return `best` if every failure restarts the subject there."""
    failed = found["node_failures"]
    losing = [one for one in failed["sets"]["losing"] if "subject" in one["lost"]]
    fallen = [one for one in failed.get("domains", ()) if one["domain"] == "rack:a"]
    if "--racks" in scene.options:
        losing = [one for one in fallen if "subject" in one["lost"]]
    return [] if losing else [BEST]


def forecast(kind: str, split: bool) -> Scene:
    """Return a case with past requests like the subject; only `best` fits one more."""
    scene = _only_best(Scene(world([BEST, NEXT, KEEPER]), kind))
    scene.wanted = newcomer(kind)
    scene.options.append("--n1=off")  # no other node could take it over from `best`
    return scene


def ask_forecast(scene: Scene) -> Json:
    """Return how many more instances like the subject fit in the forecast."""
    assert scene.wanted is not None
    document = scene.finished()
    with tempfile.TemporaryDirectory() as folder:
        past = Path(folder) / "1.json"
        past.write_bytes(as_bytes(document | {"request": scene.wanted}))
        words = ("--json", f"--replay={folder}", "-l1", "--tiered-alloc=1g,1g,1", *scene.options)
        done = run("capacity", *words, stdin=as_bytes(document))
    assert done.returncode == 0, done.stderr.decode()
    found: Json = json.loads(done.stdout)
    return found


def read_forecast(scene: Scene, found: Json) -> list[str]:
    """Return `best` if one more instance fits."""
    return [BEST] if found["forecast"]["highest"] else []


def ask_make_room(scene: Scene) -> Json:
    """Return the one move after which the new instance fits, if there is one."""
    words = ("--json", "--verify-plan", "--make-room=1", *scene.options)
    done = run("make-room", *words, stdin=as_bytes(scene.finished()))
    assert done.returncode in (0, 1), done.stderr.decode()
    plan: Json = json.loads(done.stdout)
    assert bool(plan["moves"]) == (done.returncode == 0)
    return plan
