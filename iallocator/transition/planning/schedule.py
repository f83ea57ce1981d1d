"""A legal sequence of steps: room is freed before it is taken, whatever the nodes hold."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from iallocator.transition.resources import Amounts, Key
    from iallocator.transition.step import Step

__all__ = ["TASTES", "ScheduleResult", "schedule"]

BRANCHES = 400
"""How often a search chooses between steps that compete, before it gives up."""

TASTES = ((True, 1), (True, -1), (False, 1), (False, -1))
"""Of steps that compete, whether those go first that free what others lack; then the
smallest (1) or the largest (-1)."""


class ScheduleResult:
    """What a search came to.

    Attributes
    ----------
    order:
        The longest legal sequence found.
    left:
        The tasks that are not in it; none if all can be done.
    room:
        What every node has left after it.
    looks:
        How many steps were ready each time that was looked at: what the search has cost.
    """

    __slots__ = ("left", "looks", "order", "room")

    def __init__(self, order: list[Step], left: list[Step], room: Amounts, looks: int) -> None:
        self.order = order
        self.left = left
        self.room = room
        self.looks = looks


class _Moment:
    """Between two steps: what is done, what could be next, what is free and still asked for."""

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

    def copy(self) -> _Moment:
        return _Moment(
            list(self.order), self.done, set(self.ready), list(self.blockers),
            dict(self.room), dict(self.asked),
        )  # fmt: skip


class _Search:
    """Depth first over the order of steps that compete for room; all others go at once."""

    def __init__(self, tasks: Sequence[Step], taste: int) -> None:
        self.tasks = tasks
        self.looks = 0
        self.weight = TASTES[taste % len(TASTES)]
        position = {task: k for k, task in enumerate(tasks)}
        self.followers: list[list[int]] = [[] for _ in tasks]
        self.takers: dict[Key, list[int]] = {}
        for k, task in enumerate(tasks):
            for before in task.needs:
                self.followers[position[before]].append(k)
            for key in task.takes:
                self.takers.setdefault(key, []).append(k)

    def start(self, room: Amounts) -> _Moment:
        """Before the first step."""
        asked: Amounts = {}
        for task in self.tasks:
            for key, amount in task.takes.items():
                if key in room:
                    asked[key] = asked.get(key, 0) + amount
        blockers = [len(task.needs) for task in self.tasks]
        ready = {k for k, count in enumerate(blockers) if not count}
        return _Moment([], 0, ready, blockers, dict(room), asked)

    def fits(self, moment: _Moment, k: int) -> bool:
        room = moment.room
        return all(room[key] >= more for key, more in self.tasks[k].takes.items() if key in room)

    def harmless(self, moment: _Moment, k: int) -> bool:
        """Whether all that is still asked of its nodes fits beside it."""
        room, asked = moment.room, moment.asked
        return all(
            not more or asked[key] <= room[key]
            for key, more in self.tasks[k].takes.items()
            if key in room
        )

    def do(self, moment: _Moment, k: int) -> set[int]:
        """Carry out one step; who may go on because of that, see `end`."""
        self.begin(moment, k)
        return self.end(moment, k)

    def begin(self, moment: _Moment, k: int) -> None:
        """Take the room of a step."""
        room = moment.room
        for key, more in self.tasks[k].takes.items():
            if key in room:
                room[key] -= more
                moment.asked[key] -= more
        moment.order.append(k)
        moment.done |= 1 << k
        moment.ready.remove(k)

    def end(self, moment: _Moment, k: int) -> set[int]:
        """Give back the room of a step, and let others follow it.

        Returns who waited for that: the followers, and whoever takes of what is free now.
        """
        room = moment.room
        waited = set(self.followers[k])
        for key, less in self.tasks[k].frees.items():
            if key in room:
                room[key] += less
                waited.update(self.takers.get(key, ()))
        for follower in self.followers[k]:
            moment.blockers[follower] -= 1
            if not moment.blockers[follower]:
                moment.ready.add(follower)
        return waited

    def advance(self, moment: _Moment, waited: Collection[int]) -> None:
        """Carry out all steps that cannot stand in the way of others.

        In rounds: those of one can run side by side.  `waited`: those for whom something has
        changed since it was looked last; all others that are ready can still not be done.
        """
        begun: list[int] = [0]
        while begun:
            self.looks += len(moment.ready)
            begun = []
            for k in sorted(moment.ready.intersection(waited)):
                if self.fits(moment, k) and self.harmless(moment, k):
                    self.begin(moment, k)
                    begun.append(k)
            waited = set().union(*(self.end(moment, k) for k in begun))

    def repeat(self, moment: _Moment, former: Sequence[Step]) -> None:
        """Carry out steps like the `former`, in that order, where that can be."""
        alike = {task.identity: k for k, task in enumerate(self.tasks)}
        for task in former:
            k = alike.get(task.identity)
            if k is not None and k in moment.ready:
                self.looks += 1
                if self.fits(moment, k):
                    self.do(moment, k)

    def choices(self, moment: _Moment) -> list[int]:
        """The steps that fit but compete, those first that free what others wait for."""
        scarce = {key for key, asked in moment.asked.items() if asked > moment.room[key]}

        helpful, weight = self.weight

        def rank(k: int) -> tuple[int, float, int]:
            task = self.tasks[k]
            helps = sum(key in scarce for key in task.frees)
            return -helps if helpful else 0, weight * sum(task.takes.values()), k

        self.looks += len(moment.ready)
        return sorted((k for k in moment.ready if self.fits(moment, k)), key=rank)


def schedule(
    tasks: Sequence[Step],
    room: Amounts,
    branches: int = BRANCHES,
    begin: Sequence[Step] = (),
    taste: int = 0,
) -> ScheduleResult:
    """A sequence of `tasks` in which each fits when it begins; ties go to the first of the list.

    A step holds what it leaves until it is done.  If no sequence of all tasks is found
    within so many `branches`, the longest that was found.  `begin`: tasks of an earlier
    attempt; those like them are done first, in that order, where that can be.  `taste`:
    which of the steps that compete is tried first, see `TASTES`.
    """
    search = _Search(tasks, taste)
    moment = search.start(room)
    search.repeat(moment, begin)
    search.advance(moment, range(len(tasks)))
    best = moment
    seen = {moment.done}
    stack: list[tuple[_Moment, Iterator[int]]] = [(moment, iter(search.choices(moment)))]
    while stack and len(best.order) < len(tasks) and branches > 0:
        here, choices = stack[-1]
        choice = next(choices, None)
        if choice is None:
            stack.pop()
            continue
        branches -= 1
        moment = here.copy()
        search.advance(moment, search.do(moment, choice))
        if moment.done in seen:
            continue
        seen.add(moment.done)
        if len(moment.order) > len(best.order):
            best = moment
        stack.append((moment, iter(search.choices(moment))))
    done = set(best.order)
    left = [task for k, task in enumerate(tasks) if k not in done]
    return ScheduleResult([tasks[k] for k in best.order], left, best.room, search.looks)
