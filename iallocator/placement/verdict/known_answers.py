"""What nodes answered to instances that asked for a place, kept until the nodes change."""

from __future__ import annotations

from iallocator.model.instance import Backend, Disks, Instance

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iallocator.limits.rejection import Rejection
    from iallocator.model.state import State

    Ask = Callable[[Instance, int, int], Rejection | None]
    """(instance, its primary, node) -> the limit that fails there, if one does."""

__all__ = ["NO_PRIMARY", "KnownAnswers"]

NO_PRIMARY = -1
"""The primary of an instance that asks for one."""

UNKNOWN = -1
"""No stamp of a node."""


class KnownAnswers:
    """What the nodes of `state` say by the same checks, to instances without tags and pools.

    Every limit is the sooner broken the more an instance asks for.  So a node is asked first for
    one that wants as much of everything as any that came so far: if it has room for that,
    it has for each of them.  Otherwise it is asked once for each shape, and, by those that want
    a place for their mirrors, for each amount that it reserves for their primaries already.
    """

    __slots__ = ("_answers", "_ask", "_full", "_most", "_near", "_roomy", "_state")

    def __init__(self, state: State, ask: Ask) -> None:
        self._state = state
        self._ask = ask
        self._most: Instance | None = None
        self._roomy = [UNKNOWN] * len(state.stamps)  # as it was (stamp) with room for the most
        self._full = [UNKNOWN] * len(state.stamps)  # as it was without
        self._answers: dict[object, _Answers] = {}  # shape -> where nothing is reserved for it yet
        self._near: dict[tuple[object, int, float], tuple[int, Rejection | None]] = {}

    def rejections(
        self, instance: Instance, primary: int, nodes: Sequence[int]
    ) -> dict[int, Rejection]:
        """What fails on each of `nodes`, where something does."""
        shape = instance.shape
        if shape not in self._answers:
            self._answers[shape] = _Answers(len(self._state.stamps))
            self._widen(instance)
        answers, stamps, peers = self._answers[shape], self._state.stamps, self._state.peers
        nodes = self._tight(nodes, primary)
        apart = [index for index in nodes if primary in peers[index]]
        if apart:
            nodes = [index for index in nodes if primary not in peers[index]]
        for index in answers.outdated(nodes, stamps):
            answers.note(index, stamps[index], self._ask(instance, primary, index))
        found = answers.rejections(nodes)
        for index in apart:
            rejection = self._beside_peers(instance, shape, primary, index)
            if rejection is not None:
                found[index] = rejection
        return found

    def _widen(self, instance: Instance) -> None:
        """Have the most demanding instance ask for at least what `instance` does."""
        before = self._most
        if before is None:
            before = instance
        most = Instance(
            "",
            Backend(max(before.memory, instance.memory), vcpus=0),
            Disks(instance.template, spindles=_most_spindles(before, instance)),
        )
        most.as_primary = _most(before.as_primary, instance.as_primary)
        most.as_secondary = _most(before.as_secondary, instance.as_secondary)
        self._most = most
        self._roomy = [UNKNOWN] * len(self._roomy)
        self._full = [UNKNOWN] * len(self._full)

    def _tight(self, nodes: Sequence[int], primary: int) -> list[int]:
        """Those of `nodes` that have no room for the most demanding one."""
        stamps, roomy, full = self._state.stamps, self._roomy, self._full
        left = [index for index in nodes if roomy[index] != stamps[index]]
        unknown = [index for index in left if full[index] != stamps[index]]
        for index in unknown:
            known = roomy if self._has_room(index, primary) else full
            known[index] = stamps[index]
        return [index for index in left if full[index] == stamps[index]] if unknown else left

    def _has_room(self, index: int, primary: int) -> bool:
        """Whether node `index` could take the most demanding one, whatever its primary is."""
        assert self._most is not None
        peers = self._state.peers[index]
        if primary != NO_PRIMARY and peers:
            primary = max(peers, key=peers.__getitem__)
        return self._ask(self._most, primary, index) is None

    def _beside_peers(
        self, instance: Instance, shape: object, primary: int, index: int
    ) -> Rejection | None:
        """What node `index`, which has mirrors of `primary`, answers to all of this shape."""
        key = shape, index, self._state.peers[index][primary]
        stamp = self._state.stamps[index]
        known = self._near.get(key)
        if known is None or known[0] != stamp:
            known = self._near[key] = stamp, self._ask(instance, primary, index)
        return known[1]


class _Answers:
    """What the nodes answered to instances of one shape, and how they were then (stamps)."""

    __slots__ = ("_found", "_stamps")

    def __init__(self, count: int) -> None:
        self._stamps = [UNKNOWN] * count
        self._found: dict[int, Rejection] = {}

    def outdated(self, nodes: Sequence[int], stamps: Sequence[int]) -> list[int]:
        """Those of `nodes` that have changed since they were asked."""
        known = self._stamps
        return [index for index in nodes if known[index] != stamps[index]]

    def note(self, index: int, stamp: int, rejection: Rejection | None) -> None:
        """Node `index`, as it is by `stamp`, has answered."""
        if rejection is None:
            self._found.pop(index, None)
        else:
            self._found[index] = rejection
        self._stamps[index] = stamp

    def rejections(self, nodes: Sequence[int]) -> dict[int, Rejection]:
        """What those of `nodes` said that reject."""
        found = self._found
        return {index: found[index] for index in nodes if index in found}


def _most(one: Sequence[float], other: Sequence[float]) -> tuple[float, ...]:
    """The larger amount of each column, whatever its sign."""
    return tuple(max(a, b, key=abs) for a, b in zip(one, other))


def _most_spindles(one: Instance, other: Instance) -> int | None:
    """None, which says nothing, is more than any number."""
    if one.spindles is None or other.spindles is None:
        return None
    return max(one.spindles, other.spindles)
