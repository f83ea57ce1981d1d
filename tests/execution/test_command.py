"""Test the option -X of planners on a simulated running cluster."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from iallocator.cli import main
from iallocator.commands.shared_options import Execution
from iallocator.execution.lock import ClusterLock
from tests.aliases import Capture
from tests.builders import Json, as_bytes, cluster
from tests.live.cluster_answers import rapi_answers
from tests.schemas import conforms

from .running import CLOSED, Running, running, shared_cluster

pytestmark = pytest.mark.usefixtures("own_locks")


def carried_out(folder: Path, scenario: Running, *words: str, command: str = "balance") -> int:
    """Return the exit status of a planner with -X on a simulated cluster."""
    return main([command, f"-L{scenario.path}", "-X", "--journal", str(folder / "journal"), *words])


def document(capsys: Capture) -> Json:
    """Return the JSON document that was printed."""
    found: Json = json.loads(capsys.readouterr().out)
    return found


PLANNERS = {
    "balance": (),
    "balance-groups": (),
    "compress": ("--restrict-allocation-to=node4,node5",),
    "redistribute": ("--restrict-allocation-to=node4,node5",),
    "place": ("--strategy=pacemaker-balanced",),
    "squeeze": (),
}


@pytest.mark.parametrize("command", PLANNERS)
def test_plan_of_every_planner_is_executed(command: str, tmp_path: Path, capsys: Capture) -> None:
    """After the execution of a plan, every instance is where the plan places it."""
    answers = shared_cluster()
    if command == "redistribute":
        answers["nodes"][1]["offline"] = answers["nodes"][2]["offline"] = True
    with running(tmp_path, answers) as scenario:
        carried_out(tmp_path, scenario, "--json", *PLANNERS[command], command=command)
        found = document(capsys)
        conforms(found, "plan")
        assert found["execution"]["instances"] or found["execution"]["node_states"]
        for one in found["execution"]["instances"]:
            assert one["state"] == "as planned"
            assert scenario.places()[one["instance"]] == one["to"]


def test_job_is_submitted_after_its_predecessors(tmp_path: Path) -> None:
    """An execution submits each job after its predecessors, at most --ahead at once.

    Each opcode has the reason and the priority of the options.
    """
    with running(tmp_path, shared_cluster()) as scenario:
        submit, unfinished = scenario._submit, []

        def watched(jobs: list[list[Json]]) -> Any:
            found = submit(jobs)
            waiting = [job["ops"] for job in scenario.jobs.values() if job["status"] == "queued"]
            unfinished.append([code for codes in waiting for code in codes])
            return found

        scenario._submit = watched  # type: ignore[method-assign]
        words = ("--reason=too warm", "--priority=high", "--ahead=3")
        assert carried_out(tmp_path, scenario, *words, command="squeeze") == 0  # power takes a hand
        codes = [code for jobs in scenario.submitted for job in jobs for code in job]
        assert max(map(len, unfinished)) == 3
        drained = {"OP_NODE_SET_PARAMS", "OP_INSTANCE_MIGRATE"}
        assert {code["OP_ID"] for code in unfinished[0]} <= drained
        assert not any("depends" in code for code in codes)
        assert all(code["priority"] == -10 for code in codes)
        sources = {entry[0] for code in codes for entry in code["reason"]}
        assert sources == {"iallocator"}
        assert all(code["reason"][0][1] == "too warm" for code in codes)
        assert len({code["reason"][1][1] for code in codes}) == len(scenario.jobs)
        assert all(isinstance(code["reason"][0][2], int) for code in codes)


def test_priority_that_a_new_job_cannot_have_is_set_afterwards(tmp_path: Path) -> None:
    """A priority that Ganeti does not accept for new jobs is set after the submission."""
    with running(tmp_path) as scenario:
        assert carried_out(tmp_path, scenario, "--priority=-15") == 0
        assert {job["priority"] for job in scenario.jobs.values()} == {-15}
        assert all("priority" not in job["ops"][0] for job in scenario.jobs.values())


def test_progress_has_the_time_and_short_names(tmp_path: Path, capsys: Capture) -> None:
    """The progress of an execution has times, and names without their common domain."""
    with running(tmp_path, rapi_answers()) as scenario:
        assert carried_out(tmp_path, scenario) == 0
    lines = capsys.readouterr().err.splitlines()
    states = [line for line in lines if ": " in line and "inst" in line]
    assert states
    for line in states:
        assert re.match(r"\d\d:\d\d:\d\d job \d+: [a-z, -]+ inst\d+ \(", line), line
        assert ".example.com" not in line


def test_dry_run_shows_the_jobs_and_submits_none(tmp_path: Path, capsys: Capture) -> None:
    """--dry-run prints the jobs, submits none, and creates no journal."""
    with running(tmp_path) as scenario:
        assert main(["balance", f"-L{scenario.path}", "-X", "--dry-run"]) == 0
        assert not scenario.submitted
    assert "job 1: migrate" in capsys.readouterr().out
    assert not (tmp_path / "journal").exists()


def test_control_characters_in_a_name_are_shown_as_codes(tmp_path: Path, capsys: Capture) -> None:
    """A dry run and the report print control characters in names as codes."""
    answers = shared_cluster()
    for one in answers["instances"]:
        one["name"] = f"\u202e{one['name']}"
    with running(tmp_path, answers) as scenario:
        main(["balance", f"-L{scenario.path}", "-X", "--dry-run"])
        carried_out(tmp_path, scenario)
    output = capsys.readouterr()
    assert "\\u202e" in output.out
    assert "\u202e" not in output.out + output.err


def test_quiet_execution_without_errors_prints_nothing(tmp_path: Path, capsys: Capture) -> None:
    """With --quiet, an execution without errors prints nothing, not even its journal's name."""
    with running(tmp_path, shared_cluster()) as scenario:
        assert carried_out(tmp_path, scenario, "--quiet") == 0
    assert capsys.readouterr().err == ""


