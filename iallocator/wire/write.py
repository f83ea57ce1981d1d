"""Replies to bytes."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.reply import Reply

__all__ = ["encode"]


def encode(reply: Reply) -> bytes:
    """The response document: compact JSON, one line."""
    import json

    text = json.dumps(reply.document(), separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8") + b"\n"
