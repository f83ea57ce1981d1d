"""What every command does that plans: read, plan, verify, show.

A plan is executed on the model against all limits before anything of it is printed.  If a
part of the plan breaks a limit, that part is left out.  If the rest is of no use, the plan is
rejected.  In both cases the reason is on stderr and the exit status is 1.
"""

from __future__ import annotations

from functools import partial

from iallocator.commands import module_of
from iallocator.commands.shared.execution_options import (
    EXECUTION_OPTIONS,
    UNDO_OPTION,
    ExecutionSettings,
    reject_contradictions,
    reject_silent_nodes,
)
from iallocator.commands.shared.plan_output import (
    COMMANDS_OPTION,
    GRAPH_OPTION,
    HTML_OPTION,
    INTERRUPTED,
    JSON_OPTION,
    VERIFY_OPTION,
    check_graph,
    check_outputs,
    check_saving,
    show_state_of,
    write_graph,
    write_html,
    write_plan,
)
from iallocator.commands.shared.progress import progress_line
from iallocator.commands.shared.source import load_source, measure
from iallocator.constraints.affinity_factory import relations_of
from iallocator.deadline import TIME_IS_UP, Deadline, limit_reached
from iallocator.engine import effective_settings, reading_for
from iallocator.errors import UsageError, tell
from iallocator.files import WholeOutput, check_writable
from iallocator.ganeti.commands import job_sets_of_moves, job_sets_of_steps, script
from iallocator.ganeti.jobs import transition_document
from iallocator.options import settings as options
from iallocator.options.table import COMMON
from iallocator.planners.balance.move_kinds import MoveRules
from iallocator.planners.direct import direct_moves, rescore_all
from iallocator.planners.outcome import Failures
from iallocator.planners.plan import note_broken
from iallocator.planners.plan_limits import PlanLimits
from iallocator.planners.result import GroupPlans
from iallocator.planners.undo import UndoResult, plan_undo
from iallocator.planners.verify import verify_moves, verify_transition
from iallocator.render.plan import plan_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from iallocator.aliases import Json
    from iallocator.compat import Behaviour
    from iallocator.model.cluster import Cluster
    from iallocator.planners.result import PlanResult
    from iallocator.render.page.view import PageView
    from iallocator.sources import Source
    from iallocator.transition.transition import Transition

    Load = Callable[[], Cluster]

__all__ = [
    "OPTIONS", "Planner", "Settings", "limits_of_plan", "run_planner", "without_needless_copies",
]  # fmt: skip

OPTIONS = (
    JSON_OPTION, COMMANDS_OPTION, GRAPH_OPTION, HTML_OPTION, VERIFY_OPTION, *EXECUTION_OPTIONS,
    UNDO_OPTION,
)  # fmt: skip


ROUNDS = 10
"""Other orders of the steps that ``--verify-plan`` tries."""

WELL = "Verified, all is well: no order of the steps that was tried breaks a limit"


IDLE = frozenset({
    "restrict_allocation_to", "compat", "exact_search", "optimal", "strategy", "stickiness",
    "make_room", "cost", "top", "ignore_dynu", "mond", "mond_data", "mond_xen",
    "exit_on_missing_mond_data", "affinity_overhead", "initial_msav", "final_msav", "msav_steps",
    "seed",
})  # fmt: skip
"""Common options of planners that search: here the goal of each instance is known."""


class Settings(ExecutionSettings):
    """The settings of every command that plans."""

    commands: str | None = None
    graph: str | None = None
    html: str | None = None
    verify_plan: bool = False
    undo: str = ""


