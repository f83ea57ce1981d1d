"""What single steps of a move meet: migration tags, the mirror, what is left behind.

All functions look at `context.state` as it is; where the instance must be off its
nodes for that, they say so.
"""

from __future__ import annotations

from iallocator.explain.affinity import bond_refusals
from iallocator.explain.explanation import StepReport
from iallocator.explain.facts import Refusal
from iallocator.explain.limits import first_of
from iallocator.explain.what_if import WhatIf
from iallocator.ganeti.opcodes import job
from iallocator.limits.migration import may_not_receive
from iallocator.limits.node import ABANDONED, SECONDARY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iallocator.model.instance import Instance
    from iallocator.model.moves import ElementaryMove
    from iallocator.placement.context import Context
    from iallocator.placement.evaluator import Motions

__all__ = ["failover_refusal", "step_refusals", "step_reports", "tag_refusals"]

WORDS = {
    "OP_INSTANCE_REPLACE_DISKS": "mirror to {} instead",
    "OP_INSTANCE_MIGRATE": "migrate to {}",
    "OP_INSTANCE_FAILOVER": "fail over to {}",
}
"""The opcode that a step becomes -> what a person calls it."""


def step_reports(
    context: Context, instance: Instance, steps: Sequence[ElementaryMove]
) -> list[StepReport]:
    """The steps of a move, in words."""
    opcodes = job(context.cluster, instance, steps, context.settings.like_hail)
    names = context.cluster.node_names([target for _, target in steps])
    return [
        StepReport(kind, name, WORDS[opcode["OP_ID"]].format(name))
        for (kind, _), name, opcode in zip(steps, names, opcodes)
    ]


def tag_refusals(context: Context, source: int, targets: Iterable[int]) -> dict[int, Refusal]:
    """The nodes of `targets` that may not receive running instances from `source`."""
    nodes = context.cluster.nodes
    found = {}
    for index, reason in may_not_receive(context.cluster, source, targets).items():
        missing = sorted(nodes[source].migration - nodes[index].receives)
        text = f"may not receive from {nodes[source].name}, lacks {', '.join(missing)}"
        found[index] = Refusal(reason, text)
    return found


def failover_refusal(
    context: Context, motions: Motions, instance: Instance, old: int, new: int
) -> dict[int, Refusal]:
    """What speaks against the failover from `old` to `new`, under `new`; empty if nothing does."""
    found = tag_refusals(context, old, (new,))
    if found:
        return found
    with context.state.trial():
        context.state.remove(instance, (old, new))
        prospect = WhatIf(context, instance, motions.off(context.cluster.nodes[old]))
        refusal = (
            bond_refusals(context, instance, (new,)).get(new)
            or first_of(prospect.primary_failures(new))
            or _left_behind(context, motions, instance, old, new)
        )
    return {new: refusal} if refusal else {}


def step_refusals(
    context: Context,
    motions: Motions,
    instance: Instance,
    old: int,
    targets: Sequence[int],
    mirror: WhatIf,
) -> tuple[dict[int, Refusal], dict[int, Refusal]]:
    """What speaks against new primaries before their own limits as such do.

    Each must take the mirror of the instance on `old`, by the limits in `mirror`, then
    receive it from there.  The instance is off its nodes.  First those that nothing
    would help, then those that lack something.
    """
    barred = bond_refusals(context, instance, targets) | tag_refusals(context, old, targets)
    lacking = {}
    step = f"as mirror of {context.cluster.nodes[old].name}"
    for index in targets:
        if index in barred:
            continue
        refusal = first_of(mirror.secondary_failures(index, old))
        if refusal is not None:
            lacking[index] = Refusal(refusal.reason, refusal.text, step=step)
            continue
        behind = _left_behind(context, motions, instance, old, index)
        if behind is not None:
            barred[index] = behind
    return barred, lacking


def _left_behind(
    context: Context, motions: Motions, instance: Instance, old: int, new: int
) -> Refusal | None:
    """Why `old` could not keep the mirror when the instance fails over to `new`."""
    node = context.cluster.nodes[old]
    prospect = WhatIf(
        context,
        instance,
        motions.off(node),
        on_secondary=SECONDARY if node.online else ABANDONED,
    )
    refusal = first_of(prospect.secondary_failures(old, new))
    if refusal is None:
        return None
    text = f"{node.name} as the secondary then: {refusal.text}"
    return Refusal(refusal.reason, text, step=f"in the failover from {node.name}")
