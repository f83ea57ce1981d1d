"""Find the nearest candidate if all are rejected, and what it lacks, in one clause.

A rejected request has recorded its last query (`Context.last_query`, or the query of a group's
offer), and the limit by which each node was rejected. The nearest candidate lacks the smallest
share of what the instance requires, summed over all resources. Of equal candidates, the first in
the order of the cluster is reported.

Cost: the limits of each rejected node once in each role, for the amounts.
"""

from __future__ import annotations

from math import inf

from iallocator.constraints.table import FAILURE_SAFETY, entry_words
from iallocator.constraints.words import quantity
from iallocator.deadline import Held
from iallocator.limits.node import FORCED_LIMITS, PRIMARY, RoleLimits
from iallocator.limits.rejection import Rejection, migration_rejection
from iallocator.model.moves import Move
from iallocator.names import domain_of
from iallocator.placement.limit_policy import LimitPolicy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.constraints.checks import Check
    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.model.node_view import NodeView
    from iallocator.n1.tolerance import FailureTolerance
    from iallocator.placement.context import Context
    from iallocator.placement.evaluator import Evaluator
    from iallocator.placement.results import (
        AllocationRequest,
        GroupPlacements,
        NodeQuery,
        RankedGroups,
    )
    from iallocator.placement.trace import TracedEvaluator
    from iallocator.placement.what_if import KnownNodes, WhatIf
    from iallocator.scoring.candidates import LimitResults

    Shown = Callable[[str], str]
    """A function: name of a node or an instance -> the name in messages."""

    _Amounts = dict[str, tuple[float, float, str]]
    """Unit -> (the amount that is lacking, the amount required, the unit with its purpose)."""

    Queried = tuple[TracedEvaluator, NodeQuery]

__all__ = [
    "NO_HELP", "Miss", "RolesTested", "Search", "closest", "lost_by_n1",
    "nearest_move", "nearest_new", "nearest_secondary", "rejected_by_n1", "roles_of",
]  # fmt: skip

MOST_WITH_NEAREST = 10
"""The most instances of a request for which the answer names the nearest candidate."""

NO_HELP = inf
"""The value of `Miss.part` for a candidate that would be rejected whatever resources it had."""


class RolesTested:
    """The roles in which nodes are tested for an instance.

    Attributes
    ----------
    primaries:
        The nodes that are tested as the primary, or as the only node.
    secondaries:
        The nodes that are tested as the secondary; None for instances on one node.
    rejections:
        Primary -> why it is rejected before its own limits are tested.
    out_as_secondaries:
        The nodes that are rejected as secondaries before their limits are tested.
    barred:
        The primaries that constraints reject, not a lack of resources.
    breach:
        What the policy of the group rejects, if it rejects all primaries; else "".
    first_step, source:
        The limits of the first step, if a new primary must first become the secondary of node
        `source`.
    results:
        The nodes that a kernel rejected, each with the first limit that it fails; None if no kernel
        tested the nodes.
    """

    __slots__ = (
        "barred", "breach", "first_step", "out_as_secondaries", "primaries", "prospect",
        "rejections", "results", "secondaries", "source",
    )  # fmt: skip

    def __init__(
        self,
        prospect: WhatIf,
        primaries: Sequence[int],
        secondaries: Sequence[int] | None,
        rejections: dict[int, Rejection],
        out_as_secondaries: Mapping[int, Rejection] | None = None,
        results: LimitResults | None = None,
    ) -> None:
        self.results = results
        self.prospect = prospect
        self.primaries = primaries
        self.secondaries = secondaries
        self.rejections = rejections
        self.out_as_secondaries = out_as_secondaries or {}
        self.barred: Collection[int] = ()
        self.breach = ""
        self.first_step: WhatIf | None = None
        self.source: int | None = None

    def why_not_primary(self, index: int) -> Rejection | None:
        """Return the rejection of node `index` as the primary, or None."""
        rejection = self.rejections.get(index)
        if rejection is not None:
            return rejection
        check = self.results.primaries.get(index) if self.results is not None else None
        if check is None:
            return self.first_primary_failure(index)
        return self.prospect.rejection(check, self.prospect.primary(index))

    def first_primary_failure(self, index: int) -> Rejection | None:
        """Return the first limit that node `index` violates as the primary, or None.

        Call this method only if no kernel has recorded a result, because it tests the node.
        """
        failures = self.prospect.primary_failures(index)
        if not failures:
            return None
        return self.prospect.rejection(failures[0], self.prospect.primary(index))

    def why_not_secondary(self, index: int, primary: int | None) -> Rejection | None:
        """Return the rejection of node `index` as the secondary of `primary`, or None.

        `primary`: a node; None: any node of which `index` has no secondaries yet.
        """
        check: Check | None
        if self.results is None or self.results.secondaries is None:  # no primary was possible
            check = next(iter(self.prospect.secondary_failures(index, primary)), None)
        else:
            check = self.results.secondaries.get(index)
            if primary is not None:
                check = self.results.pairs.get((primary, index), check)
        if check is None:
            return None
        return self.prospect.rejection(check, self.prospect.secondary(index, primary))


