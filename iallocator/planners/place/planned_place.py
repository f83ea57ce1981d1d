"""Where an instance of a cluster that is placed anew is, and where it will be."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.model.instance import Instance
    from iallocator.model.state import State

__all__ = ["PlannedPlace", "runs", "stopped_disks"]


class PlannedPlace:
    """Where one instance is, where it will be, and why.

    Attributes
    ----------
    before:
        Its nodes, primary first; () for a new one.
    nodes:
        Its nodes then; None if it stays out.
    why:
        What decided, for people.
    runs:
        Whether it runs now.
    broken:
        What it should rather not do there, for people.
    """

    __slots__ = ("before", "broken", "instance", "nodes", "runs", "why")

    def __init__(self, instance: Instance, before: tuple[int, ...], runs: bool) -> None:
        self.instance = instance
        self.before = before
        self.runs = runs
        self.nodes: tuple[int, ...] | None = None
        self.why = ""
        self.broken: list[str] = []

    @property
    def holds(self) -> bool:
        """Whether what it takes is its own: it runs, or is to be created where it stands."""
        return self.runs or self.instance.forthcoming

    @property
    def node(self) -> int | None:
        """Its primary then."""
        return self.nodes[0] if self.nodes else None


def stopped_disks(instance: Instance, nodes: tuple[int, ...]) -> tuple[int, ...]:
    """Those of `nodes` on which an instance keeps disks when it is stopped."""
    return nodes if instance.local and not instance.forthcoming else ()


def runs(state: State, instance: Instance) -> bool:
    """Whether an instance of the cluster runs where it is."""
    home = state.cluster.nodes[state.where[instance.name][0]]
    return instance.running and not home.offline
