"""hbal: balance one group of nodes."""

from __future__ import annotations

from itertools import takewhile
from math import inf, isnan

from iallocator.compat.htools.backend import (
    adjust,
    balanced,
    group_of,
    initial_state,
    load,
    save,
    saved_text,
    scores,
    settings_of,
    show_lists,
    split_instances,
    write,
)
from iallocator.compat.htools.errors import ProgramError
from iallocator.compat.htools.formats import decimal, domain, policy_text
from iallocator.documents.overview import bad_items
from iallocator.errors import say
from iallocator.model.columns import DISK, MEMORY, SPINDLES
from iallocator.model.moves import DRBD_FAILOVER, REPLACE_SECONDARY
from iallocator.model.state import State
from iallocator.options.settings import Settings
from iallocator.planners.eligible import movable
from iallocator.planners.plan_limits import lowest_score
from iallocator.planners.result import GroupPlans
from iallocator.sources import load as load_source
from iallocator.tolerances import LEAST_SCORE
from iallocator.units import LEAST_FIXED, MOST_FIXED
from iallocator.wire.reading import Reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from iallocator.compat.htools.backend import Given
    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.moves import Move
    from iallocator.planners.result import PlanResult
    from iallocator.sources import Source

__all__ = [
    "command_lines", "general_number", "run", "shell_script", "spread",
    "write_script",
]  # fmt: skip

SCRIPT_HEAD = """\
#!/bin/sh

# Auto-generated script for executing cluster rebalancing

# To stop, touch the file /tmp/stop-htools

set -e

check() {
  if [ -f /tmp/stop-htools ]; then
    echo 'Stop requested, exiting'
    exit 0
  fi
}
"""
"""The beginning of the shell script of a plan; a file can stop the script between jobs."""


def general_number(value: float) -> str:
    """Return `value` as text with six decimals; below 0.1 or very large, with an exponent."""
    if value == inf:
        return "Infinity"
    if value == 0 or LEAST_FIXED <= abs(value) < MOST_FIXED:
        return f"{value:.6f}"
    mantissa, _, exponent = f"{value:.6e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


def run(given: Given) -> int:
    """Balance a group, and print the moves; return the exit status."""
    settings = Settings()
    source = load(given, settings)
    cluster, loud = source.cluster, given.loudness
    if loud > 1:
        print(f"Loaded cluster tags: {','.join(cluster.tags)}")
        print(f"Loaded cluster ipolicy: {policy_text(source.policy)}")
    original = ""
    if given.save is not None:  # without the effect of -O
        original = saved_text(source, State(cluster))
    adjust(given, cluster)
    if not cluster.instances:
        print("Cluster is empty, exiting.")
        return 0
    split = split_instances(cluster)
    if split and loud > 1:
        names = "\n".join(f"  {name}" for name in split)
        say(f"Found instances belonging to multiple node groups:\n{names}")
        say("These instances will not be moved.")
    print(f"Loaded {len(cluster.nodes)} nodes, {len(cluster.instances)} instances")
    end = domain(cluster)
    if end and loud > 1:
        print(f"Note: Stripping common suffix of '{end}' from names")
    before = initial_state(given, source)
    if given.save is not None:
        write(f"{given.save}.original", original)
        say(f"The cluster state before balancing has been written to file '{given.save}.original'")
    group = group_of(cluster, given.group)
    score = _show_beginning(given, before, group)
    floor = lowest_score(before, group.nodes)
    enough = LEAST_SCORE if given.min_score is None else given.min_score
    if score - floor < enough:
        print(f"Cluster is already well balanced (initial score {general_number(score)},")
        print(f"optimum score due to N+1 reservations {general_number(floor)},")
        print(f"minimum score {general_number(enough)}).")
        print("Nothing to do, exiting")
        return 0
    print("Trying to minimize the CV...")
    may_move = not isnan(score) and given.max_length != 0  # no score is lower than NaN
    if may_move and movable(cluster, group, behaviour=settings.behaviour):
        done = balanced(given, cluster, group)
    else:
        done = GroupPlans("balance", before)
    _print_moves(done, end)
    _show_end(given, done, group, score)
    if given.print_commands is not None:
        _print_commands(done, given.print_commands, end, bool(given.first_job_group))
    after = done.after()
    if loud > 3:
        _print_free(before, after, group)
    _show_after(given, source, after, group)
    return _execute(given, done) if given.exec and done.entries else 0


