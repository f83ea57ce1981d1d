"""One line per call, in a file or in the system's log."""

from __future__ import annotations

import os
from time import localtime, strftime

__all__ = ["SYSLOG", "write_line"]

SYSLOG = "syslog"
"""Instead of the name of a file."""

SOCKET = "/dev/log"


def write_line(target: str, line: str, status: int) -> None:
    """Append `line` to the file `target`, or tell it the system's log.

    `status` is the exit status: other ones than 0 are errors there.  Lines of processes that
    write at the same time do not mix; nobody waits for who reads a pipe.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    if target == SYSLOG:
        _to_syslog(line, status)
        return
    stamp = strftime("%Y-%m-%dT%H:%M:%S%z", localtime())
    raw = f"{stamp} iallocator[{os.getpid()}] {line}\n".encode("utf-8", "backslashreplace")
    how = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY
    handle = os.open(target, how, 0o600)
    try:
        if os.write(handle, raw) < len(raw):
            raise OSError(0, "only part of the line could be written", target)
    finally:
        os.close(handle)


def _to_syslog(line: str, status: int) -> None:
    os.stat(SOCKET)  # the library says nothing where nobody listens
    import syslog

    syslog.openlog("iallocator", syslog.LOG_PID, syslog.LOG_DAEMON)
    syslog.syslog(syslog.LOG_ERR if status else syslog.LOG_INFO, line)
