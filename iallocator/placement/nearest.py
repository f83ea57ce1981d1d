"""The candidate nearest to acceptable where nothing fits, and what it lacks, in one clause.

A rejected request has recorded what it asked of the nodes (`Context.last_query`, or the query of a
group's offer).  From that record follows which nodes are tested in which role.  The nearest
candidate lacks the smallest part of what the instance requires, all resources added up; of equals
the first in the order of the cluster counts.

Cost: the limits of each node once in each role.
"""

from __future__ import annotations

from iallocator.constraints.table import FAILURE_SAFETY, entry_words
from iallocator.constraints.words import quantity
from iallocator.deadline import Held
from iallocator.limits.node import ABANDONED, FORCED_LIMITS, PRIMARY, SECONDARY, RoleLimits
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

    Shown = Callable[[str], str]
    """A name of a node or an instance as messages show it."""

    _Amounts = dict[str, tuple[float, float, str]]
    """Unit -> amount lacking, amount required, unit with what it is for."""

    Queried = tuple[TracedEvaluator, NodeQuery]

__all__ = [
    "NO_HELP", "Miss", "RolesTested", "Search", "closest", "first_of", "lost_by_n1",
    "nearest_move", "nearest_new", "nearest_secondary", "rejected_by_n1", "roles_of",
]  # fmt: skip

MOST = 10
"""Instances of a request for which the answer names the nearest candidate."""

NO_HELP = float("inf")
"""How much is lacking where no resource would help."""


class RolesTested:
    """The roles in which nodes are tested for an instance.

    Attributes
    ----------
    primaries:
        The nodes that are tested as the primary, or as the only node.
    secondaries:
        Those that are tested as the secondary; None for instances on one node.
    rejections:
        The primaries that are rejected before their own limits are tested.
    out_as_mirrors:
        The nodes that are rejected as secondaries before their limits are tested.
    barred:
        The primaries that no resource would help.
    breach:
        What the policy of the group rejects, if that bars all primaries; else "".
    mirror, source:
        If a new primary must first become the secondary of the node `source`: what limits that
        step.
    """

    __slots__ = (
        "barred", "breach", "mirror", "out_as_mirrors", "primaries", "prospect", "rejections",
        "secondaries", "source",
    )  # fmt: skip

    def __init__(
        self,
        prospect: WhatIf,
        primaries: Sequence[int],
        secondaries: Sequence[int] | None,
        rejections: Mapping[int, Rejection],
        out_as_mirrors: Mapping[int, Rejection] | None = None,
    ) -> None:
        self.prospect = prospect
        self.primaries = primaries
        self.secondaries = secondaries
        self.rejections = rejections
        self.out_as_mirrors = out_as_mirrors or {}
        self.barred: Collection[int] = ()
        self.breach = ""
        self.mirror: WhatIf | None = None
        self.source: int | None = None

    def first(self, index: int) -> Rejection | None:
        """Return the first rejection of node `index` as the primary, or None."""
        return self.rejections.get(index) or first_of(self.prospect.primary_failures(index))


def first_of(failures: Sequence[tuple[Check, str]]) -> Rejection | None:
    """Return the first of `failures` as a rejection, or None."""
    return Rejection(failures[0][0].reason, failures[0][1]) if failures else None


def roles_of(
    context: Context,
    evaluator: TracedEvaluator,
    query: NodeQuery,
    known: KnownNodes | None = None,
) -> RolesTested:
    """Return what `query` tests of which nodes; its instance must be off the state.

    `known` are the nodes as they are now, for a result that is read after they have changed.
    """
    cluster, instance, kind = context.cluster, query.instance, query.kind

    # The limits of the primary: none if it stays
    limit_policy, on_primary = query.limit_policy, PRIMARY
    if kind == "mirror" and context.settings.behaviour.tests_primary_again:
        limit_policy = LimitPolicy("mirror", FORCED_LIMITS, limit_policy.secondary)
    elif kind == "mirror":
        on_primary = RoleLimits()
    prospect = evaluator.what_if(instance, limit_policy, known, on_primary=on_primary)

    # Rejections that no resource would help against: policy, migration tags, affinity
    bonds = context.bonds
    bound = bonds.rejected(instance, query.rejections) if query.rejections else {}
    texts = bonds.rejection_texts(instance, bound) if bound else {}
    worded: dict[int, Rejection] = {}
    breach = ""
    for index, reason in query.rejections.items():
        text = texts.get(index)
        if kind == "new":
            found = entry_words(cluster, instance, index)
            breach = found or breach
            text = found or text
        elif query.present:
            migration = migration_rejection(cluster, query.present[0], index)
            text = migration.text if migration else text
        if text is not None:
            worded[index] = Rejection(reason, text)
    barred = set(worded)

    mirror = source = None
    if kind == "pair":
        source = query.present[0]
        leaving = evaluator.limit_policies.off(cluster.nodes[query.present[1]])
        mirror = evaluator.what_if(instance, leaving)
        on_the_way, stuck = _on_the_way(context, evaluator, query, mirror, barred)
        worded |= on_the_way
        barred |= stuck
    elif kind == "exchange" and query.answer is not None:
        index = query.present[1]
        worded = {index: worded.get(index) or query.answer}
        own = first_of(prospect.primary_failures(index))
        barred = set() if own and own.reason == query.answer.reason else {index}

    secondaries: list[int] | None = None
    if kind in ("mirror", "pair") or (kind == "new" and instance.required_nodes == 2):
        secondaries = [index for index in query.secondaries if index not in query.mirrors]
    told = bonds.rejection_texts(instance, query.mirrors) if query.mirrors else {}
    out = {index: Rejection(why, told[index]) for index, why in query.mirrors.items()}
    roles = RolesTested(prospect, list(query.primaries), secondaries, worded, out)
    roles.barred, roles.mirror, roles.source = barred, mirror, source
    roles.breach = breach if all(index in barred for index in query.primaries) else ""
    return roles


