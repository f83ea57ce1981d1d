"""Find the node failures that are not tolerated, by simulating each of them."""

from __future__ import annotations

from iallocator.model.state import State
from iallocator.n1 import Rules
from iallocator.n1.simulation import Simulation
from iallocator.scoring import Kernels
from tests.builders import Json
from tests.model.make import model_of

__all__ = ["intolerable", "intolerable_in"]


def intolerable(document: Json) -> set[str]:
    """Return the names of the online nodes with a failure that is not tolerated."""
    return intolerable_in(State(model_of(document)))


def intolerable_in(state: State) -> set[str]:
    """Return the nodes of a state with a failure that a simulation finds not to be tolerated."""
    nodes = state.cluster.nodes
    found = set()
    for group in state.cluster.groups:
        simulation = Simulation(state, Kernels(state, []), Rules("no-new"), group.nodes)
        online = [index for index in group.nodes if nodes[index].online]
        found |= {nodes[index].name for index in online if simulation.fail((index,))}
    return found
