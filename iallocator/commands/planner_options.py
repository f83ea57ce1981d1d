"""Define the options of the commands that plan changes.

The class with the options of a command has the name of the command. `iallocator.commands.usage` has
the texts of the manual pages, with the exit statuses.
"""

from __future__ import annotations

from iallocator.commands.shared_options import (
    ALL,
    BANDWIDTH,
    BOOT,
    DYNU,
    GROUP,
    HTML,
    MAX_CPU,
    METRICS,
    MIN_DISK,
    OFFLINE,
    Planning,
    json_of,
)
from iallocator.errors import UsageError, cut
from iallocator.model.templates import TEMPLATES
from iallocator.options.table import (
    EXECUTION,
    LIMITS,
    OUTPUT,
    SELECTION,
    TUNING,
    CommandSettings,
    option,
)  # fmt: skip
from iallocator.options.values import (
    Choice,
    amount,
    file_name,
    gibibytes,
    name_list,
    number_between,
    whole,
    whole_between,
)
from iallocator.tolerances import LEAST_GAIN, LEAST_GAIN_FROM, LEAST_SCORE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.sources.hypothetical import Purchase

__all__ = [
    "Balance", "BalanceGroups", "Balancing", "BetweenGroups", "Capacity", "Check", "Compress",
    "MakeRoom", "Metrics", "NodesAway", "Place", "Reboot", "Redistribute", "Rescue",
    "Squeeze", "StandardSize",
]  # fmt: skip


def yes_or_no(text: str) -> bool:
    """Return True for ``yes`` and False for ``no``."""
    if text not in ("yes", "no"):
        raise ValueError("yes or no")
    return text == "yes"


def instance_size(text: str) -> tuple[int, ...]:
    """Parse disk (MiB), memory (MiB), virtual cpus, and spindles (default 1) of an instance."""
    from iallocator.sources.lines import whole
    from iallocator.sources.simulate import parse_size

    fields = text.split(",")
    numbers = [parse_size(field) for field in fields[:2]]
    counts = [whole(field) for field in fields[2:]]
    amounts = [number for number in (*numbers, *counts) if number is not None]
    if len(amounts) != len(fields) or len(fields) not in (3, 4):
        raise ValueError("disk,memory,cpus[,spindles] like 20g,2g,1")
    return (*amounts, 1)[:4]


def reject_master_node(settings: CommandSettings, positional: Sequence[str]) -> None:
    """Reject ``--master`` beside another source of the cluster.

    Until version 0.1, ``--master`` named the master node; now it is the address of RAPI.

    Raises
    ------
    UsageError
        If both are given; the message names the present option for the master node.
    """
    elsewhere = settings.text_data or settings.simulate or settings.luxi is not None
    if "rapi" in settings.chosen and (positional or settings.ialloc_src or elsewhere):
        raise UsageError(
            "one cluster at most: --master is the address of RAPI, as in htools; "
            f"for the master node, write --master-node {cut(settings.rapi)}"
        )


class Balancing(CommandSettings):
    """The options of a balancing: which moves it makes, and when it stops."""

    group: str = ""
    all_groups: bool = False

    evac_mode: bool = option(
        "--evac-mode -E", "only move instances off offline and drained nodes", group=SELECTION
    )
    restricted_migration: bool = option(
        "--restricted-migration",
        "migrate only off drained nodes, never there and back",
        group=LIMITS,
        rare=True,
    )
    no_disk_moves: bool = option(
        "--no-disk-moves", "copy no disks: only migrate and fail over", group=LIMITS
    )
    no_instance_moves: bool = option(
        "--no-instance-moves", "only replace secondaries", group=LIMITS
    )
    select_instances: list[str] | None = option(
        "--select-instances", "move only these instances", name_list, "NAME,...", group=SELECTION
    )
    exclude_instances: Sequence[str] = option(
        "--exclude-instances",
        "do not move these instances",
        name_list,
        "NAME,...",
        (),
        group=SELECTION,
    )
    dynu_file: str = DYNU
    max_cpu: float | None = MAX_CPU
    min_disk: float = MIN_DISK
    offline: Sequence[str] = OFFLINE
    max_length: int | None = option(
        "--max-length -l", "largest number of moves", whole, "N", group=LIMITS
    )
    min_score: float = option(
        "--min-score -e", "stop at this distance above the lowest possible score", amount, "SCORE",
        LEAST_SCORE, group=LIMITS, rare=True,
    )  # fmt: skip
    min_gain: float = option(
        "--min-gain -g",
        "smallest gain of a move (default 0.01)",
        amount,
        "GAIN",
        LEAST_GAIN,
        group=LIMITS,
        rare=True,
    )
    min_gain_limit: float = option(
        "--min-gain-limit", "apply --min-gain only below this score (default 0.1)", amount, "SCORE",
        LEAST_GAIN_FROM, group=LIMITS, rare=True,
    )  # fmt: skip
    lookahead: bool = option(
        "--lookahead", "no effect (accepted until version 2.0)",
        group=TUNING, rare=True,
    )  # fmt: skip
    cost: float | None = option(
        "--cost",
        "limit the data that is copied: disks and memory; GiB without a unit",
        gibibytes,
        "SIZE",
        group=LIMITS,
    )


