"""The common options that have an effect on each command, and the reasons against others.

A command accepts the options that have an effect on it, and `--help` lists only these. It rejects
every other option with the reason, because an option without an effect misleads. Requests (the call
of Ganeti, without a command) take every common option: Ganeti passes the same parameters to
requests of every type.
"""

from __future__ import annotations

from iallocator.options.parser import unknown
from iallocator.options.table import COMMON, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "REQUESTS", "WHERE", "accepted", "only_accepted", "rejection_of",
    "table_of", "why_not",
]  # fmt: skip

REQUESTS = frozenset({"ask", "config", "explain", "replay"})
"""The commands that answer requests: options of requests have an effect on them."""

BALANCERS = frozenset({"balance", "check"})

INTERGROUP = frozenset({"balance-groups", "compress", "redistribute"})

PLANNERS = (
    frozenset({"capacity", "maintain", "make-room", "place", "reboot", "rescue", "squeeze"})
    | BALANCERS
    | INTERGROUP
)

LISTS = frozenset({"show", "snapshot"})
"""The commands that show data, and decide nothing."""

SHOWN = (
    PLANNERS | LISTS | {"ask", "config", "constraints", "explain", "metrics", "repair", "report"}
)
"""The commands that read one cluster or request, and write a result about it."""

LIKE_HTOOLS = frozenset({"balance", "capacity", "check", "squeeze"})
"""The planners that correspond to a program of htools."""

EVERY = SHOWN | {"replay"}

BY_SCORE = "it uses the score only"
"""The reason of planners that support no other strategy than the score."""

RANKS = "it only ranks the nodes on which an instance fits"

NOT_LISTED = "it changes no constraint"

DECIDES_NOTHING = "it reports the present state, and decides nothing"

Reasons = dict[str, str]
"""Command -> why an option has no effect on it; the key "" has the reason of all other commands."""

