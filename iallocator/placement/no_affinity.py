"""The bonds between instances where there are none, which is what most clusters have."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from iallocator.aliases import Nodes
    from iallocator.constraints.relations import Relations
    from iallocator.model.instance import Instance
    from iallocator.scoring.candidates import Candidates
    from iallocator.transition.requirements import Demands


__all__ = ["NoAffinity"]


class NoAffinity:
    """The affinity constraints of instances if there are none.

    `iallocator.placement.affinity.Affinity` has the results if there are some.

    Attributes
    ----------
    relations:
        The constraints between instances, or None.
    pending:
        Names of instances of the request that bind no other one yet, because their own place
        is not decided.
    """

    __slots__ = ("pending", "relations")

    def __init__(self) -> None:
        self.relations: Relations | None = None
        self.pending: set[str] = set()

    def rejected(self, instance: Instance, nodes: Iterable[int]) -> dict[int, str]:
        """Those of `nodes` where `instance` must not run, each with its reason.

        Nor where those could not follow that must be on the same node and have no place
        yet: the nodes that will do are those that will do for all of them.
        """
        return {}

    def units(self, instances: Sequence[Instance]) -> list[list[Instance]]:
        """`instances`, those that must be on one node together where the first of them stands."""
        return [[instance] for instance in instances]

    def rejected_passing(self, instance: Instance, nodes: Iterable[int]) -> dict[int, str]:
        """Those of `nodes` where `instance` must not even run on its way to another.

        Those that it must be together with may be elsewhere for so long.
        """
        return {}

    def rejected_mirrors(self, instance: Instance, nodes: Iterable[int]) -> dict[int, str]:
        """Those of `nodes` that must not become the secondary of `instance`, with the reason."""
        return {}

    def rejection_texts(self, instance: Instance, nodes: Iterable[int]) -> dict[int, str]:
        """Per node that `rejected` rejects, which bond does and where it comes from."""
        return {}

    def with_soft_costs(
        self, instance: Instance, candidates: Candidates
    ) -> tuple[Candidates, dict[Nodes, float]]:
        """`candidates` with the cost of what they break added, and their scores without it.

        No scores if nothing costs anything.
        """
        return candidates, {}

    def costs(self, instance: Instance, nodes: Collection[int]) -> dict[int, float]:
        """What each of `nodes` costs by what `instance` should not do there; 0 is left out."""
        return {}

    def broken(self, instance: Instance, node: int) -> list[str]:
        """What `instance` on `node` should rather not do, for people."""
        return []

    def unmet_orders(self, instance: Instance) -> list[str]:
        """Return the instances that do not run although `instance` should start after them."""
        return []

    def unsatisfiable(self, instance: Instance) -> str:
        """The bonds that leave no node at all for `instance`, for people, or "".

        All nodes but the one it is on are looked at, whatever else they lack.
        """
        return ""

    def unsupported(self, instances: Sequence[Instance]) -> dict[str, str]:
        """New `instances` that start after something that cannot run, each with the chain."""
        return {}

    def dependents_of_failed(
        self, done: Sequence[Instance], failed: Collection[str], ordered: bool
    ) -> dict[str, str]:
        """Those of `done` that depend on one of `failed`, directly or through others, and how.

        A must that is not met fails whatever depends on it; the text names the chain.
        `ordered`: to follow another is to depend on it.
        """
        return {}

    def demands(self) -> Demands | None:
        """What they ask of the order of steps; None for nothing."""
        return None

    def in_order(self, instances: Sequence[Instance]) -> list[Instance]:
        """`instances` in the order in which they choose."""
        return list(instances)
