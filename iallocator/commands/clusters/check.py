"""``iallocator check``: what is wrong with the cluster, and whether balancing would help.

Exit status 0: nothing is wrong; 1: something is wrong; 3: nothing wrong was found, but time did
not suffice to analyse all failures; 130: interrupted, what was found until then is printed.
"""

from __future__ import annotations

import sys

from iallocator.commands.shared import balance_options
from iallocator.commands.shared.plan_output import (
    HTML_OPTION,
    INTERRUPTED,
    check_outputs,
    check_saving,
    print_json,
    show_state_of,
    write_html,
)
from iallocator.commands.shared.progress import progress_line, say_plan
from iallocator.commands.shared.source import completed_settings, load_source, measure
from iallocator.deadline import (
    SIGNALLED,
    TIME_IS_UP,
    Deadline,
    limit_reached,
)
from iallocator.errors import UsageError, tell
from iallocator.files import WholeOutput, is_stdout
from iallocator.model.state import State
from iallocator.names import domains_of
from iallocator.options.table import Option
from iallocator.options.values import whole_between
from iallocator.planners.check.health import examine
from iallocator.planners.eligible import set_offline, set_vcpu_ratio
from iallocator.planners.plan import Plan
from iallocator.planners.result import GroupPlan, GroupPlans
from iallocator.render.checkup import Checkup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.constraints.relations import Relations
    from iallocator.model.cluster import Cluster
    from iallocator.model.constraints import TagFinding
    from iallocator.planners.check.joint_failures import FailuresFound
    from iallocator.render.page.view import PageView
    from iallocator.sources import Source

__all__ = ["OPTIONS", "USAGE", "Settings", "run"]

USAGE = "[OPTIONS] [FILE]"


def yes_or_no(text: str) -> bool:
    """``yes`` or ``no``."""
    if text not in ("yes", "no"):
        raise ValueError("yes or no")
    return text == "yes"


NOT_ANALYSED = 3
"""The exit status if nothing wrong was found, and time did not suffice for all failures."""

BALANCING = 0.5
"""The share of the time that is for balancing; the rest is for what is wrong."""


class Settings(balance_options.Settings):
    """The settings of this command."""

    json: bool = False
    html: str | None = None
    machine_readable: bool = False
    no_simulation: bool = False
    simulation: bool = False
    failures: int = 0
    racks: bool = False


OPTIONS = (
    Option("--json", "json", "write what was found as one JSON document"),
    HTML_OPTION,
    Option("--machine-readable", "machine_readable",
           "print hcheck's keys and values, found in hcheck's way", yes_or_no, "[=yes|no]",
           bare="yes"),
    Option("--no-simulation", "no_simulation", "do not try whether balancing would help"),
    Option("--simulation", "simulation", "try it even where nothing is wrong"),
    Option("--failures", "failures",
           "which nodes (1) or pairs of nodes (2) may fail at once, and what would be lost",
           whole_between(1, 2), "N"),
    Option("--racks", "racks", "the same for failure domains (location tags)"),
    *balance_options.OPTIONS,
)  # fmt: skip


