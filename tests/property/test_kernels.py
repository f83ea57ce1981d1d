"""Test that the kernels with and without arrays agree with the scores of the state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from benchmarks import clusters
from benchmarks.clusters import Shape
from iallocator.constraints.table import entry_rejections
from iallocator.limits.node import ALL_LIMITS, FORCED_LIMITS, HARD_LIMITS, LimitSet
from iallocator.model.instance import Backend, Disks, Instance
from iallocator.placement.context import Context
from iallocator.scoring.array_candidates import PrunedPairs
from iallocator.scoring.arrays import ArrayKernel, PairScores
from iallocator.scoring.candidates import Candidates
from tests.seeds import seeds

from .answers import context_for, newcomers, seeded

if TYPE_CHECKING:
    from iallocator.scoring import Kernel

    Ask = Callable[[Kernel, Instance, "Setting"], Candidates]

CHUNKS = [seeds(10, 50, start) for start in (0, 50, 100, 350)]
LIMITS = (ALL_LIMITS, HARD_LIMITS, FORCED_LIMITS)


class Setting(NamedTuple):
    """A query for both kernels: limits and nodes."""

    nodes: Sequence[int]
    rejections: dict[int, str]
    limits: LimitSet


def singles(kernel: Kernel, instance: Instance, setting: Setting) -> Candidates:
    """Return the placements of `instance` on single nodes, evaluated by `kernel`."""
    return kernel.singles(instance, setting.nodes, setting.rejections, setting.limits)


def pairs(kernel: Kernel, instance: Instance, setting: Setting) -> Candidates:
    """Return the placements of `instance` on pairs of nodes, evaluated by `kernel`."""
    nodes = setting.nodes
    return kernel.pairs(instance, nodes, nodes, setting.rejections, setting.limits)


def uneven_pairs(kernel: Kernel, instance: Instance, setting: Setting) -> Candidates:
    """Return pairs of nodes from two different lists, with own limits for secondaries."""
    nodes = setting.nodes
    first, second = nodes[: len(nodes) // 2 + 1], nodes[len(nodes) // 2 :]
    return kernel.pairs(instance, first, second, setting.rejections, setting.limits, FORCED_LIMITS)


def secondaries(kernel: Kernel, instance: Instance, setting: Setting) -> Candidates:
    """Return the secondaries for an instance with a fixed primary, by `kernel`."""
    nodes = setting.nodes
    return kernel.secondaries(instance, nodes[0], nodes[1:], setting.limits)


def subjects(seed: int) -> Iterator[tuple[Context, Instance]]:
    """Yield a new instance, and two existing ones that are removed from their nodes."""
    context, wanted = context_for(seeded(seed, "allocate"))
    (new,) = newcomers(wanted)
    yield context, new
    for instance in context.cluster.instances[:20:10]:
        with context.state.trial():
            context.state.remove(instance, instance.nodes)
            yield context, instance


def questions(seed: int) -> Iterator[tuple[Kernel, Kernel, Instance, Setting]]:
    """Yield both kernels for one scope, with an instance and its possible nodes."""
    for context, instance in subjects(seed):
        limits = LIMITS[seed % 3]
        for group in context.cluster.groups:
            if group.nodes:
                rejections = entry_rejections(context.cluster, group, instance)
                for scope in (group.nodes, context.all_nodes()):
                    setting = Setting(group.nodes, rejections, limits)
                    yield *both(context, scope), instance, setting


def both(context: Context, scope: Sequence[int]) -> tuple[Kernel, Kernel]:
    """Return the kernels without and with arrays for the current state."""
    context.kernels.arrays = False
    scalar = context.kernel(scope)
    context.kernels.arrays = True
    arrays = context.kernel(scope)
    assert type(scalar) is not type(arrays)
    return scalar, arrays


@pytest.mark.parametrize("ask", [singles, pairs, uneven_pairs, secondaries])
@pytest.mark.parametrize("seeds", CHUNKS, ids=str)
def test_kernels_with_and_without_arrays_agree(seeds: range, ask: Ask) -> None:
    """Kernels with and without arrays give equal candidates, scores, failures and ranks."""
    feasible = 0
    for seed in seeds:
        for scalar, arrays, instance, setting in questions(seed):
            one, other = ask(scalar, instance, setting), ask(arrays, instance, setting)
            assert (one.feasible, one.failures) == (other.feasible, other.failures), seed
            assert one.rows() == other.rows(), seed
            for number in range(one.rows()):
                compare(list(one.row(number)), list(other.row(number)), seed)
            compare(list(one.ranked()), list(other.ranked()), seed)
            compare(list(one.best()), list(other.best()), seed)
            feasible += one.feasible
    assert feasible > 100


@pytest.mark.parametrize(("nodes", "template"), [(60, "drbd"), (90, "drbd"), (60, "rbd")])
def test_kernels_with_and_without_arrays_agree_on_many_nodes(nodes: int, template: str) -> None:
    """On many nodes with nearly equal scores, kernels with and without arrays agree."""
    for fullness, memory in ((0.4, 2048), (0.9, 9000)):
        shape = Shape(nodes, template, fullness=fullness)
        context, wanted = context_for(clusters.allocate(shape, memory=memory))
        (new,) = newcomers(wanted)
        scope = context.all_nodes()
        ask = pairs if template == "drbd" else singles
        one, other = (ask(k, new, Setting(scope, {}, ALL_LIMITS)) for k in both(context, scope))
        assert (one.feasible, one.failures) == (other.feasible, other.failures)
        assert one.feasible > 10
        compare(list(one.best()), list(other.best()), nodes)
        compare(list(one.row(0)), list(other.row(0)), nodes)


@pytest.mark.parametrize("ask", [pairs, uneven_pairs, secondaries])
def test_scores_of_blocks_of_rows_equal_those_of_all_rows(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores of blocks of rows are bit-equal to those of all rows, for any size of blocks."""
    for seed in seeds(8, 40, 900):
        for _, arrays, instance, setting in questions(seed):
            found = []
            for block in (10**6, 1, 3, 2 * len(setting.nodes)):
                monkeypatch.setattr("iallocator.scoring.arrays.SCORES_AT_ONCE", block)
                monkeypatch.setattr("iallocator.scoring.array_candidates.SCORES_AT_ONCE", block)
                done = ask(arrays, instance, setting)
                rows = [list(done.row(number)) for number in range(done.rows())]
                found.append((rows, done.failures, list(done.ranked())))
            assert found.count(found[0]) == len(found)


