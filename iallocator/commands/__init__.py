"""The table of commands: what a person can ask for besides the answer to a request.

A row is a subclass of `iallocator.commands.command.Command`; the function `run` in
`iallocator.commands.runner` runs every row.
"""

from __future__ import annotations

from iallocator import __version__
from iallocator.errors import UsageError, Voice, cut
from iallocator.options.parser import parse, positional_words
from iallocator.options.settings import configuration_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.commands.command import Command
    from iallocator.options.table import Option

__all__ = [
    "COMMANDS", "check_command", "command_of", "find_command", "options_of", "run_command",
]  # fmt: skip

COMMANDS = {
    "ask": "what the answer to a question would be, and why, on any cluster; nothing is touched",
    "balance": "which instances to move: broken musts first, then all nodes carry their share",
    "balance-groups": "which instances to move so that groups on shared storage carry their share",
    "capacity": "how many more instances fit, with N+1 kept",
    "check": "what is wrong with the cluster, and whether balancing would help",
    "compress": "which whole groups could be emptied, and the moves that empty one",
    "config": "the settings that count for a document, and where each came from",
    "constraints": "what binds the placements of a document, and where it comes from",
    "explain": "why the answer to a request is what it is",
    "history": "what Ganeti asked and was told: the calls that --capture kept",
    "make-room": "the few moves of others after which a request that finds no room fits",
    "place": "the whole cluster placed anew by one of Pacemaker's strategies",
    "reboot": "which nodes can be rebooted together, and what moves away and back",
    "redistribute": "which instances to move to other groups so that every group is healthy",
    "repair": "instances whose nodes are offline, repaired as far as their tags allow",
    "replay": "run stored requests again and compare with the stored answers",
    "report": "a cluster as it is, as a page for a browser",
    "show": "a cluster as it is: groups, networks, statistics, nodes, instances",
    "snapshot": "clusters as files, for every planner and for htools",
    "squeeze": "which nodes to power down, or which standby nodes to power on",
}
"""Name -> summary.  The class is called as the command, without hyphens."""

MODULES = {
    "ask": "explain",
    "balance-groups": "between_groups",
    "compress": "between_groups",
    "make-room": "make_room",
    "redistribute": "between_groups",
    "report": "show",
}
"""Name -> the module with its class, if the module is not called as the command."""


def command_of(name: str) -> type[Command]:
    """Load the class of the command `name`."""
    from importlib import import_module

    module = import_module(f"iallocator.commands.{MODULES.get(name, name)}")
    found: type[Command] = getattr(module, name.title().replace("-", ""))
    return found


def find_command(arguments: Sequence[str]) -> str:
    """Return the command among `arguments`, or "".

    Options may stand before it; the value of an option that takes one is no command.  Which
    take one, the options of the command itself included, is known only once it is found: a
    word is the command if its own options leave it where it stands.
    """
    if not any(word in COMMANDS for word in arguments):
        return ""
    from iallocator.options.table import COMMON

    for word in dict.fromkeys(arguments):
        if word in COMMANDS:
            table = (*command_of(word).options, *COMMON)  # those that the command rejects, too
            if word in positional_words(arguments, table):
                return word
    return next((word for word in positional_words(arguments) if word in COMMANDS), "")


def check_command(arguments: Sequence[str]) -> None:
    """Complain if the first word of `arguments`, among which is no command, looks like one.

    Raises
    ------
    UsageError
        If it is neither a file nor written like one, with a slash or a dot.
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
    """Return the options that act in the command `name`: its own, then the common ones."""
    from iallocator.commands.common_options import table_of

    own = command_of(name).options
    return (*own, *table_of(name, own))


def run_command(name: str, arguments: Sequence[str]) -> int:
    """Run the command `name` with `arguments`, its own name among them; return the exit status.

    Raises
    ------
    IallocatorError
        Where the program would end with exit status 2.
    """
    from iallocator.commands.common_options import rejection_of

    command = command_of(name)
    settings = command.settings_type()
    table = options_of(name)
    positional = parse(arguments, settings, table, rejection_of(name, table))
    positional.remove(name)
    if settings.version:
        print(f"iallocator {__version__}")
        return 0
    if settings.help:
        from iallocator.options.table import help_lines

        lines = [f"usage: iallocator {name} {command.usage}", "", COMMANDS[name], ""]
        print("\n".join([*lines, *help_lines(table), ""]), end="")
        return 0
    if path := configuration_path(settings):
        from iallocator.configuration import configure

        files = command.files_of(positional)
        configure(settings, path, COMMANDS, files, name, table, rejection_of(name, table))
    Voice.quiet = settings.quiet
    if settings.validate:
        from iallocator.commands.validation import request_of, validate

        return validate(settings, positional, request_of(name), table)
    from iallocator.commands.runner import run

    return run(command(name, settings, positional))
