"""Test ``--volume-groups``: jobs of LUXI and RAPI, their results and their errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from iallocator.wire.validation import problems
from tests.builders import Json
from tests.command import run

from .cluster_answers import instance, luxi_answer, node, rapi_answers
from .fakes import Raw, fake_luxi, fake_rapi

OWN = "xenvg"


def scenario() -> Json:
    """Return a cluster of four nodes; two of them also have the volume group fast."""
    answers = rapi_answers()
    answers["info"]["volume_group_name"] = OWN
    answers["nodes"] = [node(f"node{n}", dtotal=9000, dfree=5000) for n in (1, 2, 3, 4)]
    db = instance("db", "node1", "node2") | {"disk.sizes": [600], "disk_usage": 728}
    web = instance("web", "node3") | {"disk.sizes": [300], "disk_usage": 300}
    answers["instances"] = [db, web]
    answers["info"]["master"] = "node1"
    return answers


SIZES = {
    "node1": {OWN: (9000, 5000), "fast": (4000, 1000)},
    "node2": {OWN: (9000, 5000), "fast": (4000, 700)},
    "node3": {OWN: (9000, 5000)},
    "node4": {OWN: (9000, 5000)},
}


def disk_records() -> Json:
    """Return the result of the opcode OP_INSTANCE_QUERY_DATA, for all disks."""
    lv = {"dev_type": "plain", "children": []}
    halves = [{**lv, "logical_id": ["fast", "a"]}, {**lv, "logical_id": [OWN, "b"]}]
    drbd = {"dev_type": "drbd", "logical_id": ["node1", "node2", 11000, 0, 0, None],
            "children": halves}  # fmt: skip
    return {"db": {"disks": [drbd]}, "web": {"disks": [{**lv, "logical_id": [OWN, "c"]}]}}


def result_of(opcode: Json) -> Any:
    """Return the result of an opcode that the simulated queue has executed."""
    if opcode["OP_ID"] == "OP_NODE_QUERY_STORAGE":
        assert opcode["storage_type"] == "lvm-vg"

        def row(name: str, group: str, sizes: tuple[int, int]) -> Json:
            return {"node": name, "name": group, "size": sizes[0], "free": sizes[1]}

        return [
            [row(name, group, sizes)[field] for field in opcode["output_fields"]]
            for name, groups in SIZES.items()
            if name in (opcode["nodes"] or SIZES)
            for group, sizes in groups.items()
        ]
    assert opcode["OP_ID"] == "OP_INSTANCE_QUERY_DATA"
    assert opcode["static"]
    return {k: v for k, v in disk_records().items() if k in (opcode["instances"] or ("db", "web"))}


class Queue:
    """A job queue in which each job is waiting once before it has ended."""

    def __init__(self, states: list[str] | None = None) -> None:
        self.jobs: list[list[Json]] = []
        self._asked: dict[int, int] = {}
        self._states = states or ["waiting", "success"]

    def submit(self, opcodes: list[Json]) -> int:
        """Add a job; return its id."""
        self.jobs.append(opcodes)
        return len(self.jobs)

    def status(self, job: int) -> tuple[str, Any]:
        """Return the state of a job, and the results of its opcodes."""
        asked = self._asked[job] = self._asked.get(job, -1) + 1
        state = self._states[min(asked, len(self._states) - 1)]
        if state == "error":
            return state, [["OpPrereqError", ["no such storage type", "wrong_input"]]]
        return state, [result_of(op) for op in self.jobs[job - 1]] if state == "success" else [None]


def luxi(answers: Json, queue: Queue) -> Callable[[str, list[Any]], Any]:
    """Return a function with the answers of a LUXI server that has a queue."""

    def answer(method: str, arguments: list[Any]) -> Any:
        if method == "SubmitManyJobs":
            return [[True, queue.submit(opcodes)] for opcodes in arguments[0]]
        if method == "QueryJobs":
            return [list(queue.status(job)) for job in arguments[0]]
        return luxi_answer(answers, method, arguments)

    return answer


def rapi(answers: Json, queue: Queue) -> Callable[[str, str, Any], Any]:
    """Return a function with the answers of a RAPI server that has a queue."""

    def reply(_: str, path: str, __: Any) -> Any:
        url = urlsplit(path)
        query = {key: value[0] for key, value in parse_qs(url.query).items()}
        op: Json
        match url.path.split("/")[2:]:
            case [resource] if resource in answers:
                return answers[resource]
            case ["nodes", name, "storage"]:
                op = {"OP_ID": "OP_NODE_QUERY_STORAGE", "nodes": [name],
                      "storage_type": query["storage_type"],
                      "output_fields": query["output_fields"].split(",")}  # fmt: skip
                return queue.submit([op])
            case ["instances", name, "info"]:
                op = {"OP_ID": "OP_INSTANCE_QUERY_DATA", "instances": [name],
                      "static": query["static"] == "1"}  # fmt: skip
                return queue.submit([op])
            case ["jobs", job]:
                status, results = queue.status(int(job))
                return {"status": status, "opresult": results}
        return Raw(404, b"{}")

    return reply


def snapshot(answers: Json, folder: Path, by: str, *more: str) -> tuple[Json, list[str]]:
    """Return the document of `snapshot` through LUXI or RAPI, and the opcodes of its jobs."""
    queue = Queue()
    words = ["snapshot", "--form=json", *more]
    if by == "luxi":
        with fake_luxi(folder, luxi(answers, queue)) as server:
            done = run(*words, f"-L{server.path}")
    else:
        with fake_rapi(folder, rapi(answers, queue)) as server:
            done = run(*words, "-m", server.address, "--cacert", server.cacert)
    assert done.returncode == 0, done.stderr
    assert problems(done.stdout, "unread") == []
    return json.loads(done.stdout), [op["OP_ID"] for ops in queue.jobs for op in ops]


@pytest.mark.parametrize("by", ["luxi", "rapi"])
def test_volume_groups_are_read_by_jobs(by: str, tmp_path: Path) -> None:
    """--volume-groups reads volume groups of nodes and disks by jobs.

    The cluster's own volume group is called ``lvm``.
    """
    document, kinds = snapshot(scenario(), tmp_path, by, "--volume-groups")
    assert document["nodes"]["node2"]["volume_groups"] == [
        {"name": "lvm", "total": 9000, "free": 5000}, {"name": "fast", "total": 4000, "free": 700},
    ]  # fmt: skip
    assert len(document["nodes"]["node3"]["volume_groups"]) == 1
    (db,) = document["instances"]["db"]["disks"]
    (web,) = document["instances"]["web"]["disks"]
    assert (db["vg"], db["metavg"], web["vg"]) == ("fast", "lvm", "lvm")
    expected = {"luxi": [1, 1], "rapi": [4, 2]}[by]
    names = ("OP_NODE_QUERY_STORAGE", "OP_INSTANCE_QUERY_DATA")
    assert [kinds.count(name) for name in names] == expected


@pytest.mark.parametrize("by", ["luxi", "rapi"])
def test_no_job_runs_without_the_option(by: str, tmp_path: Path) -> None:
    """Without --volume-groups, no job runs, and the document has no volume groups."""
    document, kinds = snapshot(scenario(), tmp_path, by)
    assert not kinds
    assert "volume_groups" not in str(document)


def test_no_job_runs_with_compat_hail(tmp_path: Path) -> None:
    """With --compat hail, no job runs, as htools read one volume group per node."""
    queue = Queue()
    with fake_luxi(tmp_path, luxi(scenario(), queue)) as server:
        done = run("check", "--volume-groups", "--compat=hail", f"-L{server.path}")
    assert done.returncode == 0, done.stderr
    assert not queue.jobs


@pytest.mark.parametrize("by", ["luxi", "rapi"])
def test_disks_are_not_asked_for_if_all_are_in_one_volume_group(
    by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs for disks run only if a node has more than one volume group."""
    monkeypatch.setitem(SIZES, "node1", {OWN: (9000, 5000)})
    monkeypatch.setitem(SIZES, "node2", {OWN: (9000, 5000)})
    document, kinds = snapshot(scenario(), tmp_path, by, "--volume-groups")
    assert set(kinds) == {"OP_NODE_QUERY_STORAGE"}
    assert "vg" not in document["instances"]["db"]["disks"][0]
    assert document["nodes"]["node1"]["volume_groups"] == [
        {"name": "lvm", "total": 9000, "free": 5000}
    ]


