"""A move of an instance, and the elementary moves that it is made of.

========================  ==================================================
``failover``              drbd: primary and secondary change roles
``replace_secondary`` N   drbd: node N becomes the secondary
``failover_to`` N         shared storage: the instance goes to node N
========================  ==================================================
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.model.state import State

__all__ = [
    "DRBD_FAILOVER",
    "FAILOVER_TO",
    "REPLACE_SECONDARY",
    "ElementaryMove",
    "Move",
    "places_after",
    "replay",
    "traffic",
]

DRBD_FAILOVER = "failover"
REPLACE_SECONDARY = "replace_secondary"
FAILOVER_TO = "failover_to"

STEP_LETTERS = {DRBD_FAILOVER: "f", REPLACE_SECONDARY: "r", FAILOVER_TO: "fa"}
"""Elementary move -> its notation in balancers."""

ElementaryMove = tuple[str, int]
"""A kind of move and the index of its target node; for `DRBD_FAILOVER`, the new primary."""


class Move:
    """A change of the placement of one instance.

    The moves of a colocation group are a list of moves, one for each instance.

    Attributes
    ----------
    before, after:
        The nodes of the instance, primary first; `before` is () if it is not placed yet.
    steps:
        The elementary moves from `before` to `after`, in order; () if only the result matters.
    """

    __slots__ = ("after", "before", "instance", "steps")

    def __init__(
        self,
        instance: Instance,
        before: Nodes,
        after: Nodes,
        steps: Sequence[ElementaryMove] = (),
    ) -> None:
        self.instance = instance
        self.before = before
        self.after = after
        self.steps = tuple(steps)

    @classmethod
    def by_steps(cls, instance: Instance, before: Nodes, steps: Sequence[ElementaryMove]) -> Move:
        """Return the move of `instance` from the nodes `before` by these elementary `steps`."""
        return cls(instance, before, places_after(before, steps), steps)

    def __repr__(self) -> str:
        return f"<Move {self.instance.name} {self.before} -> {self.after}>"

    @property
    def nodes(self) -> frozenset[int]:
        """Return all nodes that the move changes."""
        return frozenset((*self.before, *self.after, *(target for _, target in self.steps)))

    @property
    def letters(self) -> tuple[str, ...]:
        """Return the elementary moves without their targets: ``f``, ``r`` or ``fa`` each."""
        return tuple(STEP_LETTERS[kind] for kind, _ in self.steps)

    @property
    def copied(self) -> int:
        """Return the MiB that the move copies between nodes: of disks and live migrations."""
        return traffic(self.instance, self.letters)

    def notation(self, cluster: Cluster) -> str:
        """Return the steps in the notation of balancers: ``f r:node3 f``."""
        return " ".join(
            "f" if kind == DRBD_FAILOVER else f"{STEP_LETTERS[kind]}:{cluster.nodes[target].name}"
            for kind, target in self.steps
        )

    def apply(self, state: State) -> None:
        """Apply the move to `state`, in which the instance is on `before`."""
        if self.after != self.before:
            state.remove(self.instance, self.before)
            state.place(self.instance, self.after)


def replay(state: State, moves: Iterable[Move]) -> None:
    """Apply `moves` to `state`."""
    for move in moves:
        move.apply(state)


def traffic(instance: Instance, letters: Sequence[str]) -> int:
    """Return the MiB that elementary moves copy between nodes; `letters`: their notation.

    ``r`` copies the disks, and a migration the memory. The failover of an instance that does not
    run copies nothing. A forthcoming instance has no disks yet, so its moves copy nothing. Moving
    an instance on local disks copies these disks.
    """
    if instance.forthcoming:
        return 0
    if not instance.kind.migrates:
        return instance.disk * len(letters)
    memory = instance.memory if instance.running else 0
    return sum(instance.disk if letter == "r" else memory for letter in letters)


def places_after(nodes: Nodes, steps: Iterable[ElementaryMove]) -> Nodes:
    """Return the nodes of an instance after `steps`, which begin on `nodes` (primary first)."""
    for kind, target in steps:
        if kind == DRBD_FAILOVER:
            nodes = (nodes[1], nodes[0])
        elif kind == REPLACE_SECONDARY:
            nodes = (nodes[0], target)
        else:
            nodes = (target,)
    return nodes
