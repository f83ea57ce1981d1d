"""The steps of a move in words."""

from __future__ import annotations

from iallocator.explain.explanation import StepReport
from iallocator.ganeti.opcodes import job
from iallocator.model.moves import places_after

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.instance import Instance
    from iallocator.model.moves import ElementaryMove
    from iallocator.placement.context import Context

__all__ = ["step_reports"]

WORDS = {
    "OP_INSTANCE_REPLACE_DISKS": "mirror to {} instead",
    "OP_INSTANCE_MIGRATE": "migrate to {}",
    "OP_INSTANCE_FAILOVER": "fail over to {}",
}
"""The opcode that a step becomes -> what a person calls it."""


def step_reports(
    context: Context, instance: Instance, steps: Sequence[ElementaryMove]
) -> list[StepReport]:
    """Return the steps of a move in words.

    An instance whose primary node is offline fails over, whatever the opcode is called.
    """
    places = [instance.nodes]
    for step in steps:
        places.append(places_after(places[-1], [step]))
    opcodes = job(context.cluster, instance, steps, context.settings.behaviour.migrates_stopped)
    names = context.cluster.node_names([target for _, target in steps])
    words = [
        "OP_INSTANCE_FAILOVER"
        if opcode["OP_ID"] == "OP_INSTANCE_MIGRATE" and context.cluster.nodes[place[0]].offline
        else opcode["OP_ID"]
        for place, opcode in zip(places, opcodes)
    ]
    return [
        StepReport(kind, name, WORDS[word].format(name))
        for (kind, _), name, word in zip(steps, names, words)
    ]
