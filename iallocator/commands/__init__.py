"""The table of commands, which an administrator runs.

A row names the modules with the options of a command and with the function that does its work. They
are loaded when its help is shown, or when it is run. `iallocator.commands.runner.run` runs every
row.
"""

from __future__ import annotations

from iallocator.errors import UsageError, cut
from iallocator.options.parser import positional_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from iallocator.options.table import CommandSettings, Option

__all__ = [
    "COMMANDS", "LISTS_GROUP", "PLANNERS", "READS_ITSELF", "SETS_OFFLINE", "UNMEASURED", "Row",
    "check_command", "find_command", "options_of", "settings_of",
]  # fmt: skip

PLANNERS, OTHERS = "planner_options", "other_options"
"""The modules with the options of commands."""

READS_ITSELF = "reads-itself"
"""The function of the command reads its input; otherwise the runner reads the cluster."""

SETS_OFFLINE = "sets-offline"
"""The nodes of ``--offline`` are offline as soon as the cluster is read."""

LISTS_GROUP = "lists-group"
"""Lists of nodes and instances show only the group of ``--group``."""

UNMEASURED = "unmeasured"
"""Monitoring daemons are not asked how busy instances are."""


class Row:
    """A command in the table.

    Attributes
    ----------
    summary:
        What the command does, for the help.
    options:
        The module with its class of settings, which is named as the command, without hyphens.
    module:
        The module with the function that does its work, which is named as the command, with ``_``
        for hyphens. It takes the `Command`, and without `READS_ITSELF` a deadline. It returns a
        `Result`, or with the document ``plan`` or ``reboots`` a `PlanResult`, which is verified
        before it is shown. If executions are followed, the module has a ``follower``.
    document:
        The type of the document that it returns: a row of `iallocator.render.RENDERERS`.
    request:
        The use of a request in the document: ``needed``, ``optional``, or "" if it is not read.
    states:
        Endings of the files that ``--save-cluster`` writes.
    traits:
        Some of `READS_ITSELF`, `SETS_OFFLINE`, `LISTS_GROUP` and `UNMEASURED`.
    """

    __slots__ = (
        "document", "module", "options", "request", "states", "summary", "traits",
    )  # fmt: skip

    def __init__(
        self,
        summary: str,
        options: str,
        module: str,
        document: str,
        *,
        request: str = "",
        states: Sequence[str] = (),
        traits: Collection[str] = (),
    ) -> None:
        self.summary = summary
        self.options = options
        self.module = module
        self.document = document
        self.request = request
        self.states = states
        self.traits = traits


PLANNED = ("original", "planned")

COMMANDS = {
    "ask": Row(
        "answer a question about any cluster, and explain the answer; change nothing",
        OTHERS, "explain", "explanation", traits=[READS_ITSELF],
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
        OTHERS, "explain", "explanation", request="needed", traits=[READS_ITSELF],
    ),
    "history": Row(
        "list the calls of Ganeti that --capture stored",
        OTHERS, "show", "calls", traits=[READS_ITSELF],
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
        OTHERS, "replay", "outcomes", traits=[READS_ITSELF],
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
        OTHERS, "snapshot", "files", traits=[READS_ITSELF],
    ),
    "squeeze": Row(
        "plan which nodes to power down, or which standby nodes to power on",
        PLANNERS, "plans", "plan", states=("original", "squeezed"), traits=[LISTS_GROUP],
    ),
}  # fmt: skip
"""Name -> row."""


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
