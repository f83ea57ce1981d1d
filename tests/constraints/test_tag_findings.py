"""Test that tags without the intended effect are reported."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests import builders
from tests.builders import Json, as_bytes
from tests.command import respond, run
from tests.schemas import conforms


def _scenario(
    own: list[str] | None = None,
    *,
    cluster: list[str] | None = None,
    node: list[str] | None = None,
    there: list[str] | None = None,
) -> Json:
    """Return a request for one instance on three nodes with tags.

    `there` are tags of an existing instance.
    """
    instances = {"old": builders.rbd("node1", tags=there or [])}
    document = builders.cluster(nodes=3, instances=instances, tags=tuple(cluster or ()))
    document["nodes"]["node2"]["tags"] = node or []
    return builders.allocate_rbd(document, memory=512, tags=own or [])


DB = ["iallocator:separate:must:db", "iallocator:colocate:must:db"]

CASES = {
    "kind": (
        _scenario(["iallocator:colocat:must:web"]),
        "tag iallocator:colocat:must:web is unknown: iallocator:colocate is meant, perhaps",
    ),
    "strength": (
        _scenario(["iallocator:separate:mst:web"]),
        "tag iallocator:separate:mst:web does not count: iallocator:separate:must is meant",
    ),
    "pool": (
        _scenario(["iallocator:pool:extrnal:nas"]),
        "tag iallocator:pool:extrnal:nas does not count: iallocator:pool:external is meant",
    ),
    "kind of pool": (
        _scenario(["iallocator:pol:external:nas"]),
        "iallocator:pool is meant, perhaps",
    ),
    "setting of the cluster": (
        _scenario(cluster=["iallocator:stratgy:affinity"]),
        "the cluster: tag iallocator:stratgy:affinity is unknown: iallocator:strategy is meant",
    ),
    "on a node": (
        _scenario(node=["iallocator:maintenence"]),
        "node node2: tag iallocator:maintenence is unknown: iallocator:maintenance is meant",
    ),
    "on another owner": (
        _scenario(node=["iallocator:colocate:must:web"]),
        "node node2: tag iallocator:colocate:must:web means nothing on a node, only on an instance",
    ),
    "value": (
        _scenario(["iallocator:order:after:"]),
        "tag iallocator:order:after: does not count: it cannot be understood",
    ),
    "together and apart": (
        _scenario(DB, there=DB),
        "tag iallocator:separate:must:db contradicts tags by which it must be together with old",
    ),
    "two priorities": (
        _scenario(["iallocator:priority:1", "iallocator:priority:7"]),
        "tag iallocator:priority:7 contradicts iallocator:priority:1",
    ),
    "node that is forbidden": (
        _scenario(["iallocator:score:nod2:-INFINITY"]),
        "tag iallocator:score:nod2:-INFINITY does not count: there is no such node: node2 is meant",
    ),
    "score": (
        _scenario(["iallocator:score:node2:-INFINTY"]),
        "tag iallocator:score:node2:-INFINTY does not count: expected a number at the end",
    ),
    "score of a node": (
        _scenario(node=["iallocator:score:-INF"]),
        "tag iallocator:score:-INF does",
    ),
    "wanted and forbidden": (
        _scenario(["iallocator:score:node2:-INFINITY", "iallocator:score:node2:INFINITY"]),
        "tag iallocator:score:node2:INFINITY contradicts iallocator:score:node2:-INFINITY",
    ),
    "label": (
        _scenario(["iallocator:nodes:must:ssd"], node=["sdd"]),
        "tag iallocator:nodes:must:ssd names label ssd: no node has it",
    ),
    "excluded label": (
        _scenario(["iallocator:nodes:never:old"]),
        "tag iallocator:nodes:never:old names label old: no node has it",
    ),
    "no label": (
        _scenario(["iallocator:nodes:must:"]),
        "tag iallocator:nodes:must: does not count: expected iallocator:nodes:must:LABEL",
    ),
    "strength of a label": (
        _scenario(["iallocator:nodes:mst:ssd"]),
        "tag iallocator:nodes:mst:ssd does not count: iallocator:nodes:must is meant",
    ),
    "domain": (
        _scenario(["iallocator:separate:must:db:rack"], there=DB[:1], node=["rack:1"]),
        "names rack, of which node1, node3 have no tag",
    ),
}
"""Name -> a request, and the expected findings about its tags."""


def _commands(document: Json) -> list[Json]:
    """Return the documents of `constraints` and `check`, after a test of their texts."""
    found = []
    for command in ("constraints", "check"):
        found.append(json.loads(run(command, "--json", stdin=as_bytes(document)).stdout))
        page = run(command, stdin=as_bytes(document)).stdout.decode()
        for entry in found[-1].get("tag_findings", ()):
            assert f"{entry['kind']}: {entry['owner']}: tag {entry['tag']}" in page
    return found


@pytest.mark.parametrize("case", CASES)
def test_invalid_tag_is_reported_in_the_answer_and_listed(case: str) -> None:
    """An invalid tag is reported in equal words by the answer, `constraints` and `check`."""
    document, words = CASES[case]
    reply = respond(document)
    assert words in reply["info"]
    listed, _ = _commands(document)
    texts = [f"{one['owner']}: tag {one['tag']} {one['text']}" for one in listed["tag_findings"]]
    assert any(words in text for text in texts), texts
    conforms(listed, "constraints")


def test_tags_of_other_instances_are_listed_and_not_in_answers() -> None:
    """Invalid tags of instances outside the request are reported by commands only."""
    document = _scenario(there=["iallocator:colocat:must:web", "iallocator:order:after:old2"])
    assert "colocat" not in respond(document)["info"]
    for found in _commands(document):
        assert [one["owner"] for one in found["tag_findings"]] == ["instance old"]


def test_cycle_of_orders_is_reported_for_each_instance_in_it() -> None:
    """A cycle of orders is reported for both of its instances, and for no other."""
    tags = {"a": "b", "b": "a", "c": "a"}
    instances = {
        name: builders.rbd("node1", tags=[f"iallocator:order:after:{to}"])
        for name, to in tags.items()
    }
    listed, checked = _commands(builders.cluster(2, instances=instances))
    for found in (listed, checked):
        reported = {one["owner"] for one in found["tag_findings"] if one["kind"] == "contradiction"}
        assert reported == {"instance a", "instance b"}


def test_placement_keys_that_some_nodes_lack_are_listed() -> None:
    """A key of a strategy that only some nodes have is reported."""
    document = _scenario(
        there=["iallocator:utilization:gpu:1", "iallocator:syskey:ssd:1:2", "iallocator:key:x:1:1"],
        node=["iallocator:utilization:gpu:4"],
    )
    for found in _commands(document):
        assert {(one["kind"], one["text"]) for one in found["tag_findings"]} == {
            ("lacking", "asks for utilization gpu, of which node1, node3 have none"),
            ("lacking", "asks for key ssd, of which all nodes have none"),
        }


FOREIGN = {
    "htools:iextag:svc": ("cluster", "htools:iextags is meant"),
    "htools:allowmigration:a": ("cluster", "expected htools:allowmigration:OLD::NEW"),
    "htools:stanby:auto": ("node", "htools:standby is meant"),
    "htools:standby:prio:3": ("node", "names no priority: htools:standby:priority is meant"),
    "htools:standby:priority:x": ("node", "names no priority: expected a whole number"),
    "htools:nlocation:rack": ("node", "means nothing on a node, only on the cluster"),
    "ganeti:watcher:autorepair:migrat": ("there", "ganeti:watcher:autorepair:migrate is meant"),
    "ganeti:watcher:autorepir:failover": ("there", "ganeti:watcher:autorepair is meant"),
    "ganeti:watcher:autorepair:suspend:soon": ("there", "expected seconds since 1970"),
}


@pytest.mark.parametrize("tag", FOREIGN)
def test_invalid_tag_of_htools_is_listed(tag: str) -> None:
    """An invalid tag of htools is reported, also in answers."""
    owner, words = FOREIGN[tag]
    tags: Any = {owner: [tag]}
    document = _scenario(**tags)
    for found in _commands(document):
        (reported,) = found["tag_findings"]
        assert (reported["tag"], words in reported["text"]) == (tag, True)
    info = respond(document)["info"]
    assert (words in info) == (owner == "cluster")
    output = run("repair", stdin=as_bytes(document)).stderr.decode()
    assert (words in output) == ("watcher" in tag)


def test_valid_tags_are_not_reported() -> None:
    """Valid tags of every kind, on each type of object, are not reported."""
    document = _scenario(
        ["iallocator:colocate:should:web:2", "iallocator:keep-running", "iallocator:priority:3",
         "iallocator:score:node2:7", "iallocator:pool:external:nas", "other:colocat:must:x"],
        cluster=["iallocator:strategy:pacemaker-balanced", "iallocator:key:room:1:2",
                 "htools:iextags:svc", "htools:allowmigration:a::b", "htools:bandwidth:x",
                 "ganeti:watcher:autorepair:suspend:7"],
        node=["iallocator:maintenance", "htools:standby:auto", "htools:standby:priority:2",
              "htools:standby:rack", "iallocator:pool:external:nas", "iallocator:score:4"],
        there=["iallocator:separate:must:db", "ganeti:watcher:autorepair:failover",
               "ganeti:watcher:other"],
    )  # fmt: skip
    info = respond(document)["info"]
    assert "tag iallocator" not in info
    listed, checked = _commands(document)
    assert listed["tag_findings"] == []
    assert "tag_findings" not in checked


def test_compat_hail_does_not_report_tags() -> None:
    """With ``--compat hail``, no tag of iallocator is reported."""
    for document, _ in CASES.values():
        info = respond(document, "--compat=hail")["info"]
        assert "iallocator:" not in info
