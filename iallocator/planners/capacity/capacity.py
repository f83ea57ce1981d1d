"""Compute the capacity of a cluster: what it uses, and how many instances still fit.

The cluster is filled twice: with instances of one standard size, and in tiers of decreasing sizes.
The result names the nodes that are nearest to accepting one more instance, and the amounts that are
missing there. A size without memory is rejected if more instances fit than can be counted.
"""

from __future__ import annotations

from iallocator.compat import OURS
from iallocator.constraints import relations_of
from iallocator.constraints.table import entry_rejections
from iallocator.deadline import SIGNALLED, SIMULATIONS, TIME_IS_UP, Deadline, Stopped
from iallocator.errors import UsageError
from iallocator.light import ValueObject
from iallocator.limits.fit_horizon import Horizon
from iallocator.limits.node import ALL_LIMITS, HARD_LIMITS
from iallocator.model.columns import MEMORY
from iallocator.model.state import State
from iallocator.n1 import WORK_PER_SECOND, Rules
from iallocator.n1.tolerance import FailureTolerance
from iallocator.names import domain_of
from iallocator.placement.limit_policy import LimitPolicy
from iallocator.placement.nearest import RolesTested, closest
from iallocator.placement.what_if import WhatIf
from iallocator.planners.capacity.fill import (
    EXPECTED_INSTANCES,
    Allocation,
    FillResult,
    fill,
    fill_tiered,
    likely_reason,
)
from iallocator.planners.capacity.next_place import GroupTolerances
from iallocator.planners.capacity.site import CapacityState
from iallocator.planners.capacity.usage import Figures, Totals
from iallocator.planners.eligible import group_named, nodes_named, set_offline, set_vcpu_ratio
from iallocator.planners.quality import PLACED, Quality, bounded
from iallocator.scoring import Kernels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from iallocator.compat import Behaviour
    from iallocator.limits.node import LimitSet
    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance
    from iallocator.model.node_view import Capacities
    from iallocator.planners.capacity.forecast import Forecast, Past
    from iallocator.planners.capacity.site import Size

__all__ = [
    "MOST_COUNTED_SINGLY",
    "CapacityOptions",
    "CapacityReport",
    "FillingExtent",
    "FillingRules",
    "FillingScope",
    "Run",
    "closest_of",
    "compute_capacity",
    "failing_nodes",
    "is_endless",
]  # fmt: skip


def closest_of(site: CapacityState, instance: Instance) -> str:
    """Return, in words, the amounts that the nearest nodes lack for `instance`.

    The result is "" if no resource is short.
    """
    cluster = site.state.cluster
    domain = domain_of(node.name for node in cluster.nodes)
    pair = instance.required_nodes == 2
    misses = []
    for limits, nodes, results in site.open_to(instance):
        limit_policy = LimitPolicy("new", limits, limits)
        prospect = WhatIf(site.state, site.kernels, instance, limit_policy)
        roles = RolesTested(prospect, nodes, nodes if pair else None, {}, results=results)
        misses.append(closest(cluster, roles, lambda name: name.removesuffix(domain)))
    with_text = [miss for miss in misses if miss.text]
    return min(with_text, key=lambda miss: miss.part).text if with_text else ""


MOST_COUNTED_SINGLY = 200_000
"""The largest number of instances that are counted one by one, in less than a minute."""


def is_endless(
    state: State,
    fixed: Capacities,
    instance: Instance,
    nodes: Sequence[int],
    limits: LimitSet,
) -> bool:
    """Return whether more than `MOST_COUNTED_SINGLY` instances like `instance` fit on `nodes`.

    The policy must allow the instances there. Only instances without memory can be so many.
    """
    if instance.memory or not nodes:
        return False
    horizon = Horizon(state, fixed, instance, limits)
    each = MOST_COUNTED_SINGLY // len(nodes)
    return all(horizon.takes_after(index, each) for index in nodes) or any(
        horizon.takes_after(index, MOST_COUNTED_SINGLY) for index in nodes
    )


FILL_SEARCH_SECONDS = 1.0
"""The time for the integer program, in seconds of work of a usual machine."""

TIERED_AGAIN = 1_000
"""The largest product of nodes and instances for which tiers are filled again by exact search."""