WHERE: dict[str, tuple[frozenset[str], Reasons]] = {
    "n1": (
        REQUESTS | PLANNERS | {"metrics", "repair", "report", "show"},
        {"": "no N+1 is among the constraints of an instance"},
    ),
    "no_capacity_checks": (
        REQUESTS | PLANNERS | {"metrics", "repair", "report", "show"},
        {"": "no N+1 is among the constraints of an instance"},
    ),
    "ignore_soft_errors": (
        EVERY - LISTS - {"report", "rescue"},
        {"rescue": "instances of a dead node exceed soft limits anyway", "": DECIDES_NOTHING},
    ),
    "ignore_dynu": (
        REQUESTS | PLANNERS - {"place"} | {"metrics", "repair", "report", "show"},
        {
            "place": "no strategy of Pacemaker uses it",
            "snapshot": DECIDES_NOTHING,
            "": NOT_LISTED,
        },
    ),
    **{
        target: (
            (REQUESTS - {"replay"})
            | BALANCERS
            | INTERGROUP
            | {
                "maintain",
                "make-room",
                "metrics",
                "reboot",
                "repair",
                "report",
                "rescue",
                "show",
                "squeeze",
            },
            {
                "snapshot": "a file cannot contain it",
                "replay": "each case names its own source",
                "capacity": "there is no measured load of instances that do not exist",
                "place": "no strategy of Pacemaker uses it",
                "": NOT_LISTED,
            },
        )
        for target in ("mond", "mond_data", "mond_xen", "exit_on_missing_mond_data")
    },
    "exclusion_tags": (EVERY - {"snapshot"}, {"": DECIDES_NOTHING}),
    "restrict_allocation_to": (
        REQUESTS | INTERGROUP | {"capacity", "constraints", "make-room", "metrics", "place"},
        {"": "it places no new instances"},
    ),
    "static_kvm_node_memory": (EVERY - {"constraints"}, {"": NOT_LISTED}),
    "compat": (
        REQUESTS | LIKE_HTOOLS | {"show"},
        {
            "constraints": NOT_LISTED,
            "snapshot": "it writes in the order in which it reads",
            "": "none of htools' programs does the same",
        },
    ),
    "inter_group": (
        REQUESTS | INTERGROUP | {"make-room"},
        {"constraints": NOT_LISTED, "": "it moves no instance to another group"},
    ),
    "exact_search": (
        REQUESTS
        | {"capacity", "compress", "make-room", "metrics", "place", "redistribute", "squeeze"},
        {
            "constraints": "it searches nothing",
            "": "it moves one instance after the other",
        },
    ),
    "optimal": (
        REQUESTS
        | {"capacity", "compress", "maintain", "place", "reboot", "redistribute", "squeeze"},
        {
            "balance": "its plan states the distance to a lower bound of the score",
            "": "it searches for no optimum",
        },
    ),
    "time_limit": (
        REQUESTS | PLANNERS | {"metrics", "repair", "report", "show"},
        {"": "it searches nothing"},
    ),
    "tag_prefix": (EVERY - {"snapshot"}, {"": DECIDES_NOTHING}),
    "strategy": (
        REQUESTS | INTERGROUP | {"capacity", "constraints", "make-room", "place"},
        {"": BY_SCORE},
    ),
    "stickiness": (
        REQUESTS | PLANNERS - {"capacity", "maintain", "reboot", "rescue"} | {"constraints"},
        {
            "capacity": "instances that do not exist have no present node",
            "maintain": "every instance must leave a node that is maintained",
            "reboot": "every instance must leave a node that reboots, and returns",
            "rescue": "it must move these instances",
            "repair": "it must move these instances",
            "": DECIDES_NOTHING,
        },
    ),
    "memory_ratio": (EVERY - {"snapshot"}, {"": DECIDES_NOTHING}),
    "disk_reserve": (
        EVERY - {"snapshot", "balance-groups", "rescue"},
        {
            "balance-groups": "it moves only instances on shared storage",
            "rescue": "instances of a dead node exceed soft limits anyway",
            "": DECIDES_NOTHING,
        },
    ),
    "make_room": (REQUESTS | {"make-room"}, {"": "only a request may not fit"}),
    "cost": (
        REQUESTS | BALANCERS | {"balance-groups", "make-room"},
        {
            "compress": "a group that is emptied in part gives nothing back",
            "redistribute": "a group that is repaired in part is still unhealthy",
            "place": "a part of its plan may break limits that the whole plan keeps",
            "maintain": "nodes are emptied as a whole",
            "reboot": "nodes are emptied as a whole",
            "squeeze": "nodes are emptied as a whole",
            "repair": "it repairs every instance that tags allow: --group limits the repairs",
            "rescue": "it rescues every instance of the node",
            "": "it plans no moves",
        },
    ),
    "top": (
        REQUESTS,
        {"constraints": "nothing is ranked there", "": "a plan is one answer, not a ranked list"},
    ),
    "text_data": (SHOWN, {"": "each case names its own source"}),
    **{
        target: (SHOWN, {"": "each case names its own source"})
        for target in (
            "simulate",
            "ialloc_src",
            "luxi",
            "rapi",
            "cacert",
            "insecure",
            "credentials",
            "read_timeout",
            "volume_groups",
        )
    },
    "validate": (
        SHOWN - {"ask", "snapshot"},
        {"replay": "every case is one document of its own", "": "it reads what the others check"},
    ),
    "max_input": (EVERY | {"history"}, {}),
    "verbose": (EVERY | {"history"}, {}),
    "quiet": (EVERY | {"history"}, {}),
    "log": (frozenset({"config", "metrics"}), {"": "only requests are logged and captured"}),
    "capture": (
        frozenset({"capacity", "config", "metrics"}),
        {"": "only requests are logged and captured"},
    ),
    **{
        target: (frozenset({"config"}), {"": "only requests are logged and captured"})
        for target in ("capture_keep", "capture_days")
    },
    "config": (EVERY | {"history"}, {}),
    "no_config": (EVERY | {"history"}, {}),
    "version": (EVERY | {"history"}, {}),
    "help": (EVERY | {"history"}, {}),
}
"""Attribute of the settings -> the commands on which it has an effect, and reasons for others.

The reasons map a command, or "" for all other commands, to the reason. An option without an entry
has an effect only on requests, by `IN_REQUESTS`.
"""

IN_REQUESTS: tuple[frozenset[str], Reasons] = (
    REQUESTS,
    {"": "it affects only the answer to a request"},
)
"""The entry of an option that is not in `WHERE`."""

WHERE["affinity_overhead"] = (
    REQUESTS | INTERGROUP | {"constraints", "make-room"},
    {"place": "placement keys do not count there", "": BY_SCORE},
)

AFFINITY_TARGETS = ("initial_msav", "msav_steps", "seed")
WHERE |= {
    target: (
        REQUESTS | INTERGROUP,
        {
            "constraints": NOT_LISTED,
            "place": "placement keys do not count there",
            "make-room": RANKS,
            "": BY_SCORE,
        },
    )
    for target in AFFINITY_TARGETS
}
WHERE["final_msav"] = (
    REQUESTS | INTERGROUP | {"make-room"},
    {"constraints": NOT_LISTED, "place": "placement keys do not count there", "": BY_SCORE},
)

