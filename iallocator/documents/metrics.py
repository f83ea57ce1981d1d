"""Collect metrics of a cluster for Prometheus: health, free capacity, and answered requests.

Names and units follow Prometheus' conventions: bytes and seconds, one name for each quantity, and
labels for its kinds. A metric is plain data: ``name``, ``type``, ``help``, and ``samples`` with
``labels`` and a ``value``. `iallocator.render.metrics` writes them as text.
"""

from __future__ import annotations

import re
from calendar import timegm
from collections import Counter
from time import strptime
from typing import NamedTuple

from iallocator import __version__
from iallocator.documents.keys import KEYS
from iallocator.model.columns import CPUS, DISK, MEMORY
from iallocator.planners.check.health import FINDING_KINDS, failures
from iallocator.scoring.metrics import STATISTICS
from iallocator.scoring.scalar import terms_of
from iallocator.units import MIB

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iallocator.aliases import Json
    from iallocator.calls.history import LoggedCall
    from iallocator.documents.cluster_facts import Examination
    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.state import State
    from iallocator.planners.capacity.capacity import CapacityReport
    from iallocator.planners.check.health import Finding, GroupHealth
    from iallocator.planners.result import PlanResult

__all__ = [
    "METRIC_DESCRIPTIONS", "campaign_metrics", "capacity_metrics", "forecast_metrics",
    "health_metrics", "job_metrics", "plan_metrics", "request_metrics", "rescue_metrics",
    "source_metrics", "steady_metrics", "unresponsive_nodes_metric",
]  # fmt: skip

GAUGE, SUMMARY, UNTYPED = "gauge", "summary", ""
"""Types of metrics. A counter has no type, because the two text formats name it differently."""


class Description(NamedTuple):
    """The type of a metric, and its meaning in one sentence."""

    kind: str
    help: str


METRIC_DESCRIPTIONS = {
    "info": Description(
        GAUGE, "The command, the name of the cluster and the version of iallocator; always 1."
    ),
    "read_timestamp_seconds": Description(
        GAUGE, "When a command read the cluster, in seconds since 1970."
    ),
    "run_duration_seconds": Description(
        GAUGE, "How long a command took to read the cluster and to compute its metrics."
    ),
    "nodes": Description(
        GAUGE, "Nodes by state; those that cannot run instances count as drained."
    ),
    "instances": Description(GAUGE, "Instances by state; each counts in the group of its primary."),
    "memory_bytes": Description(
        GAUGE, "Memory of online nodes: in all, free, and reserved for failovers."
    ),
    "disk_bytes": Description(GAUGE, "Local disk of online nodes: in all, and free."),
    "vcpus": Description(GAUGE, "Virtual cpus of online nodes: allowed by the policy, and used."),
    "score": Description(GAUGE, "The cluster score of the group; lower is better."),
    "score_term": Description(GAUGE, "The part of the score that comes from a statistic."),
    "problems": Description(GAUGE, "Nodes or instances with a problem, by kind, as check counts."),
    "failures_not_tolerated": Description(
        GAUGE, "Nodes with a failure after which some instance cannot be restarted."
    ),
    "failures_not_analysed": Description(
        GAUGE, "Nodes with a failure that was not analysed before the time limit."
    ),
    "failure_missing_memory_bytes": Description(
        GAUGE, "Memory of the instances that cannot be restarted after the worst failure of a node."
    ),
    "instances_not_restartable": Description(
        GAUGE, "Instances that cannot be restarted after the failure of some node."
    ),
    "instances_violating_constraints": Description(
        GAUGE, "Instances that violate a hard or a soft constraint."
    ),
    "capacity_instances": Description(
        GAUGE, "How many more instances of the standard size fit, with N+1 kept."
    ),
    "capacity_complete": Description(
        GAUGE, "1 if the capacity was counted to its end, 0 if the time limit ended the count."
    ),
    "capacity_full_timestamp_seconds": Description(
        GAUGE, "The day on which no further standard instance fits, with the range of the trend."
    ),
    "nodes_not_answering": Description(
        GAUGE, "Nodes that do not answer and are not marked offline."
    ),
    "requests_total": Description(
        UNTYPED, "Requests of Ganeti in the log, by type, outcome, and most frequent reason."
    ),
    "request_duration_seconds": Description(
        SUMMARY, "How long the requests of Ganeti in the log took, by type."
    ),
    "plan_moves": Description(GAUGE, "Moves of the plan that was made last."),
    "plan_copied_bytes": Description(GAUGE, "What the moves of the plan copy between nodes."),
    "plan_score": Description(GAUGE, "What the plan improves, before and after it."),
    "steady_moves": Description(
        GAUGE,
        "Moves in the history of balance --steady of the last 24 hours: planned, made as planned, "
        "and made without a plan.",
    ),
    "steady_round_timestamp_seconds": Description(
        GAUGE, "When balance --steady added the last sample to its history."
    ),
    "campaign_nodes": Description(GAUGE, "Nodes of a campaign of maintenance, by state."),
    "campaign_groups_done": Description(GAUGE, "Groups of nodes that the campaign has finished."),
    "campaign_complete": Description(
        GAUGE, "1 if every node of the campaign is done, otherwise 0."
    ),
    "campaign_begun_timestamp_seconds": Description(
        GAUGE, "When the first group of the campaign began, in seconds since 1970; 0: not yet."
    ),
    "campaign_remaining_seconds": Description(
        GAUGE, "Estimated time until the campaign ends; 0 if it is not known."
    ),
    "plan_jobs": Description(GAUGE, "Jobs of the executed plan, by state."),
    "rescue_watch_timestamp_seconds": Description(
        GAUGE, "When rescue --watch last counted the nodes that do not answer."
    ),
    "rescue_nodes": Description(
        GAUGE, "Nodes that rescue --watch counts: silent, or rescued and not back."
    ),
    "rescue_node_timestamp_seconds": Description(
        GAUGE, "When a node that is still offline was rescued, in seconds since 1970."
    ),
    "rescue_instances": Description(
        GAUGE,
        "Instances on rescued nodes that are still offline: not saved (primary there), or degraded "
        "(secondary there).",
    ),
    "rescue_jobs": Description(GAUGE, "Jobs of the last rescue of a node, by state."),
    "rescue_complete": Description(GAUGE, "1 if the last rescue of a node is complete, else 0."),
    "rescue_begun_timestamp_seconds": Description(
        GAUGE, "When the last rescue of a node began, in seconds since 1970."
    ),
}
"""Name of a metric without its prefix -> its description."""