def test_first_job_group_leaves_steps_that_wait(tmp_path: Path, capsys: Capture) -> None:
    """--first-job-group executes the first jobs only; --resume executes the others."""
    with running(tmp_path, shared_cluster()) as scenario:
        assert carried_out(tmp_path, scenario, "--first-job-group", command="squeeze") == 0
        first = {code["OP_ID"] for job in scenario.jobs.values() for code in job["ops"]}
        assert len(scenario.jobs) == 5
        main(["squeeze", f"-L{scenario.path}", "-X", "--resume", str(tmp_path / "journal")])
        assert first == {"OP_NODE_SET_PARAMS", "OP_INSTANCE_MIGRATE"}
        assert scenario.found("node2")["offline"]


def test_failed_job_stops_only_steps_that_wait_for_it(tmp_path: Path, capsys: Capture) -> None:
    """If a job fails, only steps that depend on it are not executed.

    A node that cannot be drained stays powered on; the other nodes are powered off.
    """
    with running(tmp_path, shared_cluster()) as scenario:
        scenario.fails = {"node2"}
        assert carried_out(tmp_path, scenario, command="squeeze") == 1
        out = capsys.readouterr().out
        assert "failed: job 1: drain node2: OpExecError: it cannot" in out
        assert "not done: offline node2: it waits for: drain node2" in out
        assert "To do:\n  remove the causes of the failures" in out
        assert not scenario.found("node2")["offline"]
        assert scenario.found("node4")["offline"]


def test_step_by_hand_is_waited_for_until_a_person_confirms_it(
    tmp_path: Path, capsys: Capture
) -> None:
    """An execution waits until a person confirms a manual step, then executes later steps."""
    with running(tmp_path, shared_cluster()) as scenario:
        carried_out(tmp_path, scenario, command="squeeze")
        out, err = capsys.readouterr()
        assert "by hand: power-off node2" in out
        journal = str(tmp_path / "journal")
        assert f"--resume {journal} --done-by-hand" in err
        resumed = ["squeeze", f"-L{scenario.path}", "-X", "--resume", journal, "--done-by-hand"]
        known = set(scenario.jobs)
        assert main(resumed) == 0
        later = [scenario.jobs[job_id] for job_id in scenario.jobs if job_id not in known]
        assert [code["OP_ID"] for job in later for code in job["ops"]] == ["OP_TAGS_SET"] * 3


