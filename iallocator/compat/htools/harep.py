"""harep: repair the instances that have a tag for it, as ``iallocator repair -L -X``."""

from __future__ import annotations

from iallocator.commands import COMMANDS
from iallocator.commands.command import Command
from iallocator.commands.other_options import Repair
from iallocator.commands.runner import run as run_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.compat.htools.backend import Given

__all__ = ["run"]


def run(given: Given) -> int:
    """Follow up repairs, and begin further ones; return the exit status."""
    own = Repair()
    own.no_config = True
    own.luxi = "" if given.luxi in (None, True) else given.luxi
    own.job_delay = given.job_delay or 0.0
    own.reason = given.reason or own.reason
    own.dry_run = bool(given.dry_run)
    own.execute = not own.dry_run
    return run_command(Command("repair", COMMANDS["repair"], own, []))