class Planner:
    """What one command brings to the run; every method may be left as it is but `plan`.

    Attributes
    ----------
    command:
        Its name.
    suffix:
        Of the file with the state after the plan.
    """

    command = ""
    suffix = "planned"

    def asked(self, source: Source) -> Mapping[str, Any]:
        """The settings that the document asks for."""
        return {}

    def adjust(self, source: Source) -> None:
        """Change the cluster before anything else."""

    def plan(self, source: Source, settings: options.Settings, deadline: Deadline) -> PlanResult:
        """Plan; `settings` are those that count; `deadline` ends it."""
        raise NotImplementedError

    def broken_promises(
        self, source: Source, settings: options.Settings, done: PlanResult
    ) -> list[str]:
        """What the plan does not keep in the end of what it is for."""
        return []

    def hindrance(self, done: PlanResult) -> str:
        """Return why ``-X`` must not carry the plan out, although it breaks no limit; or ""."""
        return ""

    def warn(self, done: PlanResult) -> None:
        """Say on stderr what a person should know."""
        tell(*done.remarks)

    def incomplete(self, done: PlanResult) -> bool:
        """Whether the plan leaves out something that was asked for, which `warn` has told."""
        return False

    def lines(self, plan: Json) -> Iterator[str] | None:
        """The plan for people; None: as all plans are written."""
        return None

    def master(self, source: Source) -> str:
        """The master node; "": unknown."""
        return source.master

    def group(self) -> str:
        """The only group that the lists are to show; "": all."""
        return ""

    def min_disk(self) -> float:
        """The share of every node's disk that stays free."""
        return 0.0


class Undoing(Planner):
    """Plans the way back of the instances that the journal `path` has moved away."""

    command = "undo"
    suffix = "undone"

    def __init__(self, path: str) -> None:
        self._path = path

    def plan(self, source: Source, settings: options.Settings, deadline: Deadline) -> PlanResult:
        """Plan the moves back, as far as the limits allow."""
        from iallocator.commands.shared.execute import told_by
        from iallocator.execution.report import moved_away

        cluster = source.cluster
        _, records = told_by(self._path)
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
        """Whether some instance stays away."""
        assert isinstance(done, UndoResult)
        return bool(done.staying)


def run_planner(settings: Settings, positional: Sequence[str], planner: Planner) -> int:
    """Load the cluster, plan, verify, show the plan; the exit status."""
    reject_contradictions(settings)
    if settings.undo:
        _reject_idle(settings, planner.command)
        planner = Undoing(settings.undo)
    check_graph(settings.graph, positional)
    check_writable(settings.commands)
    check_outputs(settings)
    check_saving(settings, "original", planner.suffix)
    load = partial(_cluster, settings, positional, planner)
    if settings.resume:
        from iallocator.commands.shared.execute import resume

        return resume(settings, load)
    with progress_line("reading the cluster"):
        source = load_source(settings, positional)
    planner.adjust(source)
    measure(source, settings)
    doubts: list[str] = []
    effective = effective_settings(source.cluster, planner.asked(source), settings, doubts)
    tell(*doubts)
    with progress_line("planning"):
        deadline = Deadline.of_run(effective.planning_seconds)
        done = planner.plan(source, effective, deadline)
        if deadline.over():
            done.remarks.append(limit_reached(effective.planning_seconds))
    with WholeOutput():
        status, plan = _show(done, planner, source, settings, effective)
    if plan is None or not settings.execute:
        return status
    return max(status, _carry_out(done, plan, planner, settings, load))


def _reject_idle(settings: Settings, command: str) -> None:
    """Reject options that say how `command` searches.

    Raises
    ------
    UsageError
        Says which.
    """
    own = [one for one in module_of(command).OPTIONS if one not in OPTIONS]
    names = {option.target: option.names[0] for option in (*COMMON, *own)}
    idle = IDLE | {option.target for option in own}
    wrong = sorted(settings.chosen & idle)
    if wrong:
        raise UsageError(f"--undo moves back what the journal has moved: no {names[wrong[0]]}")


