"""Test `make-room`: it finds the fewest moves of other instances, compared with brute force."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from iallocator.cli import main
from iallocator.deadline import ITERATIONS, SIGNALLED, Stopped
from iallocator.model.state import State
from iallocator.options.settings import Settings
from iallocator.planners.make_room.make_room import RoomContext
from iallocator.planners.make_room.search import RoomSearch
from iallocator.scoring.scalar import score_of
from tests.aliases import Capture
from tests.builders import Json, allocate, allocate_rbd, as_bytes, cluster, instance, rbd
from tests.command import run
from tests.model.make import model_of
from tests.schemas import conforms
from tests.seeds import seeds

NAMES = ("node1", "node2", "node3")


def shared(home: str, memory: int, **members: Any) -> Json:
    """Return an instance of `memory` MiB on shared storage on the node `home`."""
    return rbd(home, memory=memory, **members)


def tight(seed: int) -> Json:
    """Return three random nodes of 8000 MiB, and a request that fits on few of them or on none."""
    rng = Random(seed)
    instances: dict[str, Json] = {}
    for home in NAMES:
        left = 8000
        while (size := rng.choice([900, 1700, 2300, 3100])) < left - rng.choice([200, 2500]):
            instances[f"i{len(instances)}"] = shared(home, size)
            left -= size
    document = cluster(3, memory=8000, instances=instances)
    return allocate_rbd(document, memory=rng.choice([2900, 4100]))


def ways(homes: tuple[str, ...], sizes: list[int]) -> list[tuple[str, ...]]:
    """Return the placements after one migration from `homes` to a node with enough free memory."""
    free = {n: 8000 - sum(s for h, s in zip(homes, sizes) if h == n) for n in NAMES}
    return [
        (*homes[:k], target, *homes[k + 1 :])
        for k, target in product(range(len(homes)), NAMES)
        if target != homes[k] and free[target] > sizes[k]
    ]


def fewest(document: Json, most: int) -> tuple[int, int, list[tuple[str, ...]]] | None:
    """Return the least number of migrations, their least traffic, and their final placements.

    Return None if more than `most` migrations are needed.
    """
    instances = document["instances"].values()
    sizes, need = [one["memory"] for one in instances], document["request"]["memory"]
    reached = {tuple(one["nodes"][0] for one in instances): 0}
    for count in range(most + 1):
        room = {
            homes: copied for homes, copied in reached.items()
            if any(8000 - sum(s for h, s in zip(homes, sizes) if h == n) > need for n in NAMES)
        }  # fmt: skip
        if room:
            least = min(room.values())
            return count, least, [homes for homes, copied in room.items() if copied == least]
        following: dict[tuple[str, ...], int] = {}
        for homes, copied in reached.items():
            for then in ways(homes, sizes):
                moved = next(s for s, a, b in zip(sizes, homes, then) if a != b)
                following[then] = min(following.get(then, 1 << 40), copied + moved)
        reached = following
    return None


def lowest_score(document: Json, ends: list[tuple[str, ...]]) -> float:
    """Return the lowest score of the cluster over all placements in `ends`."""
    sizes = [one["memory"] for one in document["instances"].values()]
    clusters = (
        cluster(3, memory=8000, instances={
            f"i{k}": shared(home, size) for k, (home, size) in enumerate(zip(homes, sizes))
        })
        for homes in ends
    )  # fmt: skip
    return min(score_of(State(model_of(one)), range(3)) for one in clusters)


def ask(document: Json, *words: str) -> tuple[int, str]:
    """Return the exit status and the output of the program with options `words` for `document`."""
    done = run(*words, stdin=as_bytes(document))
    return done.returncode, done.stdout.decode()


def planned(document: Json, *words: str) -> Json:
    """Return the plan of make-room after a check against its schema."""
    plan: Json = json.loads(ask(document, "make-room", "--json", *words)[1])
    conforms(plan, "plan")
    return plan


def test_moves_are_the_fewest_then_of_least_traffic_then_of_lowest_score() -> None:
    """`make-room` finds the fewest migrations; of these, the least traffic, then the best score.

    Brute force tries every sequence of up to three migrations.
    """
    counts, chosen = set(), 0
    for seed in seeds(14, 40, 17):
        document = tight(seed)
        plan = planned(document, "--n1=off")
        least = fewest(document, 3)
        copied = sum(move["copied_mib"] for move in plan["moves"])
        found = (len(plan["moves"]), copied)
        assert found == (least[:2] if least else (0, 0)), seed
        if found[0] and least:
            best = lowest_score(document, least[2])
            assert plan["moves"][-1]["score"] == pytest.approx(best, abs=1e-6), seed
            chosen += len(least[2]) > 1
        counts.add(None if least is None else least[0])
        if least is None:
            assert plan["reason"] == "no plan with up to 3 moves of other instances exists (proved)"
    assert {None, 0, 1, 2} <= counts
    assert chosen


TWO = allocate_rbd(
    cluster(3, instances={
        "a": shared("node1", 3000), "b": shared("node2", 3000), "c": shared("node3", 4500),
    }),
    memory=6000,
)  # fmt: skip


def test_rejection_names_the_moves_that_make_room() -> None:
    """With --make-room, a rejection of Ganeti's request has the moves in ``solutions``."""
    _, output = ask(TWO, "--n1=off", "--make-room=2")
    answer = json.loads(output)
    conforms(answer, "response")
    assert (answer["success"], answer["result"]) == (False, [])
    assert "; would fit after 1 migration: a from node1 to node2" in answer["info"]
    room = answer["solutions"][-1]["make_room"]
    assert (room["copied_mib"], room["proved"]) == (3000, True)
    assert [step["kind"] for step in room["transition"]["steps"]] == ["migrate"]


