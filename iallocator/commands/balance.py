"""``iallocator balance``: which instances to move so that all nodes carry their share.

Exit status 0: there is a plan, if only an empty one; 130: interrupted, what was found
until then is printed; 1: ``--verify-plan`` found something wrong.
"""

from __future__ import annotations

import sys

from iallocator import options
from iallocator.errors import UsageError
from iallocator.options import Option, file_name, name_list, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iallocator.plans.balancing import Balanced, Wishes
    from iallocator.plans.plan import Plan
    from iallocator.plans.scope import Load

__all__ = ["OPTIONS", "USAGE", "Settings", "run"]

USAGE = "[OPTIONS] [FILE]"
INTERRUPTED = 130


def amount(text: str) -> float:
    """A number that is not negative."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ValueError("a number that is not negative")
    return number


class Settings(options.Settings):
    """The settings of this command."""

    json: bool = False
    commands: str | None = None
    evac_mode: bool = False
    restricted_migration: bool = False
    no_disk_moves: bool = False
    no_instance_moves: bool = False
    select_instances: list[str] | None = None
    exclude_instances: Sequence[str] = ()
    dynu_file: str = ""
    max_cpu: float | None = None
    min_disk: float = 0.0
    offline: Sequence[str] = ()
    group: str = ""
    all_groups: bool = False
    max_length: int | None = None
    min_score: float = 1e-9
    min_gain: float = 0.01
    min_gain_limit: float = 0.1
    lookahead: bool = False
    cost: float | None = None
    time_limit: float | None = None
    verify_plan: bool = False


OPTIONS = (
    Option("--json", "json", "write the plan as one JSON document"),
    Option("--print-commands -C", "commands",
           "print the gnt-instance commands in job sets, or write them to FILE", str, "[=FILE]",
           bare="-"),
    Option("--evac-mode -E", "evac_mode", "only move instances off offline and drained nodes"),
    Option("--restricted-migration", "restricted_migration",
           "migrate only off drained nodes, never there and back"),
    Option("--no-disk-moves", "no_disk_moves", "copy no disks: only migrate and fail over"),
    Option("--no-instance-moves", "no_instance_moves", "only replace secondaries"),
    Option("--select-instances", "select_instances", "move only these", name_list, "NAME,..."),
    Option("--exclude-instances", "exclude_instances", "do not move these", name_list,
           "NAME,..."),
    Option("--dynu-file -U", "dynu_file",
           "dynamic utilisation: lines of instance, cpu, memory, disk, net", file_name, "FILE"),
    Option("--max-cpu", "max_cpu", "virtual cpus per cpu at most", amount, "RATIO"),
    Option("--min-disk", "min_disk", "share of disk that stays free, 0 to 1", amount, "RATIO"),
    Option("--offline -O", "offline", "treat this node as offline; may repeat", str, "NODE",
           repeats=True),
    Option("--group -G", "group", "balance this group (name or uuid)", str, "GROUP"),
    Option("--all-groups", "all_groups", "balance every group, not only the worst"),
    Option("--max-length -l", "max_length", "moves at most", whole, "N"),
    Option("--min-score -e", "min_score", "above the lowest possible score: good enough",
           amount, "SCORE"),
    Option("--min-gain -g", "min_gain", "the least gain of a move (default 0.01)", amount,
           "GAIN"),
    Option("--min-gain-limit", "min_gain_limit",
           "the score from which on that counts (default 0.1)", amount, "SCORE"),
    Option("--lookahead", "lookahead", "where no move helps, try exchanges of two instances"),
    Option("--cost", "cost", "copy this much at most: disks and memory", amount, "GIB"),
    Option("--time-limit", "time_limit", "stop after so many seconds", amount, "SECONDS"),
    Option("--verify-plan", "verify_plan", "execute the plan on the model, step by step"),
)  # fmt: skip


def run(settings: Settings, positional: Sequence[str]) -> int:
    """Balance the cluster in the file (- or none: stdin), print the plan."""
    from iallocator.engine import reading_for
    from iallocator.plans.balancing import balance_cluster
    from iallocator.plans.scope import set_loads
    from iallocator.sources import load

    cluster = load(settings, positional, reading_for(settings)).cluster
    try:
        if settings.dynu_file and not settings.ignore_dynu:
            set_loads(cluster, _loads(settings.dynu_file))
        done = balance_cluster(
            cluster, _wishes(settings), _progress(), settings.verify_plan
        )
    except LookupError as error:
        raise UsageError(str(error.args[0])) from None
    except KeyboardInterrupt:
        return INTERRUPTED
    _say_progress("")
    _show_states(done, settings)
    _write(done, settings)
    plans = done.plans
    for problem in (problem for one in plans for problem in one.problems):
        print(f"iallocator: {problem}", file=sys.stderr)
    if any(one.plan.interrupted for one in plans):
        return INTERRUPTED
    return 1 if any(one.problems for one in plans) else 0


def _show_states(done: Balanced, settings: Settings) -> None:
    """The lists of nodes and instances that were asked for, and the text files, both moments."""
    if settings.print_nodes is None and not (settings.print_instances or settings.save_cluster):
        return
    from iallocator.report.before_after import show_state

    moments = (("Initial", "original", done.before), ("Final", "balanced", done.after))
    for moment, suffix, state in moments:
        show_state(state, settings, moment)
        if settings.save_cluster:
            from iallocator.files import write_file
            from iallocator.sources.writer import write_text

            text = write_text(state.cluster, state, like_hail=settings.like_hail)
            write_file(f"{settings.save_cluster}.{suffix}", text)


def _wishes(settings: Settings) -> Wishes:
    from iallocator.plans.balancing import Wishes
    from iallocator.plans.limits import Limits

    limits = Limits(
        min_score=settings.min_score,
        max_length=settings.max_length,
        min_gain=settings.min_gain,
        min_gain_limit=settings.min_gain_limit,
        cost=None if settings.cost is None else settings.cost * 1024,
        lookahead=settings.lookahead,
        expired=_clock(settings.time_limit),
    )
    return Wishes(
        limits,
        group=settings.group,
        all_groups=settings.all_groups,
        offline=settings.offline,
        selected=settings.select_instances,
        excluded=settings.exclude_instances,
        max_cpu=settings.max_cpu,
        min_disk=settings.min_disk,
        disk_moves=not settings.no_disk_moves,
        instance_moves=not settings.no_instance_moves,
        restricted=settings.restricted_migration,
        evacuate_only=settings.evac_mode,
        ignore_soft=settings.ignore_soft_errors,
        like_hbal=settings.like_hail,
    )


def _clock(seconds: float | None) -> Callable[[], bool]:
    """Says when `seconds` have passed; never for None."""
    if seconds is None:
        return lambda: False
    from time import monotonic

    end = monotonic() + seconds
    return lambda: monotonic() >= end


def _loads(path: str) -> dict[str, Load]:
    """The dynamic utilisation in a file, by instance; hbal's format."""
    from iallocator.files import read_file

    loads: dict[str, Load] = {}
    lines = read_file(path).decode("utf-8", "replace").splitlines()
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if not words:
            continue
        try:
            name, cpu, memory, disk, net = words
            loads[name] = float(cpu), float(memory), float(disk), float(net)
        except ValueError:
            raise UsageError(
                f"{path}: line {number}: expected an instance and four numbers, got {line!r}"
            ) from None
    return loads


def _progress() -> Callable[[Plan], None]:
    """Tells on a terminal how far the plan is."""
    if sys.stderr is None or not sys.stderr.isatty():
        return lambda plan: None
    return lambda plan: _say_progress(f"{len(plan.moves)} moves, score {plan.after:.8f}")


def _say_progress(text: str) -> None:
    """Write over the last line on the terminal, if there is one."""
    if sys.stderr is not None and sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _write(done: Balanced, settings: Settings) -> None:
    """The plan in the form that was asked for."""
    from iallocator.plans.telling import command_lines, plan_document, plan_lines

    cluster, plans = done.cluster, done.plans
    if settings.json:
        import json

        document = plan_document(cluster, plans)
        print(json.dumps(document, ensure_ascii=False, indent=2))
    else:
        for line in plan_lines(cluster, plans):
            print(line)
    if settings.commands is None:
        return
    lines = command_lines(cluster, plans)
    if settings.commands != "-":
        from iallocator.files import write_file

        write_file(settings.commands, "\n".join(["#!/bin/sh", "set -e", *lines, ""]))
    elif not settings.json:
        print("\n".join(["", *lines]))
