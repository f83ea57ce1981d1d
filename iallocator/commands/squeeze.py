"""``iallocator squeeze``: which nodes to power down, or which standby nodes to power on.

Exit status 0: there is a plan, if only to do nothing; 130: interrupted, what was found
until then is printed; 1: ``--verify-plan`` found something wrong.
"""

from __future__ import annotations

import sys

from iallocator import options
from iallocator.commands.shared.plan_output import (
    COMMANDS_OPTION,
    GRAPH_OPTION,
    INTERRUPTED,
    JSON_OPTION,
    VERIFY_OPTION,
    clock,
    progress,
    say_progress,
    show_state_of,
    write_graph,
    write_plan,
)  # fmt: skip
from iallocator.errors import UsageError
from iallocator.options import Option, amount, name_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.planners.squeeze.options import SqueezeOptions
    from iallocator.planners.squeeze.result import SqueezeResult
    from iallocator.sources import Source

__all__ = ["OPTIONS", "USAGE", "Settings", "run"]

USAGE = "[OPTIONS] [FILE]"


class Settings(options.Settings):
    """The settings of this command."""

    json: bool = False
    commands: str | None = None
    target_resources: float = 2.0
    minimal_resources: float = 2.0
    master: str = ""
    prefer: Sequence[str] = ()
    avoid: Sequence[str] = ()
    drbd: bool = False
    all_instances: bool = False
    group: str = ""
    graph: str | None = None
    verify_plan: bool = False


OPTIONS = (
    JSON_OPTION,
    COMMANDS_OPTION,
    GRAPH_OPTION,
    Option("--target-resources", "target_resources",
           "standard instances that every node can still take, powered down (default 2)", amount,
           "X"),
    Option("--minimal-resources", "minimal_resources",
           "with room for less on some node, power on standby nodes (default 2)", amount, "X"),
    Option("--master", "master", "the master node, which stays online", str, "NODE"),
    Option("--prefer", "prefer", "power these down, or on, before others", name_list, "NODE,..."),
    Option("--avoid", "avoid", "power these down, or on, only after others", name_list,
           "NODE,..."),
    Option("--drbd", "drbd", "move drbd instances, too"),
    Option("--all", "all_instances", "move every instance that can be moved"),
    Option("--group -G", "group", "look at this group only (name or uuid)", str, "GROUP"),
    VERIFY_OPTION,
)  # fmt: skip


def run(settings: Settings, positional: Sequence[str]) -> int:
    """Squeeze the cluster in the file (- or none: stdin), print what to do."""
    from iallocator.commands.shared.source import load_source, settled
    from iallocator.planners.squeeze.squeeze import squeeze_cluster

    source = load_source(settings, positional)
    wanted = _wanted(settings, source, settled(settings, source))
    try:
        done = squeeze_cluster(
            source.cluster, source.policy, wanted, progress(), settings.verify_plan
        )
    except LookupError as error:
        raise UsageError(str(error.args[0])) from None
    except KeyboardInterrupt:  # before the search began
        return INTERRUPTED
    say_progress("")
    _warn(done, wanted)
    show_state_of(done.before, source, settings, "Initial", "original", wanted.master)
    wrong = _write(done, settings)
    show_state_of(done.settle(), source, settings, "Final", "squeezed", wanted.master)
    problems = [problem for one in done.plans for problem in one.problems] + wrong
    for problem in problems:
        print(f"iallocator: {problem}", file=sys.stderr)
    if any(one.plan.interrupted for one in done.plans):
        return INTERRUPTED
    return 1 if problems else 0


def _wanted(settings: Settings, source: Source, whole: options.Settings) -> SqueezeOptions:
    """What `settings` want; `whole` are those completed from tags."""
    from iallocator.planners.squeeze.options import ALL, DRBD, SHARED, SqueezeOptions
    from iallocator.planners.stop_criteria import StopCriteria

    kinds = ALL if settings.all_instances else DRBD if settings.drbd else SHARED
    return SqueezeOptions(
        StopCriteria(min_gain=0.0, expired=clock(settings.time_limit)),
        whole,
        target=settings.target_resources,
        minimal=settings.minimal_resources,
        master=settings.master or source.master,
        prefer=settings.prefer,
        avoid=settings.avoid,
        kinds=kinds,
        group=settings.group,
        like_hbal=settings.like_hail,
        tag_prefix=settings.tag_prefix,
        exact_seconds=whole.search_seconds,
    )


def _warn(done: SqueezeResult, wanted: SqueezeOptions) -> None:
    """What a person should know, on stderr."""
    remarks = list(done.remarks)
    if not wanted.master and done.action != "online":
        remarks.append(
            "warning: the master node is unknown and may be among the nodes to power down; "
            "name it with --master"
        )
    if wanted.target < wanted.minimal:
        remarks.append(
            "warning: --target-resources is less than --minimal-resources: "
            "what is powered down now may be powered on the next time"
        )
    for remark in remarks:
        print(f"iallocator: {remark}", file=sys.stderr)


def _write(done: SqueezeResult, settings: Settings) -> list[str]:
    """The plan in the form that was asked for; what is wrong with its steps, if that is asked."""
    from iallocator.planners.squeeze.telling import (
        squeeze_commands,
        squeeze_document,
        squeeze_lines,
        squeeze_transition,
    )
    from iallocator.render.steps import lines

    transition = squeeze_transition(done)
    steps = transition.document()
    write_plan(
        settings,
        lambda: squeeze_document(done, steps),
        lambda: (*squeeze_lines(done), *lines(steps)),
        lambda: squeeze_commands(done),
    )
    write_graph(settings.graph, steps)
    if not settings.verify_plan:
        return []
    from iallocator.transition.verify import check

    return check(done.before, transition)
