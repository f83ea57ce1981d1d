"""Find legal sequences of steps: capacity is freed before it is taken.

`schedule` finds a sequence of steps by depth-first search, `arrange` an order of moves that meets
orders between instances.
"""

from __future__ import annotations

from iallocator.constraints.order_graph import circular, without_cycles
from iallocator.deadline import check
from iallocator.model.constraints import MUST
from iallocator.transition.paths import chain
from iallocator.transition.resources import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.moves import Move
    from iallocator.transition.resources import Amounts, Key
    from iallocator.transition.separations import Separations
    from iallocator.transition.step import Step

    Orders = Sequence[tuple[str, str, str]]

__all__ = ["MOST_CHOICES", "TIE_BREAKS", "Arranged", "ScheduleResult", "arrange", "schedule"]

MOST_CHOICES = 400
"""The most choices between competing steps before a search gives up."""

TIE_BREAKS = ((True, 1), (True, -1), (False, 1), (False, -1))
"""Orders of competing steps: whether steps that free lacking capacity come first; smallest (1) or
largest (-1) first."""


class ScheduleResult:
    """The result of a search.

    Attributes
    ----------
    order:
        The longest legal sequence found.
    left:
        The steps that are not in `order`; empty if all can be done.
    room:
        The free amounts of every node after the sequence.
    looks:
        How many steps were tested: the cost of the search.
    """

    __slots__ = ("left", "looks", "order", "room")

    def __init__(self, order: list[Step], left: list[Step], room: Amounts, looks: int) -> None:
        self.order = order
        self.left = left
        self.room = room
        self.looks = looks


class _Progress:
    """The progress of a search: steps done and ready, amounts free and still required."""

    __slots__ = ("asked", "blockers", "done", "order", "ready", "room")

    def __init__(
        self, order: list[int], done: int, ready: set[int], blockers: list[int],
        room: Amounts, asked: Amounts,
    ) -> None:  # fmt: skip
        self.order = order
        self.done = done
        self.ready = ready
        self.blockers = blockers
        self.room = room
        self.asked = asked

    def copy(self) -> _Progress:
        return _Progress(
            list(self.order), self.done, set(self.ready), list(self.blockers),
            dict(self.room), dict(self.asked),
        )  # fmt: skip


class _Search:
    """Searches depth first for an order of competing steps; all other steps are done at once."""

    def __init__(self, steps: Sequence[Step], tie_break: int) -> None:
        self.steps = steps
        self.looks = 0
        self.weight = TIE_BREAKS[tie_break % len(TIE_BREAKS)]
        position = {step: k for k, step in enumerate(steps)}
        self.followers: list[list[int]] = [[] for _ in steps]
        self.takers: dict[Key, list[int]] = {}
        for k, step in enumerate(steps):
            for before in step.needs:
                self.followers[position[before]].append(k)
            for key in step.takes:
                self.takers.setdefault(key, []).append(k)

    def start(self, room: Amounts) -> _Progress:
        """Return the state before the first step."""
        demands: Amounts = {}
        for step in self.steps:
            for key, amount in step.takes.items():
                if key in room:
                    demands[key] = demands.get(key, 0) + amount
        blockers = [len(step.needs) for step in self.steps]
        ready = {k for k, count in enumerate(blockers) if not count}
        return _Progress([], 0, ready, blockers, dict(room), demands)

    def fits(self, progress: _Progress, k: int) -> bool:
        room = progress.room
        return all(room[key] >= more for key, more in self.steps[k].takes.items() if key in room)

    def harmless(self, progress: _Progress, k: int) -> bool:
        """Return whether step `k` prevents no other step: all open demands for its capacity fit."""
        room, asked = progress.room, progress.asked
        return all(
            not more or asked[key] <= room[key]
            for key, more in self.steps[k].takes.items()
            if key in room
        )

    def begin(self, progress: _Progress, k: int) -> None:
        """Take the capacity of step `k`, and record the step as done."""
        room = progress.room
        for key, more in self.steps[k].takes.items():
            if key in room:
                room[key] -= more
                progress.asked[key] -= more
        progress.order.append(k)
        progress.done |= 1 << k
        progress.ready.remove(k)

    def end(self, progress: _Progress, k: int) -> set[int]:
        """Free the capacity of step `k`, and return the steps to test again.

        These are the steps that depend on it, and all steps that take capacity that it frees.
        """
        room = progress.room
        waited = set(self.followers[k])
        for key, less in self.steps[k].frees.items():
            if key in room:
                room[key] += less
                waited.update(self.takers.get(key, ()))
        for follower in self.followers[k]:
            progress.blockers[follower] -= 1
            if not progress.blockers[follower]:
                progress.ready.add(follower)
        return waited

    def advance(self, progress: _Progress, waited: Collection[int]) -> None:
        """Do all ready steps that cannot prevent other steps.

        The steps are done in rounds; the steps of a round can run at the same time. `waited`: the
        steps for which something has changed since they were tested last. All other ready steps
        still do not fit.
        """
        begun: list[int] = [0]
        while begun:
            self.looks += len(progress.ready)
            begun = []
            for k in sorted(progress.ready.intersection(waited)):
                if self.fits(progress, k) and self.harmless(progress, k):
                    self.begin(progress, k)
                    begun.append(k)
            waited = set().union(*(self.end(progress, k) for k in begun))

    def repeat(self, progress: _Progress, former: Sequence[Step]) -> None:
        """Do the steps that are equal to the `former` ones, in their order, as far as they fit."""
        alike = {step.identity: k for k, step in enumerate(self.steps)}
        for step in former:
            k = alike.get(step.identity)
            if k is not None and k in progress.ready:
                self.looks += 1
                if self.fits(progress, k):
                    self.begin(progress, k)
                    self.end(progress, k)

    def choices(self, progress: _Progress) -> list[int]:
        """Return the ready steps that fit but compete for capacity, in the order of the search."""
        scarce = {key for key, demand in progress.asked.items() if demand > progress.room[key]}

        helpful, weight = self.weight

        def rank(k: int) -> tuple[int, float, int]:
            step = self.steps[k]
            helps = sum(key in scarce for key in step.frees)
            return -helps if helpful else 0, weight * sum(step.takes.values()), k

        self.looks += len(progress.ready)
        return sorted((k for k in progress.ready if self.fits(progress, k)), key=rank)


