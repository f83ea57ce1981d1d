"""Which musts of tags an instance breaks where it runs: together, apart, not there, not yet."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from iallocator.constraints.relations import Relations
    from iallocator.model.instance import Instance
    from iallocator.model.state import State

__all__ = ["broken_musts"]


def broken_musts(state: State, instance: Instance, relations: Relations) -> Iterator[str]:
    """What `instance` must be and is not, for people: the others, where they are, the tags."""
    where, nodes = state.where, state.cluster.nodes
    for bond in relations.broken(instance.name, where[instance.name][0], where):
        if bond.must:
            home = where.get(bond.other)
            yield f"must be {bond.text}" + (f", which is on {nodes[home[0]].name}" if home else "")
    chain = relations.unsupported(instance.name) if instance.running else ""
    if chain:
        yield f"runs, but {chain}"
