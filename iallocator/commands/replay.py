"""The command ``replay``: run stored requests again, and compare the answers."""

from __future__ import annotations

import sys

from iallocator.commands import COMMANDS
from iallocator.commands.command import Result
from iallocator.commands.common_options import only_accepted, table_of
from iallocator.commands.start import run_command
from iallocator.errors import many, printable, tell
from iallocator.options.parser import words_of
from iallocator.replay.cases import find_cases
from iallocator.replay.outcome import CASE_UPDATED, CASE_WRITTEN
from iallocator.replay.run import Commands, How, run, write_junit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.commands.command import Command
    from iallocator.commands.other_options import Replay
    from iallocator.options.settings import Settings
    from iallocator.replay.outcome import Outcome

__all__ = ["replay", "stored_commands"]

NOT_FOR_REQUESTS = {"help", "version", "config", "no_config", "verbose", "quiet"}
"""Settings that apply to the command ``replay`` itself, and not to the requests that it runs."""


def replay(command: Command) -> Result:
    """Run stored requests and commands again; compare the answers, and print each result."""
    settings: Replay = command.settings
    how = How(
        tuple(passed_on(settings)),
        tuple(settings.keys or ()),
        settings.update,
        stored_commands(),
    )
    cases = find_cases(command.positional)
    if settings.verbose:
        tell(f"read {many(len(cases), 'case')}")
    result = command.partial = Replayed(settings.junit)
    for outcome in run(cases, how, settings.jobs):
        result.outcomes.append(outcome)
        details = [line for detail in outcome.details for line in detail.splitlines()]
        lines = [f"{outcome.status:18}  {outcome.case.name}"]
        lines += (f"    {line}" for line in details)
        text = "\n".join(map(printable, lines))
        encoding = sys.stdout.encoding or "utf-8"  # print what the terminal can show of it
        print(text.encode(encoding, "replace").decode(encoding), flush=True)
    result.interrupted = False
    return result


class Replayed(Result):
    """The outcomes of stored cases, with the number of unchanged answers."""

    interrupted = True

    def __init__(self, junit: str) -> None:
        super().__init__()
        self.outcomes: list[Outcome] = []
        self._junit = junit

    def complete(self) -> bool:
        """Count the outcomes, and with ``--junit`` write them to a file. Return True."""
        outcomes = self.outcomes
        passed = sum(1 for outcome in outcomes if outcome.passed)
        self.status = int(passed < len(outcomes))
        self._document = {
            "passed": passed,
            "failed": len(outcomes) - passed,
            "changed": {
                status: sum(1 for outcome in outcomes if outcome.status == status)
                for status in (CASE_UPDATED, CASE_WRITTEN)
            },
            "interrupted": self.interrupted,
        }
        if self._junit:
            write_junit(self._junit, outcomes)
        return True


def stored_commands() -> Commands:
    """Return the commands that cases may begin with."""
    return Commands(frozenset(COMMANDS) - {"replay"}, run_command, only_accepted)


def passed_on(settings: Settings) -> list[str]:
    """Return the options of `replay` that apply to requests, as words of a command line."""
    given = (settings.chosen | settings.origins.keys()) - NOT_FOR_REQUESTS
    return words_of(settings, given, table_of("replay"))
