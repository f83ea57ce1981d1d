"""What is wanted of a round of reboots."""

from __future__ import annotations

from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["IGNORED", "MOVED", "SKIPPED", "RebootOptions"]

MOVED = "moved"
SKIPPED = "skipped"
IGNORED = "ignored"


@dataclass(frozen=True)
class RebootOptions:
    """What is wanted of a round of reboots.

    Attributes
    ----------
    down:
        Whether all instances are shut down before.
    evacuate:
        Whether secondaries leave the nodes, too.
    single:
        What becomes of instances without a secondary: `MOVED` to other nodes; `SKIPPED`: nodes
        that hold some are not rebooted; `IGNORED`: they go down with their node.
    node_tags:
        Only nodes with one of these; () for all.
    group:
        Name or uuid of the only group to look at; "": every group.
    master:
        Name of the master node, which comes last; "" if it is not known.
    first_only:
        Whether only the first group of nodes is wanted.
    done:
        Names of nodes that have been rebooted already: they are in no group.
    force:
        Whether the master need not be known.
    """

    down: bool = False
    evacuate: bool = False
    single: str = MOVED
    node_tags: Collection[str] = ()
    group: str = ""
    master: str = ""
    first_only: bool = False
    done: Collection[str] = ()
    force: bool = False
