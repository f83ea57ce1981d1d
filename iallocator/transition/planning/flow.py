"""Whether room can be handed on so that every arrival is provided for: a maximum flow."""

from __future__ import annotations

from itertools import pairwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.transition.resources import Amounts, Key
    from iallocator.transition.step import Step

__all__ = ["RoomFlow"]


class RoomFlow:
    """The departures and arrivals of every scarce key.

    `room` is what is free at first; what `payers` give back to make up for too much in
    use is nobody's.
    """

    def __init__(
        self, steps: Sequence[Step], room: Amounts, payers: Mapping[Key, Mapping[int, float]]
    ) -> None:
        self._gives: dict[Key, dict[int, float]] = {}
        self._takes: dict[Key, dict[int, float]] = {}
        self._keys: list[list[Key]] = []
        for key, free in room.items():
            self._gives[key] = {-1: max(free, 0)}
            self._takes[key] = {}
        for k, step in enumerate(steps):
            self._keys.append([key for key in step.takes if key in room])
            for key, less in step.frees.items():
                if key in room:
                    self._gives[key][k] = less - payers.get(key, {}).get(k, 0)
            for key in self._keys[-1]:
                self._takes[key][k] = step.takes[key]

    def possible(self, known: Sequence[int], changed: Sequence[int]) -> bool:
        """Whether all arrivals are provided for; only the steps in `changed` know less than before.

        `known`: per step the bits of what is done before it.
        """
        keys = sorted({key for k in changed for key in self._keys[k]})
        return all(self._provided(key, known) for key in keys)

    def _provided(self, key: Key, known: Sequence[int]) -> bool:
        """Whether the arrivals of one key can share what is free: augmenting paths."""
        left = dict(self._gives[key])
        given: dict[int, dict[int, float]] = {k: {} for k in self._takes[key]}
        for k, amount in sorted(self._takes[key].items()):
            lacking = amount
            while lacking > 0:
                path = _augmenting(k, left, given, known)
                if path is None:
                    return False
                lacking -= _shift(path, lacking, left, given)
        return True


def _usable(k: int, source: int, known: Sequence[int]) -> bool:
    return source < 0 or bool(known[k] >> source & 1)


def _augmenting(
    start: int,
    left: Mapping[int, float],
    given: Mapping[int, Mapping[int, float]],
    known: Sequence[int],
) -> list[tuple[int, int]] | None:
    """A way to more room: (arrival, source) pairs; each next arrival gives up the source before."""
    paths: list[list[tuple[int, int]]] = [[]]
    ends = [start]
    seen: set[int] = set()
    while ends:
        k, path = ends.pop(0), paths.pop(0)
        for source in left:
            if source in seen or not _usable(k, source, known):
                continue
            seen.add(source)
            longer = [*path, (k, source)]
            if left[source] > 0:
                return longer
            for other in given:
                if other != k and given[other].get(source, 0) > 0:
                    ends.append(other)
                    paths.append(longer)
    return None


def _shift(
    path: Sequence[tuple[int, int]],
    lacking: float,
    left: dict[int, float],
    given: dict[int, dict[int, float]],
) -> float:
    """Hand on along the path as much as it bears."""
    amount = min(lacking, left[path[-1][1]])
    for (_, source), (other, _) in pairwise(path):
        amount = min(amount, given[other][source])
    for position, (k, source) in enumerate(path):
        given[k][source] = given[k].get(source, 0) + amount
        if position + 1 < len(path):
            given[path[position + 1][0]][source] -= amount
    left[path[-1][1]] -= amount
    return amount
