"""harep: repair the instances with a tag that permits it, as ``iallocator repair -L -X``."""

from __future__ import annotations

import re
import time
from math import inf

from iallocator.commands import COMMANDS
from iallocator.commands.command import Command
from iallocator.commands.other_options import Repair
from iallocator.commands.runner import run as run_command
from iallocator.compat.htools.backend import Given, load
from iallocator.compat.htools.errors import ProgramError
from iallocator.deadline import Deadline
from iallocator.errors import IallocatorError, UsageError
from iallocator.execution.queue_access import open_queue
from iallocator.execution.repairs import RepairJobs
from iallocator.planners.repair.round import RepairRound
from iallocator.tags.autorepair import (
    STATE_HEALTHY,
    STATE_NEEDS_REPAIR,
    STATE_PENDING,
    permission_of,
)
from iallocator.wire.codec import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.planners.repair.round import RepairEntry
    from iallocator.tags.autorepair import Permission, Record, RepairState

__all__ = ["run"]

REPAIR_DELAY = 10.0
"""Seconds that a repair waits by default, so that its tag can be written first."""

RULE = "-" * len("Instance status count")

CONTRADICTION = re.compile(r"(\S+): tag (\S+), though (\S+) is pending")
UNFINISHED = (
    r'An unfinished repair was found in instance \1: found tag "\2", but older pending tag '
    r'"\3"exists.'
)
"""A pattern for this program's message about contradictory tags, and harep's message."""


def run(given: Given) -> int:
    """Check the state of pending repairs, and begin further ones; return the exit status.

    With ``--dry-run``, the output is that of harep. Otherwise it is that of ``iallocator repair``.

    Raises
    ------
    ProgramError
        If the cluster cannot be read, its tags contradict each other, or a job fails.
    """
    own = Repair()
    own.no_config = True
    own.luxi = "" if given.luxi in (None, True) else given.luxi
    own.job_delay = REPAIR_DELAY if given.job_delay is None else given.job_delay
    own.reason = given.reason or own.reason
    own.dry_run = bool(given.dry_run)
    own.execute = not own.dry_run
    live_source = Given(luxi=own.luxi or True)
    source = load(live_source, own, in_order=True)
    try:
        if own.execute:
            return run_command(Command("repair", COMMANDS["repair"], own, []))
        queue, _ = open_queue(own)
        work = RepairRound(
            source.cluster, own, RepairJobs(queue), delay=own.job_delay, deadline=Deadline(None)
        )
        work.follow_up()
        work.plan()
    except UsageError as error:
        contradiction = CONTRADICTION.fullmatch(str(error))
        problem = contradiction.expand(UNFINISHED) if contradiction else str(error)
        raise ProgramError(f"Error: when parsing auto-repair tags: {problem}") from None
    except IallocatorError as error:
        raise ProgramError(f"Error: {error}") from None
    _print(work)
    return 0


def _print(work: RepairRound) -> None:
    """Print the repairs that would begin, and the number of instances in each state."""
    entries = sorted(work.entries, key=lambda one: one.instance.order)
    for one in entries:
        for before, after in one.history:
            if before.name == STATE_PENDING and before.record is not None:
                name = one.instance.name
                print(f'Moving {name} from "{before.name}" to "{after.name}"')
                _print_tags(name, after.record, before)
    now = time.time()
    for one in entries:
        if one.repair is not None and one.repair.by_tags and one.repair.kind:
            _print_repair(one, permission_of(work.before.cluster, one.instance, now))
    counts = dict.fromkeys(sorted(one.state.name for one in entries), 0)
    for one in entries:
        counts[one.state.name] += 1
    print("\n".join([RULE, "Instance status count", RULE]))
    for name, count in counts.items():
        print(f"{name}: {count}")


def _print_repair(one: RepairEntry, permission: Permission) -> None:
    """Print the repair of an instance that is broken, or why the instance is not repaired."""
    repair, name = one.repair, one.instance.name
    assert repair is not None
    kind = _kind(repair.kind)
    last = one.history[-1] if one.history else None
    if last is not None and last[0].name == STATE_HEALTHY:
        before, after = last
        if after.name == STATE_NEEDS_REPAIR:
            print(
                f"Not performing a repair of type {kind} on {name} because only repairs up to "
                f"{_kind(permission.upto)} are allowed"
            )
        else:
            print(f"Executing {kind} repair on {name}")
            print(f"jobs: {dumps([[code for step in one.steps for code in step['opcodes']]])}")
        _print_tags(name, after.record, before)
    elif one.state.name == STATE_HEALTHY and (permission.suspended or not permission.upto):
        state = "ArNotEnabled"
        if permission.suspended == inf:
            state = "ArSuspended Forever"
        elif permission.suspended:
            until = time.gmtime(permission.suspended)
            state = f"ArSuspended (Until {time.strftime('%a %b %d %H:%M:%S UTC %Y', until)})"
        print(f"Not repairing {name} because it's in state {state}")


def _kind(repair: str) -> str:
    """Return harep's name of a type of repair: ``ArMigrate`` for ``migrate``."""
    return "Ar" + "".join(map(str.capitalize, repair.split("-")))


def _print_tags(name: str, new: Record | None, before: RepairState) -> None:
    """Print the change of the tags of an instance.

    Unlike this program, harep does not remove older tags of a repair.
    """
    if new is not None:
        print(f'>>> Adding the following tag to {name}:\n"{new.tag}"')
    if before.record is not None:
        own = f":{before.record.identity}:"
        older = (tag for tag in before.outdated if own not in tag)
        print(f">>> Removing the following tags from {name}:")
        print("\n".join(f'"{tag}"' for tag in (before.record.tag, *older)))
