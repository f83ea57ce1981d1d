"""Whether an instance could come back to where it is now, all others being there, too.

Asked before anything is moved: what stands where its node would not take it now, stays there.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from iallocator.model.instance import Instance
    from iallocator.planners.reboot.context import RebootContext
    from iallocator.planners.reboot.options import RebootOptions

__all__ = ["Returns"]


class Returns:
    """Answers for one instance at a time, each worked out once."""

    def __init__(self, context: RebootContext, wanted: RebootOptions) -> None:
        self._context = context
        self._wanted = wanted
        self._known: dict[tuple[str, int], str] = {}

    def barred(self, instance: Instance, gone: Collection[int]) -> str:
        """Why it could not come back to that of its nodes which is among `gone`; or ""."""
        left = next(index for index in instance.nodes if index in gone)
        if (instance.name, left) not in self._known:
            found = self._as_primary(instance) or self._as_mirror(instance, left)
            self._known[instance.name, left] = found
        return self._known[instance.name, left]

    def _as_primary(self, instance: Instance) -> str:
        context, home = self._context, instance.nodes[0]
        name = context.cluster.nodes[home].name
        relations = context.bonds.relations
        if relations is not None and relations.binds(instance.name):
            census = relations.census(context.state.where)
            if relations.musts_broken(instance.name, home, census):
                return f"could not come back to {name}, where it breaks a must"
        evaluator = context.evaluator(context.cluster.nodes[home].group)
        with context.state.trial():
            context.state.remove(instance, instance.nodes)
            takes = evaluator.for_steps().takes_primary(instance, home)
        return "" if takes else f"could not come back to {name}, which lacks the room for it"

    def _as_mirror(self, instance: Instance, left: int) -> str:
        """Who loses a half gets it back as its mirror, whichever half it was."""
        if instance.template != "drbd" or not self._wanted.evacuate or len(instance.nodes) < 2:
            return ""
        context = self._context
        other = next(index for index in instance.nodes if index != left)
        evaluator = context.evaluator(context.cluster.nodes[left].group).for_steps()
        with context.state.trial():
            context.state.remove(instance, instance.nodes)
            found = evaluator.candidates(instance, "mirror", (other, left), [left])
        if found.feasible:
            return ""
        name, why = context.cluster.nodes[left].name, ", ".join(sorted(found.failures))
        return f"could not come back to {name}: {why}"