def test_offline_nodes_are_not_asked_by_rapi(tmp_path: Path) -> None:
    """Through RAPI, no job runs for an offline node, which then has no volume groups."""
    answers = scenario()
    answers["nodes"][2] = node("node3", offline=True)
    _, kinds = snapshot(answers, tmp_path, "rapi", "--volume-groups")
    assert kinds.count("OP_NODE_QUERY_STORAGE") == 3


def test_commands_enforce_volume_groups_of_a_running_cluster(tmp_path: Path) -> None:
    """Commands keep an instance on nodes with its volume group."""
    found = {}
    for more in ((), ("--volume-groups",)):
        folder = tmp_path / str(len(more))
        folder.mkdir()
        with fake_luxi(folder, luxi(scenario(), Queue())) as server:
            done = run("ask", "evacuate", "node2", f"-L{server.path}", "--n1=off", *more)
        found[more] = " ".join(done.stdout.decode().split())
    assert "storage pool" not in found[()]
    assert "access to storage pools internal/fast and internal/lvm" in found[("--volume-groups",)]


@pytest.mark.parametrize("by", ["luxi", "rapi"])
@pytest.mark.parametrize(("full", "free"), [("node3", "node4"), ("node4", "node3")])
@pytest.mark.parametrize(
    "words",
    [
        ("ask", "relocate", "db"),
        ("ask", "evacuate", "node2", "--mode=secondary-only"),
        ("balance", "--evac-mode", "--offline=node2"),
        ("repair", "--offline=node2"),
    ],
)
def test_free_space_of_volume_groups_limits_requests_and_planners(
    words: tuple[str, ...],
    full: str,
    free: str,
    by: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An instance goes to the node with free space in its volume group, as LUXI and RAPI report.

    The other node has more free space in the volume group of the cluster.
    """
    monkeypatch.setitem(SIZES, full, {OWN: (9000, 8000), "fast": (4000, 600)})
    monkeypatch.setitem(SIZES, free, {OWN: (9000, 5000), "fast": (4000, 601)})
    answers, words = scenario(), (*words, "--json", "--n1=off", "--volume-groups")
    with fake_luxi(tmp_path, luxi(answers, Queue())) as server:
        if by == "luxi":
            done = run(*words, f"-L{server.path}")
        else:
            with fake_rapi(tmp_path, rapi(answers, Queue())) as other:
                done = run(*words, "-m", other.address, "--cacert", other.cacert)
    document = json.loads(done.stdout)
    match words[0]:
        case "ask":
            found = document["response"]["solutions"][0]["nodes"]
        case "balance":
            found = document["moves"][0]["to"]
        case _:
            found = document["instances"][0]["note"].rpartition("it goes to ")[2].split(":")
    assert found == ["node1", free]


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (["queued", "error"], "which reads volume groups, ended with error: no such storage type"),
        (["strange"], "ended with strange"),
    ],
)
@pytest.mark.parametrize("by", ["luxi", "rapi"])
def test_job_that_fails_is_one_line(
    by: str, states: list[str], expected: str, tmp_path: Path
) -> None:
    """A failed job is reported in one line with the job and the reason."""
    if by == "luxi":
        with fake_luxi(tmp_path, luxi(scenario(), Queue(states))) as server:
            done = run("show", "--volume-groups", f"-L{server.path}")
    else:
        with fake_rapi(tmp_path, rapi(scenario(), Queue(states))) as server:
            words = ["-m", server.address, "--cacert", server.cacert]
            done = run("show", "--volume-groups", *words)
    error = done.stderr.decode()
    assert done.returncode == 2
    assert error.count("\n") == 1
    assert expected in error


def test_job_that_waits_too_long_is_one_line(tmp_path: Path) -> None:
    """A job that waits too long is reported in one line with the limit and a likely cause."""
    with fake_luxi(tmp_path, luxi(scenario(), Queue(["waiting"]))) as server:
        done = run("show", "--volume-groups", "--read-timeout=2", f"-L{server.path}")
    error = done.stderr.decode()
    assert done.returncode == 2
    assert error.count("\n") == 1
    assert "job 1 is waiting within the 2 s" in error
    assert "other jobs may hold the locks of nodes" in error


def test_disks_that_contradict_the_instances_are_one_line(tmp_path: Path) -> None:
    """Disks that contradict the instances are reported in one line."""
    answers = scenario()
    answers["instances"][1]["disk.sizes"] = [300, 300]
    with fake_luxi(tmp_path, luxi(answers, Queue())) as server:
        done = run("show", "--volume-groups", f"-L{server.path}")
    assert done.returncode == 2
    assert "instance web has 2 disks, but not in the job's result" in done.stderr.decode()


@pytest.mark.parametrize("words", [("show", "--simulate=p,1,1g,1g,1"), ("-L",)])
def test_option_without_a_running_cluster_is_rejected(words: tuple[str, ...]) -> None:
    """--volume-groups is rejected without a running cluster.

    Ganeti's requests reject it as well, because their own job holds the locks.
    """
    done = run(*words, "--volume-groups")
    assert done.returncode == 2
    assert b"--volume-groups" in done.stderr
