"""In which order several instances choose, where the strategy says so."""

from __future__ import annotations

from iallocator.ranking import SEQUENCED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context

__all__ = ["in_turn"]


def in_turn(context: Context, instances: Sequence[Instance]) -> Iterator[int]:
    """Positions in `instances`, in the order in which they choose.

    The caller places or moves each before it asks for the next: those that have to follow
    it are told where it is.  Without a strategy that has an order, by priority and by
    what follows what, else as they stand.  Until its turn has come an instance binds
    nobody to where it is.
    """
    context.bonds.pending = {instance.name for instance in instances}
    try:
        for position in _positions(context, instances):
            yield position
            context.bonds.pending.discard(instances[position].name)
    finally:
        context.bonds.pending = set()


def _positions(context: Context, instances: Sequence[Instance]) -> Iterator[int]:
    strategy = _strategy(context, instances)
    if strategy == "score" or not _sequenced(strategy):
        position = {instance.name: k for k, instance in enumerate(instances)}
        yield from (position[i.name] for i in context.bonds.in_order(instances))
        return
    from iallocator.ranking.base import sequence_of

    state = context.state
    homes = {i.name: i.nodes[0] for i in instances if i.nodes and i.running}
    position = {instance.name: k for k, instance in enumerate(instances)}
    last: int | None = None
    try:
        for turn in sequence_of(strategy, context, instances, homes):
            name = turn.instance.name
            turn.node = last if turn.after is not None else None
            context.turn = turn
            before = state.where.get(name)
            yield position[name]
            after = state.where.get(name)
            last = after[0] if after and after != before else None
    finally:
        context.turn = None


def _sequenced(strategy: str) -> bool:
    """Whether a strategy has an order of instances; the table of them loads late."""
    return strategy in SEQUENCED


def _strategy(context: Context, instances: Sequence[Instance]) -> str:
    """The strategy of the first one's group; of the cluster for new ones."""
    if context.settings.by_group and instances and instances[0].nodes:
        return context.settings_of(context.cluster.group_of(instances[0])).strategy
    return context.settings.strategy
