"""Steady balancing: make few moves, based on the history of loads instead of one sample.

The history gives a profile of the cpu load of each instance by hour of the day.  The first part of
the objective is the expected deviation: the standard deviation of the cpu loads of nodes, in
percent of a node, as the mean over the hours of a day.  The second part is the expected overload of
nodes: from the deviation of samples from the profile follows how far the load of a node may exceed
the limit at each hour.  The third part counts nodes with far more memory, disk or network load than
the mean of nodes, in the same way.  A move must lower the objective by more than its cost in two
profiles: that of all samples, and that of samples older than the hold time.  A node that stays
overloaded is relieved at any hour.

The search is `LocalSearch` with one neighbourhood, `SteadyMove`. Limits, constraints and N+1 are
checked as in all balancing.

Cost: samples × instances × 24 for the profiles, and instances × nodes × 24 for each move.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iallocator.deadline import check
from iallocator.errors import FEW_NAMES, many, named
from iallocator.n1 import UndecidedError
from iallocator.planners.balance.compound_moves import allowed_move
from iallocator.planners.balance.move_kinds import BY_NAME, ScoredMoves, kinds_to
from iallocator.planners.balance.plan_builder import PlanBuilder, Step
from iallocator.planners.plan import Plan
from iallocator.planners.plan_limits import length_reached
from iallocator.planners.search import LOCAL_OPTIMUM, Acceptance, LocalSearch, Neighbourhood
from iallocator.tolerances import VARIANCE_TOLERANCE
from iallocator.units import DAY, GIB, HOUR

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from iallocator.aliases import Floats
    from iallocator.constraints.rule_counts import LiveRuleCounts
    from iallocator.deadline import Stopped
    from iallocator.model.cluster import Node
    from iallocator.model.instance import Instance
    from iallocator.model.moves import Move
    from iallocator.model.state import State
    from iallocator.n1 import Failure
    from iallocator.n1.tolerance import FailureTolerance
    from iallocator.planners.balance.plan_builder import BalanceProblem, Progress
    from iallocator.planners.plan_limits import StopCriteria
    from iallocator.planners.search import Objective

__all__ = ["LoadSample", "Measured", "SteadyBalancer", "SteadyLimits", "SteadyPolicy"]

HALF_LIFE = 3 * DAY
"""The age in seconds at which a sample has half of its weight for the shape of the day."""

LEVEL_HALF_LIFE = DAY
"""The age in seconds at which a sample has half of its weight for the level of all hours.

Loads change within days. The shape of the day changes less and needs more samples.
"""

CORRELATED_SAMPLES = 2.0
"""The number of samples that count as one for the variance of a level, as noise is correlated."""

HOUR_WEIGHT_WIDTH = 1.5
"""The standard deviation, in hours, of the weight of a sample by its distance from an hour."""

PRIOR_SAMPLES = 1.0
"""The number of samples by which the mean of all hours is weighted in the profile of an hour."""

LEAST_SAMPLES = 3
"""The least number of samples of an instance that may move."""

LEAST_HELD = 2
"""The least number of samples, older than the hold time, of an instance that may move."""

RELIEF_SAMPLES = 2
"""The least number of samples of an instance that may leave an overloaded node."""

RELIEF_HISTORY = 1.0
"""The hours that the history must span before an overloaded node is relieved."""

RELIEVED_DISTANCE = 0.1
"""Distance from the overload limit, as a share of a node, that the target of a relief keeps."""

BARELY_RELIEVED = 0.04
"""Distance from the overload limit that is enough if no node can keep `RELIEVED_DISTANCE`.

Relief ends when the busy node is this far below the overload limit.
"""

CAUTION_FACTOR = 2.0
"""Standard deviations of samples that are added to node loads while the history is short.

A profile of a few hours does not predict the peak of the day. So relief begins below the limit.
"""

RARE = 1.5 * HOUR
"""The time between rounds in seconds above which nodes are relieved by a forecast, too."""

INTERVALS = 5
"""The number of times between rounds of which the median predicts the time of the next round."""

SAME_PENALTY = 1e-9
"""Differences of penalties up to this are rounding."""

REPAIR_HOLD = 24.0
"""The hours for which N+1 must not have held before it is repaired.

Until then, a person may be at work on the cluster.
"""

REPAIRED_AT_ONCE = 3
"""The most failures that one step of a repair of N+1 considers; others must not become worse."""

REPAIRS_TRIED = 1000
"""The most moves for which the losses are counted in one step of a repair of N+1."""

LEAST_SPREAD = 1e-6
"""The least deviation of the load of a node, as a share of the node; it is a divisor."""

OVERLOAD_WEIGHT = 40.0
"""The weight of the expected overload, in percent of a node, in the objective.

The expected overload is the mean over the hours of the day. The other part of the objective is the
expected deviation times the number of nodes.
"""

UNKNOWN_LOAD = (np.nan,) * 4
"""The load of an instance that was not measured."""

ABSENT: tuple[Measured | None, tuple[str, ...]] = (None, ())
"""An instance that is not in a sample."""

OTHER_LOADS = (1, 2, 3)
"""The positions of memory, disk and network in `Measured.load`."""

UNEVEN = 1.5
"""The memory, disk or network load of a node, as a multiple of the mean, above which it counts.

