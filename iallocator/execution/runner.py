"""Carries the jobs of a plan out: waves of submissions, each looked at again before.

Where jobs can wait for each other in the queue, a wave is all that does not wait for
somebody's hand; where they cannot, it is what waits for nothing any more.  A job that is in
the queue but has not begun is looked at again each time that others have ended, and is
cancelled if what it relies on has changed.
"""

from __future__ import annotations

from iallocator.execution.watch import Watch
from iallocator.execution.waves import Waves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.execution.session import Session

__all__ = ["carry_out"]


def carry_out(session: Session) -> str:
    """Do what can be done; the records say how far it came.

    Returns why the cluster took nothing more at some moment; "" if it did not refuse.

    Raises
    ------
    ExecutionError
        If it cannot go on.
    """
    waves, watch = Waves(session), Watch(session)
    waves.find_again()
    session.follow()
    while True:
        ended = watch.collect()
        if session.orders.stopping():
            watch.take_back()
        elif waves.next():
            continue
        elif ended:
            watch.look_again()
        if not watch.in_queue():
            session.follow()
            return waves.trouble
        watch.wait()
