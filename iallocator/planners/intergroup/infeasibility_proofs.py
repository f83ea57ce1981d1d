"""Prove that instances cannot all move to other groups, by bounds of amounts.

The limits and N+1 give the largest amounts that the nodes of a group can receive. Dual feasible
functions (`iallocator.packing.dual_feasible_functions`) give the least amounts that instances need.
"""

from __future__ import annotations

from math import ceil, floor, inf

from iallocator.constraints.checks import amount_in
from iallocator.constraints.table import move_rejections
from iallocator.deadline import check
from iallocator.limits.node import FORCED_RESOURCES, RESOURCES
from iallocator.model.columns import CPUS, DISK, FREE_SPINDLES, MEMORY, MEMORY_LATER, SPINDLES
from iallocator.model.node_view import CAPACITIES
from iallocator.model.state import derived
from iallocator.n1 import plan_rules
from iallocator.n1.tolerance import FailureTolerance
from iallocator.packing.dual_feasible_functions import Amount, AtLeast, measures_of
from iallocator.tolerances import AMOUNT_TOLERANCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from iallocator.constraints.checks import Resource
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import Kept
    from iallocator.packing.dual_feasible_functions import Measure
    from iallocator.planners.intergroup.context import IntergroupContext
    from iallocator.planners.intergroup.moving import Mover

__all__ = ["MEMORY_KIND", "PROOF_KINDS", "ArrivalBound", "Kind", "Proofs", "tolerated_in"]


DISK_RESERVE = CAPACITIES.index("disk_reserve")


class Kind:
    """A resource of a node that instances use, with its name in proofs.

    Attributes
    ----------
    name, unit:
        The words of a reason.
    resource:
        The resource of `iallocator.constraints.checks`.
    columns:
        The columns of the state; the amount of the resource is their sum, now or once forthcoming
        instances exist.
    of_primary:
        Whether instances use the resource on their primary only.
    """

    __slots__ = ("columns", "name", "of_primary", "resource", "unit")

    def __init__(
        self,
        name: str,
        resource: Resource,
        columns: tuple[int, ...] = (),
        of_primary: bool = False,
    ) -> None:
        self.name = name
        self.unit = " MiB" if resource.unit.startswith("MiB ") else ""
        self.resource = resource
        self.columns = columns or resource.columns
        self.of_primary = of_primary

    def pieces(self, instance: Instance) -> list[float]:
        """Return the amounts above 0 that `instance` uses on its primary and on its secondary."""
        roles = [instance.as_primary]
        if instance.required_nodes == 2:
            roles.append(instance.as_secondary)
        sign = 1 if self.resource.rising else -1
        amounts = [sign * amount_in(vector, self.columns) for vector in roles]
        return [amount for amount in amounts if amount > 0]


def _first(column: int) -> Resource:
    """Return the first resource that `column` counts; hard limits are before soft ones."""
    return next(one for one in RESOURCES if one.columns == (column,))


MEMORY_KIND = Kind("memory", _first(MEMORY), of_primary=True)
LATER_MEMORY_KIND = Kind("memory with all instances running", _first(MEMORY), (MEMORY_LATER,), True)
DISK_KIND = Kind("disk", _first(DISK))
CPU_KIND = Kind("cpu", _first(CPUS), of_primary=True)
SHARED_SPINDLE_KIND = Kind("spindles", _first(SPINDLES))
OWN_SPINDLE_KIND = Kind("spindles of their own", _first(FREE_SPINDLES))

_NAMED = (
    MEMORY_KIND,
    LATER_MEMORY_KIND,
    DISK_KIND,
    CPU_KIND,
    SHARED_SPINDLE_KIND,
    OWN_SPINDLE_KIND,
)

PROOF_KINDS = (
    *_NAMED,
    *(
        Kind(one.name, one)
        for one in RESOURCES
        if one not in [kind.resource for kind in _NAMED] and one.columns != DISK_KIND.columns
    ),
)
"""Every resource; those that decide most often come first."""


