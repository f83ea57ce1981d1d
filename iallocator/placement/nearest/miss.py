"""What came closest where a request found no place, in one clause for the answer.

A rejected request asks its questions once more, on the state as it is in the end; a trace
hears them and ends the asking before any candidate is scored.
"""

from __future__ import annotations

from iallocator.deadline import Held
from iallocator.names import domain_of
from iallocator.placement.nearest.roles import roles_of
from iallocator.placement.nearest.search import NO_HELP, Miss, closest, lost_by_n1
from iallocator.placement.trace import NodeQuery

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from iallocator.aliases import Nodes
    from iallocator.limits.rejection import Rejection
    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context
    from iallocator.placement.evaluator import Evaluator
    from iallocator.placement.results import AllocationRequest, RankedGroups
    from iallocator.placement.trace import TracedEvaluator


__all__ = ["miss_of_mirror", "miss_of_move", "miss_of_n1", "miss_of_new"]

MOST = 10
"""Of so many instances of a request the answer says what came closest."""


def miss_of_new(context: Context, allocation: AllocationRequest, offers: RankedGroups) -> str:
    """What came closest of all groups that `offers` are from; "" if there is nothing to tell."""
    instance, several = allocation.instance, len(allocation.groups) > 1
    rejected = {offer.uuid: offer.rejected for offer in offers.ranked if not offer.obstacle}

    def misses() -> Iterator[tuple[str, Miss]]:
        for group in allocation.groups:
            if group.uuid not in rejected:
                continue
            evaluator = context.evaluator(group, allocation.scope(context.all_nodes()))
            nodes = evaluator.online_nodes(allocation.allowed)
            miss = _miss(context, evaluator, instance, nodes, None, rejected[group.uuid])
            yield f"group {group.name}" if several else "", miss

    return _nearest_words(context, misses)


def miss_of_mirror(
    context: Context, evaluator: Evaluator, instance: Instance, nodes: Sequence[int],
    rejected: Nodes | None,
) -> str:  # fmt: skip
    """What came closest of `nodes` to taking the mirror of an instance that gets its first."""
    primary = instance.nodes[:1]
    return _nearest_words(
        context,
        lambda: iter([("", _miss(context, evaluator, instance, primary, nodes, rejected))]),
    )


def miss_of_move(context: Context, again: Callable[[], object]) -> str:
    """What came closest of the nodes that `again`, which found none, asks for a moving instance."""

    def misses() -> Iterator[tuple[str, Miss]]:
        roles = _heard(context, again)
        if roles is not None:
            yield "", roles

    return _nearest_words(context, misses)


def miss_of_n1(context: Context, evaluator: Evaluator, instance: Instance, rejected: Nodes) -> str:
    """Who would be lost if `instance`, which is on the state, went to the nodes `rejected`."""

    def misses() -> Iterator[tuple[str, Miss]]:
        with context.state.trial():
            context.state.remove(instance, context.state.where[instance.name])
            yield "", _miss(context, evaluator, instance, (), None, rejected)

    return _nearest_words(context, misses)


def _nearest_words(context: Context, misses: Callable[[], Iterator[tuple[str, Miss]]]) -> str:
    """``; closest: node5 lacks 18433 MiB memory``: the nearest of what groups came to.

    Where no resource would help, the rule that is in the way.
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


def _miss(
    context: Context,
    evaluator: Evaluator,
    instance: Instance,
    nodes: Sequence[int],
    secondaries: Sequence[int] | None,
    rejected: Nodes | None,
) -> Miss:
    """What came closest in a group; `rejected` is a placement that N+1 alone rejected."""
    cluster = context.cluster
    if rejected is not None:
        check = evaluator.scope.tolerance(evaluator.rules)
        return lost_by_n1(cluster, check, instance, rejected, _short(cluster))
    bound = secondaries is None
    heard = _heard(
        context, lambda: evaluator.candidates(instance, "new", (), nodes, secondaries, bound)
    )
    return heard or Miss("", 0.0)


def _heard(context: Context, again: Callable[[], object]) -> Miss | None:
    """What came closest to the first query that `again` asks; None: it asks none."""
    listener, before = _Listener(context), context.trace
    context.trace = listener  # type: ignore[assignment]  # nothing but questions is heard
    try:
        again()
    except _HeardError:
        pass
    finally:
        context.trace = before
    return listener.miss


def _short(cluster: Cluster) -> Callable[[str], str]:
    """Names without the domain that all nodes have in common."""
    domain = domain_of(node.name for node in cluster.nodes)
    return lambda name: name.removesuffix(domain)


class _HeardError(Exception):
    """The query was heard; nobody needs the answer."""


class _Listener:
    """A trace that hears the first query."""

    n1_check: Any = None  # it ends the asking before anything is judged

    def __init__(self, context: Context) -> None:
        self._context = context
        self.miss: Miss | None = None

    def asked(self, evaluator: TracedEvaluator, query: NodeQuery) -> None:
        """Note what came closest, and go no further."""
        roles = roles_of(self._context, evaluator, query)
        self.miss = closest(self._context.cluster, roles, _short(self._context.cluster))
        raise _HeardError

    def exchanged(
        self,
        evaluator: TracedEvaluator,
        instance: Instance,
        present: Nodes,
        found: Rejection | None,
    ) -> None:
        """Note what the secondary lacks that cannot take over."""
        if found is None:
            return
        state = self._context.state
        rejections = {present[1]: found.reason}
        with state.trial():
            state.remove(instance, present)
            limit_policy = evaluator.limit_policies.off(self._context.cluster.nodes[present[0]])
            query = NodeQuery(
                "exchange", instance, present, present[1:], (), rejections, {}, limit_policy
            )
            query.answer = found
            self.asked(evaluator, query)
