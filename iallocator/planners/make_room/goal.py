"""The goal of `make-room`: the handler of a request satisfies it in full in the present state."""

from __future__ import annotations

from iallocator.handlers import handler_for
from iallocator.handlers.allocate import allocation_request
from iallocator.model.columns import MEMORY
from iallocator.placement.groups import collect_offers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.placement.context import Context
    from iallocator.reply import Reply
    from iallocator.requests import Allocate
    from iallocator.requests.existing import Request

__all__ = ["Goal", "satisfied"]


def satisfied(request: Request, reply: Reply) -> bool:
    """Return whether `reply` satisfies `request` in full."""
    if not reply.success:
        return False
    return not request.may_be_partial or not reply.result[1]


SEVERAL = 3
"""Cost factor of each of several instances: one by one, alone, and all at once."""


class Goal:
    """The goal that `request` is satisfied in the state of `context`, which the search changes.

    Attributes
    ----------
    request:
        The request.
    concerned:
        The names of the instances that must not move to make the request possible.
    left:
        The nodes that the request evacuates: no other instance may move there.
    asked:
        The instances that the request moves, if it has several.
    price:
        The cost of `reached`, relative to that of one new instance.
    """

    def __init__(self, context: Context, request: Request) -> None:
        self._context = context
        self.request = request
        cluster, several = context.cluster, request.may_be_partial
        self.left = frozenset(request.evacuated_nodes())
        self.concerned = frozenset(one.name for one in request.reserved(cluster))
        self._new = request.new if several else ()
        self.asked = request.existing(cluster) if several else ()
        self.price = SEVERAL * (len(self._new) + len(self.asked)) or 1

    def hopeless(self) -> bool:
        """Return whether no moves of other instances can help."""
        if any(allocation_request(self._context, one) is None for one in self._new):
            return True
        # an evacuation of secondaries includes an instance that has none
        if not self.request.leaves_primaries and any(len(one.nodes) < 2 for one in self.asked):
            return True
        if not all(one.kind.planners_move for one in self.asked):
            return True
        # the new instances need more memory than all online nodes have free in all
        new = [one.instance for one in self.request.new if one.recreated is None]
        needed = sum(one.memory for one in new if one.uses_memory)
        free = self._context.state.columns[MEMORY]
        nodes = self._context.cluster.nodes
        if needed > 0 and needed >= sum(max(0, free[n.index]) for n in nodes if n.online):
            return True
        # the request would move a part of a colocation group: the rest cannot move alone before
        relations, where = self._context.bonds.relations, self._context.state.where
        if relations is None:
            return False
        units = relations.units()
        return any(
            where[mate][0] == one.nodes[0]
            for one in (self.asked if self.request.leaves_primaries else ())
            for mate in units.get(one.name, ())
            if mate in where and mate not in self.concerned
        )

    def reached(self) -> bool:
        """Return whether the request can be satisfied now; the state is unchanged."""
        context, new = self._context, self.needs()
        undecided = context.effort.undecided
        allocation = None
        if new is not None:
            allocation = allocation_request(context, new)
            if allocation is None:
                return False
            allocation.counted = False
        try:
            if allocation is not None:  # faster than the handler, which also explains its result
                return collect_offers(context, allocation).best is not None
            with context.state.trial():
                reply = handler_for(self.request.kind)(context, self.request)
            return satisfied(self.request, reply)
        finally:  # the next call must not use anything from this one
            context.leaving = None
            context.kept.clear()
            context.remarks.clear()
            context.effort.undecided = undecided

    def needs(self) -> Allocate | None:
        """Return the request, if it creates one new instance beside all present instances."""
        if self.request.may_be_partial:
            return None
        return next((one for one in self.request.new if one.recreated is None), None)
