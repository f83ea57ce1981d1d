"""Access the job queue of the cluster that the command line names, by LUXI or by RAPI.

LUXI accepts jobs with any opcodes. RAPI has one resource for each kind of job, and accepts only
jobs with one opcode.
"""

from __future__ import annotations

from urllib.parse import quote

from iallocator.deadline import Deadline, pause
from iallocator.errors import UsageError
from iallocator.execution.queue import (
    ENDED,
    LOST,
    JobStatus,
    UnknownOutcomeError,
    expecting,
    job_status,
    marks_in,
)
from iallocator.live.luxi import LuxiClient
from iallocator.live.rapi import RapiClient
from iallocator.live.stream import LiveError, ServerError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

    from iallocator.aliases import Json
    from iallocator.execution.queue import JobQueue
    from iallocator.options.settings import Settings

__all__ = ["LuxiJobs", "RapiJobs", "call_of", "open_queue"]


def open_queue(settings: Settings) -> tuple[JobQueue, str]:
    """Return the job queue of the cluster that `settings` name, and the name of the cluster.

    Raises
    ------
    LiveError, UsageError
        If the cluster cannot be reached.
    """
    deadline = Deadline(settings.read_timeout, f"{settings.read_timeout:g} s (--read-timeout)")
    if settings.luxi is not None:
        luxi = LuxiClient(settings.luxi, settings.max_input)
        return LuxiJobs(luxi), _name_in(luxi.call("QueryClusterInfo", (), deadline), luxi.path)
    rapi = RapiClient(
        settings.rapi,
        cacert=settings.cacert,
        insecure=settings.insecure,
        credentials=settings.credentials,
        limit=settings.max_input,
    )
    return RapiJobs(rapi), _name_in(rapi.get("/2/info", deadline), settings.rapi)


def _name_in(info: Any, where: str) -> str:
    """Return the name of the cluster in `info`; `where` is its address for an error message."""
    name = info.get("name") if isinstance(info, dict) else None
    if not isinstance(name, str) or not name:
        raise LiveError(where, "the answer lacks the name of the cluster")
    return name


SUBMIT_SECONDS = 300.0
"""The longest wait for the answer of the master to a submission of jobs, in seconds."""


class LuxiJobs:
    """The job queue of a cluster that is reached by LUXI."""

    singly = False

    def __init__(self, client: LuxiClient) -> None:
        self._client = client
        self._last: dict[int, Any] = {}

    def able(self, opcode: Json) -> bool:
        """Return true: LUXI accepts every opcode."""
        return True

    def submit(self, jobs: Sequence[Sequence[Json]]) -> list[int | str]:
        """Submit all jobs at once; return for each its id, or the reason of its rejection.

        A new connection is used, because an old one may have been closed.
        """
        self._client.close()
        try:
            answer = self._client.call(
                "SubmitManyJobs", [[list(job) for job in jobs]], Deadline(SUBMIT_SECONDS)
            )
        except ServerError:
            self._client.close()
            raise
        except LiveError as error:
            raise UnknownOutcomeError(str(error)) from None
        try:
            submitted = [int(value) if accepted else str(value) for accepted, value in answer]
        except (TypeError, ValueError):
            submitted = []
        if len(submitted) != len(jobs):
            raise UnknownOutcomeError("SubmitManyJobs: an unexpected answer")
        return submitted

    def statuses(self, ids: Sequence[int]) -> dict[int, JobStatus]:
        """Return id of a job -> its status, for the jobs `ids`, archived jobs included."""
        rows = self._client.call("QueryJobs", [list(ids), ["status", "opstatus", "opresult"]])
        with expecting("QueryJobs"):
            if len(rows) != len(ids):
                raise ValueError
            rows_by_job = {job_id: row or (None, None, None) for job_id, row in zip(ids, rows)}
            self._last |= {job_id: row[0] for job_id, row in rows_by_job.items()}
            return {job_id: job_status(*row) for job_id, row in rows_by_job.items()}

    def wait(self, ids: Sequence[int], seconds: float) -> None:
        """Wait until the first of the jobs `ids` changes its status, or for `seconds`."""
        last = [self._last.get(ids[0])]
        arguments = [ids[0], ["status"], last, None, int(seconds)]
        try:
            self._client.call("WaitForJobChange", arguments)
        except ServerError:
            self._client.close()  # the job is gone, as `statuses` will say

    def set_priority(self, number: int, priority: int) -> None:
        """Change the priority of the job with the id `number` to `priority`, -20 (first) to 19."""
        self._client.call("ChangeJobPriority", [number, priority])

    def cancel(self, number: int) -> None:
        """Cancel a job that has not begun."""
        self._client.call("CancelJob", [number, False])

    def unfinished(self) -> list[tuple[int, list[Json]]]:
        """Return the id and the opcodes of each job of the cluster that has not ended."""
        rows = self._client.call("QueryJobs", [[], ["id", "status", "ops"]])
        with expecting("QueryJobs"):
            return [(int(number), codes) for number, status, codes in rows if status not in ENDED]

    def answering(self, nodes: Collection[str]) -> set[str]:
        """Return the `nodes` that report their memory."""
        wanted = ["|", *(["=", "name", node] for node in nodes)]
        answer = self._client.call("Query", ["node", ["name", "mtotal"], wanted])
        with expecting("Query"):
            names = {str(name[1]) for name, memory in answer["data"] if memory[0] == 0}
        return names & set(nodes)

    def drained(self) -> bool:
        """Return whether Ganeti's job queue is drained: it accepts no new jobs."""
        answer = self._client.call("QueryConfigValues", [["drain_flag"]])
        with expecting("QueryConfigValues"):
            (value,) = answer
            return bool(value)

    def find(self, run: str) -> Mapping[str, int]:
        """Return mark -> job id, for the jobs of the execution `run`.

        Archived jobs are searched only if no other job has a mark of the execution.
        """
        rows = self._client.call("QueryJobs", [[], ["id", "ops"]])
        with expecting("QueryJobs"):
            jobs = _marked(rows, run)
        if jobs:
            return jobs
        answer = self._client.call("Query", ["job", ["id", "ops"], ["?", "archived"]])
        with expecting("Query"):
            return _marked([[cell[1] for cell in row] for row in answer["data"]], run)


