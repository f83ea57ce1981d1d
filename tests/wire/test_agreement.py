"""Test that parser and schemas accept the same documents."""

from __future__ import annotations

import json
from typing import Any

import pytest

from iallocator.cli import answer
from iallocator.engine import read
from iallocator.errors import RequestError
from iallocator.options.settings import Settings
from iallocator.wire.validation import problems
from tests.conformance.documents import KINDS as GENERATED
from tests.conformance.documents import document
from tests.seeds import seeds

from .corpus import (
    BASES,
    DAMAGES,
    KINDS,
    Path,
    as_raw,
    base,
    combined,
    damaged,
    paths,
)

UNREAD = {"version", "primary_ip", "secondary_ip", "master_candidate", "master_capable", "os",
          "hypervisor", "mode", "mac", "ssh_port"}  # fmt: skip

ALIKE = {("nodes", "node2"), ("nodes", "node4"), ("nodes", "node5")}
"""Paths of nodes without fields of their own; other nodes have the same fields."""


def first_problem(raw: bytes) -> str | None:
    """Return the error of the parser about `raw`; None if it accepts it."""
    try:
        read(raw, Settings())
    except RequestError as error:
        return str(error)
    return None


def disagreement(raw: bytes) -> str:
    """Return the difference between parser and schema about `raw`; "" if they agree."""
    first, found = first_problem(raw), problems(raw)
    if first is None and not found:
        return ""
    if first in found:
        return "" if found == sorted(set(found)) else f"unsorted or repeated: {found}"
    return f"the parser says {first!r}, the schema {found!r}"


def no_constant(name: str) -> None:
    """Raise an error for NaN and Infinity, which are not JSON."""
    raise AssertionError(f"{name} in a response")


def damageable(age: str, kind: str) -> list[Path]:
    """Return the paths to the values of a document that a test may damage.

    For the first type of request, they are all values; for other types, those of the request.
    """
    found = (
        path for path in paths(base(age, kind)) if path[-1] not in UNREAD and path[:2] not in ALIKE
    )
    return [path for path in found if kind == KINDS[0] or path[0] == "request"]


CASES = [
    pytest.param(age, kind, path, id="-".join([age, kind, "/".join(map(str, path))]))
    for kind in KINDS
    for age in BASES
    for path in damageable(age, kind)
]


@pytest.mark.parametrize(("age", "kind", "path"), CASES)
def test_agreement_one_value_damaged_holds(age: str, kind: str, path: Path) -> None:
    """Parser and schema agree if any one value of a document is damaged."""
    found = [disagreement(raw) for raw in damaged(base(age, kind), path)]
    assert not any(found), "\n".join(filter(None, found))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", DAMAGES)
def test_agreement_names_and_numbers_damaged_holds(damage: str, kind: str) -> None:
    """Parser and schema agree on damaged names and numbers."""
    changed = base("modern", kind)
    DAMAGES[damage](changed)
    assert disagreement(as_raw(changed)) == ""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", seeds(100, 400)[::50])
def test_agreement_several_damages_holds(start: int, kind: str) -> None:
    """Parser and schema agree if several values are damaged."""
    found = [disagreement(combined(seed, kind)) for seed in range(start, start + 50)]
    assert not any(found), "\n".join(filter(None, found))


@pytest.mark.parametrize("kind", [kind for kind in GENERATED if kind in KINDS])
def test_agreement_generated_documents_are_good(kind: str) -> None:
    """Parser and schema accept generated documents."""
    for seed in seeds(12, 40):
        raw = as_raw(document(seed, kind))
        assert (first_problem(raw), problems(raw)) == (None, [])


@pytest.mark.parametrize("age", BASES)
@pytest.mark.parametrize("kind", KINDS)
def test_agreement_base_documents_are_good(age: str, kind: str) -> None:
    """Parser and schema accept the documents before they are damaged."""
    assert disagreement(as_raw(base(age, kind))) == ""
    assert problems(as_raw(base(age, kind))) == []


