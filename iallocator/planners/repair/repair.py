"""Repairs of instances whose nodes are offline, each at the place that the engine finds best.

========================================  =================================================
drbd, its secondary offline               ``fix-storage``: another secondary
drbd, its primary offline                 ``failover``, then another secondary
drbd with both, plain with its primary    ``reinstall``: disks made anew elsewhere
========================================  =================================================
"""

from __future__ import annotations

from dataclasses import dataclass, field

from iallocator.ganeti.opcodes import opcode
from iallocator.model.moves import apply_steps
from iallocator.placement.context import Context
from iallocator.placement.moves import fail_over, move_secondary
from iallocator.placement.new import place_new
from iallocator.tags.autorepair import FAILOVER, FIX_STORAGE, REINSTALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iallocator.deadline import Alarm
    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.model.moves import ElementaryMove
    from iallocator.options.settings import Settings
    from iallocator.placement.results import MoveResult

    Json = dict[str, Any]

__all__ = ["Repair", "Repairs"]


@dataclass
class Repair:
    """What an instance needs.

    Attributes
    ----------
    kind:
        Of the repair: how destructive it is.
    opcodes:
        In order, as one job; none if it cannot be done.
    nodes:
        Where it is then, primary first.
    reason:
        Why it is needed; or why it cannot be done.
    """

    instance: Instance
    kind: str
    opcodes: list[Json] = field(default_factory=list)
    nodes: tuple[int, ...] = ()
    reason: str = ""


class Repairs:
    """Finds places for one instance after the other; each takes its room from those after it."""

    def __init__(self, cluster: Cluster, settings: Settings, alarm: Alarm | None = None) -> None:
        self._context = Context(cluster, settings, [(len(cluster.nodes), 0)], alarm=alarm)
        self._nodes = cluster.nodes

    def needed(self, instance: Instance) -> Repair | None:
        """What the instance needs, not yet where it goes; None if its nodes are well."""
        off = [self._nodes[index].offline for index in instance.nodes]
        names = [self._nodes[i].name for i, dead in zip(instance.nodes, off) if dead]
        if instance.forthcoming or instance.template not in ("drbd", "plain") or not any(off):
            return None
        kind = FIX_STORAGE if not off[0] else FAILOVER
        if all(off):
            kind = REINSTALL
        return Repair(instance, kind, reason=f"{' and '.join(names)} offline")

    def placed(self, repair: Repair) -> None:
        """Find the place, and the opcodes that lead there."""
        if repair.kind == REINSTALL:
            self._reinstalled(repair)
            return
        done: list[ElementaryMove] = []
        ways = (
            [self._other_mirror]
            if repair.kind == FIX_STORAGE
            else [self._failed_over, self._other_mirror]
        )
        for way in ways:
            found = way(repair.instance)
            if found.best is None:
                if not done:
                    repair.reason += f"; {found.message or 'it cannot fail over'}"
                    return
                repair.reason += f"; no new secondary: {found.message}"
                break
            apply_steps(self._context.state, repair.instance, found.best.steps)
            done += found.best.steps
        cluster = self._context.cluster
        repair.nodes = self._context.state.where[repair.instance.name]
        repair.opcodes = [opcode(cluster, repair.instance, step, False) for step in done]

    def _failed_over(self, instance: Instance) -> MoveResult:
        group = self._nodes[instance.nodes[0]].group
        return fail_over(self._context, self._context.evaluator(group), instance)

    def _other_mirror(self, instance: Instance) -> MoveResult:
        context = self._context
        group = self._nodes[context.state.where[instance.name][0]].group
        evaluator = context.evaluator(group)
        return move_secondary(context, evaluator, instance, evaluator.online_nodes())

    def _reinstalled(self, repair: Repair) -> None:
        """Disks made anew where a new instance of the kind would be placed."""
        context, instance = self._context, repair.instance
        evaluator = context.evaluator(self._nodes[instance.nodes[0]].group)
        present = context.state.where[instance.name]
        context.state.remove(instance, present)
        found = place_new(context, evaluator, instance, evaluator.online_nodes())
        if not found.best:
            context.state.place(instance, present)
            counted = ", ".join(f"{why}: {n}" for why, n in sorted(found.failures.items()))
            repair.reason += f"; no place for new disks: {counted or 'no node is online'}"
            return
        _, repair.nodes = found.best[0]
        context.state.place(instance, repair.nodes)
        names = context.cluster.node_names(repair.nodes)
        repair.opcodes = _reinstallation(instance, names)


def _reinstallation(instance: Instance, nodes: list[str]) -> list[Json]:
    """Ganeti reinstalls only what is down; it is started again if it was to run."""
    named: Json = {"instance_name": instance.name}
    disks = {"OP_ID": "OP_INSTANCE_RECREATE_DISKS", **named, "disks": [], "nodes": nodes}
    install = {"OP_ID": "OP_INSTANCE_REINSTALL", **named, "force_variant": False}
    if not instance.uses_memory:
        return [disks, install]
    stop = {"OP_ID": "OP_INSTANCE_SHUTDOWN", **named, "force": False, "ignore_offline_nodes": True}
    return [stop, disks, install, {"OP_ID": "OP_INSTANCE_STARTUP", **named, "force": False}]