def test_instance_that_moved_meanwhile_is_not_moved(tmp_path: Path, capsys: Capture) -> None:
    """An execution does not move an instance that has left its planned node."""
    with running(tmp_path, shared_cluster()) as scenario:

        def move(method: str) -> None:
            if (tmp_path / "journal").exists():
                scenario.found("i0")["pnode"] = "node5"

        scenario.interfere = move
        assert carried_out(tmp_path, scenario) == 1
        assert "migrate i0 (node1 -> node2): i0 is on node5, no longer on node1" in (
            capsys.readouterr().out
        )
        assert scenario.places()["i1"] == ["node3"]


def test_node_that_is_switched_on_first_is_moved_to(tmp_path: Path, capsys: Capture) -> None:
    """An execution moves instances to a node that a person has powered on meanwhile.

    The plan was made without the free capacity of this node, because an offline node reports none.
    """
    answers = shared_cluster()
    standby = answers["nodes"][2]
    standby |= {"offline": True, "tags": ["htools:standby:auto"]}
    figures = {key: standby[key] for key in ("mtotal", "mfree", "dtotal", "dfree", "ctotal")}
    standby |= dict.fromkeys(figures)
    words = ("--minimal-resources=11", "--target-resources=1", "--even-if-short")
    with running(tmp_path, answers) as scenario:
        assert carried_out(tmp_path, scenario, *words, command="squeeze") == 0
        assert "by hand: power-on node3" in capsys.readouterr().out
        resumed = ["squeeze", f"-L{scenario.path}", "-X", f"--resume={tmp_path / 'journal'}"]

        def boot(method: str) -> None:
            scenario.found("node3").update({} if scenario.found("node3")["offline"] else figures)

        scenario.interfere = boot
        assert main([*resumed, "--done-by-hand"]) == 0
        assert not scenario.found("node3")["offline"]
        assert ["node3"] in scenario.places().values()


def test_nothing_moves_to_a_target_without_capacity(tmp_path: Path, capsys: Capture) -> None:
    """An execution moves no instance to a node that has become full since the plan."""
    with running(tmp_path, shared_cluster()) as scenario:

        def fill(method: str) -> None:
            if (tmp_path / "journal").exists():
                scenario.found("node2")["mfree"] = 100

        scenario.interfere = fill
        assert carried_out(tmp_path, scenario) == 1
        assert "not done: migrate i0 (node1 -> node2): i0: node2: " in capsys.readouterr().out
        assert scenario.places()["i0"] == ["node1"]


def test_submission_without_an_answer_is_found_again(tmp_path: Path) -> None:
    """If the answer to a submission is lost, the jobs are found in the queue, not repeated."""
    with running(tmp_path) as scenario:
        submit = scenario._submit

        def lost(jobs: list[list[Json]]) -> Any:
            submit(jobs)
            return CLOSED

        scenario._submit = lost  # type: ignore[method-assign]
        assert carried_out(tmp_path, scenario) == 0
        assert len(scenario.jobs) == 3


@pytest.mark.parametrize("after", [True, False], ids=["when it is done", "before"])
def test_job_that_vanishes_is_checked_by_its_effect(
    after: bool, tmp_path: Path, capsys: Capture
) -> None:
    """An execution checks by its effect whether a job that vanished was executed.

    A vanished job without effect counts as failed, and its dependents are not executed.
    """
    with running(tmp_path) as scenario:

        def vanish(method: str) -> None:
            if method == "QueryJobs":
                if after:
                    scenario.pass_time()
                scenario.jobs.clear()

        scenario.interfere = vanish
        assert carried_out(tmp_path, scenario) == (0 if after else 1)
        assert "vanished from the queue" in capsys.readouterr().err


