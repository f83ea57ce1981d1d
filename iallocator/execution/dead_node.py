"""Find out whether a node of a running cluster is dead.

Three sources are queried: the node daemon, which Ganeti queries; the addresses of the node; and the
power status that the out-of-band program of the node reports. A node that answers anything is not
dead. A node that does not answer may still run its instances: therefore it is fenced.
"""

from __future__ import annotations

from time import time_ns
from uuid import uuid4

from iallocator.deadline import Deadline
from iallocator.execution.jobs import ExecutionError
from iallocator.execution.queue import (
    ENDED,
    JOB_SUCCESS,
    UnknownOutcomeError,
    failed_out_of_band,
    reason_trail,
)
from iallocator.live.ping import answers_ping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.aliases import Json
    from iallocator.execution.queue import JobQueue

__all__ = ["evidence_of_death"]

POWER_SECONDS = 120.0
"""The time limit for the job that asks for the power status, in seconds."""

POWER_QUERY_INTERVAL = 5.0
"""Seconds between two queries of the job that asks for the power status."""


def evidence_of_death(
    queue: JobQueue,
    name: str,
    addresses: Mapping[str, Sequence[str]],
    *,
    marked: bool,
    asks_power: bool,
    reason: str = "",
) -> Json:
    """Return the report of each source about the dead node `name`, in words.

    Parameters
    ----------
    queue
        The job queue of the cluster.
    name
        The name of the node.
    addresses
        The IP addresses of this node, and of the nodes that are not offline, by name.
    marked
        Whether the node is marked offline: Ganeti does not query an offline node.
    asks_power
        Whether to submit a job that asks the out-of-band program of the node for the power status.
    reason
        Text for the reason trail of the job.

    Raises
    ------
    ExecutionError
        If the node is not dead, or if no other node answers either.
    LiveError
        If the cluster cannot be reached.
    """
    sign = "its node daemon answers" if not marked and queue.answering([name]) else ""
    own = addresses[name]
    sign = sign or next((f"{one} answers" for one in own if answers_ping(one)), "")
    if sign:
        raise ExecutionError(
            f"{name} is not dead: {sign}; power it off, or move its instances with iallocator "
            "balance --evac-mode. A rehearsal needs a file: iallocator snapshot -L"
        )
    others = (one for other, some in addresses.items() if other != name for one in some)
    if not any(map(answers_ping, others)):
        raise ExecutionError(
            f"no other node answers from here either: this machine cannot tell whether {name} is "
            "dead"
        )
    return {
        "daemon": "not asked: the node is marked offline" if marked else "does not answer",
        "ping": f"no answer from {', '.join(own)}" if own else "no address is known",
        "power": _power_status(queue, name, reason) if asks_power else "not asked",
    }


def _power_status(queue: JobQueue, name: str, reason: str) -> str:
    """Return ``on``, ``off``, or why the power status of a node is not known."""
    code: Json = {
        "OP_ID": "OP_OOB_COMMAND",
        "node_names": [name],
        "command": "power-status",
        "ignore_status": True,
    }
    if not queue.able(code):
        return "not known: RAPI has no out-of-band commands"
    trail = reason_trail(reason, f"{uuid4()}/1/1", time_ns())
    try:
        (number,) = queue.submit([[{**code, "reason": trail}]])
    except UnknownOutcomeError as error:
        return f"not known: {error}"
    if isinstance(number, str):
        return f"not known: {number}"
    deadline = Deadline(POWER_SECONDS)
    while (job := queue.statuses([number])[number]).status not in ENDED:
        if deadline.over():
            return f"not known: job {number} takes more than {POWER_SECONDS:g} s"
        queue.wait([number], POWER_QUERY_INTERVAL)
    why = failed_out_of_band(job.results) or job.why
    if job.status != JOB_SUCCESS or why:
        return f"not known: {why or job.status}"
    try:
        ((_, (_, answer)),) = job.results[-1]
        return "on" if answer["powered"] else "off"
    except (TypeError, ValueError, KeyError, IndexError):
        return "not known: the out-of-band program reports none"
