"""Find nodes for one more instance in a cluster that is filled, or the reasons of the rejections.

Instances have the standard size, the largest size, or sizes that are smaller by some steps.
"""

from __future__ import annotations

from iallocator.constraints.table import entry_rejections
from iallocator.errors import UsageError, cut
from iallocator.light import copy
from iallocator.limits.node import ALL_LIMITS
from iallocator.model.instance import UNIT_LOAD, Backend, Disks, Instance
from iallocator.model.state import derived
from iallocator.model.templates import DISKLESS, DRBD, TEMPLATES
from iallocator.planners.capacity.next_place import NextPlace, Unchecked
from iallocator.scoring.rounding import decided

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.compat import Behaviour
    from iallocator.limits.node import LimitSet
    from iallocator.model.cluster import Group
    from iallocator.model.policy import Policy, Spec
    from iallocator.model.state import Kept, State
    from iallocator.planners.capacity.next_place import GroupTolerances
    from iallocator.scoring import Kernel, Kernels
    from iallocator.scoring.arrays import ArrayKernel
    from iallocator.scoring.candidates import Candidates, LimitResults, Placement

    Failures = dict[str, int]
    """Reason -> the number of placements that it rejected in the last attempt; see `REASONS`."""

    Load = tuple[float, float, float, float]

    Amounts = tuple[int, int, int, int]
    """The size of an instance: MiB of memory, MiB of disk, virtual cpus, spindles."""

__all__ = [
    "STEPS",
    "CapacityState",
    "Size",
    "added",
    "first_sizes",
    "known_templates",
]

STEPS = {"FailMem": ("memory", 64), "FailDisk": ("disk", 256), "FailCPU": ("cpus", 1),
         "FailSpindles": ("spindles", 1)}  # fmt: skip
"""Reason -> the amount to reduce, and its step: MiB, MiB, virtual cpus, spindles."""


class Size:
    """The size and the disk template of the instances of one filling.

    Attributes
    ----------
    memory, disk:
        MiB; an instance has one disk.  The disk of a diskless instance is 0, except for hspace.
    cpus:
        Virtual cpus.
    spindles:
        The spindles of its disk on exclusive storage.
    template:
        Its disk template.
    spindle_use:
        Its spindles on shared storage.
    load:
        Its load: cpu, memory, disk and network.
    """

    __slots__ = ("cpus", "disk", "load", "memory", "spindle_use", "spindles", "template")

    def __init__(
        self,
        memory: int,
        disk: int,
        cpus: int,
        spindles: int,
        template: str,
        spindle_use: int,
        load: Load = UNIT_LOAD,
    ) -> None:
        self.memory = memory
        self.disk = disk
        self.cpus = cpus
        self.spindles = spindles
        self.template = template
        self.spindle_use = spindle_use
        self.load = load

    @property
    def nodes(self) -> int:
        """Return the number of nodes of an instance of this size."""
        return self.instance("").required_nodes

    def amounts(self) -> Amounts:
        """Return memory (MiB), disk (MiB), virtual cpus, spindles."""
        return self.memory, self.disk, self.cpus, self.spindles

    def instance(self, name: str, spindles_anywhere: bool = False) -> Instance:
        """Return an instance of this size, which is not placed.

        `spindles_anywhere`: whether its spindles are counted on nodes without exclusive storage,
        too.
        """
        sizes = [self.disk] if TEMPLATES[self.template].has_disks else []
        return Instance(
            name,
            Backend(self.memory, self.cpus, spindle_use=self.spindle_use),
            Disks(self.template, self.disk, sizes, self.spindles, spindles_anywhere),
            load=self.load,
        )

    def smaller(self, reason: str, steps: int = 1) -> Size | None:
        """Return a size that is smaller by `steps` steps in the amount of `reason`.

        None if there is no such size, or if `reason` is not about an amount.
        """
        if reason not in STEPS:
            return None
        what, step = STEPS[reason]
        amount = getattr(self, what) - steps * step
        return self._with(what, amount) if amount >= step else None

    def least(self, reason: str) -> Size | None:
        """Return this size with the amount of `reason` reduced, in steps of `STEPS`, as far as
        possible.

        None if the size has this amount already, or if `reason` is not about an amount.
        """
        if reason not in STEPS:
            return None
        what, step = STEPS[reason]
        amount = step + getattr(self, what) % step
        return self._with(what, amount) if amount < getattr(self, what) else None

    def least_of_all(self) -> Size:
        """Return this size with every amount reduced, in steps of `STEPS`, as far as possible."""
        size = self
        for reason in STEPS:
            size = size.least(reason) or size
        return size

    def _with(self, what: str, amount: int) -> Size:
        amounts = dict(zip(("memory", "disk", "cpus", "spindles"), self.amounts()))
        amounts[what] = amount
        return Size(**amounts, template=self.template, spindle_use=self.spindle_use, load=self.load)


