"""Plan campaigns of maintenance: groups of nodes, and the moves before and after each group.

A campaign has the groups of nodes and the moves of a rolling reboot. After the maintenance of a
group, its instances return, or stay on their new nodes, or the node groups are balanced. If
instances return, every group is planned from the initial state. Otherwise each group is planned
from the state after the groups before it.

Cost: one plan of reboots, or one for each group.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import inf
from time import gmtime, strftime, time

from iallocator.deadline import TIME_IS_UP, Stopped
from iallocator.model.state import State
from iallocator.options.settings import WORK_SECONDS
from iallocator.options.values import for_node
from iallocator.planners.power_state import AssumedMoves
from iallocator.planners.reboot.options import chosen_nodes
from iallocator.planners.reboot.reboot import (
    NOTHING_REBOOTED,
    RebootGroup,
    RebootResult,
    plan_reboots,
    shortfalls,
)
from iallocator.planners.verify import verify_moves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from iallocator.aliases import Json
    from iallocator.constraints.relations import Relations
    from iallocator.deadline import Deadline
    from iallocator.model.cluster import Cluster
    from iallocator.options.settings import Settings
    from iallocator.planners.plan import PlanEntry
    from iallocator.planners.plan_limits import PlanLimits
    from iallocator.planners.reboot.options import RebootOptions

    Balance = Callable[[Sequence[str]], Sequence[PlanEntry]]
    """Returns the moves that balance the node groups with these uuids."""

__all__ = ["AFTER_CHOICES", "BACK", "BALANCE", "STAY", "CampaignOptions", "plan_campaign"]

BACK, STAY, BALANCE = "back", "stay", "balance"

AFTER_CHOICES = (BACK, STAY, BALANCE)
"""The values of `CampaignOptions.after`."""

RUNS_HERE = "the command runs on it, and would end with it"


@dataclass(frozen=True)
class CampaignOptions:
    """Options of a campaign, in addition to the options of a rolling reboot.

    Attributes
    ----------
    after:
        What happens after the maintenance of each group. `BACK`: the instances return. `STAY`: the
        instances stay on their new nodes. `BALANCE`: the node groups are balanced.
    run, check:
        The shell commands that maintain and check a node, in the form for `for_node`; "" for none.
    reboots:
        Whether the nodes are rebooted during the maintenance.
    local:
        Name of the node on which this program runs, which the campaign leaves out; "" if the
        program runs outside the cluster.
    bandwidth:
        The assumed speed of copying disks, in MiB per second, for estimates.
    work_seconds:
        The assumed duration of the maintenance of a group, in seconds, for estimates.
    until:
        The time before which groups must end, in seconds since 1970; None: there is no such time.
    """

    after: str = BACK
    run: str = ""
    check: str = ""
    reboots: bool = True
    local: str = ""
    bandwidth: float = 100.0
    work_seconds: float = WORK_SECONDS
    until: float | None = None


class CampaignResult(RebootResult):
    """The plan of a campaign.

    Attributes
    ----------
    away:
        Index of a node that is not online -> why the campaign leaves it out.
    """

    def __init__(
        self,
        cluster: Cluster,
        relations: Relations | None,
        master: int,
        options: CampaignOptions,
    ) -> None:
        super().__init__(cluster, relations, master)
        self.plan.command = "maintain"
        self.options = options
        self.away: dict[int, str] = {}
        self.returns = options.after == BACK
        self.settles = options.after == BALANCE

    def append(self, one: RebootGroup) -> None:
        """Append the group `one` and its moves to the plan."""
        self.rounds.append(one)
        self.add([*one.out, *one.back])

    def leave_out(self, part: object, reason: str) -> str:
        """Leave out the group `part`, for `reason`; return a description.

        If instances do not return, all groups after `part` are left out, too.
        """
        if self.returns:
            return super().leave_out(part, reason)
        number = next((k for k, one in enumerate(self.rounds) if one is part), len(self.rounds))
        rounds_left_out = self.rounds[number:]
        left_out = [super(CampaignResult, self).leave_out(one, reason) for one in rounds_left_out]
        return "; ".join(left_out)

    def parts(self) -> list[tuple[object, RebootResult]]:  # type: ignore[override]
        """Return each round with a campaign of this round alone; [] if instances do not return."""
        return super().parts() if self.returns else []  # type: ignore[return-value]

    @property
    def hand_commands(self) -> Mapping[int, Sequence[str]]:
        """Return index of each node -> the shell commands that maintain and check the node."""
        options, commands = self.options, {}
        for index in (index for one in self.rounds for index in one.nodes):
            name = self.cluster.nodes[index].name
            commands[index] = [for_node(text, name) for text in (options.run, options.check)]
        return commands

    def document(self) -> Json:
        """Return the campaign as plain data, without its transition."""
        options, document = self.options, super().document()
        names = self.cluster.node_names
        for group, one in zip(document["reboots"], self.rounds, strict=True):
            copied = sum(entry.move.copied for entry in (*one.out, *one.back))
            group["shell_commands"], group["check_commands"] = (
                [for_node(text, name) for name in names(one.nodes)] if text else []
                for text in (options.run, options.check)
            )
            group["placements_after"] = [
                {"instance": entry.move.instance.name, "nodes": names(entry.move.after)}
                for entry in one.back
            ]
            group["copied_mib"] = copied
            group["estimated_seconds"] = round(copied / options.bandwidth + options.work_seconds)
        groups = document["reboots"]
        ends = accumulate(group["estimated_seconds"] for group in groups)
        left = inf if options.until is None else options.until - time()
        document["kept"] += [
            {"node": self.cluster.nodes[index].name, "reason": reason}
            for index, reason in self.away.items()
        ]
        document["campaign"] = {
            "after_group": options.after,
            "run_command": options.run,
            "check_command": options.check,
            "reboots_nodes": options.reboots,
            "copied_mib": sum(group["copied_mib"] for group in groups),
            "estimated_seconds": sum(group["estimated_seconds"] for group in groups),
            "until": _utc(options.until),
            "groups_until": sum(end <= left for end in ends),
        }
        return document


def _utc(moment: float | None) -> str | None:
    """Return a time in seconds since 1970 as text; None if there is none."""
    return None if moment is None else strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(moment))


def plan_campaign(
    cluster: Cluster,
    settings: Settings,
    options: RebootOptions,
    campaign: CampaignOptions,
    limits: PlanLimits,
    balance: Balance,
    deadline: Deadline | None = None,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> CampaignResult:
    """Return the plan of a campaign: the groups of nodes, and the moves before and after each.

    Parameters
    ----------
    cluster, settings, options, deadline, report
        The arguments of `plan_reboots`.
    campaign
        The options of the campaign.
    limits
        The limits that are enforced after the moves of instances that do not return.
    balance
        Returns the moves that balance node groups; called if `after` is `BALANCE`.

    Raises
    ------
    NotFoundError
        If a node, or the group, that the options name is unknown.
    """
    wanted = chosen_nodes(cluster, options)
    refused = {
        node.index: RUNS_HERE for node in wanted if node.online and node.name == campaign.local
    }
    options = options.replace(done=[*options.done, *cluster.node_names([*refused])])
    planned = plan_reboots(cluster, settings, options, deadline, report)
    done = CampaignResult(cluster, planned.relations, planned.master, campaign)
    done.complete = planned.complete
    for node in wanted:
        if not node.online:
            why = "offline" if node.offline else "drained" if node.drained else "not vm_capable"
            (refused if options.only else done.away)[node.index] = f"it is {why}"
    done.left = {**planned.left, **refused}
    done.plan.reason, done.plan.stop = planned.plan.reason, planned.plan.stop
    if campaign.after == BACK:
        for one in planned.rounds:
            done.append(one)
        count = len(done.rounds)
        done.bounding = lambda: (
            planned.bounding() if planned.bounding and count == len(done.rounds) else None
        )
    elif planned.plan.stop is None:
        _plan_in_turn(done, planned, settings, options, limits, balance, deadline)
        done.left = {**done.left, **refused}
    if not planned.complete:
        done.shortfalls += planned.shortfalls
        return done
    if done.plan.stop is not None:
        grouped = {index for one in done.rounds for index in one.nodes}
        rest = [node.index for node in wanted if node.online and node.index not in grouped]
        done.left = {**dict.fromkeys(rest, done.plan.stop.reason), **done.left}
    done.shortfalls += shortfalls(cluster, done.left)
    return done


def _plan_in_turn(
    done: CampaignResult,
    planned: RebootResult,
    settings: Settings,
    options: RebootOptions,
    limits: PlanLimits,
    balance: Balance,
    deadline: Deadline | None,
) -> None:
    """Plan each group from the state after the groups before it, and append it to `done`.

    `planned`: the plan from the initial state; only its first group is used.
    """
    cluster = done.cluster
    finished = [*options.done]
    left: dict[int, str] = {}
    with AssumedMoves(cluster) as assumed:
        while planned.rounds:
            one = planned.rounds[0]
            names = cluster.node_names(one.nodes)
            finished += names
            out = RebootGroup(one.nodes, one.out, ())
            problem = next(iter(verify_moves(State(cluster), out.out, limits)), None)
            if problem is not None:
                left |= dict.fromkeys(
                    one.nodes, f"an instance would stay elsewhere: {problem.text}"
                )
            else:
                assumed.make([entry.move for entry in out.out])
                if done.settles:
                    groups = {cluster.nodes[index].group.uuid: None for index in one.nodes}
                    out.back = list(balance([*groups]))
                    assumed.make([entry.move for entry in out.back])
                done.append(out)
                if options.first_only:
                    break
            if deadline is not None and deadline.over():
                done.plan.end(Stopped(TIME_IS_UP))
                break
            planned = plan_reboots(
                cluster, settings, options.replace(done=finished, first_only=True), deadline
            )
            if planned.plan.stop is not None:
                done.plan.end(planned.plan.stop)
                break
    done.left = {**planned.left, **left}
    if done.plan.stop is None:
        done.plan.reason = "" if done.rounds else NOTHING_REBOOTED
