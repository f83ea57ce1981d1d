"""Test `rescue --watch` and `rescue --return` on a simulated running cluster."""

from __future__ import annotations

import json
import os
from pathlib import Path
from time import time
from typing import Any

import pytest

from iallocator.cli import main
from iallocator.commands.planner_options import Watching
from iallocator.execution.runner import Waves
from iallocator.units import HOUR
from tests.aliases import Capture
from tests.builders import Json, as_bytes, cluster, instance
from tests.command import complaint, json_of, printed, run
from tests.live.cluster_answers import node as live_node
from tests.patience import PATIENCE
from tests.schemas import conforms

from .running import Running, running
from .test_rescue import AMOUNTS, OOB, Killed, kinds, sick, silent_addresses

__all__ = ["silent_addresses"]  # a fixture that every test here uses, too


def tagged(**fields: object) -> Json:
    """Return a cluster in which node2 does not answer, and tags permit to rescue every group."""
    answers = sick(**({"oob_program": OOB} | fields))
    for group in answers["groups"]:
        group["tags"] = ["iallocator:rescue:auto"]
    return answers


def watch(folder: Path, scenario: Running, *words: str) -> int:
    """Return the exit status of `rescue --watch` with -X."""
    state = f"--state={folder / 'state'}"
    return main(["rescue", "--watch", f"-L{scenario.path}", "-X", state, *words])


def state_of(folder: Path) -> Any:
    """Return the state of the watch after its last call."""
    return json.loads((folder / "state" / "state.json").read_text())


def heal(scenario: Running, name: str) -> None:
    """Let the node `name` answer again."""
    scenario.found(name).update(live_node(name, pip=f"192.0.2.{name[-1]}", ndparams={}))


def test_node_is_rescued_after_several_calls_in_which_it_did_not_answer(
    tmp_path: Path, capsys: Capture
) -> None:
    """`rescue --watch` rescues a node that did not answer in three calls in a row."""
    with running(tmp_path, tagged()) as scenario:
        for count in (1, 2):
            assert watch(tmp_path, scenario) == 0
            assert f"node2 did not answer in {count} of 3 calls" in capsys.readouterr().out
            assert not scenario.submitted
        watch(tmp_path, scenario, "--json")
        found = json.loads(capsys.readouterr().out)
        conforms(found, "plan")
        assert found["execution"]["complete"]
        assert "OOB_COMMAND power-off" in kinds(scenario)
        assert scenario.places()["high"][0] == "node4"
        assert found["watch"]["rescued"] == ["node2"]
        made = len(scenario.submitted)
        assert watch(tmp_path, scenario) == 0
        assert len(scenario.submitted) == made


def test_node_that_answers_in_between_is_counted_anew(tmp_path: Path) -> None:
    """`rescue --watch` begins to count again when the node answers in between."""
    with running(tmp_path, tagged()) as scenario:
        silent = dict(scenario.found("node2"))
        for _ in range(2):
            watch(tmp_path, scenario)
        heal(scenario, "node2")
        watch(tmp_path, scenario)
        scenario.found("node2").update(silent)
        for _ in range(2):
            watch(tmp_path, scenario)
        assert state_of(tmp_path)["probes"] == {"node2": 2}
        assert not scenario.submitted


def test_calls_long_ago_are_not_in_a_row(tmp_path: Path) -> None:
    """`rescue --watch` counts anew after a pause of its timer: a node may have answered then."""
    with running(tmp_path, tagged()) as scenario:
        for _ in range(2):
            watch(tmp_path, scenario)
        before = time() - 2 * HOUR
        os.utime(tmp_path / "state" / "state.json", (before, before))
        watch(tmp_path, scenario)
        assert state_of(tmp_path)["probes"] == {"node2": 1}
        assert not scenario.submitted


def test_failed_switch_powers_nothing_off(tmp_path: Path, capsys: Capture) -> None:
    """`rescue --watch` does nothing if more nodes than permitted do not answer.

    A failed network switch must not power nodes off. The reason names the nodes.
    """
    answers = tagged()
    answers["nodes"][3] |= dict.fromkeys(AMOUNTS)
    with running(tmp_path, answers) as scenario:
        for _ in range(5):
            assert watch(tmp_path, scenario) == 1
        assert not scenario.submitted
    text = " ".join(capsys.readouterr().out.split())
    assert "2 nodes do not answer, or are rescued and not back: node2, node4" in text