def first_sizes(
    policy: Policy,
    template: str,
    spindle_use: int | None,
    load: Load,
    standard: Sequence[int] | None,
    tiered: Sequence[int] | None,
) -> tuple[Size, list[Size]]:
    """Return the size of the standard filling, and the sizes with which the tiers begin.

    `standard`, `tiered`: the amounts that options name (MiB of disk, MiB of memory, virtual cpus,
    spindles). If they are None, the sizes are the standard size of `policy`, and the upper end of
    each of its intervals. `spindle_use`: None for that of the standard size.
    """
    use = policy.standard.spindles if spindle_use is None else spindle_use

    def named(amounts: Sequence[int]) -> Size:
        disk, memory, cpus, spindles = amounts
        return Size(memory, disk, cpus, spindles, template, use, load)

    def of_policy(spec: Spec) -> Size:
        return Size(spec.memory, spec.disk, spec.cpus, spec.spindles, template, use, load)

    return (
        of_policy(policy.standard) if standard is None else named(standard),
        [of_policy(one.high) for one in policy.intervals] if tiered is None else [named(tiered)],
    )


def known_templates(policy: Policy) -> list[str]:
    """Return the disk templates of `policy` that are known, in the order of the policy.

    Raises
    ------
    UsageError
        If there are none.
    """
    known = [one for one in policy.templates if one in TEMPLATES]
    if not known:
        names = f" but {', '.join(map(cut, policy.templates))}" * bool(policy.templates)
        raise UsageError(f"the policy has no disk templates{names}: expected --disk-template")
    return known


