"""Answers that were found for all instances of a request at once, not one after the other."""

from __future__ import annotations

from iallocator.placement.sequence import in_turn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from iallocator.explain.facts import Json
    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context

__all__ = ["NOTE", "chosen_together", "turns"]

MARKS = ("; placed together by exact search", "; optimal: score")
"""What ``info`` says of such answers."""

NOTE = "Its place was chosen together with those of the others, not by its own rank."


def chosen_together(cluster: Cluster, response: Json) -> dict[str, tuple[int, ...]]:
    """Instance -> the nodes it was given, where all were placed at once; else nothing.

    In the order in which the response has them.
    """
    if not any(mark in response["info"] for mark in MARKS):
        return {}
    indices = {node.name: node.index for node in cluster.nodes}
    return {
        entry["instance"]: tuple(indices[name] for name in entry["nodes"])
        for entry in response["solutions"]
        if entry["nodes"]
    }


def turns(
    context: Context, instances: Sequence[Instance], chosen: Mapping[str, tuple[int, ...]]
) -> Iterator[Instance]:
    """`instances` in the order of the answer; those that all were `chosen` together as there."""
    if not chosen:
        yield from (instances[position] for position in in_turn(context, instances))
        return
    by_name = {instance.name: instance for instance in instances}
    context.bonds.pending = set(by_name)
    for name in chosen:
        yield by_name[name]
        context.bonds.pending.discard(name)
    context.bonds.pending = set()
    yield from (instance for instance in instances if instance.name not in chosen)
