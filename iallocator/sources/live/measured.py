"""Read the measured utilisation of nodes and instances from monitoring daemons or a file.

``cpu-avg-load`` is measured per node. It is divided among the virtual cpus of the instances on the
node, and the cpus of the node itself. As in hbal, the node's own part stays when instances move.
``xen-cpu-avg-load`` is measured per instance. If one online node, or an instance on it, has no
measurement, no measurement is used: a mixture would move instances for no reason.
"""

from __future__ import annotations

from iallocator.deadline import Deadline, DeadlineError
from iallocator.errors import IallocatorError, RequestError, UsageError
from iallocator.files import read_file
from iallocator.live.stream import ANSWER_SECONDS, LiveError, Server, ask, in_threads, why
from iallocator.model.cluster import set_cpu_loads
from iallocator.sources.live.load import reading_deadline
from iallocator.tolerances import LARGEST_LOAD
from iallocator.wire.codec import decode, decode_any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from iallocator.model.cluster import Cluster, Node
    from iallocator.options.settings import Settings

    Report = dict[str, Any]

__all__ = ["MissingError", "add_measured"]

NODE_REPORT = "cpu-avg-load"
INSTANCE_REPORT = "xen-cpu-avg-load"

MONITORING_PORT = 1815
"""Port of the monitoring daemon."""

LARGEST_REPORT = 2**20
"""The largest accepted report, in bytes: enough for the loads of more than 10 000 instances."""

DAEMONS_AT_ONCE = 16
"""The number of daemons that are asked at a time."""

REPORT_GRACE_SECONDS = 0.1
"""Seconds after the deadline in which the threads can still report which daemon was late."""


class MissingError(IallocatorError):
    """Measurements that must be complete are incomplete.

    `nodes`: names of the nodes with a daemon that does not answer; `instances`: names of the
    instances without a measurement.
    """

    exit_status = 1

    def __init__(
        self, problem: str, nodes: Sequence[str] = (), instances: Sequence[str] = ()
    ) -> None:
        super().__init__(problem)
        self.nodes = nodes
        self.instances = instances


def add_measured(cluster: Cluster, settings: Settings) -> list[str]:
    """Set the measured utilisation of `cluster`, if `settings` request it; return warnings.

    Raises
    ------
    UsageError
        If an option would have no effect, or the file is invalid.
    MissingError
        If a required measurement is missing.
    """
    if not settings.measures:
        alone = ("mond_xen", "exit_on_missing_mond_data")
        idle = any(getattr(settings, one) and settings.asks_here(one) for one in alone)
        if idle and settings.mond != "no":
            raise UsageError(
                "--mond-xen and --exit-on-missing-mond-data need --mond or --mond-data"
            )
        return []
    if settings.ignore_dynu:
        raise UsageError("--ignore-dynu and --mond exclude each other")
    behaviour = settings.behaviour
    queried = [node for node in cluster.nodes if not node.offline or behaviour.asks_offline_daemons]
    kind = INSTANCE_REPORT if settings.mond_xen else NODE_REPORT
    apply = _apply_to_instances if settings.mond_xen else _apply_to_nodes
    try:
        reports = _reports([node.name for node in queried], kind, settings)
        apply(cluster, queried, reports)
    except MissingError as missing:
        if settings.exit_on_missing_mond_data:
            raise
        return [f"Warning: {missing}; no measured load counts"]
    return []


def _reports(nodes: Sequence[str], kind: str, settings: Settings) -> Mapping[str, Report | None]:
    """Return node -> its report of the type `kind`; None for a missing report.

    Raises
    ------
    MissingError
        If a daemon does not answer, or its answer is invalid.
    """
    if settings.mond_data:
        # The reports in a file: a list of `{"node": NAME, "reports": [...]}`
        path = settings.mond_data
        try:
            value = decode_any(read_file(path, settings.max_input))
        except RequestError as error:
            raise UsageError(f"{path}: {error}") from None
        reports: dict[str, Report | None] = {}
        try:
            if not isinstance(value, list):
                raise TypeError
            for entry in value:
                of_kind = [one for one in entry["reports"] if one["name"] == kind]
                reports[entry["node"]] = of_kind[0] if of_kind else None
        except (TypeError, KeyError):
            raise UsageError(
                f'{path}: expected [{{"node": NAME, "reports": [{{"name": KIND, "data": ...}}]}}]'
            ) from None
        return reports

    every = settings.behaviour.asks_all_daemons
    return _ask_daemons(nodes, kind, reading_deadline(settings, in_run=True), every)


