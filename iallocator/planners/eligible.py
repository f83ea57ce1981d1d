"""What a planner may change: the nodes, the groups, and the instances that can move."""

from __future__ import annotations

from iallocator.compat import OURS
from iallocator.errors import NotFoundError, cut
from iallocator.names import whole_names
from iallocator.scoring.scalar import score_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import TypeVar

    from iallocator.compat import Behaviour
    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State

    Thing = TypeVar("Thing")

__all__ = [
    "group_named", "in_order", "movable", "nodes_named", "set_offline", "set_vcpu_ratio",
    "worst_first",
]  # fmt: skip

GROUPS_TOLD = 5
"""So many groups are named where a name is wrong."""


def nodes_named(cluster: Cluster, words: Collection[str], option: str) -> list[str]:
    """Return the names of the nodes that `words` mean; see `iallocator.names.whole_names`."""
    return whole_names(words, [node.name for node in cluster.nodes], option, "node")


def group_named(cluster: Cluster, word: str, option: str = "--group") -> Group:
    """Return the group whose name or uuid is `word`.

    Raises
    ------
    NotFoundError
        If there is none.
    """
    for group in cluster.groups:
        if word in (group.name, group.uuid):
            return group
    known = ", ".join(cut(group.name) for group in cluster.groups[:GROUPS_TOLD])
    raise NotFoundError(f"{option}: unknown group {cut(word)}; there is {known}")


def set_offline(cluster: Cluster, words: Collection[str]) -> None:
    """Treat the nodes that `words` mean as offline.

    Raises
    ------
    NotFoundError
        As `nodes_named`.
    """
    if not words:
        return
    names = nodes_named(cluster, words, "--offline")
    for node in cluster.nodes:
        if node.name in names:
            node.offline = True
            node.online = False


def set_vcpu_ratio(cluster: Cluster, ratio: float) -> None:
    """Allow `ratio` virtual cpus per cpu on every node, whatever the policies allow."""
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
    """Return the instances of `group` that a planner may move, in the order that breaks ties.

    Left out are instances that cannot move, are not auto-balanced, or are split over two groups;
    hbal leaves out diskless ones, too.  `selected` None means all; `unbalanced` includes those that
    are not auto-balanced.
    """
    chosen = [
        i
        for i in cluster.members(group)
        if i.kind.planners_move
        and len(i.nodes) == i.required_nodes  # a drbd instance may have lost its mirror
        and (i.auto_balance or unbalanced)
        and all(cluster.nodes[index].group is group for index in i.nodes)
        and (selected is None or i.name in selected)
        and i.name not in excluded
        and (behaviour.plans_for_diskless or i.kind.has_disks)
    ]
    return in_order(chosen, behaviour)


def in_order(things: Sequence[Thing], behaviour: Behaviour) -> list[Thing]:
    """Return nodes or instances in the order in which the first of equals wins.

    hail's order is the reverse of the document's; hbal takes the first of the document.
    """
    return list(things)[::-1] if behaviour.plans_by_document else list(things)


def worst_first(state: State) -> list[Group]:
    """Return the groups that have nodes, the highest score first."""
    groups = [group for group in state.cluster.groups if group.nodes]
    scores = {group.index: score_of(state, group.nodes) for group in groups}
    return sorted(groups, key=lambda group: -scores[group.index])
