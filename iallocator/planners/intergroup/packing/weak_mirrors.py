"""Mirrors that could not take over if a node failed: what failures lose where only drbd moves.

What fails over to one node asks nothing of the others.  So a failure loses no more than before
if each mirror that cannot take all it is asked to was asked by the same instances before, and
had no more room: everybody else is taken over.
"""

from __future__ import annotations

from iallocator.limits.migration import may_not_receive
from iallocator.limits.node import FREE_MEMORY, POOL_SPACE, other_limits
from iallocator.model.columns import MEMORY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from iallocator.model.instance import Instance
    from iallocator.model.state import State

    Weak = dict[tuple[int, int], tuple[frozenset[str], float]]
    """(node that fails, mirror) -> who fails over there, and the MiB that are free."""

__all__ = ["no_weaker", "weak_mirrors"]


def weak_mirrors(state: State, nodes: Iterable[int]) -> Weak | None:
    """The mirrors that could not take over from `nodes`; None if these hold other than drbd.

    Whoever fails over needs the memory, and a node that is online and that migration tags let it
    come to.  Cost: the primaries of `nodes`.
    """
    found: Weak = {}
    for node in nodes:
        group = state.cluster.nodes[node].group
        if any(not limit.local for limit in other_limits(group, FREE_MEMORY, POOL_SPACE)):
            return None
        asked: dict[int, list[Instance]] = {}
        for instance in state.primaries[node].values():
            places = state.where[instance.name]
            if len(places) < 2 or places[0] != node or instance.forthcoming:
                return None
            asked.setdefault(places[1], []).append(instance)
        refused = may_not_receive(state.cluster, node, list(asked))
        for mirror, instances in asked.items():
            free = state.columns[MEMORY][mirror]
            need = sum(one.memory for one in instances if one.uses_memory)
            online = state.cluster.nodes[mirror].online
            if mirror in refused or not online or free <= need:
                found[node, mirror] = frozenset(one.name for one in instances), free
    return found


def no_weaker(before: Weak, after: Weak) -> bool:
    """Whether no failure loses more `after` than `before`, as both tell of the same nodes."""
    return all(
        key in before and before[key][0] == names and before[key][1] <= free
        for key, (names, free) in after.items()
    )
