"""Test the command `rescue` on files and on a simulated running cluster."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from iallocator.cli import main
from iallocator.commands import verification
from iallocator.execution.jobs import Job
from iallocator.execution.runner import Waves
from iallocator.planners.verify import verify_transition
from tests.builders import Json, as_bytes, cluster, instance
from tests.command import complaint, json_of, printed, run
from tests.live.worlds import instance as live_instance
from tests.live.worlds import node as live_node
from tests.live.worlds import rapi_answers
from tests.schemas import conforms

from .running import Running, running

if TYPE_CHECKING:
    from iallocator.model.state import State
    from iallocator.transition.transition import Transition

Capture = pytest.CaptureFixture[str]

AMOUNTS = ("mtotal", "mnode", "mfree", "dtotal", "dfree", "ctotal", "cnos")
"""The fields that only the node itself can report."""

OOB = "/usr/bin/oob"


@pytest.fixture(autouse=True)
def silent_addresses(own_locks: None, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the addresses that answer no ping; all others answer."""
    silent = {"192.0.2.2"}
    monkeypatch.setattr(
        "iallocator.execution.dead_node.answers_ping", lambda address: address not in silent
    )
    return silent


def sick(**fields: object) -> Json:
    """Return a cluster of four nodes, of which node2 does not answer."""
    answers = rapi_answers()
    answers["nodes"] = [
        live_node(f"node{n}", pip=f"192.0.2.{n}", sip=f"198.51.100.{n}") for n in (1, 2, 3, 4)
    ]
    answers["nodes"][1] |= {**dict.fromkeys(AMOUNTS), "sip": "192.0.2.2"}
    answers["nodes"][1]["ndparams"] |= fields
    answers["instances"] = [
        live_instance("low", "node2", "node3"),
        live_instance("high", "node2", "node4", tags=["iallocator:priority:9"]),
        live_instance("second", "node1", "node2"),
        live_instance("plain", "node2", tags=["iallocator:priority:3"]),
        live_instance("other", "node3", "node4"),
    ]
    for one in answers["instances"]:
        one["nic.networks"] = []
    answers["networks"] = []
    answers["info"]["master"] = "node1"
    return answers


def rescued(folder: Path, world: Running, *words: str, node: str = "node2") -> int:
    """Return the exit status of a rescue with -X."""
    journal = ["--journal", str(folder / "journal")]
    return main(["rescue", node, f"-L{world.path}", "-X", *journal, *words])


def kinds(world: Running) -> list[str]:
    """Return the submitted opcodes, each with what it is about, in order."""
    codes = [code for jobs in world.submitted for job in jobs for code in job]
    return [
        f"{code['OP_ID'].removeprefix('OP_')} "
        f"{code.get('instance_name') or code.get('node_name') or code['command']}"
        for code in codes
    ]


def test_dead_node_is_fenced_and_its_instances_run_elsewhere(
    tmp_path: Path, capsys: Capture
) -> None:
    """Fencing, the mark, failovers by priority, and then new secondaries, follow in this order."""
    with running(tmp_path, sick(oob_program=OOB)) as world:
        assert rescued(tmp_path, world, "--json") == 1  # the plain instance cannot be saved
        found = json.loads(capsys.readouterr().out)
        conforms(found, "plan")
        made = kinds(world)
        places = world.places()
        assert world.found("node2")["offline"]
    assert made[:5] == [
        "OOB_COMMAND power-status",
        "OOB_COMMAND power-off",
        "NODE_SET_PARAMS node2",
        "INSTANCE_FAILOVER high",
        "INSTANCE_FAILOVER low",
    ]
    assert sorted(made[5:]) == [f"INSTANCE_REPLACE_DISKS {n}" for n in ("high", "low", "second")]
    assert [one["instance"] for one in found["unsaved"]] == ["plain"]
    assert found["evidence"]["power"] == "on"
    assert found["execution"]["complete"]
    assert all("node2" not in nodes for name, nodes in places.items() if name != "plain")
    assert places["high"][0] == "node4"


