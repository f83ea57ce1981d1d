"""Campaigns of maintenance: groups of nodes in order, and the moves before and after each group.

A campaign has the groups of nodes and the moves of a rolling reboot. After each group, its
instances return, or stay, or are balanced. If they return, every group is planned from the initial
state. Otherwise each group is planned from the state after the groups before it.

Cost: one plan of reboots, or one for each group.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from iallocator.deadline import TIME_IS_UP, Stopped
from iallocator.model.state import State
from iallocator.options.settings import WORK_SECONDS
from iallocator.options.values import for_node
from iallocator.planners.power_state import AssumedMoves
from iallocator.planners.reboot.reboot import (
    NO_NODE,
    RebootGroup,
    RebootResult,
    chosen_nodes,
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
    from iallocator.planners.reboot.drain_plan import RebootOptions

    Balance = Callable[[Sequence[str]], Sequence[PlanEntry]]
    """Returns the moves that balance the node groups with these uuids."""

__all__ = ["AFTER", "BACK", "BALANCE", "STAY", "CampaignOptions", "plan_campaign"]

BACK, STAY, BALANCE = "back", "stay", "balance"

AFTER = (BACK, STAY, BALANCE)
"""The values of `CampaignOptions.after`."""

RUNS_HERE = "the command runs on it, and would end with it"


@dataclass(frozen=True)
class CampaignOptions:
    """Options of a campaign beside those of a rolling reboot.

    Attributes
    ----------
    after:
        What happens to the instances after each group: `BACK`, `STAY` or `BALANCE`.
    run, check:
        The commands that maintain and check a node, as `for_node` takes them; "" for none.
    reboots:
        Whether the nodes are rebooted.
    local:
        Name of the node on which the campaign runs, which it leaves out; "" if it is no node.
    bandwidth:
        MiB that are copied in a second, for estimates.
    work_seconds:
        Seconds for which a group is in maintenance, for estimates.
    """

    after: str = BACK
    run: str = ""
    check: str = ""
    reboots: bool = True
    local: str = ""
    bandwidth: float = 100.0
    work_seconds: float = WORK_SECONDS


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
        """Append a group with its moves."""
        self.rounds.append(one)
        self.add([*one.out, *one.back])

    def leave_out(self, part: object, reason: str) -> str:
        """Leave out one group, and if instances do not return, all groups after it."""
        if self.returns:
            return super().leave_out(part, reason)
        number = next((k for k, one in enumerate(self.rounds) if one is part), len(self.rounds))
        rounds_left_out = self.rounds[number:]
        left_out = [super(CampaignResult, self).leave_out(one, reason) for one in rounds_left_out]
        return "; ".join(left_out)

    def parts(self) -> list[tuple[object, RebootResult]]:  # type: ignore[override]
        """Return each group alone, if the groups do not depend on each other."""
        return super().parts() if self.returns else []  # type: ignore[return-value]

    @property
    def hand_commands(self) -> Mapping[int, Sequence[str]]:
        """Return the commands that maintain and check each node."""
        options, commands = self.options, {}
        for index in (index for one in self.rounds for index in one.nodes):
            name = self.cluster.nodes[index].name
            commands[index] = [for_node(text, name) for text in (options.run, options.check)]
        return commands

    def document(self) -> Json:
        """Return the campaign without its transition as plain data."""
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
        }
        return document


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
    """Return the groups of nodes of a campaign, and the moves before and after each.

    Parameters
    ----------
    cluster, settings, options, deadline, report
        As of `plan_reboots`.
    campaign
        The options of the campaign.
    limits
        The limits for instances that do not return.
    balance
        Balances some node groups.

    Raises
    ------
    NotFoundError
        If a node or the group is unknown.
    """
    wanted = chosen_nodes(cluster, options)
    refused = {
        node.index: RUNS_HERE for node in wanted if node.online and node.name == campaign.local
    }
    options = replace(options, done=[*options.done, *cluster.node_names([*refused])])
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
    """Append the groups to `done`, each planned after the moves of the groups before it.

    `planned`: the plan from the initial state, of which the first group is used.
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
                cluster, settings, replace(options, done=finished, first_only=True), deadline
            )
            if planned.plan.stop is not None:
                done.plan.end(planned.plan.stop)
                break
    done.left = {**planned.left, **left}
    if done.plan.stop is None:
        done.plan.reason = "" if done.rounds else NO_NODE
