"""Collect lists of nodes and instances, with the fields and titles of htools.

Memory is in MiB, disk in GiB, loads and ratios have no unit.
"""

from __future__ import annotations

from iallocator.errors import UsageError
from iallocator.model.columns import (
    CPU_LOAD,
    CPUS,
    DISK,
    DISK_LOAD,
    FREE_SPINDLES,
    MEMORY,
    MEMORY_LOAD,
    NET_LOAD,
    PRIMARIES,
    SECONDARIES,
    SPINDLES,
)
from iallocator.names import common_domain, domain_of, domains_of, guesses
from iallocator.units import GIB

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iallocator.aliases import Json
    from iallocator.model.cluster import Group, Node
    from iallocator.model.instance import Instance
    from iallocator.model.state import State

    Show = Callable[["NodeRow"], object]

__all__ = [
    "NODE_FIELDS", "USUAL", "choose_fields", "instance_table", "node_rows", "node_table",
]  # fmt: skip

USUAL = (
    "status", "name", "tmem", "nmem", "imem", "xmem", "fmem", "umem", "rmem", "tdsk", "fdsk",
    "tcpu", "ucpu", "pcnt", "scnt", "pfmem", "pfdsk", "rcpu", "cload", "mload", "dload", "nload",
)  # fmt: skip
"""The default fields of the list of nodes."""


class NodeRow:
    """One node in a state, for the fields; `number`: its position in the list, from 0."""

    __slots__ = ("domain", "index", "missing", "node", "number", "state")

    def __init__(self, state: State, node: Node, missing: float, domain: str, number: int) -> None:
        self.state = state
        self.node = node
        self.index = node.index
        self.number = number
        self.missing = missing
        self.domain = domain

    def column(self, position: int) -> float:
        """Return an amount of the node in its present state.

        `position`: the column of the state with this amount for all nodes.
        """
        return self.state.columns[position][self.index]

    def status(self) -> str:
        """Return ``-`` if the node is offline, ``*`` if it fails N+1, otherwise a blank."""
        if not self.node.online:
            return "-"
        return "*" if self.state.fails_n1(self.index) else " "

    def short_name(self) -> str:
        """Return the name of the node without the common domain of all names."""
        return self.node.name.removesuffix(self.domain)

    def used_memory(self) -> int:
        """Return the MiB of memory that the running primaries of the node use."""
        return sum(i.memory for i in self.state.primaries[self.index].values() if i.uses_memory)

    def disk_share(self) -> float:
        """Return the free share of the disk (or of spindles, with exclusive storage), 0 to 1.

        The share is 1 for a node without disk or spindles.
        """
        node = self.node
        if node.exclusive_storage:
            free, total = self.column(FREE_SPINDLES), node.total_spindles
        else:
            free, total = self.column(DISK), node.total_disk
        return free / total if total else 1.0

    def peers(self) -> str:
        """Return ``node:MiB`` for each node with primaries that reserve memory on this node."""
        nodes, peers = self.state.cluster.nodes, self.state.peers[self.index]
        return ",".join(f"{nodes[k].name}:{memory:.0f}" for k, memory in peers.items())

    def tags(self) -> str:
        """Return the exclusion tags of the node's primaries, each with its number of instances."""
        counts = self.state.exclusion[self.index]
        return ",".join(f"{tag}={count}" for tag, count in sorted(counts.items()) if count)


def _load(position: int) -> Show:
    return lambda row: decimal(row.column(position), 3)