def test_instance_that_fails_the_verification_does_not_stop_the_others(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The instance is named as not saved, and the exit status is 1."""
    verify = verify_transition

    def rejects(before: State, transition: Transition, *more: Any) -> list[str]:
        moved = [step.action.instance for step in transition.steps]
        if "low" in {one.name for one in moved if one is not None}:
            return ["low breaks a limit"]
        return verify(before, transition, *more)

    monkeypatch.setattr(verification, "verify_transition", rejects)
    with running(tmp_path, sick(oob_program=OOB)) as world:
        assert rescued(tmp_path, world, "--json") == 1
        made, places = kinds(world), world.places()
    out, err = capsys.readouterr()
    found = json.loads(out)
    conforms(found, "plan")
    assert "INSTANCE_FAILOVER high" in made
    assert not [what for what in made if what.endswith(" low")]
    assert places["low"] == ["node2", "node3"]
    assert "node2" not in places["high"] + places["second"]
    assert "left out: low" in err
    assert {"instance": "low", "priority": 0, "reason": "low breaks a limit"} in found["unsaved"]


def test_mark_of_the_node_promotes_another_master_candidate(tmp_path: Path) -> None:
    """Ganeti rejects the mark if it would leave too few master candidates."""
    with running(tmp_path, sick(oob_program=OOB)) as world:
        rescued(tmp_path, world)
        codes = [code for jobs in world.submitted for job in jobs for code in job]
    (mark,) = (code for code in codes if code["OP_ID"] == "OP_NODE_SET_PARAMS")
    assert mark["offline"] is mark["auto_promote"] is True


@pytest.mark.parametrize("sign", ["daemon", "ping"])
def test_node_that_answers_is_not_rescued(
    sign: str, tmp_path: Path, capsys: Capture, silent_addresses: set[str]
) -> None:
    """Either witness is enough, and nothing is submitted."""
    answers = sick(oob_program=OOB)
    if sign == "daemon":
        answers["nodes"][1] |= {"mtotal": 16384}
    else:
        silent_addresses.clear()
    with running(tmp_path, answers) as world:
        assert rescued(tmp_path, world) == 1
        assert not world.submitted
    words = "its node daemon answers" if sign == "daemon" else "192.0.2.2 answers"
    assert f"node2 is not dead: {words}" in capsys.readouterr().err


def test_master_that_reaches_no_node_rescues_none(
    tmp_path: Path, capsys: Capture, silent_addresses: set[str]
) -> None:
    """If no other node answers a ping either, the network of this machine may be down."""
    silent_addresses |= {f"{net}.{n}" for net in ("192.0.2", "198.51.100") for n in range(1, 5)}
    with running(tmp_path, sick(oob_program=OOB)) as world:
        assert rescued(tmp_path, world) == 1
        assert not world.submitted
    assert "no other node answers from here either" in capsys.readouterr().err


def test_master_node_is_not_rescued(tmp_path: Path, capsys: Capture) -> None:
    """The message names the command that makes another node the master."""
    answers = sick(oob_program=OOB)
    answers["info"]["master"] = "node2"
    with running(tmp_path, answers) as world:
        assert rescued(tmp_path, world) == 1
        assert not world.submitted
    assert "gnt-cluster master-failover" in capsys.readouterr().err


def test_second_silent_node_must_be_marked_first(tmp_path: Path, capsys: Capture) -> None:
    """Other nodes that do not answer stop the rescue, as they stop every execution."""
    answers = sick(oob_program=OOB)
    answers["nodes"][3] |= dict.fromkeys(AMOUNTS)
    with running(tmp_path, answers) as world:
        assert rescued(tmp_path, world) == 2
        assert not [one for one in kinds(world) if "power-status" not in one]
    assert "node node4: it does not answer" in capsys.readouterr().err


def test_failed_fencing_stops_the_rescue(tmp_path: Path, capsys: Capture) -> None:
    """No instance fails over while the node may be running; the cause removed, it goes on."""
    with running(tmp_path, sick(oob_program=OOB)) as world:
        world.broken_power.add("node2")
        assert rescued(tmp_path, world) == 1
        assert kinds(world)[1:] == ["OOB_COMMAND power-off"]
        assert not world.found("node2")["offline"]
        world.broken_power.clear()
        again = ["rescue", f"-L{world.path}", "-X", "--resume", str(tmp_path / "journal")]
        assert main(again) == 0
        assert world.places()["high"][0] == "node4"


def test_without_a_program_a_person_confirms_the_fencing(tmp_path: Path, capsys: Capture) -> None:
    """Without a terminal the rescue waits; `--done-by-hand` and `--fenced` confirm."""
    with running(tmp_path, sick()) as world:
        rescued(tmp_path, world)
        assert not world.submitted
        assert "now by hand: fence node2" in capsys.readouterr().err
        again = ["rescue", f"-L{world.path}", "-X", "--resume", str(tmp_path / "journal")]
        assert main([*again, "--done-by-hand"]) == 0
        assert world.places()["low"][0] == "node3"


def test_option_fenced_confirms_that_the_node_is_off(tmp_path: Path) -> None:
    """With `--fenced`, the out-of-band program is not asked to power the node off."""
    with running(tmp_path, sick(oob_program=OOB)) as world:
        rescued(tmp_path, world, "--fenced")
        assert "OOB_COMMAND power-off" not in kinds(world)
        assert world.places()["low"][0] == "node3"


def test_node_that_answers_again_is_not_marked(tmp_path: Path, capsys: Capture) -> None:
    """If the node is back when the rescue is resumed, nothing more is done."""
    with running(tmp_path, sick()) as world:
        rescued(tmp_path, world)
        world.found("node2").update(live_node("node2", pip="192.0.2.2"))
        again = ["rescue", f"-L{world.path}", "-X", "--resume", str(tmp_path / "journal")]
        assert main([*again, "--done-by-hand"]) == 1
        assert not world.submitted
    assert "node2 is online again" in capsys.readouterr().err


class Killed(BaseException):
    """Report that the process that executes the rescue ends now."""


@pytest.mark.parametrize("moment", range(1, 5))
def test_killed_rescue_is_resumed(
    moment: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each job is submitted once, whenever the process ends; in the end all is done."""
    send, calls = Waves._send, list[int]()

    def dying(waves: Waves, wave: Sequence[Job]) -> None:
        """Submit jobs; end the process when jobs were submitted `moment` times."""
        send(waves, wave)
        calls.extend([1] if wave else [])
        if len(calls) == moment:
            raise Killed

    with running(tmp_path, sick(oob_program=OOB)) as world:
        with monkeypatch.context() as patched:
            patched.setattr(Waves, "_send", dying)
            with pytest.raises(Killed):
                rescued(tmp_path, world)
        again = ["rescue", f"-L{world.path}", "-X", "--resume", str(tmp_path / "journal")]
        assert main(again) == 0
        made = kinds(world)
        assert len(made) == len(set(made)) == 8
        assert world.places()["second"][1] != "node2"


def test_marked_node_is_fenced_and_not_marked_again(tmp_path: Path) -> None:
    """A node that Ganeti knows to be offline is not asked; its addresses are."""
    answers = sick(oob_program=OOB)
    answers["nodes"][1]["offline"] = True
    with running(tmp_path, answers) as world:
        rescued(tmp_path, world)
        assert "NODE_SET_PARAMS node2" not in kinds(world)
        assert world.places()["low"][0] == "node3"


def document(**extra: Json) -> Json:
    """Return a captured cluster of four nodes."""
    return cluster(4, instances={
        "a": instance("node1", "node2"),
        "b": instance("node1", "node3", tags=["iallocator:priority:5"]),
        "c": instance("node2", "node1"),
        **extra,
    })  # fmt: skip


def test_file_is_only_planned_and_its_node_is_dead() -> None:
    """The plan has no moves but those of the node, failovers by priority first."""
    found = json_of("rescue", "node1", document=document())
    conforms(found, "plan")
    assert found["evidence"] == {"assumed": True}
    assert [move["instance"] for move in found["moves"][:2]] == ["b", "a"]
    assert sorted(move["instance"] for move in found["moves"][2:]) == ["a", "b", "c"]
    after = {move["instance"]: move["to"] for move in found["moves"]}
    assert all("node1" not in nodes for nodes in after.values())
    steps = [step["kind"] for step in found["transition"]["steps"]]
    assert steps[:4] == ["fence", "offline", "failover", "failover"]
    assert steps[4:] == ["replace-disks"] * 3


def test_new_secondary_is_a_job_of_its_own() -> None:
    """A copy of disks that takes hours must not delay the failover of another instance."""
    found = json_of("rescue", "node1", document=document())
    assert all(len(job["steps"]) == 1 for job in found["transition"]["jobs"])


def test_instances_that_cannot_be_saved_are_listed_by_priority() -> None:
    """The reason is about the instance: data on the node alone, or no node left for a secondary."""
    wanted = document(
        plain=instance("node1", disk_template="plain", tags=["iallocator:priority:1"]),
        vital=instance("node1", disk_template="plain", tags=["iallocator:priority:7"]),
    )
    for name in ("node3", "node4"):
        wanted["nodes"][name]["drained"] = True
    done = run("rescue", "node1", "--json", stdin=as_bytes(wanted))
    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert [one["instance"] for one in found["unsaved"]] == ["vital", "b", "plain"]
    assert [one["instance"] for one in found["degraded"]] == ["a", "c"]
    assert "instances that cannot be saved: " in done.stderr.decode()


def test_script_marks_the_node_and_names_the_fencing() -> None:
    """The commands are those of the steps; the fencing is left to a person."""
    lines = printed("rescue", "node1", "-C", document=document())
    assert "fence node1" in lines
    assert "gnt-node modify --offline=yes --auto-promote node1" in lines
    assert lines.index("gnt-instance failover -f b") < lines.index("gnt-instance failover -f a")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "rescue needs the name of a node"),
        (("nod1",), "rescue: unknown node nod1 (did you mean node1"),
        (("node1", "--fenced"), "--fenced says how a plan is carried out"),
        (("node1", "--offline", "node2"), "rescue takes no --offline: NODE counts as offline"),
        (("node1", "--compat", "hail"), "none of htools' programs does the same"),
        (("node1", "-L", "--resume", "journal"), "--resume goes on with a plan that is made"),
    ],
)
def test_command_line_is_checked(words: tuple[str, ...], text: str) -> None:
    """Each message says what is wrong, and what to do."""
    assert text in complaint(run("rescue", *words, stdin=as_bytes(document())))


def test_master_of_a_file_is_rejected_if_it_is_named() -> None:
    """A file does not say which node is the master."""
    done = run("rescue", "node1", "--master-node", "node1", stdin=as_bytes(document()))
    assert done.returncode == 1
    assert "node1 is the master node" in done.stderr.decode()
