"""What an instance's bonds to others say of nodes, with where each bond comes from."""

from __future__ import annotations

from iallocator.explain.facts import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context

__all__ = ["bond_refusals", "wish_notes"]


def bond_refusals(context: Context, instance: Instance, nodes: Iterable[int]) -> dict[int, Refusal]:
    """Those of `nodes` where a must forbids the instance to run, each with what it says."""
    asked = list(nodes)
    reasons = context.bonds.refused(instance, asked)
    texts = context.bonds.told(instance, reasons)
    return {index: Refusal(reason, texts[index]) for index, reason in reasons.items()}


def wish_notes(extra: Mapping[str, Any]) -> list[str]:
    """A note on each wish that the chosen place breaks; `extra` is its entry's."""
    broken: Sequence[str] = extra.get("broken", ())
    return [f"Its place breaks a wish: should be {text}." for text in broken]
