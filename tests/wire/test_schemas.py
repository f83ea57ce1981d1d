"""Test the published schemas: valid, complete, installed, and consistent with the program."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from iallocator.cli import answer
from iallocator.wire.validation import directory, problems, request_validator
from tests.builders import Json
from tests.conformance.documents import KINDS as GENERATED
from tests.conformance.documents import document
from tests.paths import ROOT
from tests.schemas import SCHEMAS, validator
from tests.seeds import seeds

from .corpus import BASES, KINDS, as_raw, base, combined, paths

WRITTEN = {
    "capacity", "config", "constraints", "explanation", "history", "plan", "repair", "response",
    "show", "validation",
}  # fmt: skip
"""Schemas of output documents; all others are of input."""

REQUESTS = [name for name in SCHEMAS if name.partition(".")[0] not in WRITTEN]
ANSWERED = GENERATED
"""Request types of generated documents that the tests of this module answer."""


def parts(value: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Json]]:
    """Yield every object in a schema, with the keys that lead to it."""
    if isinstance(value, dict):
        yield above, value
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        if isinstance(item, dict | list):
            yield from parts(item, (*above, str(key)))


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema_is_itself_valid(name: str) -> None:
    """Every schema is a valid JSON Schema 2020-12, and declares that."""
    schema = SCHEMAS[name]
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    assert schema["$id"] == name
    assert schema["title"]
    assert schema["description"]


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema_references_lead_somewhere(name: str) -> None:
    """Every $ref in a schema has an existing target."""
    for _, part in parts(SCHEMAS[name]):
        if "$ref" in part:
            target, _, pointer = part["$ref"].partition("#")
            found = SCHEMAS[target or name]
            for key in pointer.split("/")[1:]:
                found = found[key]


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema_properties_are_described(name: str) -> None:
    """Every property in a schema has a description, or its definition has one."""
    for above, part in parts(SCHEMAS[name]):
        if {"if", "then", "else"} & set(above):
            continue  # these repeat properties of another definition
        for key, schema in part.get("properties", {}).items():
            assert schema.get("description") or "$ref" in schema or "const" in schema, (name, key)


@pytest.mark.parametrize("name", REQUESTS)
def test_request_schema_required_members_have_a_type(name: str) -> None:
    """Every required member in the schema of requests has its type beside it.

    The error about a missing member can then name the type.
    """
    for above, part in parts(SCHEMAS[name]):
        if not {"if", "not"} & set(above) and "$ref" not in part:
            assert set(part.get("required", ())) <= set(part.get("properties", ())), above


@pytest.mark.parametrize("name", REQUESTS)
def test_request_schema_has_no_alternatives(name: str) -> None:
    """The schema of requests has no anyOf or oneOf, because their errors are unclear."""
    assert not any({"anyOf", "oneOf"} & set(part) for _, part in parts(SCHEMAS[name]))


@pytest.mark.parametrize("kind", KINDS)
def test_request_schema_kind_has_its_own_file(kind: str) -> None:
    """A request of each type is checked by the schema of the type."""
    good = base("modern", kind)
    assert validator("request.schema.json").is_valid(good)
    assert validator(f"{kind}.schema.json").is_valid(good["request"])
    good["request"] = {"type": kind}
    assert not validator("request.schema.json").is_valid(good)


@pytest.mark.parametrize("kind", GENERATED)
def test_request_schema_generated_documents_fit(kind: str) -> None:
    """Generated documents fit the schema of requests."""
    for seed in seeds(7, 25):
        assert validator("request.schema.json").is_valid(document(seed, kind)), seed


def _captures() -> list[Path]:
    folder = os.environ.get("IALLOCATOR_CAPTURES")
    found = Path(folder).iterdir() if folder else ()
    return sorted(path for path in found if path.match("*.request.json") or path.match("hail-*"))


@pytest.mark.parametrize("path", _captures(), ids=lambda path: path.name)
def test_request_schema_captured_request_fits(path: Path) -> None:
    """A real request from the folder IALLOCATOR_CAPTURES fits the schema of requests."""
    assert problems(path.read_bytes()) == []


@pytest.mark.parametrize("age", BASES)
def test_request_schema_unknown_keys_are_allowed(age: str) -> None:
    """The schema of requests accepts unknown members, because Ganeti may add some."""
    changed = base(age, "allocate")
    objects = [changed]
    for path in paths(changed):
        found: Any = changed
        for key in path:
            found = found[key]
        if isinstance(found, dict) and path[-1] not in ("nodes", "instances", "nodegroups"):
            objects.append(found)
    for found in objects:
        found["from-the-future"] = [{"any": None}]
    assert problems(as_raw(changed)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_request_validator_agrees_with_standard_keywords(kind: str) -> None:
    """The validator with descriptions of problems gives the result of a standard validator."""
    for seed in seeds(16, 60):
        damaged = json.loads(combined(seed, kind).replace(b"1e999", b"1e300"))
        assert request_validator().is_valid(damaged) == validator("request.schema.json").is_valid(
            damaged
        )


DEFAULTS = [
    (name, key, schema["default"])
    for name in ("group", "node-parameters", "node", "disk", "instance-size", "instance", "policy",
                 "new-instance")
    for key, schema in SCHEMAS["cluster.schema.json"]["$defs"][name]["properties"].items()
    if "default" in schema
]  # fmt: skip


def holders(changed: Json, name: str) -> list[Json]:
    """Return each object in a document that the definition `name` describes."""
    instances = list(changed["instances"].values())
    return {
        "group": list(changed["nodegroups"].values()),
        "node-parameters": [node["ndparams"] for node in changed["nodes"].values()],
        "node": list(changed["nodes"].values()),
        "disk": [disk for one in instances for disk in one["disks"]],
        "instance-size": [*instances, changed["request"]],
        "instance": instances,
        "policy": [changed["ipolicy"]],
        "new-instance": [changed["request"]],
    }[name]


@pytest.mark.parametrize(("name", "key", "default"), DEFAULTS)
def test_schema_default_equals_an_absent_member(name: str, key: str, default: Any) -> None:
    """A missing field is read as the default that the schema states."""
    changed = base("modern", "allocate")
    changed["nodegroups"]["uuid-annex"]["alloc_policy"] = "preferred"
    changed["nodes"]["node3"] = {**changed["nodes"]["node2"], **changed["nodes"]["node3"]}
    for one in changed["instances"].values():
        one.pop("admin_state")
    for one in holders(changed, name):
        one[key] = default
    stated = answer(as_raw(changed))
    for one in holders(changed, name):
        del one[key]
    assert answer(as_raw(changed)) == stated


@pytest.mark.parametrize("arguments", [(), ("--top=3",), ("--n1=strict",), ("--compat=hail",)])
@pytest.mark.parametrize("kind", ANSWERED)
def test_response_schema_our_answers_fit(kind: str, arguments: tuple[str, ...]) -> None:
    """The program's answers fit the schema of responses."""
    for seed in seeds(8, 30):
        response = json.loads(answer(as_raw(document(seed, kind)), arguments), parse_constant=int)
        for reference in ("response.schema.json", f"response.schema.json#/$defs/{kind}"):
            errors = [error.message for error in validator(reference).iter_errors(response)]
            assert not errors, (seed, errors)


