"""Test ``--time-limit``: each command ends soon after the limit and reports it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import Mock

import pytest

from iallocator import deadline
from iallocator.cli import answer, main
from iallocator.commands import COMMANDS
from iallocator.commands.command import Command
from iallocator.deadline import TIME_IS_UP, Deadline, Running, Stopped
from iallocator.documents import cluster_facts, plan
from iallocator.model.state import State
from iallocator.planners.check.health import examine
from iallocator.render.page import transitions
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading
from tests.builders import Json, allocate, allocate_rbd, as_bytes, cluster, instance, rbd
from tests.paths import ROOT
from tests.patience import PATIENCE
from tests.schemas import conforms

LIMIT = 0.5

SAID = ("time is up", "undecided within", "within 0.5 s", "not enough time")


def unbalanced(
    nodes: int, per_node: int, room: int, template: str = "rbd", groups: int = 1
) -> Json:
    """Return a cluster where one node in four has half of the instances of four nodes."""
    rng = Random(f"crowded/{nodes}/{per_node}")
    residents = {}
    for k in range(nodes * per_node):
        home = k % nodes
        home -= home % 4 if k % 2 else 0
        names = [f"node{home + 1}", f"node{(home + 1) % nodes + 1}"]
        residents[f"i{k:05}"] = instance(
            *names[: 2 if template == "drbd" else 1],
            memory=rng.choice((512, 1024, 1500, 2048)),
            disk_template=template,
        )
    return cluster(
        {f"g{k}": nodes // groups for k in range(groups)},
        memory=1300 * (4 * per_node + room) * (2 if template == "drbd" else 1),
        disk=10**8,
        cpus=10_000,
        instances=residents,
    )


def sick() -> Json:
    """Return groups with offline nodes and little free memory on the others."""
    document = unbalanced(120, 40, 4, groups=10)
    for k in range(5):
        document["nodes"][f"node{1 + 12 * k}"]["offline"] = True
    return document


def tight(count: int) -> Json:
    """Return a request for `count` instances with an N+1 check by simulations."""
    residents = {
        f"i{k}-{j}": rbd(f"node{k + 1}", memory=1024 + j * 37 % 200)
        for k in range(120)
        for j in range(80)
    }
    document = cluster(120, memory=int(1124 * 81.3), disk=10**8, cpus=10_000, instances=residents)
    document = allocate(document, memory=1024, disk_template="drbd")
    if count > 1:
        one = document["request"]
        several = [{**one, "name": f"new{k}", "type": "allocate"} for k in range(count)]
        document["request"] = {"type": "multi-allocate", "instances": several}
    return document


def evacuation() -> Json:
    """Return a request to evacuate the nodes of half of the instances."""
    document = unbalanced(100, 40, 6)
    names = list(document["instances"])[::2]
    document["request"] = {"type": "node-evacuate", "evac_mode": "all", "instances": names}
    return document


def change() -> Json:
    """Return a request to move the instances of a group to two other groups."""
    document = unbalanced(100, 40, 160, groups=5)
    names = [f"i{k:05}" for k in range(4000) if k % 100 < 20]
    document["request"] = {
        "type": "change-group", "instances": names, "target_groups": ["uuid-g2", "uuid-g3"],
    }  # fmt: skip
    return document


PATHS: dict[str, tuple[Callable[[], Json], tuple[str, ...]]] = {
    "balance": (lambda: unbalanced(100, 40, 5), ("balance", "--json")),
    "balance drbd": (lambda: unbalanced(100, 40, 5, "drbd"), ("balance", "--json")),
    "balance all": (
        lambda: unbalanced(120, 40, 8, groups=2),
        ("balance", "--all-groups", "--json"),
    ),
    "check": (lambda: unbalanced(120, 80, 5), ("check", "--json", "--simulation")),
    "squeeze": (lambda: unbalanced(100, 40, 5), ("squeeze", "--json")),
    "squeeze all": (lambda: unbalanced(100, 40, 5, "drbd"), ("squeeze", "--json", "--all")),
    "reboot": (lambda: unbalanced(100, 40, 5), ("reboot", "--json", "--force")),
    "maintain": (lambda: unbalanced(100, 40, 5), ("maintain", "--json", "--force", "--after=stay")),
    "redistribute": (sick, ("redistribute", "--json")),
    "compress": (lambda: unbalanced(120, 40, 8, groups=10), ("compress", "--json")),
    "balance-groups": (lambda: unbalanced(200, 80, 8, groups=20), ("balance-groups", "--json")),
    "place": (
        lambda: unbalanced(100, 40, 5, "drbd"),
        ("place", "--json", "--strategy=pacemaker-balanced"),
    ),
    "capacity": (lambda: unbalanced(100, 40, 5), ("capacity", "--json")),
    "allocate": (lambda: tight(1), ()),
    "multi-allocate": (lambda: tight(50), ()),
    "optimal": (lambda: tight(50), ("--optimal",)),
    "node-evacuate": (evacuation, ()),
    "change-group": (change, ()),
    "explain": (lambda: tight(50), ("explain", "--json")),
}


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
def test_time_limit_ends_every_path_and_is_reported(path: str, tmp_path: Path) -> None:
    """A command with minutes of work and a limit of 0.5 s gives a valid answer with the limit.

    A planner may have found no move, and then ends with another exit status than 0.
    """
    document, words = PATHS[path]
    file = tmp_path / "document.json"
    file.write_bytes(as_bytes(document()))
    done = subprocess.run(
        [sys.executable, "-m", "iallocator", *words, f"--time-limit={LIMIT}", str(file)],
        capture_output=True, text=True, check=False, cwd=ROOT, timeout=PATIENCE,
    )  # fmt: skip
    planner = bool(words) and words[0] in COMMANDS
    assert done.returncode in ((0, 1, 3) if planner else (0,)), done.stderr
    assert json.loads(done.stdout)
    assert any(words in done.stdout + done.stderr for words in SAID), done.stdout[:500]


def test_time_limit_check_raises_once_and_only_in_its_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A check of the time limit raises an exception once within its block, and not later."""
    now = [100.0]
    monkeypatch.setattr(deadline, "monotonic", lambda: now[0])
    with Deadline(1):
        now[0] += 1
        deadline.check()
        assert not deadline.due()
        now[0] += 0.01
        assert deadline.due()
        with pytest.raises(Stopped):
            deadline.check()
        deadline.check()
        assert not deadline.due()
    with Deadline(1):
        now[0] += 2
    deadline.check()
    with Deadline(None) as never:
        now[0] += 1e12
        deadline.check()
        assert not never.over()


