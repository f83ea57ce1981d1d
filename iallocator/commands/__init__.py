"""The table of the commands that an administrator can run.

A row of the table names two modules: one has the options of the command, the other has the function
that does its work. These modules are loaded when the help of the command is shown, or when the
command is run. `iallocator.commands.runner.run` runs the command of any row.
"""

from __future__ import annotations

from iallocator.errors import UsageError, cut
from iallocator.light import exists
from iallocator.options.parser import options_in, positional_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from iallocator.options.table import CommandSettings, Option

__all__ = [
    "CAMPAIGN", "COMMANDS", "LISTS_GROUP", "OLD_NAMES", "PLAN", "PLANNER_MODULE", "PLANS",
    "PURPOSES", "READS_ITSELF", "SETS_OFFLINE", "UNMEASURED", "Row", "check_command",
    "commands_with", "find_command", "form_of", "options_of", "settings_of", "shown_name",
    "unknown_command",
]  # fmt: skip

ASK, SEE, PLAN, OPERATE, DEVELOP = "ask", "see", "plan", "operate", "develop"

PURPOSES = {
    ASK: "Ask where instances can go",
    SEE: "See a cluster as it is",
    PLAN: "Plan changes of a cluster",
    OPERATE: "Operate nodes and instances",
    DEVELOP: "Develop and test",
}
"""The groups of commands in a help, with their titles."""

HTOOLS = {
    "hail": "iallocator --compat hail FILE", "harep": "iallocator repair",
    "hbal": "iallocator balance", "hcheck": "iallocator check", "hinfo": "iallocator show",
    "hroller": "iallocator reboot", "hscan": "iallocator snapshot",
    "hspace": "iallocator capacity", "hsqueeze": "iallocator squeeze",
}  # fmt: skip
"""A program of htools -> the command line that replaces it."""

PLANNER_MODULE, OTHER_MODULE, MAINTENANCE_MODULE = (
    "planner_options",
    "other_options",
    "maintenance_options",
)
"""The names of the modules with the options of commands."""

READS_ITSELF = "reads-itself"
"""The trait of a command that reads its input itself; for others, the runner reads the cluster."""

SETS_OFFLINE = "sets-offline"
"""The trait of a command for which the nodes of ``--offline`` are set offline after reading."""

LISTS_GROUP = "lists-group"
"""The trait of a command that lists only the nodes and instances of the group of ``--group``."""

UNMEASURED = "unmeasured"
"""The trait of a command that does not ask monitoring daemons for the load of instances."""


CAMPAIGN = "campaign"
"""The trait of a command with a plan that is executed in parts; each part is planned anew first."""


class Row:
    """A command in the table of commands.

    Attributes
    ----------
    purpose:
        The group of the command in a help: one of `PURPOSES`.
    summary:
        What the command does, for the help, in at most 60 letters.
    options:
        The module with the class of settings of the command. The class has the name of the command,
        without hyphens.
    module:
        The module with the function of the command. The function has the name of the command, with
        ``_`` for hyphens. It takes the `Command`, and without `READS_ITSELF` a deadline. It returns
        a `Result`, or with a document of `PLANS` a `PlanResult`, which is verified before it is
        shown. If the module has a function ``follower``, the result of that function is called as
        the jobs of an execution proceed.
    document:
        The type of the document that it returns: a row of `iallocator.render.RENDERERS`.
    request:
        The use of a request in the document: ``needed``, ``optional``, or "" if it is not read.
    states:
        Endings of the files that ``--save-cluster`` writes.
    traits:
        Some of `READS_ITSELF`, `SETS_OFFLINE`, `LISTS_GROUP`, `UNMEASURED` and `CAMPAIGN`.
    """

    __slots__ = (
        "document", "module", "options", "purpose", "request", "states", "summary", "traits",
    )  # fmt: skip

    def __init__(
        self,
        purpose: str,
        summary: str,
        options: str,
        module: str,
        document: str,
        *,
        request: str = "",
        states: Sequence[str] = (),
        traits: Collection[str] = (),
    ) -> None:
        self.purpose = purpose
        self.summary = summary
        self.options = options
        self.module = module
        self.document = document
        self.request = request
        self.states = states
        self.traits = traits


