"""The rejection of an instance by a node: the counted reason, and the numbers."""

from __future__ import annotations

from functools import partial

from iallocator.constraints.table import (
    entry_rejections,
    entry_words,
    group_obstacle,
    move_rejections,
    move_words,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance

__all__ = ["Rejection", "group_rejections", "migration_rejection"]


class Rejection:
    """The reason why an instance may not be on a node, or in a group.

    Attributes
    ----------
    reason:
        The failure reason, one of `iallocator.constraints.table.REASONS`; ``FailGroup`` if the
        whole group is rejected.
    text:
        The numbers, or the rule, in words; it goes on from the name of the node or group.
        If it is a function, it is called when the text is read: most rejections are not.
    node:
        The index of the node that rejects; None for a whole group.
    step:
        The step of a move that fails, in words; "" if it is just the role.
    """

    __slots__ = ("_text", "node", "reason", "step")

    def __init__(
        self,
        reason: str,
        text: str | Callable[[], str],
        node: int | None = None,
        step: str = "",
    ) -> None:
        self.reason = reason
        self._text = text
        self.node = node
        self.step = step

    @property
    def text(self) -> str:
        """The numbers, or the rule."""
        if not isinstance(self._text, str):
            self._text = self._text()
        return self._text

    def __str__(self) -> str:
        return f"{self.reason}: {self.text}"

    @property
    def wording(self) -> str:
        """Return the reason and the text in one line, with the step in which it occurs."""
        return f"{self.reason} {self.step}: {self.text}" if self.step else str(self)


def group_rejections(
    cluster: Cluster, group: Group, instance: Instance, nodes: Iterable[int], by_policy: str
) -> dict[int, Rejection]:
    """Return those of `nodes` of `group` that reject `instance` regardless of free capacity.

    If the whole group rejects the instance, these are all nodes. `by_policy` is the reason that is
    counted where the policy rejects the instance; if it is "", the part of the policy is the
    reason.
    """
    obstacle = group_obstacle(cluster, group, instance)
    if obstacle:
        return dict.fromkeys(nodes, Rejection("FailGroup", obstacle))
    rejected = entry_rejections(cluster, group, instance, by_policy)
    return {
        i: Rejection(rejected[i], partial(entry_words, cluster, instance, i, brief=True), i)
        for i in nodes
        if i in rejected
    }


def migration_rejection(cluster: Cluster, source: int, target: int) -> Rejection | None:
    """Return the rejection if instances of `source` must not migrate to `target`, or None."""
    reason = move_rejections(cluster, source, (target,)).get(target)
    return Rejection(reason, move_words(cluster, source, target), target) if reason else None
