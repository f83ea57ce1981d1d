"""The elementary moves of an instance, and what they do to a state.

========================  ==================================================
``failover``              drbd: primary and secondary change roles
``replace_secondary`` N   drbd: the mirror goes to node N
``failover_to`` N         shared storage: the instance goes to node N
========================  ==================================================
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.instance import Instance
    from iallocator.model.state import State

__all__ = [
    "FAILOVER",
    "FAILOVER_TO",
    "REPLACE_SECONDARY",
    "ElementaryMove",
    "Move",
    "apply_steps",
    "places_after",
]

FAILOVER = "failover"
REPLACE_SECONDARY = "replace_secondary"
FAILOVER_TO = "failover_to"

ElementaryMove = tuple[str, int]
"""A kind of move and the index of its target node (of `FAILOVER`: the new primary)."""


class Move:
    """A change of where an instance is.

    Attributes
    ----------
    before, after:
        The nodes of the instance, primary first; `before` is () if it is nowhere.
    steps:
        The elementary moves from `before` to `after`, in order; () where only the end matters.
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


def places_after(nodes: tuple[int, ...], steps: Sequence[ElementaryMove]) -> tuple[int, ...]:
    """Where an instance on `nodes` (primary first) is after `steps`."""
    for kind, target in steps:
        if kind == FAILOVER:
            nodes = (nodes[1], nodes[0])
        elif kind == REPLACE_SECONDARY:
            nodes = (nodes[0], target)
        else:
            nodes = (target,)
    return nodes


def apply_steps(
    state: State, instance: Instance, steps: Sequence[ElementaryMove]
) -> tuple[int, ...]:
    """Carry out `steps` on `state` and return where the instance is then."""
    nodes = state.where[instance.name]
    after = places_after(nodes, steps)
    if after != nodes:
        state.remove(instance, nodes)
        state.place(instance, after)
    return after
