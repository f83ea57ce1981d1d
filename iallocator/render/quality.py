"""State how far a plan is from the best possible one, from the plain data of its document."""

from __future__ import annotations

from iallocator.errors import many

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from iallocator.aliases import Json

__all__ = ["quality_words"]

WIDE_GAP = 1.0
"""The gap, as a share of the bound, above which it is shown as an amount."""

SMALLEST_SHOWN_GAP = 0.0001
"""The gap, as a share of the bound, below which 0.01 % is shown."""

LIMITED = "without -l and --cost"
"""The words for the options of ``balance`` that the bound ignores."""


COUNTED = {
    "freed nodes": ("{} freed", "node", "more", "most"),
    "groups of nodes": ("{}", "group of nodes|groups of nodes", "fewer", "fewest"),
    "unhealthy groups": ("{} left", "unhealthy group", "fewer", "fewest"),
    "left out": ("{} left out", "instance", "fewer", "fewest"),
    "instances": ("{}", "more instance", "more", "most"),
}
"""Measure that is a count -> the sentence, the noun, and the words for better and best."""


def quality_words(plan: Json, score: Callable[[float], str]) -> str:
    """Return the line about the bound of a plan; "" if the plan has none.

    `score` converts a score to text. Examples: ``8 moves to 1.6875; at most 2.1 % above the best
    possible without -l and --cost``, or ``2 nodes freed; at most 1 more is possible``.
    """
    if "bound" not in plan:
        return ""
    measure = plan["measure"]
    if measure != "score":
        if measure in COUNTED:
            return _counted(plan)
        reached = f"a free share of {plan['reached']:.2f}"
        if plan["bound"] is None:
            return f"{reached}; the largest possible is unknown: {plan['bound_reason']}"
        if plan["proved"]:
            return f"{reached}; proved to be the largest possible"
        return f"{reached}; at most {plan['gap']['absolute']:.2f} more is possible"
    reached = f"{many(len(plan['moves']), 'move')} to {score(plan['scores']['after'])}"
    if plan["bound"] is None:
        return f"{reached}; the best possible is unknown: {plan['bound_reason']}"
    if plan["proved"]:
        return f"{reached}; proved to be the best possible {LIMITED}"
    absolute, relative = plan["gap"]["absolute"], plan["gap"]["relative"]
    if relative is None or relative > WIDE_GAP:
        distance = score(absolute)
    elif relative < SMALLEST_SHOWN_GAP:
        distance = "0.01 %"
    else:
        distance = f"{100 * relative:.2g} %"
    return f"{reached}; at most {distance} above the best possible {LIMITED}"


def _counted(plan: Json) -> str:
    """Return the line about a counted result, such as freed nodes, and its bound."""
    words, noun, better, best = COUNTED[plan["measure"]]
    reached = words.format(many(round(plan["reached"]), *noun.split("|")))
    if plan["bound"] is None:
        return f"{reached}; the {best} possible are unknown: {plan['bound_reason']}"
    if plan["proved"]:
        if plan["measure"] == "groups of nodes" and plan["kept"] and not plan["reached"]:
            return f"{reached}; it is proved that no node can be rebooted"
        return f"{reached}; proved to be the {best} possible"
    number = round(plan["gap"]["absolute"])
    return f"{reached}; at most {number} {better} {'is' if number == 1 else 'are'} possible"
