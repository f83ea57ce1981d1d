"""What goes wrong while a plan is carried out."""

from __future__ import annotations

from iallocator.errors import IallocatorError

__all__ = ["ExecutionError"]


class ExecutionError(IallocatorError):
    """The execution cannot begin, or cannot go on; the journal tells how far it came."""

    exit_status = 1