@pytest.mark.parametrize("answer", [7, [], [[1]], {"a": 1}], ids=str)
def test_invalid_answer_is_reported_in_one_line(
    answer: Any, tmp_path: Path, capsys: Capture
) -> None:
    """If an answer is invalid, -X names the journal and how to continue, in one line."""
    with running(tmp_path) as scenario:
        scenario.interfere = lambda method: answer if method == "QueryJobs" else None
        assert carried_out(tmp_path, scenario) == 1
        assert "QueryJobs: an unexpected answer; --resume" in capsys.readouterr().err


@pytest.mark.parametrize("cut", [1, 200], ids=["an event", "the head"])
def test_damaged_journal_is_rejected_and_an_incomplete_last_line_is_accepted(
    cut: int, tmp_path: Path, capsys: Capture
) -> None:
    """A damaged journal is rejected, unless only its last line is incomplete after a crash."""
    with running(tmp_path) as scenario:
        carried_out(tmp_path, scenario)
        path = tmp_path / "journal"
        whole = path.read_bytes()
        path.write_bytes(whole[:-5])
        assert main(["balance", f"-L{scenario.path}", "-X", f"--resume={path}"]) == 0
        assert len(scenario.jobs) == 3
        lines = whole.split(b"\n")
        lines[0 if cut > 1 else 1] = b'{"event":"submit"}'
        path.write_bytes(b"\n".join(lines))
        capsys.readouterr()
        assert main(["balance", f"-L{scenario.path}", "-X", f"--resume={path}"]) == 2
        assert f"{path}: " in capsys.readouterr().err


def test_socket_that_closes_is_opened_again(tmp_path: Path, capsys: Capture) -> None:
    """An execution opens the LUXI socket again after a restart of Ganeti's daemon."""
    with running(tmp_path) as scenario:
        closed = iter([True, False, True])

        def close(method: str) -> Any:
            return CLOSED if method == "QueryJobs" and next(closed, False) else None

        scenario.interfere = close
        assert carried_out(tmp_path, scenario) == 0
        assert "again in" in capsys.readouterr().err


def test_node_that_does_not_answer_at_the_end_is_queried_again(
    tmp_path: Path, capsys: Capture
) -> None:
    """At its end, an execution queries a silent node again, to report all placements."""
    with running(tmp_path) as scenario:
        memory = scenario.answers["nodes"][0]["mtotal"]
        asked = [0]

        def silent(method: str) -> None:
            if method == "Query" and {job["status"] for job in scenario.jobs.values()} == {
                "success"
            }:
                asked[0] += 1
                scenario.answers["nodes"][0]["mtotal"] = memory if asked[0] > 4 else None

        scenario.interfere = silent
        assert carried_out(tmp_path, scenario, "--json") == 0
        assert asked[0] > 4
        out, err = capsys.readouterr()
        assert "again in" in err
        assert json.loads(out)["execution"]["instances"]


def test_cluster_that_is_not_reached_again_leaves_the_journal(
    tmp_path: Path, capsys: Capture
) -> None:
    """If the cluster cannot be reached again, -X ends with status 1 and how to continue."""
    with running(tmp_path) as scenario:
        scenario.interfere = lambda method: CLOSED if method == "QueryJobs" else None
        assert carried_out(tmp_path, scenario) == 1
        assert f"--resume {tmp_path / 'journal'} goes on" in capsys.readouterr().err
        scenario.interfere = lambda method: None
        assert (
            main(["balance", f"-L{scenario.path}", "-X", f"--resume={tmp_path / 'journal'}"]) == 0
        )
        assert len(scenario.jobs) == 3


