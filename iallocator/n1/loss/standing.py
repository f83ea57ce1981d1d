"""What of a failure can be saved before a new instance comes, and what it may take of that.

It is found once for all candidates, in parts that share no node: what one of them loses
already it loses with any candidate there, and what has memory to spare can miss some.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.model.instance import Instance
    from iallocator.n1.loss.evacuation import Evacuation
    from iallocator.n1.loss.part import Part

__all__ = ["Standing"]


class Standing:
    """The failure of `node` as things are; `memory`: MiB that each node has free.

    Attributes
    ----------
    hopeless:
        Names of those whom nothing can save; they are in no part.
    """

    __slots__ = (
        "_by_target",
        "_limited_otherwise",
        "_memory",
        "_node",
        "_open",
        "_parts",
        "hopeless",
    )

    def __init__(self, evacuation: Evacuation, node: int, memory: list[float]) -> None:
        self._node = node
        self._memory = memory
        self._open = evacuation.open
        self._limited_otherwise = evacuation.limited_otherwise
        self.hopeless = evacuation.hopeless()
        self._parts = [_Known(part) for part in evacuation.parts(self.hopeless)]
        self._by_target = {t: one for one in self._parts for t in one.part.targets}

    def is_worse_with(self, instance: Instance, nodes: tuple[int, ...], tied: bool) -> bool | None:
        """Whether somebody is lost who need not be, with `instance` on `nodes`; None: not told.

        `tied`: it must be together with others.
        """
        taken = instance.memory if instance.uses_memory else 0
        if self._node != nodes[0]:
            part = self._by_target.get(nodes[0])
            return False if part is None else part.misses(taken)
        if instance.template == "drbd":
            return self._fails_over(taken, nodes[1:])
        if not (tied or instance.restricted) and any(part.lost for part in self._parts):
            return True
        return None

    def _fails_over(self, taken: float, secondary: tuple[int, ...]) -> bool | None:
        """The same where the new instance is on the node that fails, and has that secondary."""
        if not self._open.issuperset(secondary) or not secondary:
            return True
        part = self._by_target.get(secondary[0])
        if part is None and self._limited_otherwise:
            return None
        if part is None:
            return taken > max(0, self._memory[secondary[0]] - 1)
        return part.misses(taken) if part.exact else None


class _Known:
    """A part, and what is known of it."""

    __slots__ = ("_lost", "_spare", "exact", "part")

    def __init__(self, part: Part) -> None:
        self.part = part
        self.exact = part.fails_over
        self._spare = part.spare()
        self._lost: bool | None = None

    @property
    def lost(self) -> bool:
        """Whether somebody finds no place for certain."""
        if self._lost is None:
            self._lost = self._spare < 0 and (self.exact or self.part.succeeds() is False)
        return self._lost

    def misses(self, memory: float) -> bool | None:
        """Whether somebody finds no place with so many MiB less on a target; None: not told."""
        if self._spare >= memory:
            return False
        return True if self.exact or self.lost else None
