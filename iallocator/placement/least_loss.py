"""Which of the places of an instance that moves lose least when a node fails: ``no-worse``.

Who changes the group may come to no place that takes from anybody there what saves him.  Who
leaves a node and stays in the group has to go somewhere: no place is rejected, but those come
first, in their order, after which no failure loses more than as the cluster was read.
"""

from __future__ import annotations

from itertools import islice

from iallocator.model.moves import Move

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.aliases import Nodes
    from iallocator.model.instance import Instance
    from iallocator.n1.tolerance import FailureTolerance
    from iallocator.placement.context import Context
    from iallocator.placement.evaluator import Evaluator
    from iallocator.placement.results import RankedMoves
    from iallocator.scoring.candidates import Placement


__all__ = ["least_loss"]

ASKED = 1_000
"""Places that are asked whether they lose nothing more; no others are offered."""

COMPARED = 100
"""Of those that do lose more, so many are compared with each other."""

SHARE = 0.5
"""Of the work; the rest is left for those that move together."""


def least_loss(
    context: Context, evaluator: Evaluator, instance: Instance, found: RankedMoves
) -> list[Placement]:
    """The best places in `found` for `instance`, which is on the state, as many as are told.

    None where N+1 rejects them all.
    """
    state, top = context.state, evaluator.settings.top
    candidates, present = found.candidates, state.where[instance.name]
    source = context.cluster.nodes[present[0]]
    stays = source.group is evaluator.group
    rejects = not stays and evaluator.limit_policies.off(source).asks_n1
    if (candidates.feasible == 1 and not rejects) or context.effort.spent:
        return list(islice(candidates.ranked(), top))
    if stays:
        context.baseline(evaluator.group)  # made of the state before it is changed
    with state.trial():
        state.remove(instance, present)
        check = _check(context, evaluator, present)
        before = present if stays else ()
        best: list[Placement] = []
        others: list[Placement] = []
        for place in islice(candidates.ranked(), ASKED):
            allowed = check.allows(Move(instance, before, place[1]))
            (best if allowed else others).append(place)
            if len(best) >= top:
                break
        if not rejects and len(best) < top:
            best += _compared(context, evaluator, instance, others)
        if context.trace is not None:
            context.trace.preferred(evaluator, instance, found, best[:top], check)
    return best[:top]


def _check(context: Context, evaluator: Evaluator, present: Nodes) -> FailureTolerance:
    """Return what allows the placements that lose nothing more, for an instance on `present`."""
    if context.cluster.nodes[present[0]].group is not evaluator.group:
        return evaluator.scope.tolerance(evaluator.rules)
    baseline = context.baseline(evaluator.group)
    if context.trace is None:
        return baseline.moving(context.state)
    return baseline.moving(context.state, context.trace.n1_check)


def _compared(
    context: Context, evaluator: Evaluator, instance: Instance, places: list[Placement]
) -> list[Placement]:
    """`places`, those first that lose least, as far as they are compared."""
    state, baseline = context.state, context.baseline(evaluator.group)
    compared: list[tuple[tuple[float, ...], Placement]] = []
    for place in places[:COMPARED]:
        if baseline.spent(SHARE):
            break
        with state.trial():
            state.place(instance, place[1])
            compared.append((baseline.growth(state), place))
    left = places[len(compared) :]
    return [place for _, place in sorted(compared, key=lambda one: one[0])] + left
