"""Ask for explanations of requests as data."""

from __future__ import annotations

from iallocator.commands.other_options import Explain as Settings
from iallocator.explain.explain import explain
from iallocator.explain.explanation import Decision, Explanation
from iallocator.options.parser import parse
from iallocator.options.table import COMMON
from tests.builders import Json, as_bytes

__all__ = ["explained", "only_decision"]


def explained(request: Json, *options: str) -> Explanation:
    """Return the explanation of the answer to `request` with `options`."""
    settings = Settings()
    parse(options, settings, COMMON)
    return explain(as_bytes(request), settings)


def only_decision(request: Json, *options: str) -> Decision:
    """Return the only decision in the explanation of `request`."""
    (found,) = explained(request, *options).decisions
    return found
