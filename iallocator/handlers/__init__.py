"""One handler per request type, and the table of them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from iallocator.context import Context
    from iallocator.reply import Reply
    from iallocator.requests import Request

__all__ = ["handler_for"]


def handler_for(kind: str) -> Callable[[Context, Request], Reply]:
    """The handler of requests of type `kind`; only its own module is loaded."""
    if kind == "allocate":
        from iallocator.handlers.allocate import allocate

        return allocate
    raise AssertionError(f"no handler for {kind}")
