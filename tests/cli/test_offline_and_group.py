"""Test that ``--offline`` and ``--group`` affect every command that reads a cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iallocator.cli import main
from iallocator.commands import COMMANDS, options_of
from tests.aliases import Capture
from tests.builders import Json, allocate_rbd, as_bytes, cluster, instance, rbd
from tests.command import json_of, printed, run, without_identity

DOWN = "node2"

SCENARIO = cluster(
    {"east": 3, "west": 3},
    instances={
        **{f"e{k}": rbd("node1", memory=512 + 64 * k) for k in range(3)},
        **{f"w{k}": rbd("node4", memory=512 + 64 * k) for k in range(3)},
        "mirrored": instance("node2", "node3", memory=512),
    },
)
ASKED = allocate_rbd(SCENARIO, memory=1024)

NEW = ("--memory=1G", "--disk-template=rbd", "--disk=1G", "--brief", "--json")

WORDS: dict[str, tuple[str, ...]] = {
    "ask": ("allocate", *NEW),
    "capacity": ("--json", "--standard-alloc=1g,1g,1", "--tiered-alloc=2g,2g,1", "-l2",
                 "--disk-template=rbd"),
    "explain": ("--json",),
    "maintain": ("--json", "--force"),
    "make-room": ("--json",),
    "reboot": ("--json", "--force"),
    "report": (),
    "snapshot": ("--form=json",),
}  # fmt: skip
"""Arguments of commands that need more than ``--json``."""

BOTH = [
    name for name in COMMANDS
    if {"--offline", "--group"} <= {word for one in options_of(name) for word in one.names}
]  # fmt: skip


def output_of(command: str, document: Json, *options: str, folder: Path, capsys: Capture) -> str:
    """Return the output of `command` with `options` for the cluster in `document`."""
    file = folder / "document.json"
    file.write_bytes(as_bytes(document))
    asked = ("-I", str(file)) if command == "ask" else (str(file),)
    status = main([command, *WORDS.get(command, ("--json",)), *options, *asked])
    out, err = capsys.readouterr()
    assert status in (0, 1), err
    return without_identity(out)


@pytest.mark.parametrize(
    "command",
    [name for name in COMMANDS if any("--offline" in one.names for one in options_of(name))],
)
def test_node_of_the_option_offline_equals_an_offline_node_of_the_document(
    command: str, tmp_path: Path, capsys: Capture
) -> None:
    """`--offline NODE` gives the output for a document in which the node is offline."""
    marked = json.loads(json.dumps(ASKED))
    marked["nodes"][DOWN]["offline"] = True
    chosen = output_of(command, ASKED, f"--offline={DOWN}", folder=tmp_path, capsys=capsys)
    assert chosen == output_of(command, marked, folder=tmp_path, capsys=capsys)
    assert chosen != output_of(command, ASKED, folder=tmp_path, capsys=capsys)


@pytest.mark.parametrize("command", BOTH)
def test_unknown_group_or_node_is_rejected(command: str, tmp_path: Path, capsys: Capture) -> None:
    """An unknown group or node is rejected with the option and the word."""
    file = tmp_path / "document.json"
    file.write_bytes(as_bytes(ASKED))
    asked = ("-I", str(file)) if command == "ask" else (str(file),)
    words = WORDS.get(command, ("--json",))
    for option in ("--group", "--offline"):
        assert main([command, *words, f"{option}=nowhere", *asked]) == 2
        complaint = capsys.readouterr().err
        assert option in complaint
        assert "nowhere" in complaint


@pytest.mark.parametrize("command", ["balance", "place", "squeeze", "reboot", "make-room"])
@pytest.mark.parametrize("group", ["east", "west"])
def test_planner_moves_only_instances_of_the_group(command: str, group: str) -> None:
    """With --group, planners move instances only between nodes of the group."""
    members = {"east": {"node1", "node2", "node3"}, "west": {"node4", "node5", "node6"}}[group]
    words = (*WORDS.get(command, ("--json",)), f"--group={group}")
    plan = json_of(command, *words, document=ASKED)
    assert all(members.issuperset(move["from"] + move["to"]) for move in plan["moves"])


@pytest.mark.parametrize("group", ["east", "west"])
def test_new_instances_go_to_the_group(group: str) -> None:
    """With --group, `ask`, `explain` and `capacity` place instances on nodes of the group."""
    members = {"east": {"node1", "node2", "node3"}, "west": {"node4", "node5", "node6"}}[group]
    option = f"--group={group}"
    answers = [
        json.loads(printed("ask", "allocate", *NEW, option, document=SCENARIO)),
        json.loads(printed("explain", "--json", option, document=ASKED)),
    ]
    for answer in answers:
        assert members.issuperset(answer["decisions"][0]["answer"]["nodes"])
    found = json.loads(printed("capacity", *WORDS["capacity"], option, document=SCENARIO))
    placed = [node for one in found["standard"]["instances"] for node in one["nodes"]]
    assert placed
    assert members.issuperset(placed)


def test_request_for_existing_instances_keeps_to_the_group() -> None:
    """With --group, `ask` moves instances within or into this group, and rejects other requests."""
    evacuated = json_of("ask", "evacuate", "node1,node4", "--json", "-Gwest", document=SCENARIO)
    assert {one[0] for one in evacuated["response"]["result"][0]} == {"w0", "w1", "w2"}
    changed = json_of("ask", "change-group", "e0", "--json", "--group=west", document=SCENARIO)
    assert [one[1] for one in changed["response"]["result"][0]] == ["west"]
    assert "is in another group" in printed_error("ask", "relocate", "e0", "--group=west")
    assert "names other groups" in printed_error(
        "ask", "change-group", "w0", "--to=east", "--group=west"
    )


def printed_error(*words: str) -> str:
    """Return the error message of a command with the arguments `words` about `SCENARIO`."""
    done = run(*words, stdin=as_bytes(SCENARIO))
    assert done.returncode == 2
    return done.stderr.decode()


def test_only_the_named_group_is_emptied_or_repaired() -> None:
    """With --group, `compress`, `check`, `show` and `redistribute` treat only that group."""
    plan = json_of("compress", "--json", "--group=west", document=SCENARIO)
    assert plan["chosen_group"] in ("west", None)
    reasons = {row["group"]: row["reason"] for row in plan["groups"]}
    assert reasons["east"] == "the plan is only for group west"
    shown = json_of("show", "--json", "--group=west", document=SCENARIO)
    assert [group["group"] for group in shown["groups"]] == ["west"]
    assert {one["instance"] for one in shown["instances"]} == {"w0", "w1", "w2"}


def test_repair_on_assumed_failures_is_not_executed(capsys: Capture) -> None:
    """`repair` with --offline is not executed, as instances of online nodes may be running."""
    assert main(["repair", "-L", "-X", "--offline=node1"]) == 2
    assert "-X repairs only instances of nodes" in capsys.readouterr().err
