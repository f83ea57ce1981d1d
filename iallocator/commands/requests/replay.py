"""``iallocator replay``: run stored requests and commands again, compare with the stored answers.

Exit status 0: every answer is as stored; 1: some is not, or has nothing to be
compared with; 2: the command line cannot be understood, or a path does not exist; 130:
interrupted, what was found until then is printed.
"""

from __future__ import annotations

import sys

from iallocator.commands import COMMANDS, run_command
from iallocator.commands.shared.common_options import only_accepted, table_of
from iallocator.commands.shared.plan_output import INTERRUPTED
from iallocator.deadline import Stopped
from iallocator.errors import UsageError, shown, tell
from iallocator.files import WholeOutput, check_writable
from iallocator.options.parser import words_of
from iallocator.options.settings import Settings as Common
from iallocator.options.table import Option
from iallocator.options.values import name_list, whole_between
from iallocator.replay.cases import find_cases
from iallocator.replay.outcome import UPDATED, WRITTEN
from iallocator.replay.run import Commands, How, write_junit
from iallocator.replay.run import run as run_cases

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.replay.outcome import Outcome

__all__ = ["OPTIONS", "STORED_COMMANDS", "USAGE", "Settings", "run"]

MEMBERS = (
    "success", "info", "result", "solutions", "command", "scores", "moves", "job_sets", "action",
    "nodes", "tags",
)  # fmt: skip
"""Of a response or a plan; ``error``, where there is neither, is always compared."""

STORED_COMMANDS = Commands(frozenset(COMMANDS) - {"replay"}, run_command, only_accepted)

NOT_FOR_REQUESTS = {"help", "version", "config", "no_config", "verbose", "quiet"}
"""Settings that mean this command and not the requests it runs."""


def members(text: str) -> list[str]:
    """Members of a response, with commas between them."""
    found = name_list(text)
    if not set(found) <= set(MEMBERS):
        raise ValueError("some of " + ",".join(MEMBERS))
    return found


class Settings(Common):
    """The settings of this command; those of requests are passed on to them."""

    update: bool = False
    keys: list[str] | None = None
    jobs: int = 1
    junit: str = ""


USAGE = "[OPTIONS] PATH..."

OPTIONS = (
    Option("--update", "update", "store the answers and say what that changes"),
    Option("--keys", "keys", "compare only these members of the responses", members, "KEY,..."),
    Option("--jobs -j", "jobs", "use N processes (default 1)", whole_between(1, 1024), "N"),
    Option("--junit", "junit", "write the outcomes to FILE as JUnit XML", str, "FILE"),
)


def run(settings: Settings, positional: Sequence[str]) -> int:
    """Replay the cases in `positional`, print what came of each, return the exit status."""
    if not positional:
        raise UsageError("replay needs requests or commands: files, or folders that hold them")
    if settings.update and settings.keys:
        raise UsageError("--update stores whole responses, --keys is for comparing only")
    how = How(
        tuple(passed_on(settings)), tuple(settings.keys or ()), settings.update, STORED_COMMANDS
    )
    check_writable(settings.junit)
    cases = find_cases(positional)
    if settings.verbose:
        tell(f"read {len(cases)} cases")
    outcomes: list[Outcome] = []
    interrupted = False
    try:
        for outcome in run_cases(cases, how, settings.jobs):
            outcomes.append(outcome)
            _say(_case_lines(outcome))
    except Stopped:
        interrupted = True
    with WholeOutput():
        _say(_closing(outcomes) + (", interrupted" if interrupted else ""))
        if settings.junit:
            write_junit(settings.junit, outcomes)
    if interrupted:
        return INTERRUPTED
    return 0 if all(outcome.passed for outcome in outcomes) else 1


def passed_on(settings: Common) -> list[str]:
    """The options of requests that this command was given, as words again."""
    given = (settings.chosen | settings.origins.keys()) - NOT_FOR_REQUESTS
    return words_of(settings, given, table_of("replay"))


def _case_lines(outcome: Outcome) -> str:
    """One case: a line, and its details below."""
    details = [line for detail in outcome.details for line in detail.splitlines()]
    lines = [f"{outcome.status:18}  {outcome.case.name}", *(f"    {line}" for line in details)]
    return "\n".join(map(shown, lines))


def _closing(outcomes: Sequence[Outcome]) -> str:
    passed = sum(1 for outcome in outcomes if outcome.passed)
    changed = [
        f"{count} {status}"
        for status in (UPDATED, WRITTEN)
        if (count := sum(1 for outcome in outcomes if outcome.status == status))
    ]
    told = f" ({', '.join(changed)})" if changed else ""
    return f"{passed} passed, {len(outcomes) - passed} failed{told}"


def _say(text: str) -> None:
    """Print `text`, whatever the terminal can show of it."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding), flush=True)