def utc_time(text: str) -> float:
    """Parse a time with its zone by RFC 3339, like 2026-01-02T03:10:00Z, in any case."""
    from datetime import datetime

    try:
        parsed = datetime.fromisoformat(text.upper())
    except ValueError:
        parsed = None
    if parsed is None or parsed.tzinfo is None or not 1 < parsed.year < 9999:
        raise ValueError("a time with its zone, like 2026-01-02T03:10:00Z")
    return parsed.timestamp()


def hours_of_day(text: str) -> tuple[int, int]:
    """Parse two hours of the day, like ``0-6``, which becomes (0, 6)."""
    first, _, last = text.partition("-")
    if not (first.isascii() and first.isdigit() and last.isascii() and last.isdigit()):
        raise ValueError("two hours of the day (UTC), like 0-6")
    if not (int(first) < 24 and int(last) <= 24 and int(first) != int(last)):
        raise ValueError("two different hours of the day (UTC), like 0-6")
    return int(first), int(last)


LOADS_FOLDER = "/var/lib/iallocator/loads"
"""The default folder of the history of loads."""

WATCH_FOLDER = "/var/lib/iallocator/rescue"
"""The default folder for the state of ``rescue --watch``, and for the journals of its rescues."""


class Steady(CommandSettings):
    """The options of steady balancing."""

    steady: bool = option(
        "--steady",
        "balance by the history of measured loads, with few moves; for a timer",
        group=TUNING,
    )
    history: str = option(
        "--history",
        f"with --steady: the folder of the history (default {LOADS_FOLDER})",
        file_name, "FOLDER", LOADS_FOLDER, group=TUNING,
    )  # fmt: skip
    now: float | None = option(
        "--now",
        "with --steady: when the loads were measured (default: the clock)",
        utc_time, "TIME", group=TUNING, rare=True,
    )  # fmt: skip
    shadow: bool = option(
        "--shadow", "with --steady: report the moves, and plan none", group=TUNING
    )
    least_history: float = option(
        "--least-history",
        "with --steady: hours that the history must cover before a move; each sample covers the "
        "time until the next one (default 24)",
        number_between(1, 168), "HOURS", 24.0, group=TUNING, rare=True,
    )  # fmt: skip
    hold: float = option(
        "--hold",
        "with --steady: hours for which an imbalance must have lasted (default 3)",
        number_between(0, 168), "HOURS", 3.0, group=TUNING, rare=True,
    )  # fmt: skip
    steady_gain: float = option(
        "--steady-gain",
        "with --steady: gain of a move in the expected deviation of the cpu load of nodes, in "
        "percent of a node, times the number of nodes (default 4)",
        number_between(0, 100), "PERCENT", 4.0, group=TUNING, rare=True,
    )  # fmt: skip
    gib_cost: float = option(
        "--gib-cost",
        "with --steady: gain that a move needs in addition for each GiB that it copies, in "
        "percent of a node, times the number of nodes (default 0.01)",
        number_between(0, 100), "PERCENT", 0.01, group=TUNING, rare=True,
    )  # fmt: skip
    hourly_moves: int = option(
        "--hourly-moves",
        "with --steady: maximum of moves in an hour (default 6)",
        whole_between(1, 1000), "N", 6, group=TUNING, rare=True,
    )  # fmt: skip
    nightly_moves: int = option(
        "--nightly-moves",
        "with --steady: maximum of moves in 12 hours (default 15)",
        whole_between(1, 10_000), "N", 15, group=TUNING, rare=True,
    )  # fmt: skip
    hours: tuple[int, int] = option(
        "--hours",
        "with --steady: hours of the day (UTC) in which it balances (default 0-6)",
        hours_of_day, "FROM-TO", (0, 6), group=TUNING, rare=True,
    )  # fmt: skip
    rest_days: float = option(
        "--rest-days",
        "with --steady: days for which an instance stays after a move (default 3)",
        number_between(0, 3.5), "DAYS", 3.0, group=TUNING, rare=True,
    )  # fmt: skip
    overload: float = option(
        "--overload",
        "with --steady: relieve nodes above this share of their cpus at any hour (default 0.9). "
        "While the history is shorter than --least-history, two standard deviations of the samples "
        "are added to the load of each node",
        number_between(0.1, 100), "SHARE", 0.9, group=TUNING, rare=True,
    )  # fmt: skip
    nodes_offline: int = option(
        "--nodes-offline",
        "with --steady: move nothing in a group with more offline or drained nodes (default 1)",
        whole_between(0), "N", 1, group=TUNING, rare=True,
    )  # fmt: skip

    def check(self, positional: Sequence[str]) -> None:
        """Reject options of steady balancing without ``--steady``, and options it does not use."""
        own = {one.target: one.names[0] for one in Steady.options if one.target != "steady"}
        idle = sorted(self.chosen & own.keys())
        if not self.steady:
            if idle:
                raise UsageError(f"{own[idle[0]]} needs --steady")
            return
        others = {
            "min_score": "--min-score", "min_gain": "--min-gain", "evac_mode": "--evac-mode",
            "min_gain_limit": "--min-gain-limit", "lookahead": "--lookahead", "resume": "--resume",
            "compat": "--compat", "ignore_dynu": "--ignore-dynu",
        }  # fmt: skip
        wrong = [name for target, name in others.items() if target in self.chosen]
        if wrong:
            raise UsageError(f"--steady and {wrong[0]} exclude each other")


