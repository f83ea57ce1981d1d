"""The table of all options: parser, help, man pages, manual and their tests follow from it."""

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
    file_name,
    name_list,
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

__all__ = ["COMMON", "CommandSettings", "Option", "help_lines", "option", "request_options"]

MOST_STEPS = 10_000
"""System rounds of the placement keys; with more, rounds are less than 0.01 points apart."""

MOST_ROOM = 20
"""Moves of other instances that make room: with more, use a planner."""


class Option:
    """One option.

    Attributes
    ----------
    names:
        As written, long form first: ``("--top",)``.
    target:
        The attribute of the settings that it sets.
    read:
        Text to value; None for a flag, which takes none.
    metavar, help:
        For the help text.
    bare:
        What the option means without a value, if it may stand without; one must then
        be attached: ``-pFIELDS``, ``--print-nodes=FIELDS``.
    repeats:
        Whether the values of every use are collected.
    default:
        The value of the attribute without the option, if a class of settings declares the option.
    """

    __slots__ = ("bare", "default", "help", "metavar", "names", "read", "repeats", "target")

    def __init__(
        self,
        names: str,
        target: str,
        help: str,
        read: Callable[[str], Any] | None = None,
        metavar: str = "",
        bare: str | None = None,
        repeats: bool = False,
        default: Any = None,
    ) -> None:
        self.names = tuple(names.split())
        self.target = target
        self.help = help
        self.read = read
        self.metavar = metavar
        self.bare = bare
        self.repeats = repeats
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        """Set the attribute of the class of settings that declares the option."""
        self.target = name

    @property
    def takes_next(self) -> bool:
        """Return whether the next word is its value if none is attached."""
        return self.read is not None and self.bare is None


def option(
    names: str,
    help: str,
    read: Callable[[str], Any] | None = None,
    metavar: str = "",
    default: Any = None,
    *,
    bare: str | None = None,
    repeats: bool = False,
) -> Any:
    """Declare an option of commands, as the value of an attribute in a class of settings.

    The parameters are those of `Option`, and the default of the attribute. Without `read`, the
    default is False; with `repeats`, it is the empty sequence.
    """
    default = False if read is None else () if repeats else default
    return Option(names, "", help, read, metavar, bare, repeats, default)


class CommandSettings(Settings):
    """The settings of a command: those of all commands, and those of its own options.

    An attribute of a subclass with a value made by `option` declares that option. The value becomes
    its default.

    Attributes
    ----------
    options:
        The options, in the order of the help: those of the base classes, then those of the class.
    usage:
        What follows the name of the command on the usage line.
    """

    options: tuple[Option, ...] = ()
    usage = "[OPTIONS] [FILE]"

    def __init_subclass__(cls) -> None:
        """Collect the options, and set the defaults."""
        own = [one for one in vars(cls).values() if isinstance(one, Option)]
        inherited = (one for base in cls.__bases__ for one in getattr(base, "options", ()))
        cls.options = tuple(dict.fromkeys((*inherited, *own)))
        for one in own:
            setattr(cls, one.target, one.default)

    def check(self, positional: Sequence[str]) -> None:
        """Reject options that contradict each other, and words that are no input of the command.

        Raises
        ------
        UsageError
            Says which.
        """

    @staticmethod
    def files_of(positional: Sequence[str]) -> Sequence[str]:
        """Return those of the words that are files."""
        return positional


