"""Steady balancing: few moves, from the history of loads instead of one sample.

The history gives a profile of the cpu load of each instance by hour of the day.  The objective is
the expected deviation: the standard deviation of the cpu load of nodes, in percent of a node, as
the mean over the hours of a day.  The expected overload of nodes is added: the deviation of samples
from the profile gives how far a node may be above the limit at each hour.  A move must lower the
objective by more than its cost, with the samples until now and with those that are older than the
hold time.  A node that stays overloaded is relieved at any hour.

The search is `LocalSearch` with one neighbourhood, `SteadyMove`; limits, constraints and N+1 are
checked as in all balancing.

Cost: samples × instances × 24 for the profiles, and instances × nodes × 24 for each move.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iallocator.deadline import check
from iallocator.planners.balance.compound_moves import allowed_move
from iallocator.planners.balance.move_kinds import ScoredMoves, kinds_to
from iallocator.planners.balance.plan_builder import PlanBuilder, Step
from iallocator.planners.plan import Plan
from iallocator.planners.plan_limits import length_reached
from iallocator.planners.search import LOCAL_OPTIMUM, Acceptance, LocalSearch, Neighbourhood
from iallocator.scoring.scalar import score_of
from iallocator.tolerances import VARIANCE
from iallocator.units import DAY, GIB, HOUR

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from iallocator.aliases import Floats
    from iallocator.deadline import Stopped
    from iallocator.model.instance import Instance
    from iallocator.model.moves import Move
    from iallocator.model.state import State
    from iallocator.planners.balance.plan_builder import BalanceProblem, Progress
    from iallocator.planners.plan_limits import StopCriteria
    from iallocator.planners.search import Objective

__all__ = ["LoadSample", "Measured", "SteadyBalancer", "SteadyLimits", "SteadyPolicy"]

HALF_LIFE = 3 * DAY
"""After this time, in seconds, a sample has half of its weight for the shape of the day."""

LEVEL_HALF_LIFE = DAY
"""After this time, in seconds, a sample has half of its weight for the level of all hours.

Loads drift within days, but the shape of the day changes less and needs more samples.
"""

CORRELATED = 2.0
"""So many samples count as one in the variance of a level, as the noise of hours is correlated."""

WIDTH = 1.5
"""Hours: samples this far from an hour of the day still count much for it."""

PRIOR = 1.0
"""Samples: so much does the mean of all hours count in the profile of an hour."""

LEAST_SAMPLES = 3
"""An instance moves only if it has so many samples; those within the hold time relieve only."""

RELIEF_SAMPLES = 2
"""An instance leaves an overloaded node only if it has so many samples."""

RELIEF_HISTORY = 1.0
"""Hours that the history must span before an overloaded node is relieved."""

RELIEVED = 0.1
"""A relief move leaves its target so far below the load at which a node is overloaded."""

BARELY = 0.04
"""If no node has so much free capacity as `RELIEVED` needs, this is enough.

Relief ends when the busy node is so far below the load at which it is overloaded.
"""

CAUTION = 2.0
"""While the history is short, so many deviations of samples are added to the loads of nodes.

A profile of a few hours does not predict the peak of the day. So relief begins below the limit.
"""

LEAST_SPREAD = 1e-6
"""Share of a node: a smaller deviation of its load counts as this one, which divides."""

OVERLOAD_WEIGHT = 40.0
"""By so much is an expected overload, in percent of a node, multiplied in the objective.

The expected overload is the mean over the hours of the day. The other part of the objective is the
expected deviation times the number of nodes.
"""


class Measured(NamedTuple):
    """An instance in a sample: its load, its virtual cpus, and the names of its nodes."""

    load: tuple[float, float, float, float]
    vcpus: int
    nodes: tuple[str, ...]


class LoadSample(NamedTuple):
    """A sample of loads: its time in seconds since 1970, all instances, and the planned moves.

    `instances` has every instance of the cluster; those without a measured load have None.
    """

    time: float
    instances: Mapping[str, tuple[Measured | None, tuple[str, ...]]]
    planned: Sequence[str] = ()


@dataclass(slots=True)
class SteadyLimits:
    """The limits of steady balancing; their defaults are those of the options of `balance`.

    Attributes
    ----------
    least_history, hold:
        Hours that the history must span; hours for which an imbalance must have lasted. To relieve
        an overloaded node, a history of `RELIEF_HISTORY` is enough.
    least_gain, gib_cost:
        By how much a move must lower the expected deviation times the number of nodes, in percent
        of a node: for any move, and in addition for each GiB that it copies. A move between two
        of many nodes changes the deviation less than one between two of few nodes.
    hourly, nightly:
        The maximum of moves in one hour, and in 12 hours.
    hours:
        The first permitted hour of the day (UTC), and the hour at which moves end.
    rest:
        Days for which an instance stays after a move; for twice this time and a day it does not
        return to a node that it left.
    overload:
        A node with a higher load, as a share of its cpus, is relieved.
    offline:
        The maximum of nodes of a group that are not online.
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
        """Return whether balancing moves are permitted at `time`."""
        first, last = self.hours
        hour = time % DAY / HOUR
        return first <= hour < last if first < last else not last <= hour < first