def roles_of(
    context: Context,
    evaluator: TracedEvaluator,
    query: NodeQuery,
    known: KnownNodes | None = None,
) -> RolesTested:
    """Return the roles that `query` tests on each node; its instance must not be placed.

    `known`: the nodes as they were for the query, for results that are read later; None: as they
    are now.
    """
    cluster, instance, kind = context.cluster, query.instance, query.kind

    # The limits of the primary: none if it stays
    limit_policy, on_primary = query.limit_policy, PRIMARY
    if kind == "secondary" and context.settings.behaviour.tests_primary_again:
        limit_policy = LimitPolicy("secondary", FORCED_LIMITS, limit_policy.secondary)
    elif kind == "secondary":
        on_primary = RoleLimits()
    prospect = evaluator.what_if(instance, limit_policy, known, on_primary=on_primary)

    secondaries: list[int] | None = None
    if kind in ("secondary", "pair") or (kind == "new" and instance.required_nodes == 2):
        secondaries = [
            index for index in query.secondaries if index not in query.barred_secondaries
        ]
    affinity = context.affinity
    texts = (
        affinity.rejection_texts(instance, query.barred_secondaries)
        if query.barred_secondaries
        else {}
    )
    out = {index: Rejection(why, texts[index]) for index, why in query.barred_secondaries.items()}
    worded: dict[int, Rejection] = {}
    results = query.limit_results()
    roles = RolesTested(prospect, query.primaries, secondaries, worded, out, results)
    if kind == "exchange":
        if query.answer is not None:
            index = query.present[1]
            own = roles.first_primary_failure(index)
            roles.barred = set() if own and own.reason == query.answer.reason else {index}
            worded[index] = query.answer
        return roles

    # Rejections that no resource would help against: policy, migration tags, affinity
    texts = affinity.rejection_texts(instance, query.bound) if query.bound else {}
    breach = ""
    for index, reason in query.rejections.items():
        text = texts.get(index)
        if kind == "new":
            words = entry_words(cluster, instance, index)
            breach = words or breach
            text = words or text
        else:
            migration = migration_rejection(cluster, query.present[0], index)
            text = migration.text if migration else text
        if text is not None:
            worded[index] = Rejection(reason, text)
    barred = set(worded)

    roles.barred = barred
    if kind == "pair":
        _add_steps(roles, context, evaluator, query)
    roles.breach = breach if all(index in barred for index in query.primaries) else ""
    return roles


def _add_steps(
    roles: RolesTested, context: Context, evaluator: TracedEvaluator, query: NodeQuery
) -> None:
    """Add to `roles` the rejections in the steps before a node is the new primary of a pair.

    The node first becomes the secondary of the old primary; then the old primary becomes the
    secondary. If the old primary rejects this role, no resource of the node helps.
    """
    source, first_step = query.present
    home = context.cluster.nodes[source].name
    leaving = evaluator.limit_policies.off(context.cluster.nodes[first_step])
    roles.first_step, roles.source = evaluator.what_if(query.instance, leaving), source
    barred = set(roles.barred)
    for index in query.rejections:
        if index in roles.barred:
            continue
        if index in query.as_secondaries:
            views = roles.first_step.secondary(index, source)
            rejection = roles.prospect.rejection(query.as_secondaries[index], views)
            step = f"first as secondary of {home}"
            roles.rejections[index] = Rejection(rejection.reason, rejection.text, step=step)
        elif index in query.behind:
            views = roles.first_step.secondary(source, index)
            rejection = roles.prospect.rejection(query.behind[index], views)
            text = f"{home} as the secondary then: {rejection.text}"
            step = f"in the failover from {home}"
            roles.rejections[index] = Rejection(rejection.reason, text, step=step)
            barred.add(index)
    roles.barred = barred


class Miss:
    """The nearest candidate in one clause; "" if there is nothing to report.

    ``part``: the share of the required amounts that the candidate lacks; 0 if only N+1 rejects it,
    `NO_HELP` if a constraint rejects it that no resource would help against.
    """

    __slots__ = ("part", "text")

    def __init__(self, text: str, part: float) -> None:
        self.text = text
        self.part = part


def lost_by_n1(
    cluster: Cluster, check: FailureTolerance, instance: Instance, nodes: Nodes, shown: Shown = str
) -> Miss:
    """Return `nodes`, which global N+1 rejects, as nearest candidate, with the failure."""
    stranded = check.obstacle(Move(instance, (), nodes))
    if stranded is None:
        return Miss("", 0.0)
    names = map(shown, cluster.node_names(nodes))
    why = FAILURE_SAFETY.words(cluster, stranded.failure, stranded.instance, stranded.why, shown)
    return Miss(f"{'/'.join(names)}: {why}", 0.0)