class Balance(Planning, Balancing, Steady):
    """The options of ``iallocator balance``."""

    group: str = option(
        "--group -G", "balance this group (name or uuid)", str, "GROUP", "", group=SELECTION
    )
    all_groups: bool = option(
        "--all-groups", "balance every group, not only the worst", group=SELECTION
    )
    metrics: str = METRICS

    def check(self, positional: Sequence[str]) -> None:
        """Reject an option for one group together with an option for all groups."""
        if self.all_groups and self.group:
            raise UsageError("--group and --all-groups exclude each other")
        Steady.check(self, positional)
        super().check(positional)


class BetweenGroups(Planning):
    """The options of every command that plans moves between groups."""

    offline: Sequence[str] = OFFLINE


class BalanceGroups(BetweenGroups):
    """The options of ``iallocator balance-groups``."""

    dynu_file: str = DYNU
    max_length: int | None = option(
        "--max-length -l", "largest number of moves", whole, "N", group=LIMITS
    )
    min_gain: float = option(
        "--min-gain -g",
        "smallest gain of a move (default: any)",
        amount,
        "GAIN",
        0.0,
        group=LIMITS,
        rare=True,
    )
    cost: float | None = option(
        "--cost",
        "limit the memory that is copied; GiB without a unit",
        gibibytes,
        "SIZE",
        group=LIMITS,
    )
    group: str = option(
        "--group -G",
        "move instances only to or from this group (name or uuid)",
        str,
        "GROUP",
        "",
        group=SELECTION,
    )


class Compress(BetweenGroups):
    """The options of ``iallocator compress``."""

    group: str = option(
        "--group -G", "empty this group (name or uuid), no other", str, "GROUP", "", group=SELECTION
    )


class Redistribute(BetweenGroups):
    """The options of ``iallocator redistribute``."""

    group: str = option(
        "--group -G",
        "repair this group (name or uuid), no other",
        str,
        "GROUP",
        "",
        group=SELECTION,
    )