@dataclass(slots=True)
class SteadyPolicy:
    """The limits, and the history: samples in order of time, the last one is that of this round.

    Attributes
    ----------
    counted:
        Period in seconds -> the instances that moved, or were planned to move, within it.
    moved:
        Instance -> the time of its last move.
    left:
        Instance -> the primaries that it left and does not return to yet.
    balancers:
        The balancers of the groups, in the order in which the groups were balanced.
    obstacle:
        Why no instance of the cluster may move now; "" if instances may.
    """

    limits: SteadyLimits
    samples: Sequence[LoadSample]
    counted: dict[float, set[str]] = field(default_factory=dict)
    moved: dict[str, float] = field(default_factory=dict)
    left: dict[str, set[str]] = field(default_factory=dict)
    balancers: list[SteadyBalancer] = field(default_factory=list)
    obstacle: str = ""

    def __post_init__(self) -> None:
        """Find the moves that were made: instances with other nodes than one sample before."""
        returning = (2 * self.limits.rest + 1) * DAY
        self.counted = {HOUR: set(), DAY / 2: set()}
        places: dict[str, tuple[str, ...]] = {}
        for sample in self.samples:
            age = self.now - sample.time
            changed = [
                name
                for name, (_, nodes) in sample.instances.items()
                if places.get(name, nodes) != nodes
            ]
            for name in changed:
                self.moved[name] = sample.time
                if age < returning:
                    self.left.setdefault(name, set()).update(places[name][:1])
            for period, names in self.counted.items():
                if age < period:
                    names.update(changed, sample.planned)
            places.update((name, nodes) for name, (_, nodes) in sample.instances.items())

    @property
    def now(self) -> float:
        """Return the time of this round."""
        return self.samples[-1].time

    def may_move(self, name: str) -> bool:
        """Return whether the caps and the time since its last move permit a move of `name`."""
        if self.now - self.moved.get(name, -np.inf) < self.limits.rest * DAY:
            return False
        caps = {HOUR: self.limits.hourly, DAY / 2: self.limits.nightly}
        return all(
            name in names or len(names) < caps[period] for period, names in self.counted.items()
        )

    def series(self, instances: Sequence[Instance]) -> Floats:
        """Return samples × instances: the cpu load, NaN where it is unknown or of another size."""
        loads = np.full((len(self.samples), len(instances)), np.nan)
        for row, sample in enumerate(self.samples):
            for column, one in enumerate(instances):
                measured = sample.instances.get(one.name, (None, ()))[0]
                if measured is not None and measured.vcpus == one.vcpus:
                    loads[row, column] = measured.load[0]
        return loads

    def profile(self, series: Floats, until: float) -> Profile:
        """Return the expected cpu load at each hour of the day, from samples until a time.

        The samples of one hour count together as one, however short the time between rounds is.
        `level` is 1 plus the shift of the recent samples from the profile. The shift is reduced by
        the share of its square that noise explains, as in estimators of James and Stein.
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
        near = weights[:, None] * np.exp(-0.5 * (distance / WIDTH) ** 2)
        amount = near.T @ known
        loads = ((near.T @ filled + PRIOR * mean) / (amount + PRIOR)).T
        expected = loads.T[(times % DAY // HOUR).astype(int)]
        errors = weights @ np.where(known, values - expected, 0.0) ** 2
        variance = np.divide(errors, total, out=np.zeros(len(total)), where=total > 0)
        recent = 0.5 ** ((until - times) / LEVEL_HALF_LIFE) / counts[hour]
        predicted = recent @ np.where(known, expected, 0.0)
        shift = np.zeros(len(total))
        np.divide(recent @ filled - predicted, predicted, out=shift, where=predicted > 0)
        doubt = np.divide(
            CORRELATED * variance * (recent**2 * counts[hour] @ known), predicted**2,
            out=np.ones(len(total)), where=predicted > 0,
        )  # fmt: skip
        level = 1 + shift**3 / np.maximum(shift**2 + doubt, VARIANCE)
        return Profile(np.asarray(loads * level[:, None]), variance)


class Profile(NamedTuple):
    """The expected cpu load of instances in cpus, instances × 24, and the variances of samples."""

    loads: Floats
    variance: Floats


class _NodeLoads(NamedTuple):
    """The expected loads of nodes as shares of their cpus, nodes × 24, and their variances."""

    loads: Floats
    variance: Floats


class _Loads:
    """The cpu load of the online nodes of a group as shares of their cpus, nodes × hours."""

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
        times = np.array([sample.time for sample in policy.samples])
        known = ~np.isnan(self.series)
        self.samples = [known[times <= until].sum(axis=0) for until in (policy.now, held)]
        self.latest = self.series[times > policy.now - HOUR - 1]
        self.short = bool(policy.now - times[0] < policy.limits.least_history * HOUR)

    def of_nodes(self, state: State, loads: Floats) -> Floats:
        """Return nodes × columns: the sums of `loads`, instances × columns, as shares of cpus."""
        node_loads = np.zeros((len(self.scope), loads.shape[1]))
        for one in self.members:
            node_loads[self.place[state.where[one.name][0]]] += loads[self.position[one.name]]
        return node_loads * self.share[:, None] + self.own[:, None]

    def deviation(self, state: State) -> float:
        """Return the expected deviation in percent of a node."""
        return float(100 * self.of_nodes(state, self.profiles[0].loads).std(axis=0).mean())

    def objective(self, state: State) -> float:
        """Return the expected deviation times the number of nodes, and the expected overload."""
        nodes = self._expected(state, self.profiles[0])
        overload = self._overload(nodes.loads, nodes.variance[:, None]).sum()
        deviation = float(100 * nodes.loads.std(axis=0).mean())
        return len(self.scope) * deviation + float(overload)

    def expected(self, state: State) -> list[_NodeLoads]:
        """Return the expected loads of nodes for each profile."""
        return [self._expected(state, profile) for profile in self.profiles]

    def _expected(self, state: State, profile: Profile) -> _NodeLoads:
        variance = self.of_nodes(state, profile.variance[:, None])[:, 0] - self.own
        return _NodeLoads(self.of_nodes(state, profile.loads), variance * self.share)

    def _overload(self, loads: Floats, variance: Floats) -> Floats:
        """Return the weighted load above the limit that is expected, as the mean over the hours.

        Loads have a logistic distribution here: its expected excess has a short formula.
        """
        scale = np.maximum(np.sqrt(variance * 3) / np.pi, LEAST_SPREAD)
        excess = scale * np.logaddexp(0.0, (loads - self.limit) / scale)
        return np.asarray(OVERLOAD_WEIGHT * 100 * excess.mean(axis=-1))

    def gains(self, state: State, expected: Sequence[_NodeLoads], name: str) -> list[Floats]:
        """Return for each profile the gain of a move of `name` to each node; 0 for its own.

        `expected`: what the method of that name returns for `state`.
        """
        gains = []
        source = self.place[state.where[name][0]]
        count = len(self.scope)
        share = self.share[:, None]
        for profile, (nodes, variance) in zip(self.profiles, expected):
            own = profile.loads[self.position[name]]
            spread = profile.variance[self.position[name]] * self.share**2
            loads = nodes - nodes.mean(axis=0)
            squares = (loads**2).sum(axis=0)
            leaving = -own * self.share[source]
            come = own[None, :] * share
            after = squares + 2 * loads[source] * leaving + leaving**2 + 2 * loads * come + come**2
            left = np.maximum(after / count - ((leaving + come) / count) ** 2, 0.0)
            gain = count * 100 * (np.sqrt(squares / count) - np.sqrt(left)).mean(axis=1)
            before = self._overload(nodes, variance[:, None])
            relieved = np.maximum(variance[source] - spread[source], 0.0)
            gain += before[source] - self._overload(nodes[source] + leaving, relieved)
            gain += before - self._overload(nodes + come, (variance + spread)[:, None])
            gain[source] = 0.0
            gains.append(gain)
        return gains

    def measured(self, state: State) -> Floats:
        """Return the load of each node, as the mean of the samples of the last hour.

        While the history is short, `CAUTION` is added.
        """
        latest = self.of_nodes(state, np.nan_to_num(self.latest).T)
        return np.asarray(latest.mean(axis=1) + self._caution(state))

    def overloaded(self, state: State) -> list[int]:
        """Return the nodes that stay above the limit.

        The last sample and the mean of the last hour are above it. If the hour has one sample
        only, the older samples must predict a high load for this hour of the day. While the
        history is short, `CAUTION` is added to all loads.
        """
        caution = self._caution(state)[:, None]
        latest = self.of_nodes(state, np.nan_to_num(self.latest).T) + caution
        high = (latest.mean(axis=1) > self.limit) & (latest[:, -1] > self.limit - BARELY)
        if len(self.latest) < 2:
            older = self.of_nodes(state, self.profiles[1].loads) + caution
            high &= older[:, self.hour] > self.limit - RELIEVED / 2
        return [index for k, index in enumerate(self.scope) if high[k]]

    def _caution(self, state: State) -> Floats:
        """Return how much is added to the load of each node, as a share of its cpus."""
        if not self.short:
            return np.zeros(len(self.scope))
        variance = self._expected(state, self.profiles[0]).variance
        return np.asarray(CAUTION * np.sqrt(np.maximum(variance, 0.0)))


class SteadyMove(Neighbourhood[PlanBuilder, Step]):
    """The move with the highest gain less its cost, or one that relieves an overloaded node."""

    name = "steady move"

    def __init__(self, loads: _Loads, policy: SteadyPolicy, full: Sequence[int]) -> None:
        self._loads = loads
        self._policy = policy
        self._full = full

    def best(
        self, state: PlanBuilder, objective: Objective, allows: Callable[[Step], bool]
    ) -> Step | None:
        """Return the best move that all limits allow; None if none gains more than its cost."""
        steps = list(self._relieving(state) if self._full else self._gaining(state))
        steps.sort(key=lambda step: step[0], reverse=True)
        for _, move in steps:
            check()
            if not allowed_move(state, move):
                continue
            step = Step(ScoredMoves([move], state.score))
            if allows(step):
                return step
        return None

    def _candidates(self, builder: PlanBuilder) -> list[Instance]:
        loads, policy = self._loads, self._policy
        samples = loads.samples[0 if self._full else 1]
        least = RELIEF_SAMPLES if self._full else LEAST_SAMPLES
        return [
            one
            for one in builder.problem.instances
            if one.name in loads.position
            and samples[loads.position[one.name]] >= least
            and policy.may_move(one.name)
        ]

    def _moves(self, builder: PlanBuilder, one: Instance, target: int) -> list[Move]:
        """Return the moves of an instance to a node, within the traffic limit."""
        state, policy = builder.state, self._policy
        if state.cluster.nodes[target].name in policy.left.get(one.name, ()):
            return []
        moves = [
            kind.move(one, state.where[one.name], target)
            for kind in kinds_to(state, one, target, builder.problem.rules)
        ]
        return [move for move in moves if move.copied <= builder.budget()]

    def _gaining(self, builder: PlanBuilder) -> list[tuple[Objective, Move]]:
        loads, limits, state = self._loads, self._policy.limits, builder.state
        expected = loads.expected(state)
        gaining: list[tuple[Objective, Move]] = []
        for one in self._candidates(builder):
            now, held = loads.gains(state, expected, one.name)
            for k in np.flatnonzero(now > limits.least_gain).tolist():
                for move in self._moves(builder, one, loads.scope[k]):
                    cost = limits.least_gain + move.copied / GIB * limits.gib_cost
                    if now[k] > cost and held[k] > cost / 2:
                        gaining.append(((float(now[k] - cost),), move))
        return gaining

    def _relieving(self, builder: PlanBuilder) -> list[tuple[Objective, Move]]:
        """Return moves off busy nodes; those to nodes with enough free capacity come first."""
        loads, limits, state = self._loads, self._policy.limits, builder.state
        nodes = loads.measured(state)
        full = [n for n in self._full if nodes[loads.place[n]] > loads.limit - BARELY]
        expected = loads.expected(state) if full else []
        moves: list[tuple[Objective, Move]] = []
        for one in self._candidates(builder) if full else ():
            source = state.where[one.name][0]
            if source not in full:
                continue
            own = np.nan_to_num(loads.latest[:, loads.position[one.name]]).mean()
            gains = loads.gains(state, expected, one.name)[0]
            for k, target in enumerate(loads.scope):
                after = nodes[k] + own * loads.share[k]
                if target != source and after <= loads.limit - BARELY:
                    free = float(after <= loads.limit - RELIEVED)
                    for move in self._moves(builder, one, target):
                        cost = move.copied / GIB * limits.gib_cost
                        moves.append(((free, float(gains[k] - cost)), move))
        return moves


class SteadyBalancer:
    """Finds the steady plan of one group; it is used as `GroupBalancer`.

    Attributes
    ----------
    name:
        The name of the group.
    before, after:
        The expected deviation before and after the plan, in percent of a node.
    gains:
        Instance -> by how much its move lowers the expected deviation.
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
        self.name = problem.state.cluster.nodes[problem.scope[0]].group.name
        self._plan = Plan("balance", score_of(problem.state, problem.scope))

    def run(self) -> Plan:
        """Return the plan; without moves, its reason says why.

        Raises
        ------
        Stopped
            If the run has to end; see `stopped`.
        """
        self._plan.reason = self._obstacle()
        if self._plan.reason:
            return self._plan
        policy, problem = self._policy, self._problem
        loads = _Loads(problem, policy)
        if len(loads.scope) < 2:
            self._plan.reason = "fewer than two nodes are online"
            return self._plan
        self.before = self.after = loads.deviation(problem.state)
        full = loads.overloaded(problem.state)
        # Outside the permitted hours, or with a short history, only moves off overloaded nodes
        if policy.limits.permits(policy.now):
            forbidden = self._short(policy.limits.least_history)
        else:
            hours = policy.limits.hours
            forbidden = f"moves are permitted from {hours[0]}:00 to {hours[1]}:00 UTC only"
        if forbidden and not full:
            self._plan.reason = forbidden
            return self._plan
        failures = problem.failures
        guard = None if failures is None else failures.comparison.guard()
        builder = PlanBuilder(problem, self._limits, self._progress, guard)
        self._plan = builder.plan
        with builder.state.trial():
            if full:
                self._search(builder, loads, full)
            if not forbidden:
                self._search(builder, loads, ())
            self.after = loads.deviation(builder.state)
        return self._plan

    def _search(self, builder: PlanBuilder, loads: _Loads, full: Sequence[int]) -> None:
        """Add steps to the plan until no step helps; planned moves count towards the maximum."""
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

        def objective(builder: PlanBuilder) -> tuple[float, ...]:
            if full:
                return (float(-len(plan.entries)),)
            return (loads.objective(builder.state),)

        search: LocalSearch[PlanBuilder, Step] = LocalSearch(
            [SteadyMove(loads, policy, full)],
            objective,
            Acceptance(ended, builder.keeps_n1),
            self._limits.deadline,
        )
        reason = search.run(builder)
        if reason == LOCAL_OPTIMUM:
            reason = "no move gains more than its cost, with the newer and with the older samples"
            names = [one.name for one in builder.problem.instances]
            if names and not any(map(policy.may_move, names)):
                reason = "the caps, or the time since their last moves, permit no instance to move"
        plan.reason = reason

    def _short(self, hours: float, least: int = LEAST_SAMPLES) -> str:
        """Return a message if the history is shorter than `hours` or has too few samples."""
        samples = self._policy.samples
        span = (samples[-1].time - samples[0].time) / HOUR
        if span >= hours and len(samples) >= least:
            return ""
        return (
            f"the history spans {span:.1f} hours with {len(samples)} samples: at least "
            f"{hours:g} hours and {LEAST_SAMPLES} samples are needed"
        )

    def _obstacle(self) -> str:
        """Return why no instance of the group may move now; "" if instances may."""
        problem, limits = self._problem, self._policy.limits
        if self._policy.obstacle:
            return self._policy.obstacle
        if self._short(min(RELIEF_HISTORY, limits.least_history), RELIEF_SAMPLES):
            return self._short(limits.least_history)
        nodes = problem.state.cluster.nodes
        down = [nodes[index].name for index in problem.scope if not nodes[index].online]
        if len(down) > limits.offline:
            return f"{len(down)} nodes are offline or drained, at most {limits.offline} may be"
        failures = problem.failures
        if failures is not None:
            failing = failures.first_not_tolerated(failures.failing())
            if failing is not None:
                named = " and ".join(nodes[index].name for index in failing)
                return f"N+1 does not hold: the failure of {named} is not tolerated"
        return ""

    def stopped(self, stop: Stopped) -> Plan:
        """Return the moves found until `stop` ended `run`."""
        self._plan.end(stop)
        return self._plan
