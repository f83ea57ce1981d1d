"""The command ``metrics``: write the health and the capacity of a cluster for Prometheus."""

from __future__ import annotations

import os
from time import time

from iallocator.calls.call import SYSLOG
from iallocator.calls.history import logged_calls
from iallocator.commands.capacity_options import capacity_options
from iallocator.commands.command import Result, enforced_relations
from iallocator.commands.made_moves import day_of_moves
from iallocator.commands.planner_options import LOADS_FOLDER, WATCH_FOLDER
from iallocator.commands.progress import progress_line
from iallocator.commands.rescue_watch import Rescues
from iallocator.deadline import Deadline, limit_reached
from iallocator.documents.cluster_facts import Examination
from iallocator.documents.metrics import (
    campaign_metrics,
    capacity_metrics,
    health_metrics,
    request_metrics,
    rescue_metrics,
    steady_metrics,
    unresponsive_nodes_metric,
)
from iallocator.errors import STATUS_INCOMPLETE, tell
from iallocator.execution.campaign import CampaignState
from iallocator.execution.journal import default_path
from iallocator.model.state import State
from iallocator.planners.capacity.capacity import compute_capacity
from iallocator.planners.check.health import data_findings, examine
from iallocator.planners.eligible import group_named, set_vcpu_ratio

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iallocator.aliases import Json
    from iallocator.commands.command import Command

__all__ = ["metrics"]

HEALTH_TIME_SHARE = 0.5
"""The share of the time for the health of the cluster; the rest is for its capacity."""


def metrics(command: Command, deadline: Deadline) -> Result:
    """Examine the cluster, count how many more instances fit, and read the log of requests."""
    own: Any = command.effective
    cluster = command.source.cluster
    if own.max_cpu is not None:
        set_vcpu_ratio(cluster, own.max_cpu)
    state = State(cluster)
    how = Examination.of(own, own.min_disk, enforced_relations(cluster, own))
    with progress_line("checking"):
        first = deadline if own.no_capacity else deadline.part(HEALTH_TIME_SHARE)
        health = examine(state.copy(), how.n1, how.min_disk, how.relations, first, how.modes)
    if own.group:
        only = group_named(cluster, own.group)
        health = [one for one in health if one.group is only]
    metric_list = health_metrics(state, health, data_findings(state), how)
    late = any(one.not_analysed for one in health)
    if not own.no_capacity:
        wanted = capacity_options(command.settings, command.effective, command.source)
        wanted.largest = []
        with progress_line("filling"):
            report = compute_capacity(cluster, wanted, lambda kind, filling: None)
        metric_list += capacity_metrics(report, own.group)
        late = late or report.late
    if own.log == SYSLOG and not own.capture:
        tell("Warning: --log=syslog: the system log is not read: no requests are counted")
    log = "" if own.log == SYSLOG else own.log
    metric_list += request_metrics(logged_calls(log, own.capture, own.max_input))
    if command.settings.asks_running_cluster:
        metric_list.append(unresponsive_nodes_metric(cluster))
        state_folder = os.path.dirname(default_path("maintain", ""))
        campaign = CampaignState.latest(state_folder, cluster.name)
        metric_list += campaign_metrics(campaign.progress()) if campaign else []
        moves = day_of_moves(LOADS_FOLDER, time(), own.max_input)
        metric_list += steady_metrics(moves) if moves else []
        rescues = Rescues(cluster, os.path.dirname(default_path("rescue", "")), WATCH_FOLDER)
        metric_list += rescue_metrics(
            cluster, rescues.rescued, rescues.report, rescues.begun, rescues.watch
        )
    return Measured(metric_list, command, late)


class Measured(Result):
    """The result of ``metrics``: the metrics of a cluster."""

    def __init__(self, metrics: list[Json], command: Command, late: bool) -> None:
        settings: Any = command.settings
        super().__init__(
            {"metrics": command.measured(metrics)},
            {"file": settings.metrics},
            STATUS_INCOMPLETE if late else 0,
        )
        self._metrics = metrics
        if late:
            self.problems.append(limit_reached(settings.planning_seconds))

    def metrics(self) -> list[Json]:
        """Return the metrics, except those about the reading of the cluster."""
        return self._metrics
