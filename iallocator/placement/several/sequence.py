"""The order in which several instances are placed or moved, and the result of a joint search."""

from __future__ import annotations

from iallocator.deadline import check
from iallocator.ranking import SEQUENCED
from iallocator.solver.problem import FOUND, IMPOSSIBLE, UNAVAILABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from typing import Any, TypeVar

    from iallocator.aliases import Nodes
    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context
    from iallocator.placement.results import MoveResult
    from iallocator.solver.most import Most

    T = TypeVar("T")

__all__ = ["JointResult", "RequiredMove", "in_turn", "make_as_allowed"]


def in_turn(context: Context, instances: Sequence[Instance]) -> Iterator[int]:
    """Yield positions in `instances`, in the order in which the instances are placed.

    The caller places or moves each instance before it asks for the next, so that later instances
    can depend on its placement. A strategy may have an order of its own; otherwise priorities and
    start orders decide, then the given order. The present nodes of an instance constrain other
    instances only after its turn.
    """
    context.affinity.pending = {instance.name for instance in instances}
    try:
        for position in _positions(context, instances):
            yield position
            context.affinity.pending.discard(instances[position].name)
    finally:
        context.affinity.pending = set()


def make_as_allowed(items: Iterable[T], make: Callable[[T], bool]) -> list[T]:
    """Make each of `items` as soon as `make` succeeds, in the given order; return the rest.

    `make` returns whether it has made the item. After each success, the other items are tried again
    from the beginning. Cost: items squared.
    """
    waiting = list(items)
    while True:
        check()
        ready = next((k for k, one in enumerate(waiting) if make(one)), None)
        if ready is None:
            return waiting
        del waiting[ready]


def _positions(context: Context, instances: Sequence[Instance]) -> Iterator[int]:
    # The strategy of the group of the first instance; that of the cluster for new instances
    settings = context.settings
    if settings.by_group and instances and instances[0].nodes:
        settings = context.settings_of(context.cluster.group_of(instances[0]))
    strategy = settings.strategy
    if strategy not in SEQUENCED:
        position = {instance.name: k for k, instance in enumerate(instances)}
        yield from (position[i.name] for i in context.affinity.in_order(instances))
        return
    from iallocator.ranking.base import sequence_of

    state = context.state
    homes = {i.name: i.nodes[0] for i in instances if i.nodes and i.running}
    position = {instance.name: k for k, instance in enumerate(instances)}
    last: int | None = None
    try:
        for scheduled in sequence_of(strategy, context, instances, homes):
            name = scheduled.instance.name
            scheduled.node = last if scheduled.after is not None else None
            context.scheduled = scheduled
            before = state.where.get(name)
            yield position[name]
            after = state.where.get(name)
            last = after[0] if after and after != before else None
    finally:
        context.scheduled = None


if TYPE_CHECKING:
    Made = list[tuple[Instance, MoveResult]]

    """Instances with the results of their moves, in the order in which the moves were made."""


class RequiredMove:
    """An instance to move, with functions that find its moves.

    Attributes
    ----------
    best:
        Returns the best move in the state at the time of the call.
    places:
        Lists every possible placement with its score, in a state without the instances to move.
    exactly:
        Returns the move to exactly these nodes, in the state at the time of the call.
    """

    __slots__ = ("best", "exactly", "instance", "places")

    def __init__(
        self,
        instance: Instance,
        best: Callable[[], MoveResult],
        places: Callable[[], Iterable[tuple[float, Nodes]]],
        exactly: Callable[[Nodes], MoveResult],
    ) -> None:
        self.instance = instance
        self.best = best
        self.places = places
        self.exactly = exactly


class JointResult:
    """The result of a joint search for several instances.

    Attributes
    ----------
    asked:
        The number of instances to place.
    unschedulable:
        The names of the instances that cannot be placed, regardless of the others.
    status:
        The status of the search for all other instances, see `iallocator.solver.problem`; "" if
        there was no search.
    most:
        The best answer of the search: the instances left out, and the placements of the rest; None
        if there was no search.
    limit:
        What ended the search; "" if nothing did.
    doubtful:
        Whether an answer was rejected although another order of the moves might be possible. Then
        the search proves nothing.
    """

    __slots__ = ("asked", "doubtful", "limit", "most", "status", "unschedulable")

    def __init__(self, number: int) -> None:
        self.asked = number
        self.unschedulable: Collection[str] = ()
        self.status = ""
        self.most: Most | None = None
        self.limit = ""
        self.doubtful = False

    @property
    def places(self) -> dict[str, Any]:
        """Return instance name -> placement if an answer beats the known one; otherwise empty."""
        return dict(self.most.values or {}) if self.most else {}

    def fewest_out(self) -> int:
        """Return a lower bound of the number of instances that are left out.

        The search minimises the number left out for each priority, the highest first. The sum of
        these numbers is the lowest possible only if all instances have one priority.
        """
        unschedulable = len(self.unschedulable)
        if self.most is None or not self.most.left_out or self.doubtful:
            return unschedulable
        if self.most.proved and len(self.most.left_out) == 1:
            return unschedulable + sum(self.most.left_out.values())
        return unschedulable + (self.status == IMPOSSIBLE)

    def note(self) -> str:
        """Return the text about the search to add to ``info``."""
        if self.status == UNAVAILABLE:
            return "; no exact search: its solver (highspy) is not installed"
        if self.status == FOUND:
            return "; placed together by exact search"
        if self.doubtful and not self.places:
            return "; exact search found no better placement"
        if self.most is None and self.status == IMPOSSIBLE:
            return "; exact search proved that no placement of all exists"
        if self.most is None:
            return f"; exact search found no answer {self.limit}" if self.limit else ""
        if self.places:
            proof = f"{self._count()}, and no more {self.limit}"
            if self.doubtful:
                proof = self._count()
            elif self.most.proved:
                proof = f"which proved {self._proof()}"
            return f"; placed together by exact search, {proof}"
        if self.most.proved:
            return f"; exact search proved {self._proof()}"
        if self.status == IMPOSSIBLE:
            none = "no placement of all exists, and found no better one"
            return f"; exact search proved that {none} {self.limit}"
        return f"; exact search found no answer {self.limit}"

    def _count(self) -> str:
        assert self.most is not None
        left_out = len(self.unschedulable) + sum(self.most.left_out.values())
        return f"{self.asked - left_out} of {self.asked}"

    def _proof(self) -> str:
        assert self.most is not None
        first = ", higher priority first," if len(self.most.left_out) > 1 else ""
        return f"that{first} no more than {self._count()} can be placed"
