"""The command ``repair``."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from shlex import quote

from iallocator.commands.command import (
    Command,
    Result,
    enforced_relations,
    reject_silent_nodes,
)
from iallocator.commands.runner import read_again
from iallocator.deadline import Deadline, limit_reached
from iallocator.errors import shown
from iallocator.execution.doors import open_queue, runs
from iallocator.execution.lock import ClusterLock
from iallocator.execution.repairs import RepairJobs, RepairTags
from iallocator.model.tags import FAILOVER, REINSTALL
from iallocator.planners.repair.round import RepairRound
from iallocator.wire.codec import on_one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.aliases import Json
    from iallocator.commands.command import Followed, Follower
    from iallocator.commands.other_options import Repair as Settings
    from iallocator.execution.queue import JobQueue
    from iallocator.options.settings import Settings as Common
    from iallocator.render.page.view import PageView
    from iallocator.sources import Source

__all__ = ["Repair"]

LINE = "-" * 21

SHOWN = 5
"""How many instances are named for one command."""


class Repair(Command):
    """Repairs the instances on offline nodes, as far as tags allow."""

    settings: Settings

    def follower(self) -> Followed:
        """Return what makes the follower that keeps the tags of instances in step."""

        def followed(queue: JobQueue) -> Follower:
            jobs = RepairJobs(queue, self.settings.reason)
            return RepairTags(jobs, partial(read_again, self)).follow

        return followed

    def plan(self, source: Source, settings: Common, deadline: Deadline) -> Result:
        """Follow up pending repairs, and plan further ones; with ``-X`` write tags."""
        own = self.settings
        if not own.dry_run:
            reject_silent_nodes(source.cluster, own)  # before tags are changed
        jobs: RepairJobs | None = None
        name = ""
        if runs(own):
            queue, name = open_queue(own)
            jobs = RepairJobs(queue, own.reason)
        changes = own.execute and not own.dry_run
        work = RepairRound(
            source.cluster,
            settings,
            jobs,
            changes,
            own.job_delay,
            deadline,
            own.allow,
            f"iallocator repair {_door(own)} -X",
        )
        with ClusterLock(name) if changes else nullcontext():
            work.follow_up()
        work.plan()
        reached = [limit_reached(settings.planning_seconds)] if deadline.over() else []
        return Repaired(work, own, settings, reached)


class Repaired(Result):
    """The repairs that are done now, and what is left."""

    def __init__(
        self, work: RepairRound, own: Settings, settings: Common, reached: list[str]
    ) -> None:
        super().__init__(work.document(), work.status())
        self._work = work
        self._own = own
        self._settings = settings
        self.remarks = [f"iallocator: {one}" for one in reached]
        self.remarks += (f"iallocator: warning: {one}" for one in work.doubts())

    def text(self) -> str:
        """Return the repairs, and harep's table of states, as text for people."""
        document = self._document
        instances = document["instances"]
        lines = []
        for one in instances:
            lines.append(f"{one['instance']}: {one['note'] or one['state']}")
            if self._own.dry_run:  # the jobs and tags, too
                tags = one.get("tags", {})
                lines += (f"  {on_one_line(code)}" for code in one.get("opcodes", ()))
                lines += (f"  adds the tag {tag}" for tag in tags.get("add", ()))
                lines += (f"  removes the tag {tag}" for tag in tags.get("remove", ()))
        lines += (LINE, "Instance status count", LINE)
        lines += (f"{name}: {count}" for name, count in document["counts"].items())
        if document["broken"]:
            lines += ("", f"Broken, and not repaired now: {document['broken']}")
            commands: dict[str, list[str]] = {}
            for one in instances:
                if "broken" in one and "command" in one:
                    commands.setdefault(one["command"], []).append(one["instance"])
            for command, names in commands.items():
                more = f", ... ({len(names)} in all)" * (len(names) > SHOWN)
                lines.append(f"  {', '.join(names[:SHOWN])}{more}: {command}")
            if any(one.get("repair") in (FAILOVER, REINSTALL) for one in instances):
                lines.append(
                    "  Make sure that offline nodes are powered off: what runs there would run "
                    "twice."
                )
        return "".join(f"{shown(line)}\n" for line in lines)

    def transition(self) -> Json:
        """Return the steps of the repairs."""
        return self._work.transition()

    def page(self) -> PageView:
        """Return the page; both ends are checked as far as there is time left for it."""
        from iallocator.documents.moments import Examination, cluster_names, nodes_at, standing
        from iallocator.render.page.repair_page import repair_page

        settings = self._settings
        relations = enforced_relations(self._work.before.cluster, settings)
        deadline = Deadline.of_run(settings.planning_seconds)
        how = Examination(settings.n1, relations=relations, deadline=deadline)
        before, after = self._work.before, self._work.after
        cluster = before.cluster
        facts = {
            "cluster": cluster_names(cluster),
            "before": standing(before, how),
            "after": standing(after, how),
            "moments": [nodes_at(before, "Before"), nodes_at(after, "After")],
            "where": {one.name: cluster.node_names(one.nodes) for one in cluster.instances},
            "transition": self._work.transition(),
            "status": self.status,
        }
        return repair_page(self._document, facts)


def _door(settings: Settings) -> str:
    """Return the words that name the running cluster; for a document those that usually do."""
    if settings.rapi and not settings.rapi.startswith("file:"):
        return f"-m {quote(settings.rapi)}"
    return quote(f"-L{settings.luxi}") if settings.luxi else "-L"
