"""Test explanations as data: they agree with the answer, are complete, and change nothing."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from iallocator import deadline
from iallocator.cli import answer
from iallocator.explain.explanation import Decision, Explanation, differences
from iallocator.explain.facts import PENALTY, GroupReport
from iallocator.explain.survey import Survey, counted
from iallocator.render.words import STATISTIC_WORDS as WORDS
from iallocator.scoring.metrics import STATISTICS
from tests.builders import (
    Json,
    allocate,
    allocate_rbd,
    as_bytes,
    cluster,
    instance,
    policy,
    rbd,
    spec,
)
from tests.command import json_of, respond
from tests.conformance.documents import document
from tests.explain.asking import explained, only_decision
from tests.seeds import seeds

SEEDS = seeds(16, 60)
OPTIONS = ((), ("--n1", "strict"), ("--compat", "hail"), ("--ignore-soft-errors", "--top", "3"))


@cache
def generated(seed: int, options: tuple[str, ...] = ()) -> Explanation:
    """Return the explanation of a generated document."""
    return explained(document(seed, "allocate"), *options)


def asked(found: Explanation) -> list[tuple[GroupReport, dict[str, Any]]]:
    """Return each group with examined nodes, and its entry in the response."""
    entries = {entry["group_uuid"]: entry for entry in found.response["solutions"]}
    return [
        (group, entries[group.uuid])
        for one in found.decisions
        for group in one.groups
        if group.uuid in entries and not group.obstacle
    ]


def rejections(found: Decision) -> dict[str, list[str]]:
    """Return the rejections of each node in the form ``role reason: text``."""
    return {
        node.name: [
            f"{role.role}{f' of {r.beside}' if r.beside else ''} {r.reason}: {r.text}"
            for role in node.roles
            for r in role.rejections
        ]
        for group in found.groups
        for node in group.nodes
    }


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
@pytest.mark.parametrize("seed", SEEDS)
def test_explain_generated_document_leaves_the_answer_as_it_is(
    seed: int, options: tuple[str, ...]
) -> None:
    """The response within an explanation equals the response without an explanation."""
    raw = as_bytes(document(seed, "allocate"))
    found = generated(seed, options)
    assert json.loads(json.dumps(found.response)) == json.loads(answer(raw, options))
    (one,) = found.decisions
    assert (one.answer.nodes if one.answer else []) == found.response["result"]


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
@pytest.mark.parametrize("seed", SEEDS)
def test_contributions_generated_document_add_up_to_the_score(
    seed: int, options: tuple[str, ...]
) -> None:
    """The contributions of the statistics add up to the score in the response."""
    for group, entry in asked(generated(seed, options)):
        assert (group.placements[0].nodes if group.placements else []) == entry["nodes"]
        for placed in group.placements:
            total = sum(term.contribution_after for term in placed.terms)
            assert total == pytest.approx(placed.score, abs=1e-8)
        if group.placements:
            assert group.placements[0].score == pytest.approx(entry["score"], abs=1e-8)


@pytest.mark.parametrize("seed", SEEDS)
def test_differences_generated_document_add_up_to_the_gap(seed: int) -> None:
    """The differences of the statistics add up to the difference of the scores, largest first."""
    (one,) = generated(seed).decisions
    for _, rival in one.rivals:
        assert one.answer is not None
        amounts = [row.amount for row in differences(one.answer, rival)]
        assert sum(amounts) == pytest.approx(rival.score - one.answer.score, abs=1e-8)
        sizes = [round(abs(amount), 10) for amount in amounts]
        assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
@pytest.mark.parametrize("seed", SEEDS)
def test_rejections_generated_document_tally_as_in_the_response(
    seed: int, options: tuple[str, ...]
) -> None:
    """The rejections of nodes in an explanation are those that the response counts."""
    for group, entry in asked(generated(seed, options)):
        by_limits = {r: n for r, n in entry["failures"].items() if r != "FailN1"}
        assert counted(group.nodes) == by_limits
        roles = [role for node in group.nodes for role in node.roles if role.role != "secondary"]
        possible = entry["successes"] + entry["failures"].get("FailN1", 0)
        assert sum(role.placements for role in roles) == possible


@pytest.mark.parametrize("seed", SEEDS)
def test_nodes_generated_document_all_accounted_for(seed: int) -> None:
    """Every node is possible in an explanation, or has a reason."""
    online = {
        name
        for name, node in document(seed, "allocate")["nodes"].items()
        if node["vm_capable"] and not node["offline"] and not node["drained"]
    }
    for group, _ in asked(generated(seed)):
        for node in group.nodes:
            if node.name in online and not node.excluded:
                assert node.roles.possible or all(r.reasons for r in node.roles)
                assert node.roles
            else:
                assert node.excluded
                assert not node.roles


@pytest.mark.parametrize("seed", SEEDS)
def test_failed_requests_name_the_closest_node(seed: int) -> None:
    """A group without a placement has its nearest candidate in the explanation."""
    for group, entry in asked(generated(seed)):
        assert bool(group.closest) == (not group.placements)
        assert group.n1_rejections or "FailN1" not in entry["failures"]


def test_every_statistic_has_a_description() -> None:
    """Every statistic, and the penalty, has a description."""
    assert set(WORDS) == {statistic.name for statistic in STATISTICS} | {PENALTY}


def test_rejection_of_small_nodes_has_the_numbers() -> None:
    """The explanation of a rejected node has its free memory, for both roles of a node."""
    request = allocate(cluster(changes={"node3": {"free_memory": 3120}}), memory=4096)
    assert rejections(only_decision(request)) == {
        "node1": [],
        "node2": [],
        "node3": [
            "primary FailMem: needs 4096 MiB memory, 3120 free, and 1 MiB must remain",
            "secondary FailMem: could not take over its 4096 MiB memory, 3120 free",
        ],
    }


def test_rejection_of_one_pair_names_the_primary() -> None:
    """A secondary that lacks memory for one peer is rejected in pairs with this peer only."""
    held = {"a": instance("node1", "node3", memory=3000)}
    document = cluster(memory=4096, instances=held, changes={"node3": {"free_memory": 3500}})
    assert rejections(only_decision(allocate(document, memory=1000)))["node3"][-1] == (
        "secondary of node1 FailMem: "
        "3500 MiB memory would remain free, 4000 are reserved for failovers"
    )


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (spec(2048, 1, 1, 0, 1), None, "1024 MiB memory, at least 2048 allowed"),
        (None, spec(512, 8, 8192, 8, 8), "1024 MiB memory, at most 512 allowed"),
        (None, spec(4096, 8, 1000, 8, 8), "1024 MiB in one disk, at most 1000 allowed"),
        (spec(1, 2, 1, 0, 1), None, "1 virtual cpu, at least 2 allowed"),
        (spec(1, 1, 1, 0, 2), None, "1 spindle, at least 2 allowed"),
        (spec(1, 1, 1, 2, 1), None, "1 disk, at least 2 allowed"),
    ],
)
def test_policy_rejection_names_the_bound(low: Any, high: Any, text: str) -> None:
    """A rejection by the policy has the violated bound and the amount."""
    request = allocate(cluster(nodes=2))
    request["nodegroups"]["uuid-default"]["ipolicy"] = policy(low, high)
    found = only_decision(request)
    expected = f"outside the policy of the group: {text}"
    assert {texts[0].partition(": ")[2] for texts in rejections(found).values()} == {expected}
    assert found.groups[0].closest == expected


def test_policy_rejection_of_template_lists_the_allowed_ones() -> None:
    """A rejection of a disk template lists the templates that the policy permits."""
    request = allocate(cluster(nodes=2))
    request["nodegroups"]["uuid-default"]["ipolicy"]["disk-templates"] = ["plain"]
    assert only_decision(request).groups[0].closest == (
        "the policy of the group allows no drbd disks, only plain"
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"offline": True}, "offline"),
        ({"drained": True}, "drained"),
        ({"vm_capable": False}, "not vm_capable"),
    ],
)
def test_explanation_of_a_node_that_is_not_online_has_the_reason(
    changes: dict[str, bool], reason: str
) -> None:
    """A node that is drained or offline is excluded with this reason."""
    found = only_decision(allocate(cluster(changes={"node2": changes})))
    assert [list(node.excluded) for node in found.groups[0].nodes] == [[], [reason], []]


def test_explanation_of_a_node_outside_the_restriction_has_the_reason() -> None:
    """A node that the request does not list is excluded with this reason."""
    found = only_decision(allocate(cluster(), restrict=["node1", "node3"]))
    (excluded,) = found.groups[0].nodes[1].excluded
    assert "restricted" in excluded
    assert found.notes == ["Restricted by the request to node1, node3."]


def test_failure_not_tolerated_before_is_marked_with_strict() -> None:
    """With --n1 strict, the explanation marks failures that were not tolerated before either."""
    lost = {"a": instance("node1", memory=6000), "b": instance("node2", memory=6000)}
    request = allocate_rbd(cluster(nodes=2, instances=lost), memory=100)
    (group,) = only_decision(request, "--n1", "strict").groups
    assert group.n1_rejections
    assert all(rejected.already for rejected in group.n1_rejections)
    assert only_decision(request).answer is None
    assert only_decision(request, "--n1=no-new").answer is not None


def test_group_with_a_better_score_but_a_worse_policy_has_the_reason() -> None:
    """If a group with a better score loses by its allocation policy, the reason is the policy."""
    busy = {f"i{n}": instance("node1", memory=512) for n in range(4)}
    request = allocate(
        cluster(nodes={"default": 2, "spare": 2}, instances=busy), disk_template="plain"
    )
    request["nodegroups"]["uuid-spare"]["alloc_policy"] = "last_resort"
    first, second = only_decision(request).groups
    assert (first.name, second.name) == ("default", "spare")
    assert second.comparison == "last_resort comes after preferred"


def test_group_without_network_names_it() -> None:
    """A group without a network of the instance has the network in its reason."""
    request = allocate(cluster(), nics=[{"network": "net-blue"}])
    (group,) = only_decision(request).groups
    assert group.obstacle.endswith("required by instance new: net-blue")
    assert group.nodes == []


def test_group_that_was_not_queried_has_the_reason() -> None:
    """If the request names a group, the other groups are listed as not requested."""
    request = allocate(cluster(nodes={"default": 2, "spare": 2}), group_name="spare")
    obstacles = {group.name: group.obstacle for group in only_decision(request).groups}
    assert obstacles == {"spare": "", "default": "only group spare is asked for"}


def test_order_of_keys_does_not_change_the_explanation() -> None:
    """The explanation does not depend on the order of keys in the request."""
    for seed in range(10):
        request = document(seed, "allocate")
        turned = {
            **request,
            **{key: dict(reversed(request[key].items())) for key in ("nodes", "instances")},
        }
        assert explained(turned).document() == generated(seed).document()


def slow_reports(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let each record of reasons take `seconds` of a simulated clock."""
    now = [100.0]
    create = Survey.__init__

    def slowly(self: Survey, *asked: Any) -> None:
        now[0] += seconds
        create(self, *asked)

    monkeypatch.setattr(deadline, "monotonic", lambda: now[0])
    monkeypatch.setattr(Survey, "__init__", slowly)


