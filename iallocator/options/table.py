"""The table of all options, from which the parser, the help and the manual are made."""

from __future__ import annotations

from iallocator.options.settings import (
    CONFIGURATION,
    NAMED_BY,
    PLANNING_SECONDS,
    REQUEST_SETTINGS,
    SEARCH_SECONDS,
    Settings,
)
from iallocator.options.values import (
    Choice,
    amount,
    byte_size,
    disk_reserve,
    file_name,
    gibibytes,
    mebibytes,
    name_list,
    number_between,
    positive,
    score,
    signed,
    strategy,
    whole,
    whole_between,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

__all__ = [
    "CLUSTER",
    "COMMON",
    "EXECUTION",
    "LIMITS",
    "OPTION_GROUPS",
    "OUTPUT",
    "SELECTION",
    "TUNING",
    "CommandSettings",
    "Option",
    "option",
    "request_options",
]  # fmt: skip

OPTION_GROUPS = CLUSTER, SELECTION, LIMITS, OUTPUT, EXECUTION, TUNING = (
    "cluster", "selection", "limits", "output", "execution", "tuning",
)  # fmt: skip
"""The groups of options in a help. They are about: the source of the cluster and its condition; the
part that is considered; limits of the result; its output; the execution of a plan; the search."""

MOST_KEY_ROUNDS = 10_000
"""The maximum of the option for the number of rounds in which system placement keys are scored.

With more rounds, two rounds differ by less than 0.01 points."""

MOST_RATIO = 1000
"""The highest memory ratio: MiB that may be allocated for each MiB of a node."""

MOST_ROOM = 20
"""The most moves of other instances with ``--make-room`` of a request; a planner can use more."""


class Option:
    """One option of the command line.

    Attributes
    ----------
    names:
        The names as they are written, long form first: ``("--top",)``.
    target:
        The attribute of the settings that the option sets: by default, the first name.
    read:
        The function from text to value; None for a flag, which has no value.
    metavar, help:
        The name of the value, and the description, in the help.
    bare:
        The value of the option if it is written without a value; None if a value is required. If
        `bare` is not None, a value must be attached: ``-pFIELDS``, ``--print-nodes=FIELDS``.
    repeats:
        Whether the values of repeated uses are collected in a list.
    default:
        The value of the attribute if the option is not given. It is set by `option`, for options
        that a class of settings declares.
    group:
        One of `OPTION_GROUPS`.
    rare:
        Whether a help shows the option only with ``--all``.
    """

    __slots__ = (
        "bare", "default", "group", "help", "metavar", "names", "rare", "read", "repeats", "target",
    )  # fmt: skip

    def __init__(
        self,
        names: str,
        help: str,
        read: Callable[[str], Any] | None = None,
        metavar: str = "",
        bare: str | None = None,
        repeats: bool = False,
        *,
        group: str,
        rare: bool = False,
    ) -> None:
        self.names = tuple(names.split())
        self.target = self.names[0].removeprefix("--").replace("-", "_")
        self.help = help
        self.read = read
        self.metavar = metavar
        self.bare = bare
        self.repeats = repeats
        self.default: Any = None
        self.group = group
        self.rare = rare

    def __set_name__(self, owner: type, name: str) -> None:
        """Use the attribute `name` of the class that declares the option as the target."""
        self.target = name

    @property
    def takes_next(self) -> bool:
        """Return whether the next word is the value of the option if none is attached."""
        return self.read is not None and self.bare is None


def option(
    names: str,
    help: str,
    read: Callable[[str], Any] | None = None,
    metavar: str = "",
    default: Any = None,
    *,
    group: str,
    rare: bool = False,
    bare: str | None = None,
    repeats: bool = False,
) -> Any:
    """Declare an option of commands, as the value of an attribute in a class of settings.

    The parameters are those of `Option`, and the default of the attribute. Without `read`, the
    default is False; with `repeats`, it is the empty sequence.
    """
    one = Option(names, help, read, metavar, bare, repeats, group=group, rare=rare)
    one.default = False if read is None else () if repeats else default
    return one


class CommandSettings(Settings):
    """The settings of a command: the common settings, and those of its own options.

    An attribute of a subclass with a value made by `option` declares that option. The value becomes
    its default.

    Attributes
    ----------
    options:
        The options of the command, in the order of the help: first those of the base classes.
    usage:
        The words after the name of the command on the usage line.
    """

    options: tuple[Option, ...] = ()
    usage = "[OPTIONS] [FILE]"

    def __init_subclass__(cls) -> None:
        """Collect the options that the class declares, and set the defaults of their attributes."""
        own = [one for one in vars(cls).values() if isinstance(one, Option)]
        replaced = {one.target for one in own}
        every = (one for base in cls.__bases__ for one in getattr(base, "options", ()))
        inherited = (one for one in every if one.target not in replaced)
        cls.options = tuple(dict.fromkeys((*inherited, *own)))
        for one in own:
            setattr(cls, one.target, one.default)

    def check(self, positional: Sequence[str]) -> None:
        """Reject options that contradict each other, and words that the command does not accept.

        Raises
        ------
        UsageError
            If there are such options or words; the message names them.
        """

    @staticmethod
    def files_of(positional: Sequence[str]) -> Sequence[str]:
        """Return those of the words `positional` that are names of files."""
        return positional


COMMON = (
    Option("--n1", "global N+1: strict, no-worse (default), no-new or off",
           Choice("strict", "no-worse", "no-new", "off"), "MODE", group=LIMITS),
    Option("--no-capacity-checks", "disable global N+1; short for --n1 off",
           group=LIMITS, rare=True),
    Option("--ignore-soft-errors",
           "do not enforce soft limits: cpu and spindle ratios, exclusion tags, the reserve of a "
           "node", group=LIMITS),
    Option("--ignore-dynu", "ignore dynamic utilisation", group=CLUSTER, rare=True),
    Option("--restrict-allocation-to",
           "place new instances on these nodes only", name_list, "NODE,...", group=SELECTION),
    Option("--static-kvm-node-memory",
           "memory that a kvm node itself needs (default 4096 MiB; 0: as reported); MiB without a "
           "unit", mebibytes, "SIZE", group=CLUSTER, rare=True),
    Option("--compat",
           "answer exactly as hail, or plan exactly as the program of htools; hail-3.0 and "
           "hail-3.1: of that release of Ganeti",
           Choice("hail", "hail-3.0", "hail-3.1"), "hail[-RELEASE]", group=TUNING, rare=True),
    Option("--inter-group",
           "evacuate instances to other groups if their group rejects them: yes or no (default)",
           Choice("yes", "no"), "ANSWER", group=LIMITS),
    Option("--exact-search",
           "if greedy placement fails, place all instances at once: yes (default) or no",
           Choice("yes", "no"), "ANSWER", group=TUNING, rare=True),
    Option("--optimal",
           "place all instances of the request with the lowest possible score; planners: "
           "search longer for the best possible plan and a proof", group=TUNING),
    Option("--time-limit",
           f"stop after this time with the best result found (default {PLANNING_SECONDS:g}; "
           f"exact searches of requests {SEARCH_SECONDS:g})",
           amount, "SECONDS", group=LIMITS),
    Option("--tag-prefix",
           "prefix of the tags of iallocator (default iallocator:)", str, "PREFIX",
           group=CLUSTER, rare=True),
    Option("--strategy",
           "how acceptable placements are ordered: score (default), lost-allocations, affinity, "
           "pacemaker-default, -utilization, -balanced or -minimal", strategy, "NAME",
           group=TUNING),
    Option("--stickiness",
           "what a move of an instance must gain, in units of the score, if its tags do not say it "
           "(default 0); INFINITY: it stays; Pacemaker's strategies: score of the present node",
           score, "SCORE", group=TUNING, rare=True),
    Option("--make-room",
           "if the request does not fit, report up to N moves after which it fits (default 0: off; "
           "make-room: 3)",
           whole_between(0, MOST_ROOM), "N", group=LIMITS),
    Option("--cost",
           "limit the data that these moves copy: disks and memory; GiB without a unit",
           gibibytes, "SIZE", group=LIMITS),
    Option("--top", "list the N best placements of each group (default 1)",
           whole_between(1), "N", group=OUTPUT),
    Option("--memory-ratio",
           "allocate up to N times the memory that nodes have for instances (default 1)",
           number_between(1, MOST_RATIO), "N", group=LIMITS),
    Option("--disk-reserve",
           "disk that stays free on each node: a share such as 10%, or a size in MiB without a "
           "unit (default 0)", disk_reserve, "AMOUNT", group=LIMITS),
    Option("--affinity-overhead",
           "affinity: memory that a node keeps free beside a new instance (default 1024 MiB); MiB "
           "without a unit", mebibytes, "SIZE", group=TUNING, rare=True),
    Option("--initial-msav",
           "affinity: threshold of the first system round (default 80)", signed, "NUMBER",
           group=TUNING, rare=True),
    Option("--final-msav",
           "affinity: threshold of the last round; nodes below it are rejected (default -10)",
           signed, "NUMBER", group=TUNING, rare=True),
    Option("--msav-steps",
           "affinity: number of system rounds (default 10; 1: only the last)",
           whole_between(1, MOST_KEY_ROUNDS), "N", group=TUNING, rare=True),
    Option("--seed",
           "affinity: choose randomly among equal nodes, with this seed, instead of by name",
           whole, "N", group=TUNING, rare=True),
    Option("--text-data -t",
           "read the cluster from this text file of htools", file_name, "FILE",
           group=CLUSTER),
    Option("--ialloc-src -I", "read the request from this file, like FILE",
    file_name, "FILE", group=CLUSTER, rare=True),
    Option("--luxi -L",
           "read the running cluster at this LUXI socket (default: the master's)",
           str, "[=SOCKET]", bare="", group=CLUSTER),
    Option("--rapi --master -m",
           "read the running cluster at HOST[:PORT], or stored answers: file://FOLDER",
           file_name, "ADDRESS", group=CLUSTER),
    Option("--cacert", "trust the certificates in this file instead of the system's",
           file_name, "FILE", group=CLUSTER, rare=True),
    Option("--insecure", "trust every certificate", group=CLUSTER, rare=True),
    Option("--credentials",
           "file with user and password for RAPI (or use the environment, or a netrc file)",
           file_name, "FILE", group=CLUSTER, rare=True),
    Option("--read-timeout",
           "time limit for reading a running cluster, or its monitoring daemons (default 60)",
           positive, "SECONDS", group=CLUSTER, rare=True),
    Option("--volume-groups",
           "read the volume groups of nodes and disks, too, by jobs of the running cluster",
           group=CLUSTER, rare=True),
    Option("--simulate",
           "use an empty cluster; a group is policy,nodes,disk,memory,cpus[,spindles]; may repeat",
           str, "SPEC", repeats=True, group=CLUSTER),
    Option("--mond", "query the monitoring daemon of each node for its load: yes or no",
           Choice("yes", "no"), "[=ANSWER]", bare="yes", group=CLUSTER, rare=True),
    Option("--mond-data", "read the reports of the monitoring daemons from this file",
           file_name, "FILE", group=CLUSTER, rare=True),
    Option("--mond-xen",
    "use the load of each instance that monitoring daemons on Xen report",
    group=CLUSTER, rare=True),
    Option("--exit-on-missing-mond-data",
           "stop with exit status 1 if the report of a daemon is missing",
           group=CLUSTER, rare=True),
    Option("--exclusion-tags",
           "instances with the same tag of these prefixes exclude each other", name_list,
           "PREFIX,...", group=LIMITS, rare=True),
    Option("--max-input",
           "limit the uncompressed size of each input file (default 1g)", byte_size, "SIZE",
           group=CLUSTER, rare=True),
    Option("--save-cluster --save -S",
           "write the states before and after as text files of htools: FILE.SUFFIX",
           file_name, "FILE", group=OUTPUT, rare=True),
    Option("--print-nodes -p",
           "print the nodes before and after to stderr; +FIELDS adds fields to the default ones",
           str, "[=FIELDS]", bare="", group=OUTPUT),
    Option("--print-instances",
           "print the instances before and after to stderr", group=OUTPUT, rare=True),
    Option("--log", "write one line about each call to this file, or to the system log",
           file_name, "FILE|syslog", group=OUTPUT, rare=True),
    Option("--capture",
           "store request and answer in this folder, which must exist; see history", file_name,
           "FOLDER", group=OUTPUT, rare=True),
    Option("--capture-keep", "number of calls that are kept (default 500)",
           whole_between(1), "N", group=OUTPUT, rare=True),
    Option("--capture-days", "age in days at which a call is deleted (default 30)",
           amount, "DAYS", group=OUTPUT, rare=True),
    Option("--config",
           f"read settings from this file instead of {CONFIGURATION} (or ${NAMED_BY})",
           file_name, "FILE", group=TUNING, rare=True),
    Option("--no-config", "read no settings from a file", group=TUNING, rare=True),
    Option("--validate",
           "check the input and stop: 'FILE: valid', or all problems on stderr and exit status 2; "
           "with a command and --json, one document with both", group=OUTPUT, rare=True),
    Option("--verbose -v", "report on stderr what was read", group=OUTPUT),
    Option("--quiet -q", "report only errors on stderr", group=OUTPUT),
    Option("--version -V", "print the version and exit", group=OUTPUT, rare=True),
    Option("--help -h", "print this help and exit", group=OUTPUT),
)  # fmt: skip
"""The options of requests; a command accepts those that have an effect on it."""


def request_options() -> dict[str, Option]:
    """Return the options that requests and tags may set, by the name of their key."""
    options = {option.names[0].removeprefix("--"): option for option in COMMON}
    return {key: options[key] for key in REQUEST_SETTINGS}
