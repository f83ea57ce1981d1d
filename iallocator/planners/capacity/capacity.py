"""Compute the capacity of a cluster: its usage, and the instances that still fit, in two ways.

The result names the nodes that came closest where a filling ends, and what they lack.  It also
names sizes that take no memory, of which a cluster takes more than can be counted.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field

from iallocator.compat import OURS
from iallocator.constraints.affinity_factory import relations_of
from iallocator.deadline import TIME_IS_UP, Deadline, Stopped
from iallocator.errors import UsageError
from iallocator.limits.group import rejected_by_policy
from iallocator.limits.node import ALL_LIMITS, HARD_LIMITS
from iallocator.model.state import State
from iallocator.n1.headroom import FillRules
from iallocator.n1.rules import Rules
from iallocator.n1.simulation import Simulation
from iallocator.names import domain_of
from iallocator.placement.limit_policy import LimitPolicy
from iallocator.placement.nearest import RolesTested, closest
from iallocator.placement.what_if import WhatIf
from iallocator.planners.capacity.fill import FillResult, fill
from iallocator.planners.capacity.site import CapacityState
from iallocator.planners.capacity.tiered import fill_tiered
from iallocator.planners.capacity.usage import Figures, Totals
from iallocator.planners.eligible import nodes_named, set_offline, set_vcpu_ratio
from iallocator.scoring import Kernels
from iallocator.scoring.fit_horizon import Horizon

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from iallocator.compat import Behaviour
    from iallocator.limits.node import LimitSet
    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance
    from iallocator.model.node_view import Capacities
    from iallocator.planners.capacity.forecast import Forecast, Past
    from iallocator.planners.capacity.instance_size import Size

__all__ = ["MOST", "CapacityOptions", "CapacityReport", "Run", "closest_of", "is_endless", "study"]


def closest_of(site: CapacityState, instance: Instance) -> str:
    """What the nearest nodes of any group lack for `instance`; "" if not a resource is lacking."""
    cluster = site.state.cluster
    domain = domain_of(node.name for node in cluster.nodes)
    pair = instance.required_nodes == 2
    misses = []
    for limits, nodes in site.open_to(instance):
        limit_policy = LimitPolicy("new", limits, limits)
        prospect = WhatIf(site.state, site.kernels, instance, limit_policy)
        roles = RolesTested(prospect, nodes, nodes if pair else None, {})
        misses.append(closest(cluster, roles, lambda name: name.removesuffix(domain)))
    told = [miss for miss in misses if miss.text]
    return min(told, key=lambda miss: miss.part).text if told else ""


MOST = 200_000
"""So many instances are counted, one by one, in less than a minute."""


def is_endless(
    state: State,
    fixed: Capacities,
    instance: Instance,
    nodes: Sequence[int],
    limits: LimitSet,
) -> bool:
    """Whether `nodes`, which the policy lets it come to, take more than `MOST` like `instance`.

    Only for what takes no memory: all else comes to an end by itself.
    """
    if instance.memory or not nodes:
        return False
    horizon = Horizon(state, fixed, instance, limits)
    each = MOST // len(nodes)
    return all(horizon.takes_after(index, each) for index in nodes) or any(
        horizon.takes_after(index, MOST) for index in nodes
    )


ATTEMPTS = 1000
"""About as many places are looked for; it chooses the form of the kernel."""


@dataclass(slots=True)
class CapacityOptions:
    """What is asked, and under which rules.

    Attributes
    ----------
    standard, largest:
        The size of instances, and those that the tiers begin with, one after the other: one of
        each interval of the policy.
    n1:
        ``strict``, ``no-worse``, ``no-new``, ``off``, or "": hspace's rule, which is strict for
        instances on one node and relies on the reserved memory for those on two.
    accept_errors, independent:
        Whether to go on where the cluster, or a group, is not N+1 already: only what is
        online has to stay N+1; only the healthy groups are used.
    allowed:
        Names of the nodes that may be used; None: all.
    limit:
        Instances at most, each way; None: any number.
    seconds:
        For both ways together, half of them for the tiers at most; None: any time.
    behaviour:
        Where hspace differs.
    tag_prefix:
        What this program's own tags begin with.
    n1_of, soft_of:
        Index of a group -> what its tags say of N+1, and of ignoring soft limits, where they
        say something else than `n1` and `ignore_soft`.
    past:
        Requests for new instances, with the settings that each is answered by; if there are
        any, it is forecast how many more fit.
    """

    standard: Size
    largest: Sequence[Size]
    _: KW_ONLY
    n1: str = ""
    accept_errors: bool = False
    independent: bool = False
    allowed: Collection[str] | None = None
    offline: Collection[str] = ()
    max_cpu: float | None = None
    min_disk: float = 0.0
    limit: int | None = None
    ignore_soft: bool = False
    behaviour: Behaviour = OURS
    seconds: float | None = None
    tag_prefix: str = "iallocator:"
    n1_of: Mapping[int, str] = field(default_factory=dict)
    soft_of: Mapping[int, bool] = field(default_factory=dict)
    past: Sequence[Past] = ()


class Run:
    """One filling: the size it began with, what was placed, the state and figures after it.

    ``closest`` is what the nearest nodes lack for one more of the last size; "" if nothing.
    """

    __slots__ = ("closest", "figures", "filling", "size", "state")

    def __init__(self, size: Size, filling: FillResult, state: State, figures: Figures) -> None:
        self.size = size
        self.filling = filling
        self.state = state
        self.figures = figures
        self.closest = ""


class CapacityReport:
    """The answer.

    Attributes
    ----------
    before:
        The state at the start, and `initial` the figures of it.
    tiered, standard:
        The two fillings; None if it was interrupted before.
    failing:
        Names of the nodes that fail N+1 already, so that nothing was tried; usually none.
    nowhere:
        Whether no node may take an instance of that kind; nothing was tried then, either.
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

    @property
    def runs(self) -> list[Run]:
        """Those that were begun."""
        return [run for run in (self.tiered, self.standard) if run is not None]

    @property
    def late(self) -> bool:
        """Whether the time limit ended any of it."""
        ends = [run.filling.ended for run in self.runs]
        return TIME_IS_UP in (ends + [self.forecast.ended] if self.forecast else ends)

    @property
    def interrupted(self) -> bool:
        """Whether somebody stopped it."""
        forecast = self.forecast is not None and self.forecast.interrupted
        return forecast or any(run.filling.interrupted for run in self.runs)


