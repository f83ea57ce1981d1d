"""Whether those that stay are well without the nodes that are away: musts, and failures.

Everybody is where the moves bring them; failures that could be survived before must still be
survived by the nodes that stay.
"""

from __future__ import annotations

from iallocator.model.instance import primary_vector
from iallocator.planners.reboot.options import IGNORED
from iallocator.planners.survival import Survival, mode_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.model.instance import Instance
    from iallocator.planners.reboot.away import Away
    from iallocator.planners.reboot.context import RebootContext
    from iallocator.planners.reboot.options import RebootOptions

__all__ = ["Remaining"]


class Remaining:
    """Looks at what is left; made while everything is as it was, which it compares with."""

    def __init__(self, context: RebootContext, wanted: RebootOptions) -> None:
        self._context = context
        self._wanted = wanted
        self._relations = context.bonds.relations
        self._survivals = [
            Survival(context.state, group, mode_of(context.settings, group), self._relations)
            for group in context.cluster.groups
            if group.nodes
        ]

    def broken(self, away: Away) -> str:
        """A must that holds before the moves and not after them; or ""."""
        relations, state = self._relations, self._context.state
        if relations is None:
            return ""
        moved: dict[str, int | None] = {m.instance.name: m.before[0] for m in away.moves}
        for name, bond in relations.newly_broken(moved, state.where, relations.census(state.where)):
            return f"{name} must be {bond.text}"
        return ""

    def short(self, gone: frozenset[int]) -> str:
        """A failure that those that stay would not survive any more; or ""."""
        if self._wanted.down:
            return ""
        state = self._context.state
        with state.trial():
            self._let_go_of_mirrors(gone)
            if self._wanted.single == IGNORED:
                self._let_go_of_singles()
            for survival in self._survivals:
                away = gone.intersection(survival.group.nodes)
                if away and survival.saved:
                    online = survival.online(state)
                    problem = survival.problem(state) if len(online) > 1 else ""
                    if len(online) == 1 and len(away) > 1 and self._claims(online[0]):
                        problem = (
                            f"only {self._context.cluster.nodes[online[0]].name} would be left"
                        )
                    if problem:
                        return problem
        return ""

    def _claims(self, index: int) -> bool:
        """Whether anything on a node is to be saved when that fails."""
        here = self._context.state.primaries[index].values()
        return any(one.running and not one.forthcoming for one in here)

    def _let_go_of_singles(self) -> None:
        """Count with nobody who has no secondary."""
        state = self._context.state
        for instances in state.primaries:
            for instance in [one for one in instances.values() if one.template != "drbd"]:
                if not instance.forthcoming:
                    state.remove(instance, state.where[instance.name])

    def _let_go_of_mirrors(self, gone: frozenset[int]) -> None:
        """Count those whose mirror is away as lost with their node: nothing could save them."""
        state = self._context.state
        for index in sorted(gone):
            for instance in list(state.instances_on(index)):
                nodes = state.where[instance.name]
                state.remove(instance, nodes)
                if len(nodes) > 1 and nodes[0] not in gone:
                    state.place(_unsaved(instance), nodes[:1])


def _unsaved(instance: Instance) -> Instance:
    """The same amounts on its primary, and no claim to be saved when that fails."""
    twin = instance.as_template("plain")
    twin.as_primary = primary_vector(instance)
    twin.forthcoming = True
    return twin
