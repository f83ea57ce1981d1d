"""The command ``capacity``: count how many more instances fit."""

from __future__ import annotations

from iallocator.commands.capacity_options import capacity_options
from iallocator.commands.command import Result, ShownState, enforced_relations
from iallocator.commands.progress import progress_line, say_progress
from iallocator.deadline import limit_reached
from iallocator.engine import effective_settings
from iallocator.errors import STATUS_INCOMPLETE, many, tell
from iallocator.planners.capacity.capacity import (
    CapacityOptions,
    compute_capacity,
)
from iallocator.planners.capacity.report import capacity_document, key_lines
from iallocator.render import TEXT
from iallocator.render.capacity import allocation_map
from iallocator.wire.reading import Reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from iallocator.aliases import Json
    from iallocator.commands.command import Command
    from iallocator.deadline import Deadline
    from iallocator.model.state import State
    from iallocator.planners.capacity.capacity import CapacityReport, Run
    from iallocator.planners.capacity.demand import FullForecast
    from iallocator.planners.capacity.fill import FillResult
    from iallocator.planners.capacity.purchases import Bought
    from iallocator.sources.hypothetical import Purchase

__all__ = ["capacity"]


def capacity(command: Command, deadline: Deadline) -> Result:
    """Count how many instances fit: place one after the other while N+1 is kept."""
    wanted = capacity_options(command.settings, command.effective, command.source)
    purchases, cluster = command.settings.add_nodes, command.source.cluster
    if purchases:
        from iallocator.sources.hypothetical import placed_in

        placed_in(cluster, purchases, command.settings.group)
    full: FullForecast | None = None
    if command.settings.forecast or command.settings.history:
        from iallocator.commands.demand_history import demand_history
        from iallocator.planners.capacity.demand import FullForecast

        samples, now = demand_history(command)
        if samples:
            full = FullForecast(samples, now, wanted.standard, wanted.scope.group)
            wanted.by_group = True
    if purchases:
        part = deadline.part(1 / (1 + len(purchases))).seconds
        wanted.extent = wanted.extent.replace(seconds=part)
    bought: list[Bought] = []
    with progress_line("filling"):
        report = compute_capacity(cluster, wanted, _say_filling)
        for number, one in enumerate(purchases):
            if report.interrupted or (bought and bought[-1].report.interrupted):
                break
            part = deadline.part(1 / (len(purchases) - number)).seconds
            bought.append(_after(one, command, wanted, part))
        return Filled(report, command, bought, full)


def _after(
    bought: Purchase, command: Command, wanted: CapacityOptions, seconds: float | None
) -> Bought:
    """Return the purchase `bought` with the count of the instances that fit after it.

    `wanted`: the options of the count without the purchase. `seconds`: the time limit of the count;
    None for no limit.
    """
    from iallocator.planners.capacity.purchases import Bought
    from iallocator.sources.hypothetical import with_nodes

    cluster, reading = command.source.cluster, Reading.of(command.settings)
    grown = with_nodes(cluster, bought, command.source.document, reading)
    effective_settings(grown, {}, command.settings, [])  # also sets capacity limits of nodes
    new = [node.name for node in grown.nodes[len(cluster.nodes) :]]
    known = wanted.scope.allowed
    options = wanted.replace(
        largest=(),
        past=(),
        scope=wanted.scope.replace(allowed=None if known is None else [*known, *new]),
        extent=wanted.extent.replace(seconds=seconds),
    )
    nodes: dict[str, int] = {}
    for kind in bought.kinds:
        nodes[kind.group] = nodes.get(kind.group, 0) + kind.count
    return Bought(bought.text, nodes, bought.cost, compute_capacity(grown, options, _say_filling))


class Filled(Result):
    """The result of ``capacity``: the placed instances, and the states before and after.

    `bought`: purchases, each with the capacity of the cluster that has the bought nodes. `full`:
    the forecast of the dates on which groups are full; None if no option requests it.
    """

    def __init__(
        self,
        report: CapacityReport,
        command: Command,
        bought: Sequence[Bought] = (),
        full: FullForecast | None = None,
    ) -> None:
        reports = [report, *(one.report for one in bought)]
        late = any(one.late for one in reports)
        super().__init__(status=1 if report.nowhere else STATUS_INCOMPLETE if late else 0)
        self._bought = bought
        self._full = full
        settings = command.settings
        self._report = report
        self._settings = settings
        self._tagged = command.effective
        self.interrupted = any(one.interrupted for one in reports)
        self.before = [ShownState("Initial", "", lambda: report.before)]
        self.before += (
            ShownState(kind.capitalize(), kind, _state_of(run))
            for kind, run in (("tiered", report.tiered), ("standard", report.standard))
            if run is not None
        )
        if late:
            self.problems.append(limit_reached(settings.planning_seconds))
        if report.nowhere:
            self.problems.append("no online nodes for instances of this kind")

    def complete(self) -> bool:
        """Make the document; with ``-v`` draw on stderr on which nodes instances were placed."""
        self._document = capacity_document(self._report)
        if self._full is not None:
            self._document["trend"] = self._full.document(self._report)
        if self._bought:
            from iallocator.planners.capacity.purchases import purchases_document

            self._document["purchases"] = purchases_document(self._report, self._bought, self._full)
        if self._settings.verbose:
            for kind in ("tiered", "standard"):
                if kind in self._document:
                    tell(*allocation_map(kind.capitalize(), self._document[kind]))
        return True

    def machine_lines(self) -> Iterable[str]:
        """Return the number of instances that fit, and their resources, with hspace's keys."""
        return key_lines(self._report)

    def metrics(self) -> list[Json]:
        """Return how many standard instances fit in each group, and when each one is full."""
        from iallocator.documents.metrics import capacity_metrics, forecast_metrics

        trend = {} if self._full is None else self._full.document(self._report)
        full = forecast_metrics(trend) if trend else []
        return [*capacity_metrics(self._report, self._settings.group), *full]

    def facts(self, medium: str) -> Json:
        """Return nothing for the text; for the page, the health of the present and full cluster."""
        if medium == TEXT:
            return {}
        from iallocator.documents.cluster_facts import Examination, health_at, inventory, nodes_at

        settings, report = self._settings, self._report
        relations = enforced_relations(report.before.cluster, settings)
        how = Examination.of(self._tagged, settings.min_disk, relations)
        filled = (("Tiers", report.tiered), ("Standard", report.standard))
        ends = [nodes_at(run.state, title) for title, run in filled if run is not None]
        full = None if report.standard is None else health_at(report.standard.state, how)
        return {
            "cluster": inventory(report.before.cluster),
            "states": [nodes_at(report.before, "Now"), *ends],
            "after": full,
            "before": health_at(report.before, how),
        }


def _state_of(run: Run) -> Callable[[], State]:
    return lambda: run.state


def _say_filling(kind: str, filling: FillResult) -> None:
    say_progress(f"{kind}: {many(len(filling.placed), 'instance')}")
