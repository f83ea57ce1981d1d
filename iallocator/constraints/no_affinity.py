"""The affinity constraints of a cluster that has none, as most clusters."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from iallocator.constraints.relations import Relations
    from iallocator.model.instance import Instance

__all__ = ["NoAffinity"]


class NoAffinity:
    """The affinity constraints of instances if there are none.

    `iallocator.constraints.affinity.LiveAffinity` has the results if there are some.

    Attributes
    ----------
    relations:
        The constraints between instances, or None.
    pending:
        Names of instances of the request that rules do not count yet, because their own nodes
        are not decided.
    """

    __slots__ = ("pending", "relations")

    def __init__(self) -> None:
        self.relations: Relations | None = None
        self.pending: set[str] = set()

    def rejected(self, instance: Instance, nodes: Iterable[int]) -> dict[int, str]:
        """Return node -> reason for the nodes of `nodes` that hard rules forbid for `instance`.

        A node is also rejected if it has no capacity for the undecided instances that must be on
        the same node.
        """
        return {}

    def units(self, instances: Sequence[Instance]) -> list[list[Instance]]:
        """Return `instances` in colocation groups, each at the position of its first member."""
        return [[instance] for instance in instances]

    def rejected_passing(self, instance: Instance, nodes: Iterable[int]) -> dict[int, str]:
        """Return the nodes that `instance` must not use even for a temporary move, with reasons.

        Instances that must be together with it may be on other nodes meanwhile.
        """
        return {}

    def rejected_secondaries(self, instance: Instance, nodes: Iterable[int]) -> dict[int, str]:
        """Return node -> reason for the nodes that must not become the secondary."""
        return {}

    def rejection_texts(self, instance: Instance, nodes: Iterable[int]) -> dict[int, str]:
        """Return node -> the constraint by which `rejected` rejects it, and its origin."""
        return {}

    def costs(self, instance: Instance, nodes: Collection[int]) -> dict[int, float]:
        """Return node -> the penalty of violated soft constraints there; 0 is left out."""
        return {}

    def broken(self, instance: Instance, node: int) -> list[str]:
        """Return the soft constraints that `instance` on `node` violates, in words."""
        return []

    def unmet_orders(self, instance: Instance) -> list[str]:
        """Return the instances that do not run although `instance` should start after them."""
        return []

    def unsatisfiable(self, instance: Instance) -> str:
        """Return the hard constraints that reject `instance` on every other node, in words.

        The result is "" if some node passes. The limits of nodes are not checked.
        """
        return ""

    def unsupported(self, instances: Sequence[Instance]) -> dict[str, str]:
        """Return the `instances` that start after one that cannot run, each with the chain."""
        return {}

    def dependents_of_failed(
        self, done: Sequence[Instance], failed: Collection[str], ordered: bool
    ) -> dict[str, str]:
        """Return the instances of `done` that depend on one of `failed`, with the chain in words.

        With `ordered`, an instance depends on those that it must start after.
        """
        return {}

    def in_order(self, instances: Sequence[Instance]) -> list[Instance]:
        """Return `instances` in the order in which they are placed."""
        return list(instances)
