"""Test that the N+1 check of each placement has the result of the definition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations
from random import Random

import pytest

from iallocator.aliases import Nodes
from iallocator.model.instance import Instance
from iallocator.model.moves import Move
from iallocator.n1 import Failure
from iallocator.n1.simulation import Simulation, UnrestartedInstance
from tests.builders import Json, allocate, allocate_rbd, cluster, instance, rbd
from tests.conformance.documents import document
from tests.seeds import seeds

from .tight import Case, context_of, tight, tolerates

MODES = ("strict", "no-new")


def candidates(case: Case, subject: Instance, most: int) -> Iterator[Nodes]:
    """Yield nodes for `subject` in every group: single online nodes, or pairs for drbd."""
    for group in case.cluster.groups:
        online = [index for index in group.nodes if case.cluster.nodes[index].online]
        yield from list(permutations(online, subject.required_nodes))[:most]


def accepted(case: Case, subject: Instance, nodes: Nodes) -> bool:
    """Return whether every failure is tolerated with `subject` on `nodes`, by simulation.

    With no-new, a failure that was not tolerated before is ignored.
    """
    failing = watched(case, nodes)
    before = {node: tolerates(case, node) for node in failing}
    with case.state.trial():
        case.state.place(subject, nodes)
        after = {node: tolerates(case, node) for node in failing}
    strict = case.rules.mode == "strict"
    return all(after[node] or (not strict and not before[node]) for node in failing)


def watched(case: Case, nodes: Nodes) -> Sequence[int]:
    """Return the nodes to check for failures: all, or with no-new the online ones of the group."""
    everything = range(len(case.cluster.nodes))
    if case.rules.mode == "strict":
        return everything
    group = case.cluster.nodes[nodes[0]].group
    return [i for i in everything if case.cluster.nodes[i].online and i in group.nodes]


def compare(case: Case, subject: Instance, name: str, most: int = 20) -> tuple[int, int]:
    """Compare check and definition; return how many placements are accepted and rejected."""
    check = case.context.tolerance(case.context.all_nodes())
    answers = []
    for nodes in candidates(case, subject, most):
        answer = check.allows(Move(subject, (), nodes))
        where = f"{name}: {subject.name} ({subject.template}) on {nodes}"
        assert answer is accepted(case, subject, nodes), where
        answers.append(answer)
    return answers.count(True), answers.count(False)


@pytest.mark.parametrize("mode", MODES)
def test_check_of_new_instances_equals_the_definition(mode: str) -> None:
    """On tight clusters, N+1 accepts a new instance as the simulation of all failures does."""
    reported = [
        compare(c, c.new, f"{mode} {seed}") for seed in seeds(80, 400) if (c := tight(seed, mode))
    ]
    assert sum(yes for yes, _ in reported) > 20
    assert sum(no for _, no in reported) > 20


@pytest.mark.parametrize("mode", MODES)
def test_check_with_few_spindles_equals_the_definition(mode: str) -> None:
    """On tight clusters with exclusive storage, N+1 accepts a new instance as simulation does."""
    reported = [
        compare(case, case.new, f"{mode} {seed}")
        for seed in seeds(150, 3000)
        if (case := tight(seed, mode, exclusive=True))
    ]
    assert sum(yes for yes, _ in reported) > 20
    assert sum(no for _, no in reported) > 20


def test_check_with_a_failure_not_tolerated_before_accepts_nothing() -> None:
    """With strict, no placement in a group that N+1 rejects is accepted by the definition."""
    lost = 0
    for seed in seeds(80, 400):
        case = tight(seed, "strict")
        check = case.context.tolerance(case.context.all_nodes())
        for nodes in candidates(case, case.new, 6):
            if check.rejects_all(case.cluster.nodes[nodes[0]].group):
                assert not accepted(case, case.new, nodes), f"{seed}: {nodes}"
                lost += 1
    assert lost > 100


@pytest.mark.parametrize("mode", MODES)
def test_check_on_generated_documents_equals_the_definition(mode: str) -> None:
    """On clusters of usual sizes, N+1 accepts a new instance as the definition does."""
    for seed in seeds(20, 100):
        case = context_of(document(seed, "allocate"), mode)
        if len(case.cluster.nodes) < 10:
            compare(case, case.new, f"{mode} {seed}", most=8)


@pytest.mark.parametrize("mode", MODES)
def test_check_of_instances_that_change_their_group_equals_the_definition(mode: str) -> None:
    """N+1 accepts instances that change their group as the definition does.

    During the check, an existing instance, running or not, is still on its old node.
    """
    for seed in seeds(50, 250):
        case = tight(seed, mode)
        for subject in case.cluster.instances[:8:4]:
            check = case.context.tolerance(case.context.all_nodes())
            home = case.cluster.group_of(subject)
            for nodes in candidates(case, subject, 6):
                if case.cluster.nodes[nodes[0]].group is not home:
                    where = f"{mode} {seed}: {subject.name} on {nodes}"
                    assert check.allows(Move(subject, (), nodes)) is accepted(
                        case, subject, nodes
                    ), where


@pytest.mark.parametrize("mode", MODES)
def test_check_of_instances_that_get_a_secondary_equals_the_definition(mode: str) -> None:
    """N+1 accepts pairs of nodes for an instance that becomes drbd as the definition does."""
    for seed in seeds(50, 250):
        case = tight(seed, mode)
        for subject in case.cluster.instances:
            if subject.template == "plain":
                with case.state.trial():
                    case.state.remove(subject, subject.nodes)
                    compare(case, subject.as_template("drbd"), f"{mode} {seed}", most=6)
                break


@pytest.mark.parametrize("mode", MODES)
def test_checks_that_follow_each_other_equal_the_definition(mode: str) -> None:
    """Successive N+1 checks of one request equal the definition, though values are kept."""
    for seed in seeds(20, 100):
        case, rng = tight(seed, mode), Random(seed)
        for step in range(4):
            compare(case, case.new, f"{mode} {seed}, step {step}", most=5)
            subject = rng.choice(case.cluster.instances)
            home = case.cluster.group_of(subject).nodes
            if len(home) > len(subject.nodes) and step % 2 == 0:
                case.state.remove(subject, case.state.where[subject.name])
                case.state.place(subject, tuple(rng.sample(list(home), len(subject.nodes))))


@pytest.mark.parametrize("mode", MODES)
def test_check_rejects_where_it_can_name_a_lost_instance(mode: str) -> None:
    """N+1 rejects a placement if and only if it can name an instance that cannot be restarted."""
    for seed in seeds(35, 150):
        case = tight(seed, mode)
        check = case.context.tolerance(case.context.all_nodes())
        for nodes in candidates(case, case.new, 6):
            stranded = check.obstacle(Move(case.new, (), nodes))
            assert (stranded is None) is check.allows(Move(case.new, (), nodes)), (
                f"{mode} {seed} {nodes}"
            )


@pytest.mark.parametrize("mode", ["strict", "no-new"])
def test_a_rejection_names_the_instance_that_its_own_simulation_found(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To name the lost instance of a rejection, N+1 does not simulate a failure again."""
    unrestarted: dict[Failure, UnrestartedInstance] = {}
    simulate = Simulation.fail

    def fail(simulation: Simulation, failure: Failure) -> UnrestartedInstance | None:
        first = simulate(simulation, failure)
        if first is not None:
            unrestarted[failure] = first
        return first

    monkeypatch.setattr(Simulation, "fail", fail)
    compared = 0
    for seed in seeds(60, 150):
        case = tight(seed, mode)
        check = case.context.tolerance(case.context.all_nodes())
        for nodes in candidates(case, case.new, 6):
            move = Move(case.new, (), nodes)
            unrestarted.clear()
            if not check.allows(move):
                simulated = dict(unrestarted)
                named = check.obstacle(move)
                assert named is not None
                if simulated:
                    assert named is simulated[named.failure], f"{mode} {seed} {nodes}"
                    assert unrestarted == simulated
                    compared += 1
    assert compared > 5


