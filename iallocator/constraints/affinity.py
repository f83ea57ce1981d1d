"""The affinity constraints of a cluster on its state: which nodes reject an instance, and why.

`iallocator.constraints.relations.Relations` has the constraints. `LiveAffinity` counts the members
of rules on the present state, and checks that a node has free capacity for a whole colocation
group.
"""

from __future__ import annotations

from iallocator.constraints.no_affinity import NoAffinity
from iallocator.model.constraints import ORDER, items_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from iallocator.constraints.relations import Relations
    from iallocator.constraints.rule_counts import LiveRuleCounts, RuleCounts
    from iallocator.model.constraints import Constraint
    from iallocator.model.instance import Instance
    from iallocator.model.state import State

__all__ = ["LiveAffinity"]


class LiveAffinity(NoAffinity):
    """The affinity constraints of a cluster, checked on the present `state`.

    `reason` is the failure reason of a rejected node. `new` are the instances that the request
    creates. `fits` returns whether the limits of a node allow it to be the primary of an instance
    that is not placed.
    """

    __slots__ = ("_fits", "_known", "_new", "_reason", "_relations", "_rule_counts", "_state")

    def __init__(
        self,
        reason: str,
        relations: Relations,
        state: State,
        new: Sequence[Instance],
        fits: Callable[[Instance, int], bool],
    ) -> None:
        super().__init__()
        self._reason = reason
        self.relations = self._relations = relations
        self._state = state
        self._new = new
        self._fits = fits
        self._rule_counts: LiveRuleCounts | None = None
        self._known: dict[str, Instance] = {}

    def _now(self) -> RuleCounts:
        """Return the present counts of rules; `pending` instances are left out."""
        if self._rule_counts is None:
            self._rule_counts = self._relations.live(self._state)
        return self._rule_counts.now(self.pending)

    def _named(self, name: str) -> Instance | None:
        """Return the instance called `name`, of the request or else of the cluster; or None."""
        if not self._known:
            every = (*self._state.cluster.instances, *self._new)
            self._known = {instance.name: instance for instance in every}
        return self._known.get(name)

    def rejected(self, instance: Instance, nodes: Iterable[int]) -> dict[int, str]:
        relations = self._relations
        if relations.locations is None and instance.name not in relations.members_of:
            return {}  # without counting the members of rules
        nodes = list(nodes)
        rejections = dict.fromkeys(
            self._relations.rejected(instance.name, nodes, self._now()), self._reason
        )
        companions = self._companions(instance)
        if companions:
            left = [index for index in nodes if index not in rejections]
            rejections |= {i: self._reason for i in left if not self._room_for_all(companions, i)}
        return rejections

    def units(self, instances: Sequence[Instance]) -> list[list[Instance]]:
        return items_of(instances, self._relations.units())

    def rejected_passing(self, instance: Instance, nodes: Iterable[int]) -> dict[int, str]:
        rejected = self._relations.rejected_passing(instance.name, nodes, self._now())
        return dict.fromkeys(rejected, self._reason)

    def rejected_secondaries(self, instance: Instance, nodes: Iterable[int]) -> dict[int, str]:
        forbidden = self._relations.forbidden(instance.name)
        return {index: self._reason for index in nodes if index in forbidden}

    def rejection_texts(self, instance: Instance, nodes: Iterable[int]) -> dict[int, str]:
        node_list = list(nodes)
        rejected = self._relations.rejections(instance.name, node_list, self._now())
        names = [one.name for one in self._companions(instance)]
        crowd = f"no room for all that must be together: {', '.join(names)}"
        return {i: f"must be {rejected[i].text}" if i in rejected else crowd for i in node_list}

    def _companions(self, instance: Instance) -> list[Instance]:
        """Return `instance` and the unplaced members of its colocation group, or []."""
        unit = self._relations.units().get(instance.name, ()) if self.pending else ()
        names = sorted(name for name in unit if name in self.pending and name != instance.name)
        companions = [one for name in names if (one := self._named(name)) is not None]
        return [instance, *companions] if companions else []

    def _room_for_all(self, companions: Sequence[Instance], index: int) -> bool:
        """Return whether node `index` can become the primary of all `companions` together."""
        state = self._state
        with state.trial():
            for one in companions:
                if one.name in state.where:
                    state.remove(one, state.where[one.name])
            for one in companions:
                if self._relations.rejected(one.name, (index,), self._now()):
                    return False
                if not self._fits(one, index):
                    return False
                state.place(one, (index,))
        return True

    def may_cost(self, instance: Instance) -> bool:
        relations = self._relations  # an instance with companions is in a rule
        return instance.name in relations.members_of or relations.prefers(instance.name)

    def costs(self, instance: Instance, nodes: Collection[int]) -> dict[int, float]:
        """Return node -> the penalty of `instance` and its unplaced companions on this node."""
        costs: dict[int, float] = {}
        for one in self._companions(instance) or [instance]:
            node_costs = self._relations.costs(one.name, nodes, self._now())
            for index, cost in node_costs.items():
                costs[index] = costs.get(index, 0.0) + cost
        return costs

    def broken(self, instance: Instance, node: int) -> list[str]:
        broken: list[Constraint] = []
        if self.may_cost(instance):
            broken = self._relations.violated_soft(instance.name, node, self._now())
        return [constraint.text_with_penalty for constraint in broken] + self.unmet_orders(instance)

    def unmet_orders(self, instance: Instance) -> list[str]:
        home = self._state.cluster.nodes[instance.nodes[0]] if instance.nodes else None
        if home is not None and home.online:
            return []  # it runs already
        soft = [b for b in self._relations.of(instance.name, ORDER) if b.other and not b.must]
        return [f"{b.text}: {why}" for b in soft if (why := self._why_not_running(b.other))]

    def _why_not_running(self, name: str) -> str:
        """Return why instance `name` does not run after the request; "" if it runs or may run."""
        known = self._named(name)
        if known is None:
            return f"there is no {name}"
        if name in self.pending:
            return ""
        if not known.nodes:
            return "" if name in self._state.where else f"{name} has no place"
        runs = known.running and name in self._state.where
        return "" if runs else f"{name} does not run"

    def unsatisfiable(self, instance: Instance) -> str:
        where = self._state.where
        present = where.get(instance.name, ())[:1]
        every = self._state.cluster.nodes
        nodes = [node.index for node in every if node.online and node.index not in present]
        rejected = self._relations.rejections(instance.name, nodes, self._now())
        if not rejected or len(rejected) < len(nodes):
            return ""
        return "must be " + " and ".join(dict.fromkeys(map(self._because, rejected.values())))

    def _because(self, constraint: Constraint) -> str:
        """Return a hard constraint in words.

        If the node of the other instance is not online, the words include the state of this node.
        """
        nodes = self._state.where.get(constraint.other)
        home = self._state.cluster.nodes[nodes[0]] if nodes else None
        if home is None or home.online:
            return constraint.text
        state = "offline" if home.offline else "drained" if home.drained else "not vm_capable"
        return f"{constraint.text}, which is on {home.name}, which is {state}"

    def unsupported(self, instances: Sequence[Instance]) -> dict[str, str]:
        chains = self._relations.unsupported({instance.name for instance in instances})
        return {one.name: chains[one.name] for one in instances if one.name in chains}

    def dependents_of_failed(
        self, done: Sequence[Instance], failed: Collection[str], ordered: bool
    ) -> dict[str, str]:
        return self._relations.dependents_of_failed([one.name for one in done], failed, ordered)

    def in_order(self, instances: Sequence[Instance]) -> list[Instance]:
        return self._relations.in_order(instances)
