"""Check whether every node may fail, by a separate and simple packing.

The module uses no code of the program under test, so that it does not repeat its errors.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.life.simulated_cluster import SimulatedCluster

__all__ = ["all_failures_tolerable", "all_failures_tolerated", "packs"]

TRIES = 20_000
"""Number of placements that one search tries after the first one."""


def all_failures_tolerated(simulated: SimulatedCluster) -> bool:
    """Return whether, for each online node, its instances fit on the others if the node fails."""
    online = [name for name in simulated.names if not simulated.nodes[name]["offline"]]
    return all(_survived(simulated, name, online) for name in online)


def _survived(simulated: SimulatedCluster, failing: str, online: Sequence[str]) -> bool:
    here = [simulated.instances[name] for name in simulated.on(failing, 0)]
    free = {
        name: int(simulated.nodes[name]["free_memory"]) - 1 for name in online if name != failing
    }
    if simulated.scenario.template == "drbd":
        for one in here:
            secondary = one["nodes"][1]
            if free.get(secondary, -1) < one["memory"]:
                return False
            free[secondary] -= one["memory"]
        return True
    group = simulated.nodes[failing]["group"]
    room = [free[name] for name in free if simulated.nodes[name]["group"] == group]
    return packs([one["memory"] for one in here], room)


def all_failures_tolerable(simulated: SimulatedCluster) -> bool:
    """Return whether some other placement in each group would tolerate every failure.

    This is true if the instances of the group fit on all nodes but the largest, which then takes
    over from any other node. If they do not fit, the failure of the largest is not tolerated. An
    instance with a secondary may have it on any node, so the rule applies to it, too. If the search
    ends without a result, the placement counts as possible.
    """
    room: dict[str, list[int]] = {}
    sizes: dict[str, list[int]] = {}
    for name, node in simulated.nodes.items():
        if not node["offline"]:
            used = sum(simulated.instances[one]["memory"] for one in simulated.on(name, 0))
            room.setdefault(node["group"], []).append(node["free_memory"] + used - 1)
    for one in simulated.instances.values():
        group = simulated.nodes[one["nodes"][0]]["group"]
        sizes.setdefault(group, []).append(one["memory"])
    return all(
        _Search(here, sorted(room.get(group, []))[:-1]).packs() is not False
        for group, here in sizes.items()
    )


def packs(sizes: Sequence[int], room: Sequence[int]) -> bool:
    """Return whether all `sizes` fit into the bins `room`; true if it is unknown."""
    return _Search(sizes, room).packs() is True


class _Search:
    """Search for a packing: the largest items first, each in the fullest possible bin first."""

    def __init__(self, sizes: Sequence[int], room: Sequence[int]) -> None:
        self._sizes = sorted(sizes, reverse=True)
        self._room = list(room)
        self._left = TRIES + len(sizes)
        self._failed: set[tuple[int, ...]] = set()

    def packs(self) -> bool | None:
        """Return whether all items fit; None if the search exceeds its number of placements."""
        if sum(self._sizes) > sum(self._room):
            return False
        found = self._found(0)
        return None if not found and self._left < 0 else found

    def _found(self, k: int) -> bool:
        """Place the items from number `k` on; return whether all fit."""
        if k == len(self._sizes):
            return True
        size, room = self._sizes[k], self._room
        now = k, *sorted(room)
        if now in self._failed:
            return False
        for left in sorted({r for r in room if r >= size}):
            self._left -= 1
            if self._left < 0:
                return False
            place = room.index(left)
            room[place] -= size
            if self._found(k + 1):
                return True
            room[place] += size
        self._failed.add(now)
        return False
