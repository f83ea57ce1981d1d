"""Test the nearest candidate of an impossible request, and its missing amounts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from iallocator.engine import read
from iallocator.explain.explain import explain
from iallocator.explain.explanation import Decision
from iallocator.model.instance import Instance
from iallocator.options.settings import Settings
from iallocator.placement.context import Context
from iallocator.placement.nearest import Search
from iallocator.placement.what_if import WhatIf
from iallocator.requests import Allocate
from tests.builders import Json, allocate, allocate_rbd, as_bytes, cluster
from tests.conformance.documents import document


def decision(request: Json) -> Decision:
    """Return the only decision in the explanation of `request`."""
    (found,) = explain(as_bytes(request), Settings()).decisions
    return found


def what_ifs(seeds: range) -> Iterator[tuple[WhatIf, Instance, list[int]]]:
    """Yield what-if, instance and online nodes for each group of generated documents.

    A what-if answers how much a node lacks for an instance.
    """
    for seed in seeds:
        found, request = read(as_bytes(document(seed, "allocate")), Settings())
        assert isinstance(request, Allocate)
        context = Context(found, Settings())
        for group in found.groups:
            nodes = [index for index in group.nodes if found.nodes[index].online]
            limit_policy = context.evaluator(group).limit_policies.new
            prospect = WhatIf(context.state, context.kernels, request.instance, limit_policy)
            yield prospect, request.instance, nodes


@pytest.mark.parametrize("template", ["plain", "drbd"])
def test_closest_lacking_memory_is_exact(template: str) -> None:
    """The missing memory of the nearest candidate is exact: 1 MiB less does not help."""
    request = allocate(
        cluster(memory=2048, changes={"node1": {"free_memory": 900}}),
        memory=3000,
        disk_template=template,
    )
    lacks = decision(request).groups[0].closest
    assert "node2 lacks 953 MiB memory" in lacks
    for more, fits in ((952, False), (953, True)):
        for node in ("node2", "node3"):
            request["nodes"][node] |= {"total_memory": 2048 + more, "free_memory": 2048 + more}
        assert (decision(request).answer is not None) is fits


def test_closest_several_lacks_are_all_reported() -> None:
    """All missing amounts of the nearest candidate are reported, by resource."""
    request = allocate(
        cluster(cpus=1, disk=5000, changes={"node1": {"free_disk": 100}}),
        disk=6000,
        vcpus=6,
        disk_template="plain",
    )
    assert decision(request).groups[0].closest == "node2 lacks 1001 MiB disk and 2 virtual cpus"


def test_closest_rejected_by_n1_names_failure_and_instance() -> None:
    """If only N+1 rejects the nearest candidate, failure and instance are reported."""
    request = allocate_rbd(cluster(nodes=2, memory=4096), memory=3000)
    request["nodes"]["node2"] |= {"free_memory": 2000}
    found = decision(request)
    (rejected,) = found.groups[0].n1_rejections
    assert (rejected.nodes, rejected.failing, rejected.instance) == (["node1"], "node1", "new")
    assert not rejected.already
    assert found.groups[0].closest == (
        "node1: if node1 failed, new (3000 MiB memory) could not be restarted: "
        "no node has the memory for it"
    )


def test_closest_generated_documents_lack_something_where_a_limit_breaks() -> None:
    """A candidate lacks an amount if and only if a limit rejects the instance."""
    for prospect, _, nodes in what_ifs(range(60)):
        search = Search(prospect)
        for index in nodes:
            lacking = search._as_primary(index).texts
            assert bool(lacking) == bool(prospect.primary_failures(index))
            for other in nodes:
                lacking = search._as_secondary(index, other).texts
                assert bool(lacking) == bool(prospect.secondary_failures(index, other))


def test_closest_generated_documents_find_the_nearest_pair() -> None:
    """The reported nearest pair of nodes lacks no more than any other pair."""
    for prospect, instance, nodes in what_ifs(range(200)):
        if instance.required_nodes == 1 or len(nodes) < 2:
            continue
        search = Search(prospect)
        found = sum(lack.part for lack in search.pair(nodes, nodes))
        every = [
            search._as_primary(p).part + search._as_secondary(s, p).part
            for p in nodes
            for s in nodes
            if p != s
        ]
        assert found == pytest.approx(min(every))


def test_violated_limit_has_the_missing_amount() -> None:
    """The missing amount is above zero if and only if the limit is violated."""
    seen = set()
    for prospect, instance, nodes in what_ifs(range(40)):
        for index in nodes:
            views = prospect.primary(index)
            for check in prospect.primary_failures(index):
                assert check.lacks.amount(*views, instance) > 0, check.lacks.unit
                seen.add(check.lacks.unit)
    assert len(seen) > 3
