"""Transitions as graphs, in the form that the name of a file asks for."""

from __future__ import annotations

from iallocator.render.transition.dot import dot
from iallocator.render.transition.svg import svg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["graph"]


def graph(transition: dict[str, Any], path: str) -> str:
    """SVG for names that end so, DOT for all others; `transition` is plain data."""
    if path.lower().endswith(".svg"):
        return svg(transition)

    return dot(transition)
