"""Global N+1 for a cluster that is emptied and filled again."""

from __future__ import annotations

from iallocator.n1.check import N1Cache, N1Check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.n1.loss.part import Loss
    from iallocator.placement.context import Context

__all__ = ["Survival"]


class Survival:
    """Which placements keep global N+1, by the settings of their group.

    With ``no-new`` what counts as survivable before is how the cluster was at first, with
    ``no-worse`` what was lost then.  In a
    group with less than two online nodes nothing could be survived, and nothing is asked.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._scope = context.all_nodes()
        self._survived: dict[int, bool] = {}
        self._losses: dict[int, Loss] = {}
        self._known: dict[str, N1Cache] = {}
        modes = {context.settings_of(group).n1 for group in context.cluster.groups}
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
            check = context.judge(self._scope, context.rules("no-worse"))
            self._losses = check.losses(nodes)

    def judge(self, node: int) -> N1Check | None:
        """The judge of placements in the group of `node` as the state is now; None: no N+1."""
        context, nodes = self._context, self._context.cluster.nodes
        group = nodes[node].group
        rules = context.rules(context.settings_of(group).n1)
        if rules.mode == "off" or self._online[group] < 2:
            return None
        survived = dict(self._survived) if rules.mode == "no-new" else {}
        losses = dict(self._losses) if rules.exact else None
        # what a node's failure asks for is kept until the node changes; in a trial nothing says so
        state = context.state
        known = N1Cache() if state.trying else self._known.setdefault(rules.mode, N1Cache())
        return N1Check(
            state,
            context.kernels,
            rules,
            self._scope,
            remembered=known,
            survived=survived,
            losses=losses,
        )
