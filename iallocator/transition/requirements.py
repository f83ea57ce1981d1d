"""The requirements of a transition besides placements: orders, separations, changes of nodes."""

from __future__ import annotations

from types import MappingProxyType

from iallocator.light import ValueObject
from iallocator.model.constraints import ORDER
from iallocator.transition.resources import HARD_DIMENSIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from iallocator.constraints.relations import Relations
    from iallocator.model.instance import Instance

    Where = Mapping[str, tuple[int, ...]]

__all__ = [
    "Demands",
    "NodeChanges",
    "StopRules",
    "anywhere",
    "demands_of",
    "itself",
    "no_pairs",
]


def anywhere(instance: Instance, node: int, where: Where) -> bool:
    """Return true: the instance may be on every node, because there are no constraints."""
    return True


def no_pairs(instances: Iterable[str]) -> Sequence[tuple[str, str, str]]:
    """Return no pairs of instances that must be separate: any two may share a node."""
    return ()


def itself(node: int, domain: str) -> Sequence[str]:
    """Return the node as its only failure domain: no failure domains are known."""
    return [str(node)]


NO_TAG_CHANGES: Mapping[int, Sequence[str]] = MappingProxyType({})


class NodeChanges(ValueObject):
    """The changes of nodes in a transition.

    Attributes
    ----------
    power_on:
        Indices of nodes to power on and to set online, before everything else.
    power_off:
        Indices of nodes to drain, empty, set offline and power off.
    drain:
        Indices of nodes that are only drained.
    dead:
        Indices of nodes to fence before an instance leaves them, and to set offline if they are in
        `unmarked`.
    unmarked:
        Indices of the nodes in `dead` that are not marked offline in Ganeti.
    add_tags, remove_tags:
        Node index -> tags. Tags are added after the node is offline and powered off, and removed
        after the node is online again. If the power of the node is not changed, the tags are
        changed at once.
    """

    power_on: Sequence[int] = ()
    power_off: Sequence[int] = ()
    drain: Sequence[int] = ()
    dead: Sequence[int] = ()
    unmarked: Sequence[int] = ()
    add_tags: Mapping[int, Sequence[str]] = NO_TAG_CHANGES
    remove_tags: Mapping[int, Sequence[str]] = NO_TAG_CHANGES

    def without(self, index: int) -> NodeChanges:
        """Return a copy in which the node with this index is not powered off."""
        return self.replace(
            power_off=[other for other in self.power_off if other != index],
            add_tags={other: tags for other, tags in self.add_tags.items() if other != index},
        )


class StopRules(ValueObject):
    """The instances that must not be stopped.

    Attributes
    ----------
    keep_running:
        Names of instances that are never stopped to free capacity.
    stuck:
        Names of instances that cannot be stopped, and must not be stopped by force.
    """

    keep_running: frozenset[str] = frozenset()
    stuck: frozenset[str] = frozenset()


NO_STOP_RULES, NO_NODE_CHANGES = StopRules(), NodeChanges()


class Demands:
    """The requirements of a transition.

    Attributes
    ----------
    orders:
        (before, after, strength): the instance `before` starts or arrives before the instance
        `after`, and stops after it. The strength is that of a constraint: hard or soft. If orders
        prevent a step, soft ones are dropped, the last one first.
    apart:
        Function from names of instances to the pairs with one of them that must never share a node
        or failure domain: (instance, instance, prefix of failure domains or "").
    sites:
        Function from the index of a node and a prefix to the failure domains that contain the node.
        A node in no failure domain is its own domain.
    stops:
        The instances that must not be stopped.
    nodes:
        The changes of nodes.
    limits:
        The dimensions of `iallocator.transition.resources` that must never be overcommitted:
        `HARD_DIMENSIONS`, and those of `SOFT_DIMENSIONS` that are enforced, too.
    allows_temporary_move:
        Function that returns whether an instance may be on a node temporarily, given the nodes of
        the other instances at that time (name -> nodes, primary first).
    """

    __slots__ = ("allows_temporary_move", "apart", "limits", "nodes", "orders", "sites", "stops")

    def __init__(
        self,
        *,
        orders: Sequence[tuple[str, str, str]] = (),
        apart: Callable[[Iterable[str]], Sequence[tuple[str, str, str]]] = no_pairs,
        sites: Callable[[int, str], Sequence[str]] = itself,
        stops: StopRules = NO_STOP_RULES,
        nodes: NodeChanges = NO_NODE_CHANGES,
        limits: Collection[str] = HARD_DIMENSIONS,
        allows_temporary_move: Callable[[Instance, int, Where], bool] = anywhere,
    ) -> None:
        self.orders = orders
        self.apart = apart
        self.sites = sites
        self.stops = stops
        self.nodes = nodes
        self.limits = limits
        self.allows_temporary_move = allows_temporary_move


def demands_of(relations: Relations | None) -> Demands:
    """Return the requirements of a transition that come from the constraints between instances."""
    if relations is None:
        return Demands()
    orders = [
        (constraint.other, constraint.instance, constraint.strength)
        for constraint in relations.constraints
        if constraint.kind == ORDER and constraint.other
    ]
    return Demands(
        apart=relations.apart,
        orders=sorted(dict.fromkeys(orders)),
        sites=relations.domains.sites,
        stops=StopRules(
            keep_running=frozenset(relations.keep_running), stuck=frozenset(relations.stuck)
        ),
        allows_temporary_move=relations.allows_temporary_move,
    )