def _execute(given: Given, done: PlanResult) -> int:
    """Execute the plan through LUXI; return the exit status: 1 if a job fails, else 0.

    Raises
    ------
    ProgramError
        If the cluster was not read through LUXI.
    """
    if given.luxi is None:
        raise ProgramError("Error: hbal: Execution of commands possible only on LUXI")
    from iallocator.commands.execution import begin, show_report
    from iallocator.commands.planner_options import Balance
    from iallocator.commands.shared_options import job_priority
    from iallocator.ganeti.jobs import transition_document

    own = Balance()
    settings_of(given, own)
    own.execute = True
    own.first_job_group = bool(given.first_job_group)
    own.reason = given.reason or ""
    if given.priority is not None:
        own.priority = job_priority(given.priority)

    def again() -> Cluster:
        return load_source(own, (), Reading.of(own), in_run=False).cluster

    transition = transition_document(done.transition)
    report, status = begin(own, done.plan.command, transition, done.cluster, again)
    show_report(report, own)
    return min(status, 1)


def _show_beginning(given: Given, before: State, group: Group) -> float:
    """Print the problems of `group`, the requested lists and the score; return the score."""
    loud = given.loudness
    members = before.cluster.members(group)
    print(f"Group size {len(group.nodes)} nodes, {len(members)} instances")
    print(f"Selected node group: {group.name}")
    bad, held = bad_items(before, group.nodes)
    bad_nodes, bad_instances = len(bad), len(held)
    if loud > 0:
        print(f"Initial check done: {bad_nodes} bad nodes, {bad_instances} bad instances.")
    names = {index: before.cluster.nodes[index].name for index in reversed(group.nodes)}
    happy = {index: name for index, name in names.items() if index not in bad}
    violating = _violating(before, happy)
    if loud > 4:
        from iallocator.wire.codec import dumps

        status = (f'("{name}",{violating.get(k, "Ok ()")})' for k, name in happy.items())
        print(f"Bad nodes: {dumps([name for index, name in names.items() if index in bad])}")
        print(f"N+1 happy nodes: {dumps([*happy.values()])}")
        print(f"Node policy status: [{','.join(status)}]")
    if bad_nodes:
        print(
            "Cluster is not N+1 happy, continuing but no guarantee that the cluster will end "
            "N+1 happy."
        )
    if violating:
        print(f"The cluster contains {len(violating)} policy-violating nodes.")
        if given.ignore_soft_errors:
            print("Continuing, ignoring soft errors.")
        else:
            print(
                "Continuing, but the set of moves might be too restricted; consider using the "
                "--ignore-soft-errors option."
            )
    show_lists(given, before, "Initial cluster status", "Initial instance map", group)
    score, lines = scores(before, group.nodes)
    if loud > 2:
        print(f"Initial coefficients: overall {decimal(score)}")
        print("\n".join(lines))
    else:
        print(f"Initial score: {decimal(score)}")
    return score


def _show_end(given: Given, done: PlanResult, group: Group, score: float) -> None:
    """Print the change of the `score`, and the number of moves."""
    loud, after = given.loudness, done.after()
    if not done.entries:
        print("No solution found")
    elif loud > 2:
        overall, lines = scores(after, group.nodes)
        print(f"Final coefficients:   overall {decimal(overall)}")
        print("\n".join(lines))
    else:
        print(f"Cluster score improved from {decimal(score)} to {decimal(done.entries[-1].score)}")
    if loud > 0:
        print(f"Solution length={len(done.entries)}")


def _show_after(given: Given, source: Source, after: State, group: Group) -> None:
    """Save the state `after` the moves, and print the requested lists of it."""
    if given.save is not None:
        save(f"{given.save}.balanced", source, after, group=group)
        say(f"The cluster state after balancing has been written to file '{given.save}.balanced'")
    show_lists(given, after, "Final cluster status", "Final instance map", group)


def _print_free(before: State, after: State, group: Group) -> None:
    """Print the sums of free memory and disk of `group` in both states."""
    for title, state in (("Original:", before), ("Final:   ", after)):
        free = (sum(state.columns[column][i] for i in group.nodes) for column in (MEMORY, DISK))
        memory, disk = map(int, free)
        print(f"{title} mem={memory} disk={disk}")