@pytest.mark.parametrize(("age", "kind", "path"), CASES)
def test_answer_to_an_accepted_damaged_document_is_complete(
    age: str, kind: str, path: Path
) -> None:
    """The program answers every damaged document that the parser accepts."""
    for raw in damaged(base(age, kind), path):
        if first_problem(raw) is None:
            response: dict[str, Any] = json.loads(answer(raw), parse_constant=no_constant)
            assert set(response) >= {"success", "info", "result"}


@pytest.mark.parametrize(
    ("expected", "damage"),
    [
        ('nodes/node1/free_memory: expected an integer, got "12G"',
         lambda d: d["nodes"]["node1"].update(free_memory="12G")),
        ("nodes/node1/free_memory: expected an integer from 0 to 9007199254740992, got -1",
         lambda d: d["nodes"]["node1"].update(free_memory=-1)),
        ("nodes/node1/total_disk: expected an integer, but it is missing",
         lambda d: d["nodes"]["node1"].pop("total_disk")),
        ('nodes/node1/group: expected the uuid of a group in nodegroups, got "x"',
         lambda d: d["nodes"]["node1"].update(group="x")),
        ("instances/plain/nodes: expected one node, got 2",
         lambda d: d["instances"]["plain"].update(nodes=["node1", "node2"])),
        ('instances/web/nodes/1: expected different nodes, got "node1" again',
         lambda d: d["instances"]["web"].update(nodes=["node1", "node1"])),
        ("ipolicy/vcpu-ratio: expected 0, or a number from 1e-06 to 9007199254740992, got null",
         lambda d: d["ipolicy"].update({"vcpu-ratio": None})),
        ("cluster_tags: expected a list of strings, got 5", lambda d: d.update(cluster_tags=5)),
        ("instances/web/disks: expected a list of objects, got null",
         lambda d: d["instances"]["web"].update(disks=None)),
        ("instances/web/forthcoming: expected true or false, got 1",
         lambda d: d["instances"]["web"].update(forthcoming=1)),
        ("instances/web/nodes/0: expected a name, got an empty string",
         lambda d: d["instances"]["web"].update(nodes=["", "node2"])),
        ("request/required_nodes: expected 2 for drbd, got 1",
         lambda d: d["request"].update(required_nodes=1)),
        ("request/name: expected a name, got an empty string",
         lambda d: d["request"].update(name="")),
        ("request: expected an object, but it is missing", lambda d: d.pop("request")),
    ],
)  # fmt: skip
def test_problems_one_damage_is_the_only_problem(expected: str, damage: Any) -> None:
    """One damage is reported as one problem with path, expected and found value."""
    changed = base("modern", "allocate")
    damage(changed)
    assert problems(as_raw(changed)) == [expected]
    assert first_problem(as_raw(changed)) == expected


def test_problems_many_damages_lists_all() -> None:
    """Problems of structure and of names are reported together."""
    changed = base("modern", "allocate")
    changed["nodes"]["node1"]["total_memory"] = "much"
    changed["instances"]["web"]["nodes"] = ["node1", "lost"]
    changed["request"]["restrict-to-nodes"] = ["lost", 7]
    changed["nodegroups"]["uuid-annex"]["alloc_policy"] = "sometimes"
    assert problems(as_raw(changed)) == [
        'instances/web/nodes/1: expected a node of the document, got "lost"',
        'nodegroups/uuid-annex/alloc_policy: expected one of "preferred", "last_resort", '
        '"unallocable", got "sometimes"',
        'nodes/node1/total_memory: expected an integer, got "much"',
        'request/restrict-to-nodes/0: expected a node of the document, got "lost"',
        "request/restrict-to-nodes/1: expected a string, got 7",
    ]


@pytest.mark.parametrize("raw", [b"", b" \n", b"{", b"[]", b"nul", b"\xff", b'{"a": NaN}'])
def test_undecodable_document_is_one_problem(raw: bytes) -> None:
    """Input that is not a JSON object is one problem."""
    found = problems(raw)
    assert len(found) == 1
    assert found[0] in (first_problem(raw) or "")  # which also says what to do if there is no input