def test_nodes_that_fail_one_after_the_other_are_not_all_powered_off(tmp_path: Path) -> None:
    """`rescue --watch` counts a rescued node as silent until it returns.

    Nodes that fail one after the other are therefore not all powered off.
    """
    with running(tmp_path, tagged()) as scenario:
        for _ in range(3):
            watch(tmp_path, scenario)
        fail(scenario, "node4")
        made = len(scenario.submitted)
        for _ in range(4):
            assert watch(tmp_path, scenario) == 1
        assert len(scenario.submitted) == made
        heal(scenario, "node2")
        watch(tmp_path, scenario)
        assert scenario.found("node4")["offline"]


def test_as_many_nodes_as_permitted_are_rescued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call of `rescue --watch` rescues one node, though another one does not answer."""
    answers = tagged()
    answers["nodes"].append(live_node("node5", **dict.fromkeys(AMOUNTS), pip="192.0.2.2", sip=""))
    answers["nodes"][4]["ndparams"]["oob_program"] = OOB
    answers["instances"][-1]["snodes"] = ["node5"]
    send = Waves._send

    def dying(waves: Waves, wave: Any) -> None:
        send(waves, wave)
        raise Killed

    with running(tmp_path, answers) as scenario:
        for _ in range(2):
            watch(tmp_path, scenario, "--most-nodes=2")
        with monkeypatch.context() as patched:
            patched.setattr(Waves, "_send", dying)
            with pytest.raises(Killed):
                watch(tmp_path, scenario, "--most-nodes=2")
        for _ in range(2):
            watch(tmp_path, scenario, "--most-nodes=2")
        assert scenario.found("node2")["offline"]
        assert scenario.found("node5")["offline"]
        assert scenario.places()["low"][0] == "node3"


def test_only_groups_with_the_tag_are_watched(tmp_path: Path, capsys: Capture) -> None:
    """`rescue --watch` rescues only nodes of groups with the tag, and reports others."""
    with running(tmp_path, sick(oob_program=OOB)) as scenario:
        for _ in range(4):
            assert watch(tmp_path, scenario) == 0
        assert not scenario.submitted
    assert "its group has no tag iallocator:rescue:auto" in capsys.readouterr().out


@pytest.mark.parametrize("case", ["drained", "maintenance", "empty"])
def test_node_in_maintenance_is_not_watched(case: str, tmp_path: Path, capsys: Capture) -> None:
    """`rescue --watch` ignores nodes in maintenance and nodes without instances."""
    answers = tagged()
    if case == "drained":
        answers["nodes"][1]["drained"] = True
    elif case == "maintenance":
        answers["nodes"][1]["tags"] = ["iallocator:maintenance"]
    else:
        answers["instances"] = answers["instances"][-1:]
    with running(tmp_path, answers) as scenario:
        for _ in range(4):
            assert watch(tmp_path, scenario) == 0
        assert not scenario.submitted
    assert "node2 does not answer, and is not watched" in capsys.readouterr().out


@pytest.mark.parametrize("case", ["program", "ping", "master"])
def test_steps_that_only_a_person_can_do_are_reported(
    case: str, tmp_path: Path, capsys: Capture, silent_addresses: set[str]
) -> None:
    """`rescue --watch` does not rescue a node that only a person can fence, or that answers."""
    answers = tagged(oob_program="" if case == "program" else OOB)
    if case == "ping":
        silent_addresses.clear()
    if case == "master":
        answers["info"]["master"] = "node2"
    with running(tmp_path, answers) as scenario:
        for _ in range(3):
            status = watch(tmp_path, scenario)
        assert status == 1
        assert not scenario.submitted
    words = {"program": "a person must rescue it", "ping": "node2 is not dead: 192.0.2.2 answers",
             "master": "node2 is the master node"}  # fmt: skip
    assert words[case] in " ".join(capsys.readouterr().out.split())


def test_killed_watch_goes_on_in_its_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a killed call, the next call of `rescue --watch` resumes the rescue."""
    send, waves_sent = Waves._send, list[int]()

    def dying(waves: Waves, wave: Any) -> None:
        send(waves, wave)
        waves_sent.extend([1] if wave else [])
        if len(waves_sent) == 3:
            raise Killed

    with running(tmp_path, tagged()) as scenario:
        for _ in range(2):
            watch(tmp_path, scenario)
        with monkeypatch.context() as patched:
            patched.setattr(Waves, "_send", dying)
            with pytest.raises(Killed):
                watch(tmp_path, scenario)
        assert watch(tmp_path, scenario) == 0
        made = kinds(scenario)
        assert len(made) == len(set(made)) == 8
        assert scenario.places()["second"][1] != "node2"


