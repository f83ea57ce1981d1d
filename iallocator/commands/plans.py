"""The commands that plan moves: each function calls a planner with the options of its command.

Modules of planners are imported in the functions, because a command needs only its own planner.
"""

from __future__ import annotations

from functools import partial

from iallocator.commands.progress import say_plan, say_progress, say_share
from iallocator.errors import MOST_NAMES, UsageError, tell
from iallocator.planners.eligible import group_named
from iallocator.units import GIB

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.commands.command import Command
    from iallocator.commands.planner_options import Balancing
    from iallocator.deadline import Deadline
    from iallocator.model.cluster import Cluster
    from iallocator.options.settings import Settings
    from iallocator.planners.balance.steady import SteadyPolicy
    from iallocator.planners.intergroup.context import IntergroupContext
    from iallocator.planners.result import GroupPlans, PlanResult

__all__ = [
    "balance", "balance_groups", "balanced", "compress", "make_room", "place", "reboot",
    "redistribute", "squeeze", "undo",
]  # fmt: skip


def balance(command: Command, deadline: Deadline) -> PlanResult:
    """Plan moves within groups that improve the score; say if other groups are left out."""
    cluster, own = command.source.cluster, command.settings
    if own.steady:
        from iallocator.commands.steady import SteadyRound

        steady = SteadyRound(command)
        return steady.ended(
            balanced(cluster, own, command.effective, deadline, False, steady.policy)
        )
    if own.lookahead:
        tell("Warning: --lookahead has no effect: swaps and chains of moves are always tried")
    done = balanced(cluster, own, command.effective, deadline, own.behaviour.balances_by_swaps)
    others = sum(bool(group.nodes) for group in cluster.groups) - 1
    if others > 0 and own.behaviour.tells_transition and not (own.group or own.all_groups):
        planned = "".join(one.group.name for one in done.plans) or "one group"
        done.remarks += [
            f"Plan for group {planned} only, of {others + 1} groups.",
            "--all-groups plans for every group, -G GROUP for another one.",
        ]
    return done


def balanced(
    cluster: Cluster,
    own: Balancing,
    settings: Settings,
    deadline: Deadline,
    compound: bool,
    steady: SteadyPolicy | None = None,
) -> GroupPlans:
    """Balance as the options `own` require, and return the plans of the groups.

    `settings`: the settings, completed from tags. `compound`: try swaps and chains of moves if no
    single move lowers the score. `steady`: the policy of steady balancing, which decides on moves
    instead of the score; None: the score decides.
    """
    from iallocator.planners.balance.balance import BalanceOptions, balance_cluster
    from iallocator.planners.balance.move_kinds import MoveRules
    from iallocator.planners.plan_limits import StopCriteria

    limits = StopCriteria(
        min_score=own.min_score,
        max_length=own.max_length,
        min_gain=own.min_gain,
        min_gain_limit=own.min_gain_limit,
        cost=None if own.cost is None else own.cost * GIB,
        compound=compound,
        deadline=deadline,
    )
    rules = MoveRules(
        disk_moves=not own.no_disk_moves,
        instance_moves=not own.no_instance_moves,
        restricted=own.restricted_migration,
        evacuate_only=own.evac_mode,
        ignore_soft=own.ignore_soft_errors,
        behaviour=own.behaviour,
    )
    wanted = BalanceOptions(
        limits,
        rules,
        group=own.group,
        all_groups=own.all_groups,
        offline=own.offline,
        selected=own.select_instances,
        excluded=own.exclude_instances,
        max_cpu=own.max_cpu,
        min_disk=own.min_disk,
        tag_prefix=own.tag_prefix,
        settings=settings,
        steady=steady,
    )
    return balance_cluster(cluster, wanted, say_plan)


def _between_groups(command: Command, deadline: Deadline) -> IntergroupContext:
    """Return the input of a planner of moves between groups: the cluster and its settings."""
    from iallocator.planners.intergroup.context import IntergroupContext

    return IntergroupContext(command.source.cluster, command.effective, deadline, say_progress)