def test_rejection_without_the_option_names_no_moves() -> None:
    """By default, a rejection has no plan."""
    answer = json.loads(ask(TWO, "--n1=off")[1])
    assert "would fit" not in answer["info"]
    assert all("make_room" not in one for one in answer["solutions"])


def test_plan_with_more_traffic_than_cost_is_rejected() -> None:
    """`make-room` finds no plan if each plan copies more data than ``--cost`` permits."""
    status, output = ask(TWO, "make-room", "--n1=off", "--cost=2")
    assert (status, "no plan with up to 3 moves of other instances exists" in output) == (1, True)
    assert ask(TWO, "make-room", "--n1=off", "--cost=3")[0] == 0


@pytest.mark.parametrize(
    ("tag", "targets"), [("", {"node2", "node3"}), ("iallocator:separate:must:x", {"node3"})]
)
def test_separated_instances_never_share_a_node_to_make_room(tag: str, targets: set[str]) -> None:
    """`make-room` moves an instance to the node of another one unless the two are separated."""
    tags = {"tags": [tag] if tag else []}
    full = {"c": shared("node3", 3000)} if tag else {"c": shared("node3", 6000)}
    instances = {"a": shared("node1", 3000, **tags), "b": shared("node2", 4000, **tags), **full}
    document = allocate_rbd(cluster(3, instances=instances), memory=6000)
    plan = planned(document, "--n1=off")
    (move,) = plan["moves"]
    assert move["instance"] == "a"
    assert set(move["to"]) <= targets


def test_tolerated_failures_are_tolerated_after_the_moves() -> None:
    """`make-room` rejects moves after which a tolerated node failure is not tolerated any more."""
    assert planned(TWO)["moves"] == []


def test_moves_of_other_instances_let_an_evacuation_succeed() -> None:
    """`make-room` finds the move of another instance that lets an evacuation succeed."""
    instances = {
        "a": shared("node1", 5000), "b": shared("node2", 3500), "c": shared("node3", 4000),
    }  # fmt: skip
    document = cluster(3, instances=instances)
    document["request"] = {"type": "node-evacuate", "instances": ["a"], "evac_mode": "primary-only"}
    plan = planned(document, "--n1=off")
    assert [(move["instance"], move["to"]) for move in plan["moves"]] == [("b", ["node3"])]
    answer = json.loads(ask(document, "--n1=off", "--make-room=1")[1])
    assert "would fit after 1 migration: b from node2 to node3" in answer["info"]


def test_moves_of_other_instances_let_instances_change_their_group() -> None:
    """`make-room` finds the move in the other group that lets an instance change its group."""
    instances = {
        "a": shared("node1", 5000), "b": shared("node2", 3500), "c": shared("node3", 4000),
    }  # fmt: skip
    document = cluster({"east": 1, "west": 2}, instances=instances)
    document["request"] = {
        "type": "change-group", "instances": ["a"], "target_groups": ["uuid-west"],
    }  # fmt: skip
    plan = planned(document, "--n1=off")
    assert [(move["instance"], move["to"]) for move in plan["moves"]] == [("b", ["node3"])]


def test_request_that_fits_needs_no_moves() -> None:
    """For a request that fits, `make-room` reports that no move is needed, with status 0."""
    document = allocate_rbd(cluster(3), memory=1000)
    status, output = ask(document, "make-room")
    assert (status, "it fits without moves" in output) == (0, True)


def test_document_without_a_request_is_rejected() -> None:
    """`make-room` ends with exit status 2 if the document has no request."""
    assert ask(cluster(2), "make-room")[0] == 2