WHERE |= {
    target: (
        PLANNERS | (frozenset() if target == "save_cluster" else LISTS),
        {
            "ask": "it explains an answer and shows no state",
            "explain": "it explains an answer and shows no state: ask for the answer itself",
            "replay": "it compares answers: store the option with a case",
            "report": "the page shows them",
            "": "it changes no state",
        },
    )
    for target in ("save_cluster", "print_nodes", "print_instances")
}

for _commands, _reasons in WHERE.values():
    if "history" not in _commands:
        _reasons["history"] = "it lists calls and answers none"


def table_of(command: str, own: Sequence[Option] = ()) -> tuple[Option, ...]:
    """Return the common options with an effect on `command`.

    A common option loses each name that one of the command's `own` options has.
    """
    used_names = {name for option in own for name in option.names}
    options: list[Option] = []
    for option in COMMON:
        if not accepted(command, option) or used_names.issuperset(option.names):
            continue
        if used_names.isdisjoint(option.names):
            options.append(option)
            continue
        names = " ".join(name for name in option.names if name not in used_names)
        other = Option(
            names, option.help, option.read, option.metavar, option.bare, option.repeats,
            group=option.group, rare=option.rare,
        )  # fmt: skip
        other.target = option.target
        options.append(other)
    return tuple(options)


NO_MOVES = "it plans no moves"

NOTHING_EXECUTED = "it has no plan that could be executed"

NO_BALANCING = "it does not balance the load of nodes"

OF_POLICY = "it uses the limit of the policy"

CASES = "each case is stored with its own options"

NOT_AWAY = {"": "it takes no nodes out of service for a while"}

EXECUTED = {"": NOTHING_EXECUTED}

BALANCED = {"": NO_BALANCING}

HISTORIES = {"": "balance --steady keeps a history of loads, capacity --history one of totals"}

LACKED: dict[str, Reasons] = {
    "--json": {
        "replay": "--junit is its form for programs",
        "report": "a page is for a browser: show --json has the data",
        "snapshot": "--form json is its form for programs",
    },
    "--html": {
        "config": "a list of settings is text",
        "constraints": "a list of constraints is text",
        "history": "a list of calls is text",
        "metrics": "metrics are text for Prometheus",
        "replay": "--junit is its form for other programs",
        "snapshot": "it writes data, and show --html writes a page",
    },
    "--metrics": {
        "": "check and metrics write the health, capacity the free capacity, balance and "
        "maintain the moves"
    },
    "--standard-alloc": {"": "it places no new instances that options describe"},
    "--bandwidth": {"": "its page has no transition with a duration"},
    "--graph": {"repair": "--dry-run prints its steps", "": NO_MOVES},
    "--print-commands -C": {
        "ask": "Ganeti itself submits the jobs of an answer",
        "explain": "Ganeti itself submits the jobs of an answer",
        "repair": "--dry-run prints its jobs",
        "": NO_MOVES,
    },
    "--verify-plan": {"repair": "each repair is a plan of its own", "": NO_MOVES},
    "--undo": {
        "maintain": "the journal of a group is undone by iallocator balance -L --undo JOURNAL",
        "repair": "a journal of repair is undone by iallocator balance -L --undo JOURNAL",
        "": NO_MOVES,
    },
    "--group -G": {
        "rescue": "NODE is in one group",
        "snapshot": "a file of one group would lack what the groups share",
    },
    "--offline -O": {
        "config": "no setting depends on the state of a node",
        "rescue": "NODE counts as offline; mark others with gnt-node modify --offline=yes",
    },
    "--max-cpu": {"": OF_POLICY},
    "--min-disk": {"": "it leaves the reserve of the nodes free, and no other share"},
    "--dynu-file -U": {
        "ask": "requests use the load of monitoring daemons (--mond-data)",
        "explain": "requests use the load of monitoring daemons (--mond-data)",
        "": "it does not distribute instances by their measured load",
    },
    "--max-length -l": {
        "ask": "a request moves as many instances as it names",
        "explain": "a request moves as many instances as it names",
        "compress": "a group that is emptied in part gives nothing back",
        "make-room": "--make-room N limits the moves",
        "place": "a part of its plan may break limits that the whole plan keeps",
        "maintain": "nodes are emptied as a whole: --only limits the plan",
        "reboot": "nodes are emptied as a whole: --one-step-only limits the plan",
        "redistribute": "a group that is repaired in part is still unhealthy",
        "repair": "it repairs every instance that tags allow: --group limits the repairs",
        "rescue": "it rescues every instance of the node",
        "squeeze": "nodes are emptied as a whole",
        "": NO_MOVES,
    },
    "--min-gain -g": {"": NO_BALANCING},
    **dict.fromkeys(
        ("--history", "--now"),
        HISTORIES,
    ),
    "--machine-readable": {"": "the program of htools has no such form, or there is none"},
    "--boot-timeout": {"": "it neither powers on nor reboots nodes"},
    "--master-node": {"": "it neither powers down nor reboots nodes, and rescues none"},
    **dict.fromkeys(
        (
            "--full-evacuation", "--skip-non-redundant", "--ignore-non-redundant", "--node-tags",
            "--force -f",
        ),
        NOT_AWAY,
    ),
    "--request": {
        "ask": "the words of the question are its request",
        "": "it answers no request",
    },
    "--instance": {"": "it has no part about one instance that could be shown alone"},
    "--node": {"": "it has no part about one node that could be shown alone"},
    "--brief": {"": "it has no short form"},
    "--all": {
        "squeeze": "its --all is short for --all-instances; --all-rows prints all rows",
        "": "nothing is left out that --all could add",
    },
    "--no-headers": {"": "it leaves out the titles of text tables: --json is for programs"},
    "--disk-template": {"": "it places no new instances that options describe"},
    "--spindle-use": {"": "it places no new instances that options describe"},
    **dict.fromkeys(
        (
            "--exec -X", "--dry-run", "--journal", "--resume", "--done-by-hand", "--ahead",
            "--first-job-group", "--assume-offline", "--reason", "--priority",
        ),
        EXECUTED,
    ),
    **dict.fromkeys(
        (
            "--evac-mode -E", "--restricted-migration", "--no-disk-moves", "--no-instance-moves",
            "--select-instances", "--exclude-instances", "--min-score -e", "--min-gain-limit",
            "--lookahead",
        ),
        BALANCED,
    ),
}  # fmt: skip
"""Names of an option of several commands -> the reasons of the commands that do not have it.

The key "" has the reason of all commands that are not listed.
"""


