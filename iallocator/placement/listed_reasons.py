"""Name the reason of each node that hail would name if an instance cannot be moved."""

from __future__ import annotations

from iallocator.limits.node import FORCED_LIMITS
from iallocator.placement.limit_policy import LimitPolicy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from iallocator.constraints.checks import Check
    from iallocator.placement.context import Context
    from iallocator.placement.results import NodeQuery
    from iallocator.placement.trace import TracedEvaluator

__all__ = ["listed_reasons"]


def listed_reasons(context: Context, last_pair: bool = False) -> str:
    """Return why the last query found no node, in the words of hail.

    The text lists each node, or only the last pair that hail tries. hail goes through nodes in the
    order of the document.
    """
    assert context.last_query is not None
    evaluator, query = context.last_query
    with context.state.trial():
        context.state.remove(query.instance, context.state.where[query.instance.name])
        words = _Words(evaluator, query)
        if last_pair:
            primary = query.primaries[0]
            secondary = next(index for index in query.secondaries if index != primary)
            return f"Allocation failed: {words.pair(primary, secondary)}"
        nodes = context.cluster.nodes
        return "".join(
            f" Node {nodes[index].name} failed: {words.node(index)};"
            for index in reversed(query.secondaries or query.primaries)
        )


class _Words:
    """The reasons in hail's words for which `query` rejects nodes; its instance is not placed."""

    def __init__(self, evaluator: TracedEvaluator, query: NodeQuery) -> None:
        self._query = query
        self._limits = evaluator.what_if(query.instance, query.limit_policy)
        again = LimitPolicy("moved", FORCED_LIMITS, FORCED_LIMITS)
        self._again = evaluator.what_if(query.instance, again)

    def node(self, index: int) -> str:
        """Return why the node cannot be the only node, or the secondary of the present primary."""
        query = self._query
        if query.kind == "secondary":
            return self._replaced(index, query.barred_secondaries.get(index, ""))
        return query.rejections.get(index) or _first(self._limits.primary_failures(index))

    def pair(self, primary: int, secondary: int) -> str:
        """Return the step that is rejected for a new pair of nodes, and why."""
        query = self._query
        early = query.as_secondaries.get(primary)
        if why := self._again_primary() if early is None else early.reason:
            return f"Changing secondary to new primary: {why}"
        why = query.rejections.get(primary) or _first(self._limits.primary_failures(primary))
        if why:
            return f"Failing over to new primary: {why}"
        why = _first(self._limits.secondary_failures(secondary, primary))
        return f"Changing secondary to final secondary: {why}"

    def _replaced(self, index: int, barred: str) -> str:
        primary = self._query.present[0]
        late = _first(self._limits.secondary_failures(index, primary))
        return barred or late or self._again_primary()

    def _again_primary(self) -> str:
        """Return why hail rejects the present primary, which hail checks again; "" if accepted."""
        return _first(self._again.primary_failures(self._query.present[0]))


def _first(failures: Iterable[Check]) -> str:
    return next((check.reason for check in failures), "")