PREFIX = "iallocator_"

Sample = tuple["Mapping[str, str]", float]


def _metric(name: str, samples: Iterable[Sample]) -> Json:
    """Return a metric as plain data."""
    kind, text = METRIC_DESCRIPTIONS[name]
    rows = [{"labels": dict(labels), "value": value} for labels, value in samples]
    return {"name": PREFIX + name, "type": kind, "help": text, "samples": rows}


def source_metrics(command: str, cluster: str, time: str, seconds: float) -> list[Json]:
    """Return metrics about the reading of `cluster` at `time`, which began `seconds` ago.

    `time` has the form of JSON documents: ``2026-01-02T03:10:00Z``. The label ``command`` keeps the
    samples of files apart that one node exporter reads.
    """
    moment = timegm(strptime(time, "%Y-%m-%dT%H:%M:%SZ"))
    labels = {"command": command}
    return [
        _metric("info", [({**labels, "cluster": cluster, "version": __version__}, 1)]),
        _metric("read_timestamp_seconds", [(labels, moment)]),
        _metric("run_duration_seconds", [(labels, round(seconds, 3))]),
    ]


def health_metrics(
    state: State,
    health: Sequence[GroupHealth],
    data: Mapping[int, Sequence[Finding]],
    how: Examination,
) -> list[Json]:
    """Return metrics about the groups of `health`.

    Parameters
    ----------
    state:
        The initial state of the cluster.
    health:
        The results of `iallocator.planners.check.health.examine` for this state.
    data:
        Index of a group -> findings about the data of its nodes.
    how:
        The modes of N+1, and the affinity constraints, that the examination used.
    """
    cluster, relations = state.cluster, how.relations
    group_of = {node.name: node.group.name for node in cluster.nodes}
    sizes = {one.name: one.memory for one in cluster.instances}
    lost: dict[str, list[list[str]]] = {}
    for one in failures(state, health, how.n1, how.modes):
        if one.unrestarted:
            lost.setdefault(group_of[one.node], []).append(one.unrestarted)

    rows: dict[str, list[Sample]] = {}

    def add(name: str, group: Group, value: float, **labels: str) -> None:
        rows.setdefault(name, []).append(({"group": group.name, **labels}, value))

    counts = None if relations is None else relations.rule_counts(state.where)
    for group_health in health:
        group, nodes = group_health.group, [cluster.nodes[k] for k in group_health.group.nodes]
        online = [node for node in nodes if node.online]
        states = Counter(
            "offline" if node.offline else "online" if node.online else "drained" for node in nodes
        )
        for word in ("online", "drained", "offline"):
            add("nodes", group, states[word], state=word)
        primaries = [one for node in nodes for one in state.primaries[node.index].values()]
        running = sum(one.running for one in primaries)
        add("instances", group, running, state="running")
        add("instances", group, len(primaries) - running, state="stopped")
        column = {k: sum(state.columns[k][node.index] for node in online) for k in (MEMORY, DISK)}
        total = sum(node.allocatable_memory for node in online)
        add("memory_bytes", group, total * MIB, state="total")
        add("memory_bytes", group, column[MEMORY] * MIB, state="free")
        reserved = sum(state.reserved[node.index] for node in online)
        add("memory_bytes", group, reserved * MIB, state="reserved")
        add("disk_bytes", group, sum(node.total_disk for node in online) * MIB, state="total")
        add("disk_bytes", group, column[DISK] * MIB, state="free")
        allowed = sum(node.total_cpus * node.vcpu_ratio for node in online)
        add("vcpus", group, allowed, state="allowed")
        add("vcpus", group, sum(state.columns[CPUS][n.index] for n in online), state="used")
        terms = terms_of(state, group.nodes)
        add("score", group, sum(terms))
        for statistic, term in zip(STATISTICS, terms, strict=True):
            add("score_term", group, term, statistic=statistic.name)
        problems = {**group_health.counts, "inconsistent": len(data.get(group.index, ()))}
        for kind in FINDING_KINDS:
            add("problems", group, problems[kind], kind=kind)
        add("failures_not_tolerated", group, problems["global_n1"])
        add("failures_not_analysed", group, len(group_health.not_analysed))
        sets = lost.get(group.name, [])
        missing = max((sum(sizes.get(name, 0) for name in one) for one in sets), default=0)
        add("failure_missing_memory_bytes", group, missing * MIB)
        add("instances_not_restartable", group, len({name for one in sets for name in one}))
        soft = 0
        if relations is not None and counts is not None:
            soft = sum(
                any(relations.violated_soft(one.name, node.index, counts))
                for node in nodes
                for one in state.primaries[node.index].values()
            )
        add("instances_violating_constraints", group, problems["musts"], strength="hard")
        add("instances_violating_constraints", group, soft, strength="soft")
    return [_metric(name, samples) for name, samples in rows.items()]