def test_interrupted_execution_cancels_waiting_jobs(tmp_path: Path, capsys: Capture) -> None:
    """Ctrl-C cancels jobs that have not started; --resume executes them."""
    with running(tmp_path, shared_cluster()) as scenario:
        scenario.held = True

        def interrupt(method: str) -> None:
            if method == "WaitForJobChange" and scenario.held:
                os.kill(os.getpid(), signal.SIGINT)
            if method == "CancelJob":
                scenario.held = False

        scenario.interfere = interrupt
        assert carried_out(tmp_path, scenario, command="squeeze") == 130
        assert [job["status"] for job in scenario.jobs.values()] == ["canceled"] * 2
        err = capsys.readouterr().err
        assert "job 1: drain node2: taken back" in err
        main(["squeeze", f"-L{scenario.path}", "-X", f"--resume={tmp_path / 'journal'}"])
        assert scenario.found("node2")["offline"]


def test_resume_retries_a_failure_with_a_cause_that_is_gone(
    tmp_path: Path, capsys: Capture
) -> None:
    """--resume retries a failed job when the cause is gone, and executes no job twice."""
    with running(tmp_path, shared_cluster()) as scenario:
        scenario.fails = {"i0", "node2"}
        assert carried_out(tmp_path, scenario, "--json", command="squeeze") == 1
        found = document(capsys)
        conforms(found, "plan")
        assert "repeat the command with -X and --resume" in found["execution"]["to_do"][0]
        resume = ["squeeze", f"-L{scenario.path}", "-X", f"--resume={tmp_path / 'journal'}"]
        assert main([*resume, "--dry-run"]) == 0
        out = capsys.readouterr().out
        assert "drain node2" in out
        assert "drain node4" not in out
        scenario.fails = set()
        assert main(resume) == 0  # power takes a hand
        out, err = capsys.readouterr()
        assert "again: drain node2" in err
        assert "failed" not in out
        assert "To do:" not in out
        assert scenario.found("node2")["offline"]
        assert main([*resume, "--done-by-hand"]) == 0
        done = [job["ops"] for job in scenario.jobs.values() if job["status"] == "success"]
        drained = [codes for codes in done if codes[0].get("drained")]
        assert len(drained) == len({codes[0]["node_name"] for codes in drained}) == 3


def test_failed_job_that_was_done_by_others_is_not_repeated(
    tmp_path: Path, capsys: Capture
) -> None:
    """--resume does not repeat a failed move that a person has made meanwhile."""
    with running(tmp_path, shared_cluster()) as scenario:
        scenario.fails = {"i0"}
        assert carried_out(tmp_path, scenario) == 1
        scenario.fails = set()
        jobs = len(scenario.jobs)
        scenario.found("i0")["pnode"] = "node2"
        assert (
            main(["balance", f"-L{scenario.path}", "-X", f"--resume={tmp_path / 'journal'}"]) == 0
        )
        assert "done already: migrate i0" in capsys.readouterr().err
        assert len(scenario.jobs) == jobs


def test_failed_job_of_an_instance_that_is_elsewhere_requires_a_new_plan(
    tmp_path: Path, capsys: Capture
) -> None:
    """For an instance on an unplanned node, --resume reports how to make a new plan."""
    with running(tmp_path, shared_cluster()) as scenario:
        scenario.fails = {"i0"}
        assert carried_out(tmp_path, scenario) == 1
        scenario.fails = set()
        scenario.found("i0")["pnode"] = "node5"
        assert (
            main(["balance", f"-L{scenario.path}", "-X", f"--resume={tmp_path / 'journal'}"]) == 1
        )
        output = "i0 is on node5, not on its planned route: make a new plan with iallocator balance"
        assert output in capsys.readouterr().out


def test_second_execution_on_the_cluster_is_rejected(tmp_path: Path, capsys: Capture) -> None:
    """A second execution on the cluster is rejected while the first one holds the lock."""
    with running(tmp_path) as scenario, ClusterLock("cluster.example.com"):
        assert carried_out(tmp_path, scenario) == 1
        assert not scenario.submitted
    assert "another execution is under way on this cluster: process" in capsys.readouterr().err


