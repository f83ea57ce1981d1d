"""The command ``replay``."""

from __future__ import annotations

import sys

from iallocator.commands import COMMANDS, run_command
from iallocator.commands.command import Command, Result
from iallocator.commands.common_options import only_accepted, table_of
from iallocator.errors import UsageError, shown, tell
from iallocator.files import check_writable
from iallocator.options.parser import words_of
from iallocator.options.settings import Settings as Common
from iallocator.options.table import Option
from iallocator.options.values import name_list, whole_between

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.replay.outcome import Outcome
    from iallocator.replay.run import Commands

__all__ = ["Replay", "stored_commands"]

MEMBERS = (
    "success", "info", "result", "solutions", "command", "scores", "moves", "job_sets", "action",
    "nodes", "tags",
)  # fmt: skip
"""Of a response or a plan; ``error``, where there is neither, is always compared."""

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


OPTIONS = (
    Option("--update", "update", "store the answers and say what that changes"),
    Option("--keys", "keys", "compare only these members of the responses", members, "KEY,..."),
    Option("--jobs -j", "jobs", "use N processes (default 1)", whole_between(1, 1024), "N"),
    Option("--junit", "junit", "write the outcomes to FILE as JUnit XML", str, "FILE"),
)


class Replay(Command):
    """``iallocator replay``: run stored requests and commands again, compare with the stored
    answers.

    Exit status 0: every answer is as stored; 1: some is not, or has nothing to be
    compared with; 2: the command line cannot be understood, or a path does not exist; 130:
    interrupted, what was found until then is printed.
    """

    usage = "[OPTIONS] PATH..."
    options = OPTIONS
    settings_type = Settings
    settings: Settings

    def check(self) -> None:
        """Reject no cases, and members of answers that are stored whole."""
        if not self.positional:
            raise UsageError("replay needs requests or commands: files, or folders that hold them")
        if self.settings.update and self.settings.keys:
            raise UsageError("--update stores whole responses, --keys is for comparing only")
        check_writable(self.settings.junit)

    def find(self) -> Result:
        """Replay the cases, and print what came of each."""
        from iallocator.replay.cases import find_cases
        from iallocator.replay.run import How, run

        settings = self.settings
        how = How(
            tuple(passed_on(settings)),
            tuple(settings.keys or ()),
            settings.update,
            stored_commands(),
        )
        cases = find_cases(self.positional)
        if settings.verbose:
            tell(f"read {len(cases)} cases")
        self._found = Replayed(settings.junit)
        for outcome in run(cases, how, settings.jobs):
            self._found.outcomes.append(outcome)
            details = [line for detail in outcome.details for line in detail.splitlines()]
            lines = [f"{outcome.status:18}  {outcome.case.name}"]
            lines += (f"    {line}" for line in details)
            text = "\n".join(map(shown, lines))
            encoding = sys.stdout.encoding or "utf-8"  # print what the terminal can show of it
            print(text.encode(encoding, "replace").decode(encoding), flush=True)
        return self._found

    def stopped(self) -> Result:
        """Return what was found until then."""
        self._found.interrupted = True
        return self._found


class Replayed(Result):
    """What came of stored cases: how many answers are as stored."""

    def __init__(self, junit: str) -> None:
        super().__init__()
        self.outcomes: list[Outcome] = []
        self._junit = junit

    @property
    def status(self) -> int:  # type: ignore[override]
        """The exit status."""
        return 0 if all(outcome.passed for outcome in self.outcomes) else 1

    def complete(self) -> bool:
        """Write the outcomes for programs for continuous integration, if that is asked for."""
        if self._junit:
            from iallocator.replay.run import write_junit

            write_junit(self._junit, self.outcomes)
        return True

    def text(self) -> str:
        """Return how many cases passed, and how many answers were stored."""
        from iallocator.replay.outcome import UPDATED, WRITTEN

        outcomes = self.outcomes
        passed = sum(1 for outcome in outcomes if outcome.passed)
        changed = [
            f"{count} {status}"
            for status in (UPDATED, WRITTEN)
            if (count := sum(1 for outcome in outcomes if outcome.status == status))
        ]
        told = f" ({', '.join(changed)})" if changed else ""
        ended = ", interrupted" if self.interrupted else ""
        return f"{passed} passed, {len(outcomes) - passed} failed{told}{ended}\n"


def stored_commands() -> Commands:
    """Return the commands that cases may begin with."""
    from iallocator.replay.run import Commands

    return Commands(frozenset(COMMANDS) - {"replay"}, run_command, only_accepted)


def passed_on(settings: Common) -> list[str]:
    """The options of requests that this command was given, as words again."""
    given = (settings.chosen | settings.origins.keys()) - NOT_FOR_REQUESTS
    return words_of(settings, given, table_of("replay"))