def test_rescue_that_failed_waits_for_a_person(tmp_path: Path, capsys: Capture) -> None:
    """After a failed fencing, `rescue --watch` waits until a person has continued the rescue."""
    with running(tmp_path, tagged()) as scenario:
        scenario.broken_power.add("node2")
        for _ in range(3):
            watch(tmp_path, scenario)
        made = len(scenario.submitted)
        assert watch(tmp_path, scenario) == 1
        assert len(scenario.submitted) == made
        assert "the last rescue failed" in capsys.readouterr().out
        scenario.broken_power.clear()
        journal = state_of(tmp_path)["journal"]
        assert main(["rescue", f"-L{scenario.path}", "-X", "--resume", journal]) == 0
        assert watch(tmp_path, scenario) == 0


def test_dry_run_of_a_watch_keeps_its_state(tmp_path: Path, capsys: Capture) -> None:
    """A dry run of `rescue --watch` prints the jobs, and does not change its state."""
    with running(tmp_path, tagged()) as scenario:
        for _ in range(2):
            watch(tmp_path, scenario)
        capsys.readouterr()
        watch(tmp_path, scenario, "--dry-run", "--probes=2")
        assert "failover high" in capsys.readouterr().out
        assert state_of(tmp_path)["probes"] == {"node2": 2}
        assert not scenario.submitted


def fail(scenario: Running, name: str) -> None:
    """Let the node `name` with an out-of-band program no longer answer."""
    scenario.found(name).update(dict.fromkeys(AMOUNTS), pip="192.0.2.2", sip="192.0.2.2")
    scenario.found(name)["ndparams"]["oob_program"] = OOB


def test_damaged_state_counts_calls_anew(tmp_path: Path, capsys: Capture) -> None:
    """`rescue --watch` counts again from zero, with a warning, if its state is damaged."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "state.json").write_text('{"probes": {"node2": 99}, "rescued"')
    with running(tmp_path, tagged()) as scenario:
        assert watch(tmp_path, scenario) == 0
        assert not scenario.submitted
    assert "is damaged: every node is probed anew" in capsys.readouterr().err


@pytest.mark.parametrize("case", ["damaged", "gone", "all damaged", "journals gone"])
def test_lost_state_powers_no_further_node_off(case: str, tmp_path: Path, capsys: Capture) -> None:
    """`rescue --watch` finds the rescued nodes in its journals if its state is lost.

    If a journal is damaged, too, or the state is damaged and there is no journal, every node that
    is marked offline counts as rescued.
    """
    state = tmp_path / "state" / "state.json"
    with running(tmp_path, tagged()) as scenario:
        for _ in range(3):
            watch(tmp_path, scenario)
        made = len(scenario.submitted)
        (journal,) = state.parent.glob("*.journal")
        if case == "all damaged":
            journal.write_bytes(b"\0" * 100)
        elif case == "journals gone":
            journal.unlink()
        if case == "gone":
            state.unlink()
        else:
            state.write_bytes(b"\0" * 100)
        fail(scenario, "node4")
        capsys.readouterr()
        for _ in range(5):
            assert watch(tmp_path, scenario) == 1
        out, err = capsys.readouterr()
        assert len(scenario.submitted) == made
        assert not scenario.found("node4")["offline"]
        assert "are rescued and not back: node2, node4" in " ".join(out.split())
        words = "every node that is offline counts as rescued"
        assert (words in " ".join(err.split())) == (case in ("all damaged", "journals gone"))
        heal(scenario, "node2")
        watch(tmp_path, scenario)
        assert scenario.found("node4")["offline"]


def test_first_call_with_an_offline_node_rescues_another_one(tmp_path: Path) -> None:
    """Without state and journals, `rescue --watch` ignores nodes that a person set offline."""
    answers = tagged()
    answers["nodes"][3].update(live_node("node4", offline=True))
    with running(tmp_path, answers) as scenario:
        for _ in range(3):
            watch(tmp_path, scenario)
        assert scenario.found("node2")["offline"]


def test_killed_watch_goes_on_if_its_state_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a killed call that also lost the state, the next call resumes the rescue."""
    send = Waves._send

    def dying(waves: Waves, wave: Any) -> None:
        send(waves, wave)
        if wave:
            raise Killed

    with running(tmp_path, tagged()) as scenario:
        for _ in range(2):
            watch(tmp_path, scenario)
        with monkeypatch.context() as patched:
            patched.setattr(Waves, "_send", dying)
            with pytest.raises(Killed):
                watch(tmp_path, scenario)
        (tmp_path / "state" / "state.json").write_text("")
        watch(tmp_path, scenario)
        made = kinds(scenario)
        assert len(made) == len(set(made)) == 8


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--watch",), "--watch fences by out-of-band programs"),
        (("--watch", "node1", "-L"), "--watch finds the nodes"),
        (("--watch", "-L", "--return"), "--watch and --return exclude each other"),
        (("node1", "--probes=2"), "--probes is for --watch"),
        (("node1", "--return", "--most-nodes=2"), "--most-nodes is for --watch"),
        (("node1", "--state=/tmp"), "--state is for --watch and --return"),
        (("node1", "--fenced", "--return", "-X", "-L"), "--fenced and --return exclude each other"),
    ],
)
def test_command_line_of_a_watch_is_checked(words: tuple[str, ...], text: str) -> None:
    """For an invalid command line, `rescue --watch` reports what is wrong."""
    assert text in complaint(run("rescue", *words))


