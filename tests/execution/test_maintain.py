"""Test the execution of campaigns: commands, boot ids, checks, interruptions, resumption."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from iallocator.cli import main
from iallocator.execution.jobs import ExecutionError
from iallocator.execution.lock import ClusterLock
from iallocator.execution.queue import MARK
from tests.aliases import Capture
from tests.builders import Json
from tests.live.cluster_answers import instance, node
from tests.live.test_sources import AMOUNTS
from tests.paths import ROOT
from tests.patience import PATIENCE
from tests.schemas import conforms

from .running import CLOSED, Running, running, shared_cluster

MEMORY = 2048


@pytest.fixture(autouse=True)
def _no_pauses(quick_returns: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pauses between two queries of a boot id, in addition to those of executions."""
    monkeypatch.setattr("iallocator.execution.node_work.BOOT_ID_INTERVAL", 0.01)


def three_nodes() -> Json:
    """Return three nodes with an instance each on shared storage; a fourth node is the master."""
    answers = shared_cluster()
    answers["nodes"] = [node(f"node{n}") for n in (1, 2, 3)]
    answers["nodes"].append(node("node4", **{"group.uuid": "uuid-two"}))
    answers["instances"] = [
        {**instance(f"i{n}", f"node{n}", disk_template="rbd", memory=MEMORY), "nic.networks": []}
        for n in (1, 2, 3)
    ]
    answers["info"]["master"] = "node4"
    return answers


