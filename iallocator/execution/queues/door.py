"""The job queue of the cluster that the command line names."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
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
    if settings.luxi is not None:
        from iallocator.execution.queues.luxi import LuxiJobs
        from iallocator.live.luxi import LuxiClient

        luxi = LuxiClient(settings.luxi)
        return LuxiJobs(luxi), str(luxi.call("QueryClusterInfo")["name"])
    from iallocator.execution.queues.rapi import RapiJobs
    from iallocator.live.rapi import RapiClient

    rapi = RapiClient(
        settings.rapi,
        cacert=settings.cacert,
        insecure=settings.insecure,
        credentials=settings.credentials,
    )
    return RapiJobs(rapi), str(rapi.get("/2/info")["name"])
