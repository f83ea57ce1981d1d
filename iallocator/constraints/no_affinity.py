"""The affinity constraints of a cluster without any, as most clusters are."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from iallocator.constraints.relations import Relations
    from iallocator.model.instance import Instance

__all__ = ["NoAffinity"]


class NoAffinity:
    """The results of affinity checks in a cluster without affinity constraints.

    `iallocator.constraints.affinity.LiveAffinity` overrides the methods for other clusters.

    Attributes
    ----------
    relations:
        The constraints between instances, or None.
    pending:
        Names of instances of the request that rules do not count yet, because their own nodes are
        not decided.
    """

    __slots__ = ("pending", "relations")

    def __init__(self) -> None:
        self.relations: Relations | None = None
        self.pending: set[str] = set()

    def rejected(self, instance: Instance, nodes: Iterable[int]) -> dict[int, str]:
        """Return node -> failure reason, for those of `nodes` that hard constraints forbid for
        `instance`.

        A node is also rejected if it lacks the capacity for the undecided instances that must be on
        the same node.
        """
        return {}

    def units(self, instances: Sequence[Instance]) -> list[list[Instance]]:
        """Return `instances` in colocation groups, each at the position of its first member."""
        return [[instance] for instance in instances]

    def rejected_passing(self, instance: Instance, nodes: Iterable[int]) -> dict[int, str]:
        """Return node -> reason, for nodes that `instance` must not use even for a temporary move.

        Instances that must be on the same node may be on other nodes meanwhile.
        """
        return {}

    def rejected_secondaries(self, instance: Instance, nodes: Iterable[int]) -> dict[int, str]:
        """Return node -> reason, for those of `nodes` that must not become the secondary."""
        return {}

    def rejection_texts(self, instance: Instance, nodes: Iterable[int]) -> dict[int, str]:
        """Return node -> the constraint that rejects `instance` there, in words."""
        return {}

    def may_cost(self, instance: Instance) -> bool:
        """Return whether soft constraints of `instance` can have a penalty on some node."""
        return False

    def costs(self, instance: Instance, nodes: Collection[int]) -> dict[int, float]:
        """Return node -> the penalty of soft constraints that `instance` violates on this node.

        Nodes without a penalty are left out.
        """
        return {}

    def broken(self, instance: Instance, node: int) -> list[str]:
        """Return the soft constraints that `instance` on `node` violates, in words."""
        return []

    def unmet_orders(self, instance: Instance) -> list[str]:
        """Return the soft start orders that are violated if `instance` starts, in words."""
        return []

    def unsatisfiable(self, instance: Instance) -> str:
        """Return the hard constraints that reject `instance` on every other node, in words.

        The result is "" if some node passes. The limits of nodes are not checked.
        """
        return ""

    def unsupported(self, instances: Sequence[Instance]) -> dict[str, str]:
        """Return instance -> chain of orders in words, for instances that start after one that
        cannot run.
        """
        return {}

    def dependents_of_failed(
        self, done: Sequence[Instance], failed: Collection[str], ordered: bool
    ) -> dict[str, str]:
        """Return instance -> chain in words, for those of `done` that depend on one of `failed`.

        With `ordered`, an instance also depends on the instances that must start before it.
        """
        return {}

    def in_order(self, instances: Sequence[Instance]) -> list[Instance]:
        """Return `instances` in the order in which they are placed."""
        return list(instances)
