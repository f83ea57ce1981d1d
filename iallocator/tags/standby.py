"""Tags of standby nodes: healthy nodes that are powered down and can be powered on at any time."""

from __future__ import annotations

from math import inf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from iallocator.model.cluster import Node

__all__ = ["AUTO_TAG", "is_standby", "retag", "standby_tags", "wake_rank"]

STANDBY_PREFIX = "htools:standby:"

AUTO_TAG = STANDBY_PREFIX + "auto"
"""The tag of nodes that a planner has powered down."""

STANDBY_PRIORITY_TAG = STANDBY_PREFIX + "priority:"

LAST_WAKE_RANK = inf


def standby_tags(node: Node) -> list[str]:
    """Return the tags that allow powering the node down and on."""
    return [tag for tag in node.tags if tag.startswith(STANDBY_PREFIX)]


def is_standby(node: Node) -> bool:
    """Return whether the node is powered down and can be powered on."""
    healthy = node.offline and node.vm_capable and not node.drained
    return healthy and bool(standby_tags(node))


def wake_rank(node: Node) -> float:
    """Return the lowest N in the node's tags ``htools:standby:priority:N``; infinity if none."""
    numbers = [
        tag[len(STANDBY_PRIORITY_TAG) :]
        for tag in node.tags
        if tag.startswith(STANDBY_PRIORITY_TAG)
    ]
    return min((int(n) for n in numbers if n.isascii() and n.isdigit()), default=LAST_WAKE_RANK)


def retag(node: Node, added: Iterable[str], removed: Collection[str]) -> None:
    """Add and remove tags of the node."""
    node.tags = [*(tag for tag in node.tags if tag not in removed), *added]
