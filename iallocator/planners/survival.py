"""Global N+1 before and after a plan: whose failure must be survivable in the end, and is not.

In the simulation of a failure only online nodes take over, in every mode: a plan is about
what happens once it is carried out.
"""

from __future__ import annotations

from iallocator.n1.check import N1Check
from iallocator.n1.rules import Rules
from iallocator.n1.simulation import Simulation
from iallocator.scoring import Kernels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.constraints.relations import Relations
    from iallocator.model.cluster import Group
    from iallocator.model.state import State
    from iallocator.options import Settings

__all__ = ["Survival", "doomed", "mode_of"]

RULES = "no-new"
"""The mode whose simulation offers online nodes only."""


def mode_of(settings: Settings, group: Group) -> str:
    """How a plan for `group` is judged; hbal and hsqueeze know no global N+1."""
    if settings.like_hail and "n1" not in settings.chosen:
        return "off"
    return settings.by_group.get(group.index, settings).n1


def doomed(
    state: State, group: Group, failing: Sequence[int], relations: Relations | None = None
) -> list[int]:
    """Those of `failing`, nodes of `group`, whose failure could not be survived as `state` is.

    Cost: a few sums per node, and a simulation for each that those do not decide.
    """
    if not failing:
        return []
    kernels = Kernels(state, [(len(group.nodes), 0)])
    saved = set(N1Check(state, kernels, _rules(relations), group.nodes).survivable(failing))
    return [index for index in failing if index not in saved]


def _rules(relations: Relations | None) -> Rules:
    """The rules by which plans are judged; those that must be together are lost together."""
    return Rules(RULES, None if relations is None else relations.units())


class Survival:
    """The failures in `group` that a plan, which begins at `state`, must leave survivable.

    ``no-new``: those of the online nodes that could be survived before it.  ``strict``: those
    of all nodes that are online in the end.  ``off``: none.  Nodes that the plan powers down
    or on are judged as they are when one asks.
    """

    __slots__ = ("_group", "_mode", "_relations", "_saved")

    def __init__(
        self, state: State, group: Group, mode: str, relations: Relations | None = None
    ) -> None:
        self._relations = relations
        self._group = group
        self._mode = mode
        self._saved: frozenset[int] = frozenset()
        if mode == "no-new":
            online = self._online(state)
            self._saved = frozenset(online).difference(doomed(state, group, online, relations))

    def _online(self, state: State) -> list[int]:
        nodes = state.cluster.nodes
        return [index for index in self._group.nodes if nodes[index].online]

    def lost(self, state: State) -> list[int]:
        """The nodes whose failure should be survivable in `state`, and is not."""
        if self._mode == "off":
            return []
        wanted = self._online(state)
        if self._mode == "no-new":
            wanted = [index for index in wanted if index in self._saved]
        return doomed(state, self._group, wanted, self._relations)

    def problem(self, state: State) -> str:
        """What `lost` finds, in words, with the first instance without a place; "" if nothing."""
        lost = self.lost(state)
        if not lost:
            return ""
        kernels = Kernels(state, [(len(self._group.nodes), 0)])
        found = Simulation(state, kernels, _rules(self._relations), self._group.nodes).fail(lost[0])
        name = state.cluster.nodes[lost[0]].name
        told = f"the failure of {name} would not be survived"
        return f"{told}: {found.instance.name} is lost, {found.why}" if found else told