def _violating(state: State, nodes: Iterable[int]) -> dict[int, str]:
    """Return node -> message, for those of `nodes` that exceed a ratio of the policy.

    All primaries of a node use virtual cpus, except instances that are marked offline.
    """
    violating: dict[int, str] = {}
    for node in (state.cluster.nodes[index] for index in nodes):
        counted = [i for i in state.primaries[node.index].values() if not i.admin_offline]
        cpus = node.reserved_cpus + sum(one.vcpus for one in counted)
        spindles = state.columns[SPINDLES][node.index]
        if spindles > node.high_spindles and not node.exclusive_storage:
            violating[node.index] = "Bad FailDisk"
        elif cpus > node.vcpu_ratio * node.total_cpus:
            violating[node.index] = "Bad FailCPU"
    return violating


def _print_moves(done: PlanResult, end: str) -> None:
    """Print the moves; the common `end` of names is left out."""
    cluster = done.cluster
    names = [node.name.removesuffix(end) for node in cluster.nodes]
    pair = 2 * max(map(len, names)) + 1
    longest = max(len(one.name.removesuffix(end)) for one in cluster.instances)

    def places(nodes: Sequence[int]) -> str:
        return ":".join(names[index] for index in nodes).ljust(pair)

    for number, entry in enumerate(done.entries, start=1):
        move = entry.move
        steps = " ".join(step.removesuffix(end) for step in move.notation(cluster).split())
        name = move.instance.name.removesuffix(end)
        print(
            f"  {number:3}. {name:{longest}} {places(move.before)} => {places(move.after)} "
            f"{decimal(entry.score):>12} a={steps}"
        )


def command_lines(done: PlanResult, end: str) -> list[str]:
    """Return the commands of the moves of `done`, in sets of jobs that use different nodes.

    The common `end` of names is left out.
    """
    lines: list[str] = []
    moves = done.moves
    for number, positions in enumerate(done.job_sets_from_end(), start=1):
        lines.append(f"echo jobset {number}, {len(positions)} jobs")
        for job, position in enumerate(positions, start=1):
            lines.append(f"  echo job {number}/{job}")
            lines += (f"  {line}" for line in _move_commands(moves[position], done.cluster, end))
    return lines


def _move_commands(move: Move, cluster: Cluster, end: str) -> Iterator[str]:
    """Yield the command of each step; an instance that does not run is failed over."""
    name = _shell_word(move.instance.name.removesuffix(end))
    words = "migrate -f" if move.instance.reported_running else "failover -f"
    for kind, target in move.steps:
        node = _shell_word(cluster.nodes[target].name.removesuffix(end))
        if kind == DRBD_FAILOVER:
            yield f"gnt-instance {words} {name}"
        elif kind == REPLACE_SECONDARY:
            yield f"gnt-instance replace-disks -n {node} {name}"
        else:
            yield f"gnt-instance {words} -n {node} {name}"


def _shell_word(name: str) -> str:
    """Return `name` for a shell: in quotation marks if it has a character of the shell's syntax.

    The shell's syntax has blanks and ASCII characters.
    """
    from shlex import quote

    special = "".join(one for one in name if one.isascii() or not one.isprintable())
    return quote(name) if special and quote(special) != special else name


def spread(lines: Iterable[str]) -> Iterator[str]:
    """Yield `lines` with a blank line before each set of jobs."""
    for line in lines:
        if line.startswith("echo jobset"):
            yield ""
        yield line


def shell_script(lines: Iterable[str]) -> str:
    """Return the script that executes the commands `lines`."""
    script = [SCRIPT_HEAD]
    for line in spread(lines):
        script.append(line)
        if line.startswith("  echo job "):
            script.append("  check")
    return "\n".join([*script, ""])


def write_script(path: str, lines: Iterable[str]) -> None:
    """Write the script that executes the commands `lines` to the file at `path`."""
    write(path, shell_script(lines))
    print(f"The commands have been written to file '{path}'")


def _print_commands(done: PlanResult, file: Any, end: str, first_set: bool) -> None:
    """Print the commands, or write them to `file`; only those of the `first_set` of jobs."""
    lines = command_lines(done, end)
    if first_set:
        lines = list(takewhile(lambda line: not line.startswith("echo jobset 2,"), lines))
    if file is not True:
        write_script(file, lines)
        return
    title = "First set of jobs:" if first_set else "Commands to run to reach the above solution:"
    print(f"\n{title}")
    print("".join(f"  {line}\n" for line in spread(lines)), end="")
