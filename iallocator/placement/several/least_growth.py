"""The places of all that leave a node after which failures lose least: ``--n1 no-worse``.

Each in turn took the place that loses least; where something is lost more all the same, places
for all of them are searched by branch and bound.  Whoever is placed only takes room: what
failures lose with some of them in place is the least that they lose with all of them.
"""

from __future__ import annotations

from iallocator.deadline import Held
from iallocator.n1.growth import NOTHING
from iallocator.placement.several.moves import places_of_move, taken_off, try_moves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Group
    from iallocator.n1.growth import Grown, Growth
    from iallocator.placement.context import Context
    from iallocator.placement.several.move_task import Made, MoveTask
    from iallocator.solver.budget import Budget

__all__ = ["least_growth", "told"]

NODES = 8
"""In a group of so many all failures cost about as much as to look at one placement."""


def least_growth(context: Context, group: Group, tasks: Sequence[MoveTask]) -> tuple[bool, Made]:
    """Whether nothing loses less than what comes out, and better moves of `tasks`, if any.

    All of them have been moved within `group`; the state is left as it is.
    """
    state, growth = context.state, context.growth(group)
    if growth.spent():
        return False, []
    back = growth.rescued(state)
    present = growth.of(state, back)
    if present == NOTHING or context.effort.spent:
        return present == NOTHING, []
    if not context.searches_for([group]) or context.deadline.over():
        return False, []
    wanted = {task.instance.name: state.where[task.instance.name] for task in tasks}
    with Held() as held, state.trial():
        search = _Search(context, growth, tasks, back, present, context.budget())
        search.run(wanted)
    context.interrupted |= held.asked
    return search.proved, search.found


def told(context: Context, groups: Collection[Group], proved: Collection[Group]) -> str:
    """What to add to ``info`` where more is lost than before; `proved`: nothing loses less."""
    found = ""
    for group in groups:
        text = "" if context.effort.spent else context.growth(group).told(context.state)
        least = "no other places lose less" if group in proved else "the least that was found"
        found += f"; {text}: {least}" if text else ""
    return found


class _Search:
    """Looks for places of `tasks` that grow less than `best`, which is known.

    Attributes
    ----------
    found:
        The moves to them, in an order in which they can be made; empty if there are none.
    proved:
        Whether nothing was overlooked.
    """

    def __init__(
        self,
        context: Context,
        growth: Growth,
        tasks: Sequence[MoveTask],
        back: tuple[int, float],
        best: Grown,
        budget: Budget,
    ) -> None:
        self._context = context
        self._growth = growth
        self._tasks = sorted(tasks, key=lambda task: -task.instance.memory)
        self._back = back
        self._best = best
        self._budget = budget
        self._price = 1 + (growth.failures // NODES) ** 2
        self.found: Made = []
        self.proved = True

    def run(self, wanted: dict[str, Nodes]) -> None:
        """Search, on a state where the instances are on the nodes `wanted`."""
        state = self._context.state
        for task in self._tasks:
            state.remove(task.instance, wanted[task.instance.name])
            state.place(task.instance, task.instance.nodes)
        with taken_off(self._context, self._tasks):
            self._context.bonds.pending = set()  # whoever is placed binds the others
            self._place(0, NOTHING)

    def _place(self, k: int, grown: Grown) -> None:
        """Try the places of task `k`, those first after which least is lost; it is `grown` now."""
        if k == len(self._tasks):
            self._try(grown)
            return
        instance, state = self._tasks[k].instance, self._context.state
        for more, nodes in self._ordered(self._tasks[k]):
            if more >= self._best:  # a better one was found meanwhile
                return
            with state.trial():
                state.place(instance, nodes)
                self._place(k + 1, more)
            if self._over() or self._best == NOTHING:
                return

    def _ordered(self, task: MoveTask) -> list[tuple[Grown, Nodes]]:
        """The places of `task` with what is lost more after each, the least first."""
        found = []
        state = self._context.state
        for _, _, nodes in sorted(places_of_move(self._context, task, self._budget)):
            if self._over():
                break
            self._budget.placements -= self._price
            with state.trial():
                state.place(task.instance, nodes)
                found.append((self._growth.of(state, self._back), nodes))
        found = [one for one in found if one[0] < self._best]
        return sorted(found, key=lambda one: one[0])

    def _over(self) -> bool:
        """Whether to end, without a proof."""
        if self._budget.spent or self._growth.spent():
            self.proved = False
        return not self.proved

    def _try(self, grown: Grown) -> None:
        """Take the places as they are, which are `grown`, if the moves to them can be made."""
        context, state = self._context, self._context.state
        ends = {task.instance.name: state.where[task.instance.name] for task in self._tasks}
        with state.trial():
            for task in self._tasks:
                state.remove(task.instance, ends[task.instance.name])
                state.place(task.instance, task.instance.nodes)
            made = try_moves(context, self._tasks, ends)
        self._budget.trials -= len(self._tasks)
        if len(made) == len(self._tasks):
            self.found, self._best = made, grown