COMMON = (
    Option("--n1", "n1", "global N+1: strict, no-worse (default), no-new or off",
           Choice("strict", "no-worse", "no-new", "off"), "MODE"),
    Option("--no-capacity-checks", "n1_off", "disable global N+1; short for --n1 off"),
    Option("--ignore-soft-errors", "ignore_soft_errors",
           "do not enforce soft limits: cpu and spindle ratios, exclusion tags, the reserve of a "
           "node"),
    Option("--ignore-dynu", "ignore_dynu", "ignore dynamic utilisation"),
    Option("--restrict-allocation-to", "restrict_allocation_to",
           "place new instances on these nodes only", name_list, "NODE,..."),
    Option("--static-kvm-node-memory", "static_kvm_node_memory",
           "memory that a kvm node itself needs, in MiB (default 4096; 0: as reported)",
           whole, "MIB"),
    Option("--compat", "compat", "answer exactly as hail, or plan exactly as the program of htools",
           Choice("hail"), "hail"),
    Option("--inter-group", "inter_group",
           "evacuate instances to other groups if their group rejects them: yes or no (default)",
           Choice("yes", "no"), "ANSWER"),
    Option("--exact-search", "exact_search",
           "if greedy placement fails, place all instances at once: yes (default) or no",
           Choice("yes", "no"), "ANSWER"),
    Option("--optimal", "optimal",
           "place all instances of the request with the lowest possible score"),
    Option("--time-limit", "time_limit",
           f"stop after this time with the best result found (default {PLANNING_SECONDS:g}; "
           f"exact searches of requests {SEARCH_SECONDS:g})",
           amount, "SECONDS"),
    Option("--tag-prefix", "tag_prefix",
           "prefix of the tags of iallocator (default iallocator:)", str, "PREFIX"),
    Option("--strategy", "strategy",
           "how acceptable placements are ordered: score (default), lost-allocations, affinity, "
           "pacemaker-default, -utilization, -balanced or -minimal", strategy, "NAME"),
    Option("--stickiness", "stickiness",
           "Pacemaker's strategies: score of the present node, if tags do not set it (default 0)",
           score, "SCORE"),
    Option("--make-room", "make_room",
           "if the request does not fit, report up to N moves after which it fits (default 0: off; "
           "make-room: 3)",
           whole_between(0, MOST_ROOM), "N"),
    Option("--cost", "cost", "limit the data that these moves copy: disks and memory",
    amount, "GIB"),
    Option("--top", "top", "list the N best placements of each group (default 1)",
           whole_between(1), "N"),
    Option("--affinity-overhead", "affinity_overhead",
           "affinity: MiB that a node keeps free beside a new instance (default 1024)",
           whole, "MIB"),
    Option("--initial-msav", "initial_msav",
           "affinity: threshold of the first system round (default 80)", signed, "NUMBER"),
    Option("--final-msav", "final_msav",
           "affinity: threshold of the last round; nodes below it are rejected (default -10)",
           signed, "NUMBER"),
    Option("--msav-steps", "msav_steps",
           "affinity: number of system rounds (default 10; 1: only the last)",
           whole_between(1, MOST_STEPS), "N"),
    Option("--seed", "seed",
           "affinity: choose randomly among equal nodes, with this seed, instead of by name",
           whole, "N"),
    Option("--text-data -t", "text_data",
           "read the cluster from this file in the text format of htools", file_name, "FILE"),
    Option("--ialloc-src -I", "ialloc_src", "read the request from this file, like FILE",
    file_name, "FILE"),
    Option("--luxi -L", "luxi",
           "read the running cluster at this LUXI socket (default: the master's, on this machine)",
           str, "[=SOCKET]", bare=""),
    Option("--rapi --master -m", "rapi",
           "read the running cluster at HOST[:PORT], or stored answers: file://FOLDER",
           file_name, "ADDRESS"),
    Option("--cacert", "cacert", "trust the certificates in this file instead of the system's",
           file_name, "FILE"),
    Option("--insecure", "insecure", "trust every certificate"),
    Option("--credentials", "credentials",
           "file with user and password for RAPI (or use the environment, or a netrc file)",
           file_name, "FILE"),
    Option("--read-timeout", "read_timeout",
           "time limit for reading a running cluster, or its monitoring daemons (default 60)",
           positive, "SECONDS"),
    Option("--simulate", "simulate",
           "use an empty cluster; a group is policy,nodes,disk,memory,cpus[,spindles]; may repeat",
           str, "SPEC", repeats=True),
    Option("--mond", "mond", "query the monitoring daemon of each node for its load: yes or no",
           Choice("yes", "no"), "[=ANSWER]", bare="yes"),
    Option("--mond-data", "mond_data", "read the reports of the monitoring daemons from this file",
           file_name, "FILE"),
    Option("--mond-xen", "mond_xen",
    "use the load of each instance that monitoring daemons on Xen report"),
    Option("--exit-on-missing-mond-data", "exit_on_missing_mond_data",
           "stop with exit status 1 if the report of a daemon is missing"),
    Option("--exclusion-tags", "exclusion_tags",
           "instances with the same tag of these prefixes exclude each other", name_list,
           "PREFIX,..."),
    Option("--max-input", "max_input",
           "limit the uncompressed size of each input file (default 1g)", byte_size, "SIZE"),
    Option("--save-cluster --save -S", "save_cluster",
           "write the states before and after in the text format of htools, to FILE.SUFFIX",
           file_name, "FILE"),
    Option("--print-nodes -p", "print_nodes",
           "print the nodes before and after to stderr; +FIELDS adds fields to the default ones",
           str, "[=FIELDS]", bare=""),
    Option("--print-instances", "print_instances",
           "print the instances before and after to stderr"),
    Option("--log", "log", "write one line about each call to this file, or to the system log",
           file_name, "FILE|syslog"),
    Option("--capture", "capture",
           "store request and answer in this folder, which must exist; see history", file_name,
           "FOLDER"),
    Option("--capture-keep", "capture_keep", "number of calls that are kept (default 500)",
           whole_between(1), "N"),
    Option("--capture-days", "capture_days", "age in days at which a call is deleted (default 30)",
           amount, "DAYS"),
    Option("--config", "config",
           f"read settings from this file instead of {CONFIGURATION} (or ${NAMED_BY})",
           file_name, "FILE"),
    Option("--no-config", "no_config", "read no settings from a file"),
    Option("--validate", "validate",
           "check the input and stop: 'FILE: valid', or all problems on stderr and exit status 2; "
           "with a command and --json, one document with both"),
    Option("--verbose -v", "verbose", "report on stderr what was read"),
    Option("--quiet -q", "quiet", "report only errors on stderr"),
    Option("--version -V", "version", "print the version and exit"),
    Option("--help -h", "help", "print this help and exit"),
)  # fmt: skip
"""The options of requests; a command takes those that have an effect on it."""


def request_options() -> dict[str, Option]:
    """Return the options that requests and tags may set, by the name of their key."""
    options = {option.names[0].removeprefix("--"): option for option in COMMON}
    return {key: options[key] for key in REQUEST_SETTINGS}


COLUMNS = 100
"""The width of a help, in columns."""


def help_lines(table: Sequence[Option]) -> list[str]:
    """Return the help of the options of `table`: aligned, in lines of at most `COLUMNS`."""
    from textwrap import wrap

    left = [
        ", ".join(option.names) + (" " if option.takes_next else "") + option.metavar
        for option in table
    ]
    width = max(map(len, left))
    return [
        line
        for names, option in zip(left, table)
        for line in wrap(
            option.help,
            COLUMNS,
            initial_indent=f"  {names:{width}}  ",
            subsequent_indent=" " * (width + 4),
            break_on_hyphens=False,
        )
    ]