PLANS = ("plan", "reboots", "campaign", "rescue")
"""The types of documents of plans, which are verified before they are shown."""

PLANNED = ("original", "planned")

COMMANDS = {
    "ask": Row(
        ASK, "answer a question about placement, and explain the answer",
        OTHER_MODULE, "explain", "explanation", traits=[READS_ITSELF],
    ),
    "balance": Row(
        PLAN, "plan moves that fix violated constraints and balance load",
        PLANNER_MODULE, "plans", "plan", states=("original", "balanced"), traits=[LISTS_GROUP],
    ),
    "balance-groups": Row(
        PLAN, "plan moves that balance groups on shared storage",
        PLANNER_MODULE, "plans", "plan", states=PLANNED, traits=[SETS_OFFLINE],
    ),
    "capacity": Row(
        ASK, "compute how many more instances fit",
        PLANNER_MODULE, "capacity", "capacity", states=("tiered", "standard"),
    ),
    "check": Row(
        SEE, "report what is wrong, and whether balancing would help",
        PLANNER_MODULE, "check", "check", states=("original", "balanced"),
    ),
    "compress": Row(
        PLAN, "plan moves that empty a whole group",
        PLANNER_MODULE, "plans", "plan", states=PLANNED, traits=[SETS_OFFLINE],
    ),
    "config": Row(
        SEE, "show the effective settings, with their origins",
        OTHER_MODULE, "show", "settings", request="optional", traits=[UNMEASURED],
    ),
    "constraints": Row(
        SEE, "list the constraints on placements, with their origins",
        OTHER_MODULE, "show", "constraints", request="optional",
        traits=[SETS_OFFLINE],
    ),
    "explain": Row(
        ASK, "explain the answer to a request",
        OTHER_MODULE, "explain", "explanation", request="needed", traits=[READS_ITSELF],
    ),
    "history": Row(
        SEE, "list captured calls, or the moves of steady balancing",
        OTHER_MODULE, "show", "calls", traits=[READS_ITSELF],
    ),
    "maintain": Row(
        OPERATE, "take nodes through maintenance, group by group",
        MAINTENANCE_MODULE, "maintain", "campaign", states=("original", "maintained"),
        traits=[SETS_OFFLINE, CAMPAIGN],
    ),
    "make-room": Row(
        PLAN, "plan the few moves after which a request fits",
        PLANNER_MODULE, "plans", "plan", request="optional", states=("original", "roomy"),
        traits=[SETS_OFFLINE],
    ),
    "metrics": Row(
        SEE, "write health and free capacity as metrics for Prometheus",
        PLANNER_MODULE, "metrics", "metrics", traits=[SETS_OFFLINE],
    ),
    "place": Row(
        PLAN, "plan a new placement of all instances, as Pacemaker does",
        PLANNER_MODULE, "plans", "plan", request="optional", states=("original", "placed"),
        traits=[SETS_OFFLINE],
    ),
    "reboot": Row(
        OPERATE, "plan which nodes to reboot together, and the moves",
        PLANNER_MODULE, "plans", "reboots", states=("original", "rebooted"), traits=[SETS_OFFLINE],
    ),
    "redistribute": Row(
        PLAN, "plan moves between groups that make each group healthy",
        PLANNER_MODULE, "plans", "plan", states=PLANNED, traits=[SETS_OFFLINE],
    ),
    "repair": Row(
        OPERATE, "repair instances with offline nodes, as tags allow",
        OTHER_MODULE, "repair", "repairs", traits=[SETS_OFFLINE],
    ),
    "replay": Row(
        DEVELOP, "run stored requests again, and compare the answers",
        OTHER_MODULE, "replay", "outcomes", traits=[READS_ITSELF],
    ),
    "report": Row(
        SEE, "write the state of a cluster as a page for a browser",
        OTHER_MODULE, "show", "health", traits=[SETS_OFFLINE],
    ),
    "rescue": Row(
        OPERATE, "rescue the instances of a dead node: fence, fail over",
        PLANNER_MODULE, "rescue", "rescue", states=("original", "rescued"),
    ),
    "show": Row(
        SEE, "show a cluster, its settings, its rules, or a page",
        OTHER_MODULE, "show", "cluster", traits=[SETS_OFFLINE],
    ),
    "snapshot": Row(
        DEVELOP, "write clusters to files, for planners and htools",
        OTHER_MODULE, "snapshot", "files", traits=[READS_ITSELF],
    ),
    "squeeze": Row(
        PLAN, "plan which nodes to power down, or to power on",
        PLANNER_MODULE, "plans", "plan", states=("original", "squeezed"),
        traits=[LISTS_GROUP, SETS_OFFLINE],
    ),
}  # fmt: skip
"""Name of a command -> its row."""

