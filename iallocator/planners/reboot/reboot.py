"""Plan rolling reboots: groups of nodes, and the moves before and after each group."""

from __future__ import annotations

from iallocator.deadline import Stopped
from iallocator.errors import MOST_NAMES
from iallocator.ganeti.jobs import job_sets
from iallocator.light import copy
from iallocator.model.state import State
from iallocator.names import whole_name
from iallocator.planners.plan import PlanEntry, mark_colocation_groups
from iallocator.planners.quality import GROUPS_MEASURE
from iallocator.planners.reboot.drain_plan import (
    OPTIMAL_DRAIN_FACTOR,
    DrainPlanner,
    RebootContext,
    way_back,
)
from iallocator.planners.reboot.grouping import Grouping
from iallocator.planners.reboot.options import nodes_to_reboot
from iallocator.planners.result import PlanResult
from iallocator.transition.assemble import Round, transition_of_rounds
from iallocator.transition.requirements import demands_of
from iallocator.transition.resources import room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from iallocator.aliases import Json
    from iallocator.constraints.relations import Relations
    from iallocator.deadline import Deadline
    from iallocator.model.cluster import Cluster
    from iallocator.options.settings import Settings
    from iallocator.planners.reboot.drain_plan import DrainPlan
    from iallocator.planners.reboot.options import RebootOptions
    from iallocator.planners.verify import Problem
    from iallocator.transition.transition import Transition

__all__ = [
    "RebootGroup",
    "RebootResult",
    "plan_reboots",
    "shortfalls",
]

UNKNOWN_MASTER = "the master node is unknown: name it with --master-node, or --force"

NOTHING_REBOOTED = "no node can be rebooted"


class RebootGroup:
    """A group of nodes that are rebooted together.

    Attributes
    ----------
    nodes:
        Indices of the nodes, in their order of reboot.
    out:
        The moves that empty the nodes, before the reboot.
    back:
        The moves after the reboot.
    """

    __slots__ = ("back", "nodes", "out")

    def __init__(
        self, nodes: Sequence[int], out: Sequence[PlanEntry], back: Sequence[PlanEntry]
    ) -> None:
        self.nodes = tuple(nodes)
        self.out = list(out)
        self.back = list(back)


class RebootResult(PlanResult):
    """A plan that reboots groups of nodes one after the other.

    The instances of a group return before the next group.

    Attributes
    ----------
    relations:
        The affinity constraints; None if there are none.
    rounds:
        The groups of nodes, in their order of reboot.
    master:
        Index of the master node; -1 if it is not known.
    left:
        Index of each node that is not rebooted -> why.
    complete:
        Whether nodes were planned; False if the master node is unknown.
    settles:
        Whether the moves after a reboot begin only when all nodes of the group are online.
    """

    returns = True
    settles = False
    measure = GROUPS_MEASURE

    def __init__(self, cluster: Cluster, relations: Relations | None, master: int = -1) -> None:
        super().__init__("reboot", State(cluster), demands_of(relations))
        self.relations = relations
        self.rounds: list[RebootGroup] = []
        self.master = master
        self.complete = True
        self.left: Mapping[int, str] = {}
        self._units: Mapping[str, Sequence[str]] = {}
        if relations is not None:
            self._units = relations.units()

    @property
    def reached(self) -> float:
        """Return the number of groups in the plan."""
        return len(self.rounds)

    @property
    def incomplete(self) -> bool:
        """Return whether a node is in no group of the plan."""
        return bool(self.left) or not self.complete

    def add_group(self, nodes: Sequence[int], drain: DrainPlan) -> None:
        """Append the group `nodes` with the moves of `drain`, and the moves that reverse them.

        The score of each entry becomes the number of moves that must be reversed after it.
        """
        back = [PlanEntry(way_back(entry.move)) for entry in reversed(drain.entries)]
        mark_colocation_groups(back, self._units)
        for position, entry in enumerate(drain.entries, start=1):
            entry.score = float(position)
        for position, entry in enumerate(back, start=1):
            entry.score = float(len(back) - position)
        self.rounds.append(RebootGroup(nodes, drain.entries, back))
        self.add([*drain.entries, *back])

    def without(self, problem: Problem, reason: str) -> str:
        """Remove the group with the move that causes `problem`; return a description, or ""."""
        count = 0
        for one in self.rounds:
            count += len(one.out) + len(one.back)
            if problem.number <= count:
                return self.leave_out(one, reason)
        return ""

    def leave_out(self, part: object, reason: str) -> str:
        """Remove the group `part` from the plan, for `reason`; return a description, or ""."""
        for one in self.rounds:
            if one is part:
                self.rounds = [other for other in self.rounds if other is not one]
                self.plan.entries = [m for other in self.rounds for m in (*other.out, *other.back)]
                self.left = {**self.left, **dict.fromkeys(one.nodes, reason)}
                self._transition = None
                if self.plan.stop is None:
                    self.plan.reason = "" if self.rounds else NOTHING_REBOOTED
                return f"the reboot of {', '.join(self.cluster.node_names(one.nodes))}"
        return ""

    def parts(self) -> list[tuple[object, PlanResult]]:
        """Return each round of reboots with a plan of this round alone.

        The rounds are independent, because every instance returns before the next round.
        """
        parts: list[tuple[object, PlanResult]] = []
        for one in self.rounds:
            alone = copy(self)
            alone.plan, alone._transition = copy(self.plan), None
            alone.rounds, alone.plan.entries = [one], [*one.out, *one.back]
            parts.append((one, alone))
        return parts

    def _ordered(self) -> Transition:
        rounds = [
            Round(
                one.nodes,
                [entry.move for entry in one.out],
                [entry.move for entry in one.back],
                self.master,
                self.settles,
            )
            for one in self.rounds
        ]
        return transition_of_rounds(self.cluster, room(self.before), rounds, self.separations())

    def job_sets(self) -> list[list[int]]:
        """Return sets of positions of moves in the plan; moves of one set use different nodes."""
        sets: list[list[int]] = []
        first = 0
        for one in self.rounds:
            for entries in (one.out, one.back):
                some = job_sets([entry.move.nodes for entry in entries])
                sets += [[first + position for position in each] for each in some]
                first += len(entries)
        return sets

    def document(self) -> Json:
        """Return the plan as plain data, without its transition."""
        names = self.cluster.node_names
        return super().document() | {
            "reboots": [
                {
                    "nodes": names(one.nodes),
                    "moves": [
                        {
                            "instance": move.instance.name,
                            "nodes": names(move.after),
                            "chosen": move.after != move.before[::-1] or len(move.after) < 2,
                        }
                        for move in (entry.move for entry in one.out)
                    ],
                }
                for one in self.rounds
            ],
            "kept": [
                {"node": self.cluster.nodes[index].name, "reason": reason}
                for index, reason in self.left.items()
            ],
        }