def test_time_limit_check_in_an_inner_block_raises_for_the_outer_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Within an inner block with a longer time limit, the outer limit ends a loop."""
    now = [100.0]
    monkeypatch.setattr(deadline, "monotonic", lambda: now[0])
    with Deadline(1), Deadline(60):
        now[0] += 2
        with pytest.raises(Stopped):
            deadline.check()


def test_time_limit_check_in_a_protected_block_raises_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a protected block, neither the time limit nor a signal raises; both are recorded."""
    now = [100.0]
    monkeypatch.setattr(deadline, "monotonic", lambda: now[0])
    with Running(), Deadline(1):
        with deadline.Held() as held:
            now[0] += 2
            deadline.check()
            assert deadline.due()
            deadline.interrupt()
            deadline.check()
        assert held.asked
        deadline.check()


def test_deadline_leaves_at_most_half_of_the_time_for_moves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A planner reserves at most half of its time for checking and writing the moves found."""
    monkeypatch.setattr(deadline, "monotonic", lambda: 100.0)
    monkeypatch.setattr(deadline, "PER_MOVE", 0.001)
    limit = Deadline(10, since=98.0)
    limit.spare(3000)
    assert limit.left == 5.0
    limit.spare(-1000)
    assert limit.left == 6.0
    limit.spare(10**6)
    assert limit.left == 4.0
    Deadline(None).spare(7)


def test_deadline_of_a_run_leaves_the_reserved_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deadline is earlier by the reserved time, but leaves at least half of the limit.

    The next run has no reserve.
    """
    monkeypatch.setattr(deadline, "monotonic", lambda: 100.0)
    with Running():
        Running.reserve(3.0)
        assert Deadline.of_run(10).left == 7.0
        assert Deadline.of_run(4).left == 2.0
        assert Deadline(10).left == 10.0
        assert Deadline.of_run(10).raises_at == 107.0
    with Running():
        assert Deadline.of_run(10).left == 10.0


