"""Convert moves and steps of a transition to opcodes, with exactly the fields of each opcode."""

from __future__ import annotations

from iallocator.model.moves import FAILOVER_TO, REPLACE_SECONDARY
from iallocator.transition import step as kinds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.model.moves import ElementaryMove
    from iallocator.transition.step import Step

__all__ = ["job", "opcode", "opcodes_of"]

SHUTDOWN_SECONDS = 120
"""Seconds in which an instance must shut down; the default of Ganeti."""

if TYPE_CHECKING:
    Opcode = dict[str, Any]


def job(
    cluster: Cluster,
    instance: Instance,
    steps: Sequence[ElementaryMove],
    migrates_stopped: bool = False,
) -> list[Opcode]:
    """Return the opcodes of one job that executes `steps` in order.

    Running instances are migrated, others fail over. With `migrates_stopped`, all instances except
    forthcoming ones are migrated.
    """
    live = instance.running or (migrates_stopped and not instance.forthcoming)
    return [opcode(cluster, instance, step, live) for step in steps]


def opcode(cluster: Cluster, instance: Instance, step: ElementaryMove, live: bool) -> Opcode:
    """Return the opcode of one step; `live`: a running instance is migrated."""
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
    if not instance.kind.migrates:
        return {
            "OP_ID": "OP_INSTANCE_MOVE",
            "instance_name": instance.name,
            "shutdown_timeout": SHUTDOWN_SECONDS,
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
        "shutdown_timeout": SHUTDOWN_SECONDS,
        "ignore_consistency": False,
        **target_node,
        "ignore_ipolicy": False,
        "cleanup": False,
    }


_POWER = {kinds.FENCE: "power-off", kinds.POWER_OFF: "power-off", kinds.POWER_ON: "power-on"}
_TAGS = {kinds.TAG: "OP_TAGS_SET", kinds.UNTAG: "OP_TAGS_DEL"}
_FLAGS = {
    kinds.DRAIN: {"drained": True, "auto_promote": True},
    kinds.UNDRAIN: {"drained": False},
    kinds.OFFLINE: {"offline": True},
    kinds.ONLINE: {"offline": False},
    kinds.PROMOTE: {"master_candidate": True},
    kinds.DEMOTE: {"master_candidate": False, "auto_promote": True},
}


def opcodes_of(cluster: Cluster, step: Step) -> list[Opcode]:
    """Return the opcodes that execute one step; empty if it must be done by hand.

    An administrator must reboot nodes. An administrator must also power a node that is known to
    have no out-of-band program, and fence a node that is not known to have one. The opcode for a
    new instance has the members that the placement decides, and those of the request.
    """
    instance = step.instance
    if instance is None:
        assert step.node is not None
        node = cluster.nodes[step.node]
        if step.kind == kinds.REBOOT:
            return []  # only the administrator knows when the node is up again
        if step.kind in _FLAGS:
            flags: Opcode = {**_FLAGS[step.kind]}
            if step.kind == kinds.OFFLINE and node.offline:
                flags["auto_promote"] = True  # a dead node was not drained: it may be a candidate
            if step.promotes:
                flags["master_candidate"] = True  # Ganeti does it only if candidates are missing
            return [{"OP_ID": "OP_NODE_SET_PARAMS", "node_name": node.name, **flags}]
        if step.kind in _TAGS:
            tags = list(step.tags)
            return [{"OP_ID": _TAGS[step.kind], "kind": "node", "name": node.name, "tags": tags}]
        if not node.oob_program and (step.kind == kinds.FENCE or node.oob_program is not None):
            return []
        return [
            {
                "OP_ID": "OP_OOB_COMMAND",
                "node_names": [node.name],
                "command": _POWER[step.kind],
                "ignore_status": step.kind == kinds.FENCE,
            }
        ]
    if step.kind == kinds.START:
        return [{"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": instance.name, "force": False}]
    if step.kind == kinds.STOP:
        return [{"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": instance.name, "force": False}]
    if step.kind == kinds.CREATE:
        assert step.after is not None
        return [_creation(cluster, instance, step.after.nodes)]
    assert step.move is not None
    made = opcode(cluster, instance, step.move, step.kind == kinds.MIGRATE)
    if made["OP_ID"] == "OP_INSTANCE_FAILOVER" and any(
        before.kind == kinds.FENCE for before in step.needs
    ):
        made["ignore_consistency"] = True  # the fenced node cannot be queried
    return [made]


def _creation(cluster: Cluster, instance: Instance, nodes: tuple[int, ...]) -> Opcode:
    names = cluster.node_names(nodes)
    nics = []
    for nic in instance.asked.get("nics") or ():  # a network has its own mode and link
        members: tuple[str, ...] = ("mac", "ip", "network", "name", "vlan")
        if nic.get("network") is None:
            members += ("mode", "link")
        nics.append({name: nic[name] for name in members if isinstance(nic.get(name), str)})
    made: Opcode = {
        "OP_ID": "OP_INSTANCE_CREATE",
        "instance_name": instance.name,
        "mode": "create",
        "disk_template": instance.template,
        "disks": [{"size": size} for size in instance.disk_sizes],
        "nics": nics,
        "beparams": {
            "minmem": instance.memory,
            "maxmem": instance.memory,
            "vcpus": instance.vcpus,
            "spindle_use": instance.spindle_use,
        },
        "tags": list(instance.tags),
        "pnode": names[0],
        **({"snode": names[1]} if len(names) > 1 else {}),
        "start": instance.uses_memory,
    }
    for name, member in (("os", "os_type"), ("hypervisor", "hypervisor")):
        value = instance.asked.get(name)
        if isinstance(value, str) and value:
            made[member] = value
    return made