def _apply_to_nodes(
    cluster: Cluster, nodes: Sequence[Node], reports: Mapping[str, Report | None]
) -> None:
    """Divide the utilisation of each node in `nodes` among its cpus and those of its instances.

    Raises
    ------
    MissingError
        If a measurement is missing; then nothing is changed.
    """
    loads: dict[int, float] = {}
    for node in nodes:
        data = (reports.get(node.name) or {}).get("data")
        load = _number(data.get("cpu_total")) if isinstance(data, dict) else None
        if load is None:
            raise MissingError(f"node {node.name} does not report its cpu load ({NODE_REPORT})")
        loads[node.index] = load
    vcpus = {index: float(cluster.nodes[index].reserved_cpus) for index in loads}
    held = [i for i in cluster.instances if i.nodes[0] in loads]
    for instance in held:
        vcpus[instance.nodes[0]] += (
            0 if instance.admin_offline or instance.forthcoming else instance.vcpus
        )
    shares = {
        i.name: loads[i.nodes[0]] / vcpus[i.nodes[0]] * i.vcpus for i in held if vcpus[i.nodes[0]]
    }
    set_cpu_loads(cluster, shares)
    own = dict(loads)
    for instance in held:
        if not instance.forthcoming:
            own[instance.nodes[0]] -= instance.load[0]
    for node in nodes:
        node.own_cpu_load = own[node.index]
        node.load = loads[node.index] / node.total_cpus if node.total_cpus else 0.0


def _apply_to_instances(
    cluster: Cluster, nodes: Sequence[Node], reports: Mapping[str, Report | None]
) -> None:
    """Set the utilisation of each instance on `nodes`.

    Raises
    ------
    MissingError
        If a measurement is missing; then nothing is changed.
    """
    loads: dict[str, float] = {}
    for node in nodes:
        data = (reports.get(node.name) or {}).get("data")
        if not isinstance(data, dict):
            missing = f"the cpu load of its instances ({INSTANCE_REPORT})"
            raise MissingError(f"node {node.name} does not report {missing}")
        loads |= {n: load for n, raw in data.items() if (load := _number(raw)) is not None}
    queried = {node.index for node in nodes}
    unknown = [i for i in cluster.instances if i.nodes[0] in queried and i.name not in loads]
    for instance in unknown:
        if instance.uses_memory:
            problem = (
                f"no node reports the cpu load of instance {instance.name} ({INSTANCE_REPORT})"
            )
            raise MissingError(problem, instances=[one.name for one in unknown])
    set_cpu_loads(cluster, loads)
    totals = dict.fromkeys(queried, 0.0)
    for instance in cluster.instances:
        if instance.nodes[0] in queried:
            totals[instance.nodes[0]] += loads.get(instance.name, 0.0)
    for node in nodes:
        node.load = totals[node.index] / node.total_cpus if node.total_cpus else 0.0


def _number(value: object) -> float | None:
    """Return `value` as a utilisation; None if it is not a valid one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= LARGEST_LOAD else None


def _ask_daemons(
    nodes: Sequence[str], report: str, deadline: Deadline, every: bool
) -> dict[str, Report]:
    """Return node -> the report of its daemon that is called `report`.

    A node that has been broken into can send any answer. Therefore, the time and the size of
    answers are limited.

    Raises
    ------
    MissingError
        If a daemon does not answer, or its answer is invalid. The error is raised at once, because
        incomplete reports are not used; with `every`, after all other daemons were asked.
    """

    def question(node: str) -> Report:
        target = f"/1/report/default/{report}"
        within = deadline.within(ANSWER_SECONDS)
        status, raw = ask(Server(node, MONITORING_PORT), "GET", target, within, LARGEST_REPORT)
        if status != 200:
            raise OSError(f"HTTP {status}")
        return decode(raw)

    reports: dict[str, Report] = {}
    failures: dict[str, str] = {}
    try:
        last = Deadline(deadline.left + REPORT_GRACE_SECONDS, deadline.limit)
        for node, outcome in in_threads(question, nodes, DAEMONS_AT_ONCE, last, "no report"):
            if isinstance(outcome, OSError | ValueError | RequestError):
                failures[node] = str(LiveError(node, why(outcome)))
                if not every:
                    break
            elif isinstance(outcome, Exception):
                raise outcome
            else:
                reports[node] = outcome
    except DeadlineError as error:
        for node in nodes:
            if node not in reports:
                failures.setdefault(node, str(LiveError(node, str(error))))
    if failures:
        failed = [node for node in nodes if node in failures]
        problem = f"the monitoring daemon of node {failures[failed[0]]}"
        raise MissingError(problem, nodes=failed)
    return reports