class CheckForms(CommandSettings):
    """The options of a check, without those of the balancing that the check tries."""

    json: int = json_of("the findings")
    metrics: str = METRICS
    all_rows: bool = ALL
    html: str | None = HTML
    bandwidth: float = BANDWIDTH
    machine_readable: bool = option(
        "--machine-readable", "print hcheck's keys and values, computed as hcheck does", yes_or_no,
        "[=yes|no]", False, bare="yes", group=OUTPUT, rare=True,
    )  # fmt: skip
    nagios: bool = option(
        "--nagios",
        "print one line with performance data, and exit with the status of a Nagios plugin, 0 to 3",
        group=OUTPUT,
    )
    no_simulation: bool = option(
        "--no-simulation", "do not check whether balancing would help", group=TUNING, rare=True
    )
    simulation: bool = option(
        "--simulation",
        "check whether balancing would help even if nothing is wrong",
        group=TUNING,
        rare=True,
    )
    failures: int = option(
        "--failures",
        "report the failures of single nodes (1) or pairs of nodes (2) that are not tolerated",
        whole_between(1, 2), "N", 0, group=SELECTION,
    )  # fmt: skip
    racks: bool = option(
        "--racks", "report the failures of whole failure domains (location tags)", group=SELECTION
    )


OF_CLUSTERS = ("dynu_file", "max_cpu", "min_disk", "offline")
"""Options of balancing that describe the cluster; all other options of it only choose moves."""


class Check(CheckForms, Balancing):
    """The options of ``iallocator check``."""

    all_groups = True
    group: str = GROUP

    def chosen_for_moves(self) -> list[str]:
        """Return the options of the command line that only choose moves."""
        chosen = self.chosen.difference(OF_CLUSTERS)
        return [one.names[0] for one in Balancing.options if one.target in chosen]

    def check(self, positional: Sequence[str]) -> None:
        """Reject two forms of the answer, and options for moves if no balancing is tried."""
        if self.json and self.machine_readable:
            raise UsageError("--json and --machine-readable exclude each other")
        if self.machine_readable and (self.failures or self.racks):
            raise UsageError("hcheck has no keys for --failures and --racks")
        if self.group and (self.machine_readable or self.failures or self.racks):
            raise UsageError(
                "--group checks one group: --machine-readable, --failures and --racks are about "
                "the whole cluster"
            )
        if self.simulation and self.no_simulation:
            raise UsageError("--simulation and --no-simulation exclude each other")
        if self.simulation and self.machine_readable:
            raise UsageError("--simulation and --machine-readable exclude each other")
        idle = self.chosen_for_moves()
        if self.nagios:
            others = ("json", "machine_readable", "failures", "racks", "simulation")
            wrong = [f"--{name.replace('_', '-')}" for name in others if getattr(self, name)] + idle
            if wrong:
                raise UsageError(f"--nagios and {wrong[0]} exclude each other")
            self.no_simulation = True
        if self.no_simulation and idle and not self.machine_readable:
            raise UsageError(f"--no-simulation tries no balancing: {idle[0]} has no effect")
        if self.machine_readable:  # as hcheck does
            self.compat = "hail"
            if not self.says("n1", "no_capacity_checks"):
                self.n1 = "strict"


class StandardSize(CommandSettings):
    """The options for the size of the instances that a command counts."""

    standard_alloc: tuple[int, ...] | None = option(
        "--standard-alloc",
        "size of standard instances: disk,memory,cpus[,spindles] (default: that of the policy)",
        instance_size, "SIZE", group=SELECTION,
    )  # fmt: skip
    disk_template: str = option(
        "--disk-template",
        "disk template of the instances (default: the first of the policy; drbd or plain if "
        "that is diskless)",
        Choice(*TEMPLATES), "TEMPLATE", "", group=SELECTION,
    )  # fmt: skip
    spindle_use: int | None = option(
        "--spindle-use",
        "number of spindles that an instance uses",
        whole,
        "N",
        group=SELECTION,
        rare=True,
    )


def purchase(text: str) -> Purchase:
    """Parse nodes to buy, like 2:800g,64g,32,group=west,cost=5000."""
    from iallocator.sources.hypothetical import purchase as read

    return read(text)