def study(
    cluster: Cluster, wants: CapacityOptions, progress: Callable[[str, FillResult], None]
) -> CapacityReport:
    """Fill the cluster twice, each time from the start.

    `progress` is told the kind of filling and what is placed after each instance.

    Raises
    ------
    NotFoundError
        If a node is unknown.
    UsageError
        If more of a size fit than can be counted.
    """
    if wants.allowed:
        wants.allowed = nodes_named(cluster, wants.allowed, "--restrict-allocation-to")
    set_offline(cluster, wants.offline)
    if wants.max_cpu is not None:
        set_vcpu_ratio(cluster, wants.max_cpu)
    work = _Work(cluster, wants, progress)
    work.run()
    return work.study


class _Work:
    def __init__(
        self, cluster: Cluster, wants: CapacityOptions, progress: Callable[[str, FillResult], None]
    ) -> None:
        self._cluster = cluster
        self._wants = wants
        self._progress = progress
        known = wants.behaviour.knows_affinity
        relations = relations_of(cluster, (), wants.tag_prefix) if known else None
        self._units = None if relations is None else relations.units()
        locations = None if relations is None else relations.locations
        self._closed = frozenset() if locations is None else frozenset(locations.closed)
        state = State(cluster)
        count = len(cluster.nodes)
        pairs = sum(len(g.nodes) ** 2 for g in cluster.groups) * (wants.standard.nodes == 2)
        self._kernels = Kernels(state, [(count, pairs)] * ATTEMPTS, wants.min_disk)
        self._kernels.many = True
        score = self._kernels.make(state, range(len(cluster.nodes))).score()
        self.study = CapacityReport(state, Totals(state), Figures(state, score, wants.min_disk))

    def run(self) -> None:
        """Fill as far as it goes, twice."""
        wants, state = self._wants, self.study.before
        failing = [] if wants.n1 in ("no-new", "no-worse") else failing_nodes(state)
        gated = bool(failing) and not (wants.accept_errors or wants.independent)
        groups = [g for g in self._cluster.groups if g.alloc_policy != "unallocable"]
        watched = list(range(len(self._cluster.nodes)))
        if wants.independent:
            sick = unhealthy_groups(state, self._kernels, self._units)
            groups = [group for group in groups if group.index not in sick]
            watched = [i for i in watched if self._cluster.nodes[i].group.index not in sick]
            gated = bool(failing) and not groups
        if wants.accept_errors:
            watched = [i for i in watched if self._cluster.nodes[i].online]
        usable = groups
        if gated:
            self.study.failing = self._cluster.node_names(failing)
            groups = []
        if wants.limit is None:
            for size in wants.largest:
                self._reject_endless("tiered", size, groups)
            self._reject_endless("standard", wants.standard, groups)
        whole = Deadline.of_run(wants.seconds)
        half = None if whole.seconds is None else max(whole.left, 0.0) / 2
        self.study.tiered = self._filled("tiered", wants.largest, groups, watched, Deadline(half))
        if not self.study.interrupted:
            self.study.standard = self._filled("standard", [wants.standard], groups, watched, whole)
        if wants.past and not self.study.interrupted:
            self.study.forecast = self._forecast(usable, whole)

    def _reject_endless(self, kind: str, size: Size, groups: Sequence[Group]) -> None:
        """Refuse to count what takes no memory, and nothing else that ends."""
        state, instance = self.study.before, size.instance("")
        for group in groups:
            spared = self._wants.soft_of.get(group.index, self._wants.ignore_soft)
            rejected = rejected_by_policy(self._cluster, group, instance)
            nodes = [i for i in group.nodes if self._allows(i) and i not in rejected]
            limits = HARD_LIMITS if spared else ALL_LIMITS
            if is_endless(state, self._kernels.fixed, instance, nodes, limits):
                raise UsageError(
                    f"--{kind}-alloc {size.disk},{size.memory},{size.cpus}: takes no memory, and "
                    f"more than {MOST} fit: expected a size that ends, or --max-length"
                )

    def _forecast(self, groups: list[Group], deadline: Deadline) -> Forecast:
        """How many more like those of the past fit; requests know no gate."""
        from iallocator.planners.capacity.forecast import Site, forecast

        cluster, wants = self._cluster, self._wants
        nodes = [index for group in groups for index in group.nodes if self._allows(index)]
        names = cluster.node_names(nodes)
        site = Site(cluster, wants.past, names, wants.min_disk, _Names(cluster))
        return forecast(site, wants.limit, deadline)

    def _filled(
        self,
        kind: str,
        sizes: Sequence[Size],
        groups: list[Group],
        watched: list[int],
        deadline: Deadline,
    ) -> Run:
        """Fill the initial state with instances of `sizes`, until the deadline at most."""
        wants = self._wants
        state = State(self._cluster)
        site = self._site(state, groups, watched)
        filling = FillResult()
        names = _Names(self._cluster)
        if not self.study.failing and not site.online(sizes[0].nodes == 2):
            self.study.nowhere = True
        elif self.study.failing:
            filling.failures = {"FailN1": 1}
        else:
            watch = self._watch(kind, deadline)
            try:
                with deadline:
                    spends = wants.behaviour.counts_sizes_as_attempts
                    for size in sizes:
                        if filling.ended:
                            break
                        if kind == "tiered":
                            fill_tiered(site, size, filling, wants.limit, names, watch, spends)
                        else:
                            fill(site, size, filling, wants.limit, names, watch, spends)
            except Stopped as stop:
                filling.interrupted = stop.interrupted
                filling.ended = stop.reason
                state = self._again(filling)
                site = self._site(state, groups, watched)
        run = Run(sizes[0], filling, state, Figures(state, site.score(), wants.min_disk))
        if not (filling.ended or self.study.failing or self.study.nowhere):
            number = len(filling.placed)
            last = filling.placed[-1].size if filling.placed else sizes[0]
            run.closest = closest_of(site, site.newcomer(last, number, names(number)))
            if wants.behaviour.policy_reason and filling.last is not None:
                filling.failures = site.failures_shown(
                    site.newcomer(filling.last, number, names(number))
                )
        return run

    def _site(self, state: State, groups: list[Group], watched: list[int]) -> CapacityState:
        wants = self._wants
        usable = [(group, [i for i in group.nodes if self._allows(i)]) for group in groups]
        rules = {
            mode: FillRules(mode or "strict", bool(mode), watched, self._units)
            for mode in {wants.n1, *wants.n1_of.values()}
        }
        soft = {g.index: wants.soft_of.get(g.index, wants.ignore_soft) for g in groups}
        return CapacityState(
            state, usable, self._kernels,
            {group.index: rules[wants.n1_of.get(group.index, wants.n1)] for group in groups},
            {index: HARD_LIMITS if spared else ALL_LIMITS for index, spared in soft.items()},
            wants.behaviour,
        )  # fmt: skip

    def _allows(self, index: int) -> bool:
        """Whether node `index` may take instances: online, asked for, and closed by no tag."""
        node, allowed = self._cluster.nodes[index], self._wants.allowed
        wanted = allowed is None or node.name in allowed
        return node.online and wanted and index not in self._closed

    def _again(self, filling: FillResult) -> State:
        """The state with what is placed for sure: an interruption may have come half way."""
        state = State(self._cluster)
        for allocation in filling.placed:
            state.place(allocation.instance, allocation.nodes)
        return state

    def _watch(self, kind: str, deadline: Deadline) -> Callable[[FillResult], str]:
        def watch(filling: FillResult) -> str:
            self._progress(kind, filling)
            return TIME_IS_UP if deadline.over() else ""

        return watch


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
    """Return the nodes whose reported memory is less than their worst peer's failover needs."""
    return [
        node.index
        for node in state.cluster.nodes
        if node.online and node.reported_memory < state.reserved[node.index]
    ]


def unhealthy_groups(
    state: State, kernels: Kernels, units: Mapping[str, Sequence[str]] | None = None
) -> Collection[int]:
    """Return the indices of the groups with a failing node, or with an intolerable failure."""
    cluster = state.cluster
    unhealthy = {cluster.nodes[index].group.index for index in failing_nodes(state)}
    rules = Rules("strict", units)
    for group in cluster.groups:
        simulation = Simulation(state, kernels, rules, group.nodes)
        if group.index not in unhealthy and simulation.lost(group.nodes):
            unhealthy.add(group.index)
    return unhealthy
