"""Which nodes have no room for the failovers to them, as htools count it, and who is there."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from iallocator.model.state import State

__all__ = ["bad_items"]


def bad_items(state: State, nodes: Iterable[int]) -> tuple[list[int], set[str]]:
    """Those of `nodes` that are online and lack the memory, and the names of who is on them."""
    found = [
        index for index in nodes if state.cluster.nodes[index].online and state.fails_n1(index)
    ]
    held = {name for index in found for name in state.primaries[index]}
    return found, held.union(*(state.secondaries[index] for index in found))
