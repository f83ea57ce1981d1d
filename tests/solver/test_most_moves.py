"""Evacuations and group changes where not all can move: as many as possible, by priority."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Sequence
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
Counts = tuple[int, ...]

FREE = (1025, 2049, 3073, 4097)
SIZES = (1024, 2048, 3072)
PROOF = re.compile(r"proved that(?:, higher priority first,)? no more than (\d+) of (\d+) can be")


def _instances(rng: random.Random, template: str, others: Sequence[str]) -> dict[str, Json]:
    """Return a few instances on node1, drbd ones mirrored to one of `others`."""
    return {
        f"i{n}": builders.instance(
            "node1", *([rng.choice(others)] if template == "drbd" else []),
            memory=rng.choice(SIZES), disk_template=template,
            tags=[f"iallocator:priority:{rng.choice((0, 0, 5))}"],
        )
        for n in range(rng.randint(3, 4))
    }  # fmt: skip


def _evacuation(seed: int, template: str, mode: str) -> Json:
    """Return a cluster with hardly any room whose first node is to be evacuated."""
    rng = random.Random(seed)
    whole = template == "drbd" and mode == "all"
    instances = _instances(rng, template, ("node2",) if whole else ("node2", "node3"))
    if mode == "secondary-only":
        for one in instances.values():
            one["nodes"].reverse()
    document = builders.cluster(nodes=rng.randint(3, 4) + whole, memory=16384, instances=instances)
    for name in list(document["nodes"])[1:]:
        document["nodes"][name]["free_memory"] = rng.choice(FREE)
    request = {"type": "node-evacuate", "evac_mode": mode, "instances": list(instances)}
    return document | {"request": request}


def _group_change(seed: int, template: str, mode: str) -> Json:
    """Return a cluster with instances that are to go to one of two nearly full groups."""
    rng = random.Random(seed)
    instances = _instances(rng, template, ("node2",))
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


def _counts(document: Json, names: set[str]) -> Counts:
    """How many of `names` there are of each priority, the highest first."""
    priorities = {
        name: int(document["instances"][name]["tags"][0].rsplit(":", 1)[1])
        for name in document["request"]["instances"]
    }
    levels = sorted(set(priorities.values()), reverse=True)
    return tuple(sum(1 for name in names if priorities[name] == level) for level in levels)


class _Everything:
    """Every sequence of moves of a request, tried out."""

    def __init__(self, document: Json) -> None:
        self.document = document
        settings = Settings()
        settings.exact_search = "no"
        cluster, request = engine.read(json.dumps(document).encode(), settings)
        assert isinstance(request, NodeEvacuate | ChangeGroup)
        self.context = Context(cluster, settings)
        self.tasks = _tasks(self.context, request)
        self.request = request
        self.seen: set[frozenset[tuple[str, tuple[int, ...]]]] = set()
        self.best = _counts(document, set())

    def run(self) -> Counts:
        """Return the best counts that any sequence comes to."""
        self._go_on({})
        return self.best

    def _go_on(self, moved: dict[str, tuple[int, ...]]) -> None:
        key = frozenset(moved.items())
        if key in self.seen:
            return
        self.seen.add(key)
        self.best = max(self.best, _counts(self.document, set(moved)))
        for task in self.tasks:
            name = task.instance.name
            if name not in moved:
                for nodes in self._places(task):
                    self._try(task, nodes, moved)

    def _places(self, task: MoveTask) -> list[tuple[int, ...]]:
        nodes, request, present = self.context.cluster.nodes, self.request, task.instance.nodes
        if isinstance(request, NodeEvacuate):
            left = evacuated_nodes(request)
            targets = [node.index for node in nodes if node.index not in left]
            if task.instance.required_nodes > 1 and request.mode == "primary-only":
                return [present[::-1]]
            if task.instance.required_nodes > 1 and request.mode == "secondary-only":
                return [(present[0], node) for node in targets]
        else:
            targets = [node.index for node in nodes if node.group.name != "default"]
        if task.instance.required_nodes == 1:
            return [(node,) for node in targets]
        pairs = itertools.permutations(targets, 2)
        return [(a, b) for a, b in pairs if nodes[a].group is nodes[b].group]

    def _try(
        self, task: MoveTask, nodes: tuple[int, ...], moved: dict[str, tuple[int, ...]]
    ) -> None:
        outcome = task.exactly(nodes)
        if outcome.best is None or outcome.best.nodes != nodes:
            return
        state, name = self.context.state, task.instance.name
        before = state.where[name]
        apply_steps(state, task.instance, outcome.best.steps)
        self._go_on(moved | {name: nodes})
        state.remove(task.instance, nodes)
        state.place(task.instance, before)


@pytest.mark.parametrize(
    ("make", "template", "mode"),
    [
        (_evacuation, "rbd", "all"),
        (_evacuation, "rbd", "primary-only"),
        (_evacuation, "drbd", "primary-only"),
        (_evacuation, "drbd", "secondary-only"),
        (_evacuation, "drbd", "all"),
        (_group_change, "rbd", ""),
        (_group_change, "drbd", ""),
    ],
)
def test_moves_that_do_not_all_fit_are_made_as_far_as_any_sequence_goes(
    make: Any, template: str, mode: str
) -> None:
    """Counts by priority are the best of all sequences of moves, and what is proved is true."""
    proved = 0
    for seed in range(12 if template == "rbd" else 8):
        document = make(seed, template, mode)
        raw = json.dumps(document).encode()
        response = json.loads(answer(raw))
        greedy = json.loads(answer(raw, ["--exact-search=no"]))
        moved = {name for name, *_ in response["result"][0]}
        failed = {name for name, _ in response["result"][1]}
        assert moved | failed == set(document["instances"])
        assert not moved & failed
        counts = _counts(document, moved)
        assert counts >= _counts(document, {name for name, *_ in greedy["result"][0]})
        assert counts == _Everything(document).run(), f"seed {seed}: {response['info']}"
        proof = PROOF.search(response["info"])
        proved += proof is not None
        assert proof is None or int(proof[1]) == len(moved)
    assert proved


def test_multi_evacuate_succeeds_if_and_only_if_all_can_move() -> None:
    """The old protocol knows no partial answer; exact search finds places for all, if any do."""
    together = 0
    for seed in range(40):
        document = _evacuation(seed, "drbd", "secondary-only")
        every = json.loads(answer(builders.as_bytes(document)))
        document["request"] = {"type": "multi-evacuate", "evac_nodes": ["node1"]}
        response = json.loads(answer(builders.as_bytes(document)))
        assert response["success"] == (not every["result"][1]), response["info"]
        together += "placed together by exact search" in response["info"] and response["success"]
    assert together


def test_instances_without_a_mirror_are_no_matter_for_a_search() -> None:
    """They have no way to go, and the answer says so; nothing is searched for them."""
    document = builders.cluster({"default": 3, "far": 3})
    for number in (1, 2, 3):
        document["instances"][f"x{number}"] = builders.instance(
            f"node{number}", disk_template="drbd", memory=512
        )
    document["request"] = {
        "type": "change-group", "instances": ["x1", "x2", "x3"], "target_groups": ["uuid-far"],
    }  # fmt: skip
    found = json.loads(answer(builders.as_bytes(document)))
    assert [name for name, _ in found["result"][1]] == ["x1", "x2", "x3"]
    assert "exact search" not in found["info"]
