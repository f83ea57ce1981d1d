"""The table of commands, which an administrator runs.

A row names the modules with the options of a command and with the function that does its work. They
are loaded when its help is shown, or when it is run. `iallocator.commands.runner.run` runs every
row.
"""

from __future__ import annotations

from iallocator import __version__
from iallocator.commands.row import (
    LISTS_GROUP,
    OTHERS,
    PLANNERS,
    READS_ITSELF,
    SETS_OFFLINE,
    UNMEASURED,
    Row,
)
from iallocator.errors import UsageError, Voice, cut
from iallocator.options.parser import parse, positional_words
from iallocator.options.settings import configuration_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.options.table import CommandSettings, Option

__all__ = [
    "COMMANDS", "check_command", "find_command", "options_of", "run_command", "settings_of",
]  # fmt: skip

PLANNED = ("original", "planned")

COMMANDS = {
    "ask": Row(
        "answer a question about any cluster, and explain the answer; change nothing",
        OTHERS, "explain", "explanation", source=READS_ITSELF,
    ),
    "balance": Row(
        "plan moves that repair violated constraints and balance the load of nodes",
        PLANNERS, "plans", "plan", states=("original", "balanced"), traits=[LISTS_GROUP],
    ),
    "balance-groups": Row(
        "plan moves that balance the load of groups on shared storage",
        PLANNERS, "plans", "plan", states=PLANNED, traits=[SETS_OFFLINE],
    ),
    "capacity": Row(
        "compute how many more instances fit while N+1 is kept",
        PLANNERS, "capacity", "capacity", states=("tiered", "standard"),
    ),
    "check": Row(
        "report what is wrong with a cluster, and whether balancing would help",
        PLANNERS, "check", "check", states=("original", "balanced"),
    ),
    "compress": Row(
        "find whole groups that can be emptied, and plan the moves that empty one",
        PLANNERS, "plans", "plan", states=PLANNED, traits=[SETS_OFFLINE],
    ),
    "config": Row(
        "show the effective settings, with the origin of each",
        OTHERS, "show", "settings", request="optional", traits=[UNMEASURED],
    ),
    "constraints": Row(
        "list the constraints on placements, with their origin",
        OTHERS, "show", "constraints", request="optional",
    ),
    "explain": Row(
        "explain the answer to a request",
        OTHERS, "explain", "explanation", source=READS_ITSELF, request="needed",
    ),
    "history": Row(
        "list the calls of Ganeti that --capture stored",
        OTHERS, "show", "calls", source=READS_ITSELF,
    ),
    "make-room": Row(
        "plan the few moves of other instances after which a request fits",
        PLANNERS, "plans", "plan", request="optional", states=("original", "roomy"),
    ),
    "place": Row(
        "place the whole cluster again by a strategy of Pacemaker",
        PLANNERS, "plans", "plan", request="optional", states=("original", "placed"),
    ),
    "reboot": Row(
        "plan which nodes can be rebooted together, with moves away and back",
        PLANNERS, "plans", "reboots", states=("original", "rebooted"), traits=[SETS_OFFLINE],
    ),
    "redistribute": Row(
        "plan moves to other groups so that every group is healthy",
        PLANNERS, "plans", "plan", states=PLANNED, traits=[SETS_OFFLINE],
    ),
    "repair": Row(
        "repair instances with offline nodes, as far as their tags allow",
        OTHERS, "repair", "repairs",
    ),
    "replay": Row(
        "run stored requests again, and compare with the stored answers",
        OTHERS, "replay", "outcomes", source=READS_ITSELF,
    ),
    "report": Row(
        "write the state of a cluster as a page for a browser",
        OTHERS, "show", "health", traits=[SETS_OFFLINE],
    ),
    "show": Row(
        "show a cluster: groups, networks, statistics, nodes, instances",
        OTHERS, "show", "cluster", traits=[SETS_OFFLINE],
    ),
    "snapshot": Row(
        "write clusters to files, for all planners and for htools",
        OTHERS, "snapshot", "files", source=READS_ITSELF,
    ),
    "squeeze": Row(
        "plan which nodes to power down, or which standby nodes to power on",
        PLANNERS, "plans", "plan", states=("original", "squeezed"), traits=[LISTS_GROUP],
    ),
}  # fmt: skip
"""Name -> row."""

UNDO = Row("", PLANNERS, "plans", "plan", states=("original", "undone"))
"""The row for ``--undo`` of any command that plans moves: another plan, with the same options."""


def settings_of(name: str) -> type[CommandSettings]:
    """Load the settings of the command `name`."""
    from importlib import import_module

    module = import_module(f"iallocator.commands.{COMMANDS[name].options}")
    settings: type[CommandSettings] = getattr(module, name.title().replace("-", ""))
    return settings


def find_command(arguments: Sequence[str]) -> str:
    """Return the command among `arguments`, or "".

    Options may precede it; the value of an option is not a command.  Which options take a value
    depends on the command: a word is the command if, with its own options, it is no value.
    """
    if not any(word in COMMANDS for word in arguments):
        return ""
    from iallocator.options.table import COMMON

    for word in dict.fromkeys(arguments):
        if word in COMMANDS:
            table = (*settings_of(word).options, *COMMON)  # those that the command rejects, too
            if word in positional_words(arguments, table):
                return word
    return next((word for word in positional_words(arguments) if word in COMMANDS), "")


def check_command(arguments: Sequence[str]) -> None:
    """Check the first word of `arguments`, which contain no command.

    Raises
    ------
    UsageError
        If the word is not a file, and has no slash and no dot: it is probably a mistyped command.
    """
    import os

    word = next(iter(positional_words(arguments)), "-")
    if word in ("", "-") or "/" in word or "." in word or os.path.exists(word.replace("\0", "")):
        return
    from iallocator.names import guesses

    raise UsageError(
        f"{cut(word)}: no such command or file{guesses(word, COMMANDS)}; "
        "iallocator --help lists the commands"
    )


def options_of(name: str) -> Sequence[Option]:
    """Return the options that have an effect on the command `name`: its own, then common ones."""
    from iallocator.commands.common_options import table_of

    own = settings_of(name).options
    return (*own, *table_of(name, own))


def run_command(name: str, arguments: Sequence[str]) -> int:
    """Run the command `name` with `arguments`, its own name among them; return the exit status.

    Raises
    ------
    IallocatorError
        If the program would end with exit status 2.
    """
    from iallocator.commands.common_options import rejection_of

    row = COMMANDS[name]
    settings = settings_of(name)()
    table = options_of(name)
    positional = parse(arguments, settings, table, rejection_of(name, table))
    positional.remove(name)
    if settings.version:
        print(f"iallocator {__version__}")
        return 0
    if settings.help:
        from iallocator.options.table import help_lines

        lines = [f"usage: iallocator {name} {settings.usage}", "", row.summary, ""]
        print("\n".join([*lines, *help_lines(table), ""]), end="")
        return 0
    if path := configuration_path(settings):
        from iallocator.configuration import configure

        files = settings.files_of(positional)
        configure(settings, path, COMMANDS, files, name, table, rejection_of(name, table))
    Voice.quiet = settings.quiet
    if settings.validate:
        from iallocator.commands.runner import validate

        return validate(settings, positional, row.request, table)
    from iallocator.commands.command import Command
    from iallocator.commands.runner import run

    if getattr(settings, "undo", ""):
        name, row = "undo", UNDO
    return run(Command(name, row, settings, positional))
