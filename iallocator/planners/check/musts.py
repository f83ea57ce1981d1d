"""Which musts of tags an instance breaks where it runs: together, apart, not there, not yet."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from iallocator.constraints.relations import Relations
    from iallocator.model.instance import Instance
    from iallocator.model.state import State

__all__ = ["BrokenMusts"]


class BrokenMusts:
    """The musts that are broken on `state`, which must not change."""

    def __init__(self, state: State, relations: Relations) -> None:
        self._state = state
        self._relations = relations
        self._census = relations.census(state.where)
        self._chains = relations.unsupported()

    def of(self, instance: Instance) -> Iterator[str]:
        """What an instance must be and is not, for people: the others, where they are, the tags."""
        name, where, nodes = instance.name, self._state.where, self._state.cluster.nodes
        for bond in self._relations.broken_musts(name, where[name][0], self._census):
            home = where.get(bond.other)
            yield f"must be {bond.text}" + (f", which is on {nodes[home[0]].name}" if home else "")
        if instance.running and name in self._chains:
            yield f"runs, but {self._chains[name]}"
