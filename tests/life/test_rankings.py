"""Rankings of the literature, each in a world in which its choice can be worked out by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.life.rankings import RANKINGS, install
from iallocator.cli import answer
from iallocator.ranking import STRATEGIES
from tests.builders import Json, allocate, as_bytes, cluster, instance


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The rankings are strategies for one test only."""
    before = dict(STRATEGIES)
    install()
    yield
    STRATEGIES.clear()
    STRATEGIES.update(before)


def chosen(document: Json, strategy: str) -> list[str]:
    """The nodes of the answer."""
    told = json.loads(answer(as_bytes(document), [f"--strategy={strategy}", "--n1=off"]))
    assert told["success"], told["info"]
    nodes: list[str] = told["result"]
    return nodes


def world(*used: int, cpus: tuple[int, ...] = (), **request: Any) -> Json:
    """A node of 10000 MiB for each amount in `used`, and a request on shared storage."""
    residents = {
        f"i{k}": instance(f"node{k + 1}", memory=memory, disk_template="rbd",
                          vcpus=cpus[k] if cpus else 1)
        for k, memory in enumerate(used) if memory
    }  # fmt: skip
    made = cluster(len(used), memory=10000, cpus=16, instances=residents)
    return allocate(made, disk_template="rbd", **request)


def test_best_fit_takes_the_fullest_node_that_has_room() -> None:
    """8000 of 10000 MiB are in use on node2: 1500 fit there, 2500 go to the next fullest."""
    assert chosen(world(1000, 8000, 4000, memory=1500), "best-fit") == ["node2"]
    assert chosen(world(1000, 8000, 4000, memory=2500), "best-fit") == ["node3"]


def test_dot_product_weighs_what_is_asked_with_what_is_free() -> None:
    """Memory is free on node1, cpus on node2: who asks for much of one goes there."""
    cpus = (40, 2)
    assert chosen(world(2000, 6000, cpus=cpus, memory=3000, vcpus=1), "dot-product") == ["node1"]
    assert chosen(world(2000, 6000, cpus=cpus, memory=100, vcpus=16), "dot-product") == ["node2"]


def test_fgd_leaves_no_memory_that_is_useless_for_what_runs_there() -> None:
    """150 MiB on node2 would leave 3950, of no use for one of 4000; 50 MiB leave enough."""
    assert chosen(world(3000, 5900, 4000, memory=150), "fgd") == ["node1"]
    assert chosen(world(3000, 5900, 4000, memory=50), "fgd") == ["node2"]
    assert chosen(world(3000, 5900, 4000, memory=150), "best-fit") == ["node2"]


def test_headroom_counts_without_the_node_that_fails() -> None:
    """The only empty node is the failure that takes most, so that nothing is lost by its use."""
    assert chosen(world(0, 9300, 9000, memory=600), "headroom") == ["node1"]


def test_rankings_of_mirrors_choose_primary_and_secondary() -> None:
    """Each ranks both roles, and never the same node twice."""
    residents = {"a": instance("node1", "node2", memory=3000)}
    made = allocate(cluster(3, memory=10000, instances=residents), memory=1000)
    for strategy in RANKINGS:
        nodes = chosen(made, strategy)
        assert len(set(nodes)) == 2, strategy
    assert chosen(made, "best-fit")[0] == "node1"
