"""Why a new instance goes where it goes: the explanation of ``allocate``.

The groups are asked once more, for runners-up as well, by a judge that remembers what
it refused; then every node is asked what it says to the instance.
"""

from __future__ import annotations

from iallocator.explain.affinity import bond_refusals, wish_notes
from iallocator.explain.context import WitnessedContext, option_notes
from iallocator.explain.contributions import Contributions
from iallocator.explain.explanation import Decision, GroupReport
from iallocator.explain.facts import Json, Placed
from iallocator.explain.limits import survey
from iallocator.explain.nearest_miss import closest
from iallocator.explain.strategy import between_groups, note_order, placed_by
from iallocator.handlers.allocate import wish_for
from iallocator.placement.groups import POLICY_RANK, collect_offers
from iallocator.placement.joint import offer_exactly
from iallocator.render.words import subject

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.explain.n1 import RecordingN1Check
    from iallocator.model.cluster import Cluster, Group
    from iallocator.options import Settings
    from iallocator.placement.groups import AllocationRequest
    from iallocator.reply import GroupSolution
    from iallocator.requests import Allocate

__all__ = ["decide", "explain", "nowhere", "request_notes"]


def explain(
    cluster: Cluster, request: Allocate, settings: Settings, response: Json
) -> list[Decision]:
    """The one decision of an ``allocate``."""
    context = WitnessedContext(cluster, settings, [request.instance])
    notes = request_notes(settings, request)
    wish = wish_for(context, request)
    if wish is None:
        return [nowhere(cluster, request, notes)]
    if request.recreated is not None and not settings.like_hail:
        context.state.remove(request.recreated, request.recreated.nodes)
        notes.append("The instance exists: what it uses now is free for it.")
    return [decide(context, wish, notes)]


def nowhere(cluster: Cluster, request: Allocate, notes: list[str]) -> Decision:
    """The decision on a request that names a group that does not exist."""
    why = f"group {request.group_name} does not exist"
    groups = [_left_out(group, f"not asked: {why}") for group in cluster.groups]
    instance = request.instance
    return Decision(instance.name, subject(instance), None, groups, notes, reason=why)


def decide(
    context: WitnessedContext,
    wish: AllocationRequest,
    notes: list[str],
    left_out: Mapping[str, str] | None = None,
    only: tuple[int, ...] = (),
) -> Decision:
    """Where the instance of `wish` goes as the state is now, and why; changes no state.

    `left_out` says of groups that are not asked, by their uuids, why that is so.
    `only`: it goes to just these nodes.
    """
    context.forget()
    offers = collect_offers(context, wish)
    if only:
        offers.settle_on(offer_exactly(context, wish, only))
    desk = _Desk(context, wish)
    groups = [desk.report(offer) for offer in offers.ranked]
    answer = groups[0].placements[0] if offers.usable else None
    ranked = groups[: len(offers.usable)]
    compared = between_groups(offers.order, context.cluster, ranked)
    for group in ranked[1:]:
        group.verdict = _verdict(groups[0], group, compared.get(group.uuid, ""))
        if answer is not None and group.uuid in compared:
            answer.over[group.placements[0].where] = group.verdict
    asked = {group.uuid for group in groups}
    why = f"only group {wish.groups[0].name} is asked for" if wish.named else "it has no nodes"
    others = [group for group in context.cluster.groups if group.uuid not in asked]
    if offers.usable:
        notes += wish_notes(offers.ranked[0].extra)
    groups += [_left_out(group, (left_out or {}).get(group.uuid, why)) for group in others]
    return Decision(wish.instance.name, subject(wish.instance), answer, groups, notes)


def request_notes(settings: Settings, request: Allocate) -> list[str]:
    """What the request and the options ask for besides the instance."""
    found = []
    if request.group_name is not None:
        found.append(f"The request names group {request.group_name}.")
    option = settings.restrict_allocation_to
    allowed = request.restrict_to if option is None else option
    if allowed is not None:
        source = "the request" if option is None else "--restrict-allocation-to"
        found.append(f"Restricted by {source} to {', '.join(allowed)}.")
    return found + option_notes(settings)


def _left_out(group: Group, why: str) -> GroupReport:
    return GroupReport(group.name, group.uuid, group.alloc_policy, obstacle=why)