def accepted(command: str, option: Option) -> bool:
    """Return whether the common `option` has an effect on `command`."""
    return command in WHERE.get(option.target, IN_REQUESTS)[0]


def rejection_of(
    command: str,
    table: Sequence[Option],
    shown: str,
    commands_with: Callable[[str], Sequence[str]],
) -> Callable[[str], str]:
    """Return a function that makes the message for an option that `command` does not have.

    Its argument is the name of the option. `table`: the options of the command; `shown`: the
    command in messages; `commands_with` returns the commands that have an option of this full name.
    """

    def rejection(name: str) -> str:
        own = {other for option in table for other in option.names}
        known = {name for option in COMMON for name in option.names}
        known.update(*(names.split() for names in LACKED))
        owners = [] if name in own | known else commands_with(name)
        if owners:
            have = (
                f"only {owners[0]} has it" if len(owners) == 1 else f"{', '.join(owners)} have it"
            )
            if "--request" in own and "ask" in owners:
                have += f"; --request 'allocate {name} ...' has it, too"
            return f"{shown} takes no {name}: {have}"
        longer = [other for other in own | known if other.startswith(name)]
        if name not in known and len(longer) == 1 and name.startswith("--"):
            name = longer[0]
        if name not in known - own:
            return unknown(name, table, shown)
        return f"{shown} takes no {name}: {why_not(command, name)}"

    return rejection


def why_not(command: str, name: str) -> str:
    """Return why `command` does not have the option `name`, which another command has."""
    option = next((one for one in COMMON if name in one.names), None)
    lacked: Reasons = next((LACKED[names] for names in LACKED if name in names.split()), {})
    if command == "history" and name != "--html":
        return "it lists calls and answers none"
    if command == "replay" and command not in lacked:
        common = {} if option is None else WHERE.get(option.target, IN_REQUESTS)[1]
        return common.get(command) or CASES
    if lacked:
        return lacked.get(command) or lacked[""]
    assert option is not None
    reasons = WHERE.get(option.target, IN_REQUESTS)[1]
    return reasons.get(command) or reasons[""]


def only_accepted(command: str, words: Sequence[str]) -> list[str]:
    """Return the `words` that have an effect on `command`; a word is an option with its value."""
    names = {name for option in table_of(command) for name in option.names}
    return [word for word in words if word.partition("=")[0] in names]
