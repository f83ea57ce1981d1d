"""Orders between instances as a directed graph: cycles, and the instances that come later."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Order = tuple[str, str, str]

__all__ = ["circular", "dependents", "without_cycles"]


def dependents(orders: Iterable[Order], name: str) -> list[str]:
    """Return the instances that come after `name`, directly or not, sorted by name."""
    following = _following(orders)
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        new = [other for other in following.get(waiting.pop(), ()) if other not in seen]
        seen.update(new)
        waiting += new
    return sorted(seen)


def _following(orders: Iterable[Order]) -> dict[str, list[str]]:
    """Return instance -> the instances that come directly after it."""
    followers: dict[str, list[str]] = {}
    for one, other, _ in orders:
        followers.setdefault(one, []).append(other)
    return followers


def circular(orders: Sequence[Order]) -> list[list[str]]:
    """Return the sets of instances that come after themselves, each sorted by name.

    They are the strongly connected components (Tarjan) of more than one instance, and the instances
    with an order before themselves. Cost: linear in the number of orders.
    """
    following = _following(orders)
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_ends: dict[str, None] = {}
    cycles: list[list[str]] = []
    for start in sorted(following):
        path = [] if start in number else [(start, iter([start]))]
        while path:  # a chain may be as long as the list: no recursion
            name, others = path[-1]
            other = next(others, None)
            if other is None:
                path.pop()
                if path:
                    before = path[-1][0]
                    lowest[before] = min(lowest[before], lowest[name])
                if lowest[name] == number[name]:
                    taken = []
                    while name in open_ends:
                        taken.append(open_ends.popitem()[0])
                    cycles.append(sorted(taken))
            elif other not in number:
                number[other] = lowest[other] = len(number)
                open_ends[other] = None
                if other != name:
                    path.append((other, iter(following.get(other, ()))))
                else:
                    path[-1] = (name, iter(following.get(name, ())))
            elif other in open_ends:
                lowest[name] = min(lowest[name], number[other])
    own = {one for one, other, _ in orders if one == other}
    return sorted(cycle for cycle in cycles if len(cycle) > 1 or cycle[0] in own)


def without_cycles(hard: Sequence[Order], soft: Sequence[Order]) -> tuple[list[Order], list[Order]]:
    """Return the hard orders and the soft orders that close no cycle; and the other soft orders."""
    kept, dropped = list(hard), []
    for order in soft:
        first, second, _ = order
        if first == second or first in dependents(kept, second):
            dropped.append(order)
        else:
            kept.append(order)
    return kept, dropped
