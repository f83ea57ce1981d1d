"""From a cluster and wishes to groups of nodes to reboot."""

from __future__ import annotations

from iallocator.names import whole_name
from iallocator.planners.eligible import group_named
from iallocator.planners.reboot.absence import Absence, RebootContext
from iallocator.planners.reboot.grouping import Grouping
from iallocator.planners.reboot.options import SKIPPED
from iallocator.planners.reboot.result import NO_NODE, RebootResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iallocator.deadline import Deadline
    from iallocator.model.cluster import Cluster, Node
    from iallocator.options.settings import Settings
    from iallocator.planners.reboot.options import RebootOptions

__all__ = ["plan_reboots"]

SHOWN = 5
"""How many nodes are named of those that were not looked at."""

UNKNOWN_MASTER = "the master node is unknown: name it with --master, or --force"


def plan_reboots(
    cluster: Cluster,
    settings: Settings,
    wanted: RebootOptions,
    deadline: Deadline | None = None,
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> RebootResult:
    """Groups of nodes that can be rebooted together, and what moves around each.

    An interruption leaves the groups found until then.  Larger groups come first; that of the
    master node last, with the master as its last node.  `tell` hears how many of how many
    nodes have been looked at.

    Raises
    ------
    NotFoundError
        If the group, the master node, or a node of `RebootOptions.done` is unknown.
    """
    nodes = _eligible(cluster, wanted)
    known = bool(wanted.master) or wanted.force
    context = RebootContext(cluster, settings, deadline)
    grouping = Grouping(cluster, Absence(context, wanted), tell)
    grouping.run([node.index for node in nodes] if known else [])
    master = _master(cluster, wanted.master)
    done = RebootResult(context, master)
    done.left = grouping.left
    groups = _in_order(grouping.groups, master)
    for group in groups[:1] if wanted.first_only else groups:
        done.add_group(group, grouping.away(group))
    done.plan.reason = _reason(grouping)
    if grouping.stop is not None:
        done.plan.end(grouping.stop)
    if not known:
        done.plan.reason, done.complete = UNKNOWN_MASTER, False
        done.remarks.append(f"iallocator: {UNKNOWN_MASTER}")
    done.remarks += _left_out(cluster, grouping)
    return done


def _left_out(cluster: Cluster, grouping: Grouping) -> list[str]:
    """What to say of the nodes in no group: those that an end came before, in one line."""
    reason = "" if grouping.stop is None else grouping.stop.reason
    cut_off = [index for index, why in grouping.left.items() if why == reason]
    lines = [
        f"iallocator: {cluster.nodes[index].name} is not rebooted: {why}"
        for index, why in grouping.left.items()
        if why != reason
    ]
    if cut_off:
        some = ", ".join(cluster.node_names(cut_off[:SHOWN])) + ", ..." * (len(cut_off) > SHOWN)
        nodes = "1 node is" if len(cut_off) == 1 else f"{len(cut_off)} nodes are"
        lines.append(f"iallocator: {nodes} not rebooted: {reason} ({some})")
    return lines


def _eligible(cluster: Cluster, wanted: RebootOptions) -> list[Node]:
    """The nodes that are to be rebooted: online ones that options do not rule out."""
    if wanted.group:
        group_named(cluster, wanted.group)
    known = [node.name for node in cluster.nodes]
    done = {whole_name(name, known, "--done", "node") for name in wanted.done}
    alone = {
        index
        for instance in cluster.instances
        for index in instance.nodes
        if not instance.needs_secondary
    }
    return [
        node
        for node in cluster.nodes
        if node.online
        and node.name not in done
        and (not wanted.group or wanted.group in (node.group.name, node.group.uuid))
        and (not wanted.node_tags or not set(wanted.node_tags).isdisjoint(node.tags))
        and not (wanted.single == SKIPPED and node.index in alone)
    ]


def _master(cluster: Cluster, name: str) -> int:
    """The index of the master node; -1 if it is not known."""
    if not name:
        return -1
    known = [node.name for node in cluster.nodes]
    return known.index(whole_name(name, known, "--master", "node"))


def _in_order(groups: Sequence[Sequence[int]], master: int) -> list[list[int]]:
    """Larger groups first, the one with the master last, and in it the master."""
    ordered = [sorted(group, key=lambda index: (index == master, index)) for group in groups]
    return sorted(ordered, key=lambda group: (master in group, -len(group), group))


def _reason(grouping: Grouping) -> str:
    """How good the answer is, for people."""
    if not grouping.groups:
        return NO_NODE if grouping.left else "no node is to be rebooted"
    if len(grouping.groups) <= grouping.bound:
        return "fewer groups cannot be: proved"
    return ""
