"""The result of `squeeze`: the nodes to power on or down, the moves, and the state after them."""

from __future__ import annotations

from iallocator.ganeti.commands import job_sets_of_steps, script
from iallocator.light import copy
from iallocator.model.moves import replay
from iallocator.model.state import State
from iallocator.planners.plan import Plan
from iallocator.planners.power_state import Switched
from iallocator.planners.quality import FREED
from iallocator.planners.result import GroupPlans
from iallocator.tags.standby import AUTO_TAG, retag, standby_tags
from iallocator.transition.assemble import transition_of_moves
from iallocator.transition.requirements import NodeChanges
from iallocator.transition.resources import room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from iallocator.aliases import Json
    from iallocator.model.cluster import Cluster, Group
    from iallocator.planners.plan import PlanEntry
    from iallocator.planners.result import PlanResult
    from iallocator.planners.squeeze.headroom import Headroom
    from iallocator.planners.squeeze.node_selection import NodeSelection
    from iallocator.planners.verify import Problem
    from iallocator.transition.transition import Transition


__all__ = ["SqueezePlan", "SqueezeResult"]


class SqueezePlan(Plan):
    """The plan for one group; switching nodes changes its score even without a move."""

    __slots__ = ("_after",)

    def __init__(self, search: NodeSelection, reason: str) -> None:
        super().__init__("squeeze", search.before)
        self.entries = list(search.entries)
        self.stop, self.reason = search.stop, reason
        self._after = search.score

    def replace(self, entries: Sequence[PlanEntry], after: float) -> None:
        """Replace the moves of the plan by `entries`; `after` is the score after them."""
        self.entries, self._after = list(entries), after

    def give_up(self, reason: str) -> None:
        """Drop the moves of the plan, and record `reason`; the score is that before the plan."""
        self.entries, self.reason, self._after = [], reason, self.before

    @property
    def after(self) -> float:
        """Return the score once the nodes are switched and the moves are made."""
        return self._after