def capacity_metrics(report: CapacityReport, group: str) -> list[Json]:
    """Return metrics of how many standard instances fit in each group, or only in `group`.

    `group` is a name or uuid; "" for all groups.
    """
    run, cluster = report.standard, report.before.cluster
    if run is None:
        return []
    counts = report.placed_by_group()
    complete = not (run.filling.ended or run.filling.interrupted)
    return [
        _metric(
            "capacity_instances",
            [
                ({"group": one.name, "size": "standard"}, counts[one.index])
                for one in cluster.groups
                if one.nodes and group in ("", one.name, one.uuid)
            ],
        ),
        _metric("capacity_complete", [({}, int(complete))]),
    ]


def forecast_metrics(trend: Json) -> list[Json]:
    """Return metrics with the time at which each group is full, from a forecast (`trend`).

    A group without a date within ten years has no sample.
    """
    samples: list[Sample] = [
        ({"group": row["group"], "bound": bound}, timegm(strptime(row[key], "%Y-%m-%d")))
        for row in trend["groups"]
        for key, bound in (("full", "expected"), ("earliest", "earliest"), ("latest", "latest"))
        if row.get(key)
    ]
    return [_metric("capacity_full_timestamp_seconds", samples)] if samples else []


def unresponsive_nodes_metric(cluster: Cluster) -> Json:
    """Return a metric of how many nodes per group do not answer and are not marked offline."""
    silent = Counter(
        node.group.name for node in cluster.nodes if node.name in cluster.assumed_offline
    )
    rows = [({"group": one.name}, silent[one.name]) for one in cluster.groups if one.nodes]
    return _metric("nodes_not_answering", rows)


def request_metrics(calls: Iterable[LoggedCall]) -> list[Json]:
    """Return metrics of how many requests were answered and rejected, why, and their duration."""
    counts: Counter[tuple[str, str, str]] = Counter()
    seconds: dict[str, list[float]] = {}
    for one in calls:
        # The reason that rejected most placements, by the counts in the answer
        rejected: Counter[str] = Counter()
        for name, count in COUNT.findall(one.answer) if one.outcome != "success" else ():
            rejected[name] += int(count)
        reason = max(rejected, key=rejected.__getitem__, default="")
        counts[one.kind, OUTCOME_LABELS.get(one.outcome, one.outcome), reason] += 1
        seconds.setdefault(one.kind, []).append(one.seconds)
    if not counts:
        return []
    total = [
        ({"type": kind, "outcome": outcome, "reason": reason}, count)
        for (kind, outcome, reason), count in sorted(counts.items())
    ]
    durations = _metric(
        "request_duration_seconds",
        [({"type": kind}, len(times)) for kind, times in sorted(seconds.items())],
    )
    for row, (_, times) in zip(durations["samples"], sorted(seconds.items()), strict=True):
        row["sum"] = round(sum(times), 6)
    return [_metric("requests_total", total), durations]


