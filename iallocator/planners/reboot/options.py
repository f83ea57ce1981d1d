"""The options of a rolling reboot, and the nodes that they choose."""

from __future__ import annotations

from iallocator.light import ValueObject
from iallocator.names import whole_name
from iallocator.planners.eligible import group_named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from iallocator.model.cluster import Cluster, Node

__all__ = ["IGNORED", "MOVED", "SKIPPED", "RebootOptions", "chosen_nodes", "nodes_to_reboot"]

MOVED = "moved"
SKIPPED = "skipped"
IGNORED = "ignored"


class RebootOptions(ValueObject):
    """Options of a rolling reboot.

    Attributes
    ----------
    down:
        Whether all instances are shut down before the reboots.
    evacuate:
        Whether instances also leave nodes that are their secondary.
    single:
        What happens to instances that have no secondary. `MOVED`: the instances move to other
        nodes. `SKIPPED`: nodes with such instances are not rebooted. `IGNORED`: the instances stop
        with their node.
    node_tags:
        Only nodes with one of these tags are rebooted; () for all nodes.
    group:
        Name or uuid of the only node group to reboot; "" for all groups.
    master:
        Name of the master node, which is rebooted last; "" if it is not known.
    first_only:
        Whether only the first group of nodes is planned.
    done:
        Names of nodes that have been rebooted already.
    only:
        Names of the only nodes to reboot; () for all nodes.
    most:
        The largest number of nodes in a group; 0 for any number.
    stays:
        Whether to plan without checking that instances can return.
    force:
        Whether to plan without knowing the master node.
    optimal:
        Whether to search longer for the fewest groups and a proof.
    """

    down: bool = False
    evacuate: bool = False
    single: str = MOVED
    node_tags: Collection[str] = ()
    group: str = ""
    master: str = ""
    first_only: bool = False
    done: Collection[str] = ()
    only: Collection[str] = ()
    most: int = 0
    stays: bool = False
    force: bool = False
    optimal: bool = False


def nodes_to_reboot(cluster: Cluster, options: RebootOptions) -> list[Node]:
    """Return the nodes to reboot: the online nodes that `options` do not exclude."""
    return [node for node in chosen_nodes(cluster, options) if node.online]


def chosen_nodes(cluster: Cluster, options: RebootOptions) -> list[Node]:
    """Return the nodes that `options` do not exclude, online or not."""
    if options.group:
        group_named(cluster, options.group)
    known = [node.name for node in cluster.nodes]
    done = {whole_name(name, known, "--done", "node") for name in options.done}
    only = {whole_name(name, known, "--only", "node") for name in options.only}
    alone = {
        index
        for instance in cluster.instances
        for index in instance.nodes
        if not instance.needs_secondary
    }
    return [
        node
        for node in cluster.nodes
        if node.name not in done
        and (not only or node.name in only)
        and (not options.group or options.group in (node.group.name, node.group.uuid))
        and (not options.node_tags or not set(options.node_tags).isdisjoint(node.tags))
        and not (options.single == SKIPPED and node.index in alone)
    ]
