"""Why an instance may not be on a node: the reason that is counted, and the numbers."""

from __future__ import annotations

from iallocator.constraints.table import INSTANCE_POLICY, MIGRATION_TAGS, NETWORKS, out_of_reach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance

__all__ = ["Rejection", "group_rejections", "migration_rejection"]


class Rejection:
    """Why an instance may not be on a node, or in a group.

    Attributes
    ----------
    reason:
        What it is counted as, as in `iallocator.constraints.table.REASONS`; ``FailGroup`` where
        the whole group is out.
    text:
        The numbers, or the rule, for people; it goes on from the name of the node or group.
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
        """Reason and text in one, with the step."""
        return f"{self.reason} {self.step}: {self.text}" if self.step else str(self)


def group_rejections(
    cluster: Cluster, group: Group, instance: Instance, nodes: Iterable[int], by_policy: str
) -> dict[int, Rejection]:
    """Return those of `nodes` of `group` that reject `instance` regardless of free capacity.

    If the whole group rejects the instance, these are all nodes. `by_policy` is the reason that is
    counted where the policy rejects the instance; if it is "", the part of the policy is the
    reason.
    """
    missing = NETWORKS.missing(group, instance)
    if missing:
        why = f"group {group.name} is not connected to network {', '.join(sorted(missing))}"
        return dict.fromkeys(nodes, Rejection("FailGroup", why))
    lacking = out_of_reach(cluster, group.nodes, instance)
    if lacking:
        return dict.fromkeys(
            nodes, Rejection("FailGroup", f"group {group.name} does not {lacking}")
        )
    rejected = INSTANCE_POLICY.rejected(cluster, group, instance, by_policy)
    why = f"the policy of group {group.name} refuses an instance of this kind or size"
    return {i: Rejection(rejected[i], why, i) for i in nodes if i in rejected}


def migration_rejection(cluster: Cluster, source: int, target: int) -> Rejection | None:
    """Return the rejection if migration tags keep instances of `source` off `target`, or None."""
    words = MIGRATION_TAGS.words(cluster, source, target)
    return Rejection(MIGRATION_TAGS.reason, words, target) if words else None