class CapacityState:
    """A cluster that is being filled.

    Parameters
    ----------
    state:
        The placement, which `place` changes.
    groups:
        The groups that accept instances, each with the indices of the nodes to use.
    kernels:
        Makes kernels, which score placements.
    n1:
        The N+1 rules of each group.
    limits_of:
        Index of a group -> the limits that are checked on its nodes.
    behaviour:
        The differences from hspace. In hspace, the newest instances leave a failed node first,
        and the policy checks a disk of a diskless instance.
    exact_ties:
        Whether rounding decides between places with equal scores, as in hspace.
    """

    def __init__(
        self,
        state: State,
        groups: Sequence[tuple[Group, list[int]]],
        kernels: Kernels,
        n1: GroupTolerances,
        limits_of: Mapping[int, LimitSet],
        behaviour: Behaviour,
        exact_ties: bool = False,
    ) -> None:
        self.state = state
        self.kernels = kernels
        self._limits_of = limits_of
        self._behaviour = behaviour
        self._exact_ties = exact_ties
        self.groups = groups
        self._scope = range(len(state.cluster.nodes))
        self._kernel: Kept[None, Kernel] = {}
        self._probing: Kept[None, ArrayKernel] = {}
        self._arrays = False  # whether the array library is loaded
        self._tested: tuple[int, Instance, list[Candidates]] | None = None  # by the last search
        self.n1 = n1
        self._policy_reason = ""  # what a size lacks for the policy says how to make it smaller

    def online(self, pair: bool) -> bool:
        """Return whether any group has enough usable nodes for an instance.

        `pair`: whether the instance needs two nodes.
        """
        return any(len(nodes) > pair for _, nodes in self.groups)

    def score(self) -> float:
        """Return the score of all nodes."""
        return self.kernel.score()

    @property
    def kernel(self) -> Kernel:
        """Return the kernel that scores placements in the present state."""
        return derived(
            self._kernel,
            None,
            self.state.version,
            lambda: self.kernels.make(self.state, self._scope),
        )

    @property
    def _probing_kernel(self) -> Kernel:
        """Return the kernel for probes: in arrays if the array library is loaded."""
        return self._probing_arrays if self._arrays else self.kernel

    @property
    def _probing_arrays(self) -> ArrayKernel:
        return derived(
            self._probing,
            None,
            self.state.version,
            lambda: self.kernels.make_array(self.state, self._scope),
        )

    def find(self, instance: Instance, n1: bool = True) -> tuple[tuple[int, ...], Failures]:
        """Return the best nodes for `instance`, or (), and the number of rejections by reason.

        If N+1 rejects better nodes, "FailN1" counts them. `n1`: whether N+1 is checked.
        """
        if not n1:
            with self.unchecked():
                return self.find(instance)
        return self._find(instance, self.kernel, False, self._exact_ties)

    def probe(self, instance: Instance, every: bool = False) -> tuple[tuple[int, ...], Failures]:
        """Return possible nodes for `instance`, or (), and the number of rejections by reason.

        The nodes need not be the best ones, because the instance will not be placed. `every`:
        global N+1 is checked even where `GroupTolerances.checked` is false by default.
        """
        if not self._arrays or instance.required_nodes > 1:
            return self._find(instance, self._probing_kernel, every)
        barred = self._barred(instance)
        if barred:
            return (), barred
        # Any node will do, whatever its score
        rejected: list[Failures] = []
        for taking, counts in self._taking(instance):
            for nodes in taking:
                if self.n1.accepts(instance, nodes, every):
                    return nodes, {}
            rejected += counts, {"FailN1": len(taking)}
        return (), {reason: count for reason, count in added(rejected).items() if count}

    def failures_shown(self, instance: Instance) -> Failures:
        """Return the reasons that reject `instance`, with the policy as a separate reason."""
        self._policy_reason = self._behaviour.policy_reason
        try:
            return self._find(instance, self.kernel, False)[1]
        finally:
            self._policy_reason = ""

    def rejections_in(self, group: Group, instance: Instance) -> Failures:
        """Return how many placements in `group` each reason rejects; {} if `instance` fits."""
        alone = copy(self)
        alone.groups = [one for one in self.groups if one[0] is group]
        nodes, failures = alone.find(instance)
        return {} if nodes else failures

    def _find(
        self, instance: Instance, kernel: Kernel, every: bool, exact_ties: bool = False
    ) -> tuple[tuple[int, ...], Failures]:
        barred = self._barred(instance)
        if barred:
            return (), barred
        self._tested = None  # free the arrays of the last search before the next ones are made
        offers = list(self._offers(instance, kernel))
        self._tested = self.state.version, instance, offers
        failures = added(candidates.failures for candidates in offers)
        best: Placement | None = None
        rejected = 0
        if self.n1.rejects_pairs(instance, every):
            rejected = sum(candidates.feasible for candidates in offers)
            offers = []
        if exact_ties:
            offers = [decided(self.state, self._scope, instance, one) for one in offers]
        for candidates in offers:
            for placement in candidates.ranked():
                if best is not None and best <= placement:
                    break
                if self.n1.accepts(instance, placement[1], every):
                    best = placement
                    break
                rejected += 1
        if rejected:
            failures["FailN1"] = failures.get("FailN1", 0) + rejected
        return (best[1] if best else ()), failures

    def _barred(self, instance: Instance) -> Failures:
        """Return the rejections of `instance` if policies reject it on all nodes; else {}."""
        failures: Failures = {}
        for group, nodes in self.groups:
            rejections = self._rejected(group, instance)
            if any(node not in rejections for node in nodes):
                return {}
            placements = len(nodes) - 1 if instance.required_nodes == 2 else 1
            for node in nodes:
                reason = rejections[node]
                failures[reason] = failures.get(reason, 0) + placements
        return {reason: count for reason, count in failures.items() if count}

    def has_room(self, instance: Instance, every: bool) -> bool:
        """Return whether limits allow a placement of `instance` that N+1 does not certainly reject.

        Policies are ignored. If no placement passes, none passes for an instance with a larger
        amount.
        """
        kernel = self._probing_kernel
        if instance.required_nodes == 1:
            return any(
                not self.n1.rejects(instance, nodes[-1], every)
                for limits, members in self._by_limits()
                for _, nodes in kernel.singles(instance, members, {}, limits).everything()
            )
        return any(
            self._pairs(kernel, instance, group, nodes, {}).feasible > 0
            for group, nodes in self.groups
            if len(nodes) > 1
        )

    def limits_say(self, instance: Instance) -> tuple[Failures, list[tuple[int, ...]]]:
        """Return the rejections of `instance` by limits and policies, and its allowed placements.

        Of placements on two nodes, only the first one is returned. N+1 is not checked.
        """
        barred = self._barred(instance)
        if barred:
            return barred, []
        open_to: list[tuple[int, ...]] = []
        rejected: list[Failures] = []
        if self._arrays and instance.required_nodes == 1:
            offers = self._taking(instance)
        else:
            offers = map(_open_to, self._offers(instance, self._probing_kernel))
        for taking, counts in offers:
            open_to += taking
            rejected.append(counts)
        return {reason: count for reason, count in added(rejected).items() if count}, open_to

    def _taking(self, instance: Instance) -> Iterator[tuple[list[tuple[int, ...]], Failures]]:
        """Yield the nodes that limits and policies allow, and the rejections of the other nodes."""
        rejected = self._rejected_by_policies(instance)
        for limits, nodes in self._by_limits():
            taking, counts = self._probing_arrays.taking(instance, nodes, rejected, limits)
            yield [(node,) for node in taking], counts

    def _by_limits(self) -> list[tuple[LimitSet, list[int]]]:
        """Return the usable nodes of all groups, by the set of limits that is checked there."""
        by_limits: dict[LimitSet, list[int]] = {}
        for group, nodes in self.groups:
            by_limits.setdefault(self._limits_of[group.index], []).extend(nodes)
        return [(limits, sorted(nodes)) for limits, nodes in by_limits.items()]

    def _pairs(
        self,
        kernel: Kernel,
        instance: Instance,
        group: Group,
        nodes: list[int],
        rejections: dict[int, str],
    ) -> Candidates:
        limits = self._limits_of[group.index]
        return kernel.pairs(instance, nodes, nodes, rejections, limits, limits)

    def _offers(self, instance: Instance, kernel: Kernel) -> Iterable[Candidates]:
        """Yield the candidates of `instance` that policies allow, with limits checked."""
        if instance.required_nodes == 2:
            for group, nodes in self.groups:
                if len(nodes) > 1:
                    yield self._pairs(
                        kernel, instance, group, nodes, self._rejected(group, instance)
                    )
            return
        rejected = self._rejected_by_policies(instance)
        for limits, nodes in self._by_limits():
            yield kernel.singles(instance, nodes, rejected, limits)

    def _rejected_by_policies(self, instance: Instance) -> dict[int, str]:
        """Return index of each node on which the policy rejects `instance` -> the reason."""
        rejected: dict[int, str] = {}
        for group, _ in self.groups:
            rejected.update(self._rejected(group, instance))
        return rejected

    def _rejected(self, group: Group, instance: Instance) -> dict[int, str]:
        """Return the nodes of `group` on which the policy rejects `instance`, with the reason.

        For hspace, a diskless instance has a disk here.
        """
        if instance.kind.has_disks or self._behaviour.plans_for_diskless:
            return entry_rejections(self.state.cluster, group, instance, self._policy_reason)
        twin = instance.as_template(DRBD)
        twin.disk_sizes = [instance.disk]
        nodes = self.state.cluster.nodes
        rejections: dict[int, str] = {}
        for index in group.nodes:
            reasons = [
                interval.rejects(twin, nodes[index].exclusive_storage)
                for interval in group.policy.intervals
            ]
            if all(reasons):
                rejections[index] = reasons[0] or ""
            elif DISKLESS not in group.policy.templates:
                rejections[index] = "FailDisk"
        return rejections

    def open_to(
        self, instance: Instance
    ) -> Iterator[tuple[LimitSet, list[int], LimitResults | None]]:
        """Yield limits, nodes and rejections of each group with a policy that allows `instance`.

        The rejections are those that the last search has recorded; None if that search was about
        another state, or about an instance of another size.
        """
        recorded = self._recorded(instance)
        for group, nodes in self.open_nodes(instance):
            yield self._limits_of[group.index], nodes, recorded.get(group.index)

    def open_nodes(self, instance: Instance) -> Iterator[tuple[Group, list[int]]]:
        """Yield each group with a policy that allows `instance`, and its nodes that may take it."""
        for group, nodes in self.groups:
            rejected = self._rejected(group, instance)
            taking = [node for node in nodes if node not in rejected]
            if len(taking) >= instance.required_nodes:
                yield group, taking

    def _recorded(self, instance: Instance) -> dict[int, LimitResults | None]:
        """Return index of a group -> the results of the last search for instances of this size.

        The result is {} if the state has changed since that search.
        """
        if self._tested is None:
            return {}
        version, tested, offers = self._tested
        if version != self.state.version or tested.shape != instance.shape:
            return {}
        results = [candidates.limit_results() for candidates in offers]
        if instance.required_nodes == 2:  # in the order of `_offers`
            return dict(
                zip((group.index for group, nodes in self.groups if len(nodes) > 1), results)
            )
        by_limits = dict(zip((limits for limits, _ in self._by_limits()), results))
        return {group.index: by_limits[self._limits_of[group.index]] for group, _ in self.groups}

    def allows(self, instance: Instance, nodes: Nodes) -> bool:
        """Return whether limits and policies allow `instance` on `nodes`; N+1 is not checked."""
        group = self.state.cluster.nodes[nodes[0]].group
        rejected, limits = self._rejected(group, instance), self._limits_of[group.index]
        if len(nodes) == 1:
            return self.kernel.singles(instance, nodes, rejected, limits).feasible > 0
        first, second = nodes
        candidates = self.kernel.pairs(instance, [first], [second], rejected, limits, limits)
        return second not in rejected and candidates.feasible > 0

    @property
    def lenient(self) -> set[int]:
        """Return the nodes on which some limits are not enforced."""
        return {
            i for group, nodes in self.groups if self._limits_of[group.index].spares for i in nodes
        }

    def place(self, arrivals: Sequence[tuple[Instance, Nodes]]) -> None:
        """Place new instances on their nodes; they may differ only in name and order."""
        if all(len(nodes) == 1 for _, nodes in arrivals):
            self.state.place_alike(arrivals)
        else:
            for instance, nodes in arrivals:
                self.state.place(instance, nodes)
        self.n1.placed(arrivals)

    def checks_batches(self, size: Size) -> bool:
        """Return whether N+1 is checked after a batch of instances of `size`, as by hspace."""
        instance = size.instance("")
        return self._behaviour.checks_n1_after_batches and any(
            self.n1.checked(instance, group.index) for group, _ in self.groups
        )

    def unchecked(self) -> Unchecked:
        """Return a context manager in which N+1 is not checked; it returns a trial of the state."""
        return Unchecked(self.state, self.n1)

    def tolerates_all(self, size: Size) -> bool:
        """Return whether each failure is tolerated that must be, with instances of `size`."""
        paused, self.n1.paused = self.n1.paused, False
        try:
            return self.n1.tolerated(size.instance(""))
        finally:
            self.n1.paused = paused

    def next_place(
        self, instance: Instance, newcomers: Callable[[int], Instance]
    ) -> NextPlace | None:
        """Return an object that places many equal instances quickly; None if it cannot be used.

        `newcomers` returns the instance at a position of the sequence; 0 is the next instance.
        """
        if self._exact_ties or instance.draws:
            return None
        reach = self.state.cluster.reach(instance)
        pair = instance.required_nodes == 2
        self._arrays = True
        groups: dict[int, list[int]] = {}
        for group, nodes in self.groups:
            rejected = self._rejected(group, instance)
            taking = [
                node for node in nodes if node not in rejected and (reach is None or node in reach)
            ]
            if taking and (len(nodes) > 1 or not pair):
                groups[group.index] = taking
        if any(self._limits_of[group] is not ALL_LIMITS for group in groups):
            return None
        from iallocator.scoring.incremental import IncrementalSingles
        from iallocator.scoring.incremental_pairs import IncrementalPairs

        scores = (IncrementalPairs if pair else IncrementalSingles)(
            self.state, self.kernels.fixed, self.kernels.matrix(), instance,
            [*groups.values()], ALL_LIMITS,
        )  # fmt: skip
        return NextPlace(self.state, scores, self.n1, [*groups], newcomers)

    def newcomer(self, size: Size, number: int, name: str) -> Instance:
        """Return a new instance of `size`, with the name `name` and the order of `number`."""
        instance = size.instance(name, self._behaviour.counts_spindles_anywhere)
        instance.order = self._order(number)
        self.state.cluster.presume_pools(instance)
        return instance

    def another(self, instance: Instance, number: int, name: str) -> Instance:
        """Return a new instance like `instance`, with `name` and the order of `number`."""
        return instance.twin(name, self._order(number))

    def _order(self, number: int) -> int:
        held = len(self.state.cluster.instances)
        return -1 - number if self._behaviour.recalls_newest_first else held + number


def _open_to(candidates: Candidates) -> tuple[list[tuple[int, ...]], Failures]:
    """Return the feasible placements, and the number of other placements that each reason rejects.

    Of placements on two nodes, only the first one is returned.
    """
    if not candidates.feasible:
        return [], candidates.failures
    rows = map(candidates.open, range(candidates.rows()))
    placements = ((*prefix, last) for prefix, lasts in rows for last in lasts)
    first = next(placements)
    return ([first] if len(first) > 1 else [first, *placements]), candidates.failures


def added(counts: Iterable[Failures]) -> Failures:
    """Return the sum of several counts: reason -> the number of placements that it rejected."""
    total: Failures = {}
    for one in counts:
        for reason, count in one.items():
            total[reason] = total.get(reason, 0) + count
    return total
