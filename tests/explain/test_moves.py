"""Test explanations of moves and batches: they agree with the answer in each step."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from iallocator.commands.other_options import Explain as Settings
from iallocator.deadline import Deadline
from iallocator.explain.explanation import Decision, Explanation
from iallocator.explain.survey import counted
from iallocator.render import text_of
from tests.builders import Json, allocate, allocate_rbd, cluster, instance, rbd
from tests.conformance.documents import document
from tests.explain.asking import explained, only_decision
from tests.seeds import seeds

MOVES = ("relocate", "node-evacuate", "change-group")
KINDS = ("multi-allocate", "allocate-secondary", *MOVES)
OPTIONS = (
    (),
    ("--compat", "hail"),
    ("--inter-group", "yes", "--n1", "strict"),
    ("--ignore-soft-errors", "--top", "3"),
)
SEEDS = seeds(8, 25)


@cache
def generated(kind: str, seed: int, options: tuple[str, ...] = ()) -> Explanation:
    """Return the explanation of a generated document."""
    return explained(document(seed, kind), *options)


def entries(found: Explanation) -> Iterator[tuple[Decision, dict[str, Any]]]:
    """Yield every decision with its entry in the response."""
    yield from zip(found.decisions, found.response["solutions"])


def taken(entry: dict[str, Any], options: tuple[str, ...]) -> dict[str, Any]:
    """Return the executed part of an entry of ``solutions``.

    With --inter-group, that can be the offer of another group.
    """
    elsewhere: dict[str, Any] = entry.get("remote", entry) if "--inter-group" in options else entry
    return elsewhere


def text(found: Explanation) -> str:
    """Return the text of an explanation."""
    return text_of("explanation", found.document(), {"brief": False, "node": ""}, Settings())


def evacuate(document: Json, mode: str, *names: str) -> Json:
    """Return `document` with a request to evacuate the instances `names`."""
    request = {"type": "node-evacuate", "instances": list(names), "evac_mode": mode}
    return {**document, "request": request}


def relocate(document: Json, name: str) -> Json:
    """Return `document` with a request to relocate an instance."""
    source = document["instances"][name]["nodes"][-1:]
    request = {"type": "relocate", "name": name, "required_nodes": 1, "relocate_from": source}
    return {**document, "request": {**request, "disk_space_total": 1024}}


def change_group(document: Json, *names: str) -> Json:
    """Return `document` with a request to move the instances `names` to any other group."""
    request = {"type": "change-group", "instances": list(names), "target_groups": []}
    return {**document, "request": request}


def node_results(decision: Decision) -> dict[str, list[str]]:
    """Return the rejections and exclusions of each node of a decision's group."""
    return {
        node.name: [*node.excluded, *(r.wording for role in node.roles for r in role.rejections)]
        for node in decision.groups[0].nodes
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
@pytest.mark.parametrize("seed", SEEDS)
def test_explained_decisions_agree_with_the_response(
    kind: str, options: tuple[str, ...], seed: int
) -> None:
    """Nodes, scores and failures of explained decisions are those of the response.

    The contributions of the statistics add up to the scores.
    """
    found = generated(kind, seed, options)
    for decision, entry in entries(found):
        wanted = taken(entry, options)
        answer = decision.answer
        assert (answer.nodes if answer else []) == wanted["nodes"]
        assert "instance" not in entry or decision.instance == entry["instance"]
        if answer is not None:
            assert answer.score == pytest.approx(wanted["score"], abs=1e-8)
            total = sum(term.contribution_after for term in answer.terms)
            assert total == pytest.approx(answer.score, abs=1e-8)
        elif decision.present:
            assert decision.reason


@pytest.mark.parametrize("kind", MOVES)
@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
@pytest.mark.parametrize("seed", SEEDS)
def test_moves_generated_document_have_the_steps_and_the_tally_of_the_response(
    kind: str, options: tuple[str, ...], seed: int
) -> None:
    """The steps of explained moves, and the counted rejections, are those of the response."""
    for decision, entry in entries(generated(kind, seed, options)):
        moves = taken(entry, options).get("moves", [])
        assert [{"move": step.move, "node": step.node} for step in decision.steps] == moves
        if decision.groups and not decision.groups[0].obstacle:
            assert counted(decision.groups[0].nodes) == entry["failures"]
        if decision.answer is None and entry["failures"]:
            (group,) = decision.groups
            assert group.closest or group.obstacle


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
@pytest.mark.parametrize("seed", SEEDS)
def test_secondaries_generated_document_tally_as_in_the_response(
    options: tuple[str, ...], seed: int
) -> None:
    """Each counted rejection of a secondary is listed at a node, except for global N+1."""
    for decision, entry in entries(generated("allocate-secondary", seed, options)):
        failures = {r: n for r, n in entry["failures"].items() if r != "FailN1"}
        assert counted(decision.groups[0].nodes) == failures
        assert bool(decision.groups[0].closest) == (decision.answer is None)


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
@pytest.mark.parametrize("seed", SEEDS)
def test_offer_of_another_group_is_that_of_the_response(
    options: tuple[str, ...], seed: int
) -> None:
    """An explanation has the offer of another group if and only if the response has it."""
    for decision, entry in entries(generated("node-evacuate", seed, options)):
        offer = decision.elsewhere.answer if decision.elsewhere else None
        assert (offer.nodes if offer else None) == entry.get("remote", {}).get("nodes")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_explanation_is_deterministic(kind: str, seed: int) -> None:
    """Text and JSON of two explanations of one request are equal."""
    first, again = generated(kind, seed), explained(document(seed, kind))
    assert text(first) == text(again)
    assert json.dumps(first.document()) == json.dumps(again.document())


@pytest.mark.parametrize("kind", MOVES)
@pytest.mark.parametrize("seed", SEEDS)
def test_nodes_generated_document_all_accounted_for(kind: str, seed: int) -> None:
    """Every node of the group has a result, or a reason for its exclusion."""
    for decision, _ in entries(generated(kind, seed)):
        for group in decision.groups:
            if not group.obstacle:
                assert all(bool(node.excluded) != bool(node.roles) for node in group.nodes)


def test_relocate_new_secondary_excludes_the_present_nodes() -> None:
    """For a new secondary, primary and old secondary are excluded, each with its reason."""
    held = {"a": instance("node1", "node2", memory=4096)}
    request = relocate(cluster(4, instances=held, changes={"node3": {"free_memory": 3120}}), "a")
    decision = only_decision(request)
    assert decision.steps[0].words == "new secondary node4"
    assert node_results(decision) == {
        "node1": ["is the primary, which stays"],
        "node2": ["is the secondary now"],
        "node3": ["FailMem: could not take over its 4096 MiB memory, 3120 free"],
        "node4": [],
    }


def test_relocate_no_room_says_what_came_closest() -> None:
    """If no secondary fits, the nearest node and its missing amounts are reported."""
    held = {"a": instance("node1", "node2", memory=4096)}
    request = relocate(cluster(3, instances=held, changes={"node3": {"free_memory": 3120}}), "a")
    decision = only_decision(request)
    assert decision.answer is None
    assert (
        decision.groups[0].closest
        == "node1/node3: node3 lacks 977 MiB memory (for a failover to it)"
    )


def test_relocate_plain_instance_says_why_it_is_rejected() -> None:
    """The relocation of an instance with plain disks is rejected with that reason."""
    document = cluster(instances={"a": instance("node1")})
    decision = only_decision(relocate(document, "a"))
    assert decision.answer is None
    assert decision.notes == [
        "Disks of type plain are on node1 only: no other node has a copy, "
        "and none has access to them."
    ]


def test_evacuate_shared_storage_excludes_what_is_evacuated() -> None:
    """Evacuated nodes, and nodes that are not online, are excluded with that reason."""
    held = {"a": rbd("node1")}
    document = cluster(4, instances=held, changes={"node2": {"drained": True}})
    decision = only_decision(evacuate(document, "primary-only", "a"))
    assert node_results(decision) == {
        "node1": ["is to be evacuated"],
        "node2": ["drained"],
        "node3": [],
        "node4": [],
    }
    assert [step.words for step in decision.steps] == ["migrate to node3"]


def test_evacuate_down_instance_fails_over() -> None:
    """A stopped instance fails over in the explanation, because it cannot migrate."""
    held = {"a": instance("node1", "node2", admin_state="down")}
    decision = only_decision(evacuate(cluster(instances=held), "primary-only", "a"))
    assert [step.words for step in decision.steps] == ["fail over to node2"]
    assert node_results(decision) == {
        "node1": ["is the primary now, and becomes the secondary"],
        "node2": [],
        "node3": ["is not its secondary"],
    }


def test_evacuate_primary_without_room_says_what_the_secondary_lacks() -> None:
    """A rejected failover has the violated limit and the missing amount of the secondary."""
    held = {"a": instance("node1", "node2", memory=4096)}
    document = cluster(2, instances=held, changes={"node2": {"free_memory": 3000}})
    decision = only_decision(evacuate(document, "primary-only", "a"))
    assert node_results(decision)["node2"] == [
        "FailMem: needs 4096 MiB memory, 3000 free, and 1 MiB must remain"
    ]
    assert decision.groups[0].closest == "node2 lacks 1097 MiB memory"


def test_evacuate_pair_reports_the_step_that_fails() -> None:
    """If both nodes are new, a node is rejected at the first step that fails."""
    held = {"a": instance("node1", "node2", memory=4096, disk=5000)}
    changes = {"node3": {"free_memory": 3120}, "node4": {"free_disk": 5128}}
    decision = only_decision(evacuate(cluster(6, instances=held, changes=changes), "all", "a"))
    assert node_results(decision)["node3"] == [
        "FailMem first as secondary of node1: could not take over its 4096 MiB memory, 3120 free",
        "FailMem: could not take over its 4096 MiB memory, 3120 free",
    ]
    assert node_results(decision)["node4"] == [
        "FailDisk first as secondary of node1: needs 5128 MiB disk, 5128 free, and 1 MiB must "
        "remain",
        "FailDisk: needs 5128 MiB disk, 5128 free, and 1 MiB must remain",
    ]
    roles = {node.name: node.roles.reasons for node in decision.groups[0].nodes}
    assert roles["node3"] == [
        "FailMem as primary, first as secondary of node1: could not take over its 4096 MiB memory, "
        "3120 free",
        "FailMem as secondary: could not take over its 4096 MiB memory, 3120 free",
    ]
    assert [step.words for step in decision.steps] == [
        "new secondary node5",
        "migrate to node5",
        "new secondary node6",
    ]


def test_evacuate_names_an_old_primary_that_cannot_hold_the_secondary() -> None:
    """A failover is rejected if the old primary cannot be the secondary for a while."""
    held = {"a": instance("node1", "node2", memory=1024)}
    changes = {"node1": {"free_memory": 0}}
    decision = only_decision(evacuate(cluster(4, instances=held, changes=changes), "all", "a"))
    assert decision.answer is None
    assert decision.groups[0].closest == (
        "node3: FailMem in the failover from node1: node1 as the secondary then: "
        "could not take over its 1024 MiB memory, 1024 free"
    )


def test_evacuate_migration_tags_are_named() -> None:
    """The reason of a rejected move names the migration tag that the node lacks."""
    held = {"a": rbd("node1")}
    document = cluster(
        2, instances=held, changes={"node1": {"tags": ["cpu:new"]}}, tags=("htools:migration:cpu",)
    )
    decision = only_decision(evacuate(document, "primary-only", "a"))
    assert node_results(decision)["node2"] == [
        "FailMig: does not receive what node1 requires: cpu:new"
    ]
    assert "requires: cpu:new" in decision.groups[0].closest


def test_evacuate_primary_that_is_not_online_must_fail_over_first() -> None:
    """If the first failover is rejected, the reason says why no pair of nodes was tested."""
    held = {"a": instance("node1", "node2", memory=4096)}
    changes: Json = {"node1": {"offline": True}, "node2": {"free_memory": 3000}}
    decision = only_decision(evacuate(cluster(4, instances=held, changes=changes), "all", "a"))
    assert decision.groups[0].obstacle == (
        "node1 is not online, so the instance must first fail over to node2, which cannot "
        "take it: FailMem: needs 4096 MiB memory, 3000 free, and 1 MiB must remain"
    )


def test_change_group_of_an_offline_primary_needs_a_failover_first() -> None:
    """Off an offline primary, `change-group` is rejected if no failover is possible.

    The secondary is not in the new group, so that no node of that group is rejected.
    """
    held = {"a": instance("node1", "node2", memory=4096)}
    changes: Json = {"node1": {"offline": True}, "node2": {"free_memory": 3000}}
    document = cluster({"default": 2, "spare": 3}, instances=held, changes=changes)
    words = " ".join(text(explained(change_group(document, "a"))).split())
    assert "node1 is not online, so the instance must first fail over to node2, which" in words
    assert "cannot take it: FailMem" in words


@pytest.mark.parametrize(("answer", "goes"), [("no", False), ("yes", True)])
def test_evacuate_local_group_full_reports_the_offer_of_another(answer: str, goes: bool) -> None:
    """If only another group has capacity, its nodes are reported; --inter-group uses them."""
    held = {"a": rbd("node1")}
    document = cluster({"default": 1, "spare": 2}, instances=held)
    decision = only_decision(evacuate(document, "primary-only", "a"), "--inter-group", answer)
    assert decision.elsewhere is not None
    assert decision.elsewhere.answer is not None
    assert decision.elsewhere.answer.nodes == ["node2"]
    assert (decision.answer is not None) is goes
    assert any("--inter-group=yes" in note for note in decision.notes)


def test_other_groups_without_time_are_reported_as_not_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If time ends before other groups are searched, the explanation reports that."""
    monkeypatch.setattr(Deadline, "over", lambda self: True)
    held = {"a": rbd("node1")}
    document = cluster({"east": 1, "west": 2}, instances=held)
    decision = only_decision(evacuate(document, "primary-only", "a"))
    assert decision.answer is None
    assert "Other groups were not queried: time was up." in decision.notes


def test_evacuate_several_each_on_the_state_before() -> None:
    """The explanation of a later instance names the instances that moved before it."""
    held = {name: rbd("node1") for name in "ab"}
    first, second = explained(evacuate(cluster(instances=held), "primary-only", "a", "b")).decisions
    assert first.answer is not None
    assert second.answer is not None
    assert first.answer.nodes != second.answer.nodes
    assert second.notes == ["As things are once a of this request is moved."]


def test_change_group_reports_choice_and_move() -> None:
    """The explanation of change-group has the reason for the group, then for the nodes."""
    held = {"a": instance("node1", "node2")}
    document = cluster({"default": 2, "one": 2, "two": 3}, instances=held)
    decision = only_decision(change_group(document, "a"))
    assert decision.choice is not None
    obstacles = {group.name: group.obstacle for group in decision.choice.groups}
    assert obstacles["default"] == "instances of the request are in it"
    assert decision.choice.groups[0].name == decision.groups[0].name
    assert len(decision.steps) == 3


def test_change_group_without_target_lists_the_groups() -> None:
    """If no target group remains, each group has the reason for its exclusion."""
    decision = only_decision(
        change_group(cluster(instances={"a": instance("node1", "node2")}), "a")
    )
    assert decision.reason == "no group is left to move to"
    assert decision.choice is not None
    (group,) = decision.choice.groups
    assert group.obstacle == "instances of the request are in it"


def test_multi_allocate_one_without_room_leaves_the_others() -> None:
    """In a batch, each instance has its decision; a failed one has its nearest candidate."""
    base = allocate_rbd(cluster(2), memory=3000)["request"]
    wanted = [{**base, "name": name, "memory": size} for name, size in (("a", 500), ("b", 9000))]
    request = {**cluster(2), "request": {"type": "multi-allocate", "instances": wanted}}
    first, second = explained(request, "--n1", "off").decisions
    assert first.answer is not None
    assert second.answer is None
    assert second.groups[0].closest == "node2 lacks 809 MiB memory"


def test_multi_allocate_statistics_are_those_of_each_instance() -> None:
    """In a batch, the initial statistics of an instance are those after the previous instance."""
    base = allocate_rbd(cluster(3), memory=500)["request"]
    wanted = [{**base, "name": name} for name in ("a", "b")]
    request = {**cluster(3), "request": {"type": "multi-allocate", "instances": wanted}}
    first, second = (one.answer for one in explained(request).decisions)
    assert first is not None
    assert second is not None
    assert [one.before for one in second.terms] == pytest.approx([t.after for t in first.terms])
    assert sum(one.contribution_after for one in second.terms) == pytest.approx(second.score)


def test_multi_allocate_like_hail_ends_with_the_first_failure() -> None:
    """With --compat hail, instances of a batch after a failure are reported as skipped."""
    base = allocate(cluster(2), memory=9000)["request"]
    wanted = [{**base, "name": name} for name in ("a", "b")]
    request = {**cluster(2), "request": {"type": "multi-allocate", "instances": wanted}}
    _, second = explained(request, "--compat", "hail").decisions
    assert second.reason.startswith("not placed")


def test_allocate_secondary_keeps_the_primary() -> None:
    """`allocate-secondary` keeps the primary, and each rejected secondary has its reason."""
    held = {"a": instance("node1", memory=4096)}
    document = cluster(3, instances=held, changes={"node3": {"free_memory": 3120}})
    decision = only_decision({**document, "request": {"type": "allocate-secondary", "name": "a"}})
    assert decision.answer is not None
    assert decision.answer.nodes == ["node1", "node2"]
    assert node_results(decision)["node3"] == [
        "FailMem: could not take over its 4096 MiB memory, 3120 free"
    ]


@pytest.mark.parametrize(("nodes", "answers"), [(4, [True, True]), (2, [False])])
def test_multi_evacuate_ends_with_the_first_failure(nodes: int, answers: list[bool]) -> None:
    """`multi-evacuate` explains each secondary on the node, up to the first that fails."""
    held = {name: instance("node1", "node2") for name in "ab"}
    request = {"type": "multi-evacuate", "evac_nodes": ["node2"]}
    found = explained({**cluster(nodes, instances=held), "request": request})
    assert [decision.answer is not None for decision in found.decisions] == answers
    assert found.response["success"] is all(answers)
    for decision, (_, new) in zip(found.decisions, found.response["result"]):
        assert decision.answer is not None
        assert decision.answer.nodes[1:] == new


def test_multi_evacuate_of_empty_nodes_is_reported() -> None:
    """The explanation of a request without instances reports that there are none."""
    request = {"type": "multi-evacuate", "evac_nodes": ["node2"]}
    found = explained({**cluster(), "request": request})
    assert found.remarks == ["No instance is concerned: nothing is to be done."]


def test_amounts_of_a_million_and_more_keep_their_digits() -> None:
    """Large amounts are printed to the last MiB."""
    document = cluster(2, disk=4123456, memory=65536)
    request = allocate(document, disk=5000000, disk_template="plain")
    (decision,) = explained(request).decisions
    assert node_results(decision)["node1"] == [
        "FailDisk: needs 5000000 MiB disk, 4123456 free, and 1 MiB must remain"
    ]


def test_rejected_group_has_rows_in_the_document_and_no_empty_rows_as_text() -> None:
    """The document lists the nodes of a group that is rejected as a whole; the text does not."""
    held = {"a": instance("node1", "node2")}
    given = cluster({"pair": 2, "single": 1}, instances=held)
    request = {"type": "node-evacuate", "instances": ["a"], "evac_mode": "secondary-only"}
    found = explained({**given, "request": request})
    assert '"node3"' in json.dumps(found.document())
    assert "node3" not in text(found)
