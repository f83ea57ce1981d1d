"""What Ganeti can ask for."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.instance import Instance

__all__ = ["Allocate", "Request"]


class Allocate:
    """Place one new instance.

    ``group_name`` None: any group; ``restrict_to`` None: any node of it.
    """

    __slots__ = ("group_name", "instance", "restrict_to")

    kind = "allocate"

    def __init__(
        self,
        instance: Instance,
        group_name: str | None = None,
        restrict_to: Sequence[str] | None = None,
    ) -> None:
        self.instance = instance
        self.group_name = group_name
        self.restrict_to = restrict_to


Request = Allocate
