"""Test that placements keep all limits, and that answers have every requested instance."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.builders import Json, cluster, instance
from tests.command import respond
from tests.conformance.documents import KINDS
from tests.seeds import seeds

from .answers import MOVES, asked, response_to, seeded
from .limits import admits, broken_hard, broken_soft
from .plain import Plain
from .walk import Placement, follow

SEEDS = seeds(16, 160)
OPTIONS: tuple[tuple[str, ...], ...] = ((), ("--n1=off", "--top=3", "--inter-group=yes"))


def placed(seed: int, kind: str, options: Sequence[str] = ()) -> list[tuple[Placement, list[str]]]:
    """Return the placements of a generated document, and the limits that each violates."""
    request = seeded(seed, kind)
    plain = Plain(request)
    found = []
    for placement in follow(request, response_to(seed, kind, *options), plain):
        present = plain.now.get(placement.name)
        before = present.nodes if present else []
        plain.put(placement.name, placement.raw, placement.nodes)
        found.append((placement, broken_hard(plain, placement.name, before)))
        plain.take(placement.name)
        if present:
            plain.now[placement.name] = present
    return found


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
@pytest.mark.parametrize("kind", KINDS)
def test_placement_of_any_request_violates_no_hard_limit(
    kind: str, options: tuple[str, ...]
) -> None:
    """No placement of any request violates a hard limit: memory, disk and spindles remain."""
    wrong = [
        f"{kind} {seed}: {placement.name} on {placement.nodes}: {problems}"
        for seed in SEEDS
        for placement, problems in placed(seed, kind, options)
        if problems
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
@pytest.mark.parametrize("kind", KINDS)
def test_placement_of_any_request_is_on_online_nodes(kind: str, options: tuple[str, ...]) -> None:
    """No instance is placed on a node that is offline, drained or not vm_capable."""
    wrong: list[str] = []
    for seed in SEEDS:
        plain = Plain(seeded(seed, kind))
        for placement, _ in placed(seed, kind, options):
            present = plain.now.get(placement.name)
            before = present.nodes if present else []
            new = {node for node in placement.nodes if node not in before}
            if placement.nodes[:1] != before[:1]:
                new.add(placement.nodes[0])
            bad = [node for node in sorted(new) if not plain.online(node)]
            if bad:
                wrong.append(f"{kind} {seed}: {placement.name} comes to {bad}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("ailment", ["offline", "drained"])
def test_failover_to_a_secondary_that_is_not_online_fails(ailment: str) -> None:
    """An evacuation does not fail an instance over to a secondary that is not online."""
    document = cluster(
        nodes=4, instances={"web": instance("node1", "node2")}, changes={"node2": {ailment: True}}
    )
    request = {"type": "node-evacuate", "instances": ["web"], "evac_mode": "primary-only"}
    moved, failed, _ = respond({**document, "request": request})["result"]
    assert moved == []
    assert [name for name, _ in failed] == ["web"]


@pytest.mark.parametrize("kind", ["allocate", "multi-allocate"])
def test_placement_of_a_new_instance_violates_no_soft_limit(kind: str) -> None:
    """No placement of a new instance violates ratios, exclusion tags, N+1 or the policy."""
    wrong: list[str] = []
    for seed in SEEDS:
        request = seeded(seed, kind)
        plain = Plain(request)
        for placement in follow(request, response_to(seed, kind, "--top=3"), plain):
            problems = broken_soft(plain, placement.name, placement.raw, placement.nodes)
            home = placement.nodes[0]
            if not admits(plain.policy(home), placement.raw, plain.exclusive(home)):
                problems.append("not admitted by the policy")
            if problems:
                wrong.append(f"{kind} {seed}: {placement.name} {placement.nodes}: {problems}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", MOVES[1:])
def test_moved_and_failed_instances_are_those_of_the_request(kind: str) -> None:
    """Each instance of a request is either moved or reported as failed, once."""
    for seed in SEEDS:
        response = response_to(seed, kind)
        moved, failed, jobs = response["result"]
        reported = [name for name, *_ in moved + failed]
        assert sorted(reported) == sorted(asked(seeded(seed, kind))), seed
        assert len(jobs) == len(moved), seed


def test_allocated_and_failed_instances_are_those_of_the_batch() -> None:
    """Each instance of a batch is either placed or reported as failed, once."""
    for seed in SEEDS:
        response = response_to(seed, "multi-allocate")
        result = response["result"]
        reported = [name for name, _ in result[0]] + result[1] if response["success"] else []
        if reported:
            assert sorted(reported) == sorted(asked(seeded(seed, "multi-allocate"))), seed
        else:
            assert not any(entry["nodes"] for entry in response["solutions"])


@pytest.mark.parametrize("options", [(), ("--inter-group=yes",)], ids=" ".join)
@pytest.mark.parametrize("kind", MOVES[1:])
def test_executed_jobs_lead_to_the_reported_nodes(kind: str, options: tuple[str, ...]) -> None:
    """The opcodes of each job concern its instance, and end at the nodes of the answer."""
    for seed in SEEDS:
        request = seeded(seed, kind)
        moved, _, jobs = response_to(seed, kind, *options)["result"]
        for (name, group, nodes), job in zip(moved, jobs, strict=True):
            assert {opcode["instance_name"] for opcode in job} == {name}, seed
            assert carried_out(request["instances"][name]["nodes"], job) == nodes, seed
            uuids = {request["nodes"][node]["group"] for node in nodes}
            assert [request["nodegroups"][uuid]["name"] for uuid in uuids] == [group], seed


def carried_out(nodes: list[str], job: list[Json]) -> list[str]:
    """Return the nodes of an instance on `nodes` after the opcodes of `job`."""
    for opcode in job:
        if opcode["OP_ID"] == "OP_INSTANCE_REPLACE_DISKS":
            assert opcode["mode"] == "replace_new_secondary"
            assert opcode["remote_node"] not in nodes
            nodes = [nodes[0], opcode["remote_node"]]
        else:
            assert opcode["OP_ID"] in ("OP_INSTANCE_MIGRATE", "OP_INSTANCE_FAILOVER")
            target = opcode.get("target_node")
            nodes = nodes[::-1] if target is None else [target]
    return nodes


@pytest.mark.parametrize("kind", MOVES[1:])
def test_jobs_migrate_running_instances_and_fail_over_the_others(kind: str) -> None:
    """Jobs migrate running instances and fail over stopped ones."""
    for seed in SEEDS:
        request = seeded(seed, kind)
        for job in response_to(seed, kind)["result"][2]:
            raw = request["instances"][job[0]["instance_name"]]
            runs = raw["admin_state"] == "up" and not raw.get("forthcoming")
            wrong = "OP_INSTANCE_FAILOVER" if runs else "OP_INSTANCE_MIGRATE"
            assert wrong not in {opcode["OP_ID"] for opcode in job}, seed


@pytest.mark.parametrize("kind", KINDS)
def test_rejected_request_has_an_empty_result(kind: str) -> None:
    """A rejected request has an empty result."""
    rejected = 0
    for seed in SEEDS:
        response = response_to(seed, kind)
        if not response["success"]:
            assert response["result"] == []
            rejected += 1
    assert rejected or kind in MOVES[1:]
