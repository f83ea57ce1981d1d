"""Whether sums prove that instances cannot all come to other groups.

The limits and N+1 say how much the nodes of a group can receive at most; dual feasible functions
(`iallocator.packing.dual_feasible_functions`) say what items need at least.
"""

from __future__ import annotations

from math import ceil, floor, inf

from iallocator.deadline import check
from iallocator.limits.migration import may_not_receive
from iallocator.limits.node import FORCED_LIMITS, RESOURCES, resources_of
from iallocator.model.columns import CPUS, DISK, FREE_SPINDLES, MEMORY, MEMORY_LATER, SPINDLES
from iallocator.model.node_view import CAPACITIES
from iallocator.model.state import derived
from iallocator.n1.baseline import plan_rules
from iallocator.n1.tolerance import FailureTolerance
from iallocator.packing.dual_feasible_functions import Amount, AtLeast, measures_of
from iallocator.tolerances import AMOUNT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from iallocator.limits.node import Resource
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import Kept
    from iallocator.packing.dual_feasible_functions import Measure
    from iallocator.planners.intergroup.context import IntergroupContext
    from iallocator.planners.intergroup.moving import Mover

__all__ = ["KINDS", "RAM", "Arrivals", "Kind", "Proofs", "survived_in"]

_HARD = resources_of(FORCED_LIMITS)

DISK_RESERVE = CAPACITIES.index("disk_reserve")


class Kind:
    """A resource that instances take of a node, as proofs name it.

    Attributes
    ----------
    name, unit:
        For people.
    resource:
        The resource of `iallocator.limits.node`.
    column:
        Where the state counts it: now, or once forthcoming instances exist.
    of_primary:
        Whether only the primary gives it.
    """

    __slots__ = ("column", "name", "of_primary", "resource", "unit")

    def __init__(
        self, name: str, resource: Resource, column: int | None = None, of_primary: bool = False
    ) -> None:
        self.name = name
        self.unit = " MiB" if resource.unit.startswith("MiB ") else ""
        self.resource = resource
        self.column = resource.column if column is None else column
        self.of_primary = of_primary

    def pieces(self, instance: Instance) -> list[float]:
        """Return what it takes of its primary and its secondary, if it has one; without zeros."""
        roles = [instance.as_primary]
        if instance.required_nodes == 2:
            roles.append(instance.as_secondary)
        sign = 1 if self.resource.rising else -1
        amounts = [sign * vector[self.column] for vector in roles]
        return [amount for amount in amounts if amount > 0]


_BY_COLUMN = {resource.column: resource for resource in RESOURCES}
RAM = Kind("memory", _BY_COLUMN[MEMORY], of_primary=True)
LATER = Kind("memory with all instances running", _BY_COLUMN[MEMORY], MEMORY_LATER, True)
SPACE = Kind("disk", _BY_COLUMN[DISK])
CPU = Kind("cpu", _BY_COLUMN[CPUS], of_primary=True)
SHARED_SPINDLES = Kind("spindles", _BY_COLUMN[SPINDLES])
OWN_SPINDLES = Kind("spindles of their own", _BY_COLUMN[FREE_SPINDLES])

_NAMED = (RAM, LATER, SPACE, CPU, SHARED_SPINDLES, OWN_SPINDLES)

KINDS = (
    *_NAMED,
    *(
        Kind(one.name, one)
        for one in RESOURCES
        if one.column not in {kind.column for kind in _NAMED}
    ),
)
"""Every resource, the one that decides most often first."""


