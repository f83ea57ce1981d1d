"""What nodes answered to instances that asked for a place, kept until the nodes change."""

from __future__ import annotations

from iallocator.model.instance import Instance

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iallocator.model.state import State
    from iallocator.scoring.scalar import Failing

    Ask = Callable[[Instance, int, int], Failing | None]
    """(instance, its primary, node) -> the limit that fails there, if one does."""

__all__ = ["NO_PRIMARY", "KnownAnswers"]

NO_PRIMARY = -1
"""The primary of an instance that asks for one."""


class KnownAnswers:
    """What the nodes of `state` say by the same checks, to instances without tags and pools.

    Every limit is the sooner broken the more an instance asks for.  So a node is asked first for
    one that wants as much of everything as any that came so far: if it has room for that,
    it has for each of them.  Otherwise it is asked once for each shape, and, by those that want
    a place for their mirrors, for each amount that it reserves for their primaries already.
    """

    __slots__ = ("_ask", "_known", "_most", "_roomy", "_shapes", "_state")

    def __init__(self, state: State, ask: Ask) -> None:
        self._state = state
        self._ask = ask
        self._most: Instance | None = None
        self._shapes: set[object] = set()
        self._roomy: dict[int, tuple[int, bool]] = {}  # node -> stamp, room for the most
        self._known: dict[tuple[object, int, float], tuple[int, Failing | None]] = {}

    def failing(self, instance: Instance, primary: int, nodes: Sequence[int]) -> dict[int, Failing]:
        """The limit that fails on each of `nodes`, where one does."""
        shape = instance.shape
        if shape not in self._shapes:
            self._shapes.add(shape)
            self._widen(instance)
        stamps, roomy = self._state.stamps, self._roomy
        found = {}
        for index in nodes:
            stamp, room = roomy.get(index, (-1, False))
            if stamp != stamps[index]:
                room = self._has_room(index, primary)
            if not room:
                failing = self._failing(instance, shape, primary, index)
                if failing is not None:
                    found[index] = failing
        return found

    def _widen(self, instance: Instance) -> None:
        """Have the most demanding instance ask for at least what `instance` does."""
        before = self._most
        if before is None:
            before = instance
        most = Instance(
            "", max(before.memory, instance.memory), 0, 0, (), instance.template,
            spindles=_most_spindles(before, instance),
        )  # fmt: skip
        most.as_primary = _most(before.as_primary, instance.as_primary)
        most.as_secondary = _most(before.as_secondary, instance.as_secondary)
        self._most = most
        self._roomy.clear()

    def _has_room(self, index: int, primary: int) -> bool:
        """Whether node `index` could take the most demanding one, whatever its primary is."""
        assert self._most is not None
        peers = self._state.peers[index]
        if primary != NO_PRIMARY and peers:
            primary = max(peers, key=peers.__getitem__)
        room = self._ask(self._most, primary, index) is None
        self._roomy[index] = self._state.stamps[index], room
        return room

    def _failing(
        self, instance: Instance, shape: object, primary: int, index: int
    ) -> Failing | None:
        """What node `index` answers to all of this shape whose primary it reserves as much for."""
        key = shape, index, self._state.peers[index].get(primary, 0)
        stamp = self._state.stamps[index]
        known = self._known.get(key)
        if known is None or known[0] != stamp:
            known = self._known[key] = stamp, self._ask(instance, primary, index)
        return known[1]


def _most(one: Sequence[float], other: Sequence[float]) -> tuple[float, ...]:
    """The larger amount of each column, whatever its sign."""
    return tuple(max(a, b, key=abs) for a, b in zip(one, other))


def _most_spindles(one: Instance, other: Instance) -> int | None:
    """None, which says nothing, is more than any number."""
    if one.spindles is None or other.spindles is None:
        return None
    return max(one.spindles, other.spindles)