@pytest.mark.parametrize("seed", seeds(10, 40))
def test_no_new_check_is_independent_of_a_group_that_fails_n1(seed: int) -> None:
    """With no-new, the answer does not change if another group violates N+1."""
    full = {f"full{k}": rbd(f"node{k}", memory=7000) for k in (4, 5)}
    own = {f"own{k}": rbd(f"node{k}", memory=1000 + 37 * seed)
           for k in (1, 2, 3)}  # fmt: skip
    beside, alone = (
        allocate_rbd(cluster({"a": 3, "b": 2}, instances={**own, **other}),
                 memory=500 + 150 * seed)
        for other in (full, {})
    )  # fmt: skip
    for node in (1, 2, 3):
        assert result_on(beside, node) is result_on(alone, node)


def result_on(request: Json, node: int, mode: str = "no-new") -> bool:
    """Return whether N+1 accepts the new instance of `request` on the node with this index."""
    case = context_of(request, mode)
    return case.context.tolerance(case.context.all_nodes()).allows(Move(case.new, (), (node - 1,)))


def broken() -> Json:
    """Return three nodes; the failure of the first is not tolerated, the others have capacity."""
    big = rbd("node1", memory=6000)
    half = {f"half{k}": rbd(f"node{k}", memory=3000) for k in (2, 3)}
    return allocate_rbd(cluster(nodes=3, instances={"big": big, **half}), memory=500)


def test_no_new_check_accepts_a_failure_not_tolerated_before() -> None:
    """With no-new, N+1 accepts a placement if only old failures are not tolerated."""
    assert result_on(broken(), 2)
    assert not result_on(broken(), 2, "strict")


def test_no_new_check_with_an_offline_node_full_of_instances_accepts() -> None:
    """With no-new, instances on an offline node do not make N+1 reject a placement."""
    request = broken()
    request["nodes"]["node1"]["offline"] = True
    assert result_on(request, 2)
    assert not result_on(request, 2, "strict")


def without_disk_to_spare(state: str) -> Json:
    """Return a request to add a secondary to an instance with 3000 MiB of disk in `state`.

    Another instance needs 6000 MiB of disk on the target nodes for a failover.
    """
    residents = {
        "bare": instance("node1", disk=3000, admin_state=state),
        "kept": instance("node2", disk=6000),
    }
    changes = {"node1": {"free_disk": 5000}, "node3": {"free_disk": 8000}}
    return allocate(cluster(nodes=3, instances=residents, changes=changes))


@pytest.mark.parametrize("state", ["up", "down", "offline"])
@pytest.mark.parametrize("mode", MODES)
def test_check_rejects_a_secondary_that_uses_the_disk_of_a_failover(mode: str, state: str) -> None:
    """N+1 rejects a secondary that uses the disk of a failover, also of a stopped instance."""
    case = context_of(without_disk_to_spare(state), mode)
    bare = case.cluster.instances[0]
    case.state.remove(bare, bare.nodes)
    check = case.context.tolerance(case.context.all_nodes())
    mirrored = bare.as_template("drbd")
    assert tolerates(case, 1), "node2 could fail before"
    assert not accepted(case, mirrored, (0, 2))
    assert not check.allows(Move(mirrored, (), (0, 2)))


def test_n1_off_accepts_everything() -> None:
    """With the mode off, N+1 accepts every placement."""
    assert result_on(broken(), 1, "off")
