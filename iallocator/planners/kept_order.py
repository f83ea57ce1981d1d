"""Nodes in an order that is updated as some of them change."""

from __future__ import annotations

from bisect import bisect_left, insort

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["KeptOrder"]


class KeptOrder:
    """Some nodes by increasing `key`; equal nodes in the order given.

    Cost: a key, a search and two shifts of a list for each node that is renewed.
    """

    __slots__ = ("_entries", "_order")

    def __init__(self, nodes: Iterable[int]) -> None:
        self._entries = {index: (self.key(index), k, index) for k, index in enumerate(nodes)}
        self._order = sorted(self._entries.values())

    def key(self, index: int) -> float:
        """Return the value by which a node is sorted, as it is now."""
        raise NotImplementedError

    def renew(self, nodes: Iterable[int]) -> None:
        """Sort those of `nodes` again that are in the order: they have changed."""
        for index in self._entries.keys() & nodes:
            entry = self._entries[index]
            del self._order[bisect_left(self._order, entry)]
            entry = self._entries[index] = (self.key(index), *entry[1:])
            insort(self._order, entry)

    def in_order(self, least: float = float("-inf")) -> Iterator[int]:
        """Return the nodes in order, without those whose key is below `least`."""
        start = bisect_left(self._order, (least,))
        return (index for _, _, index in self._order[start:])