def run(settings: Settings, positional: Sequence[str]) -> int:
    """Check the cluster in the file (- or none: stdin), print what is wrong."""
    _reject_contradictions(settings)
    if settings.machine_readable:
        _follow_hcheck(settings)
    check_outputs(settings)
    check_saving(settings, "original", "balanced")
    settings.all_groups = True
    source = _source(settings, positional)
    whole = Deadline.of_run(settings.planning_seconds)
    _prepare(source.cluster, settings)
    with progress_line("checking"):
        now = _health(State(source.cluster), settings, whole)
    trying = _is_to_be_tried(settings, now)
    done = _balanced(source, settings, whole) if trying else _standing(source.cluster, now)
    reasons = {done.plan.reason, *(one.plan.reason for one in done.plans)}
    for why in (TIME_IS_UP, SIGNALLED):
        if why in reasons:
            tell(f"iallocator: {why} before balancing was at its end")
    if whole.over() or TIME_IS_UP in reasons:
        tell(f"iallocator: {limit_reached(settings.planning_seconds)}")
    if done.moves:
        _shorten(done, source, settings, whole)
    with WholeOutput():
        with progress_line("checking"):
            found = _checkup(done, now, settings)
            found.tried = trying
            found.failures = _failures(done.before, settings)
        show_state_of(lambda: done.before, source, settings, "Initial", "original")
        after = done.after if found.moves else lambda: done.before
        show_state_of(after, source, settings, "Final", "balanced")
        _write(done, found, settings)
        write_html(settings.html, lambda: _page(done, found, settings))
    if done.interrupted:
        return INTERRUPTED
    if settings.machine_readable:
        wrong = found.hcheck_needs and not settings.no_simulation
    else:
        wrong = found.healthy is False
    return 1 if wrong else 0 if found.complete else NOT_ANALYSED


def _source(settings: Settings, positional: Sequence[str]) -> Source:
    """The cluster, with what options say of its instances."""
    source = load_source(settings, positional)
    if settings.racks and not any(node.locations for node in source.cluster.nodes):
        raise UsageError(
            "--racks: no node is in a failure domain (cluster tag htools:nlocation:PREFIX, "
            "node tag PREFIX:NAME)"
        )
    balance_options.adjust(source.cluster, settings)
    measure(source, settings)
    return source


def _prepare(cluster: Cluster, settings: Settings) -> None:
    """What options say of the nodes."""
    set_offline(cluster, settings.offline)
    if settings.max_cpu is not None:
        set_vcpu_ratio(cluster, settings.max_cpu)


def _is_to_be_tried(settings: Settings, now: Checkup) -> bool:
    """Whether balancing is tried: as hcheck does, only where something is to be mended.

    Or where it is asked for, or how it is to be done.
    """
    if settings.no_simulation:
        return False
    if settings.machine_readable:
        return now.hcheck_needs
    asked = settings.simulation or balance_options.chosen_for_moves(settings)
    return bool(asked) or now.healthy is False


def _standing(cluster: Cluster, now: Checkup) -> GroupPlans:
    """Plans without a move, for every group."""
    plans = [GroupPlan(one.group, Plan("balance", one.score)) for one in now.before]
    return GroupPlans("balance", State(cluster), plans)


def _balanced(source: Source, settings: Settings, whole: Deadline) -> GroupPlans:
    """What balancing every group would do, for a share of the time that is left."""
    from iallocator.planners.balance.balance import balance_cluster

    with progress_line("balancing"):
        seconds = settings.planning_seconds - (1 - BALANCING) * (whole.left or 0.0)
        completed = completed_settings(settings, source)
        wanted = balance_options.balance_options_of(settings, completed, Deadline.of_run(seconds))
        return balance_cluster(source.cluster, wanted, say_plan)


def _shorten(done: GroupPlans, source: Source, settings: Settings, whole: Deadline) -> None:
    """Leave needless copies out of a plan that passes verification, as `balance` does."""
    from iallocator.commands.shared.run_plan import limits_of_plan, without_needless_copies
    from iallocator.planners.outcome import Failures
    from iallocator.planners.verify import verify_moves, verify_transition

    limits = limits_of_plan(done, completed_settings(settings, source), settings.min_disk)
    failures = Failures(limits)
    if not verify_moves(done.before, done.entries, limits, failures):
        without_needless_copies(
            done,
            limits,
            failures,
            whole.over,
            lambda: verify_transition(
                done.before, done.transition, limits, 0, whole.over, failures
            ),
        )


