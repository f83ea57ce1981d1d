"""Ask a running cluster for the volume groups of its nodes, and those of the disks of instances.

Ganeti's queries contain only one volume group, that of the cluster. Two kinds of jobs report the
others. ``OP_NODE_QUERY_STORAGE`` waits for shared locks of the nodes, and runs ``vgs`` on each.
``OP_INSTANCE_QUERY_DATA`` reads the configuration and needs no locks; it runs only if some node has
another volume group. LUXI runs one job of each kind. RAPI runs one job per node, and one per
instance with volumes.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import quote

from iallocator.deadline import DeadlineError
from iallocator.live.stream import LiveError
from iallocator.model.templates import TEMPLATES, VOLUMES
from iallocator.sources.live.document import OWN_VOLUME_GROUP, Answers, Record, VolumeGroups
from iallocator.wire.fields import describe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iallocator.deadline import Deadline
    from iallocator.live.luxi import LuxiClient
    from iallocator.live.rapi import RapiClient

__all__ = ["volume_groups_by_luxi", "volume_groups_by_rapi"]

STORAGE_FIELDS = ["node", "name", "size", "free"]
"""Fields of ``OP_NODE_QUERY_STORAGE``."""

QUERY_SUCCESS, UNFINISHED_STATES = "success", ("queued", "waiting", "canceling", "running")
"""States of jobs."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds between two queries of a job: the first pause, and the longest one."""

JOBS_AT_ONCE = 20
"""The most jobs that run at the same time."""


def volume_groups_by_luxi(answers: Answers, client: LuxiClient, deadline: Deadline) -> VolumeGroups:
    """Return the volume groups of the cluster of `answers`, before `deadline`.

    Raises
    ------
    LiveError
        If a job fails or is late, or its result is invalid.
    """

    def run(opcodes: Sequence[Record]) -> list[Any]:
        ((accepted, job),) = client.call("SubmitManyJobs", [[list(opcodes)]], deadline)
        if not accepted:
            raise LiveError(client.path, f"a job is rejected: {job}")

        def ask() -> tuple[Any, Any]:
            ((status, results),) = client.call(
                "QueryJobs", [[job], ["status", "opresult"]], deadline
            )
            return status, results

        return _result(client.path, job, ask, deadline)

    def sizes() -> list[Any]:
        return run([_opcode("OP_NODE_QUERY_STORAGE", nodes=[], storage_type="lvm-vg",
                            output_fields=STORAGE_FIELDS)])  # fmt: skip

    def disks() -> list[Any]:
        return run([_opcode("OP_INSTANCE_QUERY_DATA", instances=[], static=True,
                            use_locking=False)])  # fmt: skip

    return _assembled(answers, client.path, sizes, disks)


def _opcode(kind: str, **parameters: Any) -> Record:
    reason = [["iallocator", "read volume groups", 0]]
    return {"OP_ID": kind, "reason": reason, **parameters}


def volume_groups_by_rapi(answers: Answers, client: RapiClient, deadline: Deadline) -> VolumeGroups:
    """Return the volume groups of the cluster of `answers`, before `deadline`.

    The user of RAPI must have write access, because the function runs jobs.

    Raises
    ------
    LiveError
        If a job fails or is late, or its result is invalid.
    """

    def run(paths: Sequence[str]) -> list[Any]:
        results: list[Any] = []
        for start in range(0, len(paths), JOBS_AT_ONCE):
            jobs = [client.get(path, deadline) for path in paths[start : start + JOBS_AT_ONCE]]
            for job in jobs:
                results += _result(
                    client.base, job, partial(_status, client, job, deadline), deadline
                )
        return results

    def sizes() -> list[Any]:
        nodes = [raw["name"] for raw in answers.nodes if not raw.get("offline")]
        query = f"storage?storage_type=lvm-vg&output_fields={','.join(STORAGE_FIELDS)}"
        return run([f"/2/nodes/{quote(name, safe='')}/{query}" for name in nodes])

    def disks() -> list[Any]:
        names = [raw["name"] for raw in answers.instances if _has_volumes(raw)]
        return run([f"/2/instances/{quote(name, safe='')}/info?static=1" for name in names])

    return _assembled(answers, client.base, sizes, disks)


