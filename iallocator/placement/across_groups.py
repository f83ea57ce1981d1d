"""Rank the placements of an instance in several groups at once, the best placement first.

The kernel over all nodes is kept from one instance to the next: only the nodes that have changed
are scored again.
"""

from __future__ import annotations

from heapq import merge
from itertools import chain, islice

from iallocator.constraints.table import entry_rejection, group_obstacle, move_rejections
from iallocator.placement.groups import collect_offers
from iallocator.placement.results import POLICY_RANK, AllocationRequest
from iallocator.tolerances import MOST_KERNEL_RENEWALS, WRITTEN_DECIMALS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context
    from iallocator.placement.limit_policy import LimitPolicy
    from iallocator.placement.results import RankedGroups
    from iallocator.scoring import Kernel
    from iallocator.scoring.candidates import Candidates

    Ranked = Iterator[tuple[float, Nodes]]

__all__ = ["MOST_EQUAL", "AcrossGroups"]

MANY_GROUP_PAIRS = 20_000
"""The number of pairs of nodes above which the pairs of promising primaries are scored first."""

PROMISING_PER_GROUP = 3
"""The number of groups with promising primaries, and the number of promising primaries in each
group."""

MOST_EQUAL = 16
"""The most equal instances that are placed by one ranking."""


class AcrossGroups:
    """Ranks placements of existing instances in all groups, on the present state of `context`.

    An evaluator belongs to one group. If all groups have the same settings and rank by the score,
    the nodes of all groups are scored in one pass.

    Attributes
    ----------
    shares_rankings:
        Whether several instances can be placed by one ranking.
    offers:
        The offers of the groups in the last ranking, with their reasons; None if all nodes were
        ranked in one pass.
    """

    __slots__ = (
        "_closed", "_distinct", "_exclusive", "_kernel", "_nodes", "_reachable", "context",
        "offers", "shares_rankings",
    )  # fmt: skip

    def __init__(self, context: Context) -> None:
        self.context = context
        self.shares_rankings = False
        self._kernel: Kernel | None = None
        self._nodes: dict[tuple[object, ...], list[int]] = {}
        self._reachable: dict[tuple[object, ...], frozenset[int]] = {}
        self._distinct: dict[frozenset[int], frozenset[int]] = {}
        self._exclusive = any(group.exclusive for group in context.cluster.groups)
        self._closed: dict[tuple[object, ...], dict[int, str]] = {}
        self.offers: RankedGroups | None = None

    def ranked(self, instance: Instance, groups: Sequence[Group]) -> Iterator[tuple[Group, Nodes]]:
        """Yield (group, nodes) for each possible placement, the best first."""
        open_groups = self.open(instance, groups)
        context = self.context
        self.offers = None
        if not context.plain:
            # With strategies: the placements that the groups offer, then all others
            by_uuid = {group.uuid: group for group in open_groups}
            source = context.state.where[instance.name][0]
            self.offers = collect_offers(context, AllocationRequest(instance, groups, new=False))
            for offer in self.offers.usable:
                group = by_uuid[offer.uuid]
                barred = move_rejections(context.cluster, source, group.nodes)
                first = [nodes for nodes in offer.nodes if nodes[0] not in barred]
                yield from ((group, nodes) for nodes in first)
                places = (nodes for _, nodes in self.in_group(instance, group).ranked())
                yield from ((group, nodes) for nodes in places if nodes not in first)
            return
        for rank in sorted({POLICY_RANK[group.alloc_policy] for group in open_groups}):
            some = [g for g in open_groups if POLICY_RANK[g.alloc_policy] == rank]
            if instance.required_nodes == 1:
                nodes = self._online(instance, some)
                rejections = self._unfit(instance, nodes)
                singles = self.kernel.singles(instance, nodes, rejections, self._limits.primary)
                ranked = self._level(singles.ranked())
            else:
                ranked = self._pairs(instance, some)
            for _, place in ranked:
                yield context.cluster.nodes[place[0]].group, place

    def in_group(self, instance: Instance, group: Group) -> Candidates:
        """Return the placements in `group` that limits and affinity allow, with penalties in the
        scores.
        """
        context = self.context
        evaluator = context.evaluator(group)
        nodes = evaluator.online_nodes(context.settings.restrict_allocation_to)
        rejections = move_rejections(context.cluster, instance.nodes[0], nodes)
        rejections |= context.affinity.rejected(instance, nodes)
        kernel, limit_policy = self.kernel, evaluator.limit_policies.new
        if instance.required_nodes == 2:
            candidates = kernel.pairs(
                instance, nodes, nodes, rejections, limit_policy.primary, limit_policy.secondary
            )
        else:
            candidates = kernel.singles(instance, nodes, rejections, limit_policy.primary)
        return context.with_soft_costs(instance, candidates)[0]

    def _level(self, ranked: Ranked) -> Ranked:
        """Sort placements by score, rounded to 8 decimals, then by group; equal ones keep their
        order.
        """
        nodes = self.context.cluster.nodes
        pending: list[tuple[float, Nodes]] = []
        for placement in ranked:
            written = round(placement[0], WRITTEN_DECIMALS)
            if pending and written != round(pending[0][0], WRITTEN_DECIMALS):
                yield from _by_group(pending, nodes)
                pending = []
            pending.append(placement)
        yield from _by_group(pending, nodes)

    def _pairs(self, instance: Instance, groups: Sequence[Group]) -> Ranked:
        """Yield placements on two nodes; if there are many pairs, those of promising primaries
        first.
        """
        context, kernel = self.context, self.kernel
        limits, secondary_limits = self._limits.primary, self._limits.secondary
        members = {group.index: self._online(instance, [group]) for group in groups}
        if sum(len(nodes) ** 2 for nodes in members.values()) > MANY_GROUP_PAIRS:
            every = list(chain.from_iterable(members.values()))
            ranked = kernel.singles(instance, every, self._unfit(instance, every), limits).ranked()
            width = MOST_EQUAL if self.shares_rankings else PROMISING_PER_GROUP
            best: dict[int, list[int]] = {}
            for _, (index,) in islice(ranked, 4 * width * PROMISING_PER_GROUP):
                group = context.cluster.nodes[index].group
                if group.index in best or len(best) < width:
                    best.setdefault(group.index, []).append(index)
            best = {index: primaries[:PROMISING_PER_GROUP] for index, primaries in best.items()}
            pairs = [
                list(islice(kernel.pairs(
                    instance, primaries, members[index], {}, limits, secondary_limits
                ).ranked(), 2 * PROMISING_PER_GROUP))
                for index, primaries in best.items()
            ]  # fmt: skip
            yield from self._level(iter(sorted(chain.from_iterable(pairs))))
        every_pair = [
            kernel.pairs(
                instance, nodes, nodes, self._unfit(instance, nodes), limits, secondary_limits
            ).ranked()
            for nodes in members.values()
            if len(nodes) > 1
        ]
        yield from self._level(merge(*every_pair, key=lambda one: one[0]))

    def open(self, instance: Instance, groups: Sequence[Group]) -> list[Group]:
        """Return the groups of `groups` that do not reject `instance` as a whole."""
        closed = self.closed(instance)
        return [group for group in groups if group.index not in closed]

    def closed(self, instance: Instance) -> Mapping[int, str]:
        """Return group index -> reason, for each group that rejects `instance` as a whole."""
        shape = instance.shape
        closed = self._closed.get(shape)
        if closed is None:
            closed = self._closed[shape] = {}
            cluster = self.context.cluster
            for group in cluster.groups:
                kinds = (True, False) if group.exclusive else (False,)
                if group.alloc_policy == "unallocable":
                    closed[group.index] = f"group {group.name} is unallocable"
                elif obstacle := group_obstacle(cluster, group, instance):
                    closed[group.index] = obstacle
                elif all(entry_rejection(group, instance, exclusive) for exclusive in kinds):
                    closed[group.index] = f"the policy of group {group.name} rejects it"
        return closed

    def _online(self, instance: Instance, groups: Sequence[Group]) -> list[int]:
        """Return the online nodes of `groups`, in the order in which ties are broken."""
        reach = self.context.cluster.reach(instance)
        key = (reach, *(group.index for group in groups))
        online = self._nodes.get(key)
        if online is None:
            allowed = self.context.settings.restrict_allocation_to
            every = chain.from_iterable(
                self.context.evaluator(g).online_nodes(allowed) for g in groups
            )
            online = sorted(every if reach is None else reach.intersection(every))
            self._nodes[key] = online
        return online

    def reachable(self, instance: Instance, groups: Sequence[Group]) -> frozenset[int]:
        """Return the nodes of `groups` that may host `instance`, regardless of free capacity."""
        source = self.context.state.where.get(instance.name, instance.nodes)[0]
        needed = self.context.cluster.nodes[source].migration
        key = instance.shape, needed, *(group.index for group in groups)
        reachable = self._reachable.get(key)
        if reachable is None:
            nodes = self._online(instance, self.open(instance, groups))
            reachable = frozenset(nodes).difference(self._unfit(instance, nodes))
            reachable = self._distinct.setdefault(reachable, reachable)  # most are equal
            self._reachable[key] = reachable
        return reachable

    def _unfit(self, instance: Instance, nodes: Sequence[int]) -> dict[int, str]:
        """Return node -> reason, for nodes that migration tags or a group policy reject."""
        context = self.context
        source = context.state.where.get(instance.name, instance.nodes)[0]
        rejections = move_rejections(context.cluster, source, nodes)
        for index in nodes if self._exclusive else ():
            node = context.cluster.nodes[index]
            if node.group.exclusive:
                reason = entry_rejection(node.group, instance, node.exclusive_storage)
                if reason:
                    rejections[index] = context.settings.behaviour.policy_reason or reason
        return rejections

    @property
    def _limits(self) -> LimitPolicy:
        """Return the limit policy for a new instance; all groups must have the same settings."""
        return self.context.limit_policies(self.context.settings).new

    @property
    def kernel(self) -> Kernel:
        """Return the kernel that scores all nodes on the present state."""
        if self._kernel is None or self._kernel.renewals >= MOST_KERNEL_RENEWALS:
            self._kernel = self.context.kernel(self.context.all_nodes())
        else:
            self._kernel.follow()
        return self._kernel


def _by_group(placements: list[tuple[float, Nodes]], nodes: Sequence[Any]) -> Ranked:
    if len(placements) > 1:
        placements.sort(key=lambda one: nodes[one[1][0]].group.index)
    yield from placements
