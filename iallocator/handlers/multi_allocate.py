"""``multi-allocate``: several new instances, one after the other."""

from __future__ import annotations

from iallocator.handlers.allocate import policy_warning, wish_for
from iallocator.handlers.groups import collect_offers, ranked_by_losses
from iallocator.reply import Reply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from iallocator.context import Context
    from iallocator.requests import Allocate, MultiAllocate

__all__ = ["multi_allocate"]


def multi_allocate(context: Context, request: MultiAllocate) -> Reply:
    """Place each instance on the state that the former left.

    One that fits nowhere fails alone, by name.  hail fails the whole batch then.
    """
    allocated: list[tuple[str, list[str]]] = []
    warnings: list[str] = []
    failed: list[tuple[str, str]] = []
    solutions: list[dict[str, Any]] = []
    for wanted in request.wanted:
        name = wanted.instance.name
        entry, why, warning = _place(context, wanted, solutions)
        solutions.append(entry)
        if why:
            failed.append((name, why))
            if context.settings.like_hail:
                return Reply(False, why, [], solutions)
        else:
            allocated.append((name, entry["nodes"]))
            warnings.append(warning)
    info = (
        f"{len(failed)} instances failed to allocate and "
        f"{len(allocated)} were allocated successfully"
    )
    info += "".join(f"; {name}: {why}" for name, why in failed) + "".join(dict.fromkeys(warnings))
    success = bool(allocated) or not failed
    result = [[list(pair) for pair in allocated], [name for name, _ in failed]]
    return Reply(success, info, result, solutions)


def _place(
    context: Context, wanted: Allocate, before: Sequence[dict[str, Any]]
) -> tuple[dict[str, Any], str, str]:
    """Place one instance on the state, after those `before`.

    Its entry of ``solutions``, why it failed, and what to warn of.
    """
    entry: dict[str, Any] = {"instance": wanted.instance.name}
    wish = wish_for(context, wanted)
    if wish is None:
        why = f"Group {wanted.group_name} does not exist"
        return entry | {"nodes": [], "reason": why, "groups": []}, why, ""
    if before and context.settings.like_hail and ranked_by_losses(context, wish):
        # where lost allocations decide, hail knows only the first instance's group from then on
        wish.groups = [group for group in wish.groups if group.name == before[0]["group"]]
    offers = collect_offers(context, wish)
    groups = [offer.document(context.settings.top) for offer in offers.ranked]
    best = offers.best
    if best is None:
        why = offers.line or "no group has nodes"
        return entry | {"nodes": [], "reason": why, "groups": groups}, why, ""
    context.state.place(wanted.instance, best.nodes[0])
    return entry | {
        "group": best.group,
        "nodes": best.placements[0][1],
        "score": round(best.placements[0][0], 8),
        "groups": groups,
    }, "", policy_warning(best)