def _verdict(first: GroupReport, group: GroupReport, by_order: str = "") -> str:
    """Why `group` comes after `first`, which has the answer.

    `by_order` is what a strategy says of their best nodes.
    """
    if POLICY_RANK[group.alloc_policy] > POLICY_RANK[first.alloc_policy]:
        return f"{group.alloc_policy} comes after {first.alloc_policy}"
    if by_order:
        return by_order
    mine, other = first.placements[0], group.placements[0]
    if first.by_losses and group.by_losses and mine.rank != other.rank:
        return f"loses more possible allocations: {other.rank} against {mine.rank}"
    equal = f"{mine.score:.8f}" == f"{other.score:.8f}"
    if equal or (first.by_losses and group.by_losses):
        return "equal, but later in the order of groups"
    return f"score higher by {other.score - mine.score:.8f}"


class _Desk:
    """Writes the reports on groups for one wish."""

    def __init__(self, context: WitnessedContext, wish: AllocationRequest) -> None:
        self._context = context
        self._wish = wish
        scope = wish.groups[0].nodes if wish.named else context.all_nodes()
        self._scope = scope
        self._contributions = Contributions(context.state, scope, wish.instance)
        self._groups = {group.uuid: group for group in wish.groups}

    def report(self, offer: GroupSolution) -> GroupReport:
        """What `offer` is made of."""
        group, instance = self._groups[offer.uuid], self._wish.instance
        witness = self._witness(group)
        report = GroupReport(offer.group, offer.uuid, offer.alloc_policy)
        report.obstacle = self._obstacle(group, offer)
        report.successes, report.failures = offer.successes, offer.failures
        report.by_losses = offer.ranked_by == "lost-allocations"
        if offer.order is not None:
            note_order(report, offer.order, self._context.cluster)
        report.placements = self._placements(group, offer)
        report.nodes = survey(self._context, group, instance, self._wish.allowed)
        candidates = [i for i, node in zip(group.nodes, report.nodes) if not node.excluded]
        if offer.obstacle:
            if len(candidates) >= instance.required_nodes:
                report.nodes = []  # they have nothing to do with it
            return report
        report.unsurvived = witness.obstacles(instance, group, self._contributions.score)
        if not offer.placements:
            report.closest = self._closest(group, candidates)
        return report

    def _witness(self, group: Group) -> RecordingN1Check:
        """The N+1 check that was asked for placements in `group`."""
        return self._context.judge(self._scope, self._context.evaluator(group).rules)

    def _obstacle(self, group: Group, offer: GroupSolution) -> str:
        """Why the group is out, in the words of the response and with what they leave out."""
        missing = sorted(set(self._wish.instance.networks) - group.networks)
        told = offer.obstacle.removeprefix(f"Group {group.name} ({group.alloc_policy}): ")
        told = told.removeprefix(f"Group {group.name}: error ")
        return f"{told}: {', '.join(missing)}" if missing else told

    def _placements(self, group: Group, offer: GroupSolution) -> list[Placed]:
        if offer.order is not None and offer.placements:
            found = [
                (nodes, score, self._contributions.of(nodes))
                for (score, _), nodes in zip(offer.placements, offer.nodes)
            ]
            return placed_by(offer.order, self._context.cluster, offer.group, found)
        by_losses = offer.ranked_by == "lost-allocations"
        ranks = self._ranks(group, offer) if by_losses else {}
        return [
            Placed(offer.group, names, score, self._contributions.of(nodes), ranks.get(nodes, ""))
            for (score, names), nodes in zip(offer.placements, offer.nodes)
        ]

    def _ranks(self, group: Group, offer: GroupSolution) -> dict[tuple[int, ...], str]:
        """What the placements are ranked by where lost allocations decide."""
        from iallocator.ranking.lost_allocations import rank, shown
        from iallocator.scoring.candidates import ListedCandidates

        row = [(score, nodes) for (score, _), nodes in zip(offer.placements, offer.nodes)]
        ranked, _ = rank(
            self._context.state, group, self._wish.instance, ListedCandidates([row], {})
        )
        return {nodes: shown(lost) for lost, nodes in ranked.row(0)}

    def _closest(self, group: Group, candidates: Sequence[int]) -> str:
        bound = bond_refusals(self._context, self._wish.instance, candidates)
        if bound and len(bound) == len(candidates):
            first = candidates[0]
            return f"{self._context.cluster.nodes[first].name}: {bound[first].told}"
        candidates = [index for index in candidates if index not in bound]
        witness = self._witness(group)
        refused = witness.refused_in(group)
        scored = sorted((self._contributions.score(nodes), nodes) for nodes in refused)
        best = scored[0] if scored else None
        return closest(self._context, witness, group, self._wish.instance, candidates, refused=best)
