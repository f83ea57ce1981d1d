"""The command ``repair``: plan and follow up the repair of instances on offline nodes."""

from __future__ import annotations

from functools import partial
from shlex import quote

from iallocator.commands.command import Result, enforced_relations, reject_silent_nodes
from iallocator.commands.runner import read_again
from iallocator.deadline import limit_reached
from iallocator.planners.eligible import group_named
from iallocator.planners.repair.round import RepairRound
from iallocator.render import TEXT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.aliases import Json
    from iallocator.commands.command import Command, Followed, Follower
    from iallocator.deadline import Deadline
    from iallocator.execution.queue import JobQueue
    from iallocator.execution.repairs import RepairJobs

__all__ = ["follower", "repair"]


def follower(command: Command) -> Followed:
    """Return a function from the job queue to the follower of an execution.

    The follower updates the tags of instances as the jobs of their repairs proceed.
    """

    def followed(queue: JobQueue) -> Follower:
        from iallocator.execution.repairs import RepairJobs, RepairTags

        jobs = RepairJobs(queue, command.settings.reason)
        return RepairTags(jobs, partial(read_again, command)).follow

    return followed


def repair(command: Command, deadline: Deadline) -> Result:
    """Check the state of pending repairs, and plan further ones; with ``-X`` write tags."""
    own, cluster = command.settings, command.source.cluster
    if not own.dry_run:
        reject_silent_nodes(cluster, own)  # before tags are changed
    jobs: RepairJobs | None = None
    name = ""
    if own.asks_running_cluster:
        from iallocator.execution.queue_access import open_queue
        from iallocator.execution.repairs import RepairJobs

        queue, name = open_queue(own)
        jobs = RepairJobs(queue, own.reason)
    changes = own.execute and not own.dry_run
    reached_by = quote(f"-L{own.luxi}") if own.luxi else "-L"
    if own.rapi and not own.rapi.startswith("file:"):
        reached_by = f"-m {quote(own.rapi)}"
    again = f"iallocator repair {reached_by} -X"
    work = RepairRound(
        cluster,
        command.effective,
        jobs,
        changes,
        own.job_delay,
        deadline,
        own.allow,
        again,
    )
    if own.group:
        work.restrict_to(group_named(cluster, own.group))
    if changes:
        from iallocator.execution.lock import ClusterLock

        with ClusterLock(name):
            work.follow_up()
    else:
        work.follow_up()
    work.plan()
    reached = [limit_reached(command.effective.planning_seconds)] if deadline.over() else []
    return Repaired(work, command, reached)


class Repaired(Result):
    """The result of ``repair``: the repairs of this run, and those that are left."""

    def __init__(self, work: RepairRound, command: Command, reached: list[str]) -> None:
        nodes = [node.name for node in work.before.cluster.nodes]
        facts = {"dry_run": command.settings.dry_run, "nodes": nodes}
        super().__init__(work.document(), facts, work.status())
        self._work = work
        self._settings = command.effective
        self.remarks = [f"Warning: {one}" for one in work.misspelt_permissions()]
        self.remarks += (f"iallocator: {one}" for one in reached)

    def transition(self) -> Json:
        """Return the steps of the repairs."""
        return self._work.transition()

    def facts(self, medium: str) -> Json:
        """Return for the text whether it shows jobs; for the page, the health before and after.

        The health is examined as far as the time limit allows.
        """
        if medium == TEXT:
            return self._facts
        from iallocator.documents.cluster_facts import Examination, health_at, inventory, nodes_at

        settings, work = self._settings, self._work
        before, after = work.before, work.after
        cluster = before.cluster
        how = Examination.of(settings, relations=enforced_relations(cluster, settings))
        return {
            "cluster": inventory(cluster),
            "before": health_at(before, how),
            "after": health_at(after, how),
            "states": [nodes_at(before, "Before"), nodes_at(after, "After")],
            "where": {one.name: cluster.node_names(one.nodes) for one in cluster.instances},
            "transition": work.transition(),
            "status": self.status,
        }