class Arrivals:
    """What `group` may receive at most while `leaving` go, wherever on its nodes that comes.

    Made with `leaving` off the state; `before` says which nodes failed no N+1 of their own, and
    `survived` which failures were survived, while they were still on; None where `leaving` are on
    nodes of the group.

    Limits.  A node keeps some memory and disk; where soft limits count it keeps to the cpu
    and spindle ratios, and one that has the memory for the failover of each of its peers
    keeps that: arrivals only add to what it reserves.

    N+1.  In each mode but ``off`` a failure that is survived now must be so in the end.
    In ``no-new`` that is what it asks; in ``no-worse`` a failure that loses nothing may not
    lose something; ``strict`` asks it of every failure.  So when node n fails, everything on it
    finds room on the others that may take over, beside what came to those:  for each measure f
    (see `measures`),  f(all that comes to the group) + f(what is on n now)  is at most the sum
    of f(free) over the others; and a mirror keeps the memory free that n's failure asks of it.
    In ``no-worse`` it does so for failures that are lost, too, if it has that memory now: who fails
    over there is saved, and nobody who comes saves another.
    Where `leaving` are on nodes of the group the state of now says nothing of that, and it is
    left out; so it is where movers are judged where they were.
    """

    __slots__ = ("_caps", "_empty", "_failing", "_found", "_free", "group")

    def __init__(
        self,
        context: IntergroupContext,
        group: Group,
        solvent: Collection[int],
        survived: Collection[int] | None,
    ) -> None:
        self.group = group
        state, limit_policy = context.state, context.evaluator(group).limit_policies.new
        heeds = not (limit_policy.primary.spares or limit_policy.secondary.spares)
        self._free = {index: _below(state.columns[MEMORY][index]) for index in group.nodes}
        self._failing = self._judged(context, survived or ())
        self._caps: list[dict[int, float]] = [
            {index: self._cap(context, kind, index, heeds) for index in group.nodes}
            for kind in KINDS
        ]
        asking = _asking(context, group, survived)
        for index in group.nodes:
            kept = self._kept(context, index, asking)
            if heeds and index in solvent:
                kept = max(kept, state.reserved[index])
            self._caps[0][index] = _below(state.columns[MEMORY][index] - kept)
        self._found: dict[object, dict[int, float]] = {}
        self._empty: dict[object, float] = {}

    def _judged(
        self, context: IntergroupContext, survived: Collection[int]
    ) -> list[tuple[int, Sequence[int], list[float]]]:
        """(node, who may take over, MiB of each that has to leave) for the failures survived."""
        state, cluster = context.state, context.cluster
        targets = context.evaluator(self.group).rules.targets(cluster, self.group)
        members = frozenset(self.group.nodes)
        found: list[tuple[int, Sequence[int], list[float]]] = []
        for node in survived:
            sizes = [
                float(one.memory)
                for one in state.primaries[node].values()
                if one.uses_memory and members.issuperset(state.where[one.name])
            ]
            found.append((node, [index for index in targets if index != node], sizes))
        return found

    def _cap(self, context: IntergroupContext, kind: Kind, index: int, heeds: bool) -> float:
        """What may come to a node of one kind, N+1 aside."""
        state, node = context.state, context.cluster.nodes[index]
        held = state.columns[kind.column][index]
        spare = kind.resource.spare(held, node)
        if kind.resource in _HARD and not kind.resource.rising:
            if kind is OWN_SPINDLES:
                return spare
            reserve = context.kernels.fixed[index][DISK_RESERVE] if kind is SPACE and heeds else 0
            return min(max(0, spare), floor(held - reserve))
        if not heeds and kind.resource not in _HARD:
            return inf
        return spare if spare == inf else floor(spare + AMOUNT)

    def _kept(self, context: IntergroupContext, index: int, asking: Collection[int]) -> float:
        """MiB that a node keeps free for the failover of the worst of the failures `asking`.

        None for who asks more than there is, or has not the way.
        """
        state = context.state
        asked: dict[int, float] = {}
        for one in state.secondaries[index].values():
            node = state.where[one.name][0]
            if node in asking and one.uses_memory and not one.forthcoming:
                asked[node] = asked.get(node, 0) + one.memory
        free = state.columns[MEMORY][index]
        able = (
            amount
            for node, amount in asked.items()
            if amount < free and not may_not_receive(context.cluster, node, [index])
        )
        return max(able, default=0)

    def most(self, kind: int, measure: Measure, nodes: Collection[int] | None = None) -> float:
        """What all that comes to the group, or to `nodes` of it, can measure in `kind` at most."""
        key = kind, measure
        found = self._found.get(key)
        if found is None:
            found = {index: measure(cap) for index, cap in self._caps[kind].items()}
            self._found[key] = found
            self._empty[key] = self._beside_failures(measure) if KINDS[kind] is RAM else inf
        if nodes is not None:
            found = {index: amount for index, amount in found.items() if index in nodes}
        return max(0, min(sum(found.values()), self._empty[key]))

    def _beside_failures(self, measure: Measure) -> float:
        """What the failures that are survived leave room for."""
        room = {index: measure(free) for index, free in self._free.items()}
        return min(
            (
                sum(room[index] for index in targets) - sum(map(measure, sizes))
                for _, targets, sizes in self._failing
            ),
            default=inf,
        )

    @property
    def keeps(self) -> bool:
        """Whether a failure that is survived must stay so."""
        return bool(self._failing)

    def largest(self, kind: int) -> float:
        """The largest room of a node."""
        return max(self._caps[kind].values(), default=0)


def survived_in(context: IntergroupContext, group: Group) -> frozenset[int]:
    """The online nodes of `group` whose failure is survived now, where that has to stay so."""
    rules = context.evaluator(group).rules
    if rules.mode == "off" or rules.movers_stay:
        return frozenset()
    online = [index for index in group.nodes if context.cluster.nodes[index].online]
    rules = plan_rules("no-new", context.bonds.relations)
    return frozenset(FailureTolerance.of_group(context.state, group, rules).tolerated(online))


def _asking(
    context: IntergroupContext, group: Group, survived: Collection[int] | None
) -> Collection[int]:
    """The nodes of `group` of whose failure each mirror must stay able to take what it can now."""
    rules = context.evaluator(group).rules
    if survived is None:
        return ()
    if not rules.exact or rules.units or rules.movers_stay:
        return survived
    nodes = context.cluster.nodes
    return frozenset(index for index in group.nodes if nodes[index].online)