class SqueezeResult(GroupPlans):
    """The nodes that `squeeze` powers down or on, and the moves of all groups.

    Attributes
    ----------
    aim:
        ``offline`` if the run searches for nodes to power down, ``online`` if it searches for nodes
        to power on; ``none`` before the search begins.
    off, on:
        Indices of the nodes to power down, and of those to power on. They are ordered by group, and
        then by the order in which they were chosen.
    kept:
        Index of a node that is not switched -> the reason.
    shortages:
        Index of a group -> why it lacks the minimal reserve even if all its standby nodes are
        powered on.
    reserves:
        Index of a group -> the reserve that each of its online nodes must have after nodes are
        powered down.
    """

    measure = FREED
    keeps_n1_on_the_way = False

    def __init__(self, cluster: Cluster) -> None:
        super().__init__("squeeze", State(cluster))
        self.aim = "none"
        self.off: list[int] = []
        self.on: list[int] = []
        self.kept: dict[int, str] = {}
        self.reserves: dict[int, Headroom] = {}
        self.shortages: dict[int, str] = {}

    @property
    def nodes(self) -> list[int]:
        """Return the indices of the nodes to power on, and then of the nodes to power down."""
        return [*self.on, *self.off]

    @property
    def reached(self) -> float:
        """Return the number of nodes that are powered down."""
        return len(self.off)

    @property
    def shortage(self) -> str:
        """Return why the first group in `shortages` lacks the minimal reserve; "" if none does."""
        return next(iter(self.shortages.values()), "")

    @property
    def action(self) -> str:
        """Return how nodes are switched: ``offline``, ``online``, ``both`` or ``none``."""
        if self.on and self.off:
            return "both"
        return "online" if self.on else "offline" if self.off else "none"

    @property
    def leaving(self) -> Collection[int]:
        """Return the indices of the nodes to power down."""
        return self.off

    @property
    def coming(self) -> Collection[int]:
        """Return the indices of the nodes to power on."""
        return self.on

    def without(self, problem: Problem, reason: str) -> str:
        """Remove the moves that cause `problem`, record `reason`, and describe the removed part.

        If nodes are powered down, the whole plan of the group is left out, because these nodes must
        be empty after it. Otherwise the plan is cut before the move that causes `problem`.
        """
        if not self.leaving:
            return super().without(problem, reason)
        return self.leave_out(problem.group, reason)

    def leave_out(self, part: object, reason: str) -> str:
        """Remove the plan of the group `part`, with the nodes that it switches.

        `reason` is recorded for the group and for its nodes. Return a description of the removed
        plan; "" if the group has none.
        """
        for one in self.plans:
            switched = self.nodes_of(one.group)
            if one.group is part and (switched or one.plan.entries):
                assert isinstance(one.plan, SqueezePlan)
                one.plan.give_up(reason)
                self._switch_only(index for index in self.nodes if index not in switched)
                self.kept.update(dict.fromkeys(switched, reason))
                self._transition = None
                return f"the plan of group {one.group.name}"
        return ""

    def parts(self) -> list[tuple[object, PlanResult]]:
        """Return each group with moves or switched nodes, with a result that has only its plan."""
        parts: list[tuple[object, PlanResult]] = []
        for one in self.plans:
            switched = self.nodes_of(one.group)
            if switched or one.plan.entries:
                alone = copy(self)
                alone.plans, alone._transition = [one], None
                alone._switch_only(switched)
                parts.append((one.group, alone))
        return parts

    def _switch_only(self, nodes: Iterable[int]) -> None:
        """Remove from the nodes to switch all nodes that are not in `nodes`."""
        kept = set(nodes)
        self.off = [index for index in self.off if index in kept]
        self.on = [index for index in self.on if index in kept]

    def failed_parts(self) -> list[tuple[object, str]]:
        """Return (group, reason) for each online node that lacks the reserve after the plan.

        Only the groups in which nodes are powered down are checked.
        """
        failed: list[tuple[object, str]] = []
        freed = {self.cluster.nodes[index].group.index for index in self.leaving}
        if not freed:
            return failed
        with self.switched():
            state = State(self.cluster)
            replay(state, self.moves)
            for group in self.cluster.groups:
                if group.index in freed:
                    missing = self.reserves[group.index].missing(state, group.nodes)
                    texts = (f"{self.cluster.nodes[i].name} {why}" for i, why in missing.items())
                    failed += ((group, text) for text in texts)
        return failed

    def changes(self, group: Group) -> bool:
        """Return whether the plan switches nodes of `group` or moves instances there."""
        moved = any(one.plan.entries for one in self.plans if one.group is group)
        return moved or bool(self.nodes_of(group))

    def nodes_of(self, group: Group) -> list[int]:
        """Return the indices of the nodes of `group` to power down or on."""
        return [index for index in self.nodes if self.cluster.nodes[index].group is group]

    def leaving_of(self, group: Group) -> list[int]:
        """Return the indices of the nodes of `group` to power down."""
        return [index for index in self.off if self.cluster.nodes[index].group is group]

    def coming_of(self, group: Group) -> list[int]:
        """Return the indices of the nodes of `group` to power on."""
        return [index for index in self.on if self.cluster.nodes[index].group is group]

    def forget_order(self) -> None:
        """Discard the order of the steps, because the moves have changed.

        The order is computed again when it is next used.
        """
        self._transition = None

    @property
    def added(self) -> dict[int, list[str]]:
        """Return node index -> the tags to add: a standby tag for freed nodes that have none."""
        nodes = self.cluster.nodes
        return {index: [AUTO_TAG] for index in self.off if not standby_tags(nodes[index])}

    @property
    def removed(self) -> dict[int, list[str]]:
        """Return node index -> the tags to remove, for nodes to power on: the tag that planners
        add.
        """
        nodes = self.cluster.nodes
        return {index: [AUTO_TAG] for index in self.on if AUTO_TAG in standby_tags(nodes[index])}

    def switched(self) -> Switched:
        """Return a context manager: in its ``with`` block, the nodes are switched."""
        return Switched(self.cluster, off=self.off, on=self.on)

    def _ordered(self) -> Transition:
        nodes = NodeChanges(
            power_on=list(self.coming),
            power_off=list(self.leaving),
            add_tags=self.added,
            remove_tags=self.removed,
        )
        left, orders = room(self.before), self.demands.orders if self.demands else ()
        with Switched(self.cluster, on=self.coming):  # no instance runs there: no fencing needed
            return transition_of_moves(
                self.cluster,
                left,
                self.moves,
                orders=orders,
                around=nodes,
                separations=self.separations(),
            )

    def document(self) -> Json:
        """Return the plan as plain data, with the nodes to switch, but without the transition."""
        names = self.cluster.node_names
        lines = [line.strip() for line in script(self.cluster, job_sets_of_steps(self.transition))]
        return super().document() | {
            "action": self.action,
            "nodes": names(self.nodes),
            **({"power_on": names(self.on)} if self.action == "both" else {}),
            "kept": [
                {"node": self.cluster.nodes[index].name, "reason": reason}
                for index, reason in self.kept.items()
            ],
            "tags": {"add": self._by_name(self.added), "remove": self._by_name(self.removed)},
            "commands": [line for line in lines if not line.startswith("echo ")],
        }

    def _by_name(self, tags: Mapping[int, list[str]]) -> Json:
        return {self.cluster.nodes[index].name: some for index, some in tags.items()}

    def after(self) -> State:
        """Switch and retag the nodes of the cluster for good; return the state after all moves."""
        added, removed = self.added, self.removed
        self.switched().__enter__()
        for index in self.nodes:
            node = self.cluster.nodes[index]
            retag(node, added.get(index, ()), removed.get(index, ()))
        return super().after()
