"""What a round of reboots comes to: groups of nodes, and the moves around each of them."""

from __future__ import annotations

from copy import copy

from iallocator.ganeti.jobs import job_sets
from iallocator.model.state import State
from iallocator.planners.plan import PlanEntry, mark_colocation_groups
from iallocator.planners.reboot.absence import way_back
from iallocator.planners.result import PlanResult
from iallocator.transition.assemble import Round, transition_of_rounds
from iallocator.transition.resources import room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.aliases import Json
    from iallocator.model.moves import Move
    from iallocator.planners.reboot.absence import Away, RebootContext
    from iallocator.planners.verify import Problem
    from iallocator.transition.transition import Transition


__all__ = ["NO_NODE", "RebootGroup", "RebootResult"]

NO_NODE = "no node can be rebooted"


class RebootGroup:
    """Nodes that are rebooted together, in order, with the moves that empty them and fill them."""

    __slots__ = ("back", "nodes", "out")

    def __init__(
        self, nodes: Sequence[int], out: Sequence[PlanEntry], back: Sequence[PlanEntry]
    ) -> None:
        self.nodes = tuple(nodes)
        self.out = list(out)
        self.back = list(back)


class RebootResult(PlanResult):
    """Groups one after the other, each there and back again.

    Attributes
    ----------
    rounds:
        The groups in their order.
    left:
        Node -> why it is not rebooted.
    complete:
        Whether it is a plan for every node.
    """

    returns = True

    def __init__(self, context: RebootContext, master: int = -1) -> None:
        super().__init__("reboot", State(context.cluster), context.bonds.demands())
        self.rounds: list[RebootGroup] = []
        self.master = master
        self.complete = True
        self.left: Mapping[int, str] = {}
        self._units: Mapping[str, Sequence[str]] = {}
        if context.bonds.relations is not None:
            self._units = context.bonds.relations.units()

    def add_group(self, nodes: Sequence[int], away: Away) -> None:
        """Append a group."""
        back = [PlanEntry(way_back(entry.move)) for entry in reversed(away.entries)]
        mark_colocation_groups(back, self._units)
        for position, entry in enumerate(away.entries, start=1):
            entry.score = float(position)
        for position, entry in enumerate(back, start=1):
            entry.score = float(len(back) - position)
        self.rounds.append(RebootGroup(nodes, away.entries, back))
        self.add([*away.entries, *back])

    def without(self, problem: Problem, reason: str) -> str:
        """Leave out the whole group of nodes that the move belongs to."""
        count = 0
        for one in self.rounds:
            count += len(one.out) + len(one.back)
            if problem.number <= count:
                return self.leave_out(one, reason)
        return ""

    def leave_out(self, part: object, reason: str) -> str:
        """Do not reboot the nodes of one group, for `reason`."""
        for one in self.rounds:
            if one is part:
                self.rounds = [other for other in self.rounds if other is not one]
                self.plan.entries = [m for other in self.rounds for m in (*other.out, *other.back)]
                self.left = {**self.left, **dict.fromkeys(one.nodes, reason)}
                self._transition = None
                if self.plan.stop is None:
                    self.plan.reason = "" if self.rounds else NO_NODE
                return f"the reboot of {', '.join(self.cluster.node_names(one.nodes))}"
        return ""

    def parts(self) -> list[tuple[object, PlanResult]]:
        """Return each group of nodes, alone: every instance is back before the next group."""
        found: list[tuple[object, PlanResult]] = []
        for one in self.rounds:
            alone = copy(self)
            alone.plan, alone._transition = copy(self.plan), None
            alone.rounds, alone.plan.entries = [one], [*one.out, *one.back]
            found.append((one, alone))
        return found

    def _ordered(self) -> Transition:
        rounds = [
            Round(
                one.nodes,
                [entry.move for entry in one.out],
                [entry.move for entry in one.back],
                self.master,
            )
            for one in self.rounds
        ]
        return transition_of_rounds(self.cluster, room(self.before), rounds, self.separations())

    def job_sets(self) -> list[list[int]]:
        """Positions of the moves: those of a group that touch no common node at once."""
        sets: list[list[int]] = []
        first = 0
        for one in self.rounds:
            for entries in (one.out, one.back):
                some = job_sets([entry.move.nodes for entry in entries])
                sets += [[first + position for position in each] for each in some]
                first += len(entries)
        return sets

    def document(self) -> Json:
        """All but the transition as plain data."""
        names = self.cluster.node_names
        return super().document() | {
            "reboots": [
                {"nodes": names(one.nodes), "moves": [self._place(entry.move) for entry in one.out]}
                for one in self.rounds
            ],
            "kept": [
                {"node": self.cluster.nodes[index].name, "reason": reason}
                for index, reason in self.left.items()
            ],
        }

    def _place(self, move: Move) -> Json:
        return {
            "instance": move.instance.name,
            "nodes": self.cluster.node_names(move.after),
            "chosen": move.after != move.before[::-1] or len(move.after) < 2,
        }
