"""Nodes in an order that is kept while some of them change."""

from __future__ import annotations

from bisect import bisect_left, insort

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["KeptOrder"]


class KeptOrder:
    """Some nodes, the least by `key` first, of equals as they were named; `renew` says who changed.

    Cost: a key, a search and two shifts of a list for each node that is renewed.
    """

    __slots__ = ("_entries", "_order")

    def __init__(self, nodes: Iterable[int]) -> None:
        self._entries = {index: (self.key(index), k, index) for k, index in enumerate(nodes)}
        self._order = sorted(self._entries.values())

    def key(self, index: int) -> float:
        """What a node is put in order by, as it is now."""
        raise NotImplementedError

    def renew(self, nodes: Iterable[int]) -> None:
        """Look at those of `nodes` again that are in the order: they have changed."""
        for index in self._entries.keys() & nodes:
            entry = self._entries[index]
            del self._order[bisect_left(self._order, entry)]
            entry = self._entries[index] = (self.key(index), *entry[1:])
            insort(self._order, entry)

    def in_order(self, least: float = float("-inf")) -> Iterator[int]:
        """The nodes, without those whose key is below `least`."""
        start = bisect_left(self._order, (least,))
        return (index for _, _, index in self._order[start:])