def _on_the_way(
    context: Context,
    evaluator: TracedEvaluator,
    query: NodeQuery,
    mirror: WhatIf,
    barred: Collection[int],
) -> tuple[dict[int, Rejection], set[int]]:
    """Return the rejections in the steps before a node is the new primary of a pair.

    The node first becomes the secondary of the old primary, which `mirror` tests; then the old
    primary becomes the secondary.  The second result are the nodes that no resource would help.
    """
    old = query.present[0]
    home = context.cluster.nodes[old]
    checks = SECONDARY if home.online else ABANDONED
    limit_policy = evaluator.limit_policies.off(home)
    behind = evaluator.what_if(query.instance, limit_policy, on_secondary=checks)
    found: dict[int, Rejection] = {}
    stuck: set[int] = set()
    for index in query.rejections:
        if index in barred:
            continue
        first = first_of(mirror.secondary_failures(index, old))
        if first is not None:
            found[index] = Rejection(first.reason, first.text, step=f"as mirror of {home.name}")
            continue
        kept = first_of(behind.secondary_failures(old, index))
        if kept is not None:
            text = f"{home.name} as the secondary then: {kept.text}"
            step = f"in the failover from {home.name}"
            found[index] = Rejection(kept.reason, text, step=step)
            stuck.add(index)
    return found, stuck


class Miss:
    """The nearest candidate in one clause; "" if there is nothing to report.

    ``part`` is how much it lacks, in parts of what is asked for: 0 where only N+1 is in
    the way, `NO_HELP` where a rule is.
    """

    __slots__ = ("part", "text")

    def __init__(self, text: str, part: float) -> None:
        self.text = text
        self.part = part


def lost_by_n1(
    cluster: Cluster, check: FailureTolerance, instance: Instance, nodes: Nodes, shown: Shown = str
) -> Miss:
    """What stands in the way of a placement that only global N+1 rejected."""
    stranded = check.obstacle(Move(instance, (), nodes))
    if stranded is None:
        return Miss("", 0.0)
    names = map(shown, cluster.node_names(nodes))
    why = FAILURE_SAFETY.words(cluster, stranded.failure, stranded.instance, stranded.why, shown)
    return Miss(f"{'/'.join(names)}: {why}", 0.0)


def closest(cluster: Cluster, roles: RolesTested, shown: Shown = str) -> Miss:
    """What came closest to taking an instance in `roles`."""
    if roles.breach:
        return Miss(roles.breach, NO_HELP)
    open_to = [index for index in roles.primaries if index not in roles.barred]
    if not open_to:
        if not roles.primaries:
            return Miss("", NO_HELP)
        first = roles.primaries[0]
        name = shown(cluster.nodes[first].name)
        return Miss(f"{name}: {roles.rejections[first].wording}", NO_HELP)
    search = Search(roles.prospect, roles.mirror, roles.source)
    if roles.secondaries is None:
        return _miss_of(cluster, search.single(open_to), shown)
    if not roles.secondaries:
        for index, rejection in roles.out_as_mirrors.items():
            name = shown(cluster.nodes[index].name)
            return Miss(f"{name} as secondary: {rejection.wording}", NO_HELP)
        return Miss("", NO_HELP)
    return _miss_of(cluster, search.pair(open_to, roles.secondaries), shown)


class _Lack:
    """What a node lacks for one role: texts, and the sum of the parts of what is asked for."""

    __slots__ = ("index", "part", "texts")

    def __init__(self, index: int, amounts: Sequence[tuple[float, float, str]]) -> None:
        self.index = index
        self.texts = [quantity(amount, unit) for amount, _, unit in amounts]
        self.part = sum(amount / asked for amount, asked, _ in amounts)


