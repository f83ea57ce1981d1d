"""Plan a few moves after which a request can be satisfied, and check them against all limits.

All exact searches of the request share one budget.
"""

from __future__ import annotations

from iallocator.deadline import TIME_IS_UP, Deadline, Stopped
from iallocator.ganeti.jobs import transition_document
from iallocator.model.moves import replay
from iallocator.model.state import State
from iallocator.placement.context import Context
from iallocator.planners.make_room.moves import Goal, satisfied
from iallocator.planners.make_room.search import WORK_IS_SPENT, RoomSearch
from iallocator.planners.outcome import Failures
from iallocator.planners.plan_limits import PlanLimits
from iallocator.planners.result import PlanResult
from iallocator.planners.verify import lost_between, verify_moves, verify_transition
from iallocator.scoring.scalar import score_of
from iallocator.transition.requirements import demands_of
from iallocator.units import GIB

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.options.settings import Settings
    from iallocator.planners.plan import PlanEntry
    from iallocator.planners.verify import Problem
    from iallocator.reply import Reply
    from iallocator.requests.existing import Request

__all__ = ["RoomContext", "RoomMade", "add_room", "fits_after", "make_room"]

EXACT_SHARE = 0.25
"""The share of the remaining budget that one exact search may spend."""


class RoomContext(Context):
    """A context with one budget of work for all exact searches.

    Attributes
    ----------
    undecided:
        Whether an exact search ended because its budget was spent.
    """

    __slots__ = ("_part", "_whole", "undecided")

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._part: Deadline | None = None
        self._whole: Deadline | None = None
        self.undecided = False

    def budget(self, thoroughness: int = 1) -> Deadline:
        """Return the budget of the next exact search: a share of the remaining budget."""
        self.end_search()
        if self._whole is None:
            self._whole = super().budget(thoroughness)
        self._part = self._whole.part(EXACT_SHARE)
        return self._part

    def end_search(self) -> None:
        """Record whether the last exact search spent its budget."""
        if self._whole is not None and self._part is not None:
            self.undecided |= self._part.must_end
        self._part = None


EXPECTED_CANDIDATES = 500
"""The assumed number of candidates, which decides whether scores are computed in arrays."""


class RoomMade(PlanResult):
    """The moves after which a request fits.

    Attributes
    ----------
    proved:
        Whether it is proved that no plan has fewer moves, or as many moves with less traffic.
        Without moves: whether it is proved that there is no plan.
    needed:
        Whether the request needs any moves at all.
    ended:
        What ended the search early, in words; "" if nothing did.
    exposure:
        The failure that is not tolerated during a move, in words; "" if there is none.
    """

    moves_are_optional = True

    def __init__(self, context: Context, needed: bool = True) -> None:
        super().__init__(
            "make-room", State(context.cluster), demands_of(context.affinity.relations)
        )
        every = range(len(context.cluster.nodes))
        self.plan.before = score_of(self.before, every)
        self.proved = True
        self.needed = needed
        self.ended = ""
        self.exposure = ""

    @property
    def incomplete(self) -> bool:
        """Return whether the request needs moves of other instances and none were found."""
        return self.needed and not self.moves

    def summary(self, most: int) -> str:
        """Return the result as one clause; `most` is the largest permitted number of moves."""
        if not self.needed:
            return "it fits without moves"
        if not self.entries:
            what = "1 move" if most == 1 else f"up to {most} moves"
            if self.proved:
                return f"no plan with {what} of other instances exists (proved)"
            return f"no plan with {what} of other instances was found{self._stopped()}"
        copies = any("r" in move.letters for move in self.moves)
        noun = "move" if copies else "migration"
        count = f"{len(self.moves)} {noun}{'s' * (len(self.moves) > 1)}"
        moves = []
        for move in self.moves:
            before, after = (
                "/".join(self.cluster.node_names(end)) for end in (move.before, move.after)
            )
            moves.append(f"{move.instance.name} from {before} to {after}")
        exposure = f"; {self.exposure}" if self.exposure else ""
        return f"would fit after {count}: {', '.join(moves)}{self._stopped()}{exposure}"

    def _stopped(self) -> str:
        """Return what ended the search early, in brackets; "" if nothing did."""
        ended = self.plan.stop.reason if self.plan.stop else self.ended
        return f" ({ended})" if ended else ""


def make_room(
    cluster: Cluster,
    request: Request,
    settings: Settings,
    deadline: Deadline,
    coming: Sequence[Instance] = (),
    most: int = 1,
) -> RoomMade:
    """Return a plan of at most `most` moves after which `request` fits.

    `coming` are the new instances of the request. If a signal or the time limit ends the search,
    the plan is the best one found until then.
    """
    context = RoomContext(cluster, settings, _candidates(cluster), coming, deadline=deadline)
    goal = Goal(context, request)
    done = RoomMade(context, not goal.reached())
    if not done.needed or goal.proved_infeasible():
        return done
    limits = PlanLimits(context.settings, context.affinity.relations)
    failures = Failures(limits)
    cost = None if settings.cost is None else settings.cost * GIB

    def is_verified(entries: Sequence[PlanEntry]) -> bool:
        if verify_moves(done.before, entries, limits, failures):
            return False
        trial = RoomMade(context)
        trial.add(entries)
        return not verify_transition(trial.before, trial.transition, limits, failures=failures)

    def exposed(entries: Sequence[PlanEntry]) -> list[Problem]:
        moves = [entry.move for entry in entries]
        return lost_between(done.before, moves, limits, failures)

    search = RoomSearch(context, goal, most, cost, is_verified, lambda one: bool(exposed(one)))
    try:
        with deadline:
            search.run()
            context.end_search()
            done.proved = search.proved and not context.undecided
            done.ended = search.ended or WORK_IS_SPENT * context.undecided
    except Stopped as stop:
        done.proved = False
        done.plan.end(stop)
    done.add(search.best_moves or search.exposing or ())
    if not search.best_moves and search.exposing:
        done.exposure = str(exposed(search.exposing)[0])
    return done


def fits_after(
    done: PlanResult, request: Request, settings: Settings, coming: Sequence[Instance]
) -> bool:
    """Return whether `request` can be satisfied after the moves of `done`, in a new context.

    `coming` are the new instances of the request.
    """
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
    """If `reply` does not satisfy `request`, add moves of other instances that make it possible.

    `coming` are the new instances of the request. A clause in ``info`` reports the result.
    """
    if satisfied(request, reply):
        return
    if deadline.over():
        reply.info += f"; {TIME_IS_UP}: no moves of others that make room were found"
        return
    done = make_room(cluster, request, settings, deadline, coming, settings.make_room)
    reply.info += f"; {done.summary(settings.make_room)}"
    reply.interrupted |= done.interrupted
    if done.entries:
        document = {
            "moves": [entry.document(done.cluster) for entry in done.entries],
            "copied_mib": done.plan.copied,
            "proved": done.proved,
            "transition": transition_document(done.transition),
        }
        reply.solutions = [*reply.solutions, {"make_room": document}]


def _candidates(cluster: Cluster) -> list[tuple[int, int]]:
    return [(len(cluster.nodes), 0)] * EXPECTED_CANDIDATES
