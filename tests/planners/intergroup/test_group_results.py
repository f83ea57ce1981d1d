"""Test the result reported for each group: "found", "impossible", "out of time" and others."""

from __future__ import annotations

import pytest

from iallocator.planners.intergroup import compress, evacuation
from iallocator.planners.intergroup.moving import Mover
from tests.builders import Json, cluster

from .scenarios import by_group, on_shared, plan_of, random_super_cluster

OFFLINE = {"node1": {"offline": True}}


def _one_full_group(east: int) -> Json:
    """Return three instances of `east` MiB on one node, and two nodes with 5 GiB free each."""
    instances = {name: on_shared("node1", memory=east) for name in "abc"}
    instances |= {f"w{k}": on_shared(f"node{k}", memory=3192) for k in (2, 3)}
    document = cluster({"east": 1, "west": 2}, instances=instances)
    document["nodes"]["node1"] |= {"total_memory": 16000, "free_memory": 16000 - 3 * east}
    return document


def _needs_joint_packing() -> Json:
    """Return a cluster in which three instances fit on two nodes only if they are placed jointly.

    Memory keeps two of the instances off one node; cpus keep the third one off the other.
    """
    document = _one_full_group(3000)
    for name, memory, vcpus in (("a", 3000, 17), ("b", 3000, 17), ("c", 1000, 15)):
        document["instances"][name] |= {"memory": memory, "vcpus": vcpus}
    document["nodes"]["node1"]["free_memory"] += 2000
    return document


def _result(plan: Json, group: str = "east") -> str:
    output: str = by_group(plan)[group]["verdict"]
    return output


@pytest.mark.parametrize(
    ("document", "options", "result"),
    [
        (_one_full_group(2400), (), "found"),
        (_one_full_group(3000), ("--exact-search=no",), "impossible"),
        (_needs_joint_packing(), (), "impossible"),
        (_needs_joint_packing(), ("--exact-search=no",), "undecided"),
        (_one_full_group(5200), (), "impossible"),
    ],
)
def test_compress_reports_a_result_for_each_group(
    document: Json, options: tuple[str, ...], result: str
) -> None:
    """`compress` reports for each group whether it can be emptied, or that it is undecided."""
    plan = plan_of("compress", document, "--n1=off", *options)
    assert _result(plan) == result


def _interlocking() -> Json:
    """Return six instances that fit on two nodes in one way only: a, d and f on one node."""
    sizes = {"a": (400, 14), "b": (3000, 12), "c": (400, 12),
             "d": (2000, 9), "e": (500, 7), "f": (1400, 7)}  # fmt: skip
    held = {name: on_shared("node1", memory=m, vcpus=c) for name, (m, c) in sizes.items()}
    held["w"] = on_shared("node2", memory=128, vcpus=1)
    document = cluster({"east": 1, "west": 2}, memory=4096, instances=held)
    document["nodes"]["node1"] |= {
        "total_memory": 100000, "free_memory": 92300, "total_cpus": 64,
    }  # fmt: skip
    return document


@pytest.mark.parametrize("command", ["compress", "redistribute"])
def test_tag_for_exact_search_counts_on_the_group_that_instances_leave(command: str) -> None:
    """A tag for exact search has the effect of the option on the group that instances leave."""
    pytest.importorskip("highspy")
    document = _interlocking()
    document["nodes"]["node1"]["offline"] = command == "redistribute"

    def planned(*options: str, east: str = "", west: str = "", whole: str = "") -> list[str]:
        named = {"uuid-east": east, "uuid-west": west}
        for uuid, value in named.items():
            tags = [f"iallocator:exact-search:{value}"] if value else []
            document["nodegroups"][uuid]["tags"] = tags
        document["cluster_tags"] = [f"iallocator:exact-search:{whole}"] if whole else []
        plan = plan_of(command, document, "--n1=off", *options)
        row = by_group(plan)["east"]
        moved = sorted(m["instance"] for m in plan["moves"] if m["from"] == ["node1"])
        return [row["verdict"], *moved]

    found = ["found", *"abcdef"]
    assert planned() == found
    assert (
        "placed together by exact search"
        in by_group(plan_of(command, document, "--n1=off"))["east"]["reason"]
    )
    assert planned("--exact-search=no") == ["undecided"]
    assert planned(east="no") == ["undecided"]
    assert planned(whole="no") == ["undecided"]
    assert planned(whole="no", east="yes") == found
    assert planned(whole="no", west="yes") == ["undecided"]
    assert planned(west="no") == found


def test_compress_without_remaining_operations_tries_without_a_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without remaining operations, `compress` tries fast packing only and reports it."""
    monkeypatch.setattr(compress, "PLACEMENTS_PER_SECOND", 0)
    plan = plan_of("compress", _one_full_group(2400), "--n1=off")
    assert _result(plan) == "found"
    assert plan["moves"]
    plan = plan_of("compress", _needs_joint_packing(), "--n1=off")
    assert (_result(plan), plan["moves"]) == ("out of time", [])
    assert by_group(plan)["east"]["reason"] == compress.QUICK


def test_compress_where_a_search_would_be_too_large_is_out_of_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`compress` does not start a search that is too large, and reports the size of the search."""
    monkeypatch.setattr(evacuation, "MOST_SEARCHED_PLACEMENTS", 5)
    plan = plan_of("compress", _needs_joint_packing(), "--n1=off")
    assert _result(plan) == "out of time"
    assert "6 possible places are too many" in by_group(plan)["east"]["reason"]


@pytest.mark.parametrize("command", ["compress", "redistribute"])
def test_groups_not_reached_in_time_are_out_of_time(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If time ends early, each group with instances to move is reported as "out of time"."""
    from iallocator.deadline import TIME_IS_UP, Stopped

    def stop(self: Mover, *_: object) -> None:
        raise Stopped(TIME_IS_UP)

    monkeypatch.setattr(Mover, "relocate", stop)
    document = _one_full_group(2000)
    document["nodes"]["node1"]["offline"] = command == "redistribute"
    plan = plan_of(command, document, "--n1=off")
    assert _result(plan) == "out of time"
    assert _result(plan, "west") == (
        "nothing to do" if command == "redistribute" else "out of time"
    )


def test_redistribute_reports_a_result_for_each_group() -> None:
    """`redistribute` reports whether a group is repaired, cannot be, or needs no repair."""
    instances = {"a": on_shared("node1", memory=5000)}
    document = cluster({"east": 2, "west": 2}, instances=instances, changes=OFFLINE)
    plan = plan_of("redistribute", document)
    assert (_result(plan), _result(plan, "west")) == ("found", "nothing to do")
    document["instances"] |= {f"w{k}": on_shared(f"node{k}", memory=2000) for k in (3, 4)}
    for name in ("node3", "node4"):
        document["nodes"][name]["free_memory"] -= 2000
    plan = plan_of("redistribute", document)
    assert (_result(plan), plan["moves"]) == ("impossible", [])


@pytest.mark.parametrize("command", ["compress", "redistribute"])
def test_results_agree_with_the_plan(command: str) -> None:
    """Only groups that the plan empties or repairs have the result "found".

    All others have a reason.
    """
    seen: set[str] = set()
    for seed in range(25):
        document = random_super_cluster(seed)
        plan = plan_of(command, document)
        for row in plan["groups"]:
            done = row["evacuable"] if command == "compress" else row["repaired"]
            assert done == (row["verdict"] == "found"), (seed, row)
            assert row["reason"] or row["verdict"] in ("found", "nothing to do"), (seed, row)
            seen.add(row["verdict"])
    assert {"found", "impossible"} <= seen
