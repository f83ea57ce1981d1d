"""The result of a command that plans moves: the plan is verified before it is shown."""

from __future__ import annotations

from iallocator.commands.command import Result, ShownState
from iallocator.commands.progress import progress_line
from iallocator.commands.verification import limits_of_plan, verified
from iallocator.errors import STATUS_INCOMPLETE, tell
from iallocator.ganeti.commands import job_sets_of_moves, job_sets_of_steps, script
from iallocator.ganeti.jobs import transition_document
from iallocator.planners.plan import note_broken
from iallocator.render import TEXT
from iallocator.transition.execution import EXECUTION_ORDERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.aliases import Json
    from iallocator.commands.command import Command
    from iallocator.deadline import Deadline
    from iallocator.planners.plan_limits import PlanLimits
    from iallocator.planners.result import PlanResult

__all__ = ["Planned"]


class Planned(Result):
    """A plan that `complete` verifies; `late` says that the time limit ended the search for it."""

    def __init__(
        self, done: PlanResult, command: Command, deadline: Deadline, late: bool = False
    ) -> None:
        super().__init__()
        self._deadline = deadline
        self._late = late
        self._done = done
        self._command = command
        self.interrupted = done.interrupted
        self.remarks = [*done.remarks, *(f"iallocator: {one}" for one in done.shortfalls)]
        before, after = command.row.states
        self.before = [ShownState("Initial", before, lambda: done.before)]
        self.after = [ShownState("Final", after, done.after)]

    def complete(self) -> bool:
        """Verify the plan and leave out invalid parts; return whether the rest may be shown."""
        done, command, settings = self._done, self._command, self._command.settings

        def limits_of(done: PlanResult) -> PlanLimits:
            min_disk = getattr(settings, "min_disk", 0.0)
            return limits_of_plan(done, command.effective, min_disk)

        self._limits = limits_of(done)
        with progress_line("checking the plan"):
            rounds = EXECUTION_ORDERS if settings.verify_plan else 0
            self.problems, sound = verified(done, limits_of, rounds)
        rest = sound and done.serves_in_parts
        if done.in_turn:
            note_broken(done.before, done.entries, self._limits.relations)
        promises = command.broken_promises() if sound and (rest or not self.problems) else []
        sound = sound and not promises
        self.problems += promises
        if sound:
            if settings.behaviour.states_bounds:
                with progress_line("bounding the best possible result"):
                    done.assess(self._deadline)
                self.interrupted = done.interrupted
            transition = transition_document(done.transition)
            self._document = {**done.document(), "transition": transition}
            executed = settings.execute or settings.dry_run
            hindrance = command.hindrance() if executed else ""
            if hindrance:
                rest = False
                self.problems.append(f"the plan is not carried out: {hindrance}")
        else:
            tell("iallocator: the plan is rejected, because it failed its verification")
        self.executable = not self.problems or (rest and sound)
        self.status = STATUS_INCOMPLETE if self._late else 0
        if self.problems or done.incomplete:
            self.status = 1
        return sound

    def script(self) -> list[str]:
        """Return the shell commands of the plan; with ``--compat hail``, in hbal's job sets."""
        done, transition = self._done, self._done.transition
        in_job_sets = self._command.settings.behaviour.runs_in_job_sets
        if in_job_sets and done.in_turn and not (done.leaving or done.coming):
            moves = [(move.instance.name, len(move.steps)) for move in done.moves]
            sets = done.job_sets_from_end()
            return script(done.cluster, job_sets_of_moves(transition, moves, sets))
        return script(done.cluster, job_sets_of_steps(transition), done.hand_commands)

    def metrics(self) -> list[Json]:
        """Return the size and the effect of the plan."""
        from iallocator.documents.metrics import plan_metrics

        return plan_metrics(self._done)

    def facts(self, medium: str) -> Json:
        """Return the group of each node for the text; for the page, the health before and after.

        The health is examined as far as the time limit allows.
        """
        done, settings = self._done, self._command.settings
        if medium == TEXT:
            return {
                "group_of": {node.name: node.group.name for node in done.cluster.nodes},
                "settings": settings,
                "verified": settings.verify_plan,
            }
        from iallocator.documents.cluster_facts import Examination
        from iallocator.documents.plan import plan_facts

        how = Examination.of(self._limits.settings, self._limits.min_disk, self._limits.relations)
        return plan_facts(done, how, [*self.problems, *done.remarks, *done.shortfalls])