OLD_NAMES = {
    "config": "show --settings", "constraints": "show --rules", "report": "show --html",
}  # fmt: skip
"""Former command, now a form of ``show`` -> its command line. The row has the former name."""

FORMS = {"settings": "config", "rules": "constraints"}
"""Attribute of the option that chooses a form of ``show`` -> the name of the row of the form."""


def settings_of(name: str) -> type[CommandSettings]:
    """Load the settings of the command `name`."""
    from importlib import import_module

    module = import_module(f"iallocator.commands.{COMMANDS[name].options}")
    settings: type[CommandSettings] = getattr(module, name.title().replace("-", ""))
    return settings


def find_command(arguments: Sequence[str]) -> str:
    """Return the command among `arguments`, or "".

    Options may precede the command; the value of an option is not a command. The options that take
    a value depend on the command. Therefore a word is the command if it is no value of an option
    when the arguments are read with the options of that command.
    """
    if not any(word in COMMANDS for word in arguments):
        return ""
    from iallocator.options.table import COMMON

    for word in dict.fromkeys(arguments):
        if word in COMMANDS:
            table = (*settings_of(word).options, *COMMON)  # COMMON has options that it rejects, too
            if word in positional_words(arguments, table):
                return word
    return next((word for word in positional_words(arguments) if word in COMMANDS), "")


def form_of(name: str, arguments: Sequence[str]) -> tuple[str, list[str]]:
    """Return the name of the row of a command, and `arguments` without an option that names a form.

    Only ``show`` has forms: ``show --settings`` is the row ``config``, and ``show --rules`` is the
    row ``constraints``. For any other command, `name` and all `arguments` are returned.

    Raises
    ------
    UsageError
        If options name two forms.
    """
    words = list(arguments)
    if name != "show":
        return name, words
    table, chosen = options_of(name), set()
    end = words.index("--") if "--" in words else len(words)
    for word in words[:end]:
        for option, value in options_in([word], table):
            if option.target in FORMS:
                words.remove(word)
                if value != "no":
                    chosen.add(option.names[0])
                    name = FORMS[option.target]
    if len(chosen) > 1:
        raise UsageError(" and ".join(sorted(chosen)) + " exclude each other")
    return name, words


def shown_name(name: str) -> str:
    """Return how a command is written now; `name` may be the former name of a form of ``show``."""
    return OLD_NAMES.get(name, name)


def check_command(arguments: Sequence[str]) -> None:
    """Reject `arguments` without a command if their first word is a mistyped command.

    Raises
    ------
    UsageError
        If the word is not a file, and has no slash and no dot: it is probably a mistyped command.
    """
    word = next(iter(positional_words(arguments)), "-")
    if word in ("", "-") or "/" in word or "." in word or exists(word.replace("\0", "")):
        return
    raise UsageError(unknown_command(word))


def unknown_command(word: str) -> str:
    """Return the message that `word` is not a command, and what to use instead."""
    if word in HTOOLS:
        return f"{word}: use {HTOOLS[word]}"
    from iallocator.names import guesses

    return (
        f"{cut(word)}: no such command or file{guesses(word, COMMANDS)}; "
        "iallocator help lists the commands"
    )


def commands_with(name: str) -> list[str]:
    """Return the commands that have the option with this full name, as messages name them."""
    having = (one for one in COMMANDS if any(name in option.names for option in options_of(one)))
    return list(dict.fromkeys(map(shown_name, having)))


def options_of(name: str) -> Sequence[Option]:
    """Return the options that have an effect on the command `name`: its own, then common ones."""
    from iallocator.commands.common_options import table_of

    own = settings_of(name).options
    return (*own, *table_of(name, own))
