"""The examination of rejections is exact on small cases, and blames what was the cause."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from benchmarks.life import rejections
from benchmarks.life.rejections import FULL, LITERAL, MISPLACED, MISSED
from benchmarks.life.world import SCENARIOS, World


@pytest.mark.parametrize("seed", range(40))
def test_loss_equals_the_best_of_all_assignments(seed: int) -> None:
    """Count and memory are minimised separately, over every way to place or drop each instance."""
    rng = Random(f"loss/{seed}")
    sizes = [rng.choice((2, 3, 3, 5, 8)) for _ in range(4)]
    room = [rng.randrange(10) for _ in range(2)]
    left_out = [
        [size for size, node in zip(sizes, places) if node == len(room)]
        for places in product(range(len(room) + 1), repeat=len(sizes))
        if all(
            sum(size for size, node in zip(sizes, places) if node == k) <= free
            for k, free in enumerate(room)
        )
    ]
    assert rejections._loss(sizes, room) == (min(map(len, left_out)), min(map(sum, left_out)))


def _world(*nodes: tuple[int, ...], free: int) -> World:
    """A cluster with `free` MiB of room on each empty node, and instances of the given MiB."""
    world = World(SCENARIOS["shared"]._replace(memory=(65536,) * len(nodes)))
    for node in world.nodes.values():
        node["free_memory"] = free + 1
    for k, sizes in enumerate(nodes):
        for size in sizes:
            world.add(f"i{len(world.instances)}", size, [world.names[k]])
    return world


@pytest.mark.parametrize(
    ("nodes", "memory", "cause"),
    [
        pytest.param([(4,), (4,), ()], 2, MISSED, id="the empty node takes it"),
        pytest.param([(7,), (5, 1), (4,)], 1, LITERAL, id="7 are lost if node 1 fails"),
        pytest.param([(6,), (2, 2, 2), (2,)], 6, MISPLACED, id="three twos belong on one node"),
        pytest.param([(8,), (8,), ()], 4, FULL, id="20 do not fit into two nodes of 10"),
    ],
)
def test_rejection_is_counted_under_its_cause(
    nodes: list[tuple[int, ...]], memory: int, cause: str
) -> None:
    """Nodes have room for 10 MiB (the sizes only have to be in proportion)."""
    assert rejections._cause(_world(*nodes, free=10), memory) == cause


def test_report_counts_each_rejection_once(capsys: pytest.CaptureFixture[str]) -> None:
    """The table's numbers add up to the rejections in its first line."""
    rejections.main(["--seeds", "1", "--first", "3", "--requests", "150", "--outage", "0.1"])
    heading, _, *rows = capsys.readouterr().out.splitlines()
    cells = [int(cell) for row in rows[2:] for cell in row.split("|")[2:4]]
    assert sum(cells) == int(heading.split()[2]) > 0
