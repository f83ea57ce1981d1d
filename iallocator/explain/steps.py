"""The steps of a move in words."""

from __future__ import annotations

from iallocator.explain.explanation import StepReport
from iallocator.ganeti.opcodes import job

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
    """The steps of a move, in words."""
    opcodes = job(context.cluster, instance, steps, context.settings.behaviour.migrates_stopped)
    names = context.cluster.node_names([target for _, target in steps])
    return [
        StepReport(kind, name, WORDS[opcode["OP_ID"]].format(name))
        for (kind, _), name, opcode in zip(steps, names, opcodes)
    ]
