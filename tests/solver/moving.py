"""Build batches, evacuations and group changes with little free capacity, and try all moves."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Sequence

from iallocator import engine
from iallocator.handlers.change_group import _task as change_task
from iallocator.handlers.node_evacuate import evacuation_task
from iallocator.options.settings import Settings
from iallocator.placement.context import Context
from iallocator.placement.several.sequence import RequiredMove
from iallocator.requests.existing import ChangeGroup, NodeEvacuate
from tests import builders
from tests.builders import Json

__all__ = [
    "PROOF", "Counts", "Everything", "Json", "counts_of", "evacuation", "group_change",
    "new_instance",
]  # fmt: skip

Counts = tuple[int, ...]

FREE = (1025, 2049, 3073, 4097)
SIZES = (1024, 2048, 3072)

PROOF = re.compile(r"proved that(?:, higher priority first,)? no more than (\d+) of (\d+) can be")
"""The message that not all instances can be placed or moved."""


def _instances(rng: random.Random, template: str, others: Sequence[str]) -> dict[str, Json]:
    """Return a few instances on node1; drbd ones have a secondary on one of `others`."""
    return {
        f"i{n}": builders.instance(
            "node1", *([rng.choice(others)] if template == "drbd" else []),
            memory=rng.choice(SIZES), disk_template=template,
            tags=[f"iallocator:priority:{rng.choice((0, 0, 5))}"],
        )
        for n in range(rng.randint(3, 4))
    }  # fmt: skip


def new_instance(document: Json, name: str, memory: int, *tags: str, template: str = "rbd") -> Json:
    """Return the description of one instance of a batch."""
    request: Json = builders.allocate(document, name, memory=memory)["request"]
    del request["type"]
    nodes = 2 if template == "drbd" else 1
    return request | {"disk_template": template, "required_nodes": nodes, "tags": list(tags)}


def evacuation(seed: int, template: str, mode: str, more: int = 0) -> Json:
    """Return an evacuation of node1 with `more` MiB of additional free memory on each node."""
    rng = random.Random(seed)
    whole = template == "drbd" and mode == "all"
    instances = _instances(rng, template, ("node2",) if whole else ("node2", "node3"))
    if mode == "secondary-only":
        for one in instances.values():
            one["nodes"].reverse()
    document = builders.cluster(nodes=rng.randint(3, 4) + whole, memory=16384, instances=instances)
    for name in list(document["nodes"])[1:]:
        document["nodes"][name]["free_memory"] = rng.choice(FREE) + more
    request = {"type": "node-evacuate", "evac_mode": mode, "instances": list(instances)}
    return document | {"request": request}


def group_change(seed: int, template: str, mode: str, more: int = 0) -> Json:
    """Return a move to two nearly full groups with `more` MiB of additional free memory."""
    rng = random.Random(seed)
    instances = _instances(rng, template, ("node2",))
    sizes = {"default": 2, "left": 2, "right": 2 if template == "drbd" else 1}
    document = builders.cluster(nodes=sizes, memory=16384, instances=instances)
    for name in list(document["nodes"])[2:]:
        document["nodes"][name]["free_memory"] = rng.choice(FREE) + more
    targets = ["uuid-left", "uuid-right"]
    request = {"type": "change-group", "target_groups": targets, "instances": list(instances)}
    return document | {"request": request}


def tasks_of(context: Context, request: NodeEvacuate | ChangeGroup) -> list[RequiredMove]:
    if isinstance(request, NodeEvacuate):
        left = request.evacuated_nodes()
        return [evacuation_task(context, i, request.mode, left) for i in request.instances]
    assert request.targets is not None
    return [change_task(context, i, request.targets) for i in request.instances]


def counts_of(document: Json, names: set[str]) -> Counts:
    """Return how many of `names` have each priority, the highest priority first."""
    priorities = {
        name: int(document["instances"][name]["tags"][0].rsplit(":", 1)[1])
        for name in document["request"]["instances"]
    }
    levels = sorted(set(priorities.values()), reverse=True)
    return tuple(sum(1 for name in names if priorities[name] == level) for level in levels)


class Everything:
    """A brute-force search that tries every sequence of moves of a request."""

    def __init__(self, document: Json) -> None:
        self.document = document
        settings = Settings()
        settings.exact_search = "no"
        cluster, request = engine.read(json.dumps(document).encode(), settings)
        assert isinstance(request, NodeEvacuate | ChangeGroup)
        self.context = Context(cluster, settings)
        self.tasks = tasks_of(self.context, request)
        self.request = request
        self.seen: set[frozenset[tuple[str, tuple[int, ...]]]] = set()
        self.best = counts_of(document, set())
        self.all = counts_of(document, set(document["instances"]))

    def run(self) -> Counts:
        """Return the best counts by priority of all sequences."""
        self._go_on({})
        return self.best

    def _go_on(self, moved: dict[str, tuple[int, ...]]) -> None:
        key = frozenset(moved.items())
        if key in self.seen or self.best == self.all:
            return
        self.seen.add(key)
        self.best = max(self.best, counts_of(self.document, set(moved)))
        for task in self.tasks:
            name = task.instance.name
            if name not in moved:
                for nodes in self._places(task):
                    self._try(task, nodes, moved)

    def _places(self, task: RequiredMove) -> list[tuple[int, ...]]:
        nodes, request, present = self.context.cluster.nodes, self.request, task.instance.nodes
        if isinstance(request, NodeEvacuate):
            left = request.evacuated_nodes()
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
        self, task: RequiredMove, nodes: tuple[int, ...], moved: dict[str, tuple[int, ...]]
    ) -> None:
        outcome = task.exactly(nodes)
        if outcome.best is None or outcome.best.after != nodes:
            return
        state, name = self.context.state, task.instance.name
        before = state.where[name]
        outcome.best.apply(state)
        self._go_on(moved | {name: nodes})
        state.remove(task.instance, nodes)
        state.place(task.instance, before)