class FillingScope(ValueObject):
    """The nodes and groups that are filled.

    Attributes
    ----------
    group:
        Name or uuid of the only group that is checked and filled; "": all groups.
    allowed:
        Names of the nodes that may be used; None: all nodes.
    offline:
        Names of nodes to treat as offline.
    accept_errors:
        Whether to fill a cluster that violates N+1 already. Then only failures of online nodes
        are checked.
    independent:
        Whether to fill only the groups that do not violate N+1.
    """

    group: str = ""
    allowed: Collection[str] | None = None
    offline: Collection[str] = ()
    accept_errors: bool = False
    independent: bool = False


class FillingRules(ValueObject):
    """The limits that are enforced while a cluster is filled.

    Attributes
    ----------
    n1:
        ``strict``, ``no-worse``, ``no-new``, ``off``, or "": the rule of hspace, which is
        ``strict`` for instances on one node, and relies on the reserved memory for instances on
        two nodes.
    ignore_soft:
        Whether soft limits are ignored.
    n1_of, soft_of:
        Index of a group -> its N+1 mode, and whether it ignores soft limits, if its tags differ
        from `n1` and `ignore_soft`.
    max_cpu:
        The maximum number of virtual cpus per cpu; None: the maximum of the policy.
    min_disk:
        The share of the disk of each node that stays free, from 0 to 1.
    behaviour:
        The differences between this program and hspace.
    exact_ties:
        Whether rounding decides between places with equal scores, as in hspace. It takes ten times
        as long, and seldom changes the number of instances.
    """

    n1: str = ""
    ignore_soft: bool = False
    n1_of: Mapping[int, str] = {}
    soft_of: Mapping[int, bool] = {}
    max_cpu: float | None = None
    min_disk: float = 0.0
    behaviour: Behaviour = OURS
    exact_ties: bool = False

    def n1_in(self, group: Group) -> str:
        """Return the N+1 mode of `group`."""
        return self.n1_of.get(group.index, self.n1)

    def limits_in(self, group: Group) -> LimitSet:
        """Return the limits of new instances in `group`: all limits, or only the hard ones."""
        ignored = self.soft_of.get(group.index, self.ignore_soft)
        return HARD_LIMITS if ignored else ALL_LIMITS


class FillingExtent(ValueObject):
    """When the fillings end.

    Attributes
    ----------
    limit:
        The largest number of instances in each filling; None: any number.
    seconds:
        The time limit of both fillings together, half of it for the tiers; None: no limit.
    searches:
        Whether exact search may follow when no more instance fits.
    thoroughness:
        The factor of the work of exact searches, 1 or more.
    """

    limit: int | None = None
    seconds: float | None = None
    searches: bool = True
    thoroughness: int = 1


class CapacityOptions(ValueObject):
    """Options for computing the capacity of a cluster.

    Attributes
    ----------
    standard:
        The size of the instances of the standard filling.
    largest:
        The sizes with which the tiers begin, one after the other: one for each interval of the
        policy. () if no tiers are filled.
    scope, rules, extent:
        Where the fillings place instances, which limits are enforced, and when the fillings end.
    tag_prefix:
        The prefix of the tags of this program.
    past:
        Earlier requests for new instances, each with its settings. If there are any, the program
        forecasts how many more such instances fit.
    by_group:
        Whether the program finds the limiting resource of each group when it is full of standard
        instances.
    """

    standard: Size
    largest: Sequence[Size]
    scope: FillingScope = FillingScope()
    rules: FillingRules = FillingRules()
    extent: FillingExtent = FillingExtent()
    tag_prefix: str = "iallocator:"
    past: Sequence[Past] = ()
    by_group: bool = False


class Run:
    """The result of one filling.

    Attributes
    ----------
    size:
        The size with which the filling began.
    filling:
        The instances that were placed.
    state, figures:
        The state after the filling, and its used and free resources.
    closest:
        The amounts that the nearest nodes lack for one more instance of the last size; "" if no
        resource is short.
    quality:
        Compares the number of instances with a bound; None for tiers.
    """

    __slots__ = ("closest", "figures", "filling", "quality", "size", "state")

    def __init__(self, size: Size, filling: FillResult, state: State, figures: Figures) -> None:
        self.size = size
        self.filling = filling
        self.state = state
        self.figures = figures
        self.closest = ""
        self.quality: Quality | None = None


