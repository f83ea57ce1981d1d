"""Whether a goal could be reached as far as sums tell, so that most moves need not be tried."""

from __future__ import annotations

from heapq import nlargest

from iallocator.model.columns import DISK, MEMORY
from iallocator.planners.make_room.needs import needs_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context
    from iallocator.planners.make_room.goal import Goal
    from iallocator.planners.make_room.needs import Need

    Seeking = tuple[float, Collection[int]]
    """MiB, and on which nodes they may be."""

__all__ = ["Room"]

PACKED = 500
"""After how many places tried out several needs are believed to have room beside each other."""


DETAILED = 32
"""On more nodes it is dearer to ask whether one that leaves helps than to try the move."""


class Room:
    """What `goal` needs at least of the nodes of `context`: of each need alone, of all by memory.

    Nothing that it refuses is possible; what it lets pass has to be asked.  Free memory of
    primaries, free disk, memory kept for failovers; where nothing is known of the needs, all
    passes.

    Attributes
    ----------
    there_now:
        Whether the nodes had the room when `look` was called.
    """

    def __init__(self, context: Context, goal: Goal) -> None:
        self._state = context.state
        self._nodes = context.cluster.nodes
        self._left = goal.left
        self._needs = needs_of(context, goal.request)
        self._given_back = _given_back(goal)
        self._given_up = _given_up(goal)
        self.there_now = False

    def too_small(self) -> bool:
        """Whether all nodes together lack the memory: moves within their groups free none of it."""
        seeking = [need for need in self._needs if need.primaries]
        groups = {id(self._nodes[i].group) for need in seeking for i in need.primaries or ()}
        nodes = {i for need in seeking for i in need.primaries or ()}
        nodes.update(
            i
            for i, node in enumerate(self._nodes)
            if id(node.group) in groups and node.online and i not in self._left
        )
        return bool(seeking) and sum(map(self._free, nodes)) <= sum(n.memory for n in seeking)

    def possible(self, movers: Sequence[Instance], count: int) -> bool:
        """Whether every need could have a primary after `count` of `movers` have left it."""
        if not self._needs:
            return True
        memory, disk = self._most(movers, count)
        return all(
            _any_pair(
                need,
                [
                    i
                    for i in need.primaries or ()
                    if self._memory(need, i, memory[i]) and self._disk(need, i, disk[i])
                ],
                {i for i in need.mirrors or () if self._disk(need, i, disk[i])},
            )
            for need in self._needs
        )

    def _most(self, movers: Sequence[Instance], count: int) -> tuple[list[float], list[float]]:
        """MiB of memory and of disk that `count` of `movers` give back at most, by node."""
        here: list[list[Instance]] = [[] for _ in self._nodes]
        for one in movers:
            for index in self._state.where[one.name]:
                here[index].append(one)
        return (
            [sum(nlargest(count, (one.memory for one in some))) for some in here],
            [sum(nlargest(count, (one.own_disk for one in some))) for some in here],
        )

    def look(self) -> None:
        """Note whether the room is there as things are: ask before `helped`."""
        self.there_now = self.fits()

    def helped(self, leaving: Sequence[Instance]) -> bool:
        """Whether the goal could be reached by moving `leaving`, and nobody else."""
        if self.there_now:
            return True
        state, every = self._state, range(len(self._nodes))
        nodes = {index for one in leaving for index in state.where[one.name]}
        if not any(self._gains(need, leaving, nodes) for need in self._needs):
            return False
        if len(self._nodes) > DETAILED:
            return True
        if len(leaving) > 1 or not all(self._nodes[index].online for index in nodes):
            nodes.update(every)  # who flees, or moves at once, may leave less for failovers
        lacking = nodes.union(filter(self._fails_n1, every))
        with state.trial():
            for one in leaving:
                state.remove(one, state.where[one.name])
            return self.fits(lacking)

    def _gains(self, need: Need, leaving: Sequence[Instance], nodes: Collection[int]) -> bool:
        """Whether some of `nodes`, which `leaving` leave, could be for `need` then."""
        memory = sum(one.memory for one in leaving)
        disk = sum(one.own_disk for one in leaving)
        return any(
            self._disk(need, i, disk)
            and (
                (i in (need.mirrors or ()))
                or (i in (need.primaries or ()) and self._memory(need, i, memory))
            )
            for i in nodes
        )

    def fits(self, lacking: Collection[int] = ()) -> bool:
        """Whether the nodes have the room as things are.

        Nodes `lacking` memory for failovers may lack more.
        """
        return all(self._alone(need, lacking) for need in self._needs) and self._together()

    def _alone(self, need: Need, lacking: Collection[int]) -> bool:
        """Whether one need has room, if there are no others."""
        primaries = [i for i in need.primaries or () if self._is_primary(need, i, lacking)]
        if need.primaries is not None and not primaries:
            return False
        if need.mirrors is None:
            return True
        mirrors = [i for i in need.mirrors if self._is_mirror(need, i, lacking)]
        if need.primaries is None:
            return bool(mirrors)
        return any(
            primary != mirror and self._keeps_for(need, primary, mirror, lacking)
            for primary in primaries
            for mirror in mirrors
        )

    def _is_primary(self, need: Need, index: int, lacking: Collection[int]) -> bool:
        if not (self._memory(need, index, 0) and self._disk(need, index, 0)):
            return False
        left = self._free(index) - need.memory
        return not need.heeds or left > self._kept(index) or self._lacks(index, lacking)

    def _is_mirror(self, need: Need, index: int, lacking: Collection[int]) -> bool:
        if not self._disk(need, index, 0):
            return False
        return not need.heeds or (
            self._state.columns[MEMORY][index] > need.takeover
            and self._keeps_for(need, -1, index, lacking)
        )

    def _keeps_for(self, need: Need, primary: int, mirror: int, lacking: Collection[int]) -> bool:
        """Whether `mirror` would keep the memory for every failover to it."""
        if not need.heeds:
            return True
        given_up = self._given_up.get(mirror, {}).get(primary, 0)
        kept = self._state.peers[mirror].get(primary, 0) - given_up + need.reserved
        free = self._state.columns[MEMORY][mirror]
        return free > max(self._kept(mirror), kept) or self._lacks(mirror, lacking)

    def _kept(self, index: int) -> float:
        """MiB that a node keeps for failovers at least, once those have moved who shall."""
        given_up = self._given_up.get(index)
        if given_up is None:
            return self._state.reserved[index]
        peers = self._state.peers[index].items()
        return max((kept - given_up.get(peer, 0) for peer, kept in peers), default=0)

    def _lacks(self, index: int, lacking: Collection[int]) -> bool:
        return index in lacking or self._fails_n1(index)

    def _fails_n1(self, index: int) -> bool:
        return self._state.columns[MEMORY][index] <= self._state.reserved[index]

    def _together(self) -> bool:
        """Whether all needs have primaries beside each other, by memory."""
        seeking = [(need.memory, need.primaries) for need in self._needs if need.primaries]
        if len(seeking) < 2:
            return True
        free = {index: self._free(index) for _, nodes in seeking for index in nodes}
        return _packed(sorted(seeking, key=_memory, reverse=True), free)

    def _free(self, index: int) -> float:
        return self._state.columns[MEMORY][index] + self._given_back.get(index, 0)

    def _memory(self, need: Need, index: int, more: float) -> bool:
        return self._free(index) + more > need.memory

    def _disk(self, need: Need, index: int, more: float) -> bool:
        return need.disk is None or self._state.columns[DISK][index] + more > need.disk


