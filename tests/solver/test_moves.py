"""Evacuations and group changes that greedy moves cannot finish, against trying everything."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest

from iallocator import engine
from iallocator.cli import answer
from iallocator.handlers.change_group import _task as change_task
from iallocator.handlers.node_evacuate import evacuated_nodes, evacuation_task
from iallocator.model.moves import apply_steps
from iallocator.options import Settings
from iallocator.placement.context import Context
from iallocator.placement.several.move_task import MoveTask
from iallocator.requests import ChangeGroup, NodeEvacuate
from tests import builders

pytest.importorskip("highspy")

Json = dict[str, Any]

FREE = (2049, 3073, 4097, 5121)
SIZES = (1024, 2048, 3072)


def _evacuation(seed: int, template: str) -> Json:
    """Return a nearly full cluster whose first node is to be evacuated."""
    rng = random.Random(seed)
    count = rng.randint(3, 4)
    instances = {
        f"i{n}": builders.instance(
            "node1", *(["node2"] if template == "drbd" else []),
            memory=rng.choice(SIZES), disk_template=template,
        )
        for n in range(rng.randint(2, 4))
    }  # fmt: skip
    document = builders.cluster(nodes=count, memory=16384, instances=instances)
    for name in list(document["nodes"])[1:]:
        document["nodes"][name]["free_memory"] = rng.choice(FREE)
    request = {"type": "node-evacuate", "evac_mode": "all", "instances": list(instances)}
    return document | {"request": request}


def _group_change(seed: int, template: str) -> Json:
    """Return a cluster with instances that are to go to one of two nearly full groups."""
    rng = random.Random(seed)
    instances = {
        f"i{n}": builders.instance(
            "node1", *(["node2"] if template == "drbd" else []),
            memory=rng.choice(SIZES), disk_template=template,
        )
        for n in range(rng.randint(2, 4))
    }  # fmt: skip
    sizes = {"default": 2, "left": 2, "right": 2 if template == "drbd" else 1}
    document = builders.cluster(nodes=sizes, memory=16384, instances=instances)
    for name in list(document["nodes"])[2:]:
        document["nodes"][name]["free_memory"] = rng.choice(FREE)
    targets = ["uuid-left", "uuid-right"]
    request = {"type": "change-group", "target_groups": targets, "instances": list(instances)}
    return document | {"request": request}


def _tasks(context: Context, request: NodeEvacuate | ChangeGroup) -> list[MoveTask]:
    if isinstance(request, NodeEvacuate):
        left = evacuated_nodes(request)
        return [evacuation_task(context, i, request.mode, left) for i in request.instances]
    assert request.targets is not None
    return [change_task(context, i, request.targets) for i in request.instances]


def _fits(raw: bytes) -> bool:
    """Tell whether all can move in some order to some places, by trying everything."""
    settings = Settings()
    cluster, request = engine.read(raw, settings)
    assert isinstance(request, NodeEvacuate | ChangeGroup)
    context = Context(cluster, settings)
    tasks = _tasks(context, request)
    evacuates = isinstance(request, NodeEvacuate)
    count = [n.index for n in cluster.nodes if evacuates or n.group.name != "default"]
    group = [node.group.index for node in cluster.nodes]
    pairs = [(p, s) for p, s in itertools.permutations(count, 2) if group[p] == group[s]]
    home = {task.instance.name: task.instance.nodes for task in tasks}

    def fit(order: tuple[MoveTask, ...]) -> bool:
        if not order:
            return True
        task, *rest = order
        single = task.instance.required_nodes == 1
        for nodes in [(p,) for p in count] if single else pairs:
            outcome = task.exactly(nodes)
            if outcome.best is None or outcome.best.nodes != nodes:
                continue
            apply_steps(context.state, task.instance, outcome.best.steps)
            fitting = fit(tuple(rest))
            context.state.remove(task.instance, nodes)
            context.state.place(task.instance, home[task.instance.name])
            if fitting:
                return True
        return False

    return any(fit(order) for order in itertools.permutations(tasks))


@pytest.mark.parametrize("make", [_evacuation, _group_change])
@pytest.mark.parametrize("template", ["rbd", "drbd"])
def test_all_are_moved_if_and_only_if_all_can_be(make: Any, template: str) -> None:
    """Where all can move they do; where an exact search says that they cannot, they cannot."""
    searched = 0
    for seed in range(24):
        document = make(seed, template)
        raw = json.dumps(document).encode()
        response = json.loads(answer(raw, ["--ignore-soft-errors"] if seed % 2 else []))
        moved, failed, jobs = response["result"]
        assert len(moved) == len(jobs)
        assert len(moved) + len(failed) == len(document["request"]["instances"])
        searched += "exact search" in response["info"]
        if not seed % 2:
            assert (not failed) == _fits(raw), f"seed {seed}: {response['info']}"
    assert searched > 1