class ArrivalBound:
    """An upper bound of the amounts that nodes of `group` can receive while `leaving` leave.

    The bound is computed while the instances `leaving` are not placed.  `reserving`: the nodes that
    had the memory for the failover from each of their peers while the instances were placed.
    `tolerated`: the failures that were tolerated at that time; None if instances of `leaving` are
    on nodes of the group.

    Limits.  A node keeps some memory and disk free.  If soft limits are enforced, the ratios of
    cpus and spindles limit the amounts, too. Then a node of `reserving` keeps the memory for its
    failovers, because instances that arrive can only raise this reserve.

    N+1.  In each mode except ``off``, a failure that is tolerated now must be tolerated after the
    plan. ``no-new`` requires only this. With ``no-worse``, a failure after which no instance is
    lost now must not lose any.  ``strict`` requires that every failure is tolerated.  So when node
    n fails, its instances must fit on the other targets, in addition to the instances that have
    arrived there.  For each measure f, f(all instances that arrive in the group) + f(the instances
    on n now) is at most the sum of f(free) over the other targets.

    A secondary keeps free the memory that the failure of n needs there.  With ``no-worse``, this is
    so for failures that are not tolerated, too, if the secondary has that memory now: the instances
    that fail over to it are restarted now, so they must be restarted after the plan.

    N+1 is left out if instances of `leaving` are on nodes of the group, or if the mode counts
    moving instances where they were.
    """

    __slots__ = ("_beside_failures", "_caps", "_failures", "_free", "_measured", "group")

    def __init__(
        self,
        context: IntergroupContext,
        group: Group,
        reserving: Collection[int],
        tolerated: Collection[int] | None,
    ) -> None:
        self.group = group
        state, evaluator = context.state, context.evaluator(group)
        policy, rules = evaluator.limit_policies.new, evaluator.rules
        soft = not (policy.primary.spares or policy.secondary.spares)
        self._free = {index: _below(state.columns[MEMORY][index]) for index in group.nodes}
        # For each tolerated failure: node, targets, and MiB of each instance that must restart
        self._failures: list[tuple[int, Sequence[int], list[float]]] = []
        targets = rules.targets(context.cluster, group)
        members = frozenset(group.nodes)
        for node in tolerated or ():
            sizes = [
                float(one.memory)
                for one in state.primaries[node].values()
                if one.uses_memory and members.issuperset(state.where[one.name])
            ]
            self._failures.append((node, [index for index in targets if index != node], sizes))
        self._caps: list[dict[int, float]] = [
            {index: _cap(context, kind, index, soft) for index in group.nodes}
            for kind in PROOF_KINDS
        ]
        # Nodes for which secondaries must keep the memory of a failover
        failing: Collection[int] = tolerated or ()
        if tolerated is not None and rules.exact and not (rules.units or rules.movers_stay):
            nodes = context.cluster.nodes
            failing = frozenset(index for index in group.nodes if nodes[index].online)
        for index in group.nodes:
            kept = _kept(context, index, failing)
            if soft and index in reserving:
                kept = max(kept, state.reserved[index])
            self._caps[0][index] = _below(state.columns[MEMORY][index] - kept)
        self._measured: dict[object, dict[int, float]] = {}
        self._beside_failures: dict[object, float] = {}

    def most(self, kind: int, measure: Measure, nodes: Collection[int] | None = None) -> float:
        """Return the largest amount of `kind` that the group can receive, by `measure`.

        `kind` is a position in `PROOF_KINDS`. With `nodes`, only these nodes of the group receive
        instances.
        """
        key = kind, measure
        measured = self._measured.get(key)
        if measured is None:
            measured = {index: measure(cap) for index, cap in self._caps[kind].items()}
            self._measured[key] = measured
            most = inf
            if PROOF_KINDS[kind] is MEMORY_KIND:
                room = {index: measure(free) for index, free in self._free.items()}
                for _, targets, sizes in self._failures:
                    left = sum(room[index] for index in targets) - sum(map(measure, sizes))
                    most = min(most, left)
            self._beside_failures[key] = most
        if nodes is not None:
            measured = {index: amount for index, amount in measured.items() if index in nodes}
        return max(0, min(sum(measured.values()), self._beside_failures[key]))

    @property
    def tolerates(self) -> bool:
        """Return whether there are failures that must remain tolerated."""
        return bool(self._failures)

    def largest(self, kind: int) -> float:
        """Return the largest amount of `kind` that one node can receive.

        `kind` is a position in `PROOF_KINDS`.
        """
        return max(self._caps[kind].values(), default=0)


