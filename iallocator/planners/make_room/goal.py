"""Whether a request can be satisfied in full as the state is, asked of its own handler."""

from __future__ import annotations

from iallocator.handlers import handler_for
from iallocator.handlers.allocate import wish_for
from iallocator.placement.groups import collect_offers
from iallocator.requests import Allocate, ChangeGroup, MultiAllocate, MultiEvacuate, NodeEvacuate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from iallocator.aliases import Nodes
    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context
    from iallocator.reply import Reply
    from iallocator.requests import Request


__all__ = ["Goal", "satisfied"]


def satisfied(request: Request, reply: Reply) -> bool:
    """Whether `reply` gives `request` all that it asks for."""
    if not reply.success:
        return False
    if request.kind in ("node-evacuate", "change-group", "multi-allocate"):
        return not reply.result[1]
    return True


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
    leaves_primaries:
        Whether they are to have another primary.
    price:
        What it costs to ask, in single new instances.
    """

    def __init__(self, context: Context, request: Request) -> None:
        self._context = context
        self.request = request
        self._every: dict[str, Instance] = {i.name: i for i in context.cluster.instances}
        self.concerned, self.left = _about(context, request)
        self.asked: Sequence[Instance] = ()
        if isinstance(request, NodeEvacuate | ChangeGroup):
            self.asked = request.instances
        self.leaves_primaries = getattr(request, "mode", "") != "secondary-only"
        self.price = SEVERAL * len(_members(request)) or 1

    def hopeless(self) -> bool:
        """Whether no moves of others help: nobody can do what is asked of some instance."""
        members = _members(self.request)
        new = [one for one in members if isinstance(one, Allocate)]
        if any(wish_for(self._context, one) is None for one in new):
            return True
        existing = [one for one in members if not isinstance(one, Allocate)]
        return not all(one.mirrored for one in existing) or self._parts_a_unit()

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
            for one in (self.asked if self.leaves_primaries else ())
            for mate in units.get(one.name, ())
            if mate in where and mate not in self.concerned
        )

    def reached(self) -> bool:
        """Whether the request can be satisfied now; the state is left as it is."""
        new = self.needs()
        if new is not None:
            return self._takes(new)
        context = self._context
        before = dict(context.state.where)
        effort = context.effort.undecided
        try:
            reply = handler_for(self.request.kind)(context, self.request)
        finally:
            self._restore(before)
            context.leaving = None
            self._forget(effort)
        return satisfied(self.request, reply)

    def _takes(self, request: Allocate) -> bool:
        """Whether some group takes the new instance; what is told of an answer is not asked."""
        context, effort = self._context, self._context.effort.undecided
        wish = wish_for(context, request)
        if wish is None:
            return False
        wish.counted = False
        try:
            return collect_offers(context, wish).best is not None
        finally:
            self._forget(effort)

    def _forget(self, undecided: int) -> None:
        """What answers leave behind is no part of the next."""
        self._context.kept.clear()
        self._context.remarks.clear()
        self._context.effort.undecided = undecided

    def _restore(self, before: Mapping[str, Nodes]) -> None:
        state = self._context.state
        changed = [name for name, nodes in state.where.items() if before.get(name) != nodes]
        gone = [name for name in before if name not in state.where]
        for name in changed:
            nodes = state.where[name]
            state.remove(state.primaries[nodes[0]][name], nodes)
        for name in (*changed, *gone):
            if name in before:
                state.place(self._every[name], before[name])

    def needs(self) -> Allocate | None:
        """The request, if it is about one new instance that must find room beside all others."""
        request = self.request
        return request if isinstance(request, Allocate) and request.recreated is None else None


def _members(request: Request) -> Sequence[Any]:
    """What several instances are asked for."""
    if isinstance(request, MultiAllocate):
        return request.wanted
    return request.instances if isinstance(request, NodeEvacuate | ChangeGroup) else ()


def _about(context: Context, request: Request) -> tuple[frozenset[str], frozenset[int]]:
    """Names of the instances of `request`, and the nodes that are to be left."""
    if isinstance(request, MultiEvacuate):
        left = set(request.nodes)
        names = [i.name for i in context.cluster.instances if left.intersection(i.nodes)]
        return frozenset(names), frozenset(left)
    if isinstance(request, NodeEvacuate | ChangeGroup):
        names = [one.name for one in request.instances]
        roles = {"primary-only": slice(0, 1), "secondary-only": slice(1, None)}
        role = roles.get(getattr(request, "mode", ""), slice(None))
        evacuated = request.instances if isinstance(request, NodeEvacuate) else ()
        return frozenset(names), frozenset(index for one in evacuated for index in one.nodes[role])
    instance = getattr(request, "instance", None)
    return frozenset([instance.name] if instance else ()), frozenset()
