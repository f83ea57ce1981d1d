"""Test `make-room` for requests that no moves make possible: it rejects them without a search."""

from __future__ import annotations

import pytest

from iallocator.planners.make_room.search import RoomSearch
from tests.builders import Json, allocate_rbd, cluster, instance, rbd

from .test_bound_moves import planned


def unit_in_two_places() -> Json:
    """Return a request that moves one instance of a colocation group of two off its node."""
    unit = {"tags": ["iallocator:colocate:must:u"], "disk_template": "rbd"}
    instances = {
        "a": instance("node1", memory=700, **unit), "b": instance("node1", memory=700, **unit),
    }  # fmt: skip
    request = {"type": "node-evacuate", "instances": ["a"], "evac_mode": "primary-only"}
    return {**cluster(3, instances=instances), "request": request}


def larger_than_all() -> Json:
    """Return a request for more than all nodes have together."""
    instances = {f"i{k}": rbd(f"node{k}", memory=6000) for k in (1, 2, 3)}
    return allocate_rbd(cluster(3, instances=instances), memory=7000)


def instance_that_never_moves() -> Json:
    """Return a request that moves an instance with local disks off its node."""
    instances = {"a": instance("node1", disk_template="plain")}
    request = {"type": "node-evacuate", "instances": ["a"], "evac_mode": "all"}
    return {**cluster(3, instances=instances), "request": request}


@pytest.mark.parametrize(
    "document", [unit_in_two_places(), larger_than_all(), instance_that_never_moves()]
)
def test_impossible_room_is_not_searched(document: Json, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make-room` does not search if a proof shows that no moves of other instances help."""
    monkeypatch.setattr(RoomSearch, "run", lambda *_: pytest.fail("searched in vain"))
    reason = planned(document, "--n1=off")["reason"]
    assert reason == "no plan with up to 3 moves of other instances exists (proved)"
