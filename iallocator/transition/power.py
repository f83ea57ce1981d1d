"""Powering nodes down and on as ``gnt-node`` commands, around the moves of a plan.

Down: drained first, so that nothing new comes; then, once they are empty, tagged,
offline and off.  On: powered, online, without the tag that a planner gave them;
then the moves.
"""

from __future__ import annotations

from shlex import quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["Section", "power_down", "power_on"]

Section = tuple[str, list[str]]
"""A title and the commands below it."""


def power_down(
    nodes: Sequence[str], added: Mapping[str, Sequence[str]], moves: Sequence[Section]
) -> Iterator[Section]:
    """What to run, in order, to power `nodes` down; `added`: tags by node."""
    drain = "gnt-node modify --drained=yes --auto-promote"
    yield "Draining Commands", [f"{drain} {quote(node)}" for node in nodes]
    yield from moves
    yield "Tagging Commands", _tagging("add-tags", added)
    yield "Offline Commands", [f"gnt-node modify --offline=yes {quote(n)}" for n in nodes]
    yield "Power Commands", [f"gnt-node power -f off {quote(node)}" for node in nodes]


def power_on(
    nodes: Sequence[str], removed: Mapping[str, Sequence[str]], moves: Sequence[Section]
) -> Iterator[Section]:
    """What to run, in order, to power `nodes` on; `removed`: tags by node."""
    yield "Power Commands", [f"gnt-node power -f on {quote(node)}" for node in nodes]
    yield "Online Commands", [f"gnt-node modify --offline=no {quote(node)}" for node in nodes]
    yield "Tagging Commands", _tagging("remove-tags", removed)
    yield from moves


def _tagging(verb: str, tags: Mapping[str, Sequence[str]]) -> list[str]:
    return [
        f"gnt-node {verb} {quote(node)} {' '.join(map(quote, some))}" for node, some in tags.items()
    ]