def _part(lack: _Lack) -> float:
    return lack.part


class Search:
    """The nearest placement by what single nodes lack.

    With `mirror`, what limits a first step, and the node `source`, a new primary must
    become the secondary of that before.
    """

    def __init__(
        self, prospect: WhatIf, mirror: WhatIf | None = None, source: int | None = None
    ) -> None:
        self._prospect = prospect
        self._mirror = mirror
        self._source = source

    def single(self, nodes: Iterable[int]) -> list[_Lack]:
        """What the nearest node lacks."""
        return [min((self._as_primary(index) for index in nodes), key=_part)]

    def pair(self, primaries: Sequence[int], nodes: Sequence[int]) -> list[_Lack]:
        """What the nodes of the nearest pair lack.

        Two are looked at: the best primary with its best secondary, and the best
        secondary with its best primary.
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
        prospect = self._prospect
        amounts = self._amounts(prospect.primary_failures(index), prospect.primary(index))
        if self._mirror is not None:
            before = self._as_secondary_of(self._mirror, index, self._source)
            amounts |= {
                unit: lacking
                for unit, lacking in before.items()
                if unit not in amounts or lacking > amounts[unit]
            }
        return _Lack(index, list(amounts.values()))

    def _as_secondary(self, index: int, primary: int | None) -> _Lack:
        return _Lack(index, list(self._as_secondary_of(self._prospect, index, primary).values()))

    def _as_secondary_of(self, prospect: WhatIf, index: int, primary: int | None) -> _Amounts:
        failures = prospect.secondary_failures(index, primary)
        return self._amounts(failures, prospect.secondary(index, primary))

    def _amounts(
        self, failures: Iterable[tuple[Check, str]], views: tuple[NodeView, NodeView]
    ) -> _Amounts:
        """Of every resource the largest amount that one of the limits asks for."""
        instance = self._prospect.instance
        amounts: _Amounts = {}
        for check, _ in failures:
            lack = check.lacks
            amount = lack.amount(*views, instance)
            if amount > amounts.get(lack.unit, (0.0,))[0]:
                amounts[lack.unit] = (amount, lack.asked(instance), lack.unit + lack.purpose)
        return amounts


def _miss_of(cluster: Cluster, lacks: Sequence[_Lack], shown: Shown) -> Miss:
    """``node1/node2: node2 lacks 977 MiB memory``."""
    names = [shown(cluster.nodes[lack.index].name) for lack in lacks]
    told = [
        f"{name} lacks {' and '.join(lack.texts)}" for name, lack in zip(names, lacks) if lack.texts
    ]
    pair = f"{'/'.join(names)}: " if len(names) == 2 and told else ""
    return Miss(pair + ", ".join(told), sum(lack.part for lack in lacks))


def nearest_new(context: Context, allocation: AllocationRequest, offers: RankedGroups) -> str:
    """Return the nearest candidate of all groups that made `offers`; "" if there is none."""
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
    """Return the nearest candidate of the nodes that were `queried` for an instance that moves."""

    def misses() -> Iterator[tuple[str, Miss]]:
        if queried is not None:
            evaluator, query = queried
            with context.state.trial():
                context.state.remove(query.instance, context.state.where[query.instance.name])
                yield "", _miss(context, evaluator, query.instance, query, None)

    return _in_words(context, misses)


def nearest_secondary(
    context: Context, evaluator: Evaluator, instance: Instance, found: GroupPlacements
) -> str:
    """Return the nearest node for the first secondary of `instance`, for which `found` has none."""
    rejected = found.rejected[1] if found.rejected else None
    return _in_words(
        context,
        lambda: iter([("", _miss(context, evaluator, instance, found.query, rejected))]),
    )


def rejected_by_n1(
    context: Context, evaluator: Evaluator, instance: Instance, rejected: Nodes
) -> str:
    """Return which failure is not tolerated if `instance` goes to the nodes `rejected`."""

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
    """Return the nearest candidate of a group; `rejected` is one that only N+1 rejected."""
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

    If no resource would help, return the rule that rejects the instance.
    """
    if context.misses_told >= MOST or not context.settings.behaviour.tells_nearest:
        return ""
    context.misses_told += 1
    if context.deadline.over():
        return ""
    with Held() as held:  # the rejection is known: that time is up must not replace its reason
        told = [one for one in misses() if one[1].text]
    context.interrupted |= held.asked
    if not told:
        return ""
    where, nearest = min(told, key=lambda one: one[1].part)
    if nearest.part == NO_HELP:
        return f"; {where}: {nearest.text}" if where else f"; {nearest.text}"
    return f"; closest{' in ' if where else ''}{where}: {nearest.text}"
