"""One handler per request type, and the table of them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from iallocator.placement.context import Context
    from iallocator.reply import Reply

__all__ = ["HANDLERS", "handler_for"]

HANDLERS = {
    "allocate": "allocate",
    "multi-allocate": "multi_allocate",
    "allocate-secondary": "allocate_secondary",
    "relocate": "relocate",
    "node-evacuate": "node_evacuate",
    "change-group": "change_group",
    "multi-evacuate": "multi_evacuate",
}
"""Request type -> the module, and the function in it, that handles it."""


def handler_for(kind: str) -> Callable[[Context, Any], Reply]:
    """The handler of requests of type `kind`; only its own module is loaded."""
    name = HANDLERS[kind]
    module = __import__(f"iallocator.handlers.{name}", fromlist=(name,))  # importlib: 0.4 ms more
    return getattr(module, name)  # type: ignore[no-any-return]