def _marked(rows: Any, run: str) -> dict[str, int]:
    """Return mark -> job id, for the jobs of the execution `run` in rows of job id and opcodes."""
    return {mark: int(job_id) for job_id, codes in rows for mark in marks_in(codes or (), run)}


if TYPE_CHECKING:
    Call = tuple[str, str, Json | None, Json]

    """A call of RAPI: method, path, body and query."""


MOST_SINGLE_QUERIES = 8
"""The number of jobs up to which RAPI is queried for each job, and not for the whole queue."""

NOT_HEARD = (401, 403, 502, 503)
"""HTTP statuses of RAPI that mean that it accepts no job at the moment."""

DRAINED = "Queue drained"
"""The error of RAPI, with HTTP status 500, if the job queue is drained and accepts no job."""

WITH_BODY = {
    "OP_INSTANCE_MIGRATE": ("PUT", "/2/instances/{}/migrate", "instance_name"),
    "OP_INSTANCE_FAILOVER": ("PUT", "/2/instances/{}/failover", "instance_name"),
    "OP_INSTANCE_REPLACE_DISKS": ("POST", "/2/instances/{}/replace-disks", "instance_name"),
    "OP_INSTANCE_SHUTDOWN": ("PUT", "/2/instances/{}/shutdown", "instance_name"),
    "OP_INSTANCE_CREATE": ("POST", "/2/instances", ""),
    "OP_NODE_SET_PARAMS": ("POST", "/2/nodes/{}/modify", "node_name"),
}
"""Opcode -> method, path, and the member for the ``{}`` in the path; other members are the body."""

TAGGED = {"node": "/2/nodes/{}/tags", "instance": "/2/instances/{}/tags", "cluster": "/2/tags"}

OUR_OWN = ("OP_ID", "reason")


