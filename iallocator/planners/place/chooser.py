"""Where one instance goes when it is its turn: by Pacemaker's rules, and so that N+1 is kept."""

from __future__ import annotations

from iallocator.ranking.pacemaker.choose import choose_for
from iallocator.ranking.pacemaker.colocation_sets import ColocationSet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context
    from iallocator.planners.place.openings import Openings
    from iallocator.planners.place.planned_place import PlannedPlace
    from iallocator.planners.place.survival import Survival
    from iallocator.ranking.pacemaker.ledger import Ledger
    from iallocator.ranking.pacemaker.node_scores import NodeScores
    from iallocator.ranking.pacemaker.rules import Choice
    from iallocator.tags.pacemaker import PacemakerTags

__all__ = ["Chooser"]


class Chooser:
    """Chooses nodes by the rules of `kind`, of those that `openings` leave.

    `facts` are what tags say, `weigher` has the scores by them, `ledger` what nodes have left
    when it is asked; `survival` says what keeps global N+1; `homes`: name → where it runs.
    """

    def __init__(
        self,
        context: Context,
        kind: str,
        facts: PacemakerTags,
        weigher: NodeScores,
        ledger: Ledger,
        openings: Openings,
        survival: Survival,
        homes: Mapping[str, int],
    ) -> None:
        self._cluster = context.cluster
        self._bonds = context.bonds
        self._kind = kind
        self._facts = facts
        self._weigher = weigher
        self._ledger = ledger
        self._openings = openings
        self._survival = survival
        self._homes = homes

    def choose(
        self, unit: ColocationSet, position: int, place: PlannedPlace, nodes: Sequence[int]
    ) -> Nodes | None:
        """Where the instance goes, of `nodes` as primary; None and the reason in `place.why`.

        Who comes off a node that is not online ignores soft limits only if it has to.
        """
        online = [self._cluster.nodes[index].online for index in place.before[:1]]
        found = None if all(online) else self._chosen(unit, position, place, nodes, True)
        return found or self._chosen(unit, position, place, nodes, False)

    def _chosen(
        self,
        unit: ColocationSet,
        position: int,
        place: PlannedPlace,
        nodes: Sequence[int],
        unhurried: bool,
    ) -> Nodes | None:
        usable = [index for index in nodes if self._facts.usable[index]]
        refused = self._openings.refusals(place, usable, unhurried)
        possible = [index for index in usable if index not in refused]
        home = self._homes.get(place.instance.name)
        choice = choose_for(
            self._kind, self._cluster, self._facts, self._weigher, self._ledger,
            unit, position, possible, home, self._costs(unit.members[position:], possible),
        )  # fmt: skip
        for index in choice.ranked:
            judge = self._survival.judge(index, place)
            for pair in self._pairs(place, index, unhurried):
                if judge is None or judge.accepts(place.instance, pair):
                    place.why = _reason(choice, index)
                    return pair
                refused[index] = "FailN1"
        place.why = _refusal(choice, refused)
        return None

    def _costs(self, members: Sequence[Instance], nodes: Sequence[int]) -> dict[int, float]:
        """What each of `nodes` costs by what `members` should not do there."""
        sums: dict[int, float] = {}
        for member in members:
            for index, cost in self._bonds.costs(member, nodes).items():
                sums[index] = sums.get(index, 0) + cost
        return sums

    def _pairs(self, place: PlannedPlace, primary: int, unhurried: bool) -> list[Nodes]:
        """The placements with this primary, best first."""
        instance = place.instance
        if instance.required_nodes == 1:
            return [(primary,)]
        possible = self._openings.mirrors(place, primary, unhurried)
        if possible and not self._facts.usable[possible[0]]:
            return [(primary, possible[0])]
        present = _mirror_now(place.before, primary)
        unit = ColocationSet([instance], [self._weigher.of(instance, present)], present)
        choice = choose_for(
            self._kind, self._cluster, self._facts, self._weigher, self._ledger,
            unit, 0, possible, present,
        )  # fmt: skip
        return [(primary, index) for index in choice.ranked]


def _mirror_now(before: Nodes, primary: int) -> int | None:
    """The node that holds the other copy already once `primary` is the primary."""
    if len(before) < 2:
        return None
    return before[1] if primary == before[0] else before[0]


def _reason(choice: Choice, index: int) -> str:
    """What decided for node `index`."""
    others = [other for other in choice.ranked if other != index]
    if not others:
        return "the only node that can take it"
    name = choice.node_name(others[0])
    if choice.ranked[0] != index:
        return f"the ones before it are refused by N+1; next is {name}"
    return f"{choice.decided(index, others[0])}, next is {name}"


def _refusal(choice: Choice, refused: Mapping[int, str]) -> str:
    """Why no node takes the instance, each reason with its nodes."""
    by_reason: dict[str, list[str]] = {}
    for index, reason in [*choice.refused.items(), *refused.items()]:
        by_reason.setdefault(reason, []).append(choice.node_name(index))
    told = (f"{', '.join(names)}: {reason}" for reason, names in by_reason.items())
    return "; ".join(told) or "no node may be used"
