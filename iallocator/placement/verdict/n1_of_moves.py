"""Whether a move keeps global N+1: what could be survived before it must be after it."""

from __future__ import annotations

from iallocator.limits.rejection import Rejection
from iallocator.n1.check import N1Cache, N1Check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.rules import Rules
    from iallocator.scoring import Kernels


__all__ = ["n1_rejection"]


def n1_rejection(
    state: State,
    kernels: Kernels,
    rules: Rules,
    scope: Sequence[int],
    instance: Instance,
    before: Nodes,
    after: Nodes,
) -> Rejection | None:
    """The failure that `instance` on `after`, and not on `before`, makes unsurvivable.

    Cost: a look at each node of the group; simulations only where that does not tell.
    """
    with state.trial():
        if before:
            state.remove(instance, before)
        leaving = (instance, before) if before else None
        check = N1Check(state, kernels, rules, scope, leaving, N1Cache())
        if check.accepts(instance, after):
            return None
        stranded = check.stranded(instance, after)
    if stranded is None:
        return Rejection("FailN1", "some node's failure could not be survived any more", after[0])
    nodes = state.cluster.nodes
    text = (
        f"if {nodes[stranded.node].name} failed, {stranded.instance.name} "
        f"({stranded.instance.memory} MiB memory) would have no place: {stranded.why}"
    )
    return Rejection("FailN1", text, after[0])
