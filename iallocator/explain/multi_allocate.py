"""Why several new instances go where they go: the explanation of ``multi-allocate``."""

from __future__ import annotations

from iallocator.explain.allocate import decide, nowhere, request_notes
from iallocator.explain.context import WitnessedContext, order_note
from iallocator.explain.explanation import Decision
from iallocator.explain.joint import NOTE, chosen_together, turns
from iallocator.handlers.allocate import wish_for
from iallocator.render.words import subject

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.explain.facts import Json
    from iallocator.model.cluster import Cluster
    from iallocator.options import Settings
    from iallocator.requests import Allocate, MultiAllocate

__all__ = ["explain"]


def explain(
    cluster: Cluster, request: MultiAllocate, settings: Settings, response: Json
) -> list[Decision]:
    """One decision for each instance, on the state that the former left.

    hail ends with the first that fails.
    """
    context = WitnessedContext(cluster, settings, [one.instance for one in request.wanted])
    decisions: list[Decision] = []
    placed: list[str] = []
    chosen = chosen_together(cluster, response)
    by_name = {wanted.instance.name: wanted for wanted in request.wanted}
    for instance in turns(context, [wanted.instance for wanted in request.wanted], chosen):
        wanted = by_name[instance.name]
        if settings.like_hail and decisions and decisions[-1].answer is None:
            decisions.append(_not_asked(wanted))
            continue
        notes = request_notes(settings, wanted) + order_note(placed, "placed")
        only = chosen.get(instance.name, ())
        decision = _decide(context, wanted, notes + [NOTE] * bool(only), only)
        decisions.append(decision)
        if decision.answer is not None:
            indices = {node.name: node.index for node in cluster.nodes}
            nodes = tuple(indices[name] for name in decision.answer.nodes)
            context.state.place(wanted.instance, nodes)
            placed.append(wanted.instance.name)
    return decisions


def _decide(
    context: WitnessedContext, wanted: Allocate, notes: list[str], only: tuple[int, ...]
) -> Decision:
    wish = wish_for(context, wanted)
    if wish is None:
        return nowhere(context.cluster, wanted, notes)
    return decide(context, wish, notes, only=only)


def _not_asked(wanted: Allocate) -> Decision:
    """What is told of an instance after one that failed, in hail's way."""
    instance = wanted.instance
    reason = "not looked at: with --compat hail one that fails, fails the whole request"
    return Decision(instance.name, subject(instance), None, [], reason=reason)
