"""Why instances go to this group, and there to these nodes: the explanation of ``change-group``."""

from __future__ import annotations

from iallocator.explain.allocate import decide
from iallocator.explain.context import (
    WitnessedContext,
    limit_notes,
    option_notes,
    order_note,
)
from iallocator.explain.joint import NOTE, chosen_together, turns
from iallocator.explain.move_report import refused
from iallocator.explain.moving import tell_anywhere, tell_pair
from iallocator.handlers.change_group import mover_into
from iallocator.model.moves import apply_steps
from iallocator.placement.groups import AllocationRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.explain.explanation import Decision
    from iallocator.explain.facts import Json
    from iallocator.explain.move_report import Told
    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance
    from iallocator.options import Settings
    from iallocator.requests import ChangeGroup

__all__ = ["explain", "tell_group"]


def explain(
    cluster: Cluster, request: ChangeGroup, settings: Settings, response: Json
) -> list[Decision]:
    """One decision for each instance, on the state that the former left."""
    context = WitnessedContext(cluster, settings, request.instances)
    groups, left_out = _targets(cluster, request)
    chosen = chosen_together(cluster, response)
    decisions = []
    moved: list[str] = []
    for instance in turns(context, request.instances, chosen):
        only = chosen.get(instance.name, ())
        decision, move = tell_group(context, instance, groups, left_out, only)
        decision.notes += order_note(moved)
        decision.notes += [NOTE] if only else []
        decisions.append(decision)
        if move is not None:
            apply_steps(context.state, instance, move.steps)
            moved.append(instance.name)
    return decisions


def _targets(cluster: Cluster, request: ChangeGroup) -> tuple[list[Group], dict[str, str]]:
    """The groups to choose from, and by uuid why the others are left out."""
    present = {cluster.group_of(instance).uuid for instance in request.instances}
    asked = cluster.groups if request.targets is None else request.targets
    left_out = {group.uuid: "it is none of the target groups" for group in cluster.groups}
    left_out |= dict.fromkeys(present, "instances of the request are in it")
    groups = [group for group in asked if group.uuid not in present]
    left_out |= {group.uuid: "it has no nodes" for group in groups}
    return groups, left_out


def tell_group(
    context: WitnessedContext,
    instance: Instance,
    groups: Sequence[Group],
    left_out: Mapping[str, str],
    only: tuple[int, ...] = (),
) -> Told:
    """Choose one of `groups` as for a new instance, then move the instance there.

    `only`: just to these nodes of one of them.
    """
    if not instance.mirrored:
        reason = f"Instances of type {instance.template} cannot be relocated"
        return refused(context, instance, reason), None
    notes = [
        "Chosen as for a new instance: scores run over all nodes, "
        "and what it uses now is still in use.",
        *option_notes(context.settings),
    ]
    choice = decide(context, AllocationRequest(instance, groups, new=False), notes, left_out)
    if choice.answer is None:
        why = "no group can take it" if groups else "no group is left to move to"
        decision = refused(context, instance, why)
        decision.choice = choice
        return decision, None
    group = next(group for group in groups if group.uuid == choice.groups[0].uuid)
    if only:
        group = context.cluster.nodes[only[0]].group
    tell = tell_pair if instance.template == "drbd" else tell_anywhere
    decision, move = tell(context, instance, mover_into(context, group), only=only)
    decision.choice = choice
    decision.notes += limit_notes(context, instance)
    return decision, move
