"""Moves as Ganeti's opcodes: exactly the fields that each opcode has."""

from __future__ import annotations

from iallocator.model.moves import FAILOVER_TO, REPLACE_SECONDARY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.model.moves import ElementaryMove

    Opcode = dict[str, Any]

__all__ = ["job", "opcode"]


def job(
    cluster: Cluster,
    instance: Instance,
    steps: Sequence[ElementaryMove],
    migrates_stopped: bool = False,
) -> list[Opcode]:
    """The opcodes of one job that carries out `steps` in order.

    Running instances migrate, others fail over; with `migrates_stopped` all migrate but
    forthcoming ones.
    """
    live = instance.running or (migrates_stopped and not instance.forthcoming)
    return [opcode(cluster, instance, step, live) for step in steps]


def opcode(cluster: Cluster, instance: Instance, step: ElementaryMove, live: bool) -> Opcode:
    """The opcode of one step; `live`: a running instance is migrated."""
    kind, target = step
    name = cluster.nodes[target].name
    if kind == REPLACE_SECONDARY:
        return {
            "OP_ID": "OP_INSTANCE_REPLACE_DISKS",
            "instance_name": instance.name,
            "early_release": False,
            "ignore_ipolicy": False,
            "mode": "replace_new_secondary",
            "disks": [],
            "remote_node": name,
        }
    if not instance.mirrored:
        return {
            "OP_ID": "OP_INSTANCE_MOVE",
            "instance_name": instance.name,
            "shutdown_timeout": 120,
            "ignore_ipolicy": False,
            "target_node": name,
            "compress": "none",
            "ignore_consistency": False,
        }
    target_node = {"target_node": name} if kind == FAILOVER_TO else {}
    if live:
        return {
            "OP_ID": "OP_INSTANCE_MIGRATE",
            "instance_name": instance.name,
            **target_node,
            "allow_runtime_changes": False,
            "ignore_ipolicy": False,
            "cleanup": False,
            "allow_failover": True,
            "ignore_hvversions": True,
        }
    return {
        "OP_ID": "OP_INSTANCE_FAILOVER",
        "instance_name": instance.name,
        "shutdown_timeout": 120,
        "ignore_consistency": False,
        **target_node,
        "ignore_ipolicy": False,
        "cleanup": False,
    }