def test_cluster_without_a_request_is_rejected_with_a_hint(tmp_path: Path, capsys: Capture) -> None:
    """`make-room` on a simulated cluster rejects a file without a request, with a hint."""
    (tmp_path / "nothing").write_bytes(b"\n")
    assert main(["make-room", "--simulate=p,3,9g,9g,9", str(tmp_path / "nothing")]) == 2
    assert capsys.readouterr().err.startswith("iallocator: make-room needs a request: a document")


def test_drbd_instances_make_room_by_a_move_to_their_secondary() -> None:
    """`make-room` fails a drbd instance over to its secondary, which copies its memory only."""
    instances = {"a": instance("node1", "node2", memory=3000), "b": shared("node2", 3000)}
    document = allocate_rbd(cluster(2, instances=instances), memory=6000)
    plan = planned(document, "--n1=off", "--ignore-soft-errors")
    assert [(move["instance"], move["move"], move["copied_mib"]) for move in plan["moves"]] == [
        ("a", "f", 3000)
    ]


@pytest.mark.parametrize("found", [True, False])
def test_search_for_room_interrupted_prints_the_plan_so_far(
    found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After Ctrl-C, `make-room` prints the plan found so far as not proved, or no plan."""
    whole = RoomSearch.over

    def interrupt(self: RoomSearch) -> bool:
        if self.best_moves or not found:
            raise Stopped(SIGNALLED)
        return whole(self)

    monkeypatch.setattr(RoomSearch, "over", interrupt)
    status, reported = ask(TWO, "make-room", "--n1=off", "--json")
    plan = json.loads(reported)
    conforms(plan, "plan")
    assert status == 130
    assert "interrupted" in plan["reason"]
    assert bool(plan["moves"]) is found
    words = (
        "would fit after 1 migration: a from"
        if found
        else "no plan with up to 3 moves of other instances was found"
    )
    assert plan["reason"].startswith(words)


def wanted(name: str, memory: int) -> Json:
    """Return the description of one new instance of a batch."""
    request: Json = allocate_rbd({}, name, memory=memory)["request"]
    return {key: value for key, value in request.items() if key != "type"}


SEVERAL = {
    **TWO,
    "request": {
        "type": "multi-allocate", "instances": [wanted("large", 6000), wanted("small", 1000)],
    },
}  # fmt: skip


def test_batch_that_does_not_fit_names_the_moves_that_make_room_for_all() -> None:
    """For a batch that fits in part, the answer has the moves after which all of it fits."""
    words = ("--n1=off", "--make-room=2")
    answer = json.loads(ask(SEVERAL, *words)[1])
    conforms(answer, "response")
    assert (answer["success"], answer["result"][1]) == (True, ["large"])
    assert answer["info"].endswith("would fit after 1 migration: a from node1 to node2")
    reported = json.loads(ask(SEVERAL, "explain", "--json", *words)[1])
    assert reported["response"]["solutions"] == answer["solutions"]
    assert [one["instance"] for one in reported["decisions"]] == ["large", "small"]


def test_evacuation_that_others_make_room_for_is_explained() -> None:
    """`explain` adds no decision for the moves that make room for an evacuation."""
    instances = {
        "a": shared("node1", 5000), "b": shared("node2", 3500), "c": shared("node3", 4000),
    }  # fmt: skip
    request = {"type": "node-evacuate", "instances": ["a"], "evac_mode": "primary-only"}
    document = {**cluster(3, instances=instances), "request": request}
    words = ("explain", "--n1=off", "--make-room=1", "--json")
    reported = json.loads(ask(document, *words)[1])
    assert [one["instance"] for one in reported["decisions"]] == ["a"]
    assert "make_room" in reported["response"]["solutions"][-1]


@pytest.mark.parametrize("asked", [True, False])
def test_request_in_words_equals_the_document(asked: bool) -> None:
    """`make-room` with a request in words, as for ``ask``, ignores the request of the file."""
    other = allocate_rbd(TWO, memory=100) if asked else {**TWO}
    if not asked:
        del other["request"]
    question = "--request=allocate --memory 6000 --template rbd --disk 1G"
    plan = planned(other, "--n1=off", question)
    assert [(move["instance"], move["to"]) for move in plan["moves"]] == [("a", ["node2"])]
    plan = planned(other, "--n1=off", "--request=evacuate node3")
    assert plan["reason"] == "it fits without moves"


def test_request_in_words_works_with_a_cluster_from_another_source(capsys: Capture) -> None:
    """`make-room` with a request in words and a simulated cluster needs no file."""
    question = "--request=allocate --memory {} --template rbd --disk 1G"
    for memory, status, reported in (
        ("1G", 0, "it fits without moves"),
        ("1T", 1, "no plan with up to 3 moves"),
    ):
        words = ["make-room", "--simulate=p,3,9g,9g,9", question.format(memory)]
        assert main(words) == status
        assert reported in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        ("allocate", "ask allocate needs --memory"),
        ("evacuate node9", "evacuate: unknown node node9"),
        ("grow", "ask one of allocate, evacuate, relocate, change-group, got 'grow'"),
        ("evacuate 'node1", "--request: No closing quotation"),
    ],
)
def test_invalid_request_in_words_is_rejected(
    words: str, reported: str, tmp_path: Path, capsys: Capture
) -> None:
    """`make-room` rejects an invalid request in words with one line and exit status 2."""
    path = tmp_path / "document.json"
    path.write_bytes(as_bytes(TWO))
    assert main(["make-room", f"--request={words}", str(path)]) == 2
    assert reported in capsys.readouterr().err


def test_search_without_time_is_reported() -> None:
    """If no time is left, `make-room` reports that it found no plan, and claims no proof."""
    status, reported = ask(TWO, "make-room", "--n1=off", "--time-limit=0")
    assert status == 1
    assert "no plan with up to 3 moves of other instances was found (time is up)" in reported


def several(groups: list[str | None]) -> Json:
    """Return a nearly full cluster, and a request for one new instance for each of `groups`.

    None stands for an instance that may go to any group.
    """
    homes = {f"i{k}": shared(NAMES[k % 3], 900 + 100 * k) for k in range(9)}
    document = allocate_rbd(cluster(3, memory=5500, instances=homes), memory=3000)
    one = document["request"]
    wanted = [{**one, "name": f"new{k}", "group_name": g} for k, g in enumerate(groups)]
    document["request"] = {"type": "multi-allocate", "instances": wanted}
    return document


def test_room_for_a_group_that_does_not_exist_is_not_searched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`make-room` does not search for moves for an instance that requires an unknown group."""
    monkeypatch.setattr(RoomSearch, "run", lambda search: pytest.fail("searched in vain"))
    _, reported = ask(several([None, "gone"]), "make-room", "--n1=off", "--json")
    assert json.loads(reported)["reason"].startswith("no plan with up to 3 moves")


def test_operations_of_a_search_count_each_instance_and_simulated_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The budget of a search counts instances and simulated failures, not just placements."""
    asked: list[int] = []
    whole = RoomSearch.reached

    def counted(self: RoomSearch) -> bool:
        asked.append(1)
        return whole(self)

    monkeypatch.setattr(RoomSearch, "reached", counted)
    monkeypatch.setattr("iallocator.planners.make_room.search.SEARCH_BUDGET", 1500)
    counts = []
    for words in (["--n1=off"], ["--n1=no-worse"]):
        for many in (1, 4):
            asked.clear()
            ask(several([None] * many), "make-room", "--json", *words)
            counts.append(len(asked))
    assert counts[1] <= 1500 / (5 * 3 * 4 * 3) + 1 < counts[0]
    assert counts[2] < counts[0], counts


def test_exact_searches_for_room_share_the_limit_of_operations() -> None:
    """Each exact search of make-room gets a part of the remaining budget of operations."""
    context = RoomContext(model_of(cluster(2)), Settings())
    first = context.budget()
    start = first.work[ITERATIONS]
    first.spend(start, ITERATIONS)
    second = context.budget()
    assert 0 < second.work[ITERATIONS] < start
    assert context.undecided


def test_secondary_that_stays_keeps_the_memory_for_another_primary() -> None:
    """`make-room` makes no move to a node from which the instance could not fail over any more.

    On node3, instance a would fail over to node2 together with b, and node2 lacks the memory.
    """
    instances = {
        "a": instance("node1", "node2", memory=2000), "b": instance("node3", "node2", memory=2000),
    }  # fmt: skip
    document = cluster(3, memory=5000, instances=instances)
    document["nodes"]["node2"]["free_memory"] = 3000
    document["nodes"]["node2"]["total_memory"] = 3000
    document = allocate(document, memory=4000, disk_template="plain")
    plan = planned(document, "--n1=off", "--make-room=1")
    assert plan["reason"] == "no plan with 1 move of other instances exists (proved)"
    assert len(planned(document, "--n1=off", "--ignore-soft-errors", "--make-room=1")["moves"]) == 1


def test_without_nodes_there_is_no_room(tmp_path: Path) -> None:
    """`make-room` of a simulated cluster without nodes reports that the request fails."""
    request = tmp_path / "request.json"
    request.write_bytes(as_bytes(allocate_rbd(cluster(1))))
    done = run("make-room", "--simulate=p,0,4G,1G,8", str(request))
    assert (done.returncode, done.stderr) == (1, b"")
    assert b"no plan with up to 3 moves of other instances exists (proved)" in done.stdout