def balance_groups(command: Command, deadline: Deadline) -> PlanResult:
    """Plan moves between groups, so that all groups are used equally; the balance must improve."""
    from iallocator.planners.intergroup import balance_groups as planner

    own = command.settings
    cost = None if own.cost is None else own.cost * GIB
    only = group_named(command.source.cluster, own.group) if own.group else None
    bounds = planner.Bounds(own.max_length, cost, own.min_gain, only)
    done = planner.balance_groups(_between_groups(command, deadline), bounds)
    command.broken_promises = partial(planner.check_group_balance, done)
    return done


def compress(command: Command, deadline: Deadline) -> PlanResult:
    """Plan moves that empty a group; the nodes of the group must be empty after them."""
    from iallocator.planners.intergroup import compress as planner

    group, cluster = command.settings.group, command.source.cluster
    only = group_named(cluster, group) if group else None
    done = planner.compress(_between_groups(command, deadline), only)
    command.broken_promises = partial(planner.check_compression, done)
    return done


def redistribute(command: Command, deadline: Deadline) -> PlanResult:
    """Plan moves between groups that resolve violations of N+1 and policies."""
    from iallocator.planners.intergroup.redistribute import redistribute

    group, cluster = command.settings.group, command.source.cluster
    only = group_named(cluster, group) if group else None
    return redistribute(_between_groups(command, deadline), only)


def make_room(command: Command, deadline: Deadline) -> PlanResult:
    """Plan the few moves of other instances after which a request can be satisfied."""
    from iallocator.planners.make_room.make_room import fits_after, make_room

    request, settings = command.request, command.effective
    assert request is not None
    most, coming = settings.make_room, request.coming
    done = make_room(command.source.cluster, request, settings, deadline, coming, most)
    done.plan.reason = done.summary(most)

    def broken_promises() -> list[str]:
        """Return one problem if the request does not fit after the moves; [] if it fits."""
        if not done.moves or fits_after(done, request, settings, request.coming):
            return []
        return ["the request does not fit after the moves"]

    command.broken_promises = broken_promises
    return done


def place(command: Command, deadline: Deadline) -> PlanResult:
    """Place all instances, and the new instances of the request, by a strategy of Pacemaker."""
    from iallocator.planners.place.place import in_document_order, place_anew

    own, source, settings = command.settings, command.source, command.effective
    cluster = source.cluster
    groups = [
        group.index
        for group in ([group_named(cluster, own.group)] if own.group else cluster.groups)
        if group.nodes
    ]
    named = {_pacemaker_strategy(settings.by_group.get(index, settings)) for index in groups}
    if len(named) > 1:
        raise UsageError(
            f"the tags of groups name several strategies, {', '.join(sorted(named))}; "
            "place needs one: --strategy"
        )
    strategy = named.pop() if named else _pacemaker_strategy(settings)
    names = None if source.document is None else list(source.document["instances"])
    instances = in_document_order(cluster, names)
    new = command.request.new if command.request else ()
    wanted = [one for one in new if one.recreated is None]
    staying: dict[str, str] = {}
    if own.group:
        members = {one.name for one in cluster.members(group_named(cluster, own.group))}
        others = (one.name for one in instances if one.name not in members)
        staying = dict.fromkeys(others, f"it is not in group {own.group}")
    report = say_share("instances")
    return place_anew(cluster, settings, strategy, instances, wanted, report, staying)


