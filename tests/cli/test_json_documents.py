"""Test the JSON documents of commands: the envelope, the meaning of keys, old documents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iallocator.commands import COMMANDS, options_of
from iallocator.documents.keys import ENVELOPE, KEYS
from tests.builders import Json
from tests.command import complaint, json_of, printed, run
from tests.schemas import OF_COMMAND, SCHEMAS, conforms

CLUSTER, REQUEST, GROUPS, DEAD = (
    f"docs/examples/{name}" for name in ("cluster.json", "request.json", "racks.data", "dead.json")
)

LINES = {
    "ask": ("evacuate", "node5", CLUSTER),
    "balance": (CLUSTER,),
    "balance-groups": ("-t", GROUPS),
    "capacity": (CLUSTER,),
    "check": (CLUSTER,),
    "compress": ("-t", GROUPS),
    "config": (CLUSTER,),
    "constraints": (CLUSTER,),
    "explain": (REQUEST,),
    "maintain": ("--force", "-t", GROUPS),
    "make-room": ("docs/examples/full.json",),
    "metrics": ("--no-capacity", CLUSTER),
    "place": ("--strategy=pacemaker-balanced", CLUSTER),
    "reboot": ("--force", "-t", GROUPS),
    "redistribute": ("--offline=a1", "-t", GROUPS),
    "repair": (DEAD,),
    "rescue": ("node4", CLUSTER),
    "show": (CLUSTER,),
    "squeeze": ("-t", GROUPS),
}
"""Command -> arguments of a command line with --json."""

WRITTEN = (*sorted({*OF_COMMAND.values()}), "validation")
"""Schemas of documents in an envelope."""

WITHOUT_DOCUMENT = {"replay", "report", "snapshot"}
"""Commands without ``--json``."""


def document(command: str, *words: str) -> Json:
    """Return the JSON document of a command; its exit status may be 1."""
    done = run(command, *LINES[command], "--json", *words)
    assert done.returncode in (0, 1), done
    found: Json = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("command", LINES)
def test_document_begins_with_the_envelope(command: str) -> None:
    """A document begins with the five keys of the envelope, with the cluster and the source."""
    found = document(command)
    assert list(found)[: len(ENVELOPE)] == list(ENVELOPE)
    assert (found["command"], found["version"]) == (command, 2)
    assert found["cluster"] == ("" if "-t" in LINES[command] else "cluster.example.com")
    assert found["source"] == LINES[command][-1]
    assert found["time"] == "2026-01-02T03:10:00Z"


def test_every_command_with_documents_has_a_schema() -> None:
    """Each command has ``--json`` with a schema, or is listed as one without documents."""
    having = {name for name in COMMANDS if any("--json" in one.names for one in options_of(name))}
    assert having == OF_COMMAND.keys() == COMMANDS.keys() - WITHOUT_DOCUMENT
    assert having == LINES.keys() | {"history"}


@pytest.mark.parametrize("command", LINES)
def test_document_fits_its_schema(command: str) -> None:
    """The document of each command fits its published schema."""
    conforms(document(command), OF_COMMAND[command])


MORE = (
    f"ask allocate --memory=900g --disk=1g --disk-template=plain {CLUSTER}",
    f"ask allocate --memory=1g --disk=10g --strategy=pacemaker-balanced {CLUSTER}",
    f"ask allocate --memory=1g --disk=10g --strategy=lost-allocations {CLUSTER}",
    f"ask allocate --memory=1g --disk=10g --n1=strict --top=3 {CLUSTER}",
    f"ask evacuate node5 --brief {CLUSTER}",
    f"ask relocate web1 --strategy=pacemaker-utilization {CLUSTER}",
    f"explain --brief {REQUEST}",
    "explain --n1=strict docs/examples/full.json",
    f"config --n1=strict {CLUSTER}",
    f"config {REQUEST}",
)
"""Command lines for members that not every document has."""


@pytest.mark.parametrize("line", MORE)
def test_document_with_other_members_fits_its_schema(line: str) -> None:
    """Documents with rare members fit their schemas."""
    command, *words = line.split()
    conforms(json_of(command, *words), OF_COMMAND[command])


def test_history_of_calls_without_an_end_fits_its_schema(tmp_path: Path) -> None:
    """`history --json` fits its schema for calls with an answer, an error, or no end."""
    printed(f"--capture={tmp_path}", REQUEST)
    assert run(f"--capture={tmp_path}", stdin=b"{}").returncode == 2
    printed(f"--capture={tmp_path}", REQUEST)
    next(tmp_path.glob("*3.call.json")).unlink()
    found = json_of("history", str(tmp_path))
    conforms(found, "history")
    first, second, third = found["calls"]
    assert [one["outcome"] for one in (first, second, third)] == ["success", "error", "no answer"]
    assert {"group_count", "node_count", "instance_count", "program_version"} <= first.keys()
    assert second["error"]
    old = json.loads(printed("history", str(tmp_path), "--json=1"))["calls"][0]
    assert (old["nodes"], old["version"]) == (first["node_count"], first["program_version"])


@pytest.mark.parametrize("command", LINES)
def test_old_document_has_old_keys_and_no_envelope(command: str) -> None:
    """`--json=1` prints the old keys without the envelope; their values are unchanged."""
    old, new = document(command, "--json=1"), document(command)
    assert not {"version", "source", "time"} & set(old)
    renamed = {
        key: value
        for key, value in KEYS.get(command, KEYS["plan"])
        if "." not in key and "[]" not in key
    }
    untried = {"rebalancing"} if command == "check" else set()
    for key in old.keys() & renamed.keys() - untried:
        assert renamed[key] in new or not renamed[key]
    same = old.keys() - renamed.keys() - {"command"}
    dropped = {"moves", "job_sets", "scores", "reason", "problems_after"}
    for key in same - (dropped if command == "check" else set()):
        if isinstance(old[key], (str, int, float, bool)):
            assert new[key] == old[key]


def test_source_of_stdin_simulated_cluster_and_folder_of_rapi() -> None:
    """The envelope names each kind of source: stdin, simulated cluster, RAPI folder."""
    text = Path(CLUSTER).read_bytes()
    assert json.loads(run("show", "--json", stdin=text).stdout)["source"] == "-"
    spec = "preferred,3,500g,32g,8"
    assert json_of("show", f"--simulate={spec}")["source"] == f"simulate:{spec}"


def test_history_has_a_folder_and_no_cluster(tmp_path: Path) -> None:
    """The document of history has a folder as source, and no key for the cluster."""
    printed(f"--capture={tmp_path}", REQUEST)
    found = json_of("history", str(tmp_path))
    assert found["source"] == str(tmp_path)
    assert "cluster" not in found
    assert [call["request_type"] for call in found["calls"]] == ["allocate"]


def test_validation_is_in_the_envelope() -> None:
    """`--validate` lists the problems of the input as errors in the envelope."""
    done = run("balance", "--validate", "--json", stdin=b"{}")
    found = json.loads(done.stdout)
    assert (done.returncode, found["command"], found["version"]) == (2, "balance", 2)
    conforms(found, "validation")
    assert found["inputs"][0]["errors"]
    old = json.loads(run("balance", "--validate", "--json=1", stdin=b"{}").stdout)
    assert old == {"valid": False, "inputs": [{"name": "-", "problems": [
        *found["inputs"][0]["errors"]]}]}  # fmt: skip


def test_answer_to_ganeti_has_no_envelope() -> None:
    """The answer to Ganeti has the keys of its protocol and `solutions`, and no envelope."""
    assert list(json.loads(printed(REQUEST))) == ["success", "info", "result", "solutions"]


def test_check_without_balancing_has_no_plan() -> None:
    """The document of check has the keys of a plan only if balancing was tried."""
    idle, tried = document("check"), document("check", "--simulation")
    assert not {"moves", "scores", "job_sets", "balancing", "problems_after"} & set(idle)
    assert "score_after" not in idle["groups"][0]
    assert {"moves", "scores", "job_sets", "balancing", "problems_after"} <= set(tried)
    assert tried["balancing"]["move_count"] == len(tried["moves"])
    assert document("check", "--json=1")["rebalancing"]["tried"] is False


def test_frozen_time_that_is_no_number_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """If ``SOURCE_DATE_EPOCH`` is no number, the error names this variable."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    wrong = complaint(run("show", "--json", CLUSTER))
    assert wrong == "SOURCE_DATE_EPOCH: expected seconds since 1970, got 'yesterday'"


