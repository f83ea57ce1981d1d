"""The working set of a planner that moves instances between groups."""

from __future__ import annotations

from iallocator.placement.context import Context
from iallocator.placement.motions import Motions, motions_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.options import Settings

__all__ = ["SEARCHING", "OutOfTimeError", "Working", "forbidden"]

SEARCHING = 5.0
"""Seconds that all exact searches of one plan may take together, if no other limit is set."""

MOVES = 20
"""How many instances the choice between the two forms of the kernel counts with."""


class OutOfTimeError(Exception):
    """Time is up."""


class Working(Context):
    """A context in which existing instances find places in other groups.

    An instance is held to the limits of a new one where it comes to, even if it comes from
    a node that is offline.  ``remaining`` says how many seconds there are, None for no end
    of them; ``tell`` shows a line of progress.
    """

    __slots__ = ("_searching", "remaining", "tell")

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        remaining: Callable[[], float | None] = lambda: None,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        super().__init__(cluster, settings, [(len(cluster.nodes), 0)] * MOVES)
        self.remaining = remaining
        self.tell = tell
        self._searching = SEARCHING

    def motions(self, settings: Settings) -> Motions:
        """Wherever an instance comes from, it is held to the limits of a new one."""
        new = motions_for(settings).new
        return Motions(new, new, new)

    def keep_going(self) -> None:
        """Go on if there is time.

        Raises
        ------
        OutOfTimeError
            Else.
        """
        left = self.remaining()
        if left is not None and left <= 0:
            raise OutOfTimeError

    def search_time(self) -> float:
        """Seconds that the next exact search may take."""
        left = self.remaining()
        return self._searching if left is None else max(left, 0.0)

    def searched(self, seconds: float) -> None:
        """Count the time that an exact search took."""
        self._searching = max(0.0, self._searching - seconds)

    @property
    def units(self) -> Mapping[str, Sequence[str]]:
        """Instance -> all that must be on its node, itself among them; others are not in it."""
        relations = self.bonds.relations
        return {} if relations is None else relations.units()


def forbidden(settings: Settings) -> str:
    """Why no instance may change its group, if someone says so; or "".

    The setting `inter-group` is "no" by default; only where a tag or the command line says
    it, it means this.
    """
    if settings.inter_group != "no":
        return ""
    if "inter_group" in settings.chosen:
        return "moves between groups are not allowed: --inter-group=no"
    origin = settings.origins.get("inter_group")
    return f"moves between groups are not allowed: {origin}" if origin else ""