def _reject_contradictions(settings: Settings) -> None:
    """One form of the answer, and nothing about a balancing that is not tried."""
    if settings.json and settings.machine_readable:
        raise UsageError("--json and --machine-readable exclude each other")
    if settings.machine_readable and (settings.failures or settings.racks):
        raise UsageError("hcheck has no keys for --failures and --racks")
    if settings.simulation and settings.no_simulation:
        raise UsageError("--simulation and --no-simulation exclude each other")
    if settings.simulation and settings.machine_readable:
        raise UsageError("--simulation and --machine-readable exclude each other")
    idle = balance_options.chosen_for_moves(settings)
    if settings.no_simulation and idle and not settings.machine_readable:
        raise UsageError(f"--no-simulation tries no balancing, and so no {idle[0]}")


def _follow_hcheck(settings: Settings) -> None:
    """Read, judge and balance as hcheck does."""
    settings.compat = "hail"
    if not settings.says("n1", "n1_off"):
        settings.n1 = "strict"


def _health(state: State, settings: Settings, deadline: Deadline) -> Checkup:
    """The health of `state`.

    If `deadline` leaves no time to find out whether a failure would be survived, that failure is
    not analysed.
    """
    relations = _relations(state.cluster, settings)
    tags = _tag_findings(state.cluster, settings, relations)
    groups = examine(state, settings.n1, settings.min_disk, relations, deadline.over)
    return Checkup(groups, groups, 0, settings.n1 != "off", tags)


def _tag_findings(
    cluster: Cluster, settings: Settings, relations: Relations | None
) -> Sequence[TagFinding]:
    """What is the matter with tags, where they count."""
    if not settings.behaviour.knows_affinity:
        return ()
    from iallocator.constraints.tag_findings import all_findings

    return all_findings(cluster, cluster.instances, settings.tag_prefix, relations)


def _relations(cluster: Cluster, settings: Settings) -> Relations | None:
    """What tags ask of instances; None: nothing, or they do not count."""
    if not settings.behaviour.knows_affinity:
        return None
    from iallocator.constraints.affinity_factory import relations_of

    return relations_of(cluster, (), settings.tag_prefix)


def _checkup(done: GroupPlans, now: Checkup, settings: Settings) -> Checkup:
    """The health before and after balancing; one whose end is not known counts as none."""
    if not done.moves:
        return now
    last = Deadline.of_run(settings.planning_seconds)
    then = _health(done.after(), settings, last)
    if then.not_analysed:
        tell(f"iallocator: {TIME_IS_UP} before the health after balancing is known")
        return now
    moves = len(done.moves)
    return Checkup(now.before, then.before, moves, now.capacity_checks, now.tag_findings)


def _failures(state: State, settings: Settings) -> FailuresFound | None:
    """What several failures at once would lose; None where that is not asked."""
    if not (settings.failures or settings.racks):
        return None
    from iallocator.planners.check.joint_failures import examine_failures

    relations = _relations(state.cluster, settings)
    over = Deadline.of_run(settings.planning_seconds).over
    return examine_failures(
        state, settings.failures, settings.racks, settings.min_disk, relations, over
    )


def _page(done: GroupPlans, found: Checkup, settings: Settings) -> PageView:
    """The page; what is wrong is known, and is not worked out again."""
    from iallocator.ganeti.jobs import transition_document
    from iallocator.render.page.check_page import check_page
    from iallocator.render.page.standing import Judging

    plan = {**done.document(), "transition": transition_document(done.transition)}
    return check_page(done, found, plan, Judging(settings.n1, settings.min_disk))


def _write(done: GroupPlans, found: Checkup, settings: Settings) -> None:
    """What was found, in the form that was asked for."""
    if settings.machine_readable:
        print("\n".join(found.hcheck_lines()))
    elif settings.json:
        document = {**done.document(), "command": "check", **found.document()}
        print_json(document)
    elif not is_stdout(settings.html):
        from iallocator.render.check_page import show_checkup
        from iallocator.render.table import Page, wants_colour

        nodes, instances = done.cluster.nodes, done.cluster.instances
        domains = domains_of((n.name for n in nodes), (i.name for i in instances))
        page = Page(wants_colour(sys.stdout), domains=domains)
        show_checkup(found, page)
        page.say_left_out()
        print(page.text(), end="")