@pytest.mark.parametrize(("value", "status"), [("1", 0), ("2", 0), ("3", 2), ("old", 2)])
def test_version_of_documents_is_1_or_2(value: str, status: int) -> None:
    """`--json` accepts the versions 1 and 2; the error about another version names both."""
    done = run("show", f"--json={value}", CLUSTER)
    assert done.returncode == status
    assert status == 0 or b"--json: expected 1 or 2" in done.stderr


OF_GANETI = ("response", "opcodes")
"""Members with keys of Ganeti's protocol."""


def kinds(
    file: str, part: Json, above: tuple[str, ...] = (), entered: tuple[str, ...] = ()
) -> Iterator[tuple[str, str, str]]:
    """Yield key, type and path of every member in a schema."""
    while "$ref" in part:
        if part["$ref"] in entered or part["$ref"].startswith("defs."):
            return
        entered += (part["$ref"],)
        file, part = pointed(file, part["$ref"])
    for key, value in part.get("properties", {}).items():
        yield key, of_any(file, value), f"{file}: {'.'.join((*above, key))}"
        if key not in OF_GANETI:
            yield from kinds(file, value, (*above, key), entered)
    for inner in ("items", "then"):
        if isinstance(part.get(inner), dict):
            yield from kinds(file, part[inner], above, entered)


