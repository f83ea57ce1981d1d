"""What a request needs at least of the nodes, one need for each instance that seeks a place."""

from __future__ import annotations

from iallocator.handlers.allocate import wish_for
from iallocator.requests import ChangeGroup, NodeEvacuate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context
    from iallocator.requests import Allocate, Request

__all__ = ["Need", "needs_of"]


class Need:
    """A primary, a mirror, or both for one instance; only limits that are sums.

    Attributes
    ----------
    primaries:
        The nodes that may be its primary; None if that stays where it is.
    mirrors:
        The nodes that may be its secondary; None if it needs none, or keeps its own.
    memory:
        MiB that it takes of its primary, which must have more.
    takeover:
        MiB that its secondary must have more than, for a failover.
    reserved:
        MiB that its secondary keeps for that.
    disk:
        MiB that it takes of each new node, which must have more; None: no matter.
    heeds:
        Whether the limits count that may be ignored: memory for failovers.
    """

    __slots__ = ("disk", "heeds", "memory", "mirrors", "primaries", "reserved", "takeover")

    def __init__(
        self,
        instance: Instance,
        primaries: Collection[int] | None,
        mirrors: Collection[int] | None = None,
    ) -> None:
        self.primaries = None if primaries is None else frozenset(primaries)
        self.mirrors = None if mirrors is None else frozenset(mirrors)
        self.memory: float = instance.memory if instance.uses_memory else 0
        self.takeover: float = instance.takeover_memory
        self.reserved: float = instance.memory if instance.reserves else 0
        self.disk: float | None = instance.own_disk if instance.counts_disk else None
        self.heeds = False


def needs_of(context: Context, request: Request) -> list[Need]:
    """What `request` needs; nothing where that is not known by sums."""
    if request.new:
        return [need for one in request.new for need in _of_new(context, one)]
    if isinstance(request, NodeEvacuate):
        left = request.evacuated_nodes()
        needs = [_of_evacuated(context, i, request.mode, left) for i in request.instances]
        heeds = all(context.cluster.nodes[i].online for one in request.instances for i in one.nodes)
        for need, instance in zip(needs, request.instances):
            group = context.cluster.group_of(instance)
            need.heeds = heeds and not context.settings_of(group).ignore_soft_errors
        return needs
    if isinstance(request, ChangeGroup):
        return [_of_leaving(context, instance, request) for instance in request.instances]
    return []


def _of_new(context: Context, wanted: Allocate) -> Iterable[Need]:
    """The need of a new instance; of one that is created anew nothing is known."""
    wish = wish_for(context, wanted)
    if wanted.recreated is not None or wanted.instance.forthcoming or wish is None:
        return
    names = wish.allowed
    nodes = [i for group in wish.groups for i in context.evaluator(group).online_nodes(names)]
    need = _beside(context, wanted.instance, nodes)
    need.heeds = not any(context.settings_of(group).ignore_soft_errors for group in wish.groups)
    yield need


def _of_evacuated(context: Context, instance: Instance, mode: str, left: Collection[int]) -> Need:
    """The need of one that leaves its primary, its secondary, or both, by `mode`."""
    home = context.cluster.group_of(instance)
    free = {node.index for node in context.cluster.nodes if node.online}.difference(left)
    if context.settings_of(home).inter_group == "yes":
        return _without_disk(instance, free.union(instance.nodes[1:]))
    free = free.intersection(home.nodes).difference(instance.nodes)
    if mode == "primary-only" and len(instance.nodes) > 1:
        return _without_disk(instance, instance.nodes[1:])
    need = _beside(context, instance, free)
    if mode == "secondary-only":
        need.primaries = None
    return need


def _without_disk(instance: Instance, nodes: Collection[int]) -> Need:
    """The need of one that goes where its disks are, or perhaps are."""
    need = Need(instance, nodes)
    need.disk = None
    return need


def _of_leaving(context: Context, instance: Instance, request: ChangeGroup) -> Need:
    """The need of one that leaves its group, and the groups of all others, too."""
    groups = context.cluster.groups if request.targets is None else request.targets
    present = [context.cluster.group_of(one) for one in request.instances]
    nodes = [i for g in groups if g not in present for i in context.evaluator(g).online_nodes()]
    return _beside(context, instance, nodes)


def _beside(context: Context, instance: Instance, nodes: Collection[int]) -> Need:
    """The need of one that comes to some of `nodes`, with its mirror if it has one."""
    storage, relations = context.cluster.storage, context.bonds.relations
    reached = None if storage is None else storage.nodes_for(instance)
    barred = () if relations is None else relations.forbidden(instance.name)
    open_to = [i for i in nodes if (reached is None or i in reached) and i not in barred]
    return Need(instance, open_to, open_to if instance.required_nodes > 1 else None)
