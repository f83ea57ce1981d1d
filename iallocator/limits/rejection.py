"""The rejection of an instance by a node or a group: the failure reason, and the numbers."""

from __future__ import annotations

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
        The amounts, or the constraint, in words that follow the name of the node or group. A
        function is called when the text is read, because most texts are never read.
    node:
        The index of the node that rejects the instance; None for a whole group.
    step:
        The step of a move that fails, in words; "" if the node is rejected in its role.
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
        """Return the amounts, or the constraint, in words."""
        if not isinstance(self._text, str):
            self._text = self._text()
        return self._text

    def __str__(self) -> str:
        return f"{self.reason}: {self.text}"

    @property
    def wording(self) -> str:
        """Return the reason and the text in one line, with the step of the move that fails."""
        return f"{self.reason} {self.step}: {self.text}" if self.step else str(self)


def group_rejections(
    cluster: Cluster, group: Group, instance: Instance, nodes: Iterable[int], by_policy: str
) -> dict[int, Rejection]:
    """Return node -> rejection, for `nodes` of `group` that reject `instance` even if empty.

    If the whole group rejects the instance, all nodes are rejected. `by_policy`: the failure reason
    if the policy rejects the instance; "": the part of the policy is the reason.
    """
    obstacle = group_obstacle(cluster, group, instance)
    if obstacle:
        return dict.fromkeys(nodes, Rejection("FailGroup", obstacle))
    rejected = entry_rejections(cluster, group, instance, by_policy)

    def rejection(index: int) -> Rejection:
        return Rejection(
            rejected[index], lambda: entry_words(cluster, instance, index, brief=True), index
        )

    return {index: rejection(index) for index in nodes if index in rejected}


def migration_rejection(cluster: Cluster, source: int, target: int) -> Rejection | None:
    """Return the rejection if instances of node `source` must not migrate to `target`, or None."""
    reason = move_rejections(cluster, source, (target,)).get(target)
    return Rejection(reason, move_words(cluster, source, target), target) if reason else None
