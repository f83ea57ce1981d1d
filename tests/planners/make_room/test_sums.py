"""What sums rule out is not searched, and nothing that is possible is ruled out by them."""

from __future__ import annotations

import json
from random import Random

import pytest

from iallocator.planners.make_room.room import Room
from iallocator.planners.make_room.search import RoomSearch
from tests.builders import Json, allocate, as_bytes, cluster, instance
from tests.command import run
from tests.seeds import seeds


def planned(document: Json, *words: str) -> Json:
    """Return the plan that makes room."""
    done = run("make-room", "--json", *words, stdin=as_bytes(document))
    assert done.returncode in (0, 1), done.stderr.decode()
    plan: Json = json.loads(done.stdout)
    return plan


def mirrored(rng: Random, nodes: int, count: int) -> tuple[dict[str, Json], Json]:
    """Return mirrored instances on tight nodes, and the document with a request for one more."""
    names = [f"node{k + 1}" for k in range(nodes)]
    instances = {}
    for k in range(count):
        home = names[k % nodes]
        mirror = rng.choice([name for name in names if name != home])
        size, disk = rng.choice([700, 1300, 2100]), rng.choice([500, 1500])
        instances[f"i{k}"] = instance(home, mirror, memory=size, disk=disk)
    document = cluster(nodes, memory=6500, disk=17000, instances=instances)
    return instances, allocate(document, memory=rng.choice([2600, 3400]), disk=1500)


def evacuation(document: Json, instances: dict[str, Json], mode: str) -> Json:
    """Return the document with a request that some leave node1."""
    roles = {"primary-only": slice(0, 1), "secondary-only": slice(1, 2), "all": slice(None)}
    names = [name for name, one in instances.items() if "node1" in one["nodes"][roles[mode]]]
    request = {"type": "node-evacuate", "instances": names[:3], "evac_mode": mode}
    return {**document, "request": request}


def test_room_of_mirrored_instances_is_proved_with_little_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Memory for failovers, and all evacuated beside each other, rule out nearly everything."""
    monkeypatch.setattr("iallocator.planners.make_room.search.WORK", 6000)
    told = []
    for seed in (1, 4):
        instances, document = mirrored(Random(f"proved/{seed}"), 4, 10)
        for asked in (document, evacuation(document, instances, "primary-only")):
            told.append(planned(asked, "--n1=off", "--make-room=2")["reason"])
    assert any("room is not made by 2 moves" in reason for reason in told)
    assert not any("was found" in reason for reason in told), told


@pytest.mark.parametrize("n1", ["off", "strict", "no-new", "no-worse"])
def test_sums_rule_out_nothing_that_is_possible(n1: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same moves are found where every sequence is tried out."""
    made = 0
    for seed in seeds(3, 60, 4):
        rng = Random(f"{n1}/{seed}")
        instances, document = mirrored(rng, 3, 5)
        mode = rng.choice(["primary-only", "secondary-only", "all"])
        asked = rng.choice([document, evacuation(document, instances, mode)])
        quick = planned(asked, f"--n1={n1}", "--make-room=2")
        with monkeypatch.context() as patched:
            for question in ("fits", "possible", "helped"):
                patched.setattr(Room, question, lambda *_: True)
            patched.setattr(Room, "too_small", lambda _: False)
            whole = planned(asked, f"--n1={n1}", "--make-room=2")
        assert (quick["moves"], quick["reason"]) == (whole["moves"], whole["reason"]), seed
        made += bool(whole["moves"])
    assert made or len(seeds(3, 60, 4)) < 60


def unit_that_parts() -> Json:
    """Return a request that one of two leaves its node who must be together."""
    unit = {"tags": ["iallocator:colocate:must:u"], "disk_template": "rbd"}
    instances = {
        "a": instance("node1", memory=700, **unit), "b": instance("node1", memory=700, **unit),
    }  # fmt: skip
    request = {"type": "node-evacuate", "instances": ["a"], "evac_mode": "primary-only"}
    return {**cluster(3, instances=instances), "request": request}


def larger_than_all() -> Json:
    """Return a request for more than all nodes have together."""
    instances = {f"i{k}": instance(f"node{k}", memory=6000, disk_template="rbd") for k in (1, 2, 3)}
    return allocate(cluster(3, instances=instances), memory=7000, disk_template="rbd")


def who_never_moves() -> Json:
    """Return a request that an instance on local disks leaves its node."""
    instances = {"a": instance("node1", disk_template="plain")}
    request = {"type": "node-evacuate", "instances": ["a"], "evac_mode": "all"}
    return {**cluster(3, instances=instances), "request": request}


@pytest.mark.parametrize("document", [unit_that_parts(), larger_than_all(), who_never_moves()])
def test_room_that_nobody_could_make_is_not_searched(
    document: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No moves of others help; that is a proof."""
    monkeypatch.setattr(RoomSearch, "_deeper", lambda *_: pytest.fail("searched in vain"))
    assert planned(document, "--n1=off")["reason"] == "room is not made by 3 moves of others"
