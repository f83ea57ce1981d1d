"""Test the loss of several simultaneous failures against every placement of the instances."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from iallocator.constraints import relations_of
from iallocator.model.state import State
from iallocator.n1 import Rules
from iallocator.n1 import simulation_arrays as batch
from iallocator.n1.simulation import Simulation
from iallocator.n1.tolerance import FailureTolerance
from iallocator.planners.check.joint_failures import examine_failures
from tests.builders import Json, cluster, instance, rbd
from tests.model.make import model_of

MIXED = ("drbd", "rbd", "plain")

POOL = "iallocator:pool:external:fast"

TOGETHER = "iallocator:colocate:must:u"


def scenario(seed: int, template: str) -> Json:
    """Return five nearly full nodes in racks, one in two of them, with instances of few sizes.

    With template "bound", some instances need a pool that not all nodes have access to, and two
    instances share a node.
    """
    rng = Random(seed)
    names = [f"node{number}" for number in range(1, 6)]
    instances = {}
    for number in range(rng.randint(5, 8)):
        kind = {"mixed": rng.choice(MIXED), "bound": rng.choice(MIXED)}.get(template, template)
        homes = rng.sample(names, 2 if kind == "drbd" else 1)
        tags = []
        if template == "bound" and kind == "rbd":
            tags = [[], [POOL], [TOGETHER]][number % 3]
            homes = ["node2"] if tags == [TOGETHER] else homes
        instances[f"i{number}"] = instance(
            *homes,
            memory=rng.choice([100, 200, 300, 500]),
            disk_template=kind,
            disk=rng.choice([500, 1000]),
            tags=tags,
        )
    document = cluster(5, memory=2000, instances=instances)
    document["cluster_tags"] = ["htools:nlocation:rack"]
    for name in names:
        home = document["nodes"][name]
        for amount, free in (
            ("memory", rng.choice([150, 301, 450, 700])),
            ("disk", rng.choice([400, 1001, 1900])),
        ):
            home[f"total_{amount}"] += free - home[f"free_{amount}"]
            home[f"free_{amount}"] = free
        home["tags"] = sorted({f"rack:{rng.randrange(3)}" for _ in range(rng.choice((1, 1, 2)))})
        home["tags"] += [POOL] * (template == "bound" and name != "node4")
    return document


def fewest(document: Json, failed: tuple[str, ...]) -> int:
    """Return the least number of instances lost if the nodes `failed` fail, by brute force."""
    free = {
        n: (d["free_memory"], d["free_disk"])
        for n, d in document["nodes"].items()
        if n not in failed
    }
    reach = {n for n, d in document["nodes"].items() if POOL in d["tags"]}
    moving = [[i] for i in document["instances"].values() if TOGETHER not in i["tags"]]
    moving.append([i for i in document["instances"].values() if TOGETHER in i["tags"]])
    return _least([some for some in moving if some and some[0]["nodes"][0] in failed], free, reach)


def _least(moving: list[list[Json]], free: dict[str, tuple[int, int]], reach: set[str]) -> int:
    if not moving:
        return 0
    some, *rest = moving
    best = len(some) + _least(rest, free, reach)
    one, need = some[0], sum(member["memory"] for member in some)
    disk = one["disk_space_total"] if one["disk_template"] == "plain" else 0
    for name in one["nodes"][1:] or free:
        if best and name in free and (POOL not in one["tags"] or name in reach):
            memory, space = free[name][0] - need, free[name][1] - disk
            if memory > 0 and (space > 0 or not disk):
                best = min(best, _least(rest, {**free, name: (memory, space)}, reach))
    return best


@pytest.mark.parametrize("template", [*MIXED, "mixed", "bound"])
def test_joint_failures_and_racks_lose_the_expected_instances(template: str) -> None:
    """`check --failures` reports exact losses of pairs of nodes and of failure domains.

    Some cases have constraints.
    """
    losing = tolerated = 0
    for seed in range(25):
        document = scenario(seed, template)
        read = model_of(document)
        found = examine_failures(State(read), 2, racks=True, relations=relations_of(read))
        assert found.sets
        assert found.domains
        lost = {tuple(one.nodes): len(one.lost or ()) for one in found.sets.losing()}
        every: list[tuple[int, ...]] = list(combinations(range(5), 2))
        failing = [(pair, lost.get(pair, 0)) for pair in every]
        failing += [(tuple(d.failure.nodes), len(d.failure.lost or ())) for d in found.domains]
        for nodes, count in failing:
            least = fewest(document, tuple(found.cluster.nodes[i].name for i in nodes))
            assert count == least, (seed, nodes)
            losing += count > 0
            tolerated += not count
    assert min(losing, tolerated) > 20


def test_earlier_pairs_do_not_use_up_the_operations_of_a_pair() -> None:
    """The search for one pair of failing nodes finds an exact result after 14 other pairs.

    Each pair has a limit of operations of its own.
    """
    free = (2151, 3602, 3264, 3756, 3387, 3054)
    homes = (
        (2048, 512, 2048, 512, 2048, 1024, 1024, 1024, 1024),
        (1024, 512, 512, 512),
        (),
        (512, 512, 512, 2048),
        (512, 1024, 512, 512, 1024, 2048),
        (1024, 512, 2048, 2048, 1024, 1024, 512),
    )
    placed = [(home, memory) for home, some in enumerate(homes, start=1) for memory in some]
    instances = {
        f"i{number}": rbd(f"node{home}", memory=memory)
        for number, (home, memory) in enumerate(placed)
    }
    document = cluster(6, memory=100_000, instances=instances)
    for node, memory in zip(document["nodes"].values(), free):
        node["total_memory"] += memory - node["free_memory"]
        node["free_memory"] = memory
    found = examine_failures(State(model_of(document)), 2, racks=False)
    assert found.sets
    assert [len(one.lost or ()) for one in found.sets.losing() if tuple(one.nodes) == (4, 5)] == [1]


@pytest.mark.parametrize("template", [*MIXED, "mixed"])
def test_joint_failures_leave_the_state_unchanged(template: str) -> None:
    """The analysis of joint failures of two or three nodes leaves the state unchanged."""
    document = scenario(3, template)
    state = State(model_of(document))
    joint = FailureTolerance(state, Rules("no-new"))
    for nodes in combinations(range(5), 3):
        joint.unrestarted(nodes)
    assert state.version == State(model_of(document)).version


def test_failures_of_racks_simulated_in_arrays_equal_one_by_one() -> None:
    """With nodes in racks, arrays find the failures that simulations one by one find."""
    reported = set()
    for seed in range(30):
        document = scenario(seed, "rbd" if seed % 3 else "drbd")
        for number in range(30):  # enough to move for arrays to be of use
            home = f"node{1 + number % 5}"
            one = rbd(home, memory=Random(seed + number).choice((0, 20, 40)))  # fmt: skip
            document["instances"][f"x{number}"] = one
        state = State(model_of(document))
        group = state.cluster.groups[0]
        simulation = Simulation.of_group(state, group, Rules("no-new"))
        alone = [(node,) for node in range(5) if simulation.fail((node,)) is not None]
        assert batch.suits(state, group, Rules("no-new"), alone)
        assert list(simulation.lost([(node,) for node in range(5)])) == alone, seed
        reported.add(len(alone))
    assert len(reported) > 2