class CapacityReport:
    """The capacity of a cluster: how many further instances fit, and why no more fit.

    Attributes
    ----------
    before:
        The initial state.
    totals, initial:
        The capacities of all nodes, and the used and free resources in the initial state.
    tiered, standard:
        The two fillings; None if a signal ended the computation before, or if it was not requested.
    failing:
        Names of the nodes that violate N+1 already, if nothing was placed for this reason.
    nowhere:
        Whether nothing was placed because no node is open to such an instance.
    forecast:
        How many instances like the earlier ones fit; None without earlier requests.
    limiting:
        With `CapacityOptions.by_group`: index of a group -> what rejects most placements of one
        more standard instance there. A group without usable nodes is left out.
    """

    def __init__(self, state: State, totals: Totals, initial: Figures) -> None:
        self.before = state
        self.totals = totals
        self.initial = initial
        self.failing: list[str] = []
        self.nowhere = False
        self.tiered: Run | None = None
        self.standard: Run | None = None
        self.forecast: Forecast | None = None
        self.limiting: dict[int, str] = {}

    @property
    def runs(self) -> list[Run]:
        """Return the fillings that were begun."""
        return [run for run in (self.tiered, self.standard) if run is not None]

    def placed_by_group(self) -> dict[int, int]:
        """Return index of each group -> the number of standard instances placed there."""
        cluster = self.before.cluster
        counts = dict.fromkeys(range(len(cluster.groups)), 0)
        for one in [] if self.standard is None else self.standard.filling.placed:
            counts[cluster.nodes[one.nodes[0]].group.index] += 1
        return counts

    @property
    def late(self) -> bool:
        """Return whether the time limit ended a filling or the forecast."""
        ends = [run.filling.ended for run in self.runs]
        return TIME_IS_UP in (ends + [self.forecast.ended] if self.forecast else ends)

    @property
    def interrupted(self) -> bool:
        """Return whether a signal ended the computation."""
        forecast = self.forecast is not None and self.forecast.interrupted
        return forecast or any(run.filling.interrupted for run in self.runs)


def compute_capacity(
    cluster: Cluster, wants: CapacityOptions, progress: Callable[[str, FillResult], None]
) -> CapacityReport:
    """Fill the cluster twice, each time from the initial state, and return the results.

    `progress` is called with the kind of filling and its present result, after each instance.

    Raises
    ------
    NotFoundError
        If a node is unknown.
    UsageError
        If more instances of a size fit than can be counted.
    """
    if wants.scope.allowed:
        allowed = nodes_named(cluster, wants.scope.allowed, "--restrict-allocation-to")
        wants.scope = wants.scope.replace(allowed=allowed)
    set_offline(cluster, wants.scope.offline)
    if wants.rules.max_cpu is not None:
        set_vcpu_ratio(cluster, wants.rules.max_cpu)
    return _Computation(cluster, wants, progress).run()


