"""Whether every node could fail: a plain packing of what runs there, of its own.

Nothing of the program is used: what is under test does not judge itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.life.world import World

__all__ = ["all_failures_survived", "packs"]

TRIES = 2_000
"""Placements that one search tries after the first; what is open then is no success."""


def all_failures_survived(world: World) -> bool:
    """Whether each node that is online could fail, and all that runs there find memory."""
    online = [name for name in world.names if not world.nodes[name]["offline"]]
    return all(_survived(world, name, online) for name in online)


def _survived(world: World, failing: str, online: Sequence[str]) -> bool:
    here = [world.instances[name] for name in world.on(failing, 0)]
    free = {name: int(world.nodes[name]["free_memory"]) - 1 for name in online if name != failing}
    if world.scenario.template == "drbd":
        for one in here:
            secondary = one["nodes"][1]
            if free.get(secondary, -1) < one["memory"]:
                return False
            free[secondary] -= one["memory"]
        return True
    group = world.nodes[failing]["group"]
    room = [free[name] for name in free if world.nodes[name]["group"] == group]
    return packs([one["memory"] for one in here], room)


def packs(sizes: Sequence[int], room: Sequence[int]) -> bool:
    """Whether all `sizes` find room, each in one place."""
    if sum(sizes) > sum(room):
        return False
    return _Search(sorted(sizes, reverse=True), list(room)).found(0)


class _Search:
    def __init__(self, sizes: Sequence[int], room: list[int]) -> None:
        self._sizes = sizes
        self._room = room
        self._left = TRIES + len(sizes)

    def found(self, k: int) -> bool:
        """Place all from number `k` on, each where least is left beside it first."""
        if k == len(self._sizes):
            return True
        size, room = self._sizes[k], self._room
        for left in sorted({r for r in room if r >= size}):
            self._left -= 1
            if self._left < 0:
                return False
            place = room.index(left)
            room[place] -= size
            if self.found(k + 1):
                return True
            room[place] += size
        return False
