"""The steps that all commands have in common which plan moves."""

from __future__ import annotations

from iallocator.commands.command import Command, Result, ShownState
from iallocator.commands.progress import progress_line
from iallocator.commands.verification import ROUNDS, limits_of_plan, verified
from iallocator.deadline import Deadline, limit_reached
from iallocator.errors import tell
from iallocator.ganeti.commands import job_sets_of_moves, job_sets_of_steps, script
from iallocator.ganeti.jobs import transition_document
from iallocator.planners.plan import note_broken
from iallocator.render.plan import plan_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from iallocator.aliases import Json
    from iallocator.planners.plan_limits import PlanLimits
    from iallocator.planners.result import PlanResult
    from iallocator.render.page.view import PageView
    from iallocator.sources import Source

__all__ = ["PlanCommand"]

WELL = "Verified, all is well: no order of the steps that was tried breaks a limit"


class PlanCommand(Command):
    """A command that plans moves; a subclass has a planner, and may change the other methods.

    Attributes
    ----------
    suffixes:
        Endings of the files with the states before and after the plan.
    min_disk:
        The share of the disk of each node that stays free.
    """

    suffixes = ("original", "planned")

    def plan(self, source: Source, settings: Any, deadline: Deadline) -> Result:
        """Return the plan for `source`, which is verified before it is shown."""
        with progress_line("planning"):
            done = self.planner(source, settings, deadline)
        if deadline.over():
            done.remarks.append(limit_reached(settings.planning_seconds))
        return Planned(done, self)

    def planner(self, source: Source, settings: Any, deadline: Deadline) -> PlanResult:
        """Return the plan that `deadline` ends; `settings` are completed from tags."""
        raise NotImplementedError

    def broken_promises(self, done: PlanResult) -> list[str]:
        """Return what the plan is for and does not reach."""
        return []

    def hindrance(self, done: PlanResult) -> str:
        """Return why ``-X`` must not execute the plan, although it breaks no limit; or ""."""
        return ""

    def remarks(self, done: PlanResult) -> Iterable[str]:
        """Return what a person should know, for stderr."""
        return done.remarks

    def lines(self, plan: Json) -> Iterable[str] | None:
        """Return the plan as text for people; None for the text that all plans have."""
        return None

    @property
    def min_disk(self) -> float:
        """The share of the disk of each node that stays free."""
        return 0.0


class Planned(Result):
    """A plan, verified by `complete`."""

    def __init__(self, done: PlanResult, command: PlanCommand) -> None:
        super().__init__()
        self._done = done
        self._command = command
        self.interrupted = done.interrupted
        self.remarks = command.remarks(done)
        before, after = command.suffixes
        self.before = [ShownState("Initial", before, lambda: done.before)]
        self.after = [ShownState("Final", after, done.after)]

    def complete(self) -> bool:
        """Verify the plan; return whether what is left of it may be shown."""
        done, command, settings = self._done, self._command, self._command.settings

        def limits_of(done: PlanResult) -> PlanLimits:
            return limits_of_plan(done, command.effective, command.min_disk)

        self._limits = limits_of(done)
        with progress_line("checking the plan"):
            rounds = ROUNDS if settings.verify_plan else 0
            self.problems, sound = verified(done, limits_of, rounds)
        if done.in_turn:
            note_broken(done.before, done.entries, self._limits.relations)
        promises = command.broken_promises(done) if sound and not self.problems else []
        sound = sound and not promises
        self.problems += promises
        if sound:
            transition = transition_document(done.transition)
            self._document = {**done.document(), "transition": transition}
            hindrance = command.hindrance(done) if settings.execute else ""
            if hindrance:
                self.problems.append(f"the plan is not carried out: {hindrance}")
        else:
            tell("iallocator: the plan is refused, for it does not stand the test")
        self.executable = not self.problems
        self.status = int(bool(self.problems) or done.incomplete)
        return sound

    def text(self) -> str:
        """Return the plan as text for people."""
        plan = self._document
        lines = self._command.lines(plan)
        if lines is None:
            lines = plan_lines(plan, {n.name: n.group.name for n in self._done.cluster.nodes})
        well = [WELL] if self._command.settings.verify_plan else []
        return "".join(f"{line}\n" for line in (*lines, *well))

    def script(self) -> list[str]:
        """Return the commands for a shell; if hbal is followed, in the job sets of hbal."""
        done, transition = self._done, self._done.transition
        in_job_sets = self._command.settings.behaviour.runs_in_job_sets
        if in_job_sets and done.in_turn and not (done.leaving or done.coming):
            moves = [(move.instance.name, len(move.steps)) for move in done.moves]
            return script(done.cluster, job_sets_of_moves(transition, moves, done.job_sets()))
        return script(done.cluster, job_sets_of_steps(transition))

    def page(self) -> PageView:
        """Return the page; both ends are checked as far as there is time left for it."""
        from iallocator.documents.moments import Examination
        from iallocator.documents.plan import plan_facts
        from iallocator.render.page.plan_page import plan_page

        limits = self._limits
        deadline = Deadline.of_run(limits.settings.planning_seconds)
        how = Examination(limits.settings.n1, limits.min_disk, limits.relations, deadline)
        remarks = [*self.problems, *self._done.remarks]
        return plan_page(self._document, plan_facts(self._done, how, remarks))
