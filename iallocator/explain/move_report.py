"""The report on one instance that is moved, put together bit by bit."""

from __future__ import annotations

from iallocator.explain.affinity import wish_notes
from iallocator.explain.contributions import Contributions, standing
from iallocator.explain.explanation import Decision, GroupReport
from iallocator.explain.facts import Placed, Term
from iallocator.explain.limits import exclusions, node_reports, possible
from iallocator.explain.steps import step_reports
from iallocator.explain.strategy import note_order, placed_by
from iallocator.model.moves import FAILOVER
from iallocator.placement.moves import MoveResult
from iallocator.render.words import subject

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from iallocator.explain.limits import RolesTested
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context
    from iallocator.placement.moves import MoveOption

    Told = tuple[Decision, MoveOption | None]
    """What is told of an instance, and how it moves."""

__all__ = ["MoveExplanation", "at_present", "refused"]


def at_present(context: Context, instance: Instance) -> list[str]:
    """The nodes that the instance is on, primary first."""
    return context.cluster.node_names(context.state.where[instance.name])


def refused(context: Context, instance: Instance, reason: str) -> Decision:
    """The decision on an instance that cannot be moved at all, whatever its nodes say."""
    decision = Decision(instance.name, subject(instance), None, [], reason=reason)
    decision.present = at_present(context, instance)
    if not instance.mirrored:
        decision.notes.append(
            f"Disks of type {instance.template} are on {decision.present[0]} only: "
            "no other node has a copy, and none can reach them."
        )
    return decision


class MoveExplanation:
    """What is known so far of moving `instance` to, or within, `group`, not to nodes in `left`.

    Attributes
    ----------
    present:
        The nodes it is on, primary first.
    excluded:
        Per node of the group, why it is no target; empty for those that are.
    outcome:
        The answer.
    report:
        What is told of the group.
    """

    def __init__(
        self, context: Context, instance: Instance, group: Group, left: Collection[int] = ()
    ) -> None:
        nodes = context.cluster.nodes
        self.context = context
        self.instance = instance
        self.group = group
        self.present = context.state.where[instance.name]
        self.excluded = {index: exclusions(nodes[index], None) for index in group.nodes}
        self.outcome = MoveResult()
        self.report = GroupReport(group.name, group.uuid, group.alloc_policy)
        self._before = standing(context.state, group.nodes)
        self._left: Collection[int] = ()
        self.exclude(left, "is to be evacuated")
        self._left = left

    @property
    def targets(self) -> list[int]:
        """The nodes of the group that are not excluded."""
        return [index for index in self.group.nodes if not self.excluded[index]]

    def exclude(self, nodes: Iterable[int], why: str) -> None:
        """Take those of `nodes` that are in the group off the targets; evacuated ones are."""
        for index in nodes:
            if index in self.excluded and index not in self._left:
                self.excluded[index].append(why)

    def off(self) -> Off:
        """A ``with`` block in which the instance is on no node."""
        return Off(self.context, self.instance)

    def survey(self, seats: RolesTested) -> None:
        """Ask every node of the group, and score the ways found; within `off` only."""
        report = self.report
        report.nodes = node_reports(self.context, self.group, seats, self.excluded)
        report.successes = possible(report.nodes)
        report.failures = self.outcome.failures
        if self.outcome.order is not None:
            note_order(report, self.outcome.order, self.context.cluster)
        report.placements = list(self._placements())

    def _placements(self) -> Iterator[Placed]:
        state, scope = self.context.state, self.group.nodes
        scored = Contributions(state, scope, self.instance, self._before)
        order = self.outcome.order
        if order is not None:
            found = [(m.nodes, m.score, scored.of(m.nodes)) for m in self.outcome.moves]
            yield from placed_by(order, self.context.cluster, self.group.name, found)
            return
        for move in self.outcome.moves:
            terms = scored.of(move.nodes)
            if move.steps[0][0] == FAILOVER and len(move.steps) == 1:
                terms = self._exchanged(move)
            names = self.context.cluster.node_names(move.nodes)
            yield Placed(self.group.name, names, move.score, terms)

    def _exchanged(self, move: MoveOption) -> list[Term]:
        """The statistics after a failover, whose new primary need not be online."""
        state = self.context.state
        with state.trial():
            state.place(self.instance, move.nodes)
            after = standing(state, self.group.nodes)
        return [
            Term(old.name, old.weight, old.before, new.after)
            for old, new in zip(self._before, after)
        ]

    def told(self) -> Told:
        """All that is known, as a decision, and the move to carry out."""
        context, best = self.context, self.outcome.best
        answer = self.report.placements[0] if best else None
        decision = Decision(self.instance.name, subject(self.instance), answer, [self.report])
        decision.present = context.cluster.node_names(self.present)
        decision.reason = "" if best else self.outcome.message
        if best is not None:
            decision.steps = step_reports(context, self.instance, best.steps)
            decision.notes += wish_notes(best.extra)
        return decision, best


class Off:
    """A trial in which an instance is on no node."""

    def __init__(self, context: Context, instance: Instance) -> None:
        self._state = context.state
        self._instance = instance
        self._trial = context.state.trial()

    def __enter__(self) -> None:
        self._trial.__enter__()
        self._state.remove(self._instance, self._state.where[self._instance.name])

    def __exit__(self, *problem: object) -> None:
        self._trial.__exit__(*problem)
