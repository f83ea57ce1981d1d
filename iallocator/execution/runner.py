"""Carries the jobs of a plan out: a few at a time, each looked at again before.

A job is submitted once everything that it waits for has been done, and only a few are ahead of
those that run: so Ctrl-C, or a change of the cluster, stops nearly everything that has not
begun.  A job that is in the queue but has not begun is looked at again each time that others
have ended, and is cancelled if what it relies on has changed.
"""

from __future__ import annotations

from iallocator.execution.jobs import describe
from iallocator.execution.records import SENT
from iallocator.execution.retry import retries
from iallocator.execution.returning import Returning
from iallocator.execution.watch import Watch
from iallocator.execution.waves import Waves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.execution.session import Session

__all__ = ["carry_out"]


def carry_out(session: Session, again: bool = False) -> str:
    """Do what can be done; the records say how far it came.

    Parameters
    ----------
    session
        Its jobs, the queue, the cluster, and the journal.
    again
        Whether to retry what failed, or was refused, in an earlier run.

    Returns
    -------
    str
        Why the cluster took nothing more at some moment, or what did not come back in time; ""
        if neither happened.

    Raises
    ------
    ExecutionError
        If it cannot go on.
    """
    returning = Returning(session)
    waves, watch = Waves(session, returning), Watch(session, returning)
    waves.find_again()
    if again:
        watch.collect()
        waves.done_by_hand()
        returning.wait_for_all()  # a cluster whose nodes do not answer cannot be read
        if not (returning.trouble or session.orders.stopping()):
            _retry(session)
    session.follow()
    while True:
        ended = watch.collect()
        if session.orders.stopping():
            watch.take_back()
        if waves.next(ended):
            continue
        stopping = session.orders.stopping()
        if not stopping and returning.look():
            continue
        if session.records.in_state(SENT):
            watch.wait()
        elif returning.waits() and not stopping:
            returning.wait()
        else:
            session.follow()
            return waves.trouble or returning.trouble


def _retry(session: Session) -> None:
    """Let the jobs that failed begin again, each where its instance is now."""
    places = session.patiently(session.ground.places)
    for kind, members in list(retries(session.records, places)):
        session.event(kind, **members)
        job = session.records.jobs[members["job"]]
        if "why" in members:
            session.orders.complain(f"not done: {describe(job)}: {members['why']}")
        elif members["steps"]:
            session.orders.say(f"again: {describe(job)}")
        else:
            session.orders.say(f"done already: {describe(job)}")
