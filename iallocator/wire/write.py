"""Replies to bytes."""

from __future__ import annotations

from iallocator.wire.c_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.reply import Reply

__all__ = ["encode"]


def encode(reply: Reply) -> bytes:
    """The response document: compact JSON, one line."""
    return dumps(reply.document()).encode("utf-8") + b"\n"