def _pacemaker_strategy(settings: Settings) -> str:
    """Return the strategy for `place`; by default, the default strategy of Pacemaker.

    A strategy of another kind at the top of the configuration file, or in a tag, is ignored,
    because it is for requests.

    Raises
    ------
    UsageError
        If the command line, or the table ``[place]`` of the file, names another strategy.
    """
    from iallocator.constraints.locations import PACEMAKER_PREFIX

    if settings.strategy.startswith(PACEMAKER_PREFIX):
        return settings.strategy
    if settings.asks_here("strategy"):
        raise UsageError(
            f"place follows Pacemaker's rules: --strategy {PACEMAKER_PREFIX}default, -utilization, "
            f"-balanced or -minimal, got {settings.strategy}"
        )
    return f"{PACEMAKER_PREFIX}default"


def reboot(command: Command, deadline: Deadline) -> PlanResult:
    """Plan which nodes can be rebooted together, and the moves around each group of nodes."""
    from iallocator.planners.reboot.options import IGNORED, MOVED, SKIPPED, RebootOptions
    from iallocator.planners.reboot.reboot import plan_reboots

    own = command.settings
    ignored = IGNORED if own.ignore_non_redundant else MOVED
    wanted = RebootOptions(
        down=own.offline_maintenance,
        evacuate=own.full_evacuation,
        single=SKIPPED if own.skip_non_redundant else ignored,
        node_tags=own.node_tags,
        group=own.group,
        done=own.done,
        master=command.master,
        first_only=own.one_step_only,
        force=own.force,
        optimal=command.effective.optimal,
    )
    return plan_reboots(
        command.source.cluster, command.effective, wanted, deadline, say_share("nodes")
    )


def squeeze(command: Command, deadline: Deadline) -> PlanResult:
    """Plan which nodes to power off or on, and the moves that are needed for it."""
    from iallocator.planners.plan_limits import StopCriteria
    from iallocator.planners.squeeze.headroom import (
        MOVE_ALL,
        MOVE_DRBD,
        MOVE_SHARED,
        SqueezeOptions,
    )
    from iallocator.planners.squeeze.squeeze import squeeze_cluster

    own, source = command.settings, command.source
    wanted = SqueezeOptions(
        StopCriteria(min_gain=0.0, deadline=deadline),
        command.effective,
        target=own.target_resources,
        minimal=own.minimal_resources,
        masters=command.masters,
        prefer=own.prefer,
        avoid=own.avoid,
        kinds=MOVE_ALL if own.all_instances else MOVE_DRBD if own.drbd else MOVE_SHARED,
        group=own.group,
        tag_prefix=own.tag_prefix,
    )
    done = squeeze_cluster(source.cluster, source.policy, wanted, say_plan)
    if not wanted.masters and done.action != "online":
        done.remarks.append(
            "Warning: the master node is unknown and may be among the nodes to power down; "
            "name it with --master-node"
        )
    if wanted.target < wanted.minimal:
        done.remarks.append(
            "Warning: --target-resources is less than --minimal-resources: "
            "what is powered down now may be powered on the next time"
        )

    def hindrance() -> str:
        """Return what the reserve lacks even with every standby node powered on; "" if nothing."""
        if own.even_if_short or not done.shortage:
            return ""
        return f"{done.shortage}; --even-if-short carries it out all the same"

    command.hindrance = hindrance
    return done


def undo(command: Command, deadline: Deadline) -> PlanResult:
    """Plan to move back the instances that an execution has moved, as far as the limits allow.

    The journal of the execution contains the nodes of these instances before the execution.
    """
    from iallocator.commands.execution import records_in
    from iallocator.execution.report import moved_away
    from iallocator.planners.undo import plan_undo

    cluster = command.source.cluster
    _, records = records_in(command.settings.undo)
    now = {one.name: cluster.node_names(one.nodes) for one in cluster.instances}
    moved = moved_away(records, now)
    done = plan_undo(cluster, command.effective, moved, deadline)
    if not moved:
        done.plan.reason = "the journal has moved no instance that is not back already"
    if done.staying:
        done.shortfalls.append(
            f"{len(done.staying)} of {len(moved)} instances stay where they are: "
            + "; ".join(f"{name}: {why}" for name, why in list(done.staying.items())[:MOST_NAMES])
        )
    return done
