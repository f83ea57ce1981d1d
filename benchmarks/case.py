"""Define a line of the table of results: the measured command or request, and its target."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from iallocator.aliases import Json

__all__ = ["Case"]

FROM_DOCUMENTS = ("make-room", "compress", "redistribute", "balance-groups")
"""Planners that read the whole document."""


class Case(NamedTuple):
    """One line of the table of results.

    Attributes
    ----------
    name:
        The measured work.
    document:
        Function that makes the request.
    target:
        Lowest ratio of the peer's time to ours; 0 if only our own time is limited.
    seconds:
        Our longest time in seconds; 0 if only the ratio is limited.
    nodes, template:
        Position in the plot; 0 and "" for a case that is not in it.
    ours, peer:
        For planners: a command with its options, and the program to compare with. Both read
        the cluster as a text file, or the document, see `from_text`. Both are () for requests,
        which are compared with hail.
    work:
        Panel of the plot; "" for a case that is in none.
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
        """Return whether the cluster is read as a text file, instead of a document.

        The standard size of a text file is 128 MiB of memory. The other cases need what a text file
        lacks: a request, or disks on shared storage, which policies of other groups require.
        """
        return bool(self.ours) and self.ours[0] not in FROM_DOCUMENTS
