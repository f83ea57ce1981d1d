"""A line of the table: what is measured, and what is wanted of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from iallocator.aliases import Json

__all__ = ["Case"]

FROM_DOCUMENTS = ("make-room", "compress", "redistribute", "balance-groups")
"""Planners that read the whole document."""


class Case(NamedTuple):
    """One line of the table.

    Attributes
    ----------
    name:
        What is done.
    document:
        Makes the request.
    target:
        The peer's time divided by ours, at least; 0: only our own time counts.
    seconds:
        Our time at most; 0: only the ratio counts.
    nodes, template:
        For the picture; 0 and "" for what is not in it.
    ours, peer:
        Planners: a command with its options, and the program that is asked beside it, both on
        the cluster as a text file, or on the document, see `from_text`.  Both () for requests,
        which are asked of hail.
    work:
        The panel of the picture; "" for what is in none.
    """

    name: str
    document: Callable[[], Json]
    target: float = 0
    seconds: float = 0
    nodes: int = 0
    template: str = ""
    ours: tuple[str, ...] = ()
    peer: tuple[str, ...] = ()
    work: str = ""

    @property
    def from_text(self) -> bool:
        """Whether the cluster is read as a text file, whose standard size is 128 MiB of memory.

        The others read the document: a request, or disks on shared storage, which policies of
        other groups ask for and a text file tells nothing of.
        """
        return bool(self.ours) and self.ours[0] not in FROM_DOCUMENTS