def schedule(
    steps: Sequence[Step],
    room: Amounts,
    branches: int = MOST_CHOICES,
    begin: Sequence[Step] = (),
    tie_break: int = 0,
) -> ScheduleResult:
    """Return a sequence of `steps` in which each step fits when it begins.

    A step holds its old capacity until it is done. If no sequence of all steps is found within
    `branches` branches, the longest sequence found is returned. `begin`: steps of an earlier
    attempt; equal steps are done first, in their order, if they fit. `tie_break`: index in
    `TIE_BREAKS` of the order in which competing steps are tried. Among equal steps, the first in
    `steps` is tried first.
    """
    search = _Search(steps, tie_break)
    progress = search.start(room)
    search.repeat(progress, begin)
    search.advance(progress, range(len(steps)))
    best = progress
    seen = {progress.done}
    stack: list[tuple[_Progress, Iterator[int]]] = [(progress, iter(search.choices(progress)))]
    while stack and len(best.order) < len(steps) and branches > 0:
        check()
        here, choices = stack[-1]
        choice = next(choices, None)
        if choice is None:
            stack.pop()
            continue
        branches -= 1
        progress = here.copy()
        search.begin(progress, choice)
        search.advance(progress, search.end(progress, choice))
        if progress.done in seen:
            continue
        seen.add(progress.done)
        if len(progress.order) > len(best.order):
            best = progress
        stack.append((progress, iter(search.choices(progress))))
    done = set(best.order)
    left = [step for k, step in enumerate(steps) if k not in done]
    return ScheduleResult([steps[k] for k in best.order], left, best.room, search.looks)


class Arranged:
    """The order of moves.

    Attributes
    ----------
    positions:
        Positions of the moves, in the order in which they are made.
    orders:
        The orders between moving instances that these positions meet.
    remarks:
        Messages about the orders that are not met.
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
    """Return an order of `moves` that meets as many of `orders` as possible.

    The moves are legal in the given order if the amounts `left` are free. Moves without an order
    between them keep their order, if possible. Orders that cannot be met are dropped: soft orders
    first, and the last ones first.
    """
    names = {move.instance.name for move in moves}
    known_orders = [order for order in orders if order[0] in names and order[1] in names]
    if not known_orders:
        return Arranged(range(len(moves)), [], [])
    hard = [order for order in known_orders if order[2] == MUST]
    cycles = {name for cycle in circular(hard) for name in cycle}
    soft = [order for order in known_orders if order[2] != MUST]
    straight = [o for o in hard if not (o[0] in cycles and o[1] in cycles)]
    kept, dropped = without_cycles(straight, soft)
    dropped += [order for order in hard if order not in straight]
    remarks = [f"{b} does not wait for {a}: a cycle of orders" for a, b, _ in dropped]
    chains = [
        chain(m.instance, Place(m.before, m.instance.uses_memory), m.steps, cluster) for m in moves
    ]
    if separations is not None:
        for made in chains:
            separations.charge(made)
        remarks += separations.allow_meetings([step for made in chains for step in made])
        left = left | separations.room
    while True:
        check()
        sequenced = _sequence(moves, chains, left, kept)
        if sequenced is not None:
            return Arranged(sequenced, kept, remarks)
        first, second, _ = kept.pop()
        remarks.append(f"{second} does not wait for {first}: no room in that order")


def _sequence(
    moves: Sequence[Move], chains: Sequence[Sequence[Step]], left: Amounts, orders: Orders
) -> list[int] | None:
    """Return a legal order of the moves, as positions; None if no move is possible at some point.

    At each point, the first possible move of `moves` is chosen.
    """
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
    """Return the free amounts after the steps `chained`; None if a step does not fit."""
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
