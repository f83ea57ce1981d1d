"""Define the settings of requests and commands, with their defaults, and find the configuration."""

from __future__ import annotations

from iallocator.compat import behaviour_of
from iallocator.files import LARGEST_INPUT
from iallocator.light import exists, variable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.compat import Behaviour

__all__ = [
    "CONFIGURATION",
    "NAMED_BY",
    "OPTIMAL_WORK_FACTOR",
    "PLANNING_SECONDS",
    "REQUEST_SETTINGS",
    "SEARCH_SECONDS",
    "Settings",
    "configuration_path",
]  # fmt: skip

CONFIGURATION = "/etc/iallocator.conf"
"""The default configuration file; it need not exist."""

NAMED_BY = "IALLOCATOR_CONFIG"
"""The environment variable that names another configuration file; if it is empty, none is read."""

STATIC_KVM_MEMORY = 4096
"""MiB that a kvm node itself uses if the document does not contain the amount; as of Ganeti."""

SEARCH_SECONDS = 5.0
"""The work of an exact search, in seconds of an idle machine, if no longer time limit is set."""

OPTIMAL_WORK_FACTOR = 12
"""The factor by which ``--optimal`` multiplies the work of each exact search of a planner.

Such a search then takes about a minute."""

PLANNING_SECONDS = 600.0
"""The default time limit of a planner, in seconds."""

BOOT_SECONDS = 600.0
"""The default time in which a node must answer after power-on or a reboot, in seconds."""

WORK_SECONDS = 600.0
"""The default estimate of the time in which a node is away for maintenance, in seconds."""

REQUEST_SETTINGS = (
    "strategy", "stickiness", "n1", "ignore-soft-errors", "inter-group", "exact-search",
    "time-limit", "top", "memory-ratio", "disk-reserve", "affinity-overhead", "initial-msav",
    "final-msav", "msav-steps", "seed",
)  # fmt: skip
"""Options that keys of a request, and tags of the cluster and its groups, can set."""


class Settings:
    """The values of all options; the attributes of the class are the defaults."""

    ignore_soft_errors: bool = False
    ignore_dynu: bool = False
    n1: str = "no-worse"
    compat: str = ""
    static_kvm_node_memory: int = STATIC_KVM_MEMORY
    restrict_allocation_to: list[str] | None = None
    inter_group: str = "no"
    text_data: str = ""
    ialloc_src: str = ""
    luxi: str | None = None
    rapi: str = ""
    cacert: str = ""
    insecure: bool = False
    credentials: str = ""
    read_timeout: float = 60.0
    volume_groups: bool = False
    mond: str = ""
    mond_data: str = ""
    mond_xen: bool = False
    exit_on_missing_mond_data: bool = False
    exclusion_tags: Sequence[str] = ()
    simulate: Sequence[str] = ()
    max_input: int = LARGEST_INPUT
    save_cluster: str = ""
    print_nodes: str | None = None
    print_instances: bool = False
    strategy: str = "score"
    stickiness: float = 0
    exact_search: str = "yes"
    optimal: bool = False
    time_limit: float | None = None
    tag_prefix: str = "iallocator:"
    top: int = 1
    make_room: int = 0
    cost: float | None = None
    memory_ratio: float = 1
    disk_reserve: str = "0"
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

    written: Mapping[str, str] = {}
    """Attribute that was set on the command line -> the name of the option as the user wrote it."""

    origins: Mapping[str, str] = {}
    """Attribute that a file, a request or a tag set -> its origin."""

    of_table: frozenset[str] = frozenset()
    """The attributes that the command's own table in the configuration file set."""

    by_group: Mapping[int, Settings] = {}
    """Index of a group -> settings, for groups with tags that change a setting."""

    def says(self, *targets: str) -> bool:
        """Return whether an option, a file or a tag sets one of the attributes `targets`."""
        return not (self.chosen | self.origins.keys()).isdisjoint(targets)

    def plan_n1(self, group: int) -> str:
        """Return the N+1 mode of plans for the node group with the index `group`.

        With ``--compat hail``, it is ``off`` unless a mode was chosen, because hbal has no such
        check.
        """
        if not self.behaviour.plans_keep_n1 and not self.says("n1"):
            return "off"
        return self.by_group.get(group, self).n1

    def asks_here(self, target: str) -> bool:
        """Return whether the command line, or the table of the command in a file, set `target`.

        The top of the file applies to requests and to every command. A command ignores an option at
        the top that has no effect on it, but rejects such an option on the command line and in its
        table.
        """
        return target in self.chosen or target in self.of_table

    @property
    def behaviour(self) -> Behaviour:
        """Return the flags for the differences between this program and htools."""
        return behaviour_of(self.compat)

    @property
    def measures(self) -> bool:
        """Return whether the load of nodes is read from monitoring daemons."""
        return self.mond == "yes" or (bool(self.mond_data) and self.mond != "no")

    @property
    def asks_running_cluster(self) -> bool:
        """Return whether the cluster is read from the daemons of a running cluster."""
        return self.luxi is not None or bool(self.rapi and not self.rapi.startswith("file:"))

    @property
    def asks_servers(self) -> bool:
        """Return whether data is read from a running cluster, or from its monitoring daemons."""
        return self.asks_running_cluster or (self.mond == "yes" and not self.mond_data)

    @property
    def names_another_cluster(self) -> bool:
        """Return whether an option names another source of the cluster, or the connection to it."""
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
        """Return whether exact search may follow if greedy placement fails."""
        return self.exact_search == "yes" and self.behaviour.searches

    @property
    def planning_seconds(self) -> float:
        """Return the time limit of a planner, in seconds."""
        return PLANNING_SECONDS if self.time_limit is None else self.time_limit

    @property
    def optimum_seconds(self) -> float:
        """Return the work that an exact search may do, in seconds of an idle machine.

        A time limit below the default does not reduce the work; the clock ends the search.
        Therefore it changes no answer unless it is reached. A longer limit increases the work in
        proportion. With a limit of 0, no search is made.
        """
        if self.time_limit == 0:
            return 0.0
        return SEARCH_SECONDS * max(1.0, self.planning_seconds / PLANNING_SECONDS)

    @property
    def thoroughness(self) -> int:
        """Return the factor of the work of each exact search of a planner; 1 by default."""
        return OPTIMAL_WORK_FACTOR if self.optimal else 1


def configuration_path(settings: Settings) -> str:
    """Return the path of the configuration file, given options of the command line; "" for none."""
    if settings.no_config:
        return ""
    named = settings.config or variable(NAMED_BY)
    if named is not None:
        return named
    return CONFIGURATION if exists(CONFIGURATION) else ""
