"""Test jobs through RAPI: the request for each opcode, and a plan with one opcode per job."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from iallocator.cli import main
from iallocator.execution.queue_access import RapiJobs, call_of
from tests.builders import Json
from tests.live.fakes import Raw, fake_rapi

from .running import Running, shared_cluster
from .test_rescue import OOB, sick

REASON = {"reason": [["iallocator", "why (run/1/1)", 7]]}

SAID = {"reason": "why (run/1/1)"}

CALLS: list[tuple[Json, Any]] = [
    (
        {"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": "i", "cleanup": False, "priority": 10},
        ("PUT", "/2/instances/i/migrate", {"cleanup": False, "priority": 10}, SAID),
    ),
    (
        {"OP_ID": "OP_INSTANCE_FAILOVER", "instance_name": "i", "target_node": "n"},
        ("PUT", "/2/instances/i/failover", {"target_node": "n"}, SAID),
    ),
    (
        {"OP_ID": "OP_INSTANCE_REPLACE_DISKS", "instance_name": "i/j", "remote_node": "n"},
        ("POST", "/2/instances/i%2Fj/replace-disks", {"remote_node": "n"}, SAID),
    ),
    (
        {"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": "i", "force": False},
        ("PUT", "/2/instances/i/startup", None, {**SAID, "force": 0}),
    ),
    (
        {"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": "i", "force": False},
        ("PUT", "/2/instances/i/shutdown", {"force": False}, SAID),
    ),
    (
        {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "i", "pnode": "n"},
        ("POST", "/2/instances", {"instance_name": "i", "pnode": "n", "__version__": 1}, SAID),
    ),
    (
        {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "n", "offline": True},
        ("POST", "/2/nodes/n/modify", {"offline": True}, SAID),
    ),
    (
        {"OP_ID": "OP_NODE_POWERCYCLE", "node_name": "n", "force": True},
        ("POST", "/2/nodes/n/powercycle", None, {**SAID, "force": 1}),
    ),
    (
        {"OP_ID": "OP_TAGS_SET", "kind": "node", "name": "n", "tags": ["a", "b"]},
        ("PUT", "/2/nodes/n/tags", None, {**SAID, "tag": ["a", "b"]}),
    ),
    (
        {"OP_ID": "OP_TAGS_DEL", "kind": "instance", "name": "i", "tags": ["a"]},
        ("DELETE", "/2/instances/i/tags", None, {**SAID, "tag": ["a"]}),
    ),
    ({"OP_ID": "OP_OOB_COMMAND", "node_names": ["n"], "command": "power-off"}, None),
]


@pytest.mark.parametrize(("opcode", "call"), CALLS, ids=[code["OP_ID"] for code, _ in CALLS])
def test_opcode_has_its_resource(opcode: Json, call: Any) -> None:
    """Each opcode has its RAPI resource; values in the path are not repeated in the body.

    Out-of-band commands have no resource.
    """
    assert call_of({**opcode, **REASON}) == call


class RapiResources:
    """The simulated cluster `Running` as a server of RAPI."""

    def __init__(self, cluster: Running) -> None:
        self.cluster = cluster
        self.rejection: Raw | None = None

    def reply(self, method: str, path: str, body: Any) -> Any:
        """Return the answer to one request of RAPI."""
        parts = urlsplit(path)
        words = [unquote(word) for word in parts.path.split("/")[2:]]
        query = parse_qs(parts.query)
        if words[0] == "jobs" and len(words) > 1 and method == "GET":
            self.cluster.pass_time()
            return self._job(int(words[1]))
        if words[0] == "jobs" and method == "GET":
            return [self._job(job_id) for job_id in self.cluster.jobs]
        if method == "GET" and words[-1] == "info" and len(words) > 1:
            code = {"OP_ID": "OP_INSTANCE_QUERY_DATA", "instances": [words[1]], "reason": []}
            return self.cluster.answer("SubmitManyJobs", [[[code]]])[0][1]
        if method == "GET" and len(words) > 1:
            silent = {"mtotal": None} if self.cluster.boots(words[1]) else {}
            return {**self.cluster.found(words[1]), **silent}
        if method == "GET":
            return self.cluster.answers[words[0]]
        if self.rejection is not None:
            return self.rejection
        return self._submit(method, words, body or {}, query)

    def _submit(self, method: str, words: list[str], body: Json, query: Json) -> int:
        kinds = {
            "activate-disks": "OP_INSTANCE_ACTIVATE_DISKS", "migrate": "OP_INSTANCE_MIGRATE",
            "failover": "OP_INSTANCE_FAILOVER",
            "replace-disks": "OP_INSTANCE_REPLACE_DISKS", "modify": "OP_NODE_SET_PARAMS",
            "tags": "OP_TAGS_DEL" if method == "DELETE" else "OP_TAGS_SET",
        }  # fmt: skip
        if words[2] == "tags":
            body = {"name": words[1], "tags": query["tag"]}
        member = "instance_name" if words[0] == "instances" else "node_name"
        trail = [["gnt:user", query["reason"][0], 1], ["gnt:library:rlib2", "", 2]]
        code = {"OP_ID": kinds[words[2]], member: words[1], **body, "reason": trail}
        ((_, job_id),) = self.cluster.answer("SubmitManyJobs", [[[code]]])
        return int(job_id)

    def _job(self, job_id: int) -> Json:
        fields = ["id", "ops", "status", "opstatus", "opresult"]
        (values,) = self.cluster.answer("QueryJobs", [[job_id], fields])
        return dict(zip(fields, values))


@pytest.fixture(autouse=True)
def _without_pauses(own_locks: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the pauses between two queries of a job, and those that `own_locks` skips."""
    monkeypatch.setattr("iallocator.execution.queue_access.pause", lambda seconds: None)