def test_journal_without_x_is_shown(tmp_path: Path, capsys: Capture) -> None:
    """--resume without -X prints the status of the journal, with or without the cluster."""
    with running(tmp_path) as scenario:
        carried_out(tmp_path, scenario)
        capsys.readouterr()
        assert main(["balance", f"--resume={tmp_path / 'journal'}"]) == 0
        assert "3 done" in capsys.readouterr().out
        assert main(["balance", f"-L{scenario.path}", f"--resume={tmp_path / 'journal'}"]) == 0
        assert "as planned" in capsys.readouterr().out


def test_cluster_without_a_name_is_rejected(tmp_path: Path, capsys: Capture) -> None:
    """Execution on a cluster without a name is rejected in one line, as it has no lock."""
    with running(tmp_path) as scenario:
        asked: list[str] = []

        def nameless(method: str) -> bytes | None:
            asked.append(method)
            late = asked.count("QueryClusterInfo") > 1 and method == "QueryClusterInfo"
            return b'{"success": true, "result": null}\x03' if late else None

        scenario.interfere = nameless
        assert main(["balance", f"-L{scenario.path}", "-X"]) == 2
        assert capsys.readouterr().err.endswith("the answer lacks the name of the cluster\n")
        assert not scenario.submitted


WRONG = {
    "no live cluster": (("-X",), "-X executes a plan on a running cluster"),
    "reason": (("--reason=x",), "--reason needs -X"),
    "priority": (("--priority=20",), "--priority: expected low, normal, high or a whole number"),
    "journal": (("--resume=/nowhere/at/all",), "/nowhere/at/all: No such file or directory"),
    "ahead": (("-X", "-Lx", "--ahead=0"), "--ahead: expected a whole number from 1 to 1000"),
    "by hand": (("-X", "-Lx", "--done-by-hand"), "--done-by-hand needs --resume"),
    "both": (("-X", "-Lx", "--resume=a", "--journal=b"), "--journal has no effect"),
    "page": (
        ("--resume=a", "--html=b"),
        "--html needs a new plan",
    ),
    "dry": (("-X", "-Lx", "--dry-run", "--journal=b"), "--dry-run executes nothing"),
    "assume": (("--assume-offline",), "--assume-offline needs -X"),
    "rapi": (("-X", "-mx", "--priority=3"), "RAPI (-m) accepts only low, normal and high"),
}


@pytest.mark.parametrize("case", WRONG)
def test_option_without_effect_on_an_execution_is_rejected(
    case: str, tmp_path: Path, capsys: Capture
) -> None:
    """An option without effect on an execution is rejected in one line, with exit status 2."""
    words, output = WRONG[case]
    path = tmp_path / "document"
    path.write_bytes(as_bytes(cluster(2)))
    source = () if "-X" in words[1:] or "-Lx" in words or "-mx" in words else (str(path),)
    assert main(["balance", *words, *source]) == 2
    assert output in capsys.readouterr().err


def test_every_option_of_executions_is_tried_here() -> None:
    """Every option of executions is used in this module's tests.

    The table of option effects omits these options, because they need a running cluster.
    """
    text = Path(__file__).read_text()
    assert all(option.names[0] in text or option.names[-1] in text for option in Execution.options)


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_squeeze_that_does_not_reach_the_reserve_is_not_executed(
    form: tuple[str, ...], tmp_path: Path, capsys: Capture
) -> None:
    """A plan of squeeze that misses the reserve is executed only if an option permits it."""
    answers = shared_cluster()
    answers["nodes"][4] |= {"offline": True, "tags": ["htools:standby:auto"]}
    words = ("--minimal-resources=1000", "--target-resources=1000", *form)
    with running(tmp_path, answers) as scenario:
        assert carried_out(tmp_path, scenario, *words, command="squeeze") == 1
        assert not scenario.submitted
        output = capsys.readouterr()
        assert "the plan is not carried out: not sufficient" in output.err
        assert "--even-if-short" in output.err
        assert "node5" in output.out
        carried_out(tmp_path, scenario, *words, "--even-if-short", command="squeeze")
        assert "now by hand: power-on node5" in capsys.readouterr().err
