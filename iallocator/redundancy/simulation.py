"""What happens when a node fails, played through on the state.

First its drbd primaries fail over to their secondaries; then its primaries on
shared storage are moved, one by one, each to the node of the group with the best
score; then its plain and file primaries are created anew, largest memory first,
each on the best node.  Only hard limits count.
"""

from __future__ import annotations

from iallocator.model.columns import DISK, FREE_SPINDLES, MEMORY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.redundancy.rules import Rules
    from iallocator.scoring import Kernel

    MakeKernel = Callable[[State, Sequence[int]], Kernel]

__all__ = ["Simulation", "Stranded"]


class Stranded:
    """A failure that cannot be survived: `instance` finds no place when `node` fails."""

    __slots__ = ("instance", "node", "why")

    def __init__(self, node: int, instance: Instance, why: str) -> None:
        self.node = node
        self.instance = instance
        self.why = why


class Simulation:
    """Plays node failures through on `state`, which is the same afterwards.

    `scope` are the nodes over which scores run when plain instances are created anew.
    """

    def __init__(
        self, state: State, make_kernel: MakeKernel, rules: Rules, scope: Sequence[int]
    ) -> None:
        self._state = state
        self._make_kernel = make_kernel
        self._rules = rules
        self._scope = scope

    def fail(self, node: int) -> Stranded | None:
        """The first instance without a place if `node` fails, or None."""
        state = self._state
        group = state.cluster.nodes[node].group
        primaries = sorted(state.primaries[node].values(), key=_order)
        primaries = [i for i in primaries if not i.forthcoming]
        targets = [t for t in self._rules.targets(state.cluster, group) if t != node]
        with state.trial():
            for instance in primaries:
                if instance.template == "drbd":
                    stranded = self._failover(node, instance)
                    if stranded is not None:
                        return stranded
            for instance in primaries:
                if instance.shared and not self._move(node, instance, targets, group.nodes):
                    return Stranded(node, instance, "no node has the memory for it")
            for instance in sorted(primaries, key=_memory):
                if not instance.mirrored and not self._move(node, instance, targets, self._scope):
                    return Stranded(node, instance, "no node has the memory and disk for it")
        return None

    def _failover(self, node: int, instance: Instance) -> Stranded | None:
        state = self._state
        nodes = state.where[instance.name]
        if len(nodes) < 2:
            return Stranded(node, instance, "it has no secondary")
        secondary = nodes[1]
        name = state.cluster.nodes[secondary].name
        if not self._rules.strict and not state.cluster.nodes[secondary].online:
            return Stranded(node, instance, f"its secondary {name} is not online")
        state.remove(instance, (node, secondary))
        state.place(instance, (secondary, node))
        if state.columns[MEMORY][secondary] <= 0:
            return Stranded(node, instance, f"its secondary {name} has not enough memory")
        if self._rules.strict and any(lacks_disk(state, index) for index in (node, secondary)):
            return Stranded(node, instance, "no disk is left for a failover")
        return None

    def _move(
        self, node: int, instance: Instance, targets: Sequence[int], scope: Sequence[int]
    ) -> bool:
        state = self._state
        state.remove(instance, (node,))
        kernel = self._make_kernel(state, scope)
        best = next(kernel.singles(instance, targets, {}, True).row(0), None)
        if best is None:
            return False
        state.place(instance, best[1])
        return True


def lacks_disk(state: State, index: int) -> bool:
    """Whether hard disk limits of a node are broken as it is now."""
    return state.columns[DISK][index] <= 0 or (
        state.cluster.nodes[index].exclusive_storage and state.columns[FREE_SPINDLES][index] < 0
    )


def _order(instance: Instance) -> float:
    return instance.order


def _memory(instance: Instance) -> float:
    return -instance.memory
