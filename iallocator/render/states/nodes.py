"""The list of nodes that ``--print-nodes`` shows, with htools' fields and titles.

Memory is in MiB, disk in GiB, loads and ratios have no unit.
"""

from __future__ import annotations

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
from iallocator.names import domain_of
from iallocator.render.states.listing import (
    WIDEST,
    aligned,
    choose_fields,
    common_domain,
    decimal,
    ratio,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from iallocator.model.cluster import Group, Node
    from iallocator.model.state import State

    Show = Callable[["NodeRow"], object]

__all__ = ["FIELDS", "USUAL", "NodeRow", "node_list", "node_rows"]

USUAL = (
    "status", "name", "tmem", "nmem", "imem", "xmem", "fmem", "umem", "rmem", "tdsk", "fdsk",
    "tcpu", "ucpu", "pcnt", "scnt", "pfmem", "pfdsk", "rcpu", "cload", "mload", "dload", "nload",
)  # fmt: skip
"""The fields that are shown unless others are asked for."""


class NodeRow:
    """One node in a state, as the fields look at it; `number`: its place among all, from 0."""

    __slots__ = ("domain", "index", "missing", "node", "number", "state")

    def __init__(self, state: State, node: Node, missing: float, domain: str, number: int) -> None:
        self.state = state
        self.node = node
        self.index = node.index
        self.number = number
        self.missing = missing
        self.domain = domain

    def column(self, position: int) -> float:
        """A quantity of the node."""
        return self.state.columns[position][self.index]

    def status(self) -> str:
        """``-`` if it is offline, ``*`` if it fails N+1."""
        if not self.node.online:
            return "-"
        return "*" if self.state.fails_n1(self.index) else " "

    def short_name(self) -> str:
        """The name without what all names end with."""
        return self.node.name.removesuffix(self.domain)

    def used_memory(self) -> int:
        """MiB of the primaries that run."""
        return sum(i.memory for i in self.state.primaries[self.index].values() if i.uses_memory)

    def disk_share(self) -> float:
        """The free part of its disk or spindles; 1 without any."""
        node = self.node
        if node.exclusive_storage:
            free, total = self.column(FREE_SPINDLES), node.total_spindles
        else:
            free, total = self.column(DISK), node.total_disk
        return free / total if total else 1.0

    def peers(self) -> str:
        """Primary:MiB of the instances that reserve memory here."""
        nodes, peers = self.state.cluster.nodes, self.state.peers[self.index]
        return ",".join(f"{nodes[k].name}:{memory:.0f}" for k, memory in peers.items())

    def tags(self) -> str:
        """Exclusion tags of its primaries, counted."""
        counts = self.state.exclusion[self.index]
        return ",".join(f"{tag}={count}" for tag, count in sorted(counts.items()) if count)


def _load(position: int) -> Show:
    return lambda row: decimal(row.column(position), 3)


FIELDS: dict[str, tuple[str, Show]] = {
    "status": ("F", NodeRow.status),
    "name": ("Name", NodeRow.short_name),
    "tmem": ("t_mem", lambda row: row.node.total_memory),
    "nmem": ("n_mem", lambda row: row.node.reserved_memory),
    "imem": ("i_mem", NodeRow.used_memory),
    "xmem": ("x_mem", lambda row: row.missing),
    "fmem": ("f_mem", lambda row: row.node.reported_memory),
    "umem": ("u_mem", lambda row: int(row.column(MEMORY))),
    "rmem": ("r_mem", lambda row: int(row.state.reserved[row.index])),
    "amem": ("a_mem", lambda row: int(row.column(MEMORY) - row.state.reserved[row.index])),
    "tdsk": ("t_dsk", lambda row: decimal(row.node.total_disk / 1024, 0)),
    "fdsk": ("f_dsk", lambda row: int(row.column(DISK) / 1024)),
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
"""Name of a field -> its title, and how it is shown."""

LEFT = frozenset({"status", "name", "fqdn", "group", "plist", "slist", "peermap", "ptags"})
"""The fields whose values stand to the left."""


def node_list(
    state: State, wanted: str = "", backwards: bool = False, group: Group | None = None
) -> str:
    """The nodes of `state` as a table, one line each.

    Parameters
    ----------
    state:
        The cluster at some moment; what nodes lack is as at its reading.
    wanted:
        Names out of `FIELDS` with commas between them, after a ``+`` in addition to
        the `USUAL` ones; "" for these alone.
    backwards:
        Whether the cluster was read as hail does: its lists then stand backwards, and are as
        wide as those of htools.
    group:
        Of this one only.

    Raises
    ------
    UsageError
        If a field is not known.
    """
    names = choose_fields(wanted, USUAL, FIELDS)
    titles, left = [FIELDS[name][0] for name in names], [name in LEFT for name in names]
    domain = None if backwards else domain_of(node.name for node in state.cluster.nodes)
    found = node_rows(state, names, backwards, group, domain)
    rows = [[str(cell) for cell in row] for row in found]
    return aligned(titles, rows, left, 0 if backwards else WIDEST)


def node_rows(
    state: State,
    names: Sequence[str],
    backwards: bool = False,
    group: Group | None = None,
    domain: str | None = None,
) -> list[list[object]]:
    """Per node the fields with these `names`; see `node_list`.

    Its name without `domain`; None: without what names of nodes and instances end with.
    """
    shows = [FIELDS[name][1] for name in names]
    rows = _rows(state, backwards, common_domain(state.cluster) if domain is None else domain)
    return [[show(row) for show in shows] for row in rows if group in (None, row.node.group)]


def _rows(state: State, backwards: bool, domain: str) -> Iterable[NodeRow]:
    cluster = state.cluster
    missing = [
        node.total_memory - node.reserved_memory - node.reported_memory for node in cluster.nodes
    ]
    for instance in cluster.instances:  # as they were when the nodes reported
        if instance.nodes and instance.uses_memory:
            missing[instance.nodes[0]] -= instance.memory
    for number, node in enumerate(cluster.nodes[:: -1 if backwards else 1]):
        yield NodeRow(state, node, missing[node.index], domain, number)
