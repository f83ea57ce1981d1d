"""What the commands that plan between groups have in common: from settings to what is printed."""

from __future__ import annotations

import sys

from iallocator import options
from iallocator.commands.shared.plan_output import (
    COMMANDS_OPTION,
    GRAPH_OPTION,
    INTERRUPTED,
    JSON_OPTION,
    VERIFY_OPTION,
    say_progress,
    show_state_of,
    write_graph,
    write_plan,
)  # fmt: skip
from iallocator.errors import UsageError
from iallocator.options import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iallocator.planners.intergroup.context import Working
    from iallocator.planners.intergroup.result import SuperPlan
    from iallocator.sources import Source

__all__ = ["OPTIONS", "Settings", "plan_between"]


class Settings(options.Settings):
    """The settings of every command that plans between groups."""

    json: bool = False
    commands: str | None = None
    graph: str | None = None
    offline: Sequence[str] = ()
    verify_plan: bool = False


OPTIONS = (
    JSON_OPTION,
    COMMANDS_OPTION,
    GRAPH_OPTION,
    Option("--offline -O", "offline", "treat this node as offline; may repeat", str, "NODE",
           repeats=True),
    VERIFY_OPTION,
)  # fmt: skip


def plan_between(
    settings: Settings,
    positional: Sequence[str],
    find: Callable[[Working], SuperPlan],
    check: Callable[[Working, SuperPlan], list[str]],
    adjust: Callable[[Source], None] = lambda source: None,
) -> int:
    """Load the cluster, have `find` plan on it, print the plan; the exit status.

    `check` says what is wrong with the end of the plan, and `adjust` changes the cluster
    before anything else.
    """
    from iallocator.commands.shared.source import load_source
    from iallocator.engine import settle
    from iallocator.planners.broken import note_broken
    from iallocator.planners.eligible import set_offline

    try:
        source = load_source(settings, positional)
        adjust(source)
        cluster = source.cluster
        try:
            set_offline(cluster, settings.offline)
        except LookupError as error:
            raise UsageError(str(error.args[0])) from None
        remarks: list[str] = []
        whole = settle(cluster, {}, settings, remarks)
        for remark in remarks:
            print(remark, file=sys.stderr)
        working = _working(source, whole)
        done = find(working)
        note_broken(done.before, done.moves, working.bonds.relations)
    except KeyboardInterrupt:  # before anything was found
        return INTERRUPTED
    say_progress("")
    show_state_of(done.before, source, settings, "Initial", "original")
    show_state_of(done.after(), source, settings, "Final", "planned")
    problems = _write(done, settings)
    if settings.verify_plan:
        problems += check(_working(source, whole), done)
    for problem in problems:
        print(f"iallocator: {problem}", file=sys.stderr)
    if done.plan.interrupted:
        return INTERRUPTED
    return 1 if problems else 0


def _working(source: Source, settings: options.Settings) -> Working:
    from iallocator.planners.intergroup.context import Working

    return Working(source.cluster, settings, _remaining(settings.time_limit), say_progress)


def _remaining(seconds: float | None) -> Callable[[], float | None]:
    """Says how many of `seconds` are left; None for None."""
    if seconds is None:
        return lambda: None
    from time import monotonic

    end = monotonic() + seconds
    return lambda: end - monotonic()


def _write(done: SuperPlan, settings: Settings) -> list[str]:
    """The plan in the form that was asked for; what is wrong with its steps, if that is asked."""
    from iallocator.constraints.affinity_factory import relations_of
    from iallocator.constraints.transition_requirements import demands_of
    from iallocator.planners.broken import note_broken
    from iallocator.planners.intergroup.telling import (
        command_lines,
        plan_document,
        plan_lines,
        transition_of,
    )  # fmt: skip

    relations = None
    if not settings.like_hail:
        relations = relations_of(done.cluster, (), settings.tag_prefix)
    note_broken(done.before, done.moves, relations)
    transition = transition_of(done, demands_of(relations))
    write_plan(
        settings,
        lambda: plan_document(done, transition),
        lambda: plan_lines(done, transition),
        lambda: command_lines(transition),
    )
    write_graph(settings.graph, transition.document())
    if not settings.verify_plan:
        return []
    from iallocator.planners.verify import verify
    from iallocator.transition.verify import check

    return [
        *verify(done.before, done.moves, split=True, relations=relations),
        *check(done.before, transition),
    ]
