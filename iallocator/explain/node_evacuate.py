"""Why instances leave nodes for others: the explanation of ``node-evacuate``."""

from __future__ import annotations

from iallocator.explain.change_group import tell_group
from iallocator.explain.context import WitnessedContext, limit_notes, order_note
from iallocator.explain.joint import NOTE, chosen_together, turns
from iallocator.explain.move_report import refused
from iallocator.explain.moving import tell_anywhere, tell_failover, tell_pair, tell_secondary
from iallocator.handlers.node_evacuate import evacuated_nodes
from iallocator.model.moves import apply_steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from iallocator.explain.explanation import Decision
    from iallocator.explain.facts import Json
    from iallocator.explain.move_report import Told
    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.options import Settings
    from iallocator.placement.moves import MoveOption
    from iallocator.requests import NodeEvacuate

__all__ = ["explain"]


def explain(
    cluster: Cluster, request: NodeEvacuate, settings: Settings, response: Json
) -> list[Decision]:
    """One decision for each instance, on the state that the former left.

    First those that move within their group, then the others, as in the answer.
    """
    context = WitnessedContext(cluster, settings, request.instances)
    left = evacuated_nodes(request)
    chosen = chosen_together(cluster, response)
    moved: list[Decision] = []
    failed: list[tuple[Instance, Decision]] = []
    for instance in turns(context, request.instances, chosen):
        only = chosen.get(instance.name, ())
        decision, move = _tell(context, instance, request.mode, left, only)
        decision.notes += [*limit_notes(context, instance), *order_note(names_of(moved))]
        if move is None:
            failed.append((instance, decision))
            continue
        decision.notes += [NOTE] if only else []
        apply_steps(context.state, instance, move.steps)
        moved.append(decision)
    for instance, decision in failed:
        move = _elsewhere(context, instance, decision)
        if move is not None:
            apply_steps(context.state, instance, move.steps)
    return [*moved, *(decision for _, decision in failed)]


def names_of(decisions: Sequence[Decision]) -> list[str]:
    """The instances that were decided."""
    return [decision.instance for decision in decisions]


def _tell(
    context: WitnessedContext,
    instance: Instance,
    mode: str,
    left: Collection[int],
    only: tuple[int, ...],
) -> Told:
    """Move one instance within its group, as `mode` says; just to `only`, if that is given."""
    evaluator = context.evaluator(context.cluster.group_of(instance))
    if not instance.mirrored:
        reason = f"Instances of type {instance.template} cannot be relocated"
        return refused(context, instance, reason), None
    if instance.template != "drbd":
        if mode == "secondary-only":
            reason = f"Instances of type {instance.template} have no secondary to relocate"
            return refused(context, instance, reason), None
        return tell_anywhere(context, instance, evaluator, left, only)
    if mode == "primary-only":
        return tell_failover(context, instance, evaluator)
    tell = tell_secondary if mode == "secondary-only" else tell_pair
    return tell(context, instance, evaluator, left, only)


def _elsewhere(
    context: WitnessedContext, instance: Instance, decision: Decision
) -> MoveOption | None:
    """Tell what the other groups offer to an instance that its own cannot take.

    Returns the move there, if it is to be used.  As in the answer, other groups are not
    looked at where the document has none, and not in hail's way.
    """
    settings = context.settings
    local = context.cluster.group_of(instance)
    others = [group for group in context.cluster.groups if group is not local and group.nodes]
    if not instance.mirrored or not others:
        return None
    if settings.like_hail:
        decision.notes.append("With --compat hail other groups are not asked.")
        return None
    left_out = {local.uuid: "its own group, which cannot take it"}
    offer, move = tell_group(context, instance, others, left_out)
    decision.elsewhere = offer
    if offer.answer is None:
        decision.notes.append("No other group can take it, either.")
        return None
    if context.settings_of(local).inter_group != "yes":
        decision.notes.append(
            f"Group {offer.answer.group} could take it on {offer.answer.where}; "
            "--inter-group=yes would move it there."
        )
        return None
    decision.notes.append("Its own group cannot take it; --inter-group=yes lets another do so.")
    decision.answer, decision.steps, decision.reason = offer.answer, offer.steps, ""
    return move