def pointed(file: str, reference: str) -> tuple[str, Json]:
    """Return the file and the part of a schema to which a reference in `file` points."""
    target, _, pointer = reference.partition("#")
    found = SCHEMAS[target or file]
    for key in pointer.split("/")[1:]:
        found = found[key]
    return target or file, found


def of_any(file: str, part: Json) -> str:
    """Return the JSON type of a value, as "number" or "array of object"; "" if unknown."""
    while "$ref" in part:
        file, part = pointed(file, part["$ref"])
    names = part.get("type", "string" if "enum" in part or "const" in part else "")
    kept = {one for one in ([names] if isinstance(names, str) else names) if one != "null"}
    found = "or".join(sorted({"number" if one == "integer" else one for one in kept}))
    items = part.get("items")
    return f"{found} of {of_any(file, items)}" if isinstance(items, dict) else found


def test_key_has_one_type_at_every_depth_of_all_documents() -> None:
    """Each key has values of one type in all documents, at every depth."""
    found: dict[str, dict[str, list[str]]] = {}
    for name in WRITTEN:
        file = f"{name}.schema.json"
        for key, kind, path in kinds(file, SCHEMAS[file]):
            found.setdefault(key, {}).setdefault(kind, []).append(path)
    several = {key: of for key, of in found.items() if len({*of} - {""}) > 1}
    assert not several


def kind_of(value: Json) -> str:
    """Return the type of a value in a schema: a reference by name, a list by its items."""
    if "$ref" in value:
        return str(value["$ref"]).rpartition("/")[2]
    if "type" not in value:
        return "any"
    names = value["type"] if isinstance(value["type"], list) else [value["type"]]
    kept = "or".join(name for name in names if name != "null")
    items = value.get("items")
    return f"{kept} of {kind_of(items)}" if isinstance(items, dict) else kept


def test_key_at_the_top_has_one_type_in_all_documents() -> None:
    """A key at the top of documents has one type in all of them."""
    found: dict[str, dict[str, str]] = {}
    for name in WRITTEN:
        for key, value in SCHEMAS[f"{name}.schema.json"]["properties"].items():
            found.setdefault(key, {})[name] = kind_of(value)
    instances = found.pop("instances")
    assert set(instances.values()) <= {"array of object", "array of instance"}
    tags = found.pop("tag_findings")
    assert set(tags) == {"constraints", "plan"}
    several = {key: of for key, of in found.items() if len(set(of.values())) > 1}
    assert not several


@pytest.mark.parametrize("command", [name for name in COMMANDS if name in LINES])
def test_instance_group_and_node_are_names_everywhere(command: str) -> None:
    """The keys `instance`, `group` and `node` have names as values everywhere."""
    seen: set[str] = set()

    def visit(value: Any) -> None:
        if isinstance(value, dict):
            for key, one in value.items():
                if key in ("instance", "group", "node"):
                    assert one is None or isinstance(one, str), (key, one)
                if key == "reason":
                    assert isinstance(one, str), one
                if key in ("groups", "instances"):
                    assert isinstance(one, list), (key, one)
                    assert all(isinstance(each, dict) for each in one), (key, one)
                seen.add(key)
                if key not in ("response", "transition"):
                    visit(one)
        elif isinstance(value, list):
            for one in value:
                visit(one)

    visit(document(command))
    assert seen >= set(ENVELOPE)


