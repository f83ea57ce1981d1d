"""The command ``repair``."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from shlex import quote

from iallocator.commands.command import Command, Result
from iallocator.commands.shared_options import (
    EXECUTION_OPTIONS,
    HTML_OPTION,
    JSON_OPTION,
    ExecutionSettings,
    reject_contradictions,
    reject_silent_nodes,
)
from iallocator.deadline import Deadline, limit_reached
from iallocator.errors import shown
from iallocator.options.table import Option
from iallocator.options.values import Choice, amount
from iallocator.tags.autorepair import FAILOVER, REINSTALL, TYPES
from iallocator.wire.codec import on_one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from iallocator.aliases import Json
    from iallocator.commands.command import Followed, Follower
    from iallocator.execution.queue import JobQueue
    from iallocator.execution.repairs import RepairJobs
    from iallocator.options.settings import Settings as Common
    from iallocator.planners.repair.round import RepairRound
    from iallocator.render.page.view import PageView
    from iallocator.sources import Source

__all__ = ["Repair"]

LINE = "-" * 21

SHOWN = 5
"""How many instances are named for one command."""


class Settings(ExecutionSettings):
    """The settings of this command."""

    html: str | None = None
    job_delay: float = 0.0
    allow: str = ""


OPTIONS = (
    JSON_OPTION,
    HTML_OPTION,
    *EXECUTION_OPTIONS,
    Option("--allow", "allow",
           "allow repairs up to this type this once, whatever tags say: "
           "fix-storage, migrate, failover or reinstall", Choice(*TYPES), "TYPE"),
    Option("--job-delay", "job_delay", "let every repair wait so long, while its tag is written",
           amount, "SECONDS"),
)  # fmt: skip


class Repair(Command):
    """``iallocator repair``: instances whose nodes are offline, repaired as far as tags allow.

    Run regularly, as harep: each time it looks at the jobs of pending repairs, then at what is
    broken, and keeps what it knows in tags of the instances.  With ``-X`` repairs are carried out
    as every plan is, with a journal, and waited for.  Exit status 0: nothing is left that takes a
    hand; 1: something is: a repair failed, is not allowed, or has no place.
    """

    options = OPTIONS
    settings_type = Settings
    settings: Settings

    def check(self) -> None:
        """Reject options that contradict each other."""
        settings = self.settings
        if settings.execute or not settings.dry_run:  # without -X nothing is changed anyway
            reject_contradictions(settings)

    def follower(self) -> Followed:
        """Return what makes the follower that keeps the tags of instances in step."""
        from iallocator.commands.runner import read_again
        from iallocator.execution.repairs import RepairJobs, RepairTags

        def followed(queue: JobQueue) -> Follower:
            jobs = RepairJobs(queue, self.settings.reason)
            return RepairTags(jobs, partial(read_again, self)).follow

        return followed

    def plan(self, source: Source, settings: Common, deadline: Deadline) -> Result:
        """Follow up pending repairs, and plan further ones; with ``-X`` write tags."""
        from iallocator.execution.doors import open_queue, runs
        from iallocator.execution.lock import ClusterLock
        from iallocator.planners.repair.round import RepairRound

        own = self.settings
        if not own.dry_run:
            reject_silent_nodes(source.cluster, own)  # before tags are changed
        jobs: RepairJobs | None = None
        name = ""
        if runs(own):
            from iallocator.execution.repairs import RepairJobs

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
        super().__init__()
        self._work = work
        self._own = own
        self._settings = settings
        self._reached = reached

    @property
    def status(self) -> int:  # type: ignore[override]
        """The exit status."""
        return self._work.status()

    def remarks(self) -> Iterator[str]:
        """Return that time was up, and doubts."""
        yield from (f"iallocator: {one}" for one in self._reached)
        yield from (f"iallocator: warning: {one}" for one in self._work.doubts())

    def document(self) -> Json:
        """Return the repairs as plain data."""
        return self._work.document()

    def text(self) -> str:
        """Return the repairs, and harep's table of states, as text for people."""
        document = self._work.document()
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
        from iallocator.render.page.repair_page import repair_page
        from iallocator.render.page.standing import Judging

        settings, relations = self._settings, None
        if settings.behaviour.knows_affinity:
            from iallocator.constraints.affinity_factory import relations_of

            relations = relations_of(self._work.before.cluster, (), settings.tag_prefix)
        deadline = Deadline.of_run(settings.planning_seconds)
        return repair_page(self._work, Judging(settings.n1, relations=relations, deadline=deadline))


def _door(settings: Settings) -> str:
    """Return the words that name the running cluster; for a document those that usually do."""
    if settings.rapi and not settings.rapi.startswith("file:"):
        return f"-m {quote(settings.rapi)}"
    return quote(f"-L{settings.luxi}") if settings.luxi else "-L"
