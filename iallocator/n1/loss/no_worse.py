"""``--n1 no-worse``: in no failure may more be lost than before, by exact search.

A new instance is held to more than that where a failure loses something already: it takes
no memory that those could use who are lost.  Else memory that is added to a node could turn
its yes to no: what saves them is taken then.  Only what nothing can save is passed over, and
what the new instance does not concern.  Moves free memory elsewhere: they are
compared by what is lost before and after.
"""

from __future__ import annotations

from iallocator.model.columns import MEMORY
from iallocator.n1.loss.evacuation import Evacuation
from iallocator.n1.loss.part import NO_LOSS, Takers
from iallocator.n1.loss.standing import Standing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.loss.part import Loss, Part
    from iallocator.n1.rules import Rules
    from iallocator.n1.simulation import Simulation
    from iallocator.scoring import Kernels


__all__ = ["NoWorse"]


class NoWorse:
    """Says of failures what they lose, and whether a placement makes it more.

    `leaving`: an instance that is off `state`, and where it was.
    `losses`: node -> what its failure lost before, where that is not to be taken from `state`.
    """

    def __init__(
        self,
        state: State,
        kernels: Kernels,
        rules: Rules,
        simulation: Simulation,
        leaving: tuple[Instance, Nodes] | None = None,
        losses: dict[int, Loss] | None = None,
    ) -> None:
        self._state = state
        self._kernels = kernels
        self._rules = rules
        self._simulation = simulation
        self._leaving = leaving
        self._compares = losses is not None
        self._losses: dict[int, Loss] = {} if losses is None else losses
        self._standings: dict[int, Standing] = {}
        self._takers: tuple[int, Group | None, Takers | None] = -1, None, None

    def saves(self, node: int) -> bool:
        """Whether the failure of `node` is survived as the state is now."""
        return self._succeeds(self._evacuation(node).everybody, node)

    def _succeeds(self, part: Part, node: int) -> bool:
        """Whether the search finds room for all, or one after the other does where it gives up."""
        found = part.succeeds()
        return not self._simulation.lost([node]) if found is None else found

    def loss(self, node: int) -> Loss:
        """What the failure of `node` loses as the state is now; nothing where `saves` says so."""
        found = self._evacuation(node).everybody.loss()
        if found.instances and not found.instances_least and not self._simulation.lost([node]):
            return NO_LOSS
        return found

    def compares(self, nodes: Nodes) -> bool:
        """Whether what is lost before and after is compared, with the instance on `nodes`."""
        if self._compares or self._leaving is None:
            return self._compares
        all_nodes = self._state.cluster.nodes
        return all_nodes[self._leaving[1][0]].group is all_nodes[nodes[0]].group

    def told(self, node: int, instance: Instance, nodes: Nodes) -> bool | None:
        """Whether a new `instance` on `nodes` takes what saves somebody, as far as sums tell."""
        if not self._concerns(node, instance, nodes):
            return False
        standing = self._standings.get(node)
        if standing is None:
            memory = self._state.columns[MEMORY]
            standing = self._standings[node] = Standing(self._evacuation(node), node, memory)
        return standing.is_worse_with(instance, nodes, instance.name in self._rules.units)

    def first_worse(self, failing: Sequence[int], instance: Instance, nodes: Nodes) -> int | None:
        """The first of `failing`, which are in doubt, where `instance` on `nodes` loses more."""
        if not self.compares(nodes):
            worse = self._takes_what_saves
            return next((node for node in failing if worse(node, instance, nodes)), None)
        with self._state.trial():
            self._state.place(instance, nodes)
            return next((n for n in failing if self._loses_more(n, instance, nodes)), None)

    def _concerns(self, node: int, instance: Instance, nodes: Nodes) -> bool:
        takes = instance.local or (instance.uses_memory and instance.memory > 0)
        return takes or node == nodes[0] or self._evacuation(node).limited_otherwise

    def _evacuation(self, node: int) -> Evacuation:
        group = self._state.cluster.nodes[node].group
        if self._takers[:2] != (self._state.version, group):
            takers = Takers(self._state, self._rules, group)
            self._takers = self._state.version, group, takers
        return Evacuation(
            self._state, self._kernels, self._rules, self._simulation, node, self._takers[2]
        )

    def _loses_more(self, node: int, instance: Instance, nodes: Nodes) -> bool:
        """Whether more is lost than before, with `instance` on `nodes`, where it is now."""
        before = self._loss_before(node, instance, nodes)
        if before.instances_least:
            return self._evacuation(node).everybody.loses_more_than(before) and not self.saves(node)
        return not self.saves(node)

    def _loss_before(self, node: int, instance: Instance, nodes: Nodes) -> Loss:
        try:
            return self._losses[node]
        except KeyError:
            pass
        with self._state.trial():
            self._state.remove(instance, nodes)
            if self._leaving is not None:
                self._state.place(*self._leaving)
            found = self._losses[node] = self.loss(node)
        return found

    def _takes_what_saves(self, node: int, instance: Instance, nodes: Nodes) -> bool:
        """Whether somebody whom `instance` concerns is lost, and need not be."""
        told = self.told(node, instance, nodes)
        if told is not None:
            return told
        left_out = self._standings[node].hopeless - {instance.name}
        with self._state.trial():
            self._state.place(instance, nodes)
            for part in self._evacuation(node).parts(left_out):
                if part.has(instance.name) if node == nodes[0] else nodes[0] in part.targets:
                    return not self._succeeds(part, node)
        return False