class RapiJobs:
    """The job queue of a cluster that is reached by RAPI."""

    singly = True

    def __init__(self, client: RapiClient) -> None:
        self._client = client

    def able(self, opcode: Json) -> bool:
        """Return whether RAPI has a resource for `opcode`; out-of-band commands have none."""
        return call_of({**opcode, "reason": [["", "", 0]]}) is not None

    def submit(self, jobs: Sequence[Sequence[Json]]) -> list[int | str]:
        """Submit jobs of one opcode each; return for each its id, or why it was rejected."""
        submitted: list[int | str] = []
        for (opcode,) in jobs:
            call = call_of(opcode)
            assert call is not None
            try:
                submitted.append(int(self._client.call(*call)))
            except ServerError as error:
                if error.status in NOT_HEARD or DRAINED in error.problem:
                    raise
                if error.status >= 500:
                    raise UnknownOutcomeError(str(error)) from None
                submitted.append(error.problem)
            except LiveError as error:
                raise UnknownOutcomeError(str(error)) from None
            except (TypeError, ValueError):
                raise UnknownOutcomeError("RAPI answers with no job id") from None
        return submitted

    def statuses(self, ids: Sequence[int]) -> dict[int, JobStatus]:
        """Return id of a job -> its status, for the jobs `ids`."""
        if len(ids) <= MOST_SINGLE_QUERIES:
            return {job_id: self._status(job_id) for job_id in ids}
        jobs = self._client.get("/2/jobs?bulk=1")
        with expecting("/2/jobs"):
            known = {int(job["id"]): job for job in jobs}
        return {
            job_id: _status(known[job_id]) if job_id in known else self._status(job_id)
            for job_id in ids
        }

    def _status(self, job_id: int) -> JobStatus:
        try:
            return _status(self._client.get(f"/2/jobs/{job_id}"))
        except ServerError as error:
            if error.status == 404:
                return JobStatus(LOST)
            raise

    def wait(self, ids: Sequence[int], seconds: float) -> None:
        """Wait for `seconds`, but at most one second; the jobs are not queried.

        The call of RAPI that waits for jobs is not used, because it requires a body in a GET.
        """
        pause(min(seconds, 1.0))

    def set_priority(self, number: int, priority: int) -> None:
        """Raise a `UsageError`: RAPI cannot change the priority of a job."""
        raise UsageError("RAPI accepts only the priorities low, normal and high")

    def cancel(self, number: int) -> None:
        """Cancel a job that has not begun."""
        self._client.delete(f"/2/jobs/{number}")

    def unfinished(self) -> list[tuple[int, list[Json]]]:
        """Return the id and the opcodes of each job of the cluster that has not ended."""
        jobs = self._client.get("/2/jobs?bulk=1")
        with expecting("/2/jobs"):
            return [(int(job["id"]), job["ops"]) for job in jobs if job["status"] not in ENDED]

    def answering(self, nodes: Collection[str]) -> set[str]:
        """Return the `nodes` that report their memory."""
        names = set()
        for node in nodes:
            known = self._client.get(f"/2/nodes/{_quoted(node)}")
            with expecting("/2/nodes"):
                if isinstance(known["mtotal"], int):
                    names.add(node)
        return names

    def drained(self) -> bool:
        """Return false: RAPI cannot report a drained queue. A submission of jobs fails instead."""
        return False

    def find(self, run: str) -> Mapping[str, int]:
        """Return mark -> job id, for the jobs of the execution `run`."""
        jobs = self._client.get("/2/jobs?bulk=1")
        with expecting("/2/jobs"):
            return {
                mark: int(job["id"]) for job in jobs for mark in marks_in(job["ops"] or (), run)
            }


def call_of(opcode: Json) -> Call | None:
    """Return the call of RAPI that submits `opcode`; None if there is none."""
    kind = opcode["OP_ID"]
    query: Json = {"reason": " ".join(text for _, text, _ in opcode["reason"])}
    if kind in WITH_BODY:
        method, path, member = WITH_BODY[kind]
        body = {k: v for k, v in opcode.items() if k not in (*OUR_OWN, member)}
        if kind == "OP_INSTANCE_CREATE":
            body["__version__"] = 1
        return method, path.format(_quoted(opcode.get(member, ""))), body, query
    if kind == "OP_INSTANCE_STARTUP":
        path = f"/2/instances/{_quoted(opcode['instance_name'])}/startup"
        return "PUT", path, None, {**query, "force": int(opcode.get("force", False))}
    if kind == "OP_INSTANCE_QUERY_DATA":
        (name,) = opcode["instances"]
        return "GET", f"/2/instances/{_quoted(name)}/info", None, query
    if kind == "OP_INSTANCE_ACTIVATE_DISKS":
        path = f"/2/instances/{_quoted(opcode['instance_name'])}/activate-disks"
        return "PUT", path, None, query
    if kind == "OP_NODE_POWERCYCLE":
        path = f"/2/nodes/{_quoted(opcode['node_name'])}/powercycle"
        return "POST", path, None, {**query, "force": int(opcode.get("force", False))}
    if kind in ("OP_TAGS_SET", "OP_TAGS_DEL") and opcode["kind"] in TAGGED:
        path = TAGGED[opcode["kind"]].format(_quoted(opcode["name"] or ""))
        method = "PUT" if kind == "OP_TAGS_SET" else "DELETE"
        return method, path, None, {**query, "tag": list(opcode["tags"])}
    return None


def _quoted(name: str) -> str:
    return quote(name, safe="")


def _status(job: Any) -> JobStatus:
    known = job if isinstance(job, dict) else {}
    return job_status(known.get("status"), known.get("opstatus"), known.get("opresult"))
