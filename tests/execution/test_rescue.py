"""Test `rescue` on files and on a simulated running cluster."""

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
from tests.aliases import Capture
from tests.builders import Json, as_bytes, cluster, instance
from tests.command import complaint, json_of, printed, run
from tests.live.cluster_answers import instance as live_instance
from tests.live.cluster_answers import node as live_node
from tests.live.cluster_answers import rapi_answers
from tests.schemas import conforms

from .running import Running, running

if TYPE_CHECKING:
    from iallocator.model.state import State
    from iallocator.transition.transition import Transition

AMOUNTS = ("mtotal", "mnode", "mfree", "dtotal", "dfree", "ctotal", "cnos")
"""The fields that only the node itself can report."""

OOB = "/usr/bin/oob"


@pytest.fixture(autouse=True)
def silent_addresses(own_locks: None, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Let every address answer a ping, except those in the returned set."""
    silent = {"192.0.2.2"}
    monkeypatch.setattr(
        "iallocator.execution.dead_node.answers_ping", lambda address: address not in silent
    )
    return silent


def sick(**fields: object) -> Json:
    """Return a cluster of four nodes, of which node2 does not answer; `fields` are of node2."""
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


def rescued(folder: Path, scenario: Running, *words: str, node: str = "node2") -> int:
    """Return the exit status of `rescue -X` for the node `node`."""
    journal = ["--journal", str(folder / "journal")]
    return main(["rescue", node, f"-L{scenario.path}", "-X", *journal, *words])


def kinds(scenario: Running) -> list[str]:
    """Return the submitted opcodes in order, each with its node or instance."""
    codes = [code for jobs in scenario.submitted for job in jobs for code in job]
    return [
        f"{code['OP_ID'].removeprefix('OP_')} "
        f"{code.get('instance_name') or code.get('node_name') or code['command']}"
        for code in codes
    ]


def test_dead_node_is_fenced_and_its_instances_run_elsewhere(
    tmp_path: Path, capsys: Capture
) -> None:
    """`rescue` fences the node, marks it offline, fails instances over, and adds secondaries.

    Instances fail over by priority.
    """
    with running(tmp_path, sick(oob_program=OOB)) as scenario:
        assert rescued(tmp_path, scenario, "--json") == 1  # the plain instance cannot be saved
        found = json.loads(capsys.readouterr().out)
        conforms(found, "plan")
        made = kinds(scenario)
        places = scenario.places()
        assert scenario.found("node2")["offline"]
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
    """If an instance fails the verification, `rescue` still saves the others, with status 1."""
    verify = verify_transition

    def rejects(before: State, transition: Transition, *more: Any) -> list[str]:
        moved = [step.action.instance for step in transition.steps]
        if "low" in {one.name for one in moved if one is not None}:
            return ["low breaks a limit"]
        return verify(before, transition, *more)

    monkeypatch.setattr(verification, "verify_transition", rejects)
    with running(tmp_path, sick(oob_program=OOB)) as scenario:
        assert rescued(tmp_path, scenario, "--json") == 1
        made, places = kinds(scenario), scenario.places()
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
    """When `rescue` marks a node offline, another node becomes master candidate."""
    with running(tmp_path, sick(oob_program=OOB)) as scenario:
        rescued(tmp_path, scenario)
        codes = [code for jobs in scenario.submitted for job in jobs for code in job]
    (mark,) = (code for code in codes if code["OP_ID"] == "OP_NODE_SET_PARAMS")
    assert mark["offline"] is mark["auto_promote"] is True


@pytest.mark.parametrize("back", ["back", "elsewhere/back"])
@pytest.mark.parametrize("candidate", [True, False])
def test_returned_node_is_master_candidate_if_it_was_one(
    candidate: bool, back: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`rescue --return` gives a node its role back, and takes it from the node that was promoted.

    Ganeti does not give it back, because the promoted node makes the candidates complete. Nor does
    it write the SSH key of the promoted node to a node that comes back. The journal of the rescue
    is in the folder of the journal `back`, or in the default folder.
    """
    default = tmp_path if "/" in back else tmp_path / "other"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr(
        "iallocator.commands.rescue.default_path", lambda *_: str(default / "x.journal")
    )
    answers = sick(oob_program=OOB)
    answers["nodes"][1]["master_candidate"] = candidate
    answers["nodes"][3]["master_candidate"] = False
    with running(tmp_path, answers) as scenario:
        words = ["rescue", "node2", f"-L{scenario.path}", "-X", "--journal"]
        main([*words, str(tmp_path / "rescue-1.journal")])
        assert not scenario.found("node2")["master_candidate"]
        (tmp_path / "rescue-2.journal").write_text("damaged\n")
        scenario.found("node2").update(live_node("node2", pip="192.0.2.2"), offline=True)
        scenario.found("node2")["master_candidate"] = False
        scenario.found("node4")["master_candidate"] = True
        capsys.readouterr()
        assert main([*words, str(tmp_path / back), "--return"]) == 0
        here, promoted = scenario.found("node2"), scenario.found("node4")
        made = kinds(scenario)
    printed_text = "".join(capsys.readouterr())
    assert "node4 became master candidate while node2 was away" in printed_text
    assert (here["offline"], here["master_candidate"]) == (False, candidate)
    assert not promoted["master_candidate"]
    assert made[-2:] == ["NODE_SET_PARAMS node2", "NODE_SET_PARAMS node4"]
    last = scenario.submitted[-1][-1][-1]
    assert (last["master_candidate"], last["auto_promote"]) == (False, True)


def test_master_that_was_promoted_meanwhile_keeps_its_role(tmp_path: Path, capsys: Capture) -> None:
    """`rescue --return` cannot take the role from the master node: it says what a person must do.

    The SSH key of the master is not on the returned node.
    """
    answers = sick(oob_program=OOB)
    answers["nodes"][3]["master_candidate"] = False
    with running(tmp_path, answers) as scenario:
        words = ["rescue", "node2", f"-L{scenario.path}", "-X", "--journal"]
        main([*words, str(tmp_path / "rescue-1.journal")])
        scenario.found("node2").update(live_node("node2", pip="192.0.2.2"), offline=True)
        scenario.found("node4")["master_candidate"] = True
        scenario.answers["info"]["master"] = "node4"
        capsys.readouterr()
        assert main([*words, str(tmp_path / "back.journal"), "--return"]) == 0
        made = kinds(scenario)
    text = " ".join("".join(capsys.readouterr()).split())
    assert made[-1] == "NODE_SET_PARAMS node2"
    assert "gnt-node add --readd node2" in text


def test_journal_without_master_candidates_takes_no_role(tmp_path: Path, capsys: Capture) -> None:
    """`rescue --return` takes no role back if the journal does not list the candidates."""
    with running(tmp_path, sick(oob_program=OOB)) as scenario:
        words = ["rescue", "node2", f"-L{scenario.path}", "-X", "--journal"]
        journal = tmp_path / "rescue-1.journal"
        main([*words, str(journal)])
        head, *rest = journal.read_text().splitlines(keepends=True)
        read = json.loads(head)
        del read["candidates"]
        journal.write_text("".join([json.dumps(read) + "\n", *rest]))
        scenario.found("node2").update(live_node("node2", pip="192.0.2.2"), offline=True)
        capsys.readouterr()
        assert main([*words, str(tmp_path / "back.journal"), "--return"]) == 0
        made = kinds(scenario)
    text = " ".join("".join(capsys.readouterr()).split())
    assert made[-1] == "NODE_SET_PARAMS node2"
    assert "no journal of a rescue of node2" in text
    assert "gnt-cluster verify" in text


@pytest.mark.parametrize("sign", ["daemon", "ping"])
def test_node_that_answers_is_not_rescued(
    sign: str, tmp_path: Path, capsys: Capture, silent_addresses: set[str]
) -> None:
    """`rescue` rejects a node that answers a ping or Ganeti's query, and submits no job."""
    answers = sick(oob_program=OOB)
    if sign == "daemon":
        answers["nodes"][1] |= {"mtotal": 16384}
    else:
        silent_addresses.clear()
    with running(tmp_path, answers) as scenario:
        assert rescued(tmp_path, scenario) == 1
        assert not scenario.submitted
    words = "its node daemon answers" if sign == "daemon" else "192.0.2.2 answers"
    assert f"node2 is not dead: {words}" in capsys.readouterr().err


def test_master_that_reaches_no_node_rescues_none(
    tmp_path: Path, capsys: Capture, silent_addresses: set[str]
) -> None:
    """`rescue` does nothing if no other node answers a ping either.

    The network of the master node may be down.
    """
    silent_addresses |= {f"{net}.{n}" for net in ("192.0.2", "198.51.100") for n in range(1, 5)}
    with running(tmp_path, sick(oob_program=OOB)) as scenario:
        assert rescued(tmp_path, scenario) == 1
        assert not scenario.submitted
    assert "no other node answers from here either" in capsys.readouterr().err


def test_master_node_is_not_rescued(tmp_path: Path, capsys: Capture) -> None:
    """`rescue` rejects the master node, and names the command for a new master."""
    answers = sick(oob_program=OOB)
    answers["info"]["master"] = "node2"
    with running(tmp_path, answers) as scenario:
        assert rescued(tmp_path, scenario) == 1
        assert not scenario.submitted
    assert "gnt-cluster master-failover" in capsys.readouterr().err


def test_second_silent_node_must_be_marked_first(tmp_path: Path, capsys: Capture) -> None:
    """`rescue` rejects a cluster with a second silent node that is not marked offline."""
    answers = sick(oob_program=OOB)
    answers["nodes"][3] |= dict.fromkeys(AMOUNTS)
    with running(tmp_path, answers) as scenario:
        assert rescued(tmp_path, scenario) == 2
        assert not [one for one in kinds(scenario) if "power-status" not in one]
    assert "node node4: it does not answer" in capsys.readouterr().err


def test_failed_fencing_stops_the_rescue(tmp_path: Path, capsys: Capture) -> None:
    """If fencing fails, `rescue` fails no instance over; --resume tries the fencing again."""
    with running(tmp_path, sick(oob_program=OOB)) as scenario:
        scenario.broken_power.add("node2")
        assert rescued(tmp_path, scenario) == 1
        assert kinds(scenario)[1:] == ["OOB_COMMAND power-off"]
        assert not scenario.found("node2")["offline"]
        scenario.broken_power.clear()
        again = ["rescue", f"-L{scenario.path}", "-X", "--resume", str(tmp_path / "journal")]
        assert main(again) == 0
        assert scenario.places()["high"][0] == "node4"


def test_without_a_program_a_person_confirms_the_fencing(tmp_path: Path, capsys: Capture) -> None:
    """Without a program for power control, `rescue` waits for a person to confirm the fencing.

    Without a terminal, `--done-by-hand` or `--fenced` confirm it.
    """
    with running(tmp_path, sick()) as scenario:
        rescued(tmp_path, scenario)
        assert not scenario.submitted
        assert "now by hand: fence node2" in capsys.readouterr().err
        again = ["rescue", f"-L{scenario.path}", "-X", "--resume", str(tmp_path / "journal")]
        assert main([*again, "--done-by-hand"]) == 0
        assert scenario.places()["low"][0] == "node3"


def test_option_fenced_confirms_that_the_node_is_off(tmp_path: Path) -> None:
    """With --fenced, `rescue` does not power the node off."""
    with running(tmp_path, sick(oob_program=OOB)) as scenario:
        rescued(tmp_path, scenario, "--fenced")
        assert "OOB_COMMAND power-off" not in kinds(scenario)
        assert scenario.places()["low"][0] == "node3"


def test_node_that_answers_again_is_not_marked(tmp_path: Path, capsys: Capture) -> None:
    """If the node answers when `rescue` is resumed, it is not marked offline."""
    with running(tmp_path, sick()) as scenario:
        rescued(tmp_path, scenario)
        scenario.found("node2").update(live_node("node2", pip="192.0.2.2"))
        again = ["rescue", f"-L{scenario.path}", "-X", "--resume", str(tmp_path / "journal")]
        assert main([*again, "--done-by-hand"]) == 1
        assert not scenario.submitted
    assert "node2 is online again" in capsys.readouterr().err


class Killed(BaseException):
    """Raised to simulate that the process which executes the rescue is killed."""


@pytest.mark.parametrize("moment", range(1, 5))
def test_killed_rescue_is_resumed(
    moment: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rescue that is killed at any submission and resumed submits each job once."""
    send, calls = Waves._send, list[int]()

    def dying(waves: Waves, wave: Sequence[Job]) -> None:
        """Submit jobs, and end the process at the submission with the number `moment`."""
        send(waves, wave)
        calls.extend([1] if wave else [])
        if len(calls) == moment:
            raise Killed

    with running(tmp_path, sick(oob_program=OOB)) as scenario:
        with monkeypatch.context() as patched:
            patched.setattr(Waves, "_send", dying)
            with pytest.raises(Killed):
                rescued(tmp_path, scenario)
        again = ["rescue", f"-L{scenario.path}", "-X", "--resume", str(tmp_path / "journal")]
        assert main(again) == 0
        made = kinds(scenario)
        assert len(made) == len(set(made)) == 8
        assert scenario.places()["second"][1] != "node2"


def test_marked_node_is_fenced_and_not_marked_again(tmp_path: Path) -> None:
    """`rescue` fences a node that is already marked offline, and does not mark it again.

    Ganeti does not query such a node, so that only its addresses are asked.
    """
    answers = sick(oob_program=OOB)
    answers["nodes"][1]["offline"] = True
    with running(tmp_path, answers) as scenario:
        rescued(tmp_path, scenario)
        assert "NODE_SET_PARAMS node2" not in kinds(scenario)
        assert scenario.places()["low"][0] == "node3"


def document(**extra: Json) -> Json:
    """Return a captured document of a cluster of four nodes."""
    return cluster(4, instances={
        "a": instance("node1", "node2"),
        "b": instance("node1", "node3", tags=["iallocator:priority:5"]),
        "c": instance("node2", "node1"),
        **extra,
    })  # fmt: skip


def test_file_is_only_planned_and_its_node_is_dead() -> None:
    """`rescue` of a file only plans: it moves the instances of the node, by priority."""
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
    """`rescue` creates a new secondary in a job of its own, after the failover."""
    found = json_of("rescue", "node1", document=document())
    assert all(len(job["step_numbers"]) == 1 for job in found["transition"]["jobs"])


def test_instances_that_cannot_be_saved_are_listed_by_priority() -> None:
    """`rescue` lists the instances that it cannot save by priority, each with its reason."""
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
    """The script of rescue has all commands; the fencing is left to a person."""
    lines = printed("rescue", "node1", "-C", document=document())
    assert "fence node1" in lines
    assert "gnt-node modify --offline=yes --auto-promote node1" in lines
    assert lines.index("gnt-instance failover -f b") < lines.index("gnt-instance failover -f a")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "rescue needs the name of a node"),
        (("nod1",), "rescue: unknown node nod1 (did you mean node1"),
        (("node1", "--fenced"), "--fenced needs -X"),
        (("node1", "--offline", "node2"), "rescue takes no --offline: NODE counts as offline"),
        (("node1", "--compat", "hail"), "none of htools' programs does the same"),
        (("node1", "-L", "--resume", "journal"), "--resume continues the plan in the journal"),
    ],
)
def test_command_line_is_checked(words: tuple[str, ...], text: str) -> None:
    """For an invalid command line, `rescue` reports what is wrong and what to do."""
    assert text in complaint(run("rescue", *words, stdin=as_bytes(document())))


def test_master_of_a_file_is_rejected_if_it_is_named() -> None:
    """`rescue` rejects the master node of a file only if an option names the master."""
    done = run("rescue", "node1", "--master-node", "node1", stdin=as_bytes(document()))
    assert done.returncode == 1
    assert "node1 is the master node" in done.stderr.decode()