class Capacity(StandardSize):
    """The options of ``iallocator capacity``."""

    json: int = json_of("the answer")
    metrics: str = METRICS
    all_rows: bool = ALL
    html: str | None = HTML
    machine_readable: str = option(
        "--machine-readable", "write hspace's HTS_ keys: yes or no", Choice("yes", "no"),
        "[=ANSWER]", "no", bare="yes", group=OUTPUT, rare=True,
    )  # fmt: skip
    tiered_alloc: tuple[int, ...] | None = option(
        "--tiered-alloc",
        "first size in tiers (default: the largest of each interval of the policy)",
        instance_size, "SIZE", group=SELECTION,
    )  # fmt: skip
    independent_groups: bool = option(
        "--independent-groups",
        "leave out groups that are not N+1 compliant",
        group=LIMITS,
        rare=True,
    )
    accept_existing_errors: bool = option(
        "--accept-existing-errors",
        "also fill a cluster that is not N+1 compliant",
        group=LIMITS,
        rare=True,
    )
    group: str = GROUP
    offline: Sequence[str] = OFFLINE
    max_cpu: float | None = MAX_CPU
    min_disk: float = MIN_DISK
    max_length: int | None = option(
        "--max-length -l", "largest number of instances", whole, "N", group=LIMITS
    )
    replay: str = option(
        "--replay",
        "forecast: repeat the requests in this folder until the first rejection",
        file_name, "FOLDER", "", group=SELECTION,
    )  # fmt: skip
    add_nodes: Sequence[Purchase] = option(
        "--add-nodes",
        "also count what fits after this purchase: number of nodes, and disk, memory and cpus of "
        "each; group=GROUP, cost=COST of a node; + joins kinds; may repeat",
        purchase, "N:SPEC", repeats=True, group=SELECTION,
    )  # fmt: skip
    forecast: bool = option(
        "--forecast",
        "report on which day each group is full, by the trend of its instances in --history, "
        "--capture or --job-archive",
        group=SELECTION,
    )
    history: str = option(
        "--history",
        "add the totals of the cluster to the history in this folder; with --forecast, read it",
        file_name, "FOLDER", "", group=SELECTION,
    )  # fmt: skip
    job_archive: str = option(
        "--job-archive",
        "with --forecast: the folder with Ganeti's archived jobs "
        "(/var/lib/ganeti/queue/archive)",
        file_name, "FOLDER", "", group=SELECTION,
    )  # fmt: skip
    now: float | None = option(
        "--now",
        "with --history or --forecast: when the cluster was read (default: the clock)",
        utc_time, "TIME", group=SELECTION, rare=True,
    )  # fmt: skip

    def check(self, positional: Sequence[str]) -> None:
        """Reject two output formats together, and options that have no effect."""
        if self.json and self.machine_readable == "yes":
            raise UsageError("--json and --machine-readable exclude each other")
        if self.asks_here("strategy") and not self.replay:
            raise UsageError("--strategy is for requests (--replay): sizes are placed by score")
        if self.add_nodes:
            if self.max_length is not None:
                raise UsageError("--add-nodes and --max-length exclude each other")
            if self.machine_readable == "yes":
                raise UsageError(
                    "--add-nodes and --machine-readable exclude each other: use --json"
                )
            if self.compat:
                raise UsageError("--add-nodes and --compat hail exclude each other")
            costs = [kind.cost for one in self.add_nodes for kind in one.kinds]
            if None in costs and any(cost is not None for cost in costs):
                raise UsageError("--add-nodes: expected a cost for every kind of node, or for none")
        self._check_forecast()

    def _check_forecast(self) -> None:
        """Reject a forecast without a source of data, or with options that contradict it."""
        if not self.forecast:
            for target, name in (("capture", "--capture"), ("job_archive", "--job-archive")):
                if self.asks_here(target):
                    raise UsageError(f"{name} needs --forecast: it is read for a forecast")
            if self.now is not None and not self.history:
                raise UsageError("--now needs --history: it is the time of a sample")
            return
        if not (self.history or self.capture or self.job_archive):
            raise UsageError(
                "--forecast needs data: --history FOLDER, --capture FOLDER or --job-archive FOLDER"
            )
        if self.max_length is not None:
            raise UsageError("--forecast and --max-length exclude each other")
        if self.machine_readable == "yes":
            raise UsageError("--forecast and --machine-readable exclude each other: use --json")
        if self.compat:
            raise UsageError("--forecast and --compat hail exclude each other")


class Metrics(StandardSize):
    """The options of ``iallocator metrics``."""

    json: int = json_of("the metrics")
    metrics: str = METRICS
    no_capacity: bool = option(
        "--no-capacity", "do not count how many more instances fit", group=LIMITS
    )
    group: str = GROUP
    offline: Sequence[str] = OFFLINE
    max_cpu: float | None = MAX_CPU
    min_disk: float = MIN_DISK

    # Options of `Capacity` with fixed values: each group is counted alone, in one size
    independent_groups = True
    accept_existing_errors = False
    tiered_alloc = None
    max_length = None
    replay = ""
    add_nodes = ()


