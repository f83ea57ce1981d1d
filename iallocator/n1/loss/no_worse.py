"""``--n1 no-worse``: in no failure may more be lost than before, by exact search.

A new instance is held to more than that where a failure loses something already: it takes
no memory that those could use who are lost.  Else memory that is added to a node could turn
its yes to no: what saves them is taken then.  Only what nothing can save is passed over, and
what the new instance does not concern.  Moves free memory elsewhere: they are
compared by what is lost before and after.
"""

from __future__ import annotations

from iallocator.n1.loss.evacuation import Evacuation, Loss

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.rules import Rules
    from iallocator.n1.simulation import Simulation
    from iallocator.scoring import Kernels

    Nodes = tuple[int, ...]

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
        self._hopeless: dict[int, set[str]] = {}

    def saves(self, node: int) -> bool:
        """Whether the failure of `node` is survived as the state is now."""
        return self._succeeds(self._evacuation(node), node)

    def _succeeds(self, evacuation: Evacuation, node: int) -> bool:
        """Whether the search finds room for all, or one after the other does where it gives up."""
        found = evacuation.succeeds()
        return not self._simulation.lost([node]) if found is None else found

    def loss(self, node: int) -> Loss:
        """What the failure of `node` loses as the state is now."""
        return self._evacuation(node).loss()

    def first_worse(self, failing: Sequence[int], instance: Instance, nodes: Nodes) -> int | None:
        """The first of `failing`, which are in doubt, where `instance` on `nodes` loses more."""
        compares = self._compares or self._stays_in_group(nodes)
        worse = self._loses_more if compares else self._takes_what_saves
        return next((node for node in failing if worse(node, instance, nodes)), None)

    def _stays_in_group(self, nodes: Nodes) -> bool:
        if self._leaving is None:
            return False
        all_nodes = self._state.cluster.nodes
        return all_nodes[self._leaving[1][0]].group is all_nodes[nodes[0]].group

    def _evacuation(self, node: int, left_out: Collection[str] = ()) -> Evacuation:
        return Evacuation(self._state, self._kernels, self._rules, self._simulation, node, left_out)

    def _loses_more(self, node: int, instance: Instance, nodes: Nodes) -> bool:
        """Whether more is lost than before."""
        with self._state.trial():
            self._state.place(instance, nodes)
            if self.saves(node):
                return False
        before = self._loss_before(node)
        if not before.instances_least:
            return True
        with self._state.trial():
            self._state.place(instance, nodes)
            return self.loss(node).exceeds(before)

    def _loss_before(self, node: int) -> Loss:
        found = self._losses.get(node)
        if found is None:
            with self._state.trial():
                if self._leaving is not None:
                    self._state.place(*self._leaving)
                found = self._losses[node] = self.loss(node)
        return found

    def _takes_what_saves(self, node: int, instance: Instance, nodes: Nodes) -> bool:
        """Whether somebody whom `instance` concerns is lost, and need not be."""
        itself = node == nodes[0]
        if not (itself or instance.local or (instance.uses_memory and instance.memory)):
            return False
        hopeless = self._hopeless.get(node)
        if hopeless is None:
            hopeless = self._hopeless[node] = self._evacuation(node).hopeless()
        with self._state.trial():
            self._state.place(instance, nodes)
            left = self._evacuation(node, hopeless - {instance.name})
            near = left.concerned(() if itself else nodes[:1], (instance.name,) if itself else ())
            return not self._succeeds(near, node)
