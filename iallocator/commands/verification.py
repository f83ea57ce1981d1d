"""The verification that every plan passes before anything of it is printed.

A plan is executed on the model against all limits.  If a part of the plan breaks a limit, that
part is left out.  If the rest is of no use, the plan is rejected.
"""

from __future__ import annotations

from functools import partial

from iallocator.commands.command import enforced_relations
from iallocator.deadline import TIME_IS_UP, Deadline
from iallocator.errors import tell
from iallocator.planners.balance.move_kinds import MoveRules
from iallocator.planners.direct import direct_moves, rescore_all
from iallocator.planners.outcome import Failures
from iallocator.planners.plan_limits import PlanLimits, PowerChanges
from iallocator.planners.result import GroupPlans
from iallocator.planners.verify import verify_moves, verify_transition

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from iallocator.options.settings import Settings
    from iallocator.planners.result import PlanResult

__all__ = ["limits_of_plan", "verified", "without_needless_copies"]


def limits_of_plan(done: PlanResult, settings: Settings, min_disk: float) -> PlanLimits:
    """Return the limits against which the plan is checked."""
    return PlanLimits(
        settings,
        enforced_relations(done.cluster, settings, done.new_instances, done.moves_are_optional),
        between_groups=done.between_groups,
        power=PowerChanges(frozenset(done.leaving), frozenset(done.coming)),
        intolerable_nodes=frozenset(done.intolerable_nodes),
        left_out=done.left_out,
        min_disk=min_disk,
        returns=done.returns,
    )


def verified(
    done: PlanResult, limits_of: Callable[[PlanResult], PlanLimits], rounds: int
) -> tuple[list[str], bool]:
    """Verify a plan; return its problems, and whether the plan without them may be printed.

    Parts that break a limit are left out, one after the other, while the rest is of use: a problem
    of one group does not discard the plans of other groups.  If each part of a plan is correct
    alone, but all together are not, the last part is left out.  When time is up, only one more
    order of the steps is tried, and that is reported.
    """
    problems_found: list[str] = []
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
            problems_found += map(str, problems)
            first = problems[0]
            cut = done.without(first, f"move {first.number} breaks a limit: {first.text}")
            if not cut:
                return problems_found, False
            problems_found.append(f"left out: {cut}")
            continue
        checked = partial(check, limits, failures)
        direct = without_needless_copies(done, limits, failures, over, checked)
        wrong = [] if direct else checked()
        if wrong:
            problems_found += wrong
            parts = done.parts()
            faults: dict[object, str] = {}
            for part, alone in parts if len(parts) > 1 else ():
                own = limits_of(alone)
                if text := next(iter(verify_transition(done.before, alone.transition, own)), ""):
                    faults[part] = text
            if len(parts) < 2 or len(faults) == len(parts):
                return problems_found, False
        else:
            failed = done.failed_parts()
            problems_found += (text for _, text in failed)
            parts, faults = [], dict(failed)
            if not faults:
                break
        for part, text in (faults or {parts[-1][0]: wrong[0]}).items():
            cut = done.leave_out(part, text)
            if not cut:
                return problems_found, False
            problems_found.append(f"left out: {cut}")
    if late and rounds:
        tell(f"iallocator: {TIME_IS_UP} before all {rounds} other orders of the steps were tried")
    return problems_found, True


def without_needless_copies(
    done: PlanResult,
    limits: PlanLimits,
    failures: Failures,
    over: Callable[[], bool],
    check: Callable[[], list[str]],
) -> bool:
    """Replace several moves of an instance by fewer ones; return whether that was possible.

    Only plans of balancing within groups are changed. In the other plans, each instance moves once,
    or every move is intended (`reboot`).

    `check` returns the problems of the transition. If there is one, the moves stay unchanged.
    `over` returns whether the time is up.
    """
    settings = limits.settings
    if not (isinstance(done, GroupPlans) and settings.behaviour.avoids_needless_copies):
        return False
    rules = MoveRules(
        disk_moves=not getattr(settings, "no_disk_moves", False),
        instance_moves=not getattr(settings, "no_instance_moves", False),
        restricted=getattr(settings, "restricted_migration", False),
    )
    shorter = direct_moves(done, limits, failures, rules, over)
    if shorter is None:
        return False
    before = done.replace_moves(shorter)
    if check():
        done.replace_moves(before)
        return False
    rescore_all(done, limits)
    return True