REBOOTING = ("reboot", "maintain")


@pytest.mark.parametrize("command", ["redistribute", "compress", "balance-groups", *REBOOTING])
def test_moves_without_a_score_have_no_key_for_it(command: str) -> None:
    """Moves between groups have the objective after each; reboots have no score and no objective.

    The document of version 1 has both numbers under the keys of scores.
    """
    found, old = document(command), document(command, "--json=1")
    assert found["moves"]
    assert not any("score" in move for move in found["moves"])
    assert "scores" not in found
    assert all("score" in move for move in old["moves"])
    if command in REBOOTING:
        assert not any("objective_after" in move for move in found["moves"])
        assert "objective" not in found
    else:
        assert found["moves"][-1]["objective_after"] == found["objective"]["after"]
        assert [move["objective_after"] for move in found["moves"]] == [
            move["score"] for move in old["moves"]
        ]


def test_steps_of_a_plan_depend_on_numbers_of_steps() -> None:
    """In a plan, `depends_on` of a step and `step_numbers` of a job are numbers of steps."""
    transition = document("squeeze")["transition"]
    numbers = [step["number"] for step in transition["steps"]]
    assert (
        sum(len(step["depends_on"]) for step in transition["steps"])
        == (transition["dependency_count"])
        > 0
    )
    assert sorted(n for job in transition["jobs"] for n in job["step_numbers"]) == numbers
    old = document("squeeze", "--json=1")["transition"]
    assert [step["after"] for step in old["steps"]] == [
        step["depends_on"] for step in transition["steps"]
    ]
    assert (old["waits"], old["jobs"][0]["steps"]) == (
        transition["dependency_count"], transition["jobs"][0]["step_numbers"],
    )  # fmt: skip


def test_steps_of_the_answer_to_ganeti_keep_their_keys() -> None:
    """The transition in the answer to Ganeti has the keys of version 0.1, also in `ask`."""
    found = document("ask")["response"]["transition"]
    assert all("after" in step for step in found["steps"])
    assert {"waits", "steps", "jobs"} <= found.keys()


def nagios(*words: str) -> tuple[int, str, dict[str, str]]:
    """Return the status, the text and the performance data of ``check --nagios``."""
    done = run("check", "--nagios", *words)
    assert not done.stderr, done
    line, end, rest = done.stdout.decode().partition("\n")
    assert (end, rest) == ("\n", "")
    text, _, data = line.partition(" | ")
    return done.returncode, text, dict(one.split("=") for one in data.split())


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        ((), 0, "GANETI OK - nothing is wrong"),
        (("--max-cpu=0.5",), 1, "GANETI WARNING - "),
        (("--offline=node4",), 2, "GANETI CRITICAL - "),
    ],
)
def test_nagios_gets_one_line_with_performance_data(
    words: tuple[str, ...], status: int, text: str
) -> None:
    """`check --nagios` prints one line: OK, a warning for problems, critical for downtime.

    Instances that are down are critical.
    """
    found, output, data = nagios(*words, CLUSTER)
    assert found == status
    assert output.startswith(text)
    assert data["offline_primary"] == f"{2 if status == 2 else 0};0;0;0"
    assert data["score"].partition(";")[0].replace(".", "").isdigit()
    assert (data["global_n1"].partition(";")[0] == "0") == (status == 0 or "node4" not in words[0])


def test_nagios_gets_unknown_if_the_cluster_cannot_be_read(tmp_path: Path) -> None:
    """If the cluster cannot be read, `check --nagios` prints the reason, with status 3."""
    status, text, _ = nagios(str(tmp_path / "missing"))
    assert status == 3
    assert text.startswith("GANETI UNKNOWN - ")
    assert text.endswith("No such file or directory")


def test_nagios_and_another_form_exclude_each_other() -> None:
    """`check` rejects --nagios together with another output format."""
    for other in ("--json", "--machine-readable", "--failures=1", "--simulation", "--max-length=2"):
        name = other.partition("=")[0]
        error = complaint(run("check", "--nagios", other, CLUSTER))
        assert error == f"--nagios and {name} exclude each other"