def _cap(context: IntergroupContext, kind: Kind, index: int, soft: bool) -> float:
    """Return the largest amount of `kind` that node `index` can receive, without N+1.

    `soft`: whether soft limits are enforced.
    """
    state, node = context.state, context.cluster.nodes[index]
    held = sum(state.columns[column][index] for column in kind.columns)
    spare = kind.resource.spare(held, node)
    if kind.resource in FORCED_RESOURCES and not kind.resource.rising:
        if kind is OWN_SPINDLE_KIND:
            return spare
        reserve = context.kernels.fixed[index][DISK_RESERVE] if kind is DISK_KIND and soft else 0
        return min(max(0, spare), floor(held - reserve))
    if not soft and kind.resource not in FORCED_RESOURCES:
        return inf
    return spare if spare == inf else floor(spare + AMOUNT_TOLERANCE)


def _kept(context: IntergroupContext, index: int, failing: Collection[int]) -> float:
    """Return the MiB that a node needs for the largest failover to it, of nodes in `failing`.

    Failovers for which the node lacks memory now are left out.
    """
    state = context.state
    demands: dict[int, float] = {}
    for one in state.secondaries[index].values():
        node = state.where[one.name][0]
        if node in failing and one.uses_memory and not one.forthcoming:
            demands[node] = demands.get(node, 0) + one.memory
    free = state.columns[MEMORY][index]
    able = (
        amount
        for node, amount in demands.items()
        if amount < free and not move_rejections(context.cluster, node, [index])
    )
    return max(able, default=0)


def tolerated_in(context: IntergroupContext, group: Group) -> frozenset[int]:
    """Return the online nodes of `group` with a tolerated failure that must remain tolerated."""
    rules = context.evaluator(group).rules
    if rules.mode == "off" or rules.movers_stay:
        return frozenset()
    rules = plan_rules("no-new", context.affinity.relations)
    tolerance = FailureTolerance(context.state, rules, group=group)
    tolerated = tolerance.tolerated(rules.of_online(context.cluster, group))
    return frozenset(node for failure in tolerated for node in failure)


def _below(amount: float) -> float:
    """Return the largest whole number below `amount`, at least 0: some amount must remain free."""
    return max(0, ceil(amount) - 1)


if TYPE_CHECKING:
    Targets = Callable[[Instance], Sequence[Group]]


MOST_PROOF_SETS = 30
"""The largest number of sets of nodes that are checked, each for instances confined to the set."""


