"""Global N+1 for a cluster that is emptied and filled again."""

from __future__ import annotations

from iallocator.n1.growth import Down
from iallocator.n1.tolerance import FailureTolerance, N1Cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.n1.exact import Loss
    from iallocator.placement.context import Context

__all__ = ["Survival"]


class Survival:
    """Which placements keep global N+1, by the settings of their group.

    With ``no-new`` what counts as survivable before is how the cluster was at first, with
    ``no-worse`` what was lost then; with ``strict`` every failure counts but those that are lost by
    what stays where it is.  In a group with less than two online nodes nothing could be survived:
    of who is there already nothing is asked.

    Attributes
    ----------
    hopeless:
        The nodes whose failure is lost by what stays where it is, where ``strict`` holds.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._scope = context.all_nodes()
        self._survived: dict[int, bool] = {}
        self._losses: dict[int, Loss] = {}
        self._down: dict[Group, Down] = {}
        self._known: dict[str, N1Cache] = {}
        self.hopeless: frozenset[int] = frozenset()
        self._modes = {group: context.settings_of(group).n1 for group in context.cluster.groups}
        modes = self._modes.values()
        nodes = [node.index for node in context.cluster.nodes if node.online]
        self._online = {
            group: sum(context.cluster.nodes[index].online for index in group.nodes)
            for group in context.cluster.groups
        }
        if "no-new" in modes:
            check = context.judge(self._scope, context.rules("no-new"))
            survivable = check.survivable(nodes)
            self._survived = {index: index in survivable for index in nodes}
        if "no-worse" in modes:
            rules = context.rules("no-worse")
            self._losses = context.judge(self._scope, rules).losses(nodes)
            self._down = {
                group: Down(context.cluster, group, rules, set(group.nodes).difference(nodes))
                for group in context.cluster.groups
            }

    def forgive(self) -> None:
        """Look for hopeless nodes, now that only what stays where it is stands on the state."""
        cluster = self._context.cluster
        strict = [group for group, mode in self._modes.items() if mode == "strict"]
        if strict:
            nodes = [i for group in strict for i in group.nodes if cluster.nodes[i].online]
            check = self._context.judge(self._scope, self._context.rules("no-new"))
            alone = (i for i in nodes if self._online[cluster.nodes[i].group] < 2)
            self.hopeless = frozenset(nodes).difference(check.survivable(nodes)).union(alone)

    def judge(self, node: int, instance: Instance, before: Nodes) -> FailureTolerance | None:
        """The judge of who comes to `node`, as the state is now; None: no N+1."""
        context = self._context
        group = context.cluster.nodes[node].group
        mode = self._modes[group]
        if mode == "off" or (self._online[group] < 2 and before):
            return None
        rules = context.rules("no-new" if mode == "strict" else mode)
        survived = self._protected(mode, new=not before)
        losses = self._may_lose(group, instance) if rules.exact else None
        known = self._known.setdefault(rules.mode, N1Cache())
        return FailureTolerance(
            context.state,
            context.kernels,
            rules,
            self._scope,
            remembered=known,
            survived=survived,
            losses=losses,
        )

    def _may_lose(self, group: Group, instance: Instance) -> dict[int, Loss]:
        """Node -> what its failure may lose: what it lost at first, and who is back in `group`.

        Who was on a node that is not online was lost already, whichever failed.
        """
        back = self._down[group].back(self._context.state, instance)
        if not back[0]:
            return self._losses
        known = self._losses.keys() & group.nodes
        return self._losses | {node: self._losses[node].with_more(*back) for node in known}

    def _protected(self, mode: str, new: bool) -> dict[int, bool]:
        """Node → whether its failure has to be survived; {}: as things are when one asks.

        Who is `new` comes to no group where a failure cannot be survived, as in an allocation.
        """
        if mode == "strict":
            nodes = self._context.cluster.nodes
            forgiven = () if new else self.hopeless
            return {node.index: node.index not in forgiven for node in nodes if node.online}
        return dict(self._survived) if mode == "no-new" else {}