def _show(
    done: PlanResult,
    planner: Planner,
    source: Source,
    settings: Settings,
    effective: options.Settings,
) -> tuple[int, Json | None]:
    """Verify the plan and show what of it stands the test.

    The exit status, and the plan if it may be carried out: nothing is wrong with it, and
    nobody interrupted it.
    """
    planner.warn(done)
    master, only = planner.master(source), planner.group()
    show_state_of(lambda: done.before, source, settings, "Initial", "original", master, only)
    limits_of = partial(limits_of_plan, settings=effective, min_disk=planner.min_disk())
    limits = limits_of(done)
    plan = None
    with progress_line("checking the plan"):
        problems, sound = _verified(done, limits_of, _rounds(settings))
    if done.in_turn:
        note_broken(done.before, done.entries, limits.relations)
    promises = planner.broken_promises(source, effective, done) if sound and not problems else []
    if promises or not sound:
        problems += promises
        tell("iallocator: the plan is refused, for it does not stand the test")
    else:
        whole = _document(done)
        hindrance = planner.hindrance(done) if settings.execute else ""
        plan = None if problems or done.interrupted or hindrance else whole
        if hindrance:
            problems.append(f"the plan is not carried out: {hindrance}")
        if not (plan and settings.execute and settings.json):
            _write(done, planner, settings, whole)
        show_state_of(done.after, source, settings, "Final", planner.suffix, master, only)
        write_html(settings.html, partial(_page, done, whole, limits, problems))
    tell(*(f"iallocator: {problem}" for problem in problems))
    if done.interrupted:
        return INTERRUPTED, None
    return 1 if problems or planner.incomplete(done) else 0, plan


def _cluster(settings: Settings, positional: Sequence[str], planner: Planner) -> Cluster:
    """The cluster, read anew while a plan is carried out."""
    from iallocator.sources import load

    source = load(settings, positional, reading_for(settings), in_run=False)
    reject_silent_nodes(source.cluster, settings)
    planner.adjust(source)
    return source.cluster


def limits_of_plan(done: PlanResult, settings: options.Settings, min_disk: float) -> PlanLimits:
    """What the plan is held to."""
    relations = None
    if settings.behaviour.knows_affinity:
        relations = relations_of(done.cluster, done.new_instances, settings.tag_prefix)
    return PlanLimits(
        settings,
        relations,
        between_groups=done.between_groups,
        leaving=frozenset(done.leaving),
        coming=frozenset(done.coming),
        hopeless=frozenset(done.hopeless),
        left_out=done.left_out,
        min_disk=min_disk,
        returns=done.returns,
    )


def _rounds(settings: Settings) -> int:
    return ROUNDS if settings.verify_plan else 0


def _verified(
    done: PlanResult, limits_of: Callable[[PlanResult], PlanLimits], rounds: int
) -> tuple[list[str], bool]:
    """Return what is wrong with a plan, and whether what is left of it may be printed.

    Moves that are wrong are left out, as often as it takes, if the rest of the plan is of use:
    a group whose plan is wrong does not discard the plans of other groups.  If the parts of a
    plan are correct alone and wrong together, the last part is left out.  When time is up, only
    one more order of the steps is tried, and that is reported.
    """
    told: list[str] = []
    late: list[bool] = []
    deadline = Deadline.of_run(limits_of(done).settings.planning_seconds)

    def over() -> bool:
        if deadline.over():
            late.append(True)
        return bool(late)

    def check(limits: PlanLimits, failures: Failures) -> list[str]:
        return verify_transition(done.before, done.transition, limits, rounds, over, failures)

    while True:
        limits = limits_of(done)
        failures = Failures(limits)
        problems = verify_moves(done.before, done.entries, limits, failures) if done.in_turn else []
        if problems:
            told += map(str, problems)
            first = problems[0]
            cut = done.without(first, f"move {first.number} breaks a limit: {first.text}")
            if not cut:
                return told, False
            told.append(f"left out: {cut}")
            continue
        checked = partial(check, limits, failures)
        direct = without_needless_copies(done, limits, failures, over, checked)
        wrong = [] if direct else checked()
        if wrong:
            told += wrong
            parts = done.parts()
            faults: dict[object, str] = {}
            for part, alone in parts if len(parts) > 1 else ():
                own = limits_of(alone)
                if text := next(iter(verify_transition(done.before, alone.transition, own)), ""):
                    faults[part] = text
            if len(parts) < 2 or len(faults) == len(parts):
                return told, False
        else:
            failed = done.failed_parts()
            told += (text for _, text in failed)
            parts, faults = [], dict(failed)
            if not faults:
                break
        for part, text in (faults or {parts[-1][0]: wrong[0]}).items():
            cut = done.leave_out(part, text)
            if not cut:
                return told, False
            told.append(f"left out: {cut}")
    if late and rounds:
        tell(f"iallocator: {TIME_IS_UP} before all {rounds} other orders of the steps were tried")
    return told, True


