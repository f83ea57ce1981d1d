"""Divide nodes for hroller into parts that can be drained; each node is in the first possible part.

A part keeps the moves off its nodes while further nodes are tried. An instance that leaves a node
goes to the first node that accepts it. Instances leave a node in the reverse order of their
arrival, before its own instances.
"""

from __future__ import annotations

from iallocator.compat.htools.errors import NO_CAPACITY, ProgramError
from iallocator.constraints.checks import amount_in
from iallocator.limits.node import FORCED_LIMITS, FORCED_RESOURCES, PRIMARY, checks_for
from iallocator.model.moves import Move
from iallocator.model.node_view import Capacities
from iallocator.placement.limit_policy import ALL_FORCED
from iallocator.placement.move_limits import MoveLimits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from iallocator.constraints.checks import Check
    from iallocator.model.instance import Instance
    from iallocator.model.state import State

    Part = tuple[list[int], list[Move]]
    """Nodes that are drained together, and the moves off them."""

    Drain = Callable[[Sequence[Instance], int, Collection[int]], list[int]]
    """``(leaving, node, part)`` -> the new node of each instance of `leaving`, which leave `node`.

    The nodes of `part` have been drained before. The list ends before an instance that no node
    accepts. Only if there is no such instance, the instances have moved.
    """

__all__ = ["without_secondaries", "without_singles"]

NODES_AT_ONCE = 16
"""The number of possible targets of an instance that are checked at once."""


def without_singles(state: State, nodes: Sequence[int]) -> list[Part]:
    """Divide `nodes` by their instances without a secondary. Exclusion tags are ignored.

    Raises
    ------
    ProgramError
        If a node cannot be drained alone.
    """
    cluster = state.cluster
    own: list[list[Instance]] = [[] for _ in cluster.nodes]
    for one in reversed(cluster.instances):
        if not (one.needs_secondary or one.forthcoming):
            own[one.nodes[0]].append(one)
    # Name of an instance -> one with equal amounts in its group
    alike: dict[str, Instance] = {}
    shapes: dict[object, Instance] = {}
    for node, some in zip(cluster.nodes, own):
        for one in some:
            alike[one.name] = shapes.setdefault((node.group.index, one.shape, one.desired), one)
    by_amounts = not any(
        one.pools is not None
        or one.desired
        or one.requires
        or any(check.lacks.resource is None for check in _checks_of(one) if check.applies(group))
        for one, group in ((one, cluster.nodes[one.nodes[0]].group) for one in shapes.values())
    )
    online = _online(state)
    moving = None if by_amounts else _Moves(state, online)

    def start() -> Drain:
        return _Sums(state, online, alike).drain if moving is None else moving.drain

    parts = _first_fit(state, nodes, own, start, "non-redundant instances")
    return [
        (part, [Move(one, one.nodes, (to[one.name],)) for index in part for one in own[index]])
        for part, to in parts
    ]


def without_secondaries(state: State, parts: Sequence[Part]) -> list[Part]:
    """Divide each of `parts` by its secondaries, after its moves and the failovers off its nodes.

    Instances fail over to secondaries in the same part, too. Each smaller part has the moves of its
    part, and those of its secondaries.

    Raises
    ------
    ProgramError
        If a node of any part lacks the capacity for a failover, or a node cannot be drained alone.
    """
    moving = _Moves(state, _online(state))
    for part in parts:
        with state.trial():
            moving.fail_over(*part)
    smaller: list[Part] = []
    for nodes, moves in parts:
        with state.trial():
            pairs = moving.fail_over(nodes, moves)
            where = {one.name: state.where[one.name] for one in pairs}
            # Those that have failed over leave first, then the others, the last ones first
            failed_over = [one for one in pairs if where[one.name] != one.nodes]
            stayed = [one for one in reversed(pairs) if where[one.name] == one.nodes]
            own: list[list[Instance]] = [[] for _ in state.cluster.nodes]
            for one in (*failed_over, *stayed):
                own[where[one.name][1]].append(one)
            divided = _first_fit(state, nodes, own, lambda: moving.drain, "secondaries")
        for some, to in divided:
            leaving = [one for index in some for one in own[index]]
            more = [
                Move(one, where[one.name], (where[one.name][0], to[one.name])) for one in leaving
            ]
            smaller.append((some, [*moves, *more]))
    return smaller


