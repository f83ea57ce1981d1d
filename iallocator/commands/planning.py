"""What every command that plans moves has in common: its options, and the steps of `plan`."""

from __future__ import annotations

from iallocator.commands.command import Command, Result, ShownState
from iallocator.commands.progress import progress_line
from iallocator.commands.shared_options import (
    COMMANDS_OPTION,
    EXECUTION_OPTIONS,
    GRAPH_OPTION,
    HTML_OPTION,
    JSON_OPTION,
    UNDO_OPTION,
    VERIFY_OPTION,
    ExecutionSettings,
    reject_contradictions,
)
from iallocator.deadline import Deadline, limit_reached
from iallocator.errors import UsageError, tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from iallocator.aliases import Json
    from iallocator.options.settings import Settings as Common
    from iallocator.options.table import Option
    from iallocator.planners.plan_limits import PlanLimits
    from iallocator.planners.result import PlanResult
    from iallocator.render.page.view import PageView
    from iallocator.sources import Source

__all__ = ["PLAN_OPTIONS", "PlanCommand", "PlanSettings"]

PLAN_OPTIONS = (
    JSON_OPTION, COMMANDS_OPTION, GRAPH_OPTION, HTML_OPTION, VERIFY_OPTION, *EXECUTION_OPTIONS,
    UNDO_OPTION,
)  # fmt: skip

IDLE = frozenset({
    "restrict_allocation_to", "compat", "exact_search", "optimal", "strategy", "stickiness",
    "make_room", "cost", "top", "ignore_dynu", "mond", "mond_data", "mond_xen",
    "exit_on_missing_mond_data", "affinity_overhead", "initial_msav", "final_msav", "msav_steps",
    "seed",
})  # fmt: skip
"""Common options of planners that search; with ``--undo`` the goal of each instance is known."""


WELL = "Verified, all is well: no order of the steps that was tried breaks a limit"


class PlanSettings(ExecutionSettings):
    """The settings of every command that plans."""

    commands: str | None = None
    graph: str | None = None
    html: str | None = None
    verify_plan: bool = False
    undo: str = ""


class PlanCommand(Command):
    """A command that plans moves; a subclass has a planner, and may change the other methods.

    Attributes
    ----------
    suffix:
        The ending of the file with the state after the plan.
    """

    options: Sequence[Option] = PLAN_OPTIONS
    settings_type = PlanSettings
    suffix = "planned"

    @property
    def suffixes(self) -> tuple[str, str]:  # type: ignore[override]
        """Endings of the files with the states before and after the plan."""
        return "original", self.suffix

    def check(self) -> None:
        """Reject options that contradict each other, and with ``--undo`` those of a search."""
        settings = self.settings
        reject_contradictions(settings)
        if not settings.undo:
            return
        from iallocator.options.table import COMMON

        own = [one for one in self.options if one not in PLAN_OPTIONS]
        names = {option.target: option.names[0] for option in (*COMMON, *own)}
        idle = IDLE | {option.target for option in own}
        wrong = sorted(settings.chosen & idle)
        if wrong:
            raise UsageError(f"--undo moves back what the journal has moved: no {names[wrong[0]]}")

    def substitute(self) -> Command:
        """Return the command that plans the way back if ``--undo`` names a journal."""
        if not self.settings.undo:
            return self
        return Undo("undo", self.settings, self.positional)

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
        """Return why ``-X`` must not carry the plan out, although it breaks no limit; or ""."""
        return ""

    def remarks(self, done: PlanResult) -> Iterable[str]:
        """Return what a person should know, for stderr."""
        return done.remarks

    def incomplete(self, done: PlanResult) -> bool:
        """Return whether the plan leaves out something that was asked for."""
        return False

    def lines(self, plan: Json) -> Iterable[str] | None:
        """Return the plan as text for people; None for the text that all plans have."""
        return None

    def min_disk(self) -> float:
        """Return the share of every node's disk that stays free."""
        return 0.0