class Scenario:
    """A running cluster with boot ids in files, and a `log` of the executed commands."""

    def __init__(self, cluster: Running, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.log = folder / "log"
        self.log.touch()
        self.state = folder / "state"
        self.amounts = {
            one["name"]: {key: one[key] for key in AMOUNTS} for one in cluster.answers["nodes"]
        }
        for one in cluster.answers["nodes"]:
            (folder / f"boot-{one['name']}").write_text("first\n")
        cluster.interfere = self.count_memory

    def count_memory(self, method: str) -> None:
        """Let every node report the memory that its instances leave.

        A node without a boot id does not answer.
        """
        for one in self.cluster.answers["nodes"]:
            if not (self.folder / f"boot-{one['name']}").exists():
                one.update(dict.fromkeys(AMOUNTS))
                continue
            one.update(self.amounts[one["name"]])
            held = [nodes for nodes in self.cluster.places().values() if nodes[0] == one["name"]]
            one["mfree"] = one["mtotal"] - one["mnode"] - MEMORY * len(held)

    def words(self, *more: str, run: str = "", check: str = "") -> list[str]:
        """Return the command line of a campaign, by default with a command that reboots at once."""
        run = run or f"echo run {{node}} >> {self.log}; echo $$ > {self.folder}/boot-{{node}}"
        words = [
            "maintain", f"-L{self.cluster.path}", "-X", f"--journal={self.state}", "--skip=node4",
            f"--run={run}", f"--boot-id=cat {self.folder}/boot-{{node}}",
        ]  # fmt: skip
        return [*words, *([f"--check={check}"] if check else []), *more]

    def again(self, *more: str) -> list[str]:
        """Return the command line that resumes the campaign."""
        return ["maintain", f"-L{self.cluster.path}", "-X", f"--resume={self.state}", *more]

    def ran(self) -> list[str]:
        """Return the lines that commands have written to the log."""
        return self.log.read_text().splitlines()

    def is_as_before(self, home: dict[str, list[str]]) -> bool:
        """Return whether all instances are on the nodes `home`, and no node is drained."""
        drained = [one["name"] for one in self.cluster.answers["nodes"] if one["drained"]]
        return self.cluster.places() == home and not drained


@contextmanager
def scenario(folder: Path, answers: Json | None = None) -> Iterator[Scenario]:
    """Yield a running cluster with boot ids and a log of commands."""
    with running(folder, answers or three_nodes()) as cluster:
        yield Scenario(cluster, folder)


def test_master_candidates_get_their_role_back(tmp_path: Path) -> None:
    """Undrained nodes are master candidates again if they were; other nodes do not become any."""
    answers = three_nodes()
    answers["nodes"][1]["master_candidate"] = False
    with scenario(tmp_path, answers) as one:
        assert main(one.words()) == 0
        roles = [node["master_candidate"] for node in one.cluster.answers["nodes"][:3]]
    assert roles == [True, False, True]


def test_every_node_is_emptied_run_checked_and_filled_again(
    tmp_path: Path, capsys: Capture
) -> None:
    """A campaign empties each node, runs its command and check, and moves instances back."""
    with scenario(tmp_path) as one:
        home = one.cluster.places()
        check = f"echo check {{node}} >> {one.log}"
        metrics = tmp_path / "metrics"
        assert main(one.words(f"--metrics={metrics}", "--json", check=check)) == 0
        out, err = capsys.readouterr()
        assert one.ran() == [
            f"{what} node{n}" for n in (1, 2, 3) for what in ("run", "check")
        ]  # fmt: skip
        assert one.is_as_before(home)
        found = json.loads(out)
        conforms(found, "plan")
        assert found["progress"]["nodes_done"] == ["node1", "node2", "node3"]
        assert found["progress"]["complete"]
        assert "group 2: node2 (1 of 3 nodes done, about" in err
        assert 'iallocator_campaign_nodes{state="done"} 3' in metrics.read_text()
        moves = [
            code["instance_name"] for jobs in one.cluster.submitted for job in jobs for code in job
            if code["OP_ID"] == "OP_INSTANCE_MIGRATE"
        ]  # fmt: skip
        assert moves == ["i1", "i1", "i2", "i2", "i3", "i3"]


def test_no_instance_runs_on_a_node_when_its_command_begins(tmp_path: Path) -> None:
    """When the command of a node begins, the cluster has no instance on the node."""
    with scenario(tmp_path) as one:
        seen: list[tuple[str, list[list[str]]]] = []
        before = one.count_memory

        def look(method: str) -> None:
            before(method)
            for line in one.ran()[len(seen) :]:
                seen.append((line.split()[1], list(one.cluster.places().values())))

        one.cluster.interfere = look
        assert main(one.words()) == 0
        assert [name for name, _ in seen] == ["node1", "node2", "node3"]
        assert all([name] not in places for name, places in seen)


def test_lost_connection_is_no_failure_if_the_boot_id_changes(tmp_path: Path) -> None:
    """A command that fails is no failure if the node then has a new boot id.

    ssh loses its connection when the node reboots.
    """
    with scenario(tmp_path) as one:
        run = f"(sleep 0.3; echo $$ > {tmp_path}/boot-{{node}}) > {tmp_path}/quiet 2>&1 & exit 255"
        assert main(one.words("--only=node1", run=run)) == 0


REBOOTS = (
    "echo run {node} >> LOG; rm FOLDER/boot-{node}; "
    "(sleep 0.7; echo $$ > FOLDER/boot-{node}) > FOLDER/quiet 2>&1 & exit 255"
)
"""A command that reboots the node, which does not answer for a while."""


def test_nodes_of_one_group_are_silent_while_they_reboot(tmp_path: Path, capsys: Capture) -> None:
    """Nodes of one group may all be silent while they reboot; the campaign continues."""
    with scenario(tmp_path) as one:
        home = one.cluster.places()
        run = REBOOTS.replace("LOG", str(one.log)).replace("FOLDER", str(tmp_path))
        assert main(one.words("--n1=off", "--only=node1,node2", run=run)) == 0
        assert sorted(one.ran()) == ["run node1", "run node2"]
        err = capsys.readouterr().err
        assert "group 1: node1, node2 (0 of 2 nodes done)" in err
        assert "again in" not in err
        assert one.is_as_before(home)


def test_campaign_that_was_killed_during_a_reboot_waits_for_it(
    tmp_path: Path, capsys: Capture
) -> None:
    """If a campaign is killed during a reboot, --resume waits and runs no command again."""
    with scenario(tmp_path) as one:
        run = REBOOTS.replace("LOG", str(one.log)).replace("FOLDER", str(tmp_path))
        run = run.replace("exit 255", f"test -e {tmp_path}/killed || "
                          f"{{ touch {tmp_path}/killed; kill -9 $PPID; }}")  # fmt: skip
        assert started(tmp_path, one.words(run=run)).wait(PATIENCE) == -signal.SIGKILL
        assert main(one.again()) == 0
        assert one.ran() == ["run node1", "run node2", "run node3"]
        err = capsys.readouterr().err
        assert "waiting: node1 does not answer" in err
        assert "again in" not in err


def test_campaign_that_was_killed_during_a_check_repeats_it(tmp_path: Path) -> None:
    """If a campaign is killed during a check, --resume repeats the check only."""
    with scenario(tmp_path) as one:
        check = (
            f"echo check {{node}} >> {one.log}; test -e {tmp_path}/killed || "
            f"{{ touch {tmp_path}/killed; kill -9 $PPID; }}"
        )
        words = one.words("--only=node1", check=check)
        assert started(tmp_path, words).wait(PATIENCE) == -signal.SIGKILL
        assert main(one.again()) == 0
        assert one.ran() == ["run node1", "check node1", "check node1"]


def test_failed_command_leaves_the_node_empty_and_is_run_again(
    tmp_path: Path, capsys: Capture
) -> None:
    """If a command fails, its node stays empty, and --resume runs the command again.

    The status is 1, and the last line of the command's output is reported.
    """
    with scenario(tmp_path) as one:
        home = one.cluster.places()
        broken = tmp_path / "broken"
        broken.touch()
        run = (
            f"echo run {{node}} >> {one.log}; echo no space; test ! -e {broken} || exit 100; "
            f"echo $$ > {tmp_path}/boot-{{node}}"
        )
        assert main(one.words(run=run)) == 1
        out, err = capsys.readouterr()
        assert "node1: its command ended with status 100: no space" in err
        assert "0 of 3 nodes done" in out
        assert one.cluster.found("node1")["drained"]
        assert ["node1"] not in one.cluster.places().values()
        assert main(["maintain", f"--resume={one.state}"]) == 1
        broken.unlink()
        assert main(one.again()) == 0
        assert one.ran() == ["run node1", "run node1", "run node2", "run node3"]
        assert one.is_as_before(home)
        capsys.readouterr()
        assert main(["maintain", f"--resume={one.state}"]) == 0
        assert "3 of 3 nodes done" in capsys.readouterr().out


def test_failed_check_is_repeated_without_the_command(tmp_path: Path, capsys: Capture) -> None:
    """If a check fails, --resume runs the check again, and not the command."""
    with scenario(tmp_path) as one:
        home = one.cluster.places()
        sick = tmp_path / "sick"
        sick.touch()
        assert main(one.words("--only=node1", check=f": {{node}}; test ! -e {sick}")) == 1
        assert "node1: its check ended with status 1: no output" in capsys.readouterr().err
        assert one.cluster.found("node1")["drained"]
        sick.unlink()
        assert main(one.again()) == 0
        assert one.ran() == ["run node1"]
        assert one.is_as_before(home)


def test_slow_reboot_is_reported(tmp_path: Path, capsys: Capture) -> None:
    """A node without a new boot id in time is reported; --resume does not run its command again."""
    with scenario(tmp_path) as one:
        run = f"echo run {{node}} >> {one.log}"
        assert main(one.words("--only=node1", "--boot-timeout=1", run=run)) == 1
        assert "node1: it has its old boot id, 1 s after" in capsys.readouterr().err
        (tmp_path / "boot-node1").write_text("second\n")
        assert main(one.again()) == 0
        assert one.ran() == ["run node1"]


def test_maintenance_without_reboot_ends_with_the_command(tmp_path: Path, capsys: Capture) -> None:
    """Without reboots, a campaign reads no boot ids, and the status of the command decides."""
    with scenario(tmp_path) as one:
        run = f"echo run {{node}} >> {one.log}"
        words = [word for word in one.words("--no-reboot", run=run) if "--boot-id" not in word]
        assert main(words) == 0
        assert len(one.ran()) == 3
        assert main([*words, "--journal=" + str(tmp_path / "other"), "--run=false {node}"]) == 1
        assert "its command ended with status 1" in capsys.readouterr().err


def test_person_is_waited_for_until_the_boot_id_changes(tmp_path: Path, capsys: Capture) -> None:
    """Without --run, a campaign waits until a person has rebooted the node."""
    with scenario(tmp_path) as one:
        words = [word for word in one.words("--only=node2") if not word.startswith("--run")]
        person = subprocess.Popen(["sh", "-c", f"sleep 1; echo second > {tmp_path}/boot-node2"])
        assert main(words) == 0
        person.wait()
        assert "now by hand: maintain and reboot node2" in capsys.readouterr().err


def test_unknown_boot_id_prevents_the_command(tmp_path: Path, capsys: Capture) -> None:
    """If the boot id of a node is unknown, its command is not run."""
    with scenario(tmp_path) as one:
        (tmp_path / "boot-node1").write_text("")
        assert main(one.words("--only=node1")) == 1
        assert "node1: its boot id is not known: cat " in capsys.readouterr().err
        assert one.ran() == []


def test_new_instance_on_an_empty_node_prevents_its_reboot(tmp_path: Path, capsys: Capture) -> None:
    """A node on which another person has started an instance is not rebooted."""
    with scenario(tmp_path) as one:
        before = one.count_memory

        def interfere(method: str) -> None:
            before(method)
            known = {inst["name"] for inst in one.cluster.answers["instances"]}
            if one.cluster.found("node1")["drained"] and "new" not in known:
                made = instance("new", "node1", disk_template="rbd", memory=MEMORY)
                one.cluster.answers["instances"].append({**made, "nic.networks": []})

        one.cluster.interfere = interfere
        assert main(one.words("--only=node1")) == 1
        assert "new would stop with node1" in capsys.readouterr().err
        assert one.ran() == []


def test_instance_moved_during_the_campaign_is_planned_anew(
    tmp_path: Path, capsys: Capture
) -> None:
    """If a person moves an instance, --resume gives the group up and plans it again."""
    with scenario(tmp_path) as one:
        one.cluster.fails = {"i1"}
        assert main(one.words("--only=node1")) == 1
        assert one.cluster.found("node1")["drained"]
        one.cluster.fails = set()
        one.cluster.found("i1")["pnode"] = "node3" if migrated_to(one) == "node2" else "node2"
        capsys.readouterr()
        assert main(one.again()) == 0
        assert "given up: migrate i1" in capsys.readouterr().err
        assert one.ran() == ["run node1"]
        assert not one.cluster.found("node1")["drained"]


def migrated_to(one: Scenario) -> str:
    """Return the node to which the campaign has tried to migrate instance i1."""
    codes = [code for jobs in one.cluster.submitted for job in jobs for code in job]
    return str(next(c["target_node"] for c in codes if c["OP_ID"] == "OP_INSTANCE_MIGRATE"))


def test_until_begins_no_group_after_that_time(tmp_path: Path, capsys: Capture) -> None:
    """After the time of --until, a campaign begins no group; --resume continues it."""
    with scenario(tmp_path) as one:
        assert main(one.words("--until=2020-01-01T00:00:00Z")) == 0
        assert "no further group begins" in capsys.readouterr().err
        assert one.ran() == []
        soon = (datetime.now(UTC) + timedelta(minutes=9)).isoformat()
        assert main(one.again(f"--until={soon}")) == 0
        assert "no further group begins" in capsys.readouterr().err
        assert one.ran() == []  # a group is expected to take ten minutes
        assert main(one.again()) == 0
        assert len(one.ran()) == 3


@pytest.mark.parametrize("after", ["stay", "balance"])
def test_instances_stay_or_are_balanced(after: str, tmp_path: Path) -> None:
    """With --after stay or balance, each node is maintained once.

    Each group is planned after the moves of the previous group.
    """
    with scenario(tmp_path) as one:
        assert main(one.words(f"--after={after}")) == 0
        assert sorted(one.ran()) == ["run node1", "run node2", "run node3"]
        assert not any(found["drained"] for found in one.cluster.answers["nodes"])


def test_one_lock_is_held_from_the_first_group_to_the_last(tmp_path: Path) -> None:
    """A campaign holds the lock of the cluster from its first group to its last."""
    with scenario(tmp_path) as one:
        before, refused = one.count_memory, set[int]()

        def interfere(method: str) -> None:
            before(method)
            if method == "SubmitManyJobs":
                with suppress(ExecutionError), ClusterLock("cluster.example.com"):
                    pytest.fail("the lock is free")
                refused.add(len(one.ran()))

        one.cluster.interfere = interfere
        assert main(one.words()) == 0
        assert refused == {0, 1, 2, 3}


SCRIPT = """
from iallocator.execution import lock, node_work, returning
lock.run_directory = lambda: {!r}
node_work.BOOT_ID_INTERVAL = returning.STOP_TEST_INTERVAL = 0.01
from iallocator import process
process.run()
"""


def started(folder: Path, words: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a process that executes a campaign, with its locks in `folder`."""
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(str(folder / "run")), *words],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def test_command_that_survives_a_killed_campaign_is_not_run_again(
    tmp_path: Path, capsys: Capture
) -> None:
    """If a campaign is killed during a command, --resume waits for the command's end."""
    with scenario(tmp_path) as one:
        home = one.cluster.places()
        run = (
            f"echo run {{node}} >> {one.log}; test $(wc -l < {one.log}) -gt 1 || "
            f"{{ kill -9 $PPID; sleep 1; }}; echo $$ > {tmp_path}/boot-{{node}}"
        )
        assert started(tmp_path, one.words(run=run)).wait(PATIENCE) == -signal.SIGKILL
        assert one.ran() == ["run node1"]
        assert main(one.again()) == 0
        assert "an earlier command of node1 still runs" in capsys.readouterr().err
        assert one.ran() == ["run node1", "run node2", "run node3"]
        assert one.is_as_before(home)


@pytest.mark.parametrize("arrives", [True, False], ids=["accepted", "lost"])
@pytest.mark.parametrize("number", range(1, 9))
def test_campaign_that_was_killed_while_it_submits_is_resumed(
    number: int, arrives: bool, tmp_path: Path
) -> None:
    """If a campaign is killed when it submits jobs, --resume executes everything once."""
    with scenario(tmp_path) as one:
        home, count = one.cluster.places(), 0
        process: list[subprocess.Popen[bytes]] = []
        before = one.count_memory

        def interfere(method: str) -> bytes | None:
            nonlocal count
            before(method)
            count += method == "SubmitManyJobs"
            if count != number or method != "SubmitManyJobs":
                return None
            process[0].kill()
            return None if arrives else CLOSED

        one.cluster.interfere = interfere
        process.append(started(tmp_path, one.words()))
        assert process[0].wait(PATIENCE) == -signal.SIGKILL
        assert main(one.again()) == 0
        assert one.ran() == ["run node1", "run node2", "run node3"]
        assert one.is_as_before(home)
        marks = Counter(
            mark[0]
            for job in one.cluster.jobs.values()
            for mark in [MARK.search(job["ops"][0]["reason"][-1][1])]
            if mark and job["status"] == "success"
        )
        assert set(marks.values()) == {1}


def test_interrupted_campaign_completes_moves_and_goes_on(tmp_path: Path, capsys: Capture) -> None:
    """After Ctrl-C, a campaign completes its moves, and the running command goes on."""
    with scenario(tmp_path) as one:
        home = one.cluster.places()
        run = (
            f"echo run {{node}} >> {one.log}; test $(wc -l < {one.log}) -gt 1 || "
            f"{{ kill -2 $PPID; sleep 1; }}; echo $$ > {tmp_path}/boot-{{node}}"
        )
        assert started(tmp_path, one.words(run=run)).wait(PATIENCE) == 128 + signal.SIGINT
        assert main(one.again()) == 0
        assert one.ran() == ["run node1", "run node2", "run node3"]
        assert one.is_as_before(home)


def test_file_that_is_no_state_is_rejected(tmp_path: Path, capsys: Capture) -> None:
    """A file without the state of a campaign is rejected, with the name of the file."""
    path = tmp_path / "file"
    path.write_text('{"kind": "other"}')
    assert main(["maintain", f"--resume={path}"]) == 2
    assert f"{path}: not the state of a campaign" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--boot-id=cat {node}",), "--boot-id needs -X"),
        (("--boot-id=cat",), "--boot-id: expected {node} in the command"),
        (("--until=morning",), "--until"),
        (("--no-reboot", "--boot-id=cat {node}"), "--boot-id and --no-reboot exclude each other"),
        (("--first-job-group",), "--first-job-group"),
    ],
)
def test_options_that_cannot_act_are_rejected(
    words: tuple[str, ...], error: str, capsys: Capture
) -> None:
    """An option of maintain without effect is rejected; the message names what it requires."""
    assert main(["maintain", *words, "-t", "docs/examples/racks.data"]) == 2
    assert error in capsys.readouterr().err


def test_metrics_of_a_running_cluster_have_its_last_campaign(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metrics of a running cluster include its last campaign.

    A campaign that stopped at a failed command is not complete. A damaged file is skipped.
    """
    monkeypatch.setattr(
        "iallocator.commands.metrics.default_path", lambda *_: str(tmp_path / "maintain-.journal")
    )
    with scenario(tmp_path) as one:
        one.state = tmp_path / "maintain-20260102.journal"
        words = ["metrics", f"-L{one.cluster.path}", "--no-capacity"]
        assert main(words) == 0
        text = capsys.readouterr().out
        assert "iallocator_campaign" not in text
        assert 'iallocator_nodes_not_answering{group="one"} 0' in text
        assert main(one.words(run="exit 3 {node}")) == 1
        (tmp_path / "maintain-20260103.journal").write_text("{")
        capsys.readouterr()
        assert main(words) == 0
        text = capsys.readouterr().out
        assert "iallocator_campaign_complete 0" in text
        assert 'iallocator_campaign_nodes{state="to_do"} 3' in text
        (tmp_path / f"boot-{one.cluster.answers['nodes'][0]['name']}").unlink()
        assert main(words) == 0
        assert 'iallocator_nodes_not_answering{group="one"} 1' in capsys.readouterr().out