def test_limit_shortened_for_moves_ends_only_loops_of_its_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A time limit that is shortened to write moves ends only loops within its own block."""
    now = [100.0]
    monkeypatch.setattr(deadline, "monotonic", lambda: now[0])
    with Deadline(PATIENCE) as limit:
        now[0] += 0.8 * PATIENCE
        limit.spare(10**9)
        with pytest.raises(Stopped):
            deadline.check()
    with Deadline(PATIENCE) as limit:
        now[0] += 0.8 * PATIENCE
    limit.spare(10**9)
    deadline.check()


@pytest.mark.parametrize("path", [path for path in PATHS if path != "explain"])
def test_limit_that_ended_a_computation_is_named(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message about a time limit has its value in seconds, also for the default."""
    monkeypatch.setattr(Deadline, "over", lambda self: self.seconds is not None)
    file = tmp_path / "document.json"
    file.write_bytes(as_bytes(allocate(unbalanced(8, 2, 4, groups=2))))
    words = PATHS[path][1]
    planner = words[:1] and words[0] in COMMANDS and path != "check"
    assert main([*words, str(file)]) in ((1, 3) if planner else (0, 1))
    output = capsys.readouterr()
    assert "the time limit of 600 s was reached (--time-limit)" in output.out + output.err


@pytest.mark.parametrize(("seconds", "late"), [(1, True), (9, False)])
def test_limit_counts_from_the_start_of_the_program(
    seconds: int,
    late: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The limit counts from the start of the program, so that reading counts.

    Reading takes five seconds of a simulated clock, and the limit is one second.
    """
    now = [100.0]

    read = Command.read

    def slowly(command: Command) -> Any:
        now[0] += 5
        return read(command)

    monkeypatch.setattr(deadline, "monotonic", lambda: now[0])
    monkeypatch.setattr(Command, "read", slowly)
    file = tmp_path / "document.json"
    file.write_bytes(as_bytes(unbalanced(8, 2, 4)))
    assert main(["balance", f"--time-limit={seconds}", str(file)]) == (3 if late else 0)
    output = capsys.readouterr().err
    assert ("the time limit of 1 s was reached" in output) is late
    assert (": reading the cluster alone took 5.0 s" in output) is late
    assert Running.began is None


@pytest.mark.parametrize(("seconds", "late"), [(1, True), (9, False)])
def test_request_reports_that_reading_exceeded_the_limit(
    seconds: int, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If reading a request exceeds the limit, `info` reports that."""
    now = [100.0]

    def slowly(*asked: Any) -> Any:
        now[0] += 5
        return read_cluster(*asked)

    monkeypatch.setattr(deadline, "monotonic", lambda: now[0])
    monkeypatch.setattr("iallocator.engine.read_cluster", slowly)
    response = json.loads(answer(as_bytes(allocate(cluster(3))), [f"--time-limit={seconds}"]))
    reported = (
        "Request failed: time is up: no answer within 1 s: reading the cluster alone took 5.0 s"
    )
    assert (response["info"] == reported) is late
    assert response["success"] is not late


@pytest.mark.parametrize("path", [p for p in PATHS if PATHS[p][1][1:2] == ("--json",)])
def test_time_limit_reached_before_planning_leaves_a_document(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the limit ends before planning begins, the JSON document has the reason."""

    def stop_raising(self: Deadline) -> Deadline:
        raise Stopped(TIME_IS_UP)

    monkeypatch.setattr(Deadline, "__enter__", stop_raising)
    words = PATHS[path][1]
    file = tmp_path / "document.json"
    file.write_bytes(as_bytes(allocate(unbalanced(8, 2, 4, groups=2))))
    assert main([*words, str(file)]) in ((3,) if path == "capacity" else (0, 1))
    output = capsys.readouterr()
    document = json.loads(output.out)
    if words[0] != "explain":
        conforms(document, "capacity" if words[0] == "capacity" else "plan")
    assert document.get("moves", []) == []
    assert any(text in output.out + output.err for text in SAID)


def test_page_of_a_plan_without_time_lists_what_is_not_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the time is up, the page of a plan says that the failures of nodes are not analysed."""
    monkeypatch.setattr(Deadline, "over", lambda self: True)
    file, page = tmp_path / "document.json", tmp_path / "page.html"
    file.write_bytes(as_bytes(unbalanced(8, 2, 4)))
    assert main(["balance", f"--html={page}", str(file)]) == 3
    assert page.read_text().count("Not analysed: time was up.") == 2


@pytest.mark.parametrize("command", ["report", "balance", "check", "repair", "capacity"])
@pytest.mark.parametrize("late", [True, False])
def test_page_of_a_large_cluster_without_time_leaves_out_its_largest_parts(
    command: str, late: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the time is up, the page of a large cluster names its missing parts; no link is dead."""
    monkeypatch.setattr(
        cluster_facts, "PAGE_SECONDS_PER_NODE", 1.0 if late else 0.01
    )  # 8 seconds for all, or 0.08
    file, page = tmp_path / "document.json", tmp_path / "page.html"
    file.write_bytes(as_bytes(unbalanced(8, 2, 4, template="drbd")))
    assert main([command, "--time-limit=0", f"--html={page}", str(file)]) in (0, 1, 3)
    text = page.read_text()
    left_out = "Left out: the time limit of 0 s was reached (--time-limit)"
    assert text.count(left_out) == (0 if not late else 2 if command == "report" else 1)
    assert ('id="topology-data"' in text) is not late
    links = set(re.findall(r'href="#([^"]+)"', text))
    assert links <= set(re.findall(r' id="([^"]+)"', text))
    assert "topology" in links


def test_late_folder_of_pages_leaves_out_the_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the time is up, `report` writes a note instead of constraints on the page about these."""
    monkeypatch.setattr(cluster_facts, "PAGE_SECONDS_PER_NODE", 1.0)
    file, folder = tmp_path / "document.json", tmp_path / "pages"
    file.write_bytes(as_bytes(unbalanced(8, 2, 4)))
    assert main(["report", "--time-limit=0", f"--html={folder}/", str(file)]) == 0
    text = (folder / "rules.html").read_text()
    assert "Left out: the time limit of 0 s was reached (--time-limit)" in text


def test_late_page_leaves_out_many_steps_and_reasons_that_take_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that is written after the time limit lists moves, but omits steps and slow reasons."""
    monkeypatch.setattr(cluster_facts, "PAGE_SECONDS_PER_NODE", 10**6)
    monkeypatch.setattr(transitions, "MOST_LATE", 3)
    monkeypatch.setattr(plan, "changes_of_moves", lambda state, moves, _: [None for _ in moves])
    file, page = tmp_path / "document.json", tmp_path / "page.html"
    file.write_bytes(as_bytes(unbalanced(8, 2, 4)))
    assert main(["balance", "--n1=off", f"--html={page}", str(file)]) == 0
    text = page.read_text()
    assert text.count("Left out: the time limit of 600 s was reached (--time-limit)") == 2
    assert 'id="move-4"' in text
    assert 'id="step-1"' not in text
    assert "not analysed: time was up" in text


@pytest.mark.parametrize("begun_only", [True, False])
def test_examination_for_a_page_begins_no_group_after_the_deadline(begun_only: bool) -> None:
    """After the deadline, the examination for a page analyses no further group.

    Without `begun_only`, findings that need no time are still listed.
    """
    state = State(read_cluster(sick(), Reading()))
    found = examine(state, "no-worse", deadline=Deadline(0.0), begun_only=begun_only)
    assert [one.examined for one in found] == [not begun_only] * 10
    assert all(one.not_analysed for one in found) is begun_only
    assert any(one.findings for one in found) is not begun_only


@pytest.mark.parametrize(("seconds", "late"), [(1, True), (9, False)])
def test_repair_without_time_leaves_the_rest_for_the_next_call(
    seconds: int,
    late: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If the time is up, `repair` makes no repairs, and reports the limit."""
    clock = iter([100.0])
    monkeypatch.setattr(deadline, "monotonic", lambda: next(clock, 105.0))
    sick = instance("node1", "node2", tags=["ganeti:watcher:autorepair:fix-storage"])
    document = cluster(4, instances={"sick": sick}, changes={"node2": {"offline": True}})
    file = tmp_path / "document.json"
    file.write_bytes(as_bytes(document))
    status = main(["repair", "--json", f"--time-limit={seconds}", str(file)])
    output = capsys.readouterr()
    (found,) = json.loads(output.out)["instances"]
    assert status == late
    assert ("time is up" in found["note"], "opcodes" in found) == (late, not late)
    assert ("the time limit of 1 s was reached (--time-limit)" in output.err) is late


def test_report_without_time_lists_what_is_not_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If the time is up, the page of `report` lists unchecked nodes, and the limit."""
    file = tmp_path / "document.json"
    file.write_bytes(as_bytes(unbalanced(8, 2, 4)))
    assert main(["report", "--time-limit=0", str(file)]) == 0
    output = capsys.readouterr()
    assert "Not analysed: time was up." in output.out
    assert "the time limit of 0 s was reached (--time-limit)" in output.err


def test_report_to_a_file_examines_the_cluster_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`report --html` examines the cluster once, and prints nothing on stdout."""
    file = tmp_path / "document.json"
    file.write_bytes(as_bytes(unbalanced(8, 2, 4)))
    assert main(["report", "--time-limit=0", f"--html={tmp_path / 'page.html'}", str(file)]) == 0
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("the time limit of 0 s was reached (--time-limit)") == 1


def test_multi_allocate_without_time_fails_the_remaining_instances(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If time ends after the first instance of a batch, the others fail with the reason."""
    document = allocate(cluster(4))
    one = document["request"]
    several = [{**one, "name": f"new{k}", "type": "allocate"} for k in range(3)]
    document["request"] = {"type": "multi-allocate", "instances": several}
    checks = Mock(side_effect=[None, Stopped(TIME_IS_UP)])
    monkeypatch.setattr(import_module("iallocator.handlers.multi_allocate"), "check", checks)
    monkeypatch.setattr(Deadline, "over", lambda self: True)
    response = json.loads(answer(as_bytes(document), ["--n1=off"]))
    assert [name for name, _ in response["result"][0]] == ["new0"]
    assert response["result"][1] == ["new1", "new2"]
    assert "new1: time is up; new2: time is up" in response["info"]


def test_allocate_undecided_n1_counts_as_fail_n1_and_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A placement with an undecided N+1 check is rejected with FailN1, and reported."""
    monkeypatch.setattr("iallocator.placement.context.WORK_PER_SECOND", 0)
    response = json.loads(answer(as_bytes(allocate_rbd(cluster(3))), []))
    assert "FailN1: 3" in response["info"]
    assert "N+1 of 3 placements undecided within its budget of work" in response["info"]
