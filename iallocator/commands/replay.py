"""The command ``replay``."""

from __future__ import annotations

import sys

from iallocator.commands import COMMANDS, run_command
from iallocator.commands.command import Command, Result
from iallocator.commands.common_options import only_accepted, table_of
from iallocator.errors import shown, tell
from iallocator.options.parser import words_of
from iallocator.replay.cases import find_cases
from iallocator.replay.outcome import UPDATED, WRITTEN
from iallocator.replay.run import Commands, How, run, write_junit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.commands.other_options import Replay as Settings
    from iallocator.options.settings import Settings as Common
    from iallocator.replay.outcome import Outcome

__all__ = ["Replay", "stored_commands"]

NOT_FOR_REQUESTS = {"help", "version", "config", "no_config", "verbose", "quiet"}
"""Settings that mean this command and not the requests it runs."""


class Replay(Command):
    """Runs stored requests and commands again, and compares with the stored answers."""

    settings: Settings

    def find(self) -> Result:
        """Replay the cases, and print what came of each."""
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

    def complete(self) -> bool:
        """Write the outcomes for programs for continuous integration, if that is asked for."""
        self.status = 0 if all(outcome.passed for outcome in self.outcomes) else 1
        if self._junit:
            write_junit(self._junit, self.outcomes)
        return True

    def text(self) -> str:
        """Return how many cases passed, and how many answers were stored."""
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
    return Commands(frozenset(COMMANDS) - {"replay"}, run_command, only_accepted)


def passed_on(settings: Common) -> list[str]:
    """The options of requests that this command was given, as words again."""
    given = (settings.chosen | settings.origins.keys()) - NOT_FOR_REQUESTS
    return words_of(settings, given, table_of("replay"))