def _below(amount: float) -> float:
    """The largest whole number below `amount`; nothing may be used up."""
    return max(0, ceil(amount) - 1)


if TYPE_CHECKING:
    Targets = Callable[[Instance], Sequence[Group]]

    Reach = frozenset[int]

    """Indices of nodes."""


SETS = 30
"""So many sets of nodes are asked, each for those that may go nowhere else."""


class Proofs:
    """Proves that sets of instances cannot all leave, on the state of the context of `mover`.

    What is known of a group is kept until one of its nodes changes.
    """

    def __init__(self, mover: Mover) -> None:
        self._mover = mover
        self._context = mover.context
        self._rooms: Kept[int, Arrivals] = {}

    def against(self, instances: Sequence[Instance], targets: Targets) -> str:
        """Why `instances`, all on the state, cannot all go to groups of their `targets`; or "".

        What is said is proved.  Cost: nodes × sizes of instances, once for each group.
        """
        reachable = self._mover.ranking.reachable
        reaches = [reachable(one, targets(one)) for one in instances]
        rooms = self._rooms_of(instances, frozenset[int]().union(*reaches))
        for reach in sorted(set(reaches), key=len, reverse=True)[:SETS]:
            check()
            bound = [one for one, own in zip(instances, reaches) if own <= reach]
            found = self._short(bound, rooms, reach)
            if found:
                only = len(bound) < len(instances)
                return f"{_whom(bound)} {found}" if only else found
        return ""

    def _rooms_of(self, leaving: Sequence[Instance], reach: Reach) -> list[Arrivals]:
        """What may come to the groups that `reach` is in."""
        state, nodes = self._context.state, self._context.cluster.nodes
        groups = {nodes[index].group.index: nodes[index].group for index in sorted(reach)}
        shared = {nodes[k].group.index for one in leaving for k in state.where[one.name]}
        found = [self._room(g) for g in groups.values() if g.index not in shared]
        mixed = [g for g in groups.values() if g.index in shared]
        solvent = {g.index: self._solvent(g) for g in mixed}
        if mixed:
            with state.trial():
                for one in leaving:
                    state.remove(one, state.where[one.name])
                found += [Arrivals(self._context, g, solvent[g.index], None) for g in mixed]
        return found

    def _room(self, group: Group) -> Arrivals:
        """Return what may come to a group that no instance leaves."""
        context = self._context
        now = [context.state.stamps[index] for index in group.nodes]

        def compute() -> Arrivals:
            return Arrivals(context, group, self._solvent(group), survived_in(context, group))

        return derived(self._rooms, group.index, now, compute)

    def _solvent(self, group: Group) -> frozenset[int]:
        """The nodes of `group` that have the memory for the failover of each of their peers."""
        state = self._context.state
        return frozenset(index for index in group.nodes if not state.fails_n1(index))

    def _short(self, instances: Sequence[Instance], rooms: Sequence[Arrivals], reach: Reach) -> str:
        """What the nodes of `reach` cannot hold of `instances`, or ""."""
        for number, kind in enumerate(KINDS):
            pieces = self._pieces(kind, instances)
            largest = max((room.largest(number) for room in rooms), default=0)
            if not pieces or largest == float("inf"):
                continue
            for measure in measures_of(pieces, largest):
                wanted = sum(map(measure, pieces))
                have = _less_than(wanted, (room.most(number, measure, reach) for room in rooms))
                if have is not None:
                    kept = kind.name == RAM.name and any(room.keeps for room in rooms)
                    beside = " beside what the failure of a node asks of them" if kept else ""
                    return _in_words(kind, measure, wanted, have, instances) + beside + " (proved)"
        return ""

    def _pieces(self, kind: Kind, instances: Sequence[Instance]) -> list[float]:
        """What has to find room as one; those that must be and are together are one piece."""
        units, where = self._context.units, self._context.state.where
        found: list[float] = []
        together: dict[object, float] = {}
        for one in instances:
            unit = units.get(one.name)
            if unit is None or not kind.of_primary:
                found += kind.pieces(one)
                continue
            key = tuple(unit), where[one.name][0]
            together[key] = together.get(key, 0) + sum(kind.pieces(one))
        return found + [amount for amount in together.values() if amount > 0]


def _less_than(wanted: float, amounts: Iterable[float]) -> float | None:
    """The sum of `amounts`, none of which is negative; None if some of them are enough already."""
    found: list[float] = []
    so_far = 0.0
    for amount in amounts:
        found.append(amount)
        so_far += amount
        if so_far >= wanted:
            return None
    return sum(found)


def _in_words(
    kind: Kind, measure: Measure, wanted: float, have: float, instances: Sequence[Instance]
) -> str:
    """What is proved, in words."""
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


def _whom(instances: Sequence[Instance]) -> str:
    more = f" and {len(instances) - 1} more" if len(instances) > 1 else ""
    return f"{instances[0].name}{more}, which may go to few groups only,"
