"""The settings of the program and the command line they come from.

One table describes every option; it drives the parser, the help text and the
documentation tests.  The parser is our own for two reasons: Ganeti passes flags as
``--flag=`` (with an empty value), and the program must start in milliseconds.
"""

from __future__ import annotations

import os

from iallocator.compat import ways_of
from iallocator.errors import UsageError, cut
from iallocator.files import LIMIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from typing import Any

    from iallocator.compat import Ways

__all__ = [
    "COMMON", "CONFIGURATION", "Option", "Settings", "configuration_path", "help_lines", "parse",
    "positional_words", "unknown", "words_of",
]  # fmt: skip

CONFIGURATION = "/etc/iallocator.conf"
"""Where settings are taken from if nobody names another file; it need not be there."""

NAMED_BY = "IALLOCATOR_CONFIG"
"""The environment variable that names another one; empty: none is read."""


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
    """

    __slots__ = ("bare", "help", "metavar", "names", "read", "repeats", "target")

    def __init__(
        self,
        names: str,
        target: str,
        help: str,
        read: Callable[[str], Any] | None = None,
        metavar: str = "",
        bare: str | None = None,
        repeats: bool = False,
    ) -> None:
        self.names = tuple(names.split())
        self.target = target
        self.help = help
        self.read = read
        self.metavar = metavar
        self.bare = bare
        self.repeats = repeats

    @property
    def takes_next(self) -> bool:
        """Whether the next word is its value if none is attached."""
        return self.read is not None and self.bare is None


MOST_STEPS = 10_000
"""System rounds of the placement keys; more than one a hundredth of a point apart."""

MOST_ROOM = 20
"""Moves of others to make room: more are a plan of their own."""

UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
"""What sizes are written in."""

HIGHEST = 2**53
"""The largest number that an option takes: beyond it, floats skip whole numbers."""


def whole_between(lowest: int, highest: int = HIGHEST) -> Callable[[str], int]:
    """Reads a whole number within these bounds, both included."""

    def read(text: str) -> int:
        digits = text.lstrip("0") or "0"
        known = text.isascii() and text.isdigit() and len(digits) <= len(str(highest))
        if not known or not lowest <= int(digits) <= highest:
            raise ValueError(f"a whole number from {lowest} to {highest}")
        return int(digits)

    return read


whole = whole_between(0)


def number_between(lowest: float, highest: float = HIGHEST) -> Callable[[str], float]:
    """Reads a decimal number within these bounds, both included."""

    def read(text: str) -> float:
        try:
            value = float(text) if set(text) <= set("0123456789.+-eE") else None
        except ValueError:
            value = None
        if value is None or not lowest <= value <= highest:
            raise ValueError(f"a number from {lowest} to {highest}")
        return value

    return read


signed = number_between(-HIGHEST)
amount = number_between(0)
share = number_between(0, 1)


def byte_size(text: str) -> int:
    """Bytes, or KiB, MiB, GiB, TiB with ``k``, ``m``, ``g``, ``t`` after the number."""
    digits = text[:-1] if text[-1:].lower() in UNITS else text
    try:
        return whole_between(1)(digits) * UNITS.get(text[-1:].lower(), 1)
    except ValueError:
        raise ValueError("a size like 500000, 64m or 2g") from None


def name_list(text: str) -> list[str]:
    """Names with commas between them."""
    found = text.split(",")
    if not all(found):
        raise ValueError("names with commas between them")
    return found


def file_name(text: str) -> str:
    """A name that can be opened."""
    if not text or "\0" in text:
        raise ValueError("the name of a file")
    return text


def strategy(text: str) -> str:
    """The name of a strategy; what knows them all loads late."""
    from iallocator.ranking import strategy_name

    return strategy_name(text)


def score(text: str) -> int:
    """A whole number of either sign, or ``INFINITY``, or ``-INFINITY``."""
    from iallocator.tags.pacemaker_scores import read_score

    try:
        return read_score(text)
    except ValueError:
        raise ValueError("a whole number, INFINITY or -INFINITY") from None


def choice(*values: str) -> Callable[[str], str]:
    """One of `values`."""

    def read(text: str) -> str:
        if text not in values:
            raise ValueError("one of " + ", ".join(values))
        return text

    return read


SEARCH_SECONDS = 5.0
"""How long an exact search may take where nothing else is asked for."""


PLANNING_SECONDS = 600.0
"""How long a planner may take where nothing else is asked for."""


class Settings:
    """What a person, Ganeti or the document may choose; attributes are the defaults."""

    ignore_soft_errors: bool = False
    ignore_dynu: bool = False
    n1: str = "no-new"
    compat: str = ""
    static_kvm_node_memory: int = 4096
    restrict_allocation_to: list[str] | None = None
    inter_group: str = "no"
    text_data: str = ""
    ialloc_src: str = ""
    luxi: str | None = None
    rapi: str = ""
    cacert: str = ""
    insecure: bool = False
    credentials: str = ""
    mond: str = ""
    mond_data: str = ""
    mond_xen: bool = False
    exit_on_missing_mond_data: bool = False
    exclusion_tags: Sequence[str] = ()
    simulate: Sequence[str] = ()
    max_input: int = LIMIT
    save_cluster: str = ""
    print_nodes: str | None = None
    print_instances: bool = False
    strategy: str = "score"
    stickiness: int = 0
    exact_search: str = "yes"
    optimal: bool = False
    time_limit: float | None = None
    tag_prefix: str = "iallocator:"
    top: int = 1
    make_room: int = 0
    cost: float | None = None
    affinity_overhead: int = 1024
    initial_msav: float = 80
    final_msav: float = -10
    msav_steps: int = 10
    seed: int | None = None
    log: str = ""
    capture: str = ""
    capture_keep: int = 500
    capture_days: float = 30
    config: str = ""
    no_config: bool = False
    verbose: int = 0
    quiet: bool = False
    validate: bool = False
    version: bool = False
    help: bool = False

    chosen: frozenset[str] = frozenset()
    """The attributes that were set on the command line."""

    origins: Mapping[str, str] = {}
    """Attribute -> where it came from, of those that a file, a request or a tag set."""

    by_group: Mapping[int, Settings] = {}
    """Index of a group -> settings, for groups whose tags ask for other ones."""

    def says(self, *targets: str) -> bool:
        """Whether somebody chose one of these attributes, wherever."""
        return not (self.chosen | self.origins.keys()).isdisjoint(targets)

    @property
    def ways(self) -> Ways:
        """How to answer where programs differ."""
        return ways_of(self.compat)

    @property
    def measures(self) -> bool:
        """Whether monitoring daemons are to say how busy nodes are."""
        return self.mond == "yes" or (bool(self.mond_data) and self.mond != "no")

    @property
    def names_another_cluster(self) -> bool:
        """Whether an option says where the cluster comes from, or how to reach it."""
        return bool(
            self.text_data
            or self.simulate
            or self.luxi is not None
            or self.rapi
            or self.cacert
            or self.insecure
            or self.credentials
        )

    @property
    def searches(self) -> bool:
        """Whether an exact search may follow where placing greedily failed."""
        return self.exact_search == "yes" and self.ways.searches

    @property
    def search_seconds(self) -> float:
        """How long an exact search may take; 0 if there is to be none."""
        if not self.searches:
            return 0.0
        return self.optimum_seconds

    @property
    def planning_seconds(self) -> float:
        """How long a planner may take."""
        return PLANNING_SECONDS if self.time_limit is None else self.time_limit

    @property
    def optimum_seconds(self) -> float:
        """How long the search for an optimum may take, if one is asked for."""
        return SEARCH_SECONDS if self.time_limit is None else self.time_limit


COMMON = (
    Option("--n1", "n1", "global N+1: strict, no-worse, no-new (default) or off",
           choice("strict", "no-worse", "no-new", "off"), "MODE"),
    Option("--no-capacity-checks", "n1_off", "the same as --n1 off"),
    Option("--ignore-soft-errors", "ignore_soft_errors",
           "skip the soft limits: cpu and spindle ratios, exclusion tags, N+1 of the node"),
    Option("--ignore-dynu", "ignore_dynu", "count no dynamic utilisation"),
    Option("--restrict-allocation-to", "restrict_allocation_to",
           "place new instances on these nodes only", name_list, "NODE,..."),
    Option("--static-kvm-node-memory", "static_kvm_node_memory",
           "MiB a kvm node needs for itself (default 4096; 0: as reported)", whole, "MIB"),
    Option("--compat", "compat", "do exactly as hail does, or as the planner of htools",
           choice("hail"), "hail"),
    Option("--inter-group", "inter_group",
           "evacuate to other groups what the local group cannot take: yes or no (default)",
           choice("yes", "no"), "ANSWER"),
    Option("--exact-search", "exact_search",
           "where placing one after the other fails, place all at once: yes (default) or no",
           choice("yes", "no"), "ANSWER"),
    Option("--optimal", "optimal",
           "place all instances of the request so that the score is the lowest there is"),
    Option("--time-limit", "time_limit",
           "end after so many seconds with the best found (default 600; searches of requests 5)",
           amount, "SECONDS"),
    Option("--tag-prefix", "tag_prefix",
           "what our own tags begin with (default iallocator:)", str, "PREFIX"),
    Option("--strategy", "strategy",
           "how acceptable placements are ranked: score (default), lost-allocations, affinity, "
           "pacemaker-default, -utilization, -balanced or -minimal", strategy, "NAME"),
    Option("--stickiness", "stickiness",
           "Pacemaker's: score of an instance where it runs, if its tags do not say (default 0)",
           score, "SCORE"),
    Option("--make-room", "make_room",
           "where it does not fit: say after which N moves of others it would (default 0: off)",
           whole_between(0, MOST_ROOM), "N"),
    Option("--cost", "cost", "which copy this much at most: disks and memory", amount, "GIB"),
    Option("--top", "top", "list the N best placements in each group", whole, "N"),
    Option("--affinity-overhead", "affinity_overhead",
           "affinity: MiB that a node keeps free beside a new instance (default 1024)",
           whole, "MIB"),
    Option("--initial-msav", "initial_msav",
           "affinity: threshold of the first system round (default 80)", signed, "NUMBER"),
    Option("--final-msav", "final_msav",
           "affinity: threshold of the last one, below which nodes are refused (default -10)",
           signed, "NUMBER"),
    Option("--msav-steps", "msav_steps",
           "affinity: how many system rounds (default 10; 1: only the last)",
           whole_between(1, MOST_STEPS), "N"),
    Option("--seed", "seed",
           "affinity: draw among equals, with this number, instead of by name", whole, "N"),
    Option("--text-data -t", "text_data",
           "take the cluster from this file in htools' text format", file_name, "FILE"),
    Option("--ialloc-src -I", "ialloc_src", "the same as FILE", file_name, "FILE"),
    Option("--luxi -L", "luxi",
           "take the running cluster that answers at SOCKET (default: of the master, here)",
           str, "[=SOCKET]", bare=""),
    Option("--rapi --master -m", "rapi",
           "take the running cluster at HOST[:PORT], or what it answered: file://FOLDER",
           file_name, "ADDRESS"),
    Option("--cacert", "cacert", "trust the certificates in this file, not the system's",
           file_name, "FILE"),
    Option("--insecure", "insecure", "trust every certificate"),
    Option("--credentials", "credentials",
           "user and password for RAPI (or in the environment, or in a netrc file)",
           file_name, "FILE"),
    Option("--simulate", "simulate",
           "take an empty cluster, a group of policy,nodes,disk,memory,cpus[,spindles]; may repeat",
           str, "SPEC", repeats=True),
    Option("--mond", "mond", "ask the monitoring daemon of every node how busy it is: yes or no",
           choice("yes", "no"), "[=ANSWER]", bare="yes"),
    Option("--mond-data", "mond_data", "take from this file what the monitoring daemons said",
           file_name, "FILE"),
    Option("--mond-xen", "mond_xen", "how busy each instance is, as the daemons on Xen know"),
    Option("--exit-on-missing-mond-data", "exit_on_missing_mond_data",
           "stop, with exit status 1, if a daemon does not say"),
    Option("--exclusion-tags", "exclusion_tags",
           "instances with the same tag of these prefixes exclude each other", name_list,
           "PREFIX,..."),
    Option("--max-input", "max_input",
           "read no more than this, expanded, of each file (default 1g)", byte_size, "SIZE"),
    Option("--save-cluster --save -S", "save_cluster",
           "write the states before and after in htools' text format, to FILE and an ending",
           file_name, "FILE"),
    Option("--print-nodes -p", "print_nodes",
           "show the nodes before and after on stderr; +FIELDS adds to the usual ones",
           str, "[=FIELDS]", bare=""),
    Option("--print-instances", "print_instances",
           "show the instances before and after on stderr"),
    Option("--log", "log", "write a line about the call to this file, or to the system's log",
           file_name, "FILE|syslog"),
    Option("--capture", "capture",
           "keep request and answer in this folder, which must exist; see history", file_name,
           "FOLDER"),
    Option("--capture-keep", "capture_keep", "how many calls are kept (default 500)",
           whole_between(1), "N"),
    Option("--capture-days", "capture_days", "for how many days calls are kept (default 30)",
           amount, "DAYS"),
    Option("--config", "config",
           f"take settings from this file, not from {CONFIGURATION} (or ${NAMED_BY})",
           file_name, "FILE"),
    Option("--no-config", "no_config", "take no settings from a file"),
    Option("--validate", "validate",
           "check only: 'FILE: valid', or every problem on stderr and exit status 2"),
    Option("--verbose -v", "verbose", "say on stderr what was read"),
    Option("--quiet -q", "quiet", "say nothing on stderr but what is wrong"),
    Option("--version -V", "version", "show the version and stop"),
    Option("--help -h", "help", "show this help and stop"),
)  # fmt: skip
"""Options of requests; commands take those that act there."""


def unknown(name: str, table: Sequence[Option] = COMMON, program: str = "iallocator") -> str:
    """What is wrong with an option that `table` does not have, with those that it may mean."""
    from iallocator.names import guesses

    known = [other for option in table for other in option.names]
    longer = [other for other in known if name.startswith("--") and other.startswith(name)]
    if longer:
        return f"option {name} may be any of {', '.join(longer)}"
    meant = guesses(name, known)
    return f"unknown option {cut(name)}{meant}; {program} --help lists them"


def parse(
    arguments: Sequence[str],
    settings: Settings,
    table: Sequence[Option] = COMMON,
    refusal: Callable[[str], str] = unknown,
) -> list[str]:
    """Fill `settings` from `arguments` and return what is not an option.

    `refusal` says of the name of an option that is not in `table` why it is none.

    Options may stand anywhere, as ``--name=value`` or ``--name value``; a flag may
    carry an empty value, ``yes``, or ``no`` to overrule a file.  ``-nVALUE`` and ``-n=VALUE``
    are the same; a long name may be cut short as long as one option only begins so.  After
    ``--`` nothing is an option; ``-`` never is.

    Raises
    ------
    UsageError
        For an option that is not in `table`, a missing or an unusable value.
    """
    positional: list[str] = []
    chosen: set[str] = set()
    for option, name, value in _words(arguments, table):
        if not name:
            positional.append(value or "")
        elif option is None:
            raise UsageError(refusal(name))
        elif option.read is None:
            _set_flag(settings, option, name, value or "")
        elif value is None:
            raise UsageError(f"{name} needs a value: {option.metavar}")
        else:
            _set_value(settings, option, _read(option, name, value or option.bare or ""))
        if option is not None:
            chosen.add(option.target)
    if getattr(settings, "n1_off", False):
        settings.n1 = "off"
        chosen.add("n1")
    settings.chosen = frozenset(chosen)
    _adopt_compat(settings)
    return positional


def configuration_path(settings: Settings) -> str:
    """The file that completes these settings of the command line; "": none does."""
    if settings.no_config:
        return ""
    named = settings.config or os.environ.get(NAMED_BY)
    if named is not None:
        return named
    return CONFIGURATION if os.path.exists(CONFIGURATION) else ""


def words_of(settings: Settings, targets: Collection[str], table: Sequence[Option]) -> list[str]:
    """The options of `table` that set `targets`, as words with the values that they have."""
    words: list[str] = []
    for option in table:
        if option.target not in targets:
            continue
        name, value = option.names[0], getattr(settings, option.target)
        if option.read is None:
            words += [name] * int(value) if value else [f"{name}=no"]
        elif option.repeats:
            words += [f"{name}={each}" for each in value]
        else:
            text = ",".join(value) if isinstance(value, list) else str(value)
            words.append(f"{name}={text}")
    return words


def positional_words(arguments: Sequence[str], table: Sequence[Option] = COMMON) -> list[str]:
    """What is not an option, nor the value of one in `table`; nothing is complained about."""
    return [value or "" for _, name, value in _words(arguments, table) if not name]


def _words(
    arguments: Sequence[str], table: Sequence[Option]
) -> Iterator[tuple[Option | None, str, str | None]]:
    """Option, its name and its value, one after the other; no name: not an option.

    No option: it is not in `table`; no value: it stands without the one that it needs.
    """
    by_name = {name: option for option in table for name in option.names}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--":
            yield from ((None, "", later) for later in rest)
            return
        if word == "-" or not word.startswith("-"):
            yield None, "", word
            continue
        name, equals, value = word.partition("=")
        if not word.startswith("--") and len(word) > 2:  # -vv, -j4
            name, equals, value = word[:2], "=", word[2:].removeprefix("=")
            if name in by_name and by_name[name].read is None and word[2] != "=":
                rest.insert(0, "-" + word[2:])
                equals = value = ""
        if name not in by_name and name.startswith("--"):
            name = _whole_name(name, by_name)
        option = by_name.get(name)
        if option is not None and option.takes_next and not equals:
            yield option, name, rest.pop(0) if rest else None
        else:
            yield option, name, value


def _whole_name(name: str, by_name: Mapping[str, Option]) -> str:
    """The name of the one option that begins with `name`; `name` itself if there is none."""
    longer = [other for other in by_name if other.startswith(name)]
    return longer[0] if len({id(by_name[other]) for other in longer}) == 1 else name


def _set_flag(settings: Settings, option: Option, name: str, value: str) -> None:
    if value not in ("", "yes", "no"):
        raise UsageError(f"{name} is a flag: yes (as without a value) or no, got {cut(value)!r}")
    if option.target == "verbose":
        settings.verbose = 0 if value == "no" else settings.verbose + 1
    else:
        setattr(settings, option.target, value != "no")


def _set_value(settings: Settings, option: Option, value: Any) -> None:
    if option.repeats:
        value = [*getattr(settings, option.target), value]
    setattr(settings, option.target, value)


def _read(option: Option, name: str, value: str) -> Any:
    assert option.read is not None
    try:
        return option.read(value)
    except ValueError as error:
        raise UsageError(f"{name}: expected {error}, got {cut(value)!r}") from None


def _adopt_compat(settings: Settings) -> None:
    """N+1 is judged as goes with the ways of answering, unless something else is asked for."""
    if not settings.chosen & {"n1", "n1_off"}:
        settings.n1 = settings.ways.n1_mode


def help_lines(table: Sequence[Option]) -> list[str]:
    """The options of `table`, one a line, aligned."""
    left = [
        ", ".join(option.names) + (" " if option.takes_next else "") + option.metavar
        for option in table
    ]
    width = max(map(len, left))
    return [f"  {names:{width}}  {option.help}" for names, option in zip(left, table)]
