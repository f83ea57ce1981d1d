"""What sums alone say of a set of nodes: whether the others can hold everything.

Moves change neither what instances use in all nor what a node has when it is empty.  So with
some nodes off, the others must have in all what is used, and the reserve of each beside.  When
one of them fails, the rest must hold everything: no more may be used than they have when
they are empty.
"""

from __future__ import annotations

from iallocator.model.columns import MEMORY
from iallocator.model.state import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.planners.squeeze.headroom import Headroom
    from iallocator.planners.survival import Survival

__all__ = ["Amounts"]


class Amounts:
    """The sums over the nodes of `scope`, which are kept: asking costs one pass over the nodes.

    Nodes count as online or not as they are when one asks.
    """

    def __init__(
        self, cluster: Cluster, scope: Sequence[int], reserve: Headroom, survival: Survival
    ) -> None:
        self._nodes = cluster.nodes
        self._scope = scope
        self._survival = survival
        state = State(cluster)
        self._slack = {index: reserve.slack(state, index) for index in scope}
        self._free = state.columns[MEMORY]
        self._held = {index: _held(state, index) for index in scope}
        self._first = {index: next(iter(state.primaries[index]), "") for index in scope}

    def hopeless(self, off: Collection[int]) -> str:
        """Why the instances of the nodes `off` cannot all be on online ones; "" if they may be."""
        online = [index for index in self._scope if self._nodes[index].online]
        if not online:
            held = next((self._first[index] for index in off if self._first[index]), "")
            return f"no other node is online in the group for instance {held}" if held else ""
        leaving = [index for index in self._scope if index in off]
        return self._short(online, leaving) or self._lost(online, leaving)

    def _short(self, online: Sequence[int], leaving: Sequence[int]) -> str:
        """What the online nodes lack with the reserve of each, or ""."""
        memory, later, cpus = (
            sum(self._slack[index][k] for index in online)
            - sum(self._held[index][k] for index in leaving)
            for k in range(3)
        )
        if min(memory, later) < 0:
            return f"the online nodes would lack {-min(memory, later):.0f} MiB of memory in all"
        return f"the online nodes would lack {-cpus:.1f} virtual cpus in all" if cpus < 0 else ""

    def _lost(self, online: Sequence[int], leaving: Sequence[int]) -> str:
        """Which failure the online nodes could not survive, however all is spread, or ""."""
        survival = self._survival
        failing = [index for index in online if survival.strict or index in survival.saved]
        if not failing:
            return ""
        worst = max(failing, key=self._empty)
        free = sum(self._free[index] for index in online)
        lacking = self._empty(worst) + sum(self._held[index][0] for index in leaving) - free
        if lacking <= 0:
            return ""
        name = self._nodes[worst].name
        others = f"the other nodes would lack {lacking:.0f} MiB of memory in all"
        return f"the failure of {name} would not be survived: {others}"

    def _empty(self, index: int) -> float:
        """MiB of memory that a node has for instances when none is there."""
        return self._free[index] + self._held[index][0]


def _held(state: State, index: int) -> tuple[float, float, float]:
    """MiB of memory, now and with all instances running, and virtual cpus of the primaries."""
    instances = state.primaries[index].values()
    running = sum(one.memory for one in instances if one.uses_memory)
    cpus = sum(one.vcpus for one in instances if not one.admin_offline)
    return running, sum(one.memory for one in instances), cpus