class _Computation:
    """Computes the capacity of one cluster."""

    def __init__(
        self, cluster: Cluster, wants: CapacityOptions, progress: Callable[[str, FillResult], None]
    ) -> None:
        self._cluster = cluster
        self._wants = wants
        self._progress = progress
        known = wants.rules.behaviour.knows_affinity
        relations = relations_of(cluster, (), wants.tag_prefix) if known else None
        self._units = None if relations is None else relations.units()
        locations = None if relations is None else relations.locations
        self._closed = frozenset() if locations is None else frozenset(locations.closed)
        state = State(cluster)
        count = len(cluster.nodes)
        pairs = sum(len(g.nodes) ** 2 for g in cluster.groups) * (wants.standard.nodes == 2)
        self._kernels = Kernels(state, [(count, pairs)] * EXPECTED_INSTANCES, wants.rules.min_disk)
        self._kernels.many = True
        score = self._kernels.make(state, range(len(cluster.nodes))).score()
        self._report = CapacityReport(
            state, Totals(state), Figures(state, score, wants.rules.min_disk)
        )
        self._names = _Names(cluster)
        self._groups = [g for g in cluster.groups if g.alloc_policy != "unallocable"]
        self._watched = list(range(len(cluster.nodes)))  # N+1 checks the failures of these nodes
        if wants.scope.group:
            only = group_named(cluster, wants.scope.group)
            self._groups = [group for group in self._groups if group is only]
            self._watched = list(only.nodes)

    def run(self) -> CapacityReport:
        """Fill the cluster in tiers, then with standard instances; make a forecast if requested."""
        wants, report, nodes = self._wants, self._report, self._cluster.nodes
        failing = [] if wants.rules.n1 in ("no-new", "no-worse") else failing_nodes(report.before)
        failing = [index for index in failing if index in self._watched]
        gated = bool(failing) and not (wants.scope.accept_errors or wants.scope.independent)
        if wants.scope.independent:
            sick = unhealthy_groups(
                report.before, self._kernels, self._units, failing=not wants.scope.accept_errors
            )
            self._groups = [group for group in self._groups if group.index not in sick]
            self._watched = [i for i in self._watched if nodes[i].group.index not in sick]
            gated = bool(failing) and not self._groups and not wants.scope.accept_errors
        if wants.scope.accept_errors:
            self._watched = [i for i in self._watched if nodes[i].online]
        open_to = [k for group in self._groups for k in group.nodes if self._allows(k)]
        if gated:
            report.failing = self._cluster.node_names(failing)
            self._groups = []
        if wants.extent.limit is None:
            for kind, sizes in (("tiered", wants.largest), ("standard", [wants.standard])):
                for size in sizes:
                    self._reject_endless(kind, size)
        whole = Deadline.of_run(wants.extent.seconds)
        half = Deadline(None if whole.seconds is None else max(whole.left, 0.0) / 2)
        if wants.largest:
            report.tiered = self._filled("tiered", wants.largest, half)
        if not report.interrupted:
            report.standard = self._filled("standard", [wants.standard], whole)
        if wants.past and not report.interrupted:  # requests are answered even if nodes fail N+1
            names = self._cluster.node_names(open_to)
            from iallocator.planners.capacity.forecast import Forecast, Site

            site = Site(self._cluster, wants.past, names, wants.rules.min_disk, self._names)
            report.forecast = forecast = Forecast(site)
            stop = _until_stopped(whole, lambda: forecast.run(wants.extent.limit))
            if stop is not None:
                forecast.end(stop)
        return report

    def _reject_endless(self, kind: str, size: Size) -> None:
        """Raise `UsageError` if more instances of `size` fit than can be counted."""
        state, instance = self._report.before, size.instance("")
        for group in self._groups:
            rejected = entry_rejections(self._cluster, group, instance)
            nodes = [i for i in group.nodes if self._allows(i) and i not in rejected]
            limits = self._wants.rules.limits_in(group)
            if is_endless(state, self._kernels.fixed, instance, nodes, limits):
                raise UsageError(
                    f"--{kind}-alloc {size.disk},{size.memory},{size.cpus}: takes no memory, "
                    f"and more than {MOST_COUNTED_SINGLY} fit: expected a size with memory, "
                    "or --max-length"
                )

    def _filled(self, kind: str, sizes: Sequence[Size], deadline: Deadline) -> Run:
        """Fill the initial state with instances of `sizes` until `deadline`; return the result."""
        wants, report = self._wants, self._report
        state = report.before.copy()
        site = self._site(state)

        def watch(filling: FillResult) -> str:
            self._progress(kind, filling)
            return TIME_IS_UP if deadline.over() else ""

        filling = FillResult(self._names, watch, wants.rules.behaviour.counts_sizes_as_attempts)
        if not report.failing and not site.online(sizes[0].nodes == 2):
            report.nowhere = True
        elif report.failing:
            filling.failures = {"FailN1": 1}
        else:

            def work() -> None:
                for size in sizes:
                    if filling.ended:
                        break
                    if kind == "tiered":
                        fill_tiered(site, size, filling, wants.extent.limit)
                    else:
                        fill(site, size, filling, wants.extent.limit)

            stop = _until_stopped(deadline, work)
            if stop is not None:
                filling.interrupted = stop.interrupted
                filling.ended = stop.reason
                state = self._state_of(filling)  # the signal may have come between two changes
                site = self._site(state)
        # If no placement is tried, no instance can be placed
        bound: int | None = 0 if report.failing or report.nowhere else None

        def improve() -> None:
            nonlocal bound
            bound = self._improve(sizes, filling, kind == "tiered")

        if self._may_improve(filling):
            known, count = filling.placed, len(filling.placed)
            stop = _until_stopped(deadline, improve)
            filling.interrupted = stop is not None and stop.interrupted
            if filling.interrupted:
                filling.ended = SIGNALLED
            if filling.placed is not known or len(known) != count:
                state = self._state_of(filling)
                site = self._site(state)
        run = Run(sizes[0], filling, state, Figures(state, site.score(), wants.rules.min_disk))
        if kind == "standard" and wants.rules.behaviour.states_bounds:
            run.quality = self._quality(filling, sizes[0], bound, deadline)
        if not (filling.ended or report.failing or report.nowhere):
            self._say_why_full(run, site, kind)
        return run

    def _say_why_full(self, run: Run, site: CapacityState, kind: str) -> None:
        """Record in `run`, and for a run by group in the report, why no further instance fits.

        `site` has the placed instances.
        """
        filling, wants = run.filling, self._wants
        number = len(filling.placed)
        last = filling.placed[-1].size if filling.placed else run.size
        name = self._names(number)
        run.closest = closest_of(site, site.newcomer(last, number, name))
        if kind == "standard" and wants.by_group:
            self._report.limiting = _limiting(site, site.newcomer(last, number, name))
        if wants.rules.behaviour.policy_reason and filling.last is not None:
            filling.failures = site.failures_shown(site.newcomer(filling.last, number, name))

    def _state_of(self, filling: FillResult) -> State:
        """Return the state with the instances of `filling`."""
        state = self._report.before.copy()
        for allocation in filling.placed:
            state.place(allocation.instance, allocation.nodes)
        return state

    def _may_improve(self, filling: FillResult) -> bool:
        """Return whether exact search may find more instances than `filling` has."""
        if filling.ended or self._report.failing or self._report.nowhere:
            return False
        fails_n1 = self._report.before.fails_n1
        if any(fails_n1(index) for group in self._groups for index in group.nodes):
            return False  # the memory that such a node reserves is not checked
        wants = self._wants
        searches = wants.extent.searches and wants.rules.behaviour.searches
        if not searches:
            return False
        from iallocator.planners.capacity.most import MOST_PROGRAM_INSTANCES

        return len(filling.placed) <= MOST_PROGRAM_INSTANCES * wants.extent.thoroughness

    def _improve(self, sizes: Sequence[Size], filling: FillResult, tiered: bool) -> int | None:
        """Add instances to `filling`, of the same sizes, if exact search finds placements for them.

        A simulation of a failure restarts one instance after the other, and may fail where another
        order succeeds. A filling in tiers is better if it has more instances and more memory.
        Return an upper bound of the number of instances of one size; None: unknown.
        """
        limit = self._wants.extent.limit
        site = self._site(self._report.before.copy(), exact=True)
        first = site.newcomer(sizes[0], 0, self._names(0))
        if not site.n1.tolerated(first):  # more instances cannot make a failure tolerated
            spent = any(one.rules.effort.spent for one, _ in site.n1.required(first))
            return None if spent or filling.placed else 0
        checked = any(
            tolerance.rules.mode != "no-worse" for tolerance, _ in site.n1.required(first)
        )
        if tiered:
            work = len(self._cluster.nodes) * (len(self._cluster.instances) + len(filling.placed))
            if not checked or work > TIERED_AGAIN * self._wants.extent.thoroughness:
                return None
            other = FillResult(self._names, filling.watch)
            for size in sizes:
                fill_tiered(site, size, other, limit)
            (count, memory), (fewer, less) = (
                (len(some.placed), sum(each.size.memory for each in some.placed))
                for some in (other, filling)
            )
            if count >= fewer and memory >= less and (count, memory) != (fewer, less):
                filling.placed, filling.failures = other.placed, other.failures
                filling.last, filling.ended = other.last, other.ended
            return None
        from iallocator.planners.capacity.most import most_equal

        (size,) = sizes
        known = len(filling.placed)
        most = most_equal(
            site,
            lambda number: site.another(first, number, self._names(number)),
            known,
            limit,
            Deadline.of_search(FILL_SEARCH_SECONDS * self._wants.extent.thoroughness),
            self._wants.extent.thoroughness,
        )
        if most.nodes is not None:
            filling.placed = [
                Allocation(site.another(first, number, self._names(number)), nodes, size)
                for number, nodes in enumerate(most.nodes)
            ]
        if most.nodes is not None or (checked and not most.proved):
            for one in filling.placed:
                site.place([(one.instance, one.nodes)])
            fill(site, size, filling, limit)
        return most.bound

    def _quality(
        self, filling: FillResult, size: Size, bound: float | None, deadline: Deadline
    ) -> Quality:
        """Return the number of instances of `size`, with `bound`; if it is None, compute one."""
        reason = ""
        if bound is None:
            bound, reason, stop = bounded(lambda: self._highest(size), deadline)
            if stop is not None:
                filling.interrupted, filling.ended = True, SIGNALLED
        return Quality(len(filling.placed), bound, filling.ended or reason, PLACED)

    def _highest(self, size: Size) -> int | None:
        """Return an upper bound of the number of instances of `size`; None: unknown.

        A failure counts if it is tolerated without new instances, and must stay so.
        """
        from iallocator.planners.capacity.most import highest_number, required_failures

        site = self._site(self._report.before.copy())
        first = site.newcomer(size, 0, self._names(0))
        failing = required_failures(site, first) if site.n1.tolerated(first) else {}
        return highest_number(site, first, failing)

    def _site(self, state: State, exact: bool = False) -> CapacityState:
        rules = self._wants.rules
        watched = [(index,) for index in self._watched]
        effort = WORK_PER_SECOND * self._wants.extent.thoroughness
        tolerances = {
            mode: FailureTolerance(
                state,
                Rules(
                    mode or "strict",
                    self._units,
                    Deadline(None, work={SIMULATIONS: effort}) if exact else None,
                    failures=watched if mode in ("", "strict") else None,
                    exact=exact or None,
                ),
                kernels=self._kernels,
            )
            for mode in {rules.n1, *rules.n1_of.values()}
        }
        modes = {group.index: rules.n1_in(group) for group in self._groups}
        return CapacityState(
            state,
            [(group, [i for i in group.nodes if self._allows(i)]) for group in self._groups],
            self._kernels,
            GroupTolerances(
                state,
                {index: tolerances[mode] for index, mode in modes.items()},
                frozenset(index for index, mode in modes.items() if mode),
            ),
            {group.index: rules.limits_in(group) for group in self._groups},
            rules.behaviour,
            rules.exact_ties,
        )

    def _allows(self, index: int) -> bool:
        """Return whether node `index` is online, may be used, and is not closed by a tag."""
        node, allowed = self._cluster.nodes[index], self._wants.scope.allowed
        wanted = allowed is None or node.name in allowed
        return node.online and wanted and index not in self._closed