class Proofs:
    """Proves that sets of instances cannot all leave, in the state of the context of `mover`.

    The bound of a group is kept until one of its nodes changes.
    """

    def __init__(self, mover: Mover) -> None:
        self._mover = mover
        self._context = mover.context
        self._bounds: Kept[int, ArrivalBound] = {}

    def against(self, instances: Sequence[Instance], targets: Targets) -> str:
        """Return why `instances`, all placed, cannot all move to their `targets`, or "".

        The reason is proved.  Cost: nodes × sizes of instances, once for each group.
        """
        state, nodes = self._context.state, self._context.cluster.nodes
        reachable = self._mover.ranking.reachable
        reaches = [reachable(one, targets(one)) for one in instances]
        every = frozenset[int]().union(*reaches)
        groups = {nodes[index].group.index: nodes[index].group for index in sorted(every)}.values()
        left = {nodes[k].group.index for one in instances for k in state.where[one.name]}
        bounds = [self._bound(group) for group in groups if group.index not in left]
        mixed = [(group, self._reserving(group)) for group in groups if group.index in left]
        if mixed:
            with state.trial():
                for one in instances:
                    state.remove(one, state.where[one.name])
                bounds += [ArrivalBound(self._context, *group, None) for group in mixed]
        for reach in sorted(set(reaches), key=len, reverse=True)[:MOST_PROOF_SETS]:
            check()
            bound = [one for one, own in zip(instances, reaches) if own <= reach]
            proof = self._short(bound, bounds, reach)
            if proof:
                only = len(bound) < len(instances)
                more = f" and {len(bound) - 1} more" if len(bound) > 1 else ""
                some = f"{bound[0].name}{more}, which may go to few groups only,"
                return f"{some} {proof}" if only else proof
        return ""

    def _bound(self, group: Group) -> ArrivalBound:
        """Return the bound of a group that no instance leaves."""
        context = self._context
        now = [context.state.stamps[index] for index in group.nodes]

        def compute() -> ArrivalBound:
            return ArrivalBound(
                context, group, self._reserving(group), tolerated_in(context, group)
            )

        return derived(self._bounds, group.index, now, compute)

    def _reserving(self, group: Group) -> frozenset[int]:
        """Return the nodes of `group` with enough free memory for the failure of any peer."""
        state = self._context.state
        return frozenset(index for index in group.nodes if not state.fails_n1(index))

    def _short(
        self, instances: Sequence[Instance], bounds: Sequence[ArrivalBound], reach: frozenset[int]
    ) -> str:
        """Return in words which resource nodes `reach` lack for `instances`; "" if unproved."""
        for number, kind in enumerate(PROOF_KINDS):
            # The amounts of instances, each of which must fit on one node. A colocation group is
            # one amount.
            units, where = self._context.units, self._context.state.where
            alone: list[float] = []
            together: dict[object, float] = {}
            for one in instances:
                unit = units.get(one.name)
                if unit is None or not kind.of_primary:
                    alone += kind.pieces(one)
                    continue
                key = tuple(unit), where[one.name][0]
                together[key] = together.get(key, 0) + sum(kind.pieces(one))
            pieces = alone + [amount for amount in together.values() if amount > 0]
            largest = max((bound.largest(number) for bound in bounds), default=0)
            if not pieces or largest == inf:
                continue
            for measure in measures_of(pieces, largest):
                wanted, have = sum(map(measure, pieces)), 0.0
                for bound in bounds:
                    have += bound.most(number, measure, reach)
                    if have >= wanted:
                        break
                else:
                    kept = kind.name == MEMORY_KIND.name and any(
                        bound.tolerates for bound in bounds
                    )
                    beside = " in addition to the reserve for the failure of a node" if kept else ""
                    return _in_words(kind, measure, wanted, have, instances) + beside + " (proved)"
        return ""


def _in_words(
    kind: Kind, measure: Measure, wanted: float, have: float, instances: Sequence[Instance]
) -> str:
    """Return the proof in words: the amounts wanted and available, by `measure`."""
    unit = kind.unit
    if isinstance(measure, AtLeast):
        size = f"{measure.least:.12g}{unit} {kind.name}"
        large = next(
            (i for i in instances if max(kind.pieces(i), default=0) >= measure.least), None
        )
        if not have and large is not None:
            return f"has {large.name}, and no node of the others may take {size}"
        return f"fills {wanted:.12g} places of {size}, the others have {have:.12g}"
    filled = "" if isinstance(measure, Amount) else " that its pieces could fill"
    return f"uses {wanted:.12g}{unit} {kind.name}, the others have {have:.12g} free{filled}"
