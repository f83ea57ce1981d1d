"""``iallocator repair``: instances whose nodes are offline, repaired as far as tags allow.

Run regularly, as harep: each time it looks at the jobs of pending repairs, then at what is
broken, and keeps what it knows in tags of the instances.  With ``-X`` repairs are carried out
as every plan is, with a journal, and waited for.  Exit status 0: nothing is left that takes a
hand; 1: something is: a repair failed, is not allowed, or has no place.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from shlex import quote

from iallocator.commands.shared.execution_options import (
    EXECUTION_OPTIONS,
    ExecutionSettings,
    reject_contradictions,
    reject_silent_nodes,
)
from iallocator.commands.shared.plan_output import (
    HTML_OPTION,
    JSON_OPTION,
    check_outputs,
    print_json,
    write_html,
)
from iallocator.commands.shared.source import completed_settings, load_source, measure
from iallocator.constraints.affinity_factory import relations_of
from iallocator.deadline import Deadline, limit_reached
from iallocator.engine import reading_for
from iallocator.errors import shown, tell
from iallocator.files import WholeOutput, is_stdout
from iallocator.options.table import Option
from iallocator.options.values import amount, choice
from iallocator.tags.autorepair import FAILOVER, REINSTALL, TYPES
from iallocator.wire.codec import on_one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from iallocator.aliases import Json
    from iallocator.execution.queue import JobQueue
    from iallocator.execution.records import Records
    from iallocator.execution.repairs import RepairJobs
    from iallocator.model.cluster import Cluster
    from iallocator.options import settings as options
    from iallocator.planners.repair.round import RepairRound
    from iallocator.render.page.view import PageView


__all__ = ["OPTIONS", "USAGE", "Settings", "run"]

USAGE = "[OPTIONS] [FILE]"

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
           "fix-storage, migrate, failover or reinstall", choice(*TYPES), "TYPE"),
    Option("--job-delay", "job_delay", "let every repair wait so long, while its tag is written",
           amount, "SECONDS"),
)  # fmt: skip


def run(settings: Settings, positional: Sequence[str]) -> int:
    """Repair what is broken in the cluster, or say what would be done."""
    from iallocator.commands.shared.execute import resume

    if settings.execute or not settings.dry_run:  # without -X nothing is changed anyway
        reject_contradictions(settings)
    check_outputs(settings)
    load = partial(_cluster, settings, positional)
    followed = partial(_tags, settings, load)
    if settings.resume:
        return resume(settings, load, followed)
    source = load_source(settings, positional)
    if not settings.dry_run:
        reject_silent_nodes(source.cluster, settings)  # before tags are changed
    measure(source, settings)
    whole = completed_settings(settings, source)
    deadline = Deadline.of_run(whole.planning_seconds)
    work = _planned(source.cluster, whole, settings, deadline)
    if deadline.over():
        tell(f"iallocator: {limit_reached(whole.planning_seconds)}")
    tell(*(f"iallocator: warning: {one}" for one in work.doubts()))
    with WholeOutput():  # before anything is done, as every plan
        write_html(settings.html, partial(_page, work, whole))
    found: Json | None = None
    status = 0
    if settings.execute:
        from iallocator.commands.shared.execute import begin

        cluster = source.cluster
        found, status = begin(settings, "repair", work.transition(), cluster, load, followed)
    with WholeOutput():
        _write(work, found, settings)
    return max(work.status(), status)


def _planned(
    cluster: Cluster, whole: options.Settings, settings: Settings, deadline: Deadline
) -> RepairRound:
    """What became of pending repairs, written down if that is wanted; and further ones."""
    from iallocator.execution.lock import ClusterLock
    from iallocator.planners.repair.round import RepairRound

    jobs, name = _jobs(settings)
    changes = settings.execute and not settings.dry_run
    work = RepairRound(
        cluster,
        whole,
        jobs,
        changes,
        settings.job_delay,
        deadline,
        settings.allow,
        f"iallocator repair {_door(settings)} -X",
    )
    with ClusterLock(name) if changes else nullcontext():
        work.follow_up()
    work.plan()
    return work


def _door(settings: Settings) -> str:
    """Return the words that name the running cluster; for a document those that usually do."""
    if settings.rapi and not settings.rapi.startswith("file:"):
        return f"-m {quote(settings.rapi)}"
    return quote(f"-L{settings.luxi}") if settings.luxi else "-L"


def _cluster(settings: Settings, positional: Sequence[str]) -> Cluster:
    """The cluster, read anew while repairs are carried out."""
    from iallocator.sources import load

    cluster = load(settings, positional, reading_for(settings), in_run=False).cluster
    reject_silent_nodes(cluster, settings)
    return cluster


def _tags(
    settings: Settings, load: Callable[[], Cluster], queue: JobQueue
) -> Callable[[Records], None]:
    """Who keeps the tags in step."""
    from iallocator.execution.repairs import RepairJobs, RepairTags

    return RepairTags(RepairJobs(queue, settings.reason), load).follow


def _write(work: RepairRound, found: Json | None, settings: Settings) -> None:
    """What is done, and what came of it, in the form that was asked for."""
    from iallocator.commands.shared.execute import show_report

    document = work.document()
    if settings.json:
        print_json(document if found is None else {**document, "execution": found})
        return
    if is_stdout(settings.html):
        return
    for line in _lines(document, settings.dry_run):
        print(shown(line))
    if found is not None:
        show_report(found, settings)


def _page(work: RepairRound, settings: options.Settings) -> PageView:
    """The page; judging both ends takes no longer than planning may."""
    from iallocator.render.page.repair_page import repair_page
    from iallocator.render.page.standing import Judging

    relations = None
    if settings.behaviour.knows_affinity:
        relations = relations_of(work.before.cluster, (), settings.tag_prefix)
    over = Deadline.of_run(settings.planning_seconds).over
    return repair_page(work, Judging(settings.n1, relations=relations, over=over))


def _jobs(settings: Settings) -> tuple[RepairJobs | None, str]:
    """The queue of the running cluster, and its name; None for one that is not running."""
    from iallocator.execution.doors import open_queue, runs

    if not runs(settings):
        return None, ""
    from iallocator.execution.repairs import RepairJobs

    queue, name = open_queue(settings)
    return RepairJobs(queue, settings.reason), name


def _lines(document: Json, details: bool) -> Iterator[str]:
    """What is done, and harep's table of states; `details`: jobs and tags, too."""
    for one in document["instances"]:
        yield f"{one['instance']}: {one['note'] or one['state']}"
        if details:
            tags = one.get("tags", {})
            yield from (f"  {on_one_line(c)}" for c in one.get("opcodes", ()))
            yield from (f"  adds the tag {tag}" for tag in tags.get("add", ()))
            yield from (f"  removes the tag {tag}" for tag in tags.get("remove", ()))
    yield from (LINE, "Instance status count", LINE)
    yield from (f"{name}: {count}" for name, count in document["counts"].items())
    if document["broken"]:
        yield ""
        yield f"Broken, and not repaired now: {document['broken']}"
        commands: dict[str, list[str]] = {}
        for one in document["instances"]:
            if "broken" in one and "command" in one:
                commands.setdefault(one["command"], []).append(one["instance"])
        for command, names in commands.items():
            some = ", ".join(names[:SHOWN]) + f", ... ({len(names)} in all)" * (len(names) > SHOWN)
            yield f"  {some}: {command}"
        if any(one.get("repair") in (FAILOVER, REINSTALL) for one in document["instances"]):
            yield "  Make sure that offline nodes are powered off: what runs there would run twice."
