"""Check the affinity constraints of an instance on its candidate nodes.

`PricedPairs` adds the penalties of the primary to the scores of pairs of nodes.
"""

from __future__ import annotations

from iallocator.constraints.table import AFFINITY
from iallocator.model.constraints import ORDER, items_of
from iallocator.placement.no_affinity import NoAffinity
from iallocator.scoring.candidates import DECIMALS, Candidates, ListedCandidates, ScoresOf
from iallocator.transition.requirements import Demands

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.constraints.relations import Relations
    from iallocator.constraints.rule_counts import LiveRuleCounts, RuleCounts
    from iallocator.model.constraints import Constraint
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.scoring.candidates import Placement

__all__ = ["Affinity", "PricedPairs", "demands_of", "priced"]


def demands_of(relations: Relations | None) -> Demands:
    """Return the orders, separations, instances not to stop, and nodes that no step may use."""
    if relations is None:
        return Demands()
    orders = [
        (bond.other, bond.instance, bond.strength)
        for bond in relations.constraints
        if bond.kind == ORDER and bond.other
    ]
    return Demands(
        apart=relations.apart,
        orders=sorted(dict.fromkeys(orders)),
        sites=relations.domains.sites,
        keep_running=frozenset(relations.keep_running),
        stuck=frozenset(relations.stuck),
        may_pass=relations.may_pass,
    )


def priced(placement: Placement, costs: Mapping[int, float]) -> Placement:
    """Return a placement with a score that includes what its primary costs."""
    score, nodes = placement
    return round(score + costs.get(nodes[0], 0.0), DECIMALS), nodes


class PricedPairs(Candidates):
    """Candidates with the cost of the primary, which all placements of a row share.

    Placements are worked out when they are asked for: there are as many as pairs of nodes.

    Attributes
    ----------
    scores:
        Placement -> score without the cost.
    """

    def __init__(self, candidates: Candidates, costs: Mapping[int, float]) -> None:
        self._candidates = candidates
        self._costs = costs
        self.feasible = candidates.feasible
        self.failures = candidates.failures
        self.scores: dict[Nodes, float] = ScoresOf(candidates)

    def rows(self) -> int:
        return self._candidates.rows()

    def row(self, number: int) -> Iterator[Placement]:
        for placement in self._candidates.row(number):
            self.scores[placement[1]] = placement[0]
            yield priced(placement, self._costs)

    def open(self, number: int) -> tuple[tuple[int, ...], list[int]]:
        return self._candidates.open(number)


