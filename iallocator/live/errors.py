"""What can go wrong with a running cluster."""

from __future__ import annotations

from iallocator.errors import IallocatorError

__all__ = ["LiveError", "ServerError", "why"]


class LiveError(IallocatorError):
    """A cluster is not reached, or does not answer as it should.

    Parameters
    ----------
    where:
        Socket or address, and what was asked.
    problem:
        What happened.
    """

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.where = where
        self.problem = problem


class ServerError(LiveError):
    """The cluster understood what was asked and refuses it.

    Attributes
    ----------
    kind:
        The class of Ganeti's exception, ``JobLost`` for example; "" if it does not say.
    status:
        RAPI: the HTTP status; LUXI: 0.
    """

    def __init__(self, where: str, problem: str, kind: str = "", status: int = 0) -> None:
        super().__init__(where, problem)
        self.kind = kind
        self.status = status


def why(error: Exception) -> str:
    """Say for people why a server was not reached, or its answer not read."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or "the connection failed"
