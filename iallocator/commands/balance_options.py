"""What the commands that balance have in common: which moves they may make, and when they stop."""

from __future__ import annotations

from iallocator.commands.shared_options import MAX_CPU_OPTION, MIN_DISK_OPTION, OFFLINE_OPTION
from iallocator.errors import UsageError, cut, tell
from iallocator.files import LIMIT, read_file
from iallocator.names import short_names, whole_name
from iallocator.options import settings as options
from iallocator.options.table import Option
from iallocator.options.values import amount, file_name, name_list, whole
from iallocator.tolerances import LEAST_SCORE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from iallocator.deadline import Deadline
    from iallocator.model.cluster import Cluster, Load
    from iallocator.planners.balance.balance import BalanceOptions

    class Dynamic(Protocol):
        """Settings with a file of dynamic utilisation."""

        dynu_file: str
        ignore_dynu: bool
        max_input: int


__all__ = [
    "DYNU_OPTION", "OPTIONS", "Settings", "adjust", "balance_options_of", "chosen_for_moves",
    "read_loads",
]  # fmt: skip


HIGHEST_LOAD = 1e9
"""Of one instance; sums of such, squared, stay far within the range of floats."""


class Settings(options.Settings):
    """The settings of every command that balances."""

    evac_mode: bool = False
    restricted_migration: bool = False
    no_disk_moves: bool = False
    no_instance_moves: bool = False
    select_instances: list[str] | None = None
    exclude_instances: Sequence[str] = ()
    dynu_file: str = ""
    max_cpu: float | None = None
    min_disk: float = 0.0
    offline: Sequence[str] = ()
    max_length: int | None = None
    min_score: float = LEAST_SCORE
    min_gain: float = 0.01
    min_gain_limit: float = 0.1
    lookahead: bool = False
    cost: float | None = None
    group: str = ""
    all_groups: bool = False


DYNU_OPTION = Option(
    "--dynu-file -U", "dynu_file",
    "dynamic utilisation: lines of instance, cpu, memory, disk, net", file_name, "FILE",
)  # fmt: skip

OPTIONS = (
    Option("--evac-mode -E", "evac_mode", "only move instances off offline and drained nodes"),
    Option("--restricted-migration", "restricted_migration",
           "migrate only off drained nodes, never there and back"),
    Option("--no-disk-moves", "no_disk_moves", "copy no disks: only migrate and fail over"),
    Option("--no-instance-moves", "no_instance_moves", "only replace secondaries"),
    Option("--select-instances", "select_instances", "move only these", name_list, "NAME,..."),
    Option("--exclude-instances", "exclude_instances", "do not move these", name_list,
           "NAME,..."),
    DYNU_OPTION,
    MAX_CPU_OPTION,
    MIN_DISK_OPTION,
    OFFLINE_OPTION,
    Option("--max-length -l", "max_length", "moves at most", whole, "N"),
    Option("--min-score -e", "min_score", "above the lowest possible score: good enough",
           amount, "SCORE"),
    Option("--min-gain -g", "min_gain", "the least gain of a move (default 0.01)", amount,
           "GAIN"),
    Option("--min-gain-limit", "min_gain_limit",
           "the score from which on that counts (default 0.1)", amount, "SCORE"),
    Option("--lookahead", "lookahead", "where no move helps, try exchanges of two instances"),
    Option("--cost", "cost", "copy this much at most: disks and memory", amount, "GIB"),
)  # fmt: skip


OF_CLUSTERS = ("dynu_file", "max_cpu", "min_disk", "offline")
"""The attributes that say how the cluster is; all others only choose moves."""


def chosen_for_moves(settings: options.Settings) -> list[str]:
    """Which options of the command line only choose moves."""
    chosen = settings.chosen.difference(OF_CLUSTERS)
    return [option.names[0] for option in OPTIONS if option.target in chosen]


def balance_options_of(
    settings: Settings, completed: options.Settings, deadline: Deadline
) -> BalanceOptions:
    """What `settings` want of a balancing until `deadline`; `completed` are completed from tags."""
    from iallocator.planners.balance.balance import BalanceOptions
    from iallocator.planners.balance.move_kinds import MoveRules
    from iallocator.planners.plan_limits import StopCriteria

    limits = StopCriteria(
        min_score=settings.min_score,
        max_length=settings.max_length,
        min_gain=settings.min_gain,
        min_gain_limit=settings.min_gain_limit,
        cost=None if settings.cost is None else settings.cost * 1024,
        lookahead=settings.lookahead,
        deadline=deadline,
    )
    rules = MoveRules(
        disk_moves=not settings.no_disk_moves,
        instance_moves=not settings.no_instance_moves,
        restricted=settings.restricted_migration,
        evacuate_only=settings.evac_mode,
        ignore_soft=settings.ignore_soft_errors,
        behaviour=settings.behaviour,
    )
    return BalanceOptions(
        limits,
        rules,
        group=settings.group,
        all_groups=settings.all_groups,
        offline=settings.offline,
        selected=settings.select_instances,
        excluded=settings.exclude_instances,
        max_cpu=settings.max_cpu,
        min_disk=settings.min_disk,
        tag_prefix=settings.tag_prefix,
        settings=completed,
    )


def adjust(cluster: Cluster, settings: Dynamic) -> None:
    """Give the instances of `cluster` the dynamic utilisation that a file says they have.

    Raises
    ------
    UsageError
        If the file cannot be read.
    NotFoundError
        For a short name that may be several instances.
    """
    if not settings.dynu_file or settings.ignore_dynu:
        return
    from iallocator.model.cluster import set_loads

    # The loads by the whole names of instances, without those of unknown instances
    path = settings.dynu_file
    loads = read_loads(path, settings.max_input)
    names = [instance.name for instance in cluster.instances]
    known, short = set(names), short_names(names)
    unknown = [name for name in loads if name not in known and name not in short]
    if unknown:
        more = ", ..." if len(unknown) > 1 else ""
        tell(f"{path}: {len(unknown)} unknown: {cut(unknown[0])}{more}; left out")
    found = {name: load for name, load in loads.items() if name in known}
    for word in loads:
        if word not in known and word in short:
            found.setdefault(whole_name(word, short[word], path, "instance"), loads[word])
    set_loads(cluster, found)


def read_loads(path: str, limit: int = LIMIT) -> dict[str, Load]:
    """The dynamic utilisation in a file of at most so many bytes, by instance; hbal's format."""
    loads: dict[str, Load] = {}
    lines = read_file(path, limit).decode("utf-8", "replace").splitlines()
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if not words:
            continue
        try:
            name, cpu, memory, disk, net = words
            loads[name] = _load(cpu), _load(memory), _load(disk), _load(net)
        except ValueError:
            raise UsageError(
                f"{path}: line {number}: expected an instance and four numbers from 0 to "
                f"{HIGHEST_LOAD:g}, got {line!r}"
            ) from None
    return loads


def _load(text: str) -> float:
    value = float(text)
    if not (0 <= value <= HIGHEST_LOAD and text.isascii() and "_" not in text):
        raise ValueError(text)
    return value
