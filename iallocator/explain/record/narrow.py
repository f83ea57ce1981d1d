"""An explanation of one instance, or of what one node said."""

from __future__ import annotations

from iallocator.errors import UsageError, cut
from iallocator.explain.group_report import GroupReport
from iallocator.names import meant, whole_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.explain.explanation import Decision, Explanation
    from iallocator.model.cluster import Cluster, Node

__all__ = ["narrow_to_instance", "narrow_to_node"]

NAMED = 5
"""How many names are told at most where one is wrong."""


def narrow_to_instance(found: Explanation, name: str) -> None:
    """Leave the decision about the instance called `name` only.

    Raises
    ------
    UsageError
        If the request is not about it.
    """
    names = [decision.instance for decision in found.decisions]
    possible = meant(name, names)
    if len(possible) == 1:
        name = possible[0]
    else:
        known = ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")
        raise UsageError(
            f"--instance: the request is not about {cut(name)}, but about {known or 'none'}"
        )
    found.decisions = [decision for decision in found.decisions if decision.instance == name]


def narrow_to_node(found: Explanation, cluster: Cluster, name: str) -> None:
    """Leave of each decision what the node called `name` said only.

    Raises
    ------
    NotFoundError
        If there is no such node.
    """
    name = whole_name(name, [node.name for node in cluster.nodes], "--node", "node")
    node = next(node for node in cluster.nodes if node.name == name)
    for decision in found.decisions:
        _narrow(decision, node)
        if not any(part.groups for part in decision.parts()):
            group = node.group
            why = f"{node.name} is in group {group.name}, which was not asked"
            report = GroupReport(group.name, group.uuid, group.alloc_policy, obstacle=why)
            decision.groups = [report]


def _narrow(decision: Decision, node: Node) -> None:
    """Leave what the group of `node` said of it last: not how that was chosen before."""
    decision.groups = [group for group in decision.groups if group.uuid == node.group.uuid]
    for group in decision.groups:
        group.nodes = [one for one in group.nodes if one.name == node.name]
        group.unsurvived = [one for one in group.unsurvived if node.name in one.nodes]
    if decision.groups:
        decision.choice = decision.elsewhere = None
    for part in (decision.choice, decision.elsewhere):
        if part is not None:
            _narrow(part, node)
