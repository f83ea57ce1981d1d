"""Ctrl-C while a plan is carried out: once, complete moves in progress; twice, leave at once."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from iallocator.deadline import Held, interrupt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType

__all__ = ["Interrupts"]

SIGNALS = (signal.SIGINT, signal.SIGTERM)

ONCE = (
    b"iallocator: interrupted: waiting jobs are cancelled, moves in progress are completed; "
    b"again to leave at once\n"
)

TWICE = b"iallocator: left at once; what is in the queue goes on, --resume shows how far it came\n"


class Interrupts:
    """A ``with`` block in which a signal wakes waits, but ends none; the second ends the process.

    Attributes
    ----------
    number:
        The signal that came; 0: none did.
    """

    def __init__(self) -> None:
        self.number = 0
        self._before: dict[int, object] = {}
        self._held = Held()

    def __enter__(self) -> Interrupts:
        self._held.__enter__()
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number in SIGNALS:
            signal.signal(number, self._before[number])  # type: ignore[arg-type]
        self._held.__exit__()

    @property
    def came(self) -> bool:
        """Whether somebody wants it to stop."""
        return self.number != 0

    @property
    def status(self) -> int:
        """The exit status of a program that such a signal ended."""
        return 128 + self.number

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.came:
            _say(TWICE)
            os._exit(128 + number)
        self.number = number
        interrupt()
        _say(ONCE)


def _say(line: bytes) -> None:
    """Write without buffers, which the interrupted code may be holding."""
    with suppress(OSError):  # where stderr is closed there is nobody to tell
        os.write(2, line)