class Affinity(NoAffinity):
    """The affinity constraints of a cluster, checked on the present `state`.

    `new` are the instances that the request creates. `fits` returns whether the limits of a node
    allow it to be the primary of an instance that is off the state.
    """

    __slots__ = ("_fits", "_known", "_new", "_relations", "_rule_counts", "_state")

    def __init__(
        self,
        relations: Relations,
        state: State,
        new: Sequence[Instance],
        fits: Callable[[Instance, int], bool],
    ) -> None:
        super().__init__()
        self.relations = self._relations = relations
        self._state = state
        self._new = new
        self._fits = fits
        self._rule_counts: LiveRuleCounts | None = None
        self._known: dict[str, Instance] = {}

    def _now(self) -> RuleCounts:
        """Return the counts of rules at present; `pending` instances are not counted."""
        if self._rule_counts is None:
            self._rule_counts = self._relations.live(self._state)
        return self._rule_counts.now(self.pending)

    def _named(self, name: str) -> Instance | None:
        """Return the instance with a name; one of the request replaces one of the cluster."""
        if not self._known:
            every = (*self._state.cluster.instances, *self._new)
            self._known = {instance.name: instance for instance in every}
        return self._known.get(name)

    def rejected(self, instance: Instance, nodes: Iterable[int]) -> dict[int, str]:
        nodes = list(nodes)
        rejections = dict.fromkeys(
            self._relations.rejected(instance.name, nodes, self._now()), AFFINITY.reason
        )
        companions = self._companions(instance)
        if companions:
            left = [index for index in nodes if index not in rejections]
            rejections |= {
                i: AFFINITY.reason for i in left if not self._room_for_all(companions, i)
            }
        return rejections

    def units(self, instances: Sequence[Instance]) -> list[list[Instance]]:
        return items_of(instances, self._relations.units())

    def rejected_passing(self, instance: Instance, nodes: Iterable[int]) -> dict[int, str]:
        rejected = self._relations.rejected_passing(instance.name, nodes, self._now())
        return dict.fromkeys(rejected, AFFINITY.reason)

    def rejected_mirrors(self, instance: Instance, nodes: Iterable[int]) -> dict[int, str]:
        locations = self._relations.locations
        if locations is None:
            return {}
        forbidden = locations.forbidden(instance.name)
        return {index: AFFINITY.reason for index in nodes if index in forbidden}

    def rejection_texts(self, instance: Instance, nodes: Iterable[int]) -> dict[int, str]:
        asked = list(nodes)
        rejected = self._relations.rejections(instance.name, asked, self._now())
        names = [one.name for one in self._companions(instance)]
        crowd = f"no room for all that must be together: {', '.join(names)}"
        return {i: f"must be {rejected[i].text}" if i in rejected else crowd for i in asked}

    def _companions(self, instance: Instance) -> list[Instance]:
        """Return `instance` and the undecided members of its colocation group; [] without any."""
        unit = self._relations.units().get(instance.name, ()) if self.pending else ()
        names = sorted(name for name in unit if name in self.pending and name != instance.name)
        found = [one for name in names if (one := self._named(name)) is not None]
        return [instance, *found] if found else []

    def _room_for_all(self, companions: Sequence[Instance], index: int) -> bool:
        """Return whether node `index` can host all `companions` as primaries, in turn."""
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

    def with_soft_costs(
        self, instance: Instance, candidates: Candidates
    ) -> tuple[Candidates, dict[Nodes, float]]:
        first: set[int] = set()
        for prefix, last in map(candidates.open, range(candidates.rows())):
            if last:
                first.update(prefix[:1] or last)
        costs = self.costs(instance, first)
        if not costs:
            return candidates, {}
        if candidates.rows() > 1:
            pairs = PricedPairs(candidates, costs)
            return pairs, pairs.scores
        row = list(candidates.everything())
        scores = {nodes: score for score, nodes in row}
        with_costs = [priced(placement, costs) for placement in row]
        return ListedCandidates([with_costs], candidates.failures), scores

    def costs(self, instance: Instance, nodes: Collection[int]) -> dict[int, float]:
        """Return node -> penalty, of the instance and the undecided members of its group."""
        costs: dict[int, float] = {}
        for one in self._companions(instance) or [instance]:
            found = self._relations.costs(one.name, nodes, self._now())
            for index, cost in found.items():
                costs[index] = costs.get(index, 0.0) + cost
        return costs

    def broken(self, instance: Instance, node: int) -> list[str]:
        broken = self._relations.violated_soft(instance.name, node, self._now())
        return [bond.text_with_price for bond in broken] + self.unmet_orders(instance)

    def unmet_orders(self, instance: Instance) -> list[str]:
        home = self._state.cluster.nodes[instance.nodes[0]] if instance.nodes else None
        if home is not None and home.online:
            return []  # it runs already
        soft = [b for b in self._relations.of(instance.name, ORDER) if b.other and not b.must]
        return [f"{b.text}: {why}" for b in soft if (why := self._why_not_running(b.other))]

    def _why_not_running(self, name: str) -> str:
        """Return why instance `name` does not run after the answer; "" if it does, or may."""
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

    def _because(self, bond: Constraint) -> str:
        """Return a hard constraint in words, with the state of the other's node if not online."""
        nodes = self._state.where.get(bond.other)
        home = self._state.cluster.nodes[nodes[0]] if nodes else None
        if home is None or home.online:
            return bond.text
        state = "offline" if home.offline else "drained" if home.drained else "not vm_capable"
        return f"{bond.text}, which is on {home.name}, which is {state}"

    def unsupported(self, instances: Sequence[Instance]) -> dict[str, str]:
        chains = self._relations.unsupported({instance.name for instance in instances})
        return {one.name: chains[one.name] for one in instances if one.name in chains}

    def dependents_of_failed(
        self, done: Sequence[Instance], failed: Collection[str], ordered: bool
    ) -> dict[str, str]:
        return self._relations.dependents_of_failed([one.name for one in done], failed, ordered)

    def demands(self) -> Demands:
        return demands_of(self._relations)

    def in_order(self, instances: Sequence[Instance]) -> list[Instance]:
        return self._relations.in_order(instances)
