"""Test that scores kept while equal instances are placed equal those of a new kernel."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from iallocator.limits.node import ALL_LIMITS
from iallocator.model.instance import Backend, Disks, Instance
from iallocator.model.state import State
from iallocator.scoring import Kernels, incremental, incremental_pairs
from iallocator.scoring.array_candidates import Reservations
from iallocator.scoring.incremental import (
    SCORE_NOISE,
    IncrementalScores,
    IncrementalSingles,
    pick,
    picks,
)
from iallocator.scoring.incremental_pairs import IncrementalPairs
from iallocator.tolerances import SCORE_DECIMALS
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading
from tests.builders import Json, cluster, instance
from tests.model.make import model_of
from tests.seeds import seeds

TEMPLATES = ("drbd", "drbd", "plain", "rbd")


def crowd(seed: int, count: int) -> Json:
    """Return nodes of different sizes, some equal, some with a location, with few instances."""
    chance = Random(seed)
    names = [f"node{k}" for k in range(1, count + 1)]
    held = {}
    for number in range(chance.randrange(3 * count)):
        template = chance.choice(TEMPLATES)
        places = chance.sample(names, 2 if template == "drbd" else 1)
        memory, disk = chance.choice((128, 256, 512)), chance.choice((1, 2, 5)) * 1024
        held[f"i{number}"] = instance(*places, template=template, memory=memory, disk=disk)
    made = cluster({"a": count - count // 3, "b": count // 3}, memory=chance.choice((9000, 30000)),
                   disk=90000, cpus=chance.choice((4, 32)), instances=held)  # fmt: skip
    for node in made["nodes"].values():
        if chance.random() < 0.3:
            node["free_memory"] -= chance.choice((0, 700, 1333))
        if chance.random() < 0.2:
            node["total_cpus"] *= 2
        if seed % 3 == 0:
            node["tags"] = chance.choice(([], ["htools:nlocation:rack:x"]))
    if seed % 3 == 0:
        made["cluster_tags"] = ["htools:nlocation:rack"]
    return made


def newcomer(template: str, number: int) -> Instance:
    """Return one of many equal instances, with its own name."""
    return Instance(f"new-{number}", Backend(256), Disks(template, 1024, [1024], spindles=1))


def plainly(state: State, kernels: Kernels, template: str) -> list[tuple[float, tuple[int, ...]]]:
    """Yield every placement that the kernel permits, best first; pairs are within one group."""
    kernel = kernels.make(state, range(len(state.cluster.nodes)))
    one = newcomer(template, 0)
    if template != "drbd":
        return list(kernel.singles(one, range(len(state.cluster.nodes)), {}).ranked())
    found = [kernel.pairs(one, g.nodes, g.nodes, {}).ranked() for g in state.cluster.groups]
    return sorted(place for places in found for place in places)


def incremental_for(state: State, kernels: Kernels, template: str) -> IncrementalScores:
    """Return incremental scores for equal instances with this disk template."""
    kind = IncrementalPairs if template == "drbd" else IncrementalSingles
    groups = [group.nodes for group in state.cluster.groups]
    return kind(state, kernels.fixed, kernels.matrix(), newcomer(template, 0), groups, ALL_LIMITS)


@pytest.mark.parametrize("template", ["drbd", "plain", "rbd"])
@pytest.mark.parametrize("seed", seeds(6, 12))
def test_incremental_scores_rank_first_what_the_kernel_ranks_first(
    seed: int, template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kept scores choose the placement that a new kernel ranks first.

    Equal instances are placed until no node accepts one more; few choices are too close to decide.
    """
    monkeypatch.setattr(incremental_pairs, "FEW_PAIRS", 1 + seed % 2)
    monkeypatch.setattr(incremental_pairs, "PAIRS_LIFETIME", 16)
    monkeypatch.setattr(incremental, "SINGLES_LIFETIME", 32)
    made = read_cluster(crowd(seed, 4 + seed % 5), Reading(static_kvm_memory=0))
    state = State(made)
    kernels = Kernels(state, [(9999, 9999)] * 100)
    equal, doubts = incremental_for(state, kernels, template), 0
    for number in range(120):
        ranked = plainly(state, kernels, template)
        found = equal.best()
        if found is None:
            doubts += 1
        else:
            assert found == (ranked[0][1] if ranked else ()), number
        if not ranked:
            break
        nodes = ranked[0][1] if number % 3 else Random(number).choice(ranked)[1]
        state.place(newcomer(template, number), nodes)
        equal.placed(nodes)
    assert doubts < 5


