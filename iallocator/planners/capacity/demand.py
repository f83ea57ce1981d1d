"""Forecast the day on which each group is full, from the trend of the demand of its instances.

Demand is counted in standard instances, by the resource that is short when the group is full: if
memory is short, an instance with twice the memory of the standard size counts 2. The filling of
`capacity` determines how many more standard instances fit, with N+1 kept, and which resource is
then short.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from iallocator.model.columns import DISK, MEMORY
from iallocator.planners.capacity.trend import LEAST_DAYS, LEAST_POINTS, trend_of
from iallocator.units import DAY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iallocator.aliases import Json
    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.planners.capacity.capacity import CapacityReport
    from iallocator.planners.capacity.site import Size
    from iallocator.planners.capacity.trend import Trend

__all__ = [
    "NO_DEMAND", "SAMPLE_WINDOW", "DemandSample", "FullForecast", "GroupDemand", "daily",
    "demand_of", "demand_of_instance", "too_few",
]  # fmt: skip

SAMPLE_WINDOW = 180
"""The age in days from which samples are ignored."""

FORECAST_HORIZON = 3650
"""The number of days after which no date is forecast."""


class GroupDemand(NamedTuple):
    """The demand of a group: number of instances, memory and disk in MiB, virtual cpus.

    All instances are counted, whatever their state. Disk is the sum over all nodes of an instance.
    """

    instances: float
    memory: float
    disk: float
    vcpus: float


NO_DEMAND = GroupDemand(0, 0, 0, 0)

SHORT_ATTRIBUTES = {"FailMem": "memory", "FailN1": "memory", "FailDisk": "disk", "FailCPU": "vcpus"}
"""Reason of rejection -> the attribute of `GroupDemand` that is short; others: `instances`."""


class DemandSample(NamedTuple):
    """A time in seconds since 1970, and uuid of a group -> its demand at that time."""

    time: float
    groups: Mapping[str, GroupDemand]


def demand_of_instance(instance: Instance) -> GroupDemand:
    """Return the demand of one instance."""
    disk = instance.own_disk * instance.required_nodes
    return GroupDemand(1, instance.memory, disk, instance.vcpus)


def demand_of(cluster: Cluster) -> dict[str, GroupDemand]:
    """Return the uuid of each group -> the demand of the instances with their primary there."""
    by_group: dict[str, GroupDemand] = {}
    for group in cluster.groups:
        rows = list(map(demand_of_instance, cluster.members(group)))
        by_group[group.uuid] = GroupDemand(*map(sum, zip(*rows))) if rows else NO_DEMAND
    return by_group


def daily(samples: Iterable[DemandSample], now: float) -> list[DemandSample]:
    """Return the last sample of each day (UTC) until `now`, of the last `SAMPLE_WINDOW` days.

    `now` is in seconds since 1970.
    """
    by_day: dict[int, DemandSample] = {}
    for one in sorted(samples, key=lambda sample: sample.time):
        if now - SAMPLE_WINDOW * DAY <= one.time <= now:
            by_day[int(one.time // DAY)] = one
    return list(by_day.values())


def too_few(samples: Sequence[DemandSample]) -> str:
    """Return why daily `samples` are too few for a trend, in words; "" if they are enough."""
    days = (samples[-1].time - samples[0].time) / DAY if samples else 0.0
    if len(samples) >= LEAST_POINTS and days >= LEAST_DAYS:
        return ""
    days_with_data = "1 day has data" if len(samples) == 1 else f"{len(samples)} days have data"
    within = f", within {days:.1f} days" if len(samples) > 1 else ""
    least = f"at least {LEAST_POINTS} days with data within {LEAST_DAYS} days or more"
    return f"{days_with_data}{within}: expected {least}"


class _Growth(NamedTuple):
    """How many more standard instances fit, and the trend of their demand per day."""

    fit: int
    trend: Trend

    def days(self, slope: float) -> float | None:
        """Return the days until no more fits, with `slope` instances per day; None: never."""
        if not self.fit:
            return 0.0
        return self.fit / slope if slope > 0 else None


class FullForecast:
    """The forecast when groups are full, from the trend of their demand.

    Parameters
    ----------
    samples:
        One sample of each day, as `daily` returns them. There must be enough for a trend (see
        `too_few`).
    now:
        The time of the cluster, in seconds since 1970.
    size:
        The standard size.
    only:
        Name or uuid of the only group to report on; "": all groups.
    """

    def __init__(
        self, samples: Sequence[DemandSample], now: float, size: Size, only: str = ""
    ) -> None:
        self._samples = samples
        self._only = only
        self._now = now
        self._unit = demand_of_instance(size.instance(""))

    def document(self, report: CapacityReport) -> Json:
        """Return the forecast for the cluster of `report` as plain data."""
        groups = report.before.cluster.groups
        rows: list[Json] = []
        series = []
        for group in groups:
            if self._only not in ("", group.name, group.uuid):
                continue
            resource = self._resource(report, group.index)
            if not resource:
                rows.append({"group": group.name, "reason": _why_not(report)})
                continue
            growth = self._growth(report, group.index)
            rows.append({
                "group": group.name, "resource": resource, **self._row(growth),
                "used_up_sooner": self._used_up_sooner(report, group.index, growth),
            })  # fmt: skip
            series.append(self._series(group.uuid, resource))
        document: Json = {
            "day_count": len(self._samples),
            "since": _moment(self._samples[0].time),
            "groups": rows,
            "all_groups": None,
        }
        if len(series) > 1:
            days = [day for day, _ in series[0]]
            sums = [sum(values) for values in zip(*([v for _, v in one] for one in series))]
            count = sum(row["count"] for row in rows if "count" in row)
            whole = _Growth(count, trend_of(list(zip(days, sums))))
            document["all_groups"] = self._row(whole)
        return document

    def lasts(self, report: CapacityReport, names: Iterable[str]) -> float | None:
        """Return the days until the first of the groups `names` is full; None: never, or
        unknown.
        """
        days = []
        for group in report.before.cluster.groups:
            if group.name in names and self._resource(report, group.index):
                growth = self._growth(report, group.index)
                days.append(growth.days(growth.trend.slope))
        known = [one for one in days if one is not None]
        return min(known) if known else None

    def date(self, days: float | None) -> str | None:
        """Return the date after `days` days; None if `days` is None or above `FORECAST_HORIZON`."""
        if days is None or days > FORECAST_HORIZON:
            return None
        return _moment(self._now + days * DAY)[:10]

    def _row(self, growth: _Growth) -> Json:
        """Return a growth as plain data, with the expected, earliest and latest date.

        On this date, the group is full.
        """
        trend = growth.trend
        return {
            "count": growth.fit,
            "per_day": trend.slope,
            "per_day_lowest": trend.lowest,
            "per_day_highest": trend.highest,
            "full": self.date(growth.days(trend.slope)),
            "earliest": self.date(growth.days(trend.highest)),
            "latest": self.date(growth.days(trend.lowest)),
            "reason": "",
        }

    def _used_up_sooner(self, report: CapacityReport, group: int, growth: _Growth) -> Json | None:
        """Return the resource that is used up before the group is full by `growth`, and the date.

        The result is None if there is none. Such a resource shows that the instances differ from
        the standard size. Its amount is what is free on the online nodes, without regard to N+1.
        """
        state = report.before
        here = state.cluster.groups[group]
        nodes = [node for node in here.nodes if state.cluster.nodes[node].online]
        free = {
            "memory": sum(state.columns[MEMORY][node] for node in nodes),
            "disk": sum(state.columns[DISK][node] for node in nodes),
        }
        until = growth.days(growth.trend.slope)
        first: Json | None = None
        for resource, amount in free.items():
            demand = [
                ((one.time - self._now) / DAY,
                 getattr(one.groups.get(here.uuid, NO_DEMAND), resource))
                for one in self._samples
            ]  # fmt: skip
            slope = trend_of(demand).slope
            days = max(float(amount), 0.0) / slope if slope > 0 else None
            date = self.date(days)
            if date is not None and days is not None and (until is None or days < until):
                first, until = {"resource": resource, "date": date}, days
        return first

    def _resource(self, report: CapacityReport, group: int) -> str:
        """Return the resource that is short when the group with index `group` is full.

        The result is "" if the resource is unknown.
        """
        reason = report.limiting.get(group)
        if reason is None:
            return ""
        resource = SHORT_ATTRIBUTES.get(reason, "instances")
        return resource if getattr(self._unit, resource) else "instances"

    def _growth(self, report: CapacityReport, group: int) -> _Growth:
        uuid = report.before.cluster.groups[group].uuid
        points = self._series(uuid, self._resource(report, group))
        return _Growth(report.placed_by_group()[group], trend_of(points))

    def _series(self, uuid: str, resource: str) -> list[tuple[float, float]]:
        """Return (day, demand in standard instances) of a group, one pair for each sample.

        The demand is 0 for days before the group had instances.
        """
        unit = getattr(self._unit, resource)
        return [
            (
                (one.time - self._now) / DAY,
                getattr(one.groups.get(uuid, NO_DEMAND), resource) / unit,
            )
            for one in self._samples
        ]


def _why_not(report: CapacityReport) -> str:
    """Return in words why a group has no forecast."""
    run = report.standard
    if report.failing:
        return "the cluster is not N+1 compliant"
    if run is not None and run.filling.ended:
        return run.filling.ended
    return "no node of the group takes standard instances"


def _moment(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