def _first_fit(
    state: State,
    nodes: Sequence[int],
    own: Sequence[Sequence[Instance]],
    start: Callable[[], Drain],
    kind: str,
) -> list[tuple[list[int], dict[str, int]]]:
    """Return parts of `nodes`, each with the last target of the instances that leave it.

    `own`: the instances that leave each node, in their order. `start` returns the function that
    drains the nodes of the next part. `kind` names the instances.

    Raises
    ------
    ProgramError
        If a node cannot be drained alone.
    """
    parts: list[tuple[list[int], dict[str, int]]] = []
    rest = list(nodes)
    while rest:
        part: dict[int, None] = {}  # an ordered set
        where: dict[str, int] = {}
        with state.trial():
            drain = start()
            arrived: dict[int, list[Instance]] = {}
            for index in rest:
                leaving = [*reversed(arrived.get(index, ())), *own[index]]
                targets = drain(leaving, index, part)
                if len(targets) < len(leaving):
                    continue
                for one, target in zip(leaving, targets):
                    where[one.name] = target
                    arrived.setdefault(target, []).append(one)
                part[index] = None
        if not part:
            raise ProgramError(NO_CAPACITY.format(kind))
        parts.append((list(part), where))
        rest = [index for index in rest if index not in part]
    return parts


def _online(state: State) -> list[list[int]]:
    """Return the online nodes of each group, in the order of the document."""
    nodes = state.cluster.nodes
    return [
        [index for index in sorted(group.nodes) if nodes[index].online]
        for group in state.cluster.groups
    ]


class _Moves:
    """Moves instances in the state, by the limits of forced moves."""

    def __init__(self, state: State, online: Sequence[Sequence[int]]) -> None:
        self._state = state
        self._online = online
        self._limits = MoveLimits(state, Capacities(state.cluster.nodes), ALL_FORCED)

    def fail_over(self, nodes: Sequence[int], moves: Iterable[Move]) -> list[Instance]:
        """Make `moves`, fail over the instances with a primary among `nodes`; return all pairs.

        Raises
        ------
        ProgramError
            If a node lacks the capacity for a failover.
        """
        state = self._state
        for move in moves:
            move.apply(state)
        every = state.cluster.instances
        pairs = [one for one in every if len(one.nodes) > 1 and not one.forthcoming]
        for one in sorted(pairs, key=lambda one: (one.nodes[0], -one.order)):
            if one.nodes[0] in nodes:
                swapped = one.nodes[::-1]
                state.remove(one, one.nodes)
                # Both nodes must have disk, even an old primary that is offline
                if self._limits.rejection(one, swapped, swapped, True, True) is not None:
                    raise ProgramError("Error: Failed to migrate instances off nodes")
                state.place(one, swapped)
        return pairs

    def drain(self, leaving: Sequence[Instance], source: int, part: Collection[int]) -> list[int]:
        """Move the instances that leave the node `source`; see `Drain`."""
        state = self._state
        targets: list[int] = []
        first: dict[object, int] = {}  # shape -> the position of the first open node
        with state.trial():
            for one in leaving:
                before = state.where[one.name]
                group = state.cluster.nodes[before[0]].group.index
                others = [
                    k for k in self._online[group] if not (k in part or k == source or k in before)
                ]
                state.remove(one, before)
                # The nodes receive instances only, so they reject all instances of a shape from
                # then on
                plain = len(before) == 1 and one.pools is None
                plain = plain and not (one.desired or one.requires)
                position = first.get(one.shape, 0) if plain else 0
                rejected = True
                while rejected and position < len(others):
                    some = others[position : position + NODES_AT_ONCE]
                    if len(before) > 1:
                        rejections = self._limits.secondary_rejections(one, before, before[0], some)
                    else:
                        rejections = self._limits.primary_rejections(one, before, some)
                    accepting = (k for k, index in enumerate(some) if index not in rejections)
                    step = next(accepting, len(some))
                    rejected = step == len(some)
                    position += step
                if rejected:
                    return targets
                if plain:
                    first[one.shape] = position
                state.place(one, (*before[:-1], others[position]))
                targets.append(others[position])
        for one, target in zip(leaving, targets):
            before = state.where[one.name]
            state.remove(one, before)
            state.place(one, (*before[:-1], target))
        return targets


