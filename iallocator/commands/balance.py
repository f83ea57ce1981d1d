"""``iallocator balance``: which instances to move: broken musts first, then the score.

Exit status 0: there is a plan, if only an empty one; 130: interrupted, what was found
until then is printed; 1: ``--verify-plan`` found something wrong.
"""

from __future__ import annotations

import sys

from iallocator.commands.shared import balance_options
from iallocator.commands.shared.plan_output import (
    COMMANDS_OPTION,
    GRAPH_OPTION,
    INTERRUPTED,
    JSON_OPTION,
    VERIFY_OPTION,
    progress,
    say_progress,
    show_state_of,
    write_graph,
    write_plan,
)  # fmt: skip
from iallocator.errors import UsageError
from iallocator.options import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.planners.balance.balance import Balanced

__all__ = ["OPTIONS", "USAGE", "Settings", "run"]

USAGE = "[OPTIONS] [FILE]"


class Settings(balance_options.Settings):
    """The settings of this command."""

    json: bool = False
    commands: str | None = None
    graph: str | None = None
    verify_plan: bool = False


OPTIONS = (
    JSON_OPTION,
    COMMANDS_OPTION,
    GRAPH_OPTION,
    *balance_options.OPTIONS,
    Option("--group -G", "group", "balance this group (name or uuid)", str, "GROUP"),
    Option("--all-groups", "all_groups", "balance every group, not only the worst"),
    VERIFY_OPTION,
)


def run(settings: Settings, positional: Sequence[str]) -> int:
    """Balance the cluster in the file (- or none: stdin), print the plan."""
    from iallocator.commands.shared.source import load_source, settled
    from iallocator.planners.balance.balance import balance_cluster

    source = load_source(settings, positional)
    try:
        balance_options.adjust(source.cluster, settings)
        wishes = balance_options.wishes_of(settings, settled(settings, source))
        done = balance_cluster(source.cluster, wishes, progress(), settings.verify_plan)
    except LookupError as error:
        raise UsageError(str(error.args[0])) from None
    say_progress("")
    show_state_of(done.before, source, settings, "Initial", "original")
    show_state_of(done.after, source, settings, "Final", "balanced")
    problems = _write(done, settings)
    for problem in problems:
        print(f"iallocator: {problem}", file=sys.stderr)
    if done.interrupted:
        return INTERRUPTED
    return 1 if problems else 0


def _write(done: Balanced, settings: Settings) -> list[str]:
    """The plan in the form that was asked for; what is wrong with it, if that is asked, too."""
    from iallocator.planners.balance.telling import (
        command_lines,
        plan_document,
        plan_lines,
        transition_of,
    )
    from iallocator.render.steps import lines

    cluster, plans = done.cluster, done.plans
    transition = transition_of(done.before, plans, done.demands)
    steps = transition.document()
    write_plan(
        settings,
        lambda: {**plan_document(cluster, plans), "transition": steps},
        lambda: (*plan_lines(cluster, plans), *lines(steps)),
        lambda: command_lines(cluster, plans),
    )
    write_graph(settings.graph, steps)
    problems = [problem for one in plans for problem in one.problems]
    if settings.verify_plan:
        from iallocator.transition.verify import check

        problems += check(done.before, transition)
    return problems