def _status(client: RapiClient, job: Any, deadline: Deadline) -> tuple[Any, Any]:
    """Return the state of a job, and the results of its opcodes."""
    known = client.get(f"/2/jobs/{job}", deadline)
    return known["status"], known["opresult"]


def _has_volumes(raw: Record) -> bool:
    template = TEMPLATES.get(raw.get("disk_template") or "")
    return template is not None and template.storage == VOLUMES


def _result(
    where: str, job: Any, ask: Callable[[], tuple[Any, Any]], deadline: Deadline
) -> list[Any]:
    """Wait until `job` has ended, and return the results of its opcodes.

    `ask` returns the state of the job and the results. `where`: the cluster, for messages.
    """
    known: tuple[Any, Any] | None = None  # the last answer
    seconds = FIRST_PAUSE
    while known is None or known[0] in UNFINISHED_STATES:
        try:
            if known is not None:
                deadline.pause(seconds, f"job {job} is {known[0]}")
                seconds = min(2 * seconds, LONGEST_PAUSE)
            known = ask()
        except (DeadlineError, LiveError):
            if known is None or not deadline.over():
                raise
            late = f"job {job} is {known[0]} within {deadline.limit}, which reads volume groups"
            hint = "other jobs may hold the locks of nodes"
            raise LiveError(where, f"{late}: {hint}") from None
    status, results = known
    if status != QUERY_SUCCESS:
        why = results[0] if isinstance(results, list) and results else None
        text = f": {why[1][0]}" if isinstance(why, list) and len(why) > 1 and why[1] else ""
        raise LiveError(where, f"job {job}, which reads volume groups, ended with {status}{text}")
    if not isinstance(results, list):
        raise LiveError(where, f"job {job}: expected a list, got {describe(results)}")
    return results


def _assembled(
    answers: Answers,
    where: str,
    sizes: Callable[[], list[Any]],
    disks: Callable[[], list[Any]],
) -> VolumeGroups:
    """Return the volume groups that jobs report.

    `sizes` and `disks` run the jobs about nodes and instances, and return one result for each job.
    """
    own = answers.info.get("volume_group_name")
    try:
        of_nodes: dict[str, list[Record]] = {}
        others = False
        for rows in sizes():
            for node, name, size, free in rows:
                known = {"name": _named(name, own), "total": int(size), "free": int(free)}
                of_nodes.setdefault(str(node), []).append(known)
                others |= name != own
        of_disks: dict[str, list[Record]] = {}
        for records in disks() if others else ():
            for name, record in records.items():
                of_disks[name] = [_groups_of(disk, own) for disk in record["disks"]]
    except (TypeError, ValueError, KeyError, IndexError, AttributeError):
        raise LiveError(where, "volume groups: an unexpected answer") from None
    for raw in answers.instances if others else ():
        count = len(raw.get("disk.sizes") or ())
        if _has_volumes(raw) and len(of_disks.get(raw["name"], ())) != count:
            problem = f"instance {raw['name']} has {count} disks, but not in the job's result"
            raise LiveError(where, f"the answers contradict each other: {problem}")
    return VolumeGroups(of_nodes, of_disks)


def _named(name: Any, own: Any) -> str:
    """Return the name of a volume group in documents.

    There, `OWN_VOLUME_GROUP` is the cluster's own volume group, and ``file`` is reserved.
    """
    if not isinstance(name, str) or not name:
        raise TypeError
    if name == own:
        return OWN_VOLUME_GROUP
    return f"{name} (volume group)" if name in (OWN_VOLUME_GROUP, "file") else name


def _groups_of(disk: Record, own: Any) -> Record:
    """Return the members ``vg`` and ``metavg`` of a disk; {} if it is in no volume group."""
    kind = TEMPLATES.get(disk["dev_type"])
    if kind is None or not kind.local:
        return {}
    if kind.nodes == 1:
        return {"vg": _named(disk["logical_id"][0], own)}
    data, meta = (child["logical_id"][0] for child in disk["children"])
    return {"vg": _named(data, own), "metavg": _named(meta, own)}