COUNT = re.compile(r"\b(Fail[A-Za-z0-9]+): (\d+)")
"""A pattern for a reason and its count in ``info``, such as ``FailMem: 2``."""

OUTCOME_LABELS = {"success": "answered", "failed": "rejected"}
"""Outcome of a call -> the word for it in metrics, if the word is another one."""


def plan_metrics(done: PlanResult) -> list[Json]:
    """Return metrics of the size of a plan, and of its scores if its document has them."""
    labels = {"command": done.plan.command}
    found = [
        _metric("plan_moves", [(labels, len(done.moves))]),
        _metric("plan_copied_bytes", [(labels, sum(move.copied for move in done.moves) * MIB)]),
    ]
    if ("scores", "") not in KEYS.get(done.plan.command, ()):
        before, after = done.scores
        moments = {"before": before, "after": after}
        found.append(
            _metric("plan_score", [({**labels, "moment": one}, moments[one]) for one in moments])
        )
    return found


def steady_metrics(moves: Json) -> list[Json]:
    """Return metrics of the moves of a day, from the result of `day_of_moves`."""
    states = [({"state": word}, moves[word]) for word in ("planned", "made", "unplanned")]
    return [
        _metric("steady_moves", states),
        _metric("steady_round_timestamp_seconds", [({}, moves["last_round"])]),
    ]


def campaign_metrics(progress: Json) -> list[Json]:
    """Return metrics of the state of a campaign of maintenance, from its `progress`."""
    states = [({"state": word}, len(progress[word])) for word in ("done", "to_do", "left_out")]
    return [
        _metric("campaign_nodes", states),
        _metric("campaign_groups_done", [({}, progress["groups_done"])]),
        _metric("campaign_complete", [({}, int(progress["complete"]))]),
        _metric("campaign_begun_timestamp_seconds", [({}, progress["begun"])]),
        _metric("campaign_remaining_seconds", [({}, progress["estimated_seconds"])]),
    ]


def rescue_metrics(
    cluster: Cluster,
    rescued: Mapping[str, float],
    report: Json | None,
    begun: float,
    watch: Json | None,
) -> list[Json]:
    """Return metrics of the rescues of dead nodes; none if there was no rescue and no watch.

    Parameters
    ----------
    cluster:
        The cluster as it is now.
    rescued:
        Name of each rescued node that is still offline -> when its rescue began.
    report:
        The progress of the last rescue, as `execution_document` returns it; None for none.
    begun:
        When the last rescue began.
    watch:
        What ``rescue --watch`` stored last: its ``time``, and the numbers of nodes that are
        ``silent`` and ``rescued``; None if it never ran.

    Times are in seconds since 1970.
    """
    metrics = []
    if watch is not None:
        states = [({"state": word}, watch[word]) for word in ("silent", "rescued")]
        metrics += [
            _metric("rescue_watch_timestamp_seconds", [({}, watch["time"])]),
            _metric("rescue_nodes", states),
        ]
    if report is not None:
        counts = Counter(job["state"] for job in report["jobs"])
        metrics += [
            _metric("rescue_jobs", [({"state": word}, n) for word, n in sorted(counts.items())]),
            _metric("rescue_complete", [({}, int(report["complete"]))]),
            _metric("rescue_begun_timestamp_seconds", [({}, begun)]),
        ]
    if not metrics:
        return []
    group_of = {node.name: node.group.name for node in cluster.nodes}
    if rescued:
        times = [
            ({"group": group_of[name], "node": name}, moment)
            for name, moment in sorted(rescued.items())
        ]
        metrics.append(_metric("rescue_node_timestamp_seconds", times))
    amounts: Counter[tuple[str, str]] = Counter()
    for one in cluster.instances:
        names = cluster.node_names(one.nodes)
        for name, state in zip(names, ("unsaved", "degraded")):
            if name in rescued:
                amounts[group_of[names[0]], state] += 1
                break
    rows = [
        ({"group": one.name, "state": state}, amounts[one.name, state])
        for one in cluster.groups if one.nodes
        for state in ("unsaved", "degraded")
    ]  # fmt: skip
    return [*metrics, _metric("rescue_instances", rows)]


def job_metrics(command: str, report: Json) -> list[Json]:
    """Return metrics of how many jobs of an execution are in each state, from its `report`."""
    counts = Counter(job["state"] for job in report["jobs"])
    return [
        _metric(
            "plan_jobs",
            [({"command": command, "state": state}, n) for state, n in sorted(counts.items())],
        )
    ]
