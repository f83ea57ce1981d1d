"""A plan of a few moves after which a request can be satisfied, held to all limits.

All exact searches that the request needs on the way share one budget.
"""

from __future__ import annotations

from iallocator.deadline import TIME_IS_UP, Stopped
from iallocator.ganeti.jobs import transition_document
from iallocator.model.moves import replay
from iallocator.model.state import State
from iallocator.placement.context import Context
from iallocator.planners.make_room.goal import Goal, satisfied
from iallocator.planners.make_room.search import WORK_IS_SPENT, RoomSearch
from iallocator.planners.outcome import Failures
from iallocator.planners.plan_limits import PlanLimits
from iallocator.planners.result import PlanResult
from iallocator.planners.verify import verify_moves, verify_transition
from iallocator.scoring.scalar import score_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from iallocator.deadline import Deadline
    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.model.moves import Move
    from iallocator.options.settings import Settings
    from iallocator.planners.plan import PlanEntry
    from iallocator.reply import Reply
    from iallocator.requests import Request
    from iallocator.solver.budget import Budget

__all__ = ["RoomContext", "RoomMade", "add_room", "fits_after", "make_room"]

SHARE = 0.25
"""Of what is left for all exact searches, what the next may spend."""


class RoomContext(Context):
    """All exact searches share what elsewhere one may spend.

    Attributes
    ----------
    undecided:
        Whether one of them ended because it had nothing left to spend.
    """

    __slots__ = ("_part", "_whole", "undecided")

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._part: Budget | None = None
        self._whole: Budget | None = None
        self.undecided = False

    def budget(self) -> Budget:
        """What the next search may spend, a share of what the others have left."""
        self.pay_for_search()
        if self._whole is None:
            self._whole = super().budget()
        self._part = self._whole.part(SHARE)
        return self._part

    def pay_for_search(self) -> None:
        """Pay for the last search."""
        if self._whole is not None and self._part is not None:
            self.undecided |= self._part.spent
            self._whole.pay(self._part)
        self._part = None


CANDIDATES = 500
"""How many instances the choice between the two forms of the kernel counts with."""


class RoomMade(PlanResult):
    """The moves, and what they are for.

    Attributes
    ----------
    proved:
        Whether it is known that fewer moves, or less traffic, would not do; of none, that
        none do.
    needed:
        Whether the request needs any moves at all.
    ended:
        What ended the search before all was tried, in words; "" if nothing did.
    """

    def __init__(self, context: Context, needed: bool = True) -> None:
        super().__init__("make-room", State(context.cluster), context.bonds.demands())
        every = range(len(context.cluster.nodes))
        self.plan.before = score_of(self.before, every)
        self.proved = True
        self.needed = needed
        self.ended = ""

    def summary(self, most: int) -> str:
        """The outcome in one clause."""
        if not self.needed:
            return "it fits as things are"
        if not self.entries:
            what = "1 move" if most == 1 else f"{most} moves"
            if self.proved:
                return f"room is not made by {what} of others"
            return f"no room was found to be made by {what} of others{self._stopped()}"
        moves = ", ".join(map(self._words, self.moves))
        return f"would fit after {_count(self.moves)}: {moves}{self._stopped()}"

    def _stopped(self) -> str:
        """What ended the search before its time."""
        ended = self.plan.stop.reason if self.plan.stop else self.ended
        return f" ({ended})" if ended else ""

    def _words(self, move: Move) -> str:
        before, after = ("/".join(self.cluster.node_names(n)) for n in (move.before, move.after))
        return f"{move.instance.name} from {before} to {after}"


def _count(moves: Sequence[Move]) -> str:
    """How many, as migrations if no disk is copied."""
    noun = "move" if any("r" in move.letters for move in moves) else "migration"
    return f"{len(moves)} {noun}{'s' * (len(moves) > 1)}"


def make_room(
    cluster: Cluster,
    request: Request,
    settings: Settings,
    deadline: Deadline,
    coming: Sequence[Instance] = (),
    most: int = 1,
) -> RoomMade:
    """Find at most `most` moves after which `request`, with the new instances `coming`, fits.

    A signal, or the end of the time, ends the search; what was found until then is the plan.
    """
    context = RoomContext(cluster, settings, _candidates(cluster), coming, deadline=deadline)
    goal = Goal(context, request)
    done = RoomMade(context, not goal.reached())
    if not done.needed or goal.hopeless():
        return done
    limits = _limits(context)
    failures = Failures(limits)
    cost = None if settings.cost is None else settings.cost * 1024

    def stands(entries: Sequence[PlanEntry]) -> bool:
        if verify_moves(done.before, entries, limits, failures):
            return False
        trial = RoomMade(context)
        trial.add(entries)
        return not verify_transition(trial.before, trial.transition, limits, failures=failures)

    search = RoomSearch(context, goal, most, cost, stands)
    try:
        with deadline:
            search.run()
            context.pay_for_search()
            done.proved = search.proved and not context.undecided
            done.ended = search.ended or WORK_IS_SPENT * context.undecided
    except Stopped as stop:
        done.proved = False
        done.plan.end(stop)
    done.add(search.found or ())
    return done


def fits_after(
    done: RoomMade, request: Request, settings: Settings, coming: Sequence[Instance]
) -> bool:
    """Whether `request` can be satisfied where the plan ends; asked of a context of its own."""
    context = Context(done.cluster, settings, _candidates(done.cluster), coming)
    replay(context.state, done.moves)
    return Goal(context, request).reached()


def add_room(
    reply: Reply,
    cluster: Cluster,
    request: Request,
    settings: Settings,
    deadline: Deadline,
    coming: Sequence[Instance],
) -> None:
    """Say in a `reply` that lacks something after which moves of others it would not."""
    if satisfied(request, reply):
        return
    if deadline.over():
        reply.info += f"; {TIME_IS_UP}: no moves of others that make room were found"
        return
    done = make_room(cluster, request, settings, deadline, coming, settings.make_room)
    reply.info += f"; {done.summary(settings.make_room)}"
    reply.interrupted |= done.interrupted
    if done.entries:
        reply.solutions = [*reply.solutions, {"make_room": _document(done)}]


def _document(done: RoomMade) -> dict[str, Any]:
    """The moves with their transition, as plain data."""
    return {
        "moves": [entry.document(done.cluster) for entry in done.entries],
        "copied_mib": done.plan.copied,
        "proved": done.proved,
        "transition": transition_document(done.transition),
    }


def _candidates(cluster: Cluster) -> list[tuple[int, int]]:
    return [(len(cluster.nodes), 0)] * CANDIDATES


def _limits(context: Context) -> PlanLimits:
    return PlanLimits(context.settings, context.bonds.relations)