def test_plan_is_executed_one_opcode_at_a_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Through RAPI, a job is submitted when its dependencies have ended.

    A person powers the nodes off.
    """
    cluster = Running(shared_cluster())
    with fake_rapi(tmp_path, RapiResources(cluster).reply) as server:
        words = ["squeeze", f"-m{server.address}", f"--cacert={server.cacert}", "-X"]
        journal = str(tmp_path / "journal")
        assert main([*words, "--journal", journal]) == 0
        assert all(len(jobs) == len(jobs[0]) == 1 for jobs in cluster.submitted)
        assert cluster.found("node2")["offline"]
        assert "by hand: power-off node2" in capsys.readouterr().out
        assert main([*words, "--resume", journal, "--done-by-hand"]) == 0
        assert len(RapiJobs(_client(server)).find(_run(journal))) == len(cluster.jobs)


def _client(server: Any) -> Any:
    from iallocator.live.rapi import RapiClient

    return RapiClient(server.address, cacert=server.cacert)


def _run(journal: str) -> str:
    from iallocator.execution.journal import read_journal

    return str(read_journal(journal)[0]["run"])


@pytest.mark.parametrize(
    ("status", "output"),
    [
        (404, "failed: migrate i0 (node1 -> node2): not taken: no: no such thing (HTTP 404)"),
        (503, "no: no such thing (HTTP 503)"),
    ],
)
def test_rejection_of_one_job_or_of_all_is_reported(
    status: int, output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Through RAPI, status 404 fails one job, and status 503 ends the submission."""
    cluster = Running(shared_cluster())
    resources = RapiResources(cluster)
    resources.rejection = Raw(status, b'{"code": 1, "message": "no", "explain": "no such thing"}')
    with fake_rapi(tmp_path, resources.reply) as server:
        words = ["balance", f"-m{server.address}", f"--cacert={server.cacert}", "-X"]
        assert main([*words, "--journal", str(tmp_path / "journal")]) == 1
        out, err = capsys.readouterr()
        assert output in out + err
        assert not cluster.submitted


def test_drained_queue_is_reported_at_once_and_its_reason_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A drained queue is reported with its reason, and no job is tried again.

    Ganeti 3.0 answers status 500 through RAPI.
    """
    cluster = Running(shared_cluster())
    resources = RapiResources(cluster)
    output = b'{"code": 500, "message": "Queue drained", "explain": "Server got itself in trouble"}'
    resources.rejection = Raw(500, output)
    with fake_rapi(tmp_path, resources.reply) as server:
        words = ["balance", f"-m{server.address}", f"--cacert={server.cacert}", "-X"]
        journal = tmp_path / "journal"
        assert main([*words, "--journal", str(journal)]) == 1
        assert "Queue drained" in capsys.readouterr().err
        assert journal.read_text().count('"event":"submit"') == 1
        resources.rejection = None
        assert main([*words, "--resume", str(journal)]) == 0


@pytest.mark.parametrize("fenced", [True, False])
def test_dead_node_is_rescued_through_rapi(
    fenced: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Through RAPI, `rescue` continues after a person has fenced the node and confirmed it."""
    monkeypatch.setattr(
        "iallocator.execution.dead_node.answers_ping", lambda address: address != "192.0.2.2"
    )
    cluster = Running(sick(oob_program=OOB))
    with fake_rapi(tmp_path, RapiResources(cluster).reply) as server:
        journal = str(tmp_path / "journal")
        words = ["rescue", f"-m{server.address}", f"--cacert={server.cacert}", "-X"]
        begin = [*words, "node2", "--journal", journal]
        if fenced:
            assert main([*begin, "--fenced"]) == 1  # the plain instance cannot be saved
        else:
            assert main(begin) == 1
            assert not cluster.found("node2")["offline"]
            assert "by hand: fence node2" in capsys.readouterr().out
            assert main([*words, "--resume", journal, "--done-by-hand"]) == 0
    assert cluster.found("node2")["offline"]
    places = cluster.places()
    assert all("node2" not in nodes for name, nodes in places.items() if name != "plain")
