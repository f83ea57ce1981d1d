"""Which of the places of an instance that moves lose least when a node fails: ``no-worse``.

Who changes the group may come to no place that takes from anybody there what saves him.  Who
leaves a node and stays in the group has to go somewhere: no place is rejected, but those come
first, in their order, after which no failure loses more than as the cluster was read.
"""

from __future__ import annotations

from itertools import islice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from iallocator.model.instance import Instance
    from iallocator.n1.tolerance import FailureTolerance
    from iallocator.placement.context import Context
    from iallocator.placement.evaluator import Evaluator
    from iallocator.placement.results import RankedMoves
    from iallocator.scoring.candidates import Placement

    Accepts = Callable[[Instance, tuple[int, ...]], bool]

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
        context.growth(evaluator.group)  # made of the state before it is changed
    with state.trial():
        state.remove(instance, present)
        check = _check(context, evaluator, instance, present)
        places = islice(candidates.ranked(), ASKED)
        best, others = _sorted_out(places, check.accepts, instance, top)
        if not rejects and len(best) < top:
            best += _compared(context, evaluator, instance, others)
        if context.trace is not None:
            context.trace.preferred(evaluator, instance, found, best[:top], check)
    return best[:top]


def _check(
    context: Context, evaluator: Evaluator, instance: Instance, present: tuple[int, ...]
) -> FailureTolerance:
    """What accepts the places that lose nothing more; `instance` is off the state."""
    if context.cluster.nodes[present[0]].group is not evaluator.group:
        return evaluator.scope.n1_check(evaluator.rules)
    growth = context.growth(evaluator.group)
    if context.trace is None:
        return growth.judge(context.state, instance, present)
    return growth.judge(context.state, instance, present, context.trace.n1_check)


def _sorted_out(
    places: Iterable[Placement], accepts: Accepts, instance: Instance, enough: int
) -> tuple[list[Placement], list[Placement]]:
    """The first of `places` that are accepted, and those before the last of them that are not."""
    best: list[Placement] = []
    others: list[Placement] = []
    for place in places:
        (best if accepts(instance, place[1]) else others).append(place)
        if len(best) >= enough:
            break
    return best, others


def _compared(
    context: Context, evaluator: Evaluator, instance: Instance, places: list[Placement]
) -> list[Placement]:
    """`places`, those first that lose least, as far as they are compared."""
    state, growth = context.state, context.growth(evaluator.group)
    compared: list[tuple[tuple[float, ...], Placement]] = []
    for place in places[:COMPARED]:
        if growth.spent(SHARE):
            break
        with state.trial():
            state.place(instance, place[1])
            compared.append((growth.of(state), place))
    left = places[len(compared) :]
    return [place for _, place in sorted(compared, key=lambda one: one[0])] + left