def back(folder: Path, scenario: Running, *words: str) -> int:
    """Return the exit status of `rescue --return` with -X for node2."""
    journal = f"--journal={folder / 'journal'}"
    return main(["rescue", "node2", "--return", f"-L{scenario.path}", "-X", journal, *words])


@pytest.mark.parametrize("named", [True, False])
def test_node_that_the_watch_rescued_gets_its_role_back(
    named: bool, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`rescue --return` finds the journal of the watch in the folder of `--state`.

    Without `--state`, it looks in the default folder of the watch.
    """
    if not named:
        monkeypatch.setattr(Watching, "state", str(tmp_path / "state"))
    with running(tmp_path, tagged()) as scenario:
        for _ in range(3):
            watch(tmp_path, scenario)
        assert not scenario.found("node2")["master_candidate"]
        scenario.found("node2").update(
            live_node("node2", pip="192.0.2.2"), offline=True, master_candidate=False
        )
        capsys.readouterr()
        state = [f"--state={tmp_path / 'state'}"] if named else []
        assert back(tmp_path, scenario, *state) == 0
        here = scenario.found("node2")
    assert (here["offline"], here["master_candidate"]) == (False, True)
    assert "node2 becomes a master candidate again" in "".join(capsys.readouterr())


@pytest.mark.parametrize("marked", [True, False])
def test_return_without_a_journal_says_how_the_role_comes_back(
    marked: bool, tmp_path: Path, capsys: Capture
) -> None:
    """Without a journal of the rescue, `rescue --return` names the command for the role.

    A node that is only drained was not rescued, and gets no such warning.
    """
    answers = sick(oob_program=OOB)
    answers["nodes"][1].update(live_node("node2", pip="192.0.2.2", drained=not marked))
    answers["nodes"][1] |= {"offline": marked, "master_candidate": False}
    (tmp_path / "state").mkdir()
    with running(tmp_path, answers) as scenario:
        assert back(tmp_path, scenario, f"--state={tmp_path / 'state'}") == 0
    text = " ".join("".join(capsys.readouterr()).split())
    words = f"no journal of a rescue of node2 in {tmp_path / 'state'}"
    assert (words in text) == marked
    assert ("gnt-node modify --master-candidate=yes node2" in text) == marked


def test_node_is_powered_on_and_set_online(tmp_path: Path) -> None:
    """`rescue --return` powers a node on, waits until it answers, and sets it online."""
    answers = sick(oob_program=OOB)
    answers["nodes"][1]["offline"] = True
    with running(tmp_path, answers) as scenario:
        scenario.booting["node2"] = 2
        assert back(tmp_path, scenario) == 0
        assert kinds(scenario)[0] == "OOB_COMMAND power-on"
        assert set(kinds(scenario)[1:]) == {"NODE_SET_PARAMS node2"}
        assert not scenario.found("node2")["offline"]


def test_node_without_a_program_is_set_online_if_it_answers(
    tmp_path: Path, capsys: Capture
) -> None:
    """Without a program for power control, `rescue --return` sets a node online if it answers."""
    answers = sick()
    answers["nodes"][1]["offline"] = True
    with running(tmp_path, answers) as scenario:
        scenario.booting["node2"] = 1
        assert back(tmp_path, scenario) == 1
        assert "fails to report its version" in capsys.readouterr().out
        (tmp_path / "journal").unlink()
        assert back(tmp_path, scenario) == 0
        assert kinds(scenario) == ["NODE_SET_PARAMS node2"] * 2


def test_return_of_a_file_is_only_planned() -> None:
    """`rescue --return` of a file only plans, and undrains a drained node."""
    document = cluster(3, instances={"a": instance("node1", "node2")})
    found = json_of("rescue", "node3", "--return", document=document)
    conforms(found, "plan")
    assert not found["transition"]["steps"]
    lines = printed("rescue", "node3", "--return", document=document)
    assert lines.splitlines()[0] == "node3 is online, and not drained"
    document["nodes"]["node3"]["drained"] = True
    lines = printed("rescue", "node3", "--return", document=document)
    assert lines.startswith("node3: returns to service")
    found = json_of("rescue", "node3", "--return", document=document)
    assert [step["kind"] for step in found["transition"]["steps"]] == ["undrain"]
    document["nodes"]["node3"]["offline"] = True
    done = run("rescue", "node3", "--return", "-C", stdin=as_bytes(document))
    assert "gnt-node modify --offline=no node3" in done.stdout.decode()


def metrics_of(folder: Path, world: Running, capsys: Capture) -> dict[str, float]:
    """Return the metrics of rescues of a running cluster: name with labels -> value."""
    capsys.readouterr()
    assert main(["metrics", f"-L{world.path}", "--no-capacity"]) == 0
    rows = [line.rsplit(" ", 1) for line in capsys.readouterr().out.splitlines()]
    return {
        name.removeprefix("iallocator_"): float(value)
        for name, value in rows if name.startswith("iallocator_rescue_")
    }  # fmt: skip


@pytest.fixture
def states_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `metrics` find journals and the state of the watch in the folder of the test."""
    monkeypatch.setattr("iallocator.commands.metrics.WATCH_FOLDER", str(tmp_path / "state"))
    monkeypatch.setattr(
        "iallocator.commands.metrics.default_path", lambda *_: str(tmp_path / "x.journal")
    )


@pytest.mark.usefixtures("states_here")
def test_metrics_have_the_state_of_the_watch_and_of_its_rescue(
    tmp_path: Path, capsys: Capture
) -> None:
    """`metrics` counts silent and rescued nodes, jobs, and instances that are not saved."""
    (tmp_path / "other").mkdir()
    with running(tmp_path / "other", tagged()) as world:
        world.found("node2").update(live_node("node2"), offline=True)
        assert metrics_of(tmp_path, world, capsys) == {}  # an offline node that was not rescued
        assert not (tmp_path / "state").exists()
    with running(tmp_path, tagged()) as world:
        watch(tmp_path, world)
        before = metrics_of(tmp_path, world, capsys)
        assert before['rescue_nodes{state="silent"}'] == 1
        assert before["rescue_watch_timestamp_seconds"] == pytest.approx(time(), abs=PATIENCE)
        assert "rescue_complete" not in before
        for _ in range(2):
            watch(tmp_path, world)
        begun = json.loads(Path(state_of(tmp_path)["journal"]).read_text().split("\n")[0])["time"]
        found = metrics_of(tmp_path, world, capsys)
        assert found['rescue_nodes{state="silent"}'] == 0
        assert found['rescue_nodes{state="rescued"}'] == 1
        assert found["rescue_complete"] == 1
        assert found['rescue_jobs{state="done"}'] >= 5
        assert found["rescue_begun_timestamp_seconds"] == begun
        (node,) = [name for name in found if name.startswith("rescue_node_timestamp_seconds")]
        assert 'node="node2"' in node
        assert found[node] == begun
        unsaved = [v for name, v in found.items() if 'state="unsaved"' in name]
        assert sum(unsaved) == 1  # the plain instance
        assert sum(v for name, v in found.items() if 'state="degraded"' in name) == 0
        heal(world, "node2")
        world.found("node2")["offline"] = False
        watch(tmp_path, world)
        back = metrics_of(tmp_path, world, capsys)
        assert back['rescue_nodes{state="rescued"}'] == 0
        assert node not in back
        assert sum(v for name, v in back.items() if name.startswith("rescue_instances")) == 0
        assert back["rescue_complete"] == 1


@pytest.mark.usefixtures("states_here")
def test_metrics_have_a_rescue_that_failed(tmp_path: Path, capsys: Capture) -> None:
    """`metrics` reports a rescue by hand that is not complete; damaged journals are left out."""
    with running(tmp_path, sick(oob_program=OOB)) as world:
        world.broken_power.add("node2")
        (tmp_path / "rescue-2.journal").write_text('{"event":"begin"')
        journal = tmp_path / "rescue-1.journal"
        words = ["rescue", "node2", f"-L{world.path}", "-X", f"--journal={journal}"]
        assert main(words) == 1
        found = metrics_of(tmp_path, world, capsys)
    assert found["rescue_complete"] == 0
    assert found['rescue_jobs{state="failed"}'] == 1
    assert not any(name.startswith(("rescue_nodes", "rescue_watch")) for name in found)
