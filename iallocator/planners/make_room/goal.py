"""Whether a request can be satisfied in full as the state is, asked of its own handler."""

from __future__ import annotations

from iallocator.handlers import handler_for
from iallocator.handlers.allocate import allocation_request
from iallocator.model.columns import MEMORY
from iallocator.placement.groups import collect_offers
from iallocator.requests import Allocate, MultiEvacuate, NodeEvacuate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.placement.context import Context
    from iallocator.reply import Reply
    from iallocator.requests import Request


__all__ = ["Goal", "satisfied"]


def satisfied(request: Request, reply: Reply) -> bool:
    """Whether `reply` gives `request` all that it asks for."""
    if not reply.success:
        return False
    return not request.may_be_partial or not reply.result[1]


SEVERAL = 3
"""How much dearer it is to ask for each of several: one after the other, alone, all at once."""


class Goal:
    """That `request` can be satisfied; it is asked of `context`, whose state is moved meanwhile.

    Attributes
    ----------
    request:
        What is asked for.
    concerned:
        The names of the instances that the request itself is about.
    left:
        The nodes that it wants to be left: nobody else should come there.
    asked:
        The instances that it moves, as far as they are known beforehand.
    price:
        What it costs to ask, in single new instances.
    """

    def __init__(self, context: Context, request: Request) -> None:
        self._context = context
        self.request = request
        cluster, several = context.cluster, request.may_be_partial
        self.left = frozenset(request.evacuated_nodes())
        concerned = request.concerned(cluster)
        if isinstance(request, MultiEvacuate):
            concerned = [i for i in cluster.instances if self.left.intersection(i.nodes)]
        self.concerned = frozenset(one.name for one in concerned)
        self._new = request.new if several else ()
        self.asked = request.existing(cluster) if several else ()
        self.price = SEVERAL * (len(self._new) + len(self.asked)) or 1

    def hopeless(self) -> bool:
        """Whether no moves of others help: nobody can do what is asked of some instance."""
        if any(allocation_request(self._context, one) is None for one in self._new):
            return True
        leaves_secondaries = isinstance(self.request, NodeEvacuate) and (
            not self.request.leaves_primaries
        )
        return (
            self._too_large()
            or (leaves_secondaries and any(len(one.nodes) < 2 for one in self.asked))
            or not all(one.kind.planners_move for one in self.asked)
            or self._parts_a_unit()
        )

    def _too_large(self) -> bool:
        """Whether the new instances need more memory than all online nodes have free together."""
        new = [one.instance for one in self.request.new if one.recreated is None]
        needed = sum(one.memory for one in new if one.uses_memory)
        free = self._context.state.columns[MEMORY]
        nodes = self._context.cluster.nodes
        return needed > 0 and needed >= sum(max(0, free[n.index]) for n in nodes if n.online)

    def _parts_a_unit(self) -> bool:
        """Whether somebody is to leave one behind that must be on its node: who stays there.

        Nobody of those who must be together can be moved alone before.
        """
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
        """Whether the request can be satisfied now; the state is left as it is."""
        new = self.needs()
        if new is not None:
            return self._takes(new)
        context = self._context
        effort = context.effort.undecided
        try:
            with context.state.trial():
                reply = handler_for(self.request.kind)(context, self.request)
        finally:
            context.leaving = None
            self._forget(effort)
        return satisfied(self.request, reply)

    def _takes(self, request: Allocate) -> bool:
        """Whether some group takes the new instance; what is told of an answer is not asked."""
        context, effort = self._context, self._context.effort.undecided
        allocation = allocation_request(context, request)
        if allocation is None:
            return False
        allocation.counted = False
        try:
            return collect_offers(context, allocation).best is not None
        finally:
            self._forget(effort)

    def _forget(self, undecided: int) -> None:
        """What answers leave behind is no part of the next."""
        self._context.kept.clear()
        self._context.remarks.clear()
        self._context.effort.undecided = undecided

    def needs(self) -> Allocate | None:
        """The request, if it is about one new instance that must find room beside all others."""
        request = self.request
        return request if isinstance(request, Allocate) and request.recreated is None else None
