"""The job queue of the cluster that the command line names."""

from __future__ import annotations

from iallocator.deadline import Deadline
from iallocator.live.errors import LiveError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iallocator.execution.queues.queue import JobQueue
    from iallocator.options.settings import Settings

__all__ = ["open_queue", "runs"]

STORED = "file:"


def runs(settings: Settings) -> bool:
    """Whether the cluster that `settings` name is a running one."""
    return settings.luxi is not None or bool(settings.rapi and not settings.rapi.startswith(STORED))


def open_queue(settings: Settings) -> tuple[JobQueue, str]:
    """The queue, and the name of the cluster.

    Raises
    ------
    LiveError, UsageError
        If it is not reached.
    """
    deadline = Deadline(settings.read_timeout, f"{settings.read_timeout:g} s (--read-timeout)")
    if settings.luxi is not None:
        from iallocator.execution.queues.luxi import LuxiJobs
        from iallocator.live.luxi import LuxiClient

        luxi = LuxiClient(settings.luxi, settings.max_input)
        return LuxiJobs(luxi), _name_in(luxi.call("QueryClusterInfo", (), deadline), luxi.path)
    from iallocator.execution.queues.rapi import RapiJobs
    from iallocator.live.rapi import RapiClient

    rapi = RapiClient(
        settings.rapi,
        cacert=settings.cacert,
        insecure=settings.insecure,
        credentials=settings.credentials,
        limit=settings.max_input,
    )
    return RapiJobs(rapi), _name_in(rapi.get("/2/info", deadline), settings.rapi)


def _name_in(info: Any, where: str) -> str:
    """The name of the cluster, by which executions on it are kept apart."""
    name = info.get("name") if isinstance(info, dict) else None
    if not isinstance(name, str) or not name:
        raise LiveError(where, "the cluster does not say its name")
    return name