class Undo(PlanCommand):
    """Plans the way back of the instances that the journal has moved away."""

    suffix = "undone"

    def substitute(self) -> Command:
        """Return this command."""
        return self

    def planner(self, source: Source, settings: Common, deadline: Deadline) -> PlanResult:
        """Plan the moves back, as far as the limits allow."""
        from iallocator.commands.execution import told_by
        from iallocator.execution.report import moved_away
        from iallocator.planners.undo import plan_undo

        cluster = source.cluster
        _, records = told_by(self.settings.undo)
        now = {one.name: cluster.node_names(one.nodes) for one in cluster.instances}
        moved = moved_away(records, now)
        done = plan_undo(cluster, settings, moved, deadline)
        if not moved:
            done.plan.reason = "the journal has moved no instance that is not back already"
        if done.staying:
            done.remarks.append(
                f"iallocator: {len(done.staying)} of {len(moved)} instances stay where they are: "
                + "; ".join(f"{name}: {why}" for name, why in list(done.staying.items())[:5])
            )
        return done

    def incomplete(self, done: PlanResult) -> bool:
        """Return whether some instance stays away."""
        from iallocator.planners.undo import UndoResult

        assert isinstance(done, UndoResult)
        return bool(done.staying)


class Planned(Result):
    """A plan, verified by `complete`."""

    def __init__(self, done: PlanResult, command: PlanCommand) -> None:
        super().__init__()
        self._done = done
        self._command = command
        self._document: Json = {}

    @property
    def status(self) -> int:  # type: ignore[override]
        """The exit status."""
        return int(bool(self.problems) or self._command.incomplete(self._done))

    @property
    def interrupted(self) -> bool:  # type: ignore[override]
        """Whether a signal ended the search for moves."""
        return self._done.interrupted

    def remarks(self) -> Iterable[str]:
        """Return what a person should know."""
        return self._command.remarks(self._done)

    @property
    def executable(self) -> bool:  # type: ignore[override]
        """Whether nothing is wrong with the plan."""
        return not self.problems

    def states_before(self) -> Iterable[ShownState]:
        """Return the state at which the plan begins."""
        return [ShownState("Initial", "original", lambda: self._done.before)]

    def complete(self) -> bool:
        """Verify the plan; return whether what is left of it may be shown."""
        from iallocator.commands.verification import ROUNDS, limits_of_plan, verified
        from iallocator.ganeti.jobs import transition_document
        from iallocator.planners.plan import note_broken

        done, command, settings = self._done, self._command, self._command.settings

        def limits_of(done: PlanResult) -> PlanLimits:
            return limits_of_plan(done, command.effective, command.min_disk())

        self._limits = limits_of(done)
        with progress_line("checking the plan"):
            rounds = ROUNDS if settings.verify_plan else 0
            self.problems, sound = verified(done, limits_of, rounds)
        if done.in_turn:
            note_broken(done.before, done.entries, self._limits.relations)
        promises = command.broken_promises(done) if sound and not self.problems else []
        if promises or not sound:
            self.problems += promises
            tell("iallocator: the plan is refused, for it does not stand the test")
            return False
        self._document = {**done.document(), "transition": transition_document(done.transition)}
        hindrance = command.hindrance(done) if settings.execute else ""
        if hindrance:
            self.problems.append(f"the plan is not carried out: {hindrance}")
        return True

    def states_after(self) -> Iterable[ShownState]:
        """Return the state after the plan."""
        return [ShownState("Final", self._command.suffix, self._done.after)]

    def document(self) -> Json:
        """Return the plan as plain data, with its transition."""
        return self._document

    def text(self) -> str:
        """Return the plan as text for people."""
        plan = self._document
        lines = self._command.lines(plan)
        if lines is None:
            from iallocator.render.plan import plan_lines

            lines = plan_lines(plan, {n.name: n.group.name for n in self._done.cluster.nodes})
        well = [WELL] if self._command.settings.verify_plan else []
        return "".join(f"{line}\n" for line in (*lines, *well))

    def script(self) -> list[str]:
        """Return the commands for a shell; if hbal is followed, in the job sets of hbal."""
        from iallocator.ganeti.commands import job_sets_of_moves, job_sets_of_steps, script

        done, transition = self._done, self._done.transition
        in_job_sets = self._command.settings.behaviour.runs_in_job_sets
        if in_job_sets and done.in_turn and not (done.leaving or done.coming):
            moves = [(move.instance.name, len(move.steps)) for move in done.moves]
            return script(done.cluster, job_sets_of_moves(transition, moves, done.job_sets()))
        return script(done.cluster, job_sets_of_steps(transition))

    def page(self) -> PageView:
        """Return the page; both ends are checked as far as there is time left for it."""
        from iallocator.render.page.plan_page import plan_page
        from iallocator.render.page.standing import Judging

        limits = self._limits
        deadline = Deadline.of_run(limits.settings.planning_seconds)
        judging = Judging(limits.settings.n1, limits.min_disk, limits.relations, deadline)
        return plan_page(self._done, self._document, judging, [*self.problems, *self._done.remarks])