def _checks_of(instance: Instance) -> Sequence[Check]:
    """Return the checks of a node to which `instance` moves."""
    return checks_for(PRIMARY, instance, FORCED_LIMITS)


class _Kind:
    """Instances of one group with equal amounts.

    Attributes
    ----------
    taken:
        (position in `FORCED_RESOURCES`, what an instance takes of the resource), without zeros.
    limited:
        The same for the resources that limit such instances, with zeros.
    full, first:
        The nodes that reject such instances, and the position of the first other node. Nodes only
        receive instances, so they continue to reject them.
    """

    __slots__ = ("first", "full", "limited", "taken")

    def __init__(self, instance: Instance) -> None:
        taken = [(k, one.taken(instance.as_primary)) for k, one in enumerate(FORCED_RESOURCES)]
        self.taken = [(k, amount) for k, amount in taken if amount]
        limiting = {check.lacks.resource for check in _checks_of(instance)}
        self.limited = [(k, amount) for k, amount in taken if FORCED_RESOURCES[k] in limiting]
        self.full: set[int] = set()
        self.first = 0


class _Sums:
    """The amounts that instances add to nodes, if all limits of the instances are about sums.

    The state stays as it is.
    """

    def __init__(
        self, state: State, online: Sequence[Sequence[int]], alike: Mapping[str, Instance]
    ) -> None:
        self._state = state
        self._online = online
        self._alike = alike
        self._drained: set[int] = set()
        # Node -> what it can give of each resource, beside the instances that have moved there
        self._spare: dict[int, list[float]] = {}
        self._kind_of: dict[str, _Kind] = {}  # by the name of an instance

    def drain(self, leaving: Sequence[Instance], source: int, part: Collection[int]) -> list[int]:
        """Move the instances that leave the node `source`; see `Drain`."""
        group = self._state.cluster.nodes[source].group.index
        online, drained = self._online[group], self._drained
        targets: list[int] = []
        # As the attributes of these names, with the instances that leave now
        spare: dict[int, list[float]] = {}
        full: list[tuple[_Kind, int]] = []
        first: dict[_Kind, int] = {}
        for one in leaving:
            kind = self._kind_of.get(one.name) or self._kind(one)
            place = first.get(kind, -1)
            if place < 0:
                place = kind.first
                while place < len(online) and (
                    online[place] in drained or online[place] in kind.full
                ):
                    place += 1
                kind.first = place
            for place in range(place, len(online)):  # noqa: B020
                node = online[place]
                if node == source or node in drained or node in kind.full:
                    continue
                left = spare.get(node) or self._spare.get(node) or self._left(node)
                for k, amount in kind.limited:
                    if left[k] < amount:
                        break
                else:
                    break
                if node in spare:
                    full.append((kind, node))
                else:
                    kind.full.add(node)
            else:
                return targets
            first[kind] = place
            if node not in spare:
                left = spare[node] = left[:]
            for k, amount in kind.taken:
                left[k] -= amount
            targets.append(node)
        for kind, node in full:
            kind.full.add(node)
        self._spare.update(spare)
        drained.add(source)
        return targets

    def _left(self, node: int) -> list[float]:
        """Return how much of each of `FORCED_RESOURCES` the node can give."""
        row, found = self._state.row(node), self._state.cluster.nodes[node]
        left = self._spare[node] = [
            one.spare(amount_in(row, one.columns), found) for one in FORCED_RESOURCES
        ]
        return left

    def _kind(self, instance: Instance) -> _Kind:
        """Return the kind of `instance`."""
        like = self._alike[instance.name]
        kind = self._kind_of.get(like.name)
        if kind is None:
            kind = self._kind_of[like.name] = _Kind(like)
        self._kind_of[instance.name] = kind
        return kind
