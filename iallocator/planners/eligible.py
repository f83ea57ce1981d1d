"""Find the nodes, groups and instances that a planner may change, by the options of its command."""

from __future__ import annotations

from iallocator.compat import OURS
from iallocator.errors import MOST_NAMES, NotFoundError, cut
from iallocator.names import guesses, whole_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import TypeVar

    from iallocator.compat import Behaviour
    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance

    Thing = TypeVar("Thing")

__all__ = [
    "group_named", "in_order", "movable", "nodes_named", "set_offline", "set_vcpu_ratio",
]  # fmt: skip


def nodes_named(cluster: Cluster, words: Collection[str], option: str) -> list[str]:
    """Return the names of the nodes that `words`, the values of `option`, mean.

    A word is the name of a node or a unique beginning of one, see `iallocator.names.whole_names`.

    Raises
    ------
    NotFoundError
        If a word means no node.
    """
    return whole_names(words, [node.name for node in cluster.nodes], option, "node")


def group_named(cluster: Cluster, word: str, option: str = "--group") -> Group:
    """Return the group with the name or uuid `word`.

    Raises
    ------
    NotFoundError
        If there is no such group.
    """
    for group in cluster.groups:
        if word in (group.name, group.uuid):
            return group
    meant = guesses(word, [group.name for group in cluster.groups])
    known = ", ".join(cut(group.name) for group in cluster.groups[:MOST_NAMES])
    raise NotFoundError(f"{option}: unknown group {cut(word)}{meant}; the cluster has {known}")


def set_offline(cluster: Cluster, words: Collection[str]) -> None:
    """Treat the nodes that `words` mean as offline.

    Raises
    ------
    NotFoundError
        If a word means no node.
    """
    if not words:
        return
    names = nodes_named(cluster, words, "--offline")
    for node in cluster.nodes:
        if node.name in names:
            node.offline = True
            node.online = False


def set_vcpu_ratio(cluster: Cluster, ratio: float) -> None:
    """Allow `ratio` virtual cpus per cpu on every node, in place of the ratio of its policy."""
    for node in cluster.nodes:
        node.vcpu_ratio = ratio


def movable(
    cluster: Cluster,
    group: Group,
    selected: Collection[str] | None = None,
    excluded: Collection[str] = (),
    unbalanced: bool = False,
    behaviour: Behaviour = OURS,
) -> list[Instance]:
    """Return the instances of `group` that a planner may move, in the order that decides ties.

    An instance may not be moved if its disks cannot be moved, if it is not auto-balanced, or if its
    nodes are in two groups. hbal also leaves out diskless instances.

    Parameters
    ----------
    cluster, group:
        The instances of this node group are examined.
    selected:
        Names of the only instances that may be moved; None: all instances of the group.
    excluded:
        Names of instances that may not be moved.
    unbalanced:
        Whether instances that are not auto-balanced may be moved, too.
    behaviour:
        The program to follow for diskless instances and for the order.
    """
    chosen = [
        i
        for i in cluster.members(group)
        if i.kind.planners_move
        and len(i.nodes) == i.required_nodes  # a drbd instance may have lost its secondary
        and (i.auto_balance or unbalanced)
        and all(cluster.nodes[index].group is group for index in i.nodes)
        and (selected is None or i.name in selected)
        and i.name not in excluded
        and (behaviour.plans_for_diskless or i.kind.has_disks)
    ]
    return in_order(chosen, behaviour)


def in_order(things: Sequence[Thing], behaviour: Behaviour) -> list[Thing]:
    """Return nodes or instances in the order that decides ties: planners use the first of equals.

    hbal uses the first one of the document. This program and hail use the last one.
    """
    return list(things)[::-1] if behaviour.plans_by_document else list(things)