@pytest.mark.parametrize("kind", ["allocate", "multi-allocate", "node-evacuate", "change-group"])
@pytest.mark.parametrize("seed", SEEDS[:6])
def test_explain_within_its_time_limit_explains_the_answer_of_the_request(
    kind: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If recording reasons stays within the time limit, the answer is unchanged."""
    slow_reports(monkeypatch, 0.01)
    request = document(seed, kind)
    response = json.loads(answer(as_bytes(request), ["--time-limit", "9"]))
    assert explained(request, "--time-limit", "9").response == response


def test_explain_ends_at_its_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time limit of explain applies to the whole run, with records of reasons."""
    slow_reports(monkeypatch, 10)
    one = {**allocate_rbd(cluster())["request"], "type": "allocate"}
    request = cluster()
    request["request"] = {
        "type": "multi-allocate", "instances": [{**one, "name": f"new{k}"} for k in range(3)],
    }  # fmt: skip
    response = explained(request, "--time-limit", "15").response
    assert [name for name, _ in response["result"][0]] == ["new0"]
    assert "new2: time is up" in response["info"]


# A node that is called possible can take the instance if it is the only one allowed.


STRATEGIES = ("score", "lost-allocations", "affinity", "pacemaker-balanced", "pacemaker-minimal")


def tight(small: str, template: str) -> Json:
    """Return a request that fits on node2 and node3; `small` is the node with less memory."""
    instances = {
        "i1": rbd("node1", memory=3000),
        "other": rbd(small, memory=2500),
    }
    document = cluster(3, memory=4096, instances=instances)
    document["nodes"][small]["free_disk"] += 5000
    document["nodes"][small]["total_disk"] += 5000
    return allocate(document, memory=1200, disk_template=template)


@pytest.mark.parametrize("n1", ["no-worse", "no-new", "strict"])
@pytest.mark.parametrize("template", ["rbd", "plain"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_possible_node_is_the_answer_if_it_is_the_only_one(
    strategy: str, template: str, n1: str
) -> None:
    """If only one possible node is permitted, the instance is placed on it."""
    words = (f"--strategy={strategy}", f"--n1={n1}", "--affinity-overhead=0")
    rejected = 0
    for small in ("node3", "node2"):
        request = tight(small, template)
        found = json_of("explain", *words, document=request)
        assert found["response"] == respond(request, *words)
        (group,) = found["decisions"][0]["groups"]
        for node in group["candidates"]:
            alone = json.loads(json.dumps(request))
            alone["request"]["restrict-to-nodes"] = [node["node"]]
            takes = respond(alone, *words)["success"]
            assert takes == (node["result"] in ("answer", "possible")), node
            if any("FailN1" in why for why in node["reasons"]):
                rejected += 1
    assert rejected > 0