def plan_reboots(
    cluster: Cluster,
    settings: Settings,
    options: RebootOptions,
    deadline: Deadline | None = None,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> RebootResult:
    """Return groups of nodes to reboot together, and the moves before and after each reboot.

    A signal or the time limit ends the search; the result has the groups found until then. Larger
    groups come first. The group of the master node comes last, with the master as its last node.
    `report` is called with the number of nodes that are done in the present stage, and the number
    of all nodes. Without a master node, nothing is planned, except with `RebootOptions.force`.

    Raises
    ------
    NotFoundError
        If the group, the master node, or a node of `RebootOptions.done` or `only` is unknown.
    """
    known = bool(options.master) or options.force
    nodes = [node.index for node in nodes_to_reboot(cluster, options)] if known else []
    context = RebootContext(cluster, settings, deadline)
    grouping = Grouping(cluster, DrainPlanner(context, options), report, options.most)
    if options.optimal:
        grouping.work *= OPTIMAL_DRAIN_FACTOR
    stop: Stopped | None = None
    try:
        with context.deadline:
            grouping.run(nodes)
    except Stopped as ended:
        stop = ended
        grouping.settle(nodes, stop.reason)
    master = -1
    if options.master:
        names = [node.name for node in cluster.nodes]
        master = names.index(whole_name(options.master, names, "--master-node", "node"))
    done = RebootResult(cluster, context.affinity.relations, master)
    done.left = grouping.left
    # Larger groups first; the group of the master last, with the master as its last node
    groups = [sorted(group, key=lambda k: (k == master, k)) for group in grouping.groups]
    groups.sort(key=lambda group: (master in group, -len(group), group))
    for group in groups[:1] if options.first_only else groups:
        done.add_group(group, grouping.plan(group))
    planned = len(done.rounds)

    def bounding() -> float | None:
        """Return the lower bound of the number of groups; None: unknown, or a group is left out.

        If no node is rebooted, the bound is 0 if it is proved for each node that it cannot be.
        """
        if not groups:
            return 0.0 if known and grouping.left_proved else None
        whole = len(done.rounds) == planned == len(groups)
        return float(grouping.bound) if whole and grouping.bound else None

    done.bounding = bounding
    if not groups:
        done.plan.reason = NOTHING_REBOOTED if grouping.left else "no node is to be rebooted"
    elif len(groups) <= grouping.bound:
        done.plan.reason = "no fewer groups are possible: proved"
    if stop is not None:
        done.plan.end(stop)
    if not known:
        done.plan.reason, done.complete = UNKNOWN_MASTER, False
        done.shortfalls.append(UNKNOWN_MASTER)
    done.shortfalls += shortfalls(cluster, grouping.left)
    return done


def shortfalls(cluster: Cluster, left: Mapping[int, str]) -> list[str]:
    """Return a list of one line that names the nodes of `left`; [] if `left` is empty.

    `left`: index of each node that is not rebooted -> why. The line has at most `MOST_NAMES` names.
    """
    names = cluster.node_names(list(left)[:MOST_NAMES])
    if not left:
        return []
    if len(left) == 1:
        return [f"{names[0]} is not rebooted: {next(iter(left.values()))}"]
    some = ", ".join(names) + ", ..." * (len(left) > MOST_NAMES)
    return [f"{len(left)} nodes are not rebooted: {some}"]