def _limiting(site: CapacityState, instance: Instance) -> dict[int, str]:
    """Return the index of each full group -> the reason of most rejections of `instance` there."""
    by_group: dict[int, str] = {}
    for group, _ in site.groups:
        failures = site.rejections_in(group, instance)
        if failures:
            by_group[group.index] = likely_reason(failures)
    return by_group


def _until_stopped(deadline: Deadline, work: Callable[[], None]) -> Stopped | None:
    """Call `work` until `deadline` or a signal ends it; return what ended it early, or None."""
    try:
        with deadline:
            work()
    except Stopped as stop:
        return stop
    return None


class _Names:
    """Names for new instances that the cluster does not have: ``new-0``, ``new-1``, ..."""

    def __init__(self, cluster: Cluster) -> None:
        self._taken = {instance.name for instance in cluster.instances}

    def __call__(self, number: int) -> str:
        name = f"new-{number}"
        while name in self._taken:
            name += "-"
        return name


def failing_nodes(state: State) -> list[int]:
    """Return nodes that report less memory than the failover from their worst peer requires.

    For a node that may allocate more memory than it has, the free memory of `state` is used.
    """
    free = [
        state.columns[MEMORY][node.index] if node.lent_memory else node.reported_memory
        for node in state.cluster.nodes
    ]
    return [
        node.index
        for node in state.cluster.nodes
        if node.online and free[node.index] < state.reserved[node.index]
    ]


def unhealthy_groups(
    state: State,
    kernels: Kernels,
    units: Mapping[str, Sequence[str]] | None = None,
    failing: bool = True,
) -> Collection[int]:
    """Return the indices of groups with a failure that is not tolerated.

    `failing`: also those of groups with a node that lacks the memory for failovers to it.
    """
    cluster = state.cluster
    unhealthy: set[int] = set()
    if failing:
        unhealthy = {cluster.nodes[index].group.index for index in failing_nodes(state)}
    rules = Rules("strict", units)
    for group in cluster.groups:
        tolerance = FailureTolerance(state, rules, group.nodes, kernels)
        failures = rules.failing(cluster, group, group.nodes)
        if group.index not in unhealthy and tolerance.not_tolerated(failures):
            unhealthy.add(group.index)
    return unhealthy