MIGRATE = {"OP_ID": "OP_INSTANCE_MIGRATE"}


@pytest.mark.parametrize(
    ("kind", "result", "good"),
    [
        ("allocate", ["a", "b"], True),
        ("allocate", [], False),
        ("allocate", ["a", "a"], False),
        ("multi-allocate", [[["i", ["a"]]], ["j"]], True),
        ("multi-allocate", [[["i", ["a"]]], [["j", "FailMem"]]], False),
        ("allocate-secondary", "a", True),
        ("allocate-secondary", ["a"], False),
        ("relocate", ["a"], True),
        ("relocate", ["a", "b"], False),
        ("node-evacuate", [[["i", "g", ["a"]]], [["j", None]], [[MIGRATE]]], True),
        ("node-evacuate", [[["i", "g", ["a"]]], [], [[{"OP_ID": "OP_NODE_REMOVE"}]]], False),
        ("change-group", [[], [["j", "why"]], []], True),
        ("change-group", [[], []], False),
        ("multi-evacuate", [["i", ["a"]]], True),
        ("multi-evacuate", [["i", "a"]], False),
    ],
)  # fmt: skip
def test_response_schema_result_is_what_ganeti_accepts(kind: str, result: Any, good: bool) -> None:
    """The schema of responses accepts results of the form that Ganeti accepts."""
    response = {"success": True, "info": "", "result": result}
    assert validator(f"response.schema.json#/$defs/{kind}").is_valid(response) == good
    response |= {"success": False, "result": []}
    assert validator(f"response.schema.json#/$defs/{kind}").is_valid(response)


def _run(code: str, *arguments: str, where: Path = ROOT) -> str:
    """Return the output of Python code that imports the package from `where`."""
    command = [sys.executable, "-c", code, *arguments]
    environment = {"PYTHONPATH": str(where)}
    done = subprocess.run(command, env=environment, cwd="/", capture_output=True, check=True)
    return done.stdout.decode()


@pytest.mark.parametrize("inside", [True, False])
def test_schemas_are_found_beside_or_inside_the_package(inside: bool, tmp_path: Path) -> None:
    """Schemas are found beside the package in a checkout, and inside it in a wheel."""
    shutil.copytree(ROOT / "iallocator", tmp_path / "iallocator", ignore=lambda *_: ["schemas"])
    target = tmp_path / "iallocator" / "schemas" if inside else tmp_path / "schemas"
    shutil.copytree(directory(), target)
    code = "from iallocator.wire.validation import directory; print(directory())"
    assert _run(code, where=tmp_path) == f"{target}\n"


def test_missing_schemas_are_reported_in_one_line(tmp_path: Path) -> None:
    """Without schemas, requests are answered; --validate says in one line that they are missing."""
    shutil.copytree(ROOT / "iallocator", tmp_path / "iallocator", ignore=lambda *_: ["schemas"])
    good = tmp_path / "good.json"
    good.write_bytes(as_raw(base("modern", "allocate")))
    command = [sys.executable, "-m", "iallocator", "--validate", str(good)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"iallocator: the schemas are missing: ")


@pytest.mark.parametrize("age", BASES)
def test_answer_small_document_loads_neither_jsonschema_nor_numpy(age: str, tmp_path: Path) -> None:
    """A small document does not load jsonschema and NumPy."""
    request = tmp_path / "request.json"
    request.write_bytes(as_raw(base(age, "allocate")))
    code = (
        "import sys; from iallocator.cli import main; status = main(sys.argv[1:]);"
        "print(status, *{name.partition('.')[0] for name in sys.modules})"
    )
    response, modules = _run(code, str(request)).splitlines()
    assert json.loads(response)["info"]
    loaded = set(modules.split())
    assert "0" in loaded
    assert not loaded & {"jsonschema", "referencing", "numpy", "orjson", "argparse"}