class RequestInWords(CommandSettings):
    """The option with a request in words."""

    request: str = option(
        "--request",
        "use this request instead of that in FILE: 'allocate --memory 4G ...', as for ask",
        str, "WORDS", "", group=SELECTION,
    )  # fmt: skip


class MakeRoom(RequestInWords, Planning):
    """The options of ``iallocator make-room``."""

    make_room: int = 3
    group: str = GROUP
    offline: Sequence[str] = OFFLINE

    def check(self, positional: Sequence[str]) -> None:
        """Reject a plan with no moves: ``--make-room 0``."""
        if not (self.make_room or self.asks_here("make_room")):
            self.make_room = MakeRoom.make_room  # 0 at the top of the file is for requests
        if not self.make_room:
            raise UsageError("make-room needs at least one move: --make-room N")
        super().check(positional)


class Place(Planning):
    """The options of ``iallocator place``."""

    group: str = GROUP
    offline: Sequence[str] = OFFLINE


class NodesAway(CommandSettings):
    """The options of the commands that take nodes out of service for a while."""

    offline: Sequence[str] = OFFLINE
    full_evacuation: bool = option(
        "--full-evacuation", "also move secondaries off the nodes", group=LIMITS, rare=True
    )
    skip_non_redundant: bool = option(
        "--skip-non-redundant",
        "only nodes on which every instance has a secondary",
        group=SELECTION,
    )
    ignore_non_redundant: bool = option(
        "--ignore-non-redundant",
        "shut down instances without a secondary with their node",
        group=SELECTION,
    )
    node_tags: Sequence[str] = option(
        "--node-tags",
        "only nodes with one of these tags",
        name_list,
        "TAG,...",
        (),
        group=SELECTION,
    )
    group: str = GROUP
    master_node: str = option(
        "--master-node", "the master node, which is rebooted last", str, "NODE", "", group=SELECTION
    )
    force: bool = option(
        "--force -f", "continue if the master node is unknown", group=SELECTION, rare=True
    )

    def check(self, positional: Sequence[str]) -> None:
        """Reject two options for the treatment of instances without a secondary."""
        if self.skip_non_redundant and self.ignore_non_redundant:
            raise UsageError(
                "--skip-non-redundant and --ignore-non-redundant contradict each other"
            )
        reject_master_node(self, positional)


class Reboot(Planning, NodesAway):
    """The options of ``iallocator reboot``."""

    boot_timeout: float = BOOT
    offline_maintenance: bool = option(
        "--offline-maintenance",
        "all instances are shut down before the reboots, so none is moved",
        group=LIMITS,
    )
    done: Sequence[str] = option(
        "--done", "leave out these nodes, which are rebooted already", name_list, "NODE,...",
        (), group=SELECTION, rare=True,
    )  # fmt: skip
    one_step_only: bool = option(
        "--one-step-only", "only the first group, one node on each line", group=OUTPUT, rare=True
    )
    print_moves: bool = option(
        "--print-moves",
        "print the nodes of moved instances after each group",
        group=OUTPUT,
        rare=True,
    )
    no_headers: bool = option("--no-headers", "print no titles", group=OUTPUT, rare=True)

    def check(self, positional: Sequence[str]) -> None:
        """Reject options that contradict each other."""
        NodesAway.check(self, positional)
        super().check(positional)


class Watching(Planning):
    """The options of ``iallocator rescue --watch``; ``--return`` reads `state`, too."""

    watch: bool = option(
        "--watch",
        "for a timer: rescue a node that does not answer, in groups with the tag "
        "iallocator:rescue:auto",
        group=EXECUTION,
    )
    state: str = option(
        "--state",
        "with --watch: the folder with the state between calls, and the journals; with --return: "
        f"the folder with the journal of the rescue (default {WATCH_FOLDER})",
        file_name,
        "FOLDER",
        WATCH_FOLDER,
        group=EXECUTION,
    )
    probes: int = option(
        "--probes",
        "with --watch: calls in a row in which the node must not answer (default 3)",
        whole_between(1, 10_000),
        "N",
        3,
        group=LIMITS,
    )
    most_nodes: int = option(
        "--most-nodes",
        "with --watch: do nothing if more nodes do not answer, or are rescued and not yet back "
        "(default 1)",
        whole_between(1, 10_000),
        "N",
        1,
        group=LIMITS,
    )


