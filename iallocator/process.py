"""The program as a process of its own: signals from its first moment on, and how it ends.

Exit status 130 after SIGINT (Ctrl-C), 143 after SIGTERM; a planner prints what it has
found until then.  The second signal ends the process at once.  This module loads nothing, so
that a signal finds it ready.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the half of `signal` that loads no enum
import gc
import posix  # `os` loads more: see `iallocator.light`
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

__all__ = ["STOP_SIGNALS", "run"]

STOP_SIGNALS = (_signal.SIGINT, _signal.SIGTERM)
"""The signals after which the program stops its work and prints what it has found."""

_seen: list[int] = []
"""The number of the signal that has come; empty if none has."""

THREADS = b"OPENBLAS_NUM_THREADS"
"""The environment variable with the number of threads of the array library."""

UNENCODABLE = "backslashreplace"
"""How standard output encodes letters of names that the terminal cannot show: as codes."""


def run() -> NoReturn:
    """Run the program and end the process without giving its memory back piece by piece.

    For a large cluster, freeing the memory would take longer than the answer. The array library
    starts no threads, because starting them takes longer than their work.
    """
    gc.disable()  # the process ends before there is garbage worth collecting
    _on_signal(_leave)
    if THREADS not in posix.environ:  # `os.environ` takes it from there
        posix.environ[THREADS] = b"1"
        posix.putenv(THREADS, b"1")
    _reserve_stdout()
    if sys.stderr is not None:
        sys.stderr.reconfigure(errors=UNENCODABLE)  # type: ignore[union-attr]
    from iallocator.cli import main
    from iallocator.errors import STATUS_INTERRUPTED, STATUS_SIGNALLED

    _on_signal(_interrupt)
    program: str | None = None  # the one of htools that the name of the executable stands for
    name = sys.argv[0].rpartition("/")[2]
    if name != "iallocator" and name.startswith("h"):
        from iallocator.compat.htools import program_of

        program = program_of(name)
    status = main() if program is None else main(program=program)
    _on_signal(_leave)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            try:
                stream.flush()
            except (OSError, ValueError):
                if stream is sys.stdout:  # what is on stderr is worth less than the answer
                    status = status or 1
    if _seen and status in (0, STATUS_INTERRUPTED):
        status = STATUS_SIGNALLED + _seen[0]
    posix._exit(status)


def _reserve_stdout() -> None:
    """Let nothing but `sys.stdout` write to standard output, where the answer goes.

    Libraries written in C print to descriptor 1. From here on, `sys.stdout` writes to a
    duplicate that child processes do not inherit, and descriptor 1 leads to stderr.
    Standard descriptors that are closed lead to /dev/null: otherwise the next file that is
    opened would take the number, and receive what libraries print.
    """
    try:
        while (spare := posix.open("/dev/null", posix.O_RDWR)) <= 2:
            posix.set_inheritable(spare, True)
        posix.close(spare)
    except OSError:  # no /dev/null in this root directory
        pass
    if sys.stdout is None:
        return
    encoding = sys.stdout.encoding
    answer = posix.dup(1)
    try:
        posix.dup2(2, 1)
    except OSError:  # neither stderr nor /dev/null
        posix.close(1)
    # A buffer even with PYTHONUNBUFFERED: without it, a signal cuts off part of a write.
    sys.stdout = open(answer, "w", encoding=encoding, errors=UNENCODABLE)  # noqa: SIM115
    sys.__stdout__ = sys.stdout  # type: ignore[misc]  # libraries ask it for the terminal's width


def _on_signal(handler: object) -> None:
    for number in STOP_SIGNALS:
        _signal.signal(number, handler)


def _leave(number: int, frame: object) -> NoReturn:
    posix._exit(128 + number)  # `errors.STATUS_SIGNALLED`, which may not be loaded yet


def _interrupt(number: int, frame: object) -> None:
    """Ask the run to end; the next signal ends the process."""
    from iallocator.deadline import interrupt

    _seen.append(number)
    _on_signal(_leave)
    interrupt()
