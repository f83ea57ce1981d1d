"""Test soft constraints in `place`: exact search violates the least."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from iallocator.commands.start import run_command
from tests.builders import Json, as_bytes, cluster, rbd

pytest.importorskip("highspy")


SEEDS = (5, 6, 49, 220)
"""Seeds for which the rules alone leave out an instance, although all fit."""


class Scenario:
    """Nodes with slots, instances that need slots, and pairs with a soft constraint."""

    def __init__(self, seed: int) -> None:
        rng = Random(f"wishes/{seed}")
        self.slots = [rng.choice((2, 3, 4)) for _ in range(3)]
        self.needs = [rng.choice((1, 1, 2, 3)) for _ in range(5)]
        self.kinds = [rng.choice(("separate", "colocate")) for _ in range(2)]
        self.members = [sorted(rng.sample(range(5), 2)) for _ in self.kinds]
        self.penalties = [rng.choice((1, 5)) for _ in self.kinds]

    def document(self) -> Json:
        """Return the document of the case; no instance runs, so `place` places all."""
        tags: list[list[str]] = [[f"iallocator:utilization:slot:{n}"] for n in self.needs]
        for k, (kind, penalty) in enumerate(zip(self.kinds, self.penalties)):
            for member in self.members[k]:
                tags[member].append(f"iallocator:{kind}:should:w{k}:{penalty}")
        given = cluster(
            3,
            instances={f"i{k}": rbd("node1", memory=64, tags=some) for k, some in enumerate(tags)},
        )
        for node, slots in zip(given["nodes"].values(), self.slots):
            node["tags"] = [f"iallocator:utilization:slot:{slots}"]
        return given

    def cost(self, homes: tuple[int, ...]) -> int:
        """Return the penalty of the violated soft constraints."""
        return sum(
            penalty
            for kind, (one, other), penalty in zip(self.kinds, self.members, self.penalties)
            if (kind == "separate") == (homes[one] == homes[other])
        )

    def lowest(self) -> int | None:
        """Return the lowest penalty of a placement of all instances; None if there is none."""
        fitting = (
            self.cost(homes)
            for homes in product(range(3), repeat=5)
            if all(
                sum(n for n, home in zip(self.needs, homes) if home == node) <= slots
                for node, slots in enumerate(self.slots)
            )
        )
        return min(fitting, default=None)


@pytest.mark.parametrize("seed", SEEDS)
def test_exact_search_violates_the_cheapest_soft_constraints_between_moved_instances(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exact search of `place` violates soft constraints with the least sum of penalties."""
    scenario = Scenario(seed)
    path = tmp_path / "document.json"
    path.write_bytes(as_bytes(scenario.document()))
    line = ["place", "--json", "--strategy=utilization", "--n1=off", "--verify-plan", str(path)]
    assert run_command("place", line) == 0
    plan = json.loads(capsys.readouterr().out)
    assert "exact search" in plan["instances"][0]["reason"]
    names = sorted(plan["placement"])
    homes = tuple(int(plan["placement"][name].removeprefix("node")) - 1 for name in names)
    assert scenario.cost(homes) == scenario.lowest()


def _shuffled(found: Any, rng: Random, path: tuple[str, ...] = ()) -> Any:
    """Return `found` with keys in another order, except that instances keep their order."""
    if isinstance(found, dict):
        keys = list(found)
        if path != ("instances",):
            rng.shuffle(keys)
        return {key: _shuffled(found[key], rng, (*path, key)) for key in keys}
    return [_shuffled(one, rng, (*path, "")) for one in found] if isinstance(found, list) else found


def _circular(seed: int) -> Json:
    """Return nodes with a cycle of free capacities, and instances that need all attributes."""
    rng = Random(f"circular/{seed}")
    given = cluster(
        4,
        instances={
            f"i{k}": rbd(
                f"node{rng.randint(1, 4)}", memory=64,
                tags=[f"iallocator:utilization:{name}:{rng.choice((1, 2))}" for name in "abc"],
            )
            for k in range(6)
        },
    )  # fmt: skip
    for node in given["nodes"].values():
        node["tags"] = [f"iallocator:utilization:{name}:{rng.choice((4, 6, 8))}" for name in "abc"]
    return given


@pytest.mark.parametrize("kind", ["balanced", "minimal"])
def test_place_does_not_depend_on_the_order_of_keys(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan of `place` does not depend on the order of keys, also with a cycle."""
    path = tmp_path / "document.json"
    for seed in range(3):
        answers = []
        for given in (_circular(seed), _shuffled(_circular(seed), Random(seed))):
            path.write_bytes(as_bytes(given))
            run_command("place", ["place", "--json", f"--strategy={kind}", "--n1=off", str(path)])
            answers.append(json.loads(capsys.readouterr().out))
        assert answers[0] == answers[1]