def _any_pair(need: Need, primaries: Sequence[int], mirrors: set[int]) -> bool:
    """Whether there are a primary and a mirror for `need`, as far as it seeks them."""
    if need.primaries is None or need.mirrors is None:
        return bool(mirrors if need.primaries is None else primaries)
    return any(len(mirrors) > (index in mirrors) for index in primaries)


def _memory(one: Seeking) -> float:
    return one[0]


def _packed(seeking: Sequence[Seeking], free: dict[int, float]) -> bool:
    """Whether `seeking`, the largest first, fit into `free` memory, as far as few trials tell."""
    trials = PACKED

    def fit(position: int) -> bool:
        nonlocal trials
        if position == len(seeking):
            return True
        need, nodes = seeking[position]
        for index in nodes:
            trials -= 1
            if trials < 0:
                return True
            if free[index] > need:
                free[index] -= need
                fits = fit(position + 1)
                free[index] += need
                if fits:
                    return True
        return False

    return fit(0)


def _given_back(goal: Goal) -> dict[int, float]:
    """MiB that those whom the request moves leave free behind them, by their primary."""
    freed: dict[int, float] = {}
    for one in goal.asked if goal.request.leaves_primaries else ():
        if one.uses_memory:
            freed[one.nodes[0]] = freed.get(one.nodes[0], 0) + one.memory
    return freed


def _given_up(goal: Goal) -> dict[int, dict[int, float]]:
    """MiB that secondaries, by their index, need no more keep for whom, by that of its primary."""
    freed: dict[int, dict[int, float]] = {}
    for one in goal.asked:
        for mirror in one.nodes[1:] if one.reserves else ():
            kept = freed.setdefault(mirror, {})
            kept[one.nodes[0]] = kept.get(one.nodes[0], 0) + one.memory
    return freed
