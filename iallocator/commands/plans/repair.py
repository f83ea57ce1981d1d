"""``iallocator repair``: instances whose nodes are offline, repaired as far as tags allow.

Run regularly, as harep: each time it looks at the jobs of pending repairs, then at what is
broken, and keeps what it knows in tags of the instances.  Exit status 0: nothing is left that
takes a hand; 1: something is: a repair failed, is not allowed, or has no place.
"""

from __future__ import annotations

import json

from iallocator.commands.shared.plan_output import JSON_OPTION, print_json
from iallocator.errors import UsageError, shown
from iallocator.files import WholeOutput
from iallocator.options import settings as options
from iallocator.options.table import Option
from iallocator.options.values import amount

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from iallocator.execution.repairs import RepairJobs

    Json = dict[str, Any]

__all__ = ["OPTIONS", "USAGE", "Settings", "run"]

USAGE = "[OPTIONS] [FILE]"

LINE = "-" * 21


class Settings(options.Settings):
    """The settings of this command."""

    json: bool = False
    execute: bool = False
    dry_run: bool = False
    job_delay: float = 0.0
    reason: str = ""


OPTIONS = (
    JSON_OPTION,
    Option("--exec -X", "execute", "repair on the running cluster (-L or -m)"),
    Option("--dry-run", "dry_run", "show the jobs and the tags, change nothing"),
    Option("--job-delay", "job_delay", "let every repair wait so long, while its tag is written",
           amount, "SECONDS"),
    Option("--reason", "reason", "with -X: say this in the reason trail of every job", str,
           "TEXT"),
)  # fmt: skip


def run(settings: Settings, positional: Sequence[str]) -> int:
    """Repair what is broken in the cluster, or say what would be done."""
    from iallocator.commands.shared.source import load_source, measure, settled
    from iallocator.planners.repair.round import RepairRound

    if settings.execute and settings.dry_run:
        raise UsageError("--dry-run changes nothing: it goes without -X")
    if settings.reason and not settings.execute:
        raise UsageError("--reason says how repairs are carried out: it goes with -X")
    source = load_source(settings, positional)
    measure(source, settings)
    whole = settled(settings, source)
    jobs, name = _jobs(settings)
    work = RepairRound(source.cluster, whole, jobs, settings.execute, settings.job_delay)
    if settings.execute:
        from iallocator.execution.lock import ClusterLock

        with ClusterLock(name):
            work.run()
    else:
        work.run()
    with WholeOutput():
        if settings.json:
            print_json(work.document())
        else:
            for line in _lines(work.document(), settings.dry_run):
                print(shown(line))
    return work.status()


def _jobs(settings: Settings) -> tuple[RepairJobs | None, str]:
    """The queue of the running cluster, and its name; None for one that is not running."""
    from iallocator.execution.queues.door import open_queue, runs

    if not runs(settings):
        if settings.execute:
            raise UsageError("-X repairs on a running cluster: it needs -L, or -m HOST")
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
            yield from (f"  {json.dumps(c, ensure_ascii=False)}" for c in one.get("opcodes", ()))
            yield from (f"  adds the tag {tag}" for tag in tags.get("add", ()))
            yield from (f"  removes the tag {tag}" for tag in tags.get("remove", ()))
    yield from (LINE, "Instance status count", LINE)
    yield from (f"{name}: {count}" for name, count in document["counts"].items())