def without_needless_copies(
    done: PlanResult,
    limits: PlanLimits,
    failures: Failures,
    over: Callable[[], bool],
    check: Callable[[], list[str]],
) -> bool:
    """Replace several moves of an instance by fewer ones; return whether that was possible.

    Planners between groups move each instance once, `place` goes from the first to the last places
    at once, and `reboot` means every move.

    `check` returns what is wrong with the transition. If anything is, the moves stay as they were.
    """
    settings = limits.settings
    if not (isinstance(done, GroupPlans) and settings.behaviour.avoids_needless_copies):
        return False
    rules = MoveRules(
        disk_moves=not getattr(settings, "no_disk_moves", False),
        instance_moves=not getattr(settings, "no_instance_moves", False),
        restricted=getattr(settings, "restricted_migration", False),
    )
    found = direct_moves(done, limits, failures, rules, over)
    if found is None:
        return False
    before = done.replace_moves(found)
    if check():
        done.replace_moves(before)
        return False
    rescore_all(done, limits)
    return True


def _document(done: PlanResult) -> Json:
    """The plan as plain data, with its transition."""
    return {**done.document(), "transition": transition_document(done.transition)}


def _write(done: PlanResult, planner: Planner, settings: Settings, plan: Json) -> None:
    """The plan in the form that was asked for."""
    group_of = {node.name: node.group.name for node in done.cluster.nodes}
    write_plan(
        settings,
        lambda: plan,
        lambda: (
            *(planner.lines(plan) or plan_lines(plan, group_of)),
            *([WELL] if settings.verify_plan else ()),
        ),
        lambda: _commands(done, done.transition, settings.behaviour),
    )
    write_graph(settings.graph, plan["transition"])


def _page(done: PlanResult, plan: Json, limits: PlanLimits, told: Sequence[str]) -> PageView:
    """The page of the plan; its ends are judged as far as there is time left for it."""
    from iallocator.render.page.plan_page import plan_page
    from iallocator.render.page.standing import Judging

    over = Deadline.of_run(limits.settings.planning_seconds).over
    judging = Judging(limits.settings.n1, limits.min_disk, limits.relations, over)
    return plan_page(done, plan, judging, [*told, *done.remarks])


def _carry_out(
    done: PlanResult, plan: Json, planner: Planner, settings: Settings, load: Load
) -> int:
    """Carry a plan out and show what came of it: in JSON as a member of the plan."""
    from iallocator.commands.shared.execute import begin, show_report

    found, status = begin(settings, done.plan.command, plan["transition"], done.cluster, load)
    with WholeOutput():
        if settings.json:
            plan["execution"] = found
            _write(done, planner, settings, plan)
        else:
            show_report(found, settings)
    return status


def _commands(done: PlanResult, transition: Transition, behaviour: Behaviour) -> list[str]:
    """Lines for a shell that carry the plan out; where hbal is followed, in its job sets."""
    if behaviour.runs_in_job_sets and done.in_turn and not (done.leaving or done.coming):
        moves = [(move.instance.name, len(move.steps)) for move in done.moves]
        return script(done.cluster, job_sets_of_moves(transition, moves, done.job_sets()))
    return script(done.cluster, job_sets_of_steps(transition))