@pytest.mark.parametrize("template", ["plain", "rbd"])
@pytest.mark.parametrize("seed", [1, 4])
def test_incremental_scores_are_right_after_a_copy_made_other_placements(
    seed: int, template: str
) -> None:
    """The kept scores stay correct while instances are placed on a copy."""
    state = State(read_cluster(crowd(seed, 7), Reading(static_kvm_memory=0)))
    kernels, rng = Kernels(state, [(9999, 9999)] * 100), Random(seed)
    equal = incremental_for(state, kernels, template)
    for number in range(0, 20, 4):
        _, nodes = rng.choice(plainly(state, kernels, template))
        state.place(newcomer(template, number), nodes)
        equal.placed(nodes)
        tried = equal.copy()
        with state.trial():
            for more in range(1, 4):
                _, nodes = rng.choice(plainly(state, kernels, template))
                state.place(newcomer(template, number + more), nodes)
                tried.placed(nodes)
                assert tried.best() in (plainly(state, kernels, template)[0][1], None)
        assert equal.best() in (plainly(state, kernels, template)[0][1], None)


@pytest.mark.parametrize("template", ["plain", "rbd"])
def test_incremental_scores_are_those_of_the_kernel(
    template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lowest kept score differs from that of the kernel by less than the noise."""
    seen: list[float] = []

    def noting(scores: Any) -> int | None:
        seen.append(float(np.min(scores)))
        return pick(scores)

    monkeypatch.setattr(incremental, "pick", noting)
    state = State(read_cluster(crowd(5, 9), Reading(static_kvm_memory=0)))
    kernels = Kernels(state, [(9999, 9999)] * 100)
    equal = incremental_for(state, kernels, template)
    for number in range(60):
        equal.best()
        (_, nodes), *_ = plainly(state, kernels, template)
        state.place(newcomer(template, number), nodes)
        equal.placed(nodes)
        score = kernels.make(state, range(9)).score()
        assert seen[-1] == pytest.approx(score, abs=SCORE_NOISE), number


@pytest.mark.parametrize("seed", [0, 3, 5, 7])
def test_incremental_scores_pairs_have_the_scores_of_the_kernel_and_none_is_below_its_bounds(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept scores of pairs equal those of the kernel, and none is below its bound.

    The scores are computed one by one and together.
    """
    monkeypatch.setattr(incremental_pairs, "PAIRS_LIFETIME", 20)
    state = State(read_cluster(crowd(seed, 7), Reading(static_kvm_memory=0)))
    kernels = Kernels(state, [(9999, 9999)] * 100)
    equal = incremental_for(state, kernels, "drbd")
    assert isinstance(equal, IncrementalPairs)
    for number in range(60):
        ranked = plainly(state, kernels, "drbd")
        equal._start()
        bounds: dict[tuple[int, ...], float] = {}
        for primaries, secondaries in equal._taking():
            if primaries.size and secondaries.size:
                low = equal._bounds(primaries, secondaries)
                alone = [dict(zip(a.tolist(), b)) for a, b in zip((primaries, secondaries), low)]
                bounds |= {(p, s): alone[0][p] + alone[1][s] for p in alone[0] for s in alone[1]}
        every = np.array([nodes for _, nodes in ranked])
        singly = [equal._score_of(*nodes) for _, nodes in ranked]
        assert np.abs(equal._scores(*every.T) - singly).max() < SCORE_NOISE
        for one, (score, nodes) in zip(singly, ranked):
            assert round(one, SCORE_DECIMALS) == pytest.approx(
                score, abs=1.1 * 10.0**-SCORE_DECIMALS
            )
            assert bounds.pop(nodes) <= one + SCORE_NOISE, nodes
        rejected = [equal._score_of(*nodes) for nodes in bounds]
        assert all(score == np.inf for score in rejected)
        nodes = ranked[0][1] if number % 3 else Random(number).choice(ranked)[1]
        before = equal._score_of(*nodes)
        state.place(newcomer("drbd", number), nodes)
        equal.placed(nodes)
        assert before == pytest.approx(kernels.make(state, range(7)).score(), abs=SCORE_NOISE), (
            number
        )


def test_choice_depends_on_rounded_scores() -> None:
    """The first of equal rounded scores is chosen, or none if rounding is in doubt."""
    assert pick(np.array([2.0, 1.00000000004, 1.0])) == 1
    assert pick(np.array([1.0000000002, 1.0])) == 1
    assert pick(np.array([1.00000000005, 1.0])) is None
    assert pick(np.array([3.0, 1.00000000005, 1.00000000005])) == 1


@pytest.mark.parametrize("template", ["plain", "rbd"])
@pytest.mark.parametrize("seed", seeds(6, 10))
def test_placements_one_by_one_are_those_that_the_kernel_ranks_first(
    seed: int, template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Placements one by one are those that the kernel ranks first, until no node is left."""
    monkeypatch.setattr(incremental, "SINGLES_LIFETIME", 64)
    state = State(read_cluster(crowd(seed, 4 + seed % 5), Reading(static_kvm_memory=0)))
    kernels = Kernels(state, [(9999, 9999)] * 100)
    equal = incremental_for(state, kernels, template)
    asked = reported = 0
    while reported < 150:
        path = equal.path(1 + seed * 7)
        asked += 1
        ranked = plainly(state, kernels, template)
        path = path or [place for _, place in ranked[:1]]
        for nodes in path:
            assert nodes == plainly(state, kernels, template)[0][1], reported
            state.place(newcomer(template, reported), nodes)
            reported += 1
        equal.placed_along(path)
        if not ranked:
            assert equal.best() == ()
            break
    assert seed < 3 or reported > 2 * asked


def test_choices_are_those_of_each_row() -> None:
    """For each row, `picks` and `pick` choose the same score, or both find the choice uncertain."""
    chance, near = Random(5), (0.0, 0.4e-10, 0.5e-10, 1e-10, 3e-10, 1.0, np.inf)
    rows = np.array([[1.0 + chance.choice(near) for _ in range(6)] for _ in range(200)])
    rows = rows[np.isfinite(rows).any(axis=1)]
    found, certain = picks(rows)
    for row, place, sure in zip(rows, found, certain):
        assert pick(row) == (place if sure else None)


# What is kept of the peers of nodes, beside the plain computation.


def _plain(state: State, rows: list[int], columns: list[int], memory: float) -> list[list[float]]:
    """Return the matrix of reserved memory, computed number by number."""
    return [
        [
            amount if (amount := state.peers[s].get(p, 0)) > state.reserved[s] - memory else 0
            for s in columns
        ]
        for p in rows
    ]


def test_kept_reservations_equal_new_ones_while_nodes_change() -> None:
    """After moves and tentative changes, kept reservations equal simple sums."""
    rng = Random(7)
    names = [f"node{k}" for k in range(1, 7)]
    instances = {
        f"i{k}": instance(*rng.sample(names, 2), memory=rng.choice([256, 512, 1024]))
        for k in range(30)
    }
    state = State(model_of(cluster(6, memory=65536, instances=instances)))
    kept, reported = Reservations(), 0

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
        reported += agree()
        with state.trial():
            move()
            reported += agree()
        reported += agree()
    assert reported > 200
