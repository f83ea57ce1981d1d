"""What is kept of the peers of nodes, beside the plain computation."""

from __future__ import annotations

from random import Random

from iallocator.model.state import State
from iallocator.scoring.array_candidates import Reservations
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading
from tests.builders import cluster, instance


def _plain(state: State, rows: list[int], columns: list[int], memory: float) -> list[list[float]]:
    """Return the matrix, number by number."""
    return [
        [
            amount if (amount := state.peers[s].get(p, 0)) > state.reserved[s] - memory else 0
            for s in columns
        ]
        for p in rows
    ]


def test_reservations_kept_while_nodes_change_are_the_plain_ones() -> None:
    """After moves, within trials and after these, of any rows and columns, also none."""
    rng = Random(7)
    names = [f"node{k}" for k in range(1, 7)]
    instances = {
        f"i{k}": instance(*rng.sample(names, 2), memory=rng.choice([256, 512, 1024]))
        for k in range(30)
    }
    state = State(read_cluster(cluster(6, memory=65536, instances=instances), Reading()))
    kept, told = Reservations(), 0

    def agree() -> int:
        rows, columns = (rng.sample(range(6), rng.randint(0, 6)) for _ in range(2))
        peers = kept.among(state, rows, columns, memory := rng.choice([0, 300, 2048]))
        found = peers.of(slice(None))
        assert found.tolist() == _plain(state, rows, columns, memory)
        return int((found > 0).sum())

    def move() -> None:
        one = rng.choice(state.cluster.instances)
        state.remove(one, state.where[one.name])
        agree()
        state.place(one, tuple(rng.sample(range(6), 2)))

    for _ in range(60):
        move()
        told += agree()
        with state.trial():
            move()
            told += agree()
        told += agree()
    assert told > 200