These loads have no known limit, and each move for one of them may cost a move for another.  So only
clear differences count.
"""

UNEVEN_WEIGHT = 0.5
"""The weight of the expected load above `UNEVEN`, in percent of the mean, in the objective."""


NO_GAIN = "no move gains more than its cost, with the newer and with the older samples"

NO_REPAIR = "no move repairs it"

RELIEVED = "no further move relieves an overloaded node"


class Measured(NamedTuple):
    """An instance in a sample.

    Attributes
    ----------
    load:
        The dynamic utilisation of the instance: cpu (in cpus), memory, disk and network.
    vcpus:
        The number of virtual cpus of the instance.
    nodes:
        The names of the nodes of the instance, primary first.
    """

    load: tuple[float, float, float, float]
    vcpus: int
    nodes: tuple[str, ...]


NOTHING_KNOWN: Mapping[str, bool] = {}


class LoadSample(NamedTuple):
    """A sample of loads.

    Attributes
    ----------
    time:
        The time of the sample in seconds since 1970.
    instances:
        Name of every instance of the cluster -> its measured load, None without one, and the
        names of its nodes.
    planned:
        Names of the instances that were planned to move at that time.
    n1_held:
        Name of each group that was examined -> whether N+1 held.
    """

    time: float
    instances: Mapping[str, tuple[Measured | None, tuple[str, ...]]]
    planned: Sequence[str] = ()
    n1_held: Mapping[str, bool] = NOTHING_KNOWN


@dataclass(slots=True)
class SteadyLimits:
    """The limits of steady balancing; their defaults are those of the options of `balance`.

    Attributes
    ----------
    least_history:
        The hours that the history must cover; each sample stands for the time until the next round.
        To relieve an overloaded node, a history that spans `RELIEF_HISTORY` is enough.
    hold:
        The hours for which an imbalance must have lasted.
    least_gain:
        By how much each move must lower the expected deviation times the number of nodes, in
        percent of a node. The deviation is multiplied because a move between two of many nodes
        changes it less than a move between two of few nodes.
    gib_cost:
        The addition to `least_gain` for each GiB that a move copies.
    hourly, nightly:
        The maximum number of moves in one hour, and in 12 hours.
    hours:
        The first hour of the day (UTC) at which moves are permitted, and the hour at which they
        end.
    rest:
        The days for which an instance stays after a move. For twice this time and one day, it
        does not return to a node that it left.
    overload:
        A node with a higher cpu load, as a share of its cpus, is relieved.
    offline:
        A group in which more nodes than this are not online is not balanced.
    """

    least_history: float
    hold: float
    least_gain: float
    gib_cost: float
    hourly: int
    nightly: int
    hours: tuple[int, int]
    rest: float
    overload: float
    offline: int

    def permits(self, time: float) -> bool:
        """Return whether balancing moves are permitted at `time`, in seconds since 1970."""
        first, last = self.hours
        hour = time % DAY / HOUR
        return first <= hour < last if first < last else not last <= hour < first


@dataclass(slots=True)
class SteadyPolicy:
    """The limits of steady balancing, and the history of loads.

    Attributes
    ----------
    samples:
        The samples in order of time. The last sample is that of this round.
    counted:
        Period in seconds -> names of the instances that moved, or were planned to move, in it.
    moved:
        Name of an instance -> the time of its last move, in seconds since 1970.
    left:
        Name of an instance -> the names of primaries that it left and may not return to yet.
    loads:
        Name of an instance -> its loads, samples × resources, as far as they were needed.
    balancers:
        The balancers of the groups, in the order in which the groups were balanced.
    obstacle:
        Why no instance of the cluster may move now; "" if instances may move.
    """

    limits: SteadyLimits
    samples: Sequence[LoadSample]
    counted: dict[float, set[str]] = field(default_factory=dict)
    moved: dict[str, float] = field(default_factory=dict)
    left: dict[str, set[str]] = field(default_factory=dict)
    loads: dict[str, Floats] = field(default_factory=dict)
    balancers: list[SteadyBalancer] = field(default_factory=list)
    obstacle: str = ""

    def __post_init__(self) -> None:
        """Find the moves in the history: instances with other nodes than in the sample before."""
        returning = (2 * self.limits.rest + 1) * DAY
        self.counted = {HOUR: set(), DAY / 2: set()}
        places: dict[str, tuple[str, ...]] = {}
        planned: dict[str, float] = {}
        before = -np.inf
        present: Mapping[str, tuple[Measured | None, tuple[str, ...]]] = {}
        for sample in self.samples:
            age = self.now - sample.time
            if present.keys() != sample.instances.keys():
                self._find_renamed(present, sample.instances)
            present = sample.instances
            changed = [
                name
                for name, (_, nodes) in sample.instances.items()
                if places.get(name, nodes) != nodes
            ]
            for name in changed:
                self.moved[name] = sample.time
                if age < returning:
                    self.left.setdefault(name, set()).update(places[name][:1])
            # A planned move counts at the time of its plan, also if it is seen hours later
            others = [
                name for name in changed
                if planned.get(name, -np.inf) < min(before, sample.time - HOUR)
            ]  # fmt: skip
            for period, names in self.counted.items():
                if age < period:
                    names.update(others, sample.planned)
            planned |= dict.fromkeys(sample.planned, sample.time)
            before = sample.time
            places.update((name, nodes) for name, (_, nodes) in sample.instances.items())

    def _find_renamed(
        self,
        before: Mapping[str, tuple[Measured | None, tuple[str, ...]]],
        after: Mapping[str, tuple[Measured | None, tuple[str, ...]]],
    ) -> None:
        """Copy the last move of each instance that was renamed between two samples.

        A new instance counts as a renamed one if it has the nodes and virtual cpus of an instance
        that is gone. If that is wrong, the new instance only stays longer where it is.
        """
        gone = {name: before[name] for name in before.keys() - after.keys() & self.moved.keys()}
        for new in after.keys() - before.keys() if gone else ():
            measured, nodes = after[new]
            for old, (earlier, places) in gone.items():
                resized = measured and earlier and measured.vcpus != earlier.vcpus
                if places == nodes and not resized:
                    self.moved[new] = max(self.moved[old], self.moved.get(new, -np.inf))
                    if old in self.left:
                        self.left.setdefault(new, set()).update(self.left[old])

    @property
    def now(self) -> float:
        """Return the time of this round, in seconds since 1970."""
        return self.samples[-1].time

    def interval(self) -> float:
        """Return the median of the times between the last rounds in seconds; 0 for one round."""
        times = [sample.time for sample in self.samples[-INTERVALS - 1 :]]
        return float(np.median(np.diff(times))) if len(times) > 1 else 0.0

    def hours_ahead(self) -> list[int]:
        """Return the hours of the day from now until the next round; [] if rounds are not rare.

        The next round is expected after the median of the times between the last rounds.
        """
        interval = self.interval()
        if interval <= RARE:
            return []
        last = self.now + min(interval, DAY - HOUR)
        return [hour % 24 for hour in range(int(self.now // HOUR), int(last // HOUR) + 1)]

    def may_move(self, name: str) -> bool:
        """Return whether the maximum numbers of moves, and its last move, permit to move `name`."""
        if self.now - self.moved.get(name, -np.inf) < self.limits.rest * DAY:
            return False
        caps = {HOUR: self.limits.hourly, DAY / 2: self.limits.nightly}
        return all(
            name in names or len(names) < caps[period] for period, names in self.counted.items()
        )

    def series(self, instances: Sequence[Instance], resource: int = 0) -> Floats:
        """Return loads, samples × instances; NaN if unknown, or if the vcpus were different.

        `resource`: the position in `Measured.load`; by default cpu.
        """
        loads = np.empty((len(self.samples), len(instances)))
        for column, one in enumerate(instances):
            own = self.loads.get(one.name)
            if own is None:
                own = self.loads[one.name] = self._loads_of(one)
            loads[:, column] = own[:, resource]
        return loads

    def _loads_of(self, one: Instance) -> Floats:
        """Return the loads of an instance, samples × resources; NaN as in `series`."""
        name, vcpus = one.name, one.vcpus
        return np.array([
            found.load
            if (found := sample.instances.get(name, ABSENT)[0]) is not None
            and found.vcpus == vcpus
            else UNKNOWN_LOAD
            for sample in self.samples
        ])  # fmt: skip

    def profile(self, series: Floats, until: float) -> Profile:
        """Return the expected cpu load of instances at each hour, from samples until time `until`.

        All samples of one hour count together as one sample, so that the time between rounds does
        not matter. The profile is multiplied by a level: 1 plus the relative distance of the recent
        samples from the profile. This distance is reduced by the share of its square that noise
        explains, as in estimators of James and Stein.
        """
        times = np.array([sample.time for sample in self.samples])
        used = times <= until
        values, times = series[used], times[used]
        _, hour, counts = np.unique(times // HOUR, return_inverse=True, return_counts=True)
        weights = 0.5 ** ((until - times) / HALF_LIFE) / counts[hour]
        known = ~np.isnan(values)
        filled = np.where(known, values, 0.0)
        total = weights @ known
        mean = np.divide(weights @ filled, total, out=np.zeros(len(total)), where=total > 0)
        distance = np.abs(times[:, None] % DAY / HOUR - (np.arange(24) + 0.5))
        distance = np.minimum(distance, 24 - distance)
        near = weights[:, None] * np.exp(-0.5 * (distance / HOUR_WEIGHT_WIDTH) ** 2)
        amount = near.T @ known
        loads = ((near.T @ filled + PRIOR_SAMPLES * mean) / (amount + PRIOR_SAMPLES)).T
        expected = loads.T[(times % DAY // HOUR).astype(int)]
        errors = weights @ np.where(known, values - expected, 0.0) ** 2
        variance = np.divide(errors, total, out=np.zeros(len(total)), where=total > 0)
        recent = 0.5 ** ((until - times) / LEVEL_HALF_LIFE) / counts[hour]
        predicted = recent @ np.where(known, expected, 0.0)
        shift = np.zeros(len(total))
        np.divide(recent @ filled - predicted, predicted, out=shift, where=predicted > 0)
        doubt = np.divide(
            CORRELATED_SAMPLES * variance * (recent**2 * counts[hour] @ known), predicted**2,
            out=np.ones(len(total)), where=predicted > 0,
        )  # fmt: skip
        level = 1 + shift**3 / np.maximum(shift**2 + doubt, VARIANCE_TOLERANCE)
        return Profile(np.asarray(loads * level[:, None]), variance)


class Profile(NamedTuple):
    """Expected loads of instances, cpu in cpus, and the variances of the samples around them.

    Attributes
    ----------
    loads:
        Instances × 24 hours of the day.
    variance:
        One number for each instance.
    """

    loads: Floats
    variance: Floats


class _Resource(NamedTuple):
    """A resource in one profile.

    Attributes
    ----------
    profile:
        The expected loads of the instances.
    share:
        For each node the factor from loads of instances to relative loads: for cpu, to shares of
        the cpus of the node; for others, to multiples of the mean of nodes.
    own:
        The relative load of each node without its instances.
    limit:
        The relative load above which a node counts in the objective.
    weight:
        The weight of the expected load above the limit.
    """

    profile: Profile
    share: Floats
    own: Floats
    limit: float
    weight: float


class _NodeLoads(NamedTuple):
    """Expected relative loads of nodes for one resource, and the variances of samples.

    Attributes
    ----------
    loads:
        Nodes × 24 hours of the day.
    variance:
        One number for each node.
    """

    loads: Floats
    variance: Floats


class _Loads:
    """The loads of the online nodes of a group.

    Attributes
    ----------
    resources:
        For the profile of all samples, and for that of older ones: cpu first, then the other
        resources that are measured.
    """

    def __init__(self, problem: BalanceProblem, policy: SteadyPolicy) -> None:
        cluster = problem.state.cluster
        nodes = cluster.nodes
        self.scope = [i for i in problem.scope if nodes[i].online and nodes[i].total_cpus > 0]
        self.place = {index: k for k, index in enumerate(self.scope)}
        self.members = [
            one for one in cluster.instances if problem.state.where[one.name][0] in self.place
        ]
        self.position = {one.name: k for k, one in enumerate(self.members)}
        cpus = [nodes[index].total_cpus for index in self.scope]
        self.share = 1.0 / np.array(cpus, dtype=np.float64)
        self.own = np.array([nodes[index].own_cpu_load for index in self.scope]) * self.share
        self.series = policy.series(self.members)
        held = policy.now - policy.limits.hold * HOUR
        self.limit = policy.limits.overload
        self.hour = int(policy.now % DAY // HOUR)
        self.profiles = [policy.profile(self.series, until) for until in (policy.now, held)]
        self.resources = [
            [_Resource(profile, self.share, self.own, self.limit, OVERLOAD_WEIGHT)]
            for profile in self.profiles
        ]
        for resource in OTHER_LOADS:
            self._add_resource(policy, nodes, resource, (policy.now, held))
        times = np.array([sample.time for sample in policy.samples])
        known = ~np.isnan(self.series)
        self.samples = [known[times <= until].sum(axis=0) for until in (policy.now, held)]
        self.latest = self.series[times > policy.now - HOUR - 1]
        self.ahead = policy.hours_ahead()
        self.short = bool(policy.now - times[0] < policy.limits.least_history * HOUR)

    def _add_resource(
        self, policy: SteadyPolicy, nodes: Sequence[Node], resource: int, ends: Sequence[float]
    ) -> None:
        """Add a resource other than cpu to `resources`.

        A resource is not measured, and left out, if its loads are equal for all instances at all
        times. Each node is expected to have a part of the load by its size: its memory, or its cpus
        for disk and network.

        `resource`: the position in `Measured.load`; `ends`: the last times of both profiles.
        """
        series = policy.series(self.members, resource)
        known = series[~np.isnan(series)]
        if not known.size or known.min() == known.max():
            return
        sizes = 1.0 / self.share
        if resource == OTHER_LOADS[0]:
            sizes = np.array([nodes[index].total_memory for index in self.scope], dtype=np.float64)
        for resources, until in zip(self.resources, ends):
            profile = policy.profile(series, until)
            total = profile.loads.mean(axis=1).sum()
            share = np.zeros(len(sizes))
            if total > 0:
                share = sizes.sum() / (np.maximum(sizes, 1.0) * total)
            resources.append(_Resource(profile, share, np.zeros(len(sizes)), UNEVEN, UNEVEN_WEIGHT))

    def of_nodes(self, state: State, loads: Floats) -> Floats:
        """Return the sums of `loads` on each node, as shares of its cpus, nodes × columns.

        `loads`: instances × columns, in cpus.
        """
        return self._sums(state, loads) * self.share[:, None] + self.own[:, None]

    def _sums(self, state: State, loads: Floats) -> Floats:
        """Return the sums of `loads` on each node, nodes × columns."""
        sums = np.zeros((len(self.scope), loads.shape[1]))
        for one in self.members:
            sums[self.place[state.where[one.name][0]]] += loads[self.position[one.name]]
        return sums

    def deviation(self, state: State) -> float:
        """Return the expected deviation of node loads, in percent of a node."""
        return float(100 * self.of_nodes(state, self.profiles[0].loads).std(axis=0).mean())

    def objective(self, state: State) -> float:
        """Return the expected deviation times the number of nodes plus the expected overload."""
        resources = self.resources[0]
        nodes = [self._expected(state, resource) for resource in resources]
        overload = sum(
            float(_overload(resource, loads, variance[:, None]).sum())
            for resource, (loads, variance) in zip(resources, nodes)
        )
        deviation = float(100 * nodes[0].loads.std(axis=0).mean())
        return len(self.scope) * deviation + overload

    def expected(self, state: State) -> list[list[_NodeLoads]]:
        """Return the expected loads of nodes for each of `resources`."""
        return [
            [self._expected(state, resource) for resource in resources]
            for resources in self.resources
        ]

    def _expected(self, state: State, resource: _Resource) -> _NodeLoads:
        share = resource.share
        variance = self._sums(state, resource.profile.variance[:, None])[:, 0] * share**2
        loads = self._sums(state, resource.profile.loads) * share[:, None]
        return _NodeLoads(loads + resource.own[:, None], variance)

    def gains(
        self, state: State, expected: Sequence[Sequence[_NodeLoads]], name: str
    ) -> list[Floats]:
        """Return for each profile the gain of a move of `name` to each node; 0 for its own node.

        `expected`: what the method `expected` returns for `state`.
        """
        gains = []
        source = self.place[state.where[name][0]]
        position = self.position[name]
        for resources, node_loads in zip(self.resources, expected):
            nodes = node_loads[0].loads
            own = resources[0].profile.loads[position]
            count = len(self.scope)
            loads = nodes - nodes.mean(axis=0)
            squares = (loads**2).sum(axis=0)
            leaving = -own * self.share[source]
            come = own[None, :] * self.share[:, None]
            after = squares + 2 * loads[source] * leaving + leaving**2 + 2 * loads * come + come**2
            left = np.maximum(after / count - ((leaving + come) / count) ** 2, 0.0)
            gain = count * 100 * (np.sqrt(squares / count) - np.sqrt(left)).mean(axis=1)
            for resource, on_nodes in zip(resources, node_loads):
                gain += _relief(resource, on_nodes, source, position)
            gain[source] = 0.0
            gains.append(gain)
        return gains

    def imminent(self, state: State) -> Floats:
        """Return the loads of nodes until the next round as shares of their cpus.

        The first column is measured: the mean of the last hour. If rounds are rare, a column
        follows for each hour until the next round, from the profile of all samples. While the
        history is short, `CAUTION_FACTOR` deviations are added.
        """
        latest = self.of_nodes(state, np.nan_to_num(self.latest).T).mean(axis=1)
        ahead = self.of_nodes(state, self.profiles[0].loads[:, self.ahead])
        return np.asarray(np.column_stack([latest, ahead]) + self._caution(state)[:, None])

    def imminent_of(self, name: str) -> Floats:
        """Return the loads of an instance until the next round, in cpus, as in `imminent`."""
        position = self.position[name]
        latest = np.nan_to_num(self.latest[:, position]).mean()
        return np.array([latest, *self.profiles[0].loads[position, self.ahead]])

    def overloaded(self, state: State) -> list[int]:
        """Return the nodes with a load that stays above the overload limit, by index.

        The mean of the last hour is above the limit, and the last sample is at most
        `BARELY_RELIEVED` below it. If the last hour has only one sample, the older samples must
        predict a high load at this hour of the day, too. If rounds are rare, a node is also
        overloaded if its load comes closer than `BARELY_RELIEVED` to the limit in some hour until
        the next round: by the profile of all samples, and by that of older samples unless the
        history is short. While the history is short, `CAUTION_FACTOR` standard deviations are added
        to all loads.
        """
        caution = self._caution(state)[:, None]
        latest = self.of_nodes(state, np.nan_to_num(self.latest).T) + caution
        high = (latest.mean(axis=1) > self.limit) & (latest[:, -1] > self.limit - BARELY_RELIEVED)
        older = self.of_nodes(state, self.profiles[1].loads) + caution
        if len(self.latest) < 2:
            high &= older[:, self.hour] > self.limit - RELIEVED_DISTANCE / 2
        if self.ahead:
            ahead = self.imminent(state)[:, 1:]
            if not self.short:
                ahead = np.minimum(ahead, older[:, self.ahead])
            high |= ahead.max(axis=1) > self.limit - BARELY_RELIEVED
        return [index for k, index in enumerate(self.scope) if high[k]]

    def _caution(self, state: State) -> Floats:
        """Return for each node the share of its cpus that is added to its load as a precaution."""
        if not self.short:
            return np.zeros(len(self.scope))
        variance = self._expected(state, self.resources[0][0]).variance
        return np.asarray(CAUTION_FACTOR * np.sqrt(np.maximum(variance, 0.0)))


def _overload(resource: _Resource, loads: Floats, variance: Floats) -> Floats:
    """Return the weighted expected load above the limit, as the mean over the hours.

    Loads are assumed to have a logistic distribution, for which the expected excess has a short
    formula.
    """
    scale = np.maximum(np.sqrt(variance * 3) / np.pi, LEAST_SPREAD)
    excess = scale * np.logaddexp(0.0, (loads - resource.limit) / scale)
    return np.asarray(resource.weight * 100 * excess.mean(axis=-1))


def _relief(resource: _Resource, nodes: _NodeLoads, source: int, position: int) -> Floats:
    """Return by how much a move to each node lowers the expected overload of all nodes.

    `source`, `position`: the positions of the node and of the instance that leaves it.
    """
    own = resource.profile.loads[position]
    spread = resource.profile.variance[position] * resource.share**2
    come = own[None, :] * resource.share[:, None]
    before = _overload(resource, nodes.loads, nodes.variance[:, None])
    relieved = np.maximum(nodes.variance[source] - spread[source], 0.0)
    left = _overload(resource, nodes.loads[source] - come[source], relieved)
    joined = _overload(resource, nodes.loads + come, (nodes.variance + spread)[:, None])
    return np.asarray(before[source] - left + before - joined)


class SteadyMove(Neighbourhood[PlanBuilder, Step]):
    """The moves with a gain above their cost; or the moves that relieve an overloaded node.

    `full`: indices of the overloaded nodes; if there are any, only relieving moves are made.

    Attributes
    ----------
    found, dropped:
        The numbers of useful moves at the last call of `best`: those within the budget of copied
        data, and those above it.
    """

    found = dropped = 0

    name = "steady move"

    def __init__(self, loads: _Loads, policy: SteadyPolicy, full: Sequence[int]) -> None:
        self._loads = loads
        self._policy = policy
        self._full = full
        self._counts: LiveRuleCounts | None = None

    def best(
        self, state: PlanBuilder, objective: Objective, allows: Callable[[Step], bool]
    ) -> Step | None:
        """Return the best move that all limits allow; None if there is none."""
        self.dropped = 0
        steps = self._useful(state)
        self.found = len(steps)
        steps.sort(key=lambda step: step[0], reverse=True)
        for _, move in steps:
            check()
            if not allowed_move(state, move):
                continue
            step = Step(ScoredMoves([move], state.score))
            if allows(step):
                return step
        return None

    def objective(self, builder: PlanBuilder) -> Objective:
        """Return the objective of the state, which each step lowers."""
        if self._full:
            return (float(-len(builder.plan.entries)),)
        return (self._loads.objective(builder.state),)

    def _useful(self, builder: PlanBuilder) -> list[tuple[Objective, Move]]:
        """Return the useful moves, each with its objective; higher is better."""
        return self._relieving(builder) if self._full else self._gaining(builder)

    def _candidates(self, builder: PlanBuilder) -> list[Instance]:
        loads, policy = self._loads, self._policy
        samples, held = loads.samples
        least = RELIEF_SAMPLES if self._full else LEAST_SAMPLES
        return [
            one
            for one in builder.problem.instances
            if one.name in loads.position
            and samples[loads.position[one.name]] >= least
            and (self._full or held[loads.position[one.name]] >= LEAST_HELD)
            and policy.may_move(one.name)
        ]

    def _worsening(self, builder: PlanBuilder, one: Instance) -> set[int]:
        """Return the nodes on which an instance violates more soft constraints than it does now.

        The gain of a move has another unit than penalties, so that it cannot outweigh them. Finite
        scores of nodes, and finite stickiness, have no effect. A node with fewer of the desired
        locations of the instance counts, too.
        """
        state, relations, scope = builder.state, builder.problem.relations, self._loads.scope
        home, penalties = state.where[one.name][0], dict.fromkeys(scope, 0.0)
        if relations is not None:
            if self._counts is None:
                self._counts = relations.live(state)
            penalties |= relations.costs(one.name, scope, self._counts.now())
            if relations.locations is not None:
                penalty = relations.locations.penalty
                penalties = {k: cost - penalty(one.name, k) for k, cost in penalties.items()}
        missed = dict.fromkeys(scope, 0)
        if one.desired:
            missed = {k: len(one.desired - state.cluster.nodes[k].locations) for k in scope}
        most = penalties[home] + SAME_PENALTY
        return {k for k in scope if penalties[k] > most or missed[k] > missed[home]}

    def _within_budget(self, builder: PlanBuilder, move: Move) -> bool:
        """Return whether a useful move copies no more than permitted; count it if it does not."""
        within = move.copied <= builder.budget()
        self.dropped += not within
        return within

    def _moves(self, builder: PlanBuilder, one: Instance, target: int) -> list[Move]:
        """Return the moves of an instance to node `target`.

        There are none if the instance left the node a short time ago.
        """
        state, policy = builder.state, self._policy
        if state.cluster.nodes[target].name in policy.left.get(one.name, ()):
            return []
        return [
            kind.move(one, state.where[one.name], target)
            for kind in kinds_to(state, one, target, builder.problem.rules)
        ]

    def _gaining(self, builder: PlanBuilder) -> list[tuple[Objective, Move]]:
        loads, limits, state = self._loads, self._policy.limits, builder.state
        expected = loads.expected(state)
        gaining: list[tuple[Objective, Move]] = []
        for one in self._candidates(builder):
            now, held = loads.gains(state, expected, one.name)
            targets = np.flatnonzero(now > limits.least_gain).tolist()
            worse = self._worsening(builder, one) if targets else ()
            for k in targets:
                if loads.scope[k] in worse:
                    continue
                for move in self._moves(builder, one, loads.scope[k]):
                    cost = limits.least_gain + move.copied / GIB * limits.gib_cost
                    if now[k] > cost and held[k] > cost / 2 and self._within_budget(builder, move):
                        gaining.append(((float(now[k] - cost),), move))
        return gaining

    def _relieving(self, builder: PlanBuilder) -> list[tuple[Objective, Move]]:
        """Return moves off busy nodes, each with its objective.

        The first number is 1 if the move violates no further soft constraint, else 0. The second
        is 1 if the target keeps the distance `RELIEVED_DISTANCE`, else 0. The third is the gain.
        """
        loads, limits, state = self._loads, self._policy.limits, builder.state
        nodes = loads.imminent(state)
        full = [
            n for n in self._full if nodes[loads.place[n]].max() > loads.limit - BARELY_RELIEVED
        ]
        expected = loads.expected(state) if full else []
        moves: list[tuple[Objective, Move]] = []
        for one in self._candidates(builder) if full else ():
            source = state.where[one.name][0]
            if source not in full:
                continue
            own = loads.imminent_of(one.name)
            gains = loads.gains(state, expected, one.name)[0]
            worse = self._worsening(builder, one)
            for k, target in enumerate(loads.scope):
                after = float((nodes[k] + own * loads.share[k]).max())
                if target != source and after <= loads.limit - BARELY_RELIEVED:
                    free = float(after <= loads.limit - RELIEVED_DISTANCE)
                    for move in self._moves(builder, one, target):
                        cost = move.copied / GIB * limits.gib_cost
                        good = float(target not in worse)
                        if self._within_budget(builder, move):
                            moves.append(((good, free, float(gains[k] - cost)), move))
        return moves


class N1Repair(SteadyMove):
    """The moves after which failures that are not tolerated lose less.

    `failures`: the N+1 checks of the group by the rules of ``no-worse``.
    """

    name = "repair of N+1"

    def __init__(self, loads: _Loads, policy: SteadyPolicy, failures: FailureTolerance) -> None:
        super().__init__(loads, policy, ())
        self._failures = failures

    def objective(self, builder: PlanBuilder) -> Objective:
        """Return the number of instances that failures lose, and their MiB of memory."""
        return self._lost(self._failures.failing())

    def _lost(self, failing: Sequence[Failure]) -> tuple[float, float]:
        """Return how many instances `failing` lose in total, and their MiB; infinity if unknown."""
        losses = self._failures.losses(failing)
        if len(losses) < len(failing):
            return np.inf, np.inf
        return (
            float(sum(loss.instances for loss in losses.values())),
            float(sum(loss.memory for loss in losses.values())),
        )

    def _useful(self, builder: PlanBuilder) -> list[tuple[Objective, Move]]:
        """Return moves after which less is lost, each with its objective.

        The first number is 1 if the move violates no further soft constraint, else 0. The next ones
        are by how many instances and by how many MiB less is lost. The last one is the gain. Only
        the `REPAIRED_AT_ONCE` failures that lose least are considered, and `REPAIRS_TRIED` moves:
        first those of the lost instances, then those with the largest gains.
        """
        state = builder.state
        failing = self._least_lost()
        count, memory = self._lost(failing)
        candidates = self._repairs(builder, failing)
        moves: list[tuple[Objective, Move]] = []
        for good, gain, move in candidates[:REPAIRS_TRIED]:
            check()
            with state.trial():
                move.apply(state)
                left = self._lost(failing)
            if left < (count, memory) and self._within_budget(builder, move):
                moves.append(((good, count - left[0], memory - left[1], gain), move))
        return moves

    def _least_lost(self) -> list[Failure]:
        """Return the failures that lose least of those that lose anything."""
        failing = self._failures.not_tolerated(self._failures.failing())
        losses = self._failures.losses(failing)
        known = [one for one in failing if one in losses]
        known.sort(key=lambda one: (losses[one].instances, losses[one].memory))
        return known[:REPAIRED_AT_ONCE]

    def _repairs(
        self, builder: PlanBuilder, failing: Sequence[Failure]
    ) -> list[tuple[float, float, Move]]:
        """Return the moves after which `failing` may lose less, in the order of `_useful`.

        The first number of each is 1 if the move violates no further soft constraint, else 0. The
        second is its gain.
        """
        loads, state, cost = self._loads, builder.state, self._policy.limits.gib_cost
        lost, concerned = self._concerned(state, failing)
        expected = loads.expected(state)
        found: list[tuple[float, float, Move]] = []
        for one in builder.problem.instances:
            here = one.name in loads.position and state.where[one.name][0] in concerned
            if not here or not self._policy.may_move(one.name):
                continue
            gains = loads.gains(state, expected, one.name)[0]
            worse = self._worsening(builder, one)
            for k, target in enumerate(loads.scope):
                for move in self._moves(builder, one, target):
                    moved = move.after[0] == target
                    gain = float(gains[k]) * moved - move.copied / GIB * cost
                    found.append((float(not moved or target not in worse), gain, move))
        found.sort(key=lambda row: (row[2].instance.name in lost, *row[:2]), reverse=True)
        return found

    def _concerned(self, state: State, failing: Sequence[Failure]) -> tuple[set[str], set[int]]:
        """Return the instances that `failing` lose, and the nodes with primaries that may move.

        These are the nodes that fail, and those that have no memory for a lost instance.
        """
        lost: set[str] = set()
        nodes = {index for failure in failing for index in failure}
        for failure in failing:
            try:
                unrestarted = self._failures.unrestarted(failure)
            except UndecidedError:
                return lost, {*self._loads.scope}
            for one in unrestarted:
                lost.add(one.name)
                nodes.update(state.where[one.name] if one.needs_secondary else self._loads.scope)
        return lost, nodes

    def _moves(self, builder: PlanBuilder, one: Instance, target: int) -> list[Move]:
        """Return the moves of an instance to node `target`, or of its secondary."""
        moves = super()._moves(builder, one, target)
        state, rules, kind = builder.state, builder.problem.rules, BY_NAME["r"]
        present = state.where[one.name]
        nodes = [state.cluster.nodes[index] for index in (present[0], present[-1])]
        if len(present) > 1 and target not in present and rules.allows_of(kind, *nodes):
            moves.append(kind.move(one, present, target))
        return moves


class SteadyBalancer:
    """Finds the steady plan of one group, in place of `GroupBalancer`.

    Attributes
    ----------
    name:
        The name of the group.
    before, after:
        The expected deviation before and after the plan, in percent of a node.
    gains:
        Name of an instance -> by how much its move lowers the expected deviation.
    failure:
        A failure that is not tolerated before the plan, in words; "" if N+1 holds; None if it was
        not examined.
    """

    before = after = 0.0

    def __init__(
        self,
        problem: BalanceProblem,
        limits: StopCriteria,
        progress: Progress,
        policy: SteadyPolicy,
    ) -> None:
        self._problem = problem
        self._limits = limits
        self._progress = progress
        self._policy = policy
        self.gains: dict[str, float] = {}
        self.failure: str | None = None
        self.name = problem.state.cluster.nodes[problem.scope[0]].group.name
        self._plan = Plan("balance", problem.present_score())

    def run(self) -> Plan:
        """Return the plan. If it has no moves, its `reason` says why.

        Raises
        ------
        Stopped
            If the run must end; then `stopped` returns the plan.
        """
        self.failure = failure = self._not_tolerated()
        self._plan.reason = self._obstacle()
        if self._plan.reason:
            return self._plan
        policy, problem = self._policy, self._problem
        loads = _Loads(problem, policy)
        if len(loads.scope) < 2:
            self._plan.reason = "fewer than two nodes are online"
            return self._plan
        self.before = self.after = loads.deviation(problem.state)
        full = [] if failure else loads.overloaded(problem.state)
        # Outside the permitted hours, or with a short history, only moves off overloaded nodes
        if policy.limits.permits(policy.now):
            forbidden = self._short(policy.limits.least_history, rounds=1)
        else:
            hours = policy.limits.hours
            forbidden = f"moves are permitted from {hours[0]}:00 to {hours[1]}:00 UTC only"
        down = self._down()
        if failure and down:
            away = f"{named(down, FEW_NAMES)} {'is' if len(down) == 1 else 'are'}"
            self._plan.reason = f"{failure}; this is not repaired while {away} offline or drained"
            return self._plan
        lasted = self._violated_for()
        if failure and lasted < REPAIR_HOLD:
            self._plan.reason = (
                f"{failure}; nothing moves for loads before N+1 holds, and it is repaired after "
                f"{REPAIR_HOLD:g} hours (now {lasted:.1f})"
            )
            return self._plan
        if forbidden and not full:
            self._plan.reason = "; ".join(filter(None, (failure, forbidden)))
            return self._plan
        failures = problem.failures
        guard = None if failures is None else failures.comparison.guard()
        builder = PlanBuilder(problem, self._limits, self._progress, guard)
        self._plan = builder.plan
        with builder.state.trial():
            if failure:
                self._repair(builder, loads, failure)
            if full:
                self._search(builder, loads, SteadyMove(loads, policy, full), RELIEVED)
            if not (failure or forbidden):
                self._search(builder, loads, SteadyMove(loads, policy, ()), NO_GAIN)
            self.after = loads.deviation(builder.state)
        return self._plan

    def _repair(self, builder: PlanBuilder, loads: _Loads, failure: str) -> None:
        """Add moves to the plan after which failures lose less; `failure` describes the first."""
        losses, plan = builder.problem.losses, builder.plan
        assert losses is not None
        repair = N1Repair(loads, self._policy, losses)
        self._search(builder, loads, repair, NO_REPAIR)
        part = ""
        if plan.entries:
            part = "the plan repairs only a part: "
            plan.reason = plan.reason.replace(NO_REPAIR, "no further move is possible")
        plan.reason = (
            f"{failure}; {part}{plan.reason}; nothing moves for loads before N+1 holds "
            "(iallocator balance plans without the limits of --steady)"
            if self._not_tolerated()
            else f"{failure}; the plan repairs it, before anything moves for loads"
        )

    def _search(
        self, builder: PlanBuilder, loads: _Loads, moves: SteadyMove, none_helps: str
    ) -> None:
        """Add `moves` to the plan until none helps or the maximum number of moves is reached.

        `none_helps`: the reason if there is no useful move.
        """
        policy, plan = self._policy, builder.plan

        def ended() -> str:
            moved = [entry.move.instance.name for entry in plan.entries]
            for names in policy.counted.values():
                names.update(moved)
            policy.moved |= dict.fromkeys(moved, policy.now)
            if len(moved) > len(self.gains):
                gained = self.before - sum(self.gains.values()) - loads.deviation(builder.state)
                self.gains[moved[-1]] = gained
            return "" if builder.moves_left() >= 1 else length_reached(len(plan.entries))

        search: LocalSearch[PlanBuilder, Step] = LocalSearch(
            [moves],
            moves.objective,
            Acceptance(ended, builder.keeps_n1),
            self._limits.deadline,
        )
        reason = search.run(builder)
        if reason == LOCAL_OPTIMUM:
            reason = none_helps
            if none_helps == NO_GAIN and moves.found:
                reason = "no move that gains more than its cost is possible, by limits and N+1"
            elif none_helps == NO_GAIN and moves.dropped:
                reason = "no move that gains more than its cost is within --cost"
            names = [one.name for one in builder.problem.instances]
            if names and not any(map(policy.may_move, names)):
                reason = "the caps, or the time since their last moves, permit no instance to move"
        plan.reason = reason

    def _short(self, hours: float, least: int = LEAST_SAMPLES, rounds: int = 0) -> str:
        """Return a message if the history covers less than `hours` or less than `least` samples.

        The message is "" if it is long enough. With `rounds` 1, the last sample stands for the time
        until the next round, so that rounds every six hours cover a day with four samples.
        """
        samples = self._policy.samples
        span = (samples[-1].time - samples[0].time + rounds * self._policy.interval()) / HOUR
        if span >= hours and len(samples) >= least:
            return ""
        return (
            f"the history covers {span:.1f} hours with {many(len(samples), 'sample')}: "
            f"at least {hours:g} hours and {LEAST_SAMPLES} samples are needed"
        )

    def _obstacle(self) -> str:
        """Return why no instance of the group may move now; "" if instances may move."""
        limits = self._policy.limits
        if self._policy.obstacle:
            return self._policy.obstacle
        too_short = self._short(min(RELIEF_HISTORY, limits.least_history), RELIEF_SAMPLES)
        if too_short:
            return self._short(limits.least_history, rounds=1) or too_short
        down = self._down()
        if len(down) > limits.offline:
            return f"{many(len(down), 'node')} offline or drained, at most {limits.offline} may be"
        return ""

    def _down(self) -> list[str]:
        """Return the names of the nodes of the group that are offline or drained."""
        nodes = self._problem.state.cluster.nodes
        return [nodes[index].name for index in self._problem.scope if not nodes[index].online]

    def _violated_for(self) -> float:
        """Return for how many hours N+1 has not held; 0 if it held in the last round."""
        since = self._policy.now
        for sample in reversed(self._policy.samples[:-1]):
            if sample.n1_held.get(self.name):
                break
            if self.name in sample.n1_held:
                since = sample.time
        return (self._policy.now - since) / HOUR

    def _not_tolerated(self) -> str:
        """Describe a failure of the present state that is not tolerated; "" if there is none."""
        failures = self._problem.failures
        failing = None if failures is None else failures.first_not_tolerated(failures.failing())
        if failures is None or failing is None:
            return ""
        failed = " and ".join(failures.state.cluster.node_names(failing))
        try:
            lost = [one.name for one in failures.unrestarted(failing)]
        except UndecidedError:
            lost = []
        what = (
            f"{named(lost, FEW_NAMES)} cannot be restarted"
            if lost
            else "not all instances can be restarted"
        )
        return f"N+1 does not hold: if {failed} fails, {what}"

    def stopped(self, stop: Stopped) -> Plan:
        """Return the plan with the moves found until `stop` ended `run`."""
        self._plan.end(stop)
        return self._plan