NODE_FIELDS: dict[str, tuple[str, Show]] = {
    "status": ("F", NodeRow.status),
    "name": ("Name", NodeRow.short_name),
    "tmem": ("t_mem", lambda row: row.node.total_memory),
    "nmem": ("n_mem", lambda row: row.node.reserved_memory),
    "imem": ("i_mem", NodeRow.used_memory),
    "xmem": ("x_mem", lambda row: row.missing),
    "fmem": ("f_mem", lambda row: row.node.reported_memory),
    "umem": ("u_mem", lambda row: int(row.column(MEMORY))),
    "rmem": ("r_mem", lambda row: round(row.state.reserved[row.index])),
    "amem": ("a_mem", lambda row: int(row.column(MEMORY) - row.state.reserved[row.index])),
    "tdsk": ("t_dsk", lambda row: decimal(row.node.total_disk / GIB, 0)),
    "fdsk": ("f_dsk", lambda row: int(row.column(DISK) // GIB)),
    "tcpu": ("pcpu", lambda row: row.node.total_cpus),
    "ucpu": ("vcpu", lambda row: int(row.column(CPUS))),
    "pcnt": ("pcnt", lambda row: int(row.column(PRIMARIES))),
    "scnt": ("scnt", lambda row: int(row.column(SECONDARIES))),
    "pfmem": ("p_fmem", lambda row: decimal(ratio(row.column(MEMORY), row.node.total_memory), 4)),
    "pfdsk": ("p_fdsk", lambda row: decimal(row.disk_share(), 4)),
    "rcpu": ("r_cpu", lambda row: decimal(ratio(row.column(CPUS), row.node.total_cpus), 2)),
    "cload": ("lCpu", _load(CPU_LOAD)),
    "mload": ("lMem", _load(MEMORY_LOAD)),
    "dload": ("lDsk", _load(DISK_LOAD)),
    "nload": ("lNet", _load(NET_LOAD)),
    "idx": ("Index", lambda row: row.number),
    "fqdn": ("Name", lambda row: row.node.name),
    "group": ("Group", lambda row: row.node.group.name),
    "plist": ("primaries", lambda row: ",".join(row.state.primaries[row.index])),
    "slist": ("secondaries", lambda row: ",".join(row.state.secondaries[row.index])),
    "peermap": ("PeerMap", NodeRow.peers),
    "ptags": ("PrimaryTags", NodeRow.tags),
    "spindle_count": ("NodeSpindles", lambda row: row.node.spindle_count),
    "hi_spindles": ("MaxSpindles", lambda row: decimal(row.node.high_spindles, 1)),
    "inst_spindles": ("InstSpindles", lambda row: decimal(row.column(SPINDLES), 1)),
}
"""Name of a field -> its title, and the function for its value."""

LEFT_ALIGNED = frozenset({"status", "name", "fqdn", "group", "plist", "slist", "peermap", "ptags"})
"""The fields with values that are aligned to the left."""


def node_table(
    state: State, wanted: str = "", backwards: bool = False, group: Group | None = None
) -> Json:
    """Return the list of nodes of `state` as plain data: titles, rows, and alignment.

    Parameters
    ----------
    state:
        The placement of all instances. The fields of missing memory and disk show the initial
        state.
    wanted:
        Names of `NODE_FIELDS`, separated by commas. If `wanted` begins with ``+``, they are added
        to the `USUAL` fields; "" means the `USUAL` fields.
    backwards:
        Whether the cluster was read in the order of hail, last node first. Its lists are then
        reversed, and are as wide as those of htools.
    group:
        The name or uuid of the only group that is listed; "" for all.

    Raises
    ------
    UsageError
        If a field is not known.
    """
    names = choose_fields(wanted)
    domain = None if backwards else domain_of(node.name for node in state.cluster.nodes)
    rows = node_rows(state, names, backwards, group, domain)
    return {
        "titles": [NODE_FIELDS[name][0] for name in names],
        "rows": [[str(cell) for cell in row] for row in rows],
        "left": [name in LEFT_ALIGNED for name in names],
        "any_width": backwards,
    }


def node_rows(
    state: State,
    names: Sequence[str],
    backwards: bool = False,
    group: Group | None = None,
    domain: str | None = None,
) -> list[list[object]]:
    """Return a row for each node with the values of the fields `names`.

    `backwards`: whether the cluster was read last node first. `group`: the only group; None for
    all. `domain`: the domain that is left out of names; None: the domain of all nodes and
    instances.
    """
    cluster = state.cluster
    if domain is None:
        every = [*(one.name for one in cluster.nodes), *(one.name for one in cluster.instances)]
        domain = common_domain(every)
    missing = [
        node.total_memory - node.reserved_memory - node.reported_memory for node in cluster.nodes
    ]
    for instance in cluster.instances:  # as they were when the nodes reported
        if instance.nodes and instance.uses_memory:
            missing[instance.nodes[0]] -= instance.memory
    shows = [NODE_FIELDS[name][1] for name in names]
    rows: list[list[object]] = []
    for number, node in enumerate(cluster.nodes[:: -1 if backwards else 1]):
        if group in (None, node.group):
            row = NodeRow(state, node, missing[node.index], domain, number)
            rows.append([show(row) for show in shows])
    return rows


def choose_fields(wanted: str) -> list[str]:
    """Return the names of the fields that ``--print-nodes=WANTED`` requests.

    `wanted`: names of `NODE_FIELDS`, separated by commas. If it begins with ``+``, they are added
    to the `USUAL` fields. If it names none, the result is `USUAL`.

    Raises
    ------
    UsageError
        If a field is unknown.
    """
    more = wanted.removeprefix("+")
    names = [name for name in more.split(",") if name]
    for name in names:
        if name not in NODE_FIELDS:
            raise UsageError(
                f"--print-nodes: expected fields out of {', '.join(NODE_FIELDS)}, got {name!r}"
                f"{guesses(name, NODE_FIELDS)}"
            )
    return [*USUAL, *names] if wanted.startswith("+") or not names else names


MOST_DIGITS = 400
"""The precision of decimal arithmetic, in digits; no number that is written has more."""


def ratio(part: float, whole: float) -> float | None:
    """Return `part` / `whole`; None if `whole` is 0."""
    return part / whole if whole else None


def decimal(value: float | None, places: int) -> str:
    """Return `value` as text with `places` decimals; ``-`` for None.

    The shortest decimal form of the value is rounded to even: 0.57875 becomes 0.5788.
    """
    if value is None:
        return "-"
    from decimal import ROUND_HALF_EVEN, Context, Decimal

    exact = Decimal(repr(value))
    if not exact.is_finite():
        return str(exact)
    last = Decimal(1).scaleb(-places)
    return f"{exact.quantize(last, context=Context(MOST_DIGITS, ROUND_HALF_EVEN)):f}"


INSTANCE_TITLES = (
    "F", "Name", "Pri_node", "Sec_node", "Auto_bal", "vcpu", "mem", "dsk",
    "lCpu", "lMem", "lDsk", "lNet",
)  # fmt: skip

INSTANCE_LEFT = 5
"""The number of the first columns of instances that are aligned to the left."""


def instance_table(state: State, backwards: bool = False, group: Group | None = None) -> Json:
    """Return the list of instances of `state` as plain data: titles, rows, and alignment.

    A line of a running instance begins with ``R``.

    `backwards`: whether the cluster was read last node first. `group`: only instances with their
    primary node in this group are listed; None for all.
    """
    nodes = range(len(state.primaries)) if group is None else group.nodes
    instances = [instance for index in nodes for instance in state.primaries[index].values()]
    instances.sort(key=lambda instance: instance.order, reverse=backwards)
    domains = (
        []
        if backwards
        else domains_of(
            [node.name for node in state.cluster.nodes], [one.name for one in instances]
        )
    )
    return {
        "titles": INSTANCE_TITLES,
        "rows": [_instance_row(instance, state, domains) for instance in instances],
        "left": [position < INSTANCE_LEFT for position in range(len(INSTANCE_TITLES))],
        "any_width": backwards,
    }


def _instance_row(instance: Instance, state: State, domains: Sequence[str]) -> list[str]:
    names = [_short(n, domains) for n in state.cluster.node_names(state.where[instance.name])]
    return [
        "R" if instance.reported_running else " ",
        _short(instance.name, domains),
        names[0],
        names[1] if len(names) > 1 else "",
        "Y" if instance.auto_balance else "N",
        str(instance.vcpus),
        f"{instance.memory:5}",
        f"{instance.disk // GIB:5}",
        *(decimal(load, 3) for load in instance.load),
    ]


def _short(name: str, domains: Sequence[str]) -> str:
    """Return `name` without the first of `domains` that is its end."""
    return next((name.removesuffix(end) for end in domains if name.endswith(end)), name)
