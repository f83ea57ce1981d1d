"""How one member of a unit can get to a node: every way whose steps all keep the limits."""

from __future__ import annotations

from iallocator.model.moves import places_after
from iallocator.placement.verdict.move_limits import MoveLimits
from iallocator.planners.balance.move_kinds import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iallocator.model.instance import Instance
    from iallocator.model.moves import ElementaryMove
    from iallocator.model.node_view import Capacities
    from iallocator.model.state import State
    from iallocator.planners.balance.move_kinds import MoveKind, MoveRules


__all__ = ["kinds_to", "possible"]


def kinds_to(state: State, instance: Instance, target: int, rules: MoveRules) -> Iterator[MoveKind]:
    """The kinds of moves that `rules` allow and that make `target` the primary."""
    nodes, present = state.cluster.nodes, state.where[instance.name]
    ends = nodes[present[0]], nodes[present[-1]]
    for kind in KINDS:
        if kind.drbd != (len(present) > 1) or not rules.allows_of(kind, *ends):
            continue
        if kind.targeted == (target in present):
            continue
        if places_after(present, kind.steps(present, target))[0] == target:
            yield kind


def possible(
    state: State,
    fixed: Capacities,
    instance: Instance,
    steps: Sequence[ElementaryMove],
    rules: MoveRules,
) -> bool:
    """Carry out `steps` while the limits allow each; whether they allow all.

    Changes the state: call it in a trial.  A move off a node that is not online is not
    held back by soft limits.
    """
    present = state.where[instance.name]
    nodes = [state.cluster.nodes[index] for index in present]
    limits = MoveLimits(state, fixed, rules.motions.all_the_way(nodes))
    for step in steps:
        after = places_after(present, [step])
        state.remove(instance, present)
        if not limits.allow(instance, present, after):
            return False
        state.place(instance, after)
        present = after
    return True