@pytest.mark.parametrize("ask", [pairs, uneven_pairs, secondaries])
def test_most_promising_pairs_come_in_the_order_of_all_pairs(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pairs of nodes come in the order of all pairs, though few rows are scored at a time."""
    monkeypatch.setattr("iallocator.scoring.array_candidates.FIRST_SCORED_ROWS", 1)
    for seed in seeds(12, 150, 300):
        for _, arrays, instance, setting in questions(seed):
            found = []
            for many in (10**9, -1):
                monkeypatch.setattr("iallocator.scoring.arrays.MANY_SCORED_PAIRS", many)
                done = ask(arrays, instance, setting)
                ranked = list(done.ranked())
                found.append((ranked, done.failures, done.feasible, list(done.best())))
            assert found[0] == found[1], seed


def test_pairs_are_those_of_the_state_when_they_were_requested(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Scores of pairs are those of the state at the request, also after later updates."""
    monkeypatch.setattr("iallocator.scoring.arrays.MANY_SCORED_PAIRS", -1)
    for seed in seeds(3, 20, 70):
        for _, arrays, instance, setting in questions(seed):
            assert isinstance(arrays, ArrayKernel)
            expected = list(pairs(arrays, instance, setting).ranked())
            done = pairs(arrays, instance, setting)
            node = setting.nodes[0]
            with arrays.state.trial():
                arrays.state.place(Instance("another", Backend(512), Disks("diskless")), (node,))
                arrays.follow()
                assert list(done.ranked()) == expected, seed
            arrays.follow()
            numbers = range(done.rows())
            opened = [
                (*prefix, last) for prefix, lasts in map(done.open, numbers) for last in lasts
            ]
            assert sorted(opened) == sorted(nodes for _, nodes in expected), seed


def test_best_pair_of_many_nodes_is_found_by_scoring_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """To find the best pair of 200 nodes, at most 24 primaries are scored."""
    scored = []
    whole = PairScores.scores

    def counted(pairs: PairScores, rows: Any, shared: Any) -> Any:
        found = whole(pairs, rows, shared)
        scored.append(len(found))
        return found

    monkeypatch.setattr(PairScores, "scores", counted)
    context, wanted = context_for(clusters.allocate(Shape(200, "drbd", crowding=0.3)))
    (new,) = newcomers(wanted)
    scope = context.all_nodes()
    found = pairs(both(context, scope)[1], new, Setting(scope, {}, ALL_LIMITS))
    assert isinstance(found, PrunedPairs)
    score, nodes = next(found.ranked())
    assert 0 < sum(scored) <= 24
    assert (score, nodes) == min(found.best())


@pytest.mark.parametrize("tagged", [False, True])
def test_few_pairs_of_many_nodes_are_scored_with_a_soft_constraint(
    tagged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No pair is scored before it is requested, with or without a soft constraint."""
    scored = []
    whole = PairScores.scores

    def counted(pairs: PairScores, rows: Any, shared: Any) -> Any:
        found = whole(pairs, rows, shared)
        scored.append(len(found))
        return found

    monkeypatch.setattr(PairScores, "scores", counted)
    document = clusters.allocate(Shape(400, "drbd", per_node=2, fullness=0.1))
    tag = ["iallocator:separate:should:x"]
    for one in list(document["instances"].values())[:3]:
        one["tags"] = tag
    context, _ = context_for(document)
    new = context.cluster.instances[0 if tagged else 5]
    context.state.remove(new, new.nodes)
    scope = context.all_nodes()
    found = pairs(both(context, scope)[1], new, Setting(scope, {}, ALL_LIMITS))
    costly, scores = context.with_soft_costs(new, found)
    assert (costly is found) == (not tagged)
    assert scored == []
    rank, nodes = next(costly.row(1))
    plain = found.score_of(1, nodes[-1])
    assert sum(scored) < 400
    if tagged:
        assert scores[nodes] == plain < rank
        assert scores[next(costly.row(5))[1]] == next(found.row(5))[0]


def compare(
    one: list[tuple[float, tuple[int, ...]]], other: list[tuple[float, tuple[int, ...]]], seed: int
) -> None:
    """Assert that two lists of placements have equal nodes and scores."""
    assert [nodes for _, nodes in one] == [nodes for _, nodes in other], seed
    gaps = [abs(a - b) for (a, _), (b, _) in zip(one, other, strict=True)]
    assert max(gaps, default=0) < 1e-9, seed
    scores = [score for score, _ in one]
    assert scores == sorted(scores) or len({nodes[0] for _, nodes in one}) > 1, seed


@pytest.mark.parametrize("ask", [singles, pairs])
def test_kernel_score_of_a_candidate_equals_score_after_placing_it(ask: Ask) -> None:
    """The kernel's score of a candidate equals the score after placing the instance there."""
    for seed in seeds(30, 60):
        for context, instance in subjects(seed):
            context.kernels.arrays = bool(seed % 2)
            scope = context.all_nodes()
            found = ask(context.kernel(scope), instance, Setting(scope, {}, FORCED_LIMITS))
            for score, nodes in list(found.ranked())[:6]:
                with context.state.trial():
                    context.state.place(instance, nodes)
                    assert context.kernel(scope).score() == pytest.approx(score, abs=2e-9), seed


def test_kernel_scores_of_the_present_state_agree_with_and_without_arrays() -> None:
    """Kernels with and without arrays give equal scores of the present state."""
    for seed in seeds(50, 200):
        for scalar, arrays, *_ in questions(seed):
            assert scalar.score() == pytest.approx(arrays.score(), abs=1e-9), seed
