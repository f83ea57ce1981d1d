"""Test that names, tags and reasons cannot control a terminal, break a line, or run in a shell."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from iallocator.cli import main
from tests.aliases import Capture
from tests.builders import Json, allocate, as_bytes, cluster, instance
from tests.command import printed
from tests.paths import FIXTURES

EVIL = "\x1b[31m\n\x9b2J\u202e\u2028\t<x>&\"'"
"""Characters that are appended to every free text of a document."""

WORDS = {
    "type", "disk_template", "admin_state", "alloc_policy", "hypervisor", "evac_mode", "mode",
    "enabled_hypervisors", "disk-templates", "strategy", "n1", "kind", "level", "class",
    "storage_type", "inter-group",
}  # fmt: skip
"""Members with values that are words of the format, not free texts."""


def poisoned(document: Json) -> tuple[Json, dict[str, str]]:
    """Return the document with `EVIL` in all its texts, and a map of old names to new names."""
    found = [name for table in ("nodes", "nodegroups", "instances") for name in document[table]]
    found += [group["name"] for group in document["nodegroups"].values()]
    request = document.get("request", {})
    new = [request, *request.get("instances", ())]
    found += [one["name"] for one in new if isinstance(one, dict) and "name" in one]
    names = {name: name + EVIL for name in found}

    def changed(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {names.get(name, name): changed(one, name) for name, one in value.items()}
        if isinstance(value, list):
            return [changed(one, key) for one in value]
        if not isinstance(value, str) or key in WORDS:
            return value
        return names.get(value, value + EVIL)

    result: Json = changed(document)
    return result, names


BALANCED = "constraints/balance-moves-partners-as-one"
GROUPS = "change-group/several-instances"

PLANS = (
    ("balance", BALANCED), ("check", BALANCED), ("capacity -l2", "place/everything"),
    ("balance-groups", GROUPS), ("compress --n1=off", GROUPS), ("redistribute", GROUPS),
    ("squeeze", "constraints/squeeze-keeps-apart"),
    ("reboot --force", "constraints/squeeze-keeps-apart"),
    ("place --strategy=pacemaker-minimal", "place/everything"),
)  # fmt: skip
"""Commands with options, each with the stored case for its document."""

REQUESTS = (
    "allocate/n1-no-new-refuses", "allocate/exclusion-tag-conflict", "affinity/anti-affinity",
    "change-group/plain-refused", "node-evacuate/drbd-all", "constraints/order-in-a-transition",
    "constraints/soft-constraint-violated-with-its-penalty",
    "strategies/pacemaker-balanced-exactly",
    "affinity/relocate-with-keys", "allocate/pool-by-tags",
    "allocate/missing-memory",
)  # fmt: skip

LISTS = ("--print-instances", "--print-nodes=+plist,slist,peermap,ptags,group,fqdn")

WITHOUT_GRAPH = ("capacity", "check")

ABOUT = (
    (), ("explain",), ("explain", "--json"), ("explain", "--brief"), ("constraints", "--all"),
    ("constraints", "--all", "--json"), ("config",), ("config", "--json"), ("check",),
    ("check", "--machine-readable"), ("--validate",),
)  # fmt: skip
"""Commands and options that work for any request."""


def prepared(case: str, folder: Path) -> list[str]:
    """Write the request of a stored case with control characters in its names.

    Return the arguments of the case without ``--json``.
    """
    stored = FIXTURES / case
    document, names = poisoned(json.loads((stored / "request.json").read_text()))
    (folder / "doc").write_bytes(as_bytes(document))
    args = stored / "args"
    words = args.read_text().split() if args.exists() else []
    return [names.get(word, word) for word in words if word != "--json"] + ["doc"]


def output_of(capsys: Capture, *arguments: str) -> str:
    """Return the stdout of the program; assert that no stream has control characters."""
    assert main(arguments) in (0, 1)
    out, err = capsys.readouterr()
    for line in (out + err).split("\n"):
        assert line.isprintable(), line
    assert not re.search(r"x1b\[31m\s*\n\s*\\x9b2J", out + err), "a name broke the line"
    return out


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change to the folder of the test, so that arguments are names without a path."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("command", "case"), PLANS)
def test_plans_about_odd_names_print_their_codes(
    command: str, case: str, tmp_path: Path, capsys: Capture
) -> None:
    """Plans print control characters of names as codes, in every format."""
    words = [*command.split(), prepared(case, tmp_path)[-1]]
    output_of(capsys, *words)
    document = json.loads(output_of(capsys, *words, "--json", "-v"))
    assert any(EVIL in text for text in _texts(document))
    output_of(capsys, *words, *LISTS)
    if words[0] in WITHOUT_GRAPH:
        return
    output_of(capsys, *words, "-C", "--graph=-")
    output_of(capsys, *words, "--print-commands=script", "--graph=steps.svg")
    ElementTree.parse(tmp_path / "steps.svg")
    script = (tmp_path / "script").read_text()
    assert all(line.isprintable() for line in script.split("\n"))
    subprocess.run(["sh", "-n", "script"], check=True, cwd=tmp_path)


def _texts(value: object) -> list[str]:
    """Return all strings in a document, at any depth."""
    if isinstance(value, dict):
        return [*value, *(text for one in value.values() for text in _texts(one))]
    if isinstance(value, list):
        return [text for one in value for text in _texts(one)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("case", REQUESTS)
def test_answers_about_odd_names_print_their_codes(
    case: str, tmp_path: Path, capsys: Capture
) -> None:
    """Answers, warnings, explanations and lists have no control characters."""
    *words, document = prepared(case, tmp_path)
    for about in ABOUT:
        taken = words if about in ((), ("explain",)) else []
        output_of(capsys, *about, *taken, document)
    answer = json.loads(output_of(capsys, *words, *LISTS, "-v", document))
    if answer.get("transition", {}).get("steps"):
        output_of(capsys, "explain", *words, "--graph=steps.svg", document)
        ElementTree.parse("steps.svg")


def test_errors_about_odd_names_are_one_line(tmp_path: Path, capsys: Capture) -> None:
    """An error about a name with control characters is one line.

    The name is in a document or on the command line.
    """
    document = allocate(cluster(2))
    document["nodes"]["node" + EVIL] = {"group": EVIL}
    (tmp_path / "doc").write_bytes(as_bytes(document))
    for words in (["doc"], ["--validate", "doc"], ["check", "doc"], [EVIL], ["-t", EVIL],
                  ["balance", f"-O={EVIL}", "doc"], [f"--{EVIL}"],
                  ["--simulate", EVIL]):  # fmt: skip
        assert main(words) == 2
        err = capsys.readouterr().err.removesuffix("\n")
        assert err.isprintable() or words[0] == "--validate"
        assert all(line.isprintable() for line in err.split("\n"))


def test_machine_readable_uuid_with_a_quote_stays_one_word(tmp_path: Path, capsys: Capture) -> None:
    """`check --machine-readable` prints a uuid with a quote as one word of a shell."""
    document = cluster(2)
    evil = "u'; echo gone; '"
    document["nodegroups"] = {evil: document["nodegroups"]["uuid-default"]}
    for node in document["nodes"].values():
        node["group"] = evil
    (tmp_path / "doc").write_bytes(as_bytes(document))
    main(["check", "--machine-readable", "doc"])
    script = capsys.readouterr().out + 'printf %s "$HCHECK_GROUP_UUID_0"'
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == evil


def test_short_names_in_a_file_of_loads_count_as_whole_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`-U FILE` accepts short names of instances; it rejects ambiguous and reports unknown ones."""
    held = {
        "a.example.com": instance("node1", "node2"),
        "b.example.com": instance("node1", "node3"),
        "b.example.org": instance("node1", "node3"),
    }
    path, loads = tmp_path / "request.json", tmp_path / "loads"
    path.write_bytes(as_bytes(allocate(cluster(3, instances=held))))

    def plan(*lines: str) -> tuple[int, str, str]:
        loads.write_text("".join(f"{line}\n" for line in lines))
        status = main(["balance", "-U", str(loads), str(path)])
        return status, *capsys.readouterr()

    usual = plan()
    assert plan("a 5 5 5 5") == plan("a.example.com 5 5 5 5") != usual
    assert plan("a.exampl 5 5 5 5")[1] == usual[1]
    assert plan("a.exampl 5 5 5 5")[2] == f"{loads}: 1 unknown: a.exampl; left out\n"
    status, _, reported = plan("b 5 5 5 5")
    assert status == 2
    assert "b may be any of the instances b.example.com, b.example.org" in reported


def test_short_name_of_the_master_node_is_known_to_reboot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`reboot` accepts the short name of the master node, and reports an unknown name."""
    path = tmp_path / "request.json"
    text = as_bytes(allocate(cluster(3))).replace(b'"node1"', b'"node1.example.com"')
    path.write_bytes(text)
    assert printed("reboot", "--master-node", "node1", str(path)).endswith("node1.example.com\n")
    assert main(["reboot", "--master-node", "node", str(path)]) == 2
    assert "--master-node: unknown node node" in capsys.readouterr().err
    assert main(["reboot", "--force", "--group", "nosuch", str(path)]) == 2
    assert "--group: unknown group nosuch" in capsys.readouterr().err