def closest(cluster: Cluster, roles: RolesTested, shown: Shown = str) -> Miss:
    """Return the nearest candidate in `roles`, and what it lacks."""
    if roles.breach:
        return Miss(roles.breach, NO_HELP)
    open_to = [index for index in roles.primaries if index not in roles.barred]
    if not open_to:
        if not roles.primaries:
            return Miss("", NO_HELP)
        first = roles.primaries[0]
        name = shown(cluster.nodes[first].name)
        return Miss(f"{name}: {roles.rejections[first].wording}", NO_HELP)
    search = Search(roles.prospect, roles.first_step, roles.source, roles.results)
    if roles.secondaries is None:
        return _miss_of(cluster, search.single(open_to), shown)
    if not roles.secondaries:
        for index, rejection in roles.out_as_secondaries.items():
            name = shown(cluster.nodes[index].name)
            return Miss(f"{name} as secondary: {rejection.wording}", NO_HELP)
        return Miss("", NO_HELP)
    return _miss_of(cluster, search.pair(open_to, roles.secondaries), shown)


class _Lack:
    """The amounts that a node lacks for one role, as texts, and their sum in relative terms."""

    __slots__ = ("index", "part", "texts")

    def __init__(self, index: int, amounts: Sequence[tuple[float, float, str]]) -> None:
        self.index = index
        self.texts = [quantity(amount, unit) for amount, _, unit in amounts]
        self.part = sum(amount / needed for amount, needed, _ in amounts)


def _part(lack: _Lack) -> float:
    return lack.part


class Search:
    """A search for the nearest placement, by what single nodes lack.

    With `first_step`, the limits of a first step, a new primary must first become the secondary of
    the node `source`. Nodes that passed every limit in the `results` of a kernel lack nothing.
    """

    def __init__(
        self,
        prospect: WhatIf,
        first_step: WhatIf | None = None,
        source: int | None = None,
        results: LimitResults | None = None,
    ) -> None:
        self._prospect = prospect
        self._results = results
        self._first_step = first_step
        self._source = source

    def single(self, nodes: Iterable[int]) -> list[_Lack]:
        """Return what the nearest single node lacks."""
        return [min((self._as_primary(index) for index in nodes), key=_part)]

    def pair(self, primaries: Sequence[int], nodes: Sequence[int]) -> list[_Lack]:
        """Return what the nodes of the nearest pair lack.

        Two pairs are compared: the best primary with its best secondary, and the best secondary
        with its best primary.
        """
        first = [self._as_primary(index) for index in primaries]
        second = [self._as_secondary(index, None) for index in nodes]
        pairs = []
        best = min(first, key=_part)
        others = [self._as_secondary(i, best.index) for i in nodes if i != best.index]
        if others:
            pairs.append([best, min(others, key=_part)])
        taker = min(second, key=_part)
        givers = [lack for lack in first if lack.index != taker.index]
        if givers:
            giver = min(givers, key=_part)
            pairs.append([giver, self._as_secondary(taker.index, giver.index)])
        return min(pairs, key=lambda pair: pair[0].part + pair[1].part, default=[])

    def _as_primary(self, index: int) -> _Lack:
        prospect, results = self._prospect, self._results
        amounts: _Amounts = {}
        if results is None or index in results.primaries:
            amounts = self._amounts(prospect.primary_failures(index), prospect.primary(index))
        if self._first_step is not None:
            failures = self._first_step.secondary_failures(index, self._source)
            before = self._amounts(failures, self._first_step.secondary(index, self._source))
            amounts |= {
                unit: lacking
                for unit, lacking in before.items()
                if unit not in amounts or lacking > amounts[unit]
            }
        return _Lack(index, list(amounts.values()))

    def _as_secondary(self, index: int, primary: int | None) -> _Lack:
        prospect, results = self._prospect, self._results
        tested = None if results is None else results.secondaries
        if results is not None and tested is not None:
            accepted = index not in tested and (primary, index) not in results.pairs
            if accepted:
                return _Lack(index, [])
        failures = prospect.secondary_failures(index, primary)
        amounts = self._amounts(failures, prospect.secondary(index, primary))
        return _Lack(index, list(amounts.values()))

    def _amounts(self, failures: Iterable[Check], views: tuple[NodeView, NodeView]) -> _Amounts:
        """Return, for each resource, the largest amount that is lacking by one of the limits
        `failures`.

        `views`: the node before and after the instance is placed.
        """
        instance = self._prospect.instance
        amounts: _Amounts = {}
        for check in failures:
            lack = check.lacks
            amount = lack.amount(*views, instance)
            if amount > amounts.get(lack.unit, (0.0,))[0]:
                amounts[lack.unit] = (amount, lack.asked(instance), lack.unit + lack.purpose)
        return amounts


