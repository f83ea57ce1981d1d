"""The handlers of requests, one for each type, and the table of them."""

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
    "multi-evacuate": "node_evacuate",
}
"""Request type -> the module with its handler, a function with the name of the type."""


def handler_for(kind: str) -> Callable[[Context, Any], Reply]:
    """Return the handler of requests of type `kind`; only the module of the handler is loaded."""
    name = kind.replace("-", "_")
    # importlib would take 0.4 ms more
    module = __import__(f"iallocator.handlers.{HANDLERS[kind]}", fromlist=(name,))
    return getattr(module, name)  # type: ignore[no-any-return]
