"""Moves in an order that is legal and does what orders between instances ask."""

from __future__ import annotations

from iallocator.deadline import check
from iallocator.transition.paths import chain
from iallocator.transition.planning.order_graph import circular, without_circles
from iallocator.transition.requirements import MUST
from iallocator.transition.resources import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.moves import Move
    from iallocator.transition.resources import Amounts
    from iallocator.transition.separations import Separations
    from iallocator.transition.step import Step

    Orders = Sequence[tuple[str, str, str]]

__all__ = ["Arranged", "arrange"]


class Arranged:
    """How moves are made.

    Attributes
    ----------
    positions:
        Of the moves, in the order in which they are to be made.
    orders:
        The orders that this meets, of those between instances that move.
    remarks:
        The others, for people.
    """

    __slots__ = ("orders", "positions", "remarks")

    def __init__(self, positions: Sequence[int], orders: Orders, remarks: list[str]) -> None:
        self.positions = positions
        self.orders = orders
        self.remarks = remarks


def arrange(
    cluster: Cluster,
    left: Amounts,
    moves: Sequence[Move],
    orders: Orders,
    separations: Separations | None = None,
) -> Arranged:
    """`moves`, legal as they stand where `left` is free, so that `orders` are met.

    What stands in no order with others stays before what it stood before, where that can
    be.  Orders that cannot be met are dropped, wishes first, the last ones first.
    """
    names = {move.instance.name for move in moves}
    asked = [order for order in orders if order[0] in names and order[1] in names]
    if not asked:
        return Arranged(range(len(moves)), [], [])
    musts = [order for order in asked if order[2] == MUST]
    circles = {name for circle in circular(musts) for name in circle}
    shoulds = [order for order in asked if order[2] != MUST]
    straight = [o for o in musts if not (o[0] in circles and o[1] in circles)]
    kept, dropped = without_circles(straight, shoulds)
    dropped += [order for order in musts if order not in straight]
    remarks = [f"{b} does not wait for {a}: a circle of orders" for a, b, _ in dropped]
    chains = [
        chain(m.instance, Place(m.before, m.instance.uses_memory), m.steps, cluster) for m in moves
    ]
    if separations is not None:
        for made in chains:
            separations.charge(made)
        remarks += separations.yield_to([step for made in chains for step in made])
        left = left | separations.room
    while True:
        check()
        found = _sequence(moves, chains, left, kept)
        if found is not None:
            return Arranged(found, kept, remarks)
        first, second, _ = kept.pop()
        remarks.append(f"{second} does not wait for {first}: no room in that order")


def _sequence(
    moves: Sequence[Move], chains: Sequence[Sequence[Step]], left: Amounts, orders: Orders
) -> list[int] | None:
    """Positions of the moves, each the first that may be made then; None if one never may."""
    if not orders:
        return list(range(len(moves)))
    room = dict(left)
    waiting = list(range(len(moves)))
    done: list[int] = []
    while waiting:
        names = [moves[k].instance.name for k in waiting]
        held = {second for first, second, _ in orders if first in names}
        for position, k in enumerate(waiting):
            name = names[position]
            if name in held or name in names[:position]:
                continue
            after = _after(chains[k], room)
            if after is not None:
                room = after
                done.append(waiting.pop(position))
                break
        else:
            return None
    return done


def _after(chained: Sequence[Step], room: Amounts) -> Amounts | None:
    """What is free after the steps; None if one does not fit."""
    free = dict(room)
    for step in chained:
        for key, amount in step.takes.items():
            if key in free:
                if amount > free[key]:
                    return None
                free[key] -= amount
        for key, amount in step.frees.items():
            if key in free:
                free[key] += amount
    return free
