"""Test plans of reboot by executing their steps in any allowed order on a document."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest

from iallocator.cli import main
from tests.aliases import Capture
from tests.builders import Json, as_bytes
from tests.matrix.documents import tagged

OPTIONS = (
    (), ("--full-evacuation",), ("--n1=off",), ("--ignore-non-redundant",),
    ("--skip-non-redundant",), ("--offline-maintenance",), ("--full-evacuation", "--n1=off"),
)  # fmt: skip


class Walk:
    """A simulated execution of steps on a document; errors are in `wrong`.

    Only changes of memory are counted: a node may have too little at the beginning, but no arrival
    may make its free memory negative.
    """

    def __init__(self, document: Json, options: tuple[str, ...]) -> None:
        self.instances: dict[str, Json] = document["instances"]
        self.where = {name: list(one["nodes"]) for name, one in self.instances.items()}
        self.free = {name: one.get("free_memory", 0) for name, one in document["nodes"].items()}
        self.drained: set[str] = set()
        self.wrong: list[str] = []
        self._options = options

    def take(self, step: Json) -> None:
        """Execute one step of the plan on the document."""
        if "instance" in step:
            self._move(step)
        elif step["kind"] == "drain":
            self.drained.add(step["node"])
        elif step["kind"] == "undrain":
            self.drained.discard(step["node"])
        elif step["kind"] == "reboot":
            self._reboot(step["node"])
        elif step["kind"] == "promote":
            if step["node"] in self.drained:
                self.wrong.append(f"{step['node']} is drained")
        else:
            self.wrong.append(f"what is {step['kind']}?")

    def _move(self, step: Json) -> None:
        name, target = step["instance"], step["to"]
        if self.where[name] != step["from"]:
            self.wrong.append(f"{name} is on {self.where[name]}, not {step['from']}")
        for node in set(target) - set(step["from"]):
            if node in self.drained:
                self.wrong.append(f"{name} comes to {node}, which is drained")
        if self._runs(name) and target[0] != self.where[name][0]:
            memory = self.instances[name]["memory"]
            self.free[self.where[name][0]] += memory
            self.free[target[0]] -= memory
            if self.free[target[0]] < 0:
                self.wrong.append(f"{name}: {target[0]} has {self.free[target[0]]}")
        self.where[name] = list(target)

    def _reboot(self, node: str) -> None:
        if node not in self.drained:
            self.wrong.append(f"{node} is rebooted without being drained")
        for name, nodes in self.where.items():
            drbd = self.instances[name]["disk_template"] == "drbd"
            here = nodes if "--full-evacuation" in self._options and drbd else nodes[:1]
            if node in here and self._has_to_leave(name, drbd):
                self.wrong.append(f"{name} is on {nodes} when {node} is rebooted")

    def _has_to_leave(self, name: str, drbd: bool) -> bool:
        if "--offline-maintenance" in self._options or self._planned(name):
            return False
        if "--full-evacuation" in self._options and drbd:
            return True
        return self._runs(name) and (drbd or "--ignore-non-redundant" not in self._options)

    def _runs(self, name: str) -> bool:
        up = self.instances[name].get("admin_state", "up") == "up"
        return up and not self._planned(name)

    def _planned(self, name: str) -> bool:
        """Return whether the instance is forthcoming and cannot be moved."""
        return bool(self.instances[name].get("forthcoming", False))


def _any_order(steps: list[Json], random: Random) -> list[Json]:
    """Return the steps in a random order that respects dependencies."""
    done: set[int] = set()
    ordered = []
    left = list(steps)
    while left:
        step = random.choice([one for one in left if done.issuperset(one["depends_on"])])
        left.remove(step)
        done.add(step["number"])
        ordered.append(step)
    return ordered


def _walked(found: Json, options: tuple[str, ...], plan: Json, random: Random) -> list[str]:
    walk = Walk(found, options)
    home = {name: list(nodes) for name, nodes in walk.where.items()}
    for step in _any_order(plan["transition"]["steps"], random):
        walk.take(step)
    walk.wrong += [
        f"{name} ends on {walk.where[name]}" for name in home if walk.where[name] != home[name]
    ]
    rebooted = [s["node"] for s in plan["transition"]["steps"] if s["kind"] == "reboot"]
    if sorted(rebooted) != sorted(node for group in plan["reboots"] for node in group["nodes"]):
        walk.wrong.append(f"rebooted: {rebooted}")
    return walk.wrong


@pytest.mark.parametrize(
    "seeds",
    [
        range(14),
        *(pytest.param(range(k, k + 20), marks=pytest.mark.slow) for k in range(14, 414, 20)),
    ],
)
def test_reboots_in_any_order_of_their_steps_stop_no_instance(
    seeds: Iterable[int], tmp_path: Path, capsys: Capture
) -> None:
    """In any order of its steps, `reboot` keeps instances running and moves them back."""
    steps = 0
    for seed in seeds:
        found, options = tagged(seed), OPTIONS[1 if seed > 1000 else seed % len(OPTIONS)]
        (tmp_path / "doc").write_bytes(as_bytes(found))
        assert main(["reboot", "--force", "--json", *options, str(tmp_path / "doc")]) in (0, 1)
        plan = json.loads(capsys.readouterr().out)
        for order in range(2):
            assert _walked(found, options, plan, Random(f"{seed}/{order}")) == [], (seed, options)
        steps += len(plan["transition"]["steps"])
    assert steps > 20