def _miss_of(cluster: Cluster, lacks: Sequence[_Lack], shown: Shown) -> Miss:
    """Return the nearest candidate in words: ``node1/node2: node2 lacks 977 MiB memory``.

    `lacks`: what each node of the candidate lacks.
    """
    names = [shown(cluster.nodes[lack.index].name) for lack in lacks]
    texts = [
        f"{name} lacks {' and '.join(lack.texts)}" for name, lack in zip(names, lacks) if lack.texts
    ]
    pair = f"{'/'.join(names)}: " if len(names) == 2 and texts else ""
    return Miss(pair + ", ".join(texts), sum(lack.part for lack in lacks))


def nearest_new(context: Context, allocation: AllocationRequest, offers: RankedGroups) -> str:
    """Return the nearest candidate of all groups of `offers` in words; "" if there is none."""
    by_uuid = {offer.uuid: offer for offer in offers.ranked if not offer.obstacle}

    def misses() -> Iterator[tuple[str, Miss]]:
        for group in allocation.groups:
            offer = by_uuid.get(group.uuid)
            if offer is not None:
                evaluator = context.evaluator(group, allocation.scope(context.all_nodes()))
                miss = _miss(context, evaluator, allocation.instance, offer.query, offer.rejected)
                yield f"group {group.name}" if len(allocation.groups) > 1 else "", miss

    return _in_words(context, misses)


def nearest_move(context: Context, queried: Queried | None) -> str:
    """Return the nearest of the nodes that were `queried` for a moving instance, in words.

    The result is "" if no nodes were queried.
    """

    def misses() -> Iterator[tuple[str, Miss]]:
        if queried is not None:
            evaluator, query = queried
            with context.state.trial():
                context.state.remove(query.instance, context.state.where[query.instance.name])
                yield "", _miss(context, evaluator, query.instance, query, None)

    return _in_words(context, misses)


def nearest_secondary(
    context: Context, evaluator: Evaluator, instance: Instance, placements: GroupPlacements
) -> str:
    """Return the nearest node for the first secondary of `instance`, in words.

    `placements` is the result of the search, which found none; it has the rejections by N+1.
    """
    rejected = placements.rejected[1] if placements.rejected else None
    return _in_words(
        context,
        lambda: iter([("", _miss(context, evaluator, instance, placements.query, rejected))]),
    )


def rejected_by_n1(
    context: Context, evaluator: Evaluator, instance: Instance, rejected: Nodes
) -> str:
    """Return, in words, the failure that is not tolerated if `instance` is on `rejected`."""

    def misses() -> Iterator[tuple[str, Miss]]:
        with context.state.trial():
            if instance.name in context.state.where:
                context.state.remove(instance, context.state.where[instance.name])
            yield "", _miss(context, evaluator, instance, None, rejected)

    return _in_words(context, misses)


def _miss(
    context: Context,
    evaluator: TracedEvaluator,
    instance: Instance,
    query: NodeQuery | None,
    rejected: Nodes | None,
) -> Miss:
    """Return the nearest candidate of a group.

    `query`: the query for nodes; None if there was none. `rejected`: a placement that only N+1
    rejected, which is the nearest candidate; None if there is none.
    """
    cluster = context.cluster
    domain = domain_of(node.name for node in cluster.nodes)

    def shown(name: str) -> str:
        return name.removesuffix(domain)

    if rejected is not None:
        check = evaluator.scope.tolerance(evaluator.rules)
        return lost_by_n1(cluster, check, instance, rejected, shown)
    if query is None:
        return Miss("", 0.0)
    return closest(cluster, roles_of(context, evaluator, query), shown)


def _in_words(context: Context, misses: Callable[[], Iterator[tuple[str, Miss]]]) -> str:
    """Return the nearest of `misses` in words: ``; closest: node5 lacks 18433 MiB memory``.

    If no resource would help, return the constraint that rejects the instance.
    """
    if context.misses_reported >= MOST_WITH_NEAREST or not context.settings.behaviour.tells_nearest:
        return ""
    context.misses_reported += 1
    if context.deadline.over():
        return ""
    with Held() as held:  # the rejection is known: that time is up must not replace its reason
        with_text = [one for one in misses() if one[1].text]
    context.interrupted |= held.asked
    if not with_text:
        return ""
    where, nearest = min(with_text, key=lambda one: one[1].part)
    if nearest.part == NO_HELP:
        return f"; {where}: {nearest.text}" if where else f"; {nearest.text}"
    return f"; closest{' in ' if where else ''}{where}: {nearest.text}"