class Rescue(Watching):
    """The options of ``iallocator rescue``."""

    usage = "NODE|--watch [OPTIONS] [FILE|-t FILE|-L|-m ADDRESS]"

    boot_timeout: float = BOOT
    returns: bool = option(
        "--return",
        "bring the node back: power it on by its out-of-band program, set it online, undrain it",
        group=SELECTION,
    )
    fenced: bool = option(
        "--fenced",
        "with -X: the node is powered off already; do not run its out-of-band program, and do "
        "not ask",
        group=EXECUTION,
    )
    master_node: str = option(
        "--master-node", "the master node, which is not rescued", str, "NODE", "", group=SELECTION
    )

    def check(self, positional: Sequence[str]) -> None:
        """Reject a command line without a node, and options that have no effect."""
        if self.resume and positional:
            raise UsageError("--resume continues the plan in the journal: expected no NODE")
        if self.watch:
            # A watch names no node, asks no question, and fences by LUXI
            if positional:
                raise UsageError(
                    "--watch finds the nodes that do not answer: expected no NODE and no file"
                )
            if self.luxi is None:
                raise UsageError("--watch fences by out-of-band programs, which needs LUXI: -L")
            others = {"--return": self.returns, "--fenced": self.fenced, "--resume": self.resume,
                      "--undo": self.undo, "--journal": self.journal}  # fmt: skip
            for name, given in others.items():
                if given:
                    raise UsageError(f"--watch and {name} exclude each other")
        elif idle := sorted(self.chosen & {"probes", "most_nodes"}):
            raise UsageError(f"--{idle[0].replace('_', '-')} is for --watch")
        elif "state" in self.chosen and not self.returns:
            raise UsageError("--state is for --watch and --return")
        elif not (positional or self.undo or self.resume):
            raise UsageError("rescue needs the name of a node: iallocator rescue NODE")
        if self.fenced and not self.execute:
            raise UsageError("--fenced needs -X: it is about the execution of a plan")
        if self.fenced and self.returns:
            raise UsageError("--fenced and --return exclude each other")
        reject_master_node(self, self.files_of(positional))
        super().check(positional)

    @staticmethod
    def files_of(positional: Sequence[str]) -> Sequence[str]:
        """Return the words that are files: the first word is the node."""
        return positional[1:]


class Squeeze(Planning):
    """The options of ``iallocator squeeze``."""

    boot_timeout: float = BOOT
    all_rows: bool = option(
        "--all-rows", "print all rows of long lists, also on a terminal", group=OUTPUT
    )
    dynu_file: str = DYNU
    target_resources: float = option(
        "--target-resources",
        "free capacity of every online node after powering down, in standard instances "
        "(default 2)", amount, "X",
        2.0, group=LIMITS,
    )  # fmt: skip
    minimal_resources: float = option(
        "--minimal-resources",
        "power on standby nodes if a node has less free capacity, in standard instances "
        "(default 2)", amount, "X", 2.0, group=LIMITS,
    )  # fmt: skip
    master_node: str = option(
        "--master-node", "the master node, which stays online", str, "NODE", "", group=SELECTION
    )
    prefer: Sequence[str] = option(
        "--prefer",
        "power these nodes down, or on, before others",
        name_list,
        "NODE,...",
        (),
        group=SELECTION,
    )
    avoid: Sequence[str] = option(
        "--avoid",
        "power these nodes down, or on, only after others",
        name_list,
        "NODE,...",
        (),
        group=SELECTION,
    )
    drbd: bool = option("--drbd", "also move drbd instances", group=SELECTION)
    all_instances: bool = option(
        "--all-instances --all", "also move instances that are not auto-balanced", group=SELECTION
    )
    even_if_short: bool = option(
        "--even-if-short",
        "with -X: power nodes on even if that does not reach the minimal resources",
        group=EXECUTION,
        rare=True,
    )
    group: str = GROUP
    offline: Sequence[str] = OFFLINE

    def check(self, positional: Sequence[str]) -> None:
        """Reject nodes that are both preferred and avoided."""
        both = [name for name in self.prefer if name in self.avoid]
        if both:
            raise UsageError(f"--prefer and --avoid contradict each other: {', '.join(both)}")
        reject_master_node(self, positional)
        super().check(positional)
