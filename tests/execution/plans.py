"""Generate random transitions in the form of plan documents; each opcode names its step."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

from iallocator.execution.cluster_check import Places
from iallocator.ganeti.jobs import chains
from tests.builders import Json

__all__ = ["NODES", "random_plan", "transition_of"]

NODES = ("a", "b", "c", "d")


def transition_of(steps: list[Json]) -> Json:
    """Return the transition of `steps`, with their jobs, in the form of a plan document."""
    shapes: list[Any] = [
        SimpleNamespace(
            number=step["number"],
            after=step["after"],
            action=SimpleNamespace(name=step.get("instance", ""), alone=False),
        )
        for step in steps
    ]
    by_number = {step["number"]: step for step in steps}
    jobs = [
        {"steps": chain, "opcodes": [code for n in chain for code in by_number[n]["opcodes"]]}
        for chain in chains(shapes)
        if by_number[chain[0]]["opcodes"]
    ]
    return {"steps": steps, "jobs": jobs}


def random_plan(rng: Random, by_hand: bool = False) -> tuple[Json, Places]:
    """Return a random transition of a few instances, and their initial placement."""
    places = Places({}, set(), set(), set(NODES) | {"x"})
    steps: list[Json] = []
    for k in range(rng.randint(1, 4)):
        name, here = f"i{k}", rng.choice(NODES)
        places.instances[name] = (here,)
        last: list[int] = []
        for _ in range(rng.randint(1, 3)):
            there = rng.choice([node for node in NODES if node != here])
            step = {"kind": "migrate", "instance": name, "from": [here], "to": [there]}
            last = [_add(rng, steps, step, last)]
            here = there
    for _ in range(rng.randint(0, 2)):
        step = {"kind": rng.choice(["drain", "tag", "untag"]), "node": "x"}
        _add(rng, steps, step, [])
    if by_hand:
        chosen = rng.choice([step for step in steps if "node" in step] or [None])
        if chosen is not None:
            chosen["opcodes"] = []
    return transition_of(steps), places


def _add(rng: Random, steps: list[Json], step: Json, last: list[int]) -> int:
    number = len(steps) + 1
    others = [k for k in range(1, number) if k not in last and rng.random() < 0.15]
    code = {"OP_ID": "OP_TEST", "step": number}
    steps.append({"number": number, "after": sorted({*last, *others}), "opcodes": [code], **step})
    return number
