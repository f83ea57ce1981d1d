"""Choose repairs, and the best new nodes, for instances with offline nodes.

=======================================  =======================================================
drbd, secondary offline                  ``fix-storage``: another secondary
drbd, primary offline                    ``failover``, then another secondary
drbd, both nodes offline                 ``reinstall``: new disks on other nodes
plain, primary offline                   ``reinstall``: new disks on another node
shared storage or diskless, primary      ``failover``; tags cannot allow it, as with harep
offline
=======================================  =======================================================
"""

from __future__ import annotations

from dataclasses import dataclass, field

from iallocator.ganeti.opcodes import opcode
from iallocator.model.moves import Move
from iallocator.model.tags import REPAIR_FAILOVER, REPAIR_REINSTALL, REPAIR_STORAGE
from iallocator.model.templates import TEMPLATES
from iallocator.placement.context import Context
from iallocator.placement.moves import fail_over, move_anywhere, move_secondary
from iallocator.placement.new import place_new
from iallocator.transition import step
from iallocator.transition.step import RECREATE_DISKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Json
    from iallocator.constraints.relations import Relations
    from iallocator.deadline import Deadline
    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.model.moves import ElementaryMove
    from iallocator.model.state import State
    from iallocator.options.settings import Settings
    from iallocator.placement.results import MoveResult


STEP_OF_OPCODE = {
    "OP_INSTANCE_FAILOVER": step.FAILOVER,
    "OP_INSTANCE_MIGRATE": step.MIGRATE,
    "OP_INSTANCE_REPLACE_DISKS": step.REPLACE_DISKS,
}
"""Name of an opcode -> the kind of its step in a transition."""

__all__ = ["Repair", "Repairs"]


@dataclass
class Repair:
    """The repair that an instance requires.

    Attributes
    ----------
    kind:
        The type of the repair, as in tags of harep; "" if no repair is known.
    by_tags:
        Whether tags can allow the repair. They cannot for instances that harep ignores.
    dead:
        The names of the offline nodes of the instance, joined by "and".
    steps:
        The steps in order, as in a transition but without numbers; [] if the repair is impossible.
    nodes:
        The nodes of the instance after the repair, primary first.
    reason:
        Why the repair is required; or why it is impossible.
    moves:
        The moves of `steps`; [] for a reinstallation.
    """

    instance: Instance
    kind: str
    dead: str
    steps: list[Json] = field(default_factory=list)
    nodes: tuple[int, ...] = ()
    reason: str = ""
    by_tags: bool = True
    moves: list[Move] = field(default_factory=list)

    @property
    def opcodes(self) -> list[Json]:
        """Return the opcodes of all steps."""
        return [code for step in self.steps for code in step["opcodes"]]


class Repairs:
    """A planner of repairs, which chooses nodes for one instance after the other.

    The resources that a repaired instance uses are not free for later instances. A colocation group
    is repaired as a whole, or not at all. With `secondaries_later`, instances that fail over get
    new secondaries only by `give_secondary`.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        deadline: Deadline | None = None,
        secondaries_later: bool = False,
    ) -> None:
        self._secondaries_later = secondaries_later
        self._context = Context(cluster, settings, [(len(cluster.nodes), 0)], deadline=deadline)
        self._nodes = cluster.nodes

    @property
    def state(self) -> State:
        """Return the state after the repairs so far."""
        return self._context.state

    def needed(self, instance: Instance) -> Repair | None:
        """Return the repair that `instance` requires, without steps and nodes; None for none."""
        off = [self._nodes[index].offline for index in instance.nodes]
        names = [self._nodes[i].name for i, dead in zip(instance.nodes, off) if dead]
        if instance.forthcoming or not any(off):
            return None
        dead = " and ".join(names)
        by_tags = TEMPLATES[instance.template].local
        if not by_tags:
            kind = REPAIR_FAILOVER if instance.shared else ""
        elif all(off):
            kind = REPAIR_REINSTALL
        else:
            kind = REPAIR_FAILOVER if off[0] else REPAIR_STORAGE
        return Repair(instance, kind, dead, reason=f"{dead} offline", by_tags=by_tags)

    def by_importance(self, instances: Sequence[Instance]) -> list[Instance]:
        """Return `instances` in their order of repair.

        Higher priorities come first, then instances that use memory, then names. Each instance
        follows the instances that must start before it.
        """
        named = sorted(instances, key=lambda one: (not one.uses_memory, one.name))
        return self._context.affinity.in_order(named)

    @property
    def relations(self) -> Relations | None:
        """Return the constraints between instances; None if there are none."""
        return self._context.affinity.relations

    def in_units(self, repairs: Sequence[Repair]) -> list[list[Repair]]:
        """Return `repairs` as units, in their order.

        A unit has the repairs of a colocation group, or one repair. A ``fix-storage`` is always a
        unit alone.
        """
        moving = [one for one in repairs if one.kind != REPAIR_STORAGE]
        by_name = {one.instance.name: one for one in moving}
        units = self._context.affinity.units([one.instance for one in moving])
        whole = {unit[0].name: [by_name[one.name] for one in unit] for unit in units}
        alone = {one.instance.name: [one] for one in repairs if one.kind == REPAIR_STORAGE}
        in_order = whole | alone
        return [in_order[one.instance.name] for one in repairs if one.instance.name in in_order]

    def placed(self, repairs: Sequence[Repair]) -> None:
        """Set the steps and new nodes of all `repairs`, or of none, and apply them to the state.

        Affinity constraints ignore the present nodes of instances that are not repaired yet.
        """
        if len(repairs) > 1:
            with self._context.state.trial():
                self._in_turn(repairs)
            stuck = next((one for one in repairs if not one.steps), None)
            if stuck is not None:
                why = f"{stuck.instance.name}, which must be with it: {stuck.reason}"
                for one in (one for one in repairs if one is not stuck):
                    one.steps, one.nodes, one.reason = [], (), f"{one.dead} offline; {why}"
                    one.moves = []
                return
        self._in_turn(repairs)

    def _in_turn(self, repairs: Sequence[Repair]) -> None:
        """Set the steps and new nodes of one repair after the other, if they exist."""
        affinity = self._context.affinity
        affinity.pending = {one.instance.name for one in repairs} if len(repairs) > 1 else set()
        try:
            for one in repairs:
                one.steps, one.nodes, one.reason = [], (), f"{one.dead} offline"
                one.moves = []
                self._place(one)
                affinity.pending.discard(one.instance.name)
        finally:
            affinity.pending = set()

    def _place(self, repair: Repair) -> None:
        context, instance = self._context, repair.instance
        if repair.kind == REPAIR_REINSTALL:
            self._reinstalled(repair)
            return
        if repair.kind == REPAIR_STORAGE:
            ways = [self._other_secondary]
        elif instance.shared:
            ways = [self._elsewhere]
        else:
            ways = [self._failed_over, self._other_secondary][: 1 if self._secondaries_later else 2]
        for way in ways:
            outcome = way(instance)
            if outcome.best is not None:
                self._make(repair, outcome.best.steps)
                continue
            if repair.steps:
                repair.reason += f"; no new secondary: {outcome.message}"
                break
            # A hard constraint may reject the secondary of the instance
            affinity, secondary = context.affinity, context.state.where[instance.name][1:]
            rejected = affinity.rejected(instance, secondary)
            texts = affinity.rejection_texts(instance, rejected) if rejected else {}
            why = "".join(f": {text}" for text in texts.values())
            repair.reason += f"; {outcome.message or 'it cannot fail over'}{why}"
            return

    def give_secondary(self, repair: Repair) -> str:
        """Replace the offline secondary of the repaired instance; return why not, or ""."""
        outcome = self._other_secondary(repair.instance)
        if outcome.best is None:
            return outcome.message
        self._make(repair, outcome.best.steps)
        return ""

    def _make(self, repair: Repair, steps: Sequence[ElementaryMove]) -> None:
        """Apply `steps` to the state, and append them to `repair`."""
        context, instance = self._context, repair.instance
        for elementary in steps:
            code = opcode(context.cluster, instance, elementary, False)
            move = Move.by_steps(instance, context.state.where[instance.name], [elementary])
            move.apply(context.state)
            before, after = map(context.cluster.node_names, (move.before, move.after))
            repair.steps.append(_step(STEP_OF_OPCODE[code["OP_ID"]], instance, before, after, code))
            repair.moves.append(move)
        repair.nodes = context.state.where[instance.name]

    def _failed_over(self, instance: Instance) -> MoveResult:
        group = self._nodes[instance.nodes[0]].group
        return fail_over(self._context, self._context.evaluator(group), instance)

    def _elsewhere(self, instance: Instance) -> MoveResult:
        evaluator = self._context.evaluator(self._nodes[instance.nodes[0]].group)
        targets = evaluator.online_nodes()
        return move_anywhere(self._context, evaluator, instance, targets, names_others=False)

    def _other_secondary(self, instance: Instance) -> MoveResult:
        context = self._context
        group = self._nodes[context.state.where[instance.name][0]].group
        evaluator = context.evaluator(group)
        return move_secondary(context, evaluator, instance, evaluator.online_nodes())

    def _reinstalled(self, repair: Repair) -> None:
        """Set the steps that create new disks on the nodes that a new instance would get."""
        context, instance = self._context, repair.instance
        evaluator = context.evaluator(self._nodes[instance.nodes[0]].group)
        present = context.state.where[instance.name]
        with context.state.trial():
            context.state.remove(instance, present)
            placements = place_new(evaluator, instance, evaluator.online_nodes())
        if not placements.best:
            counted = ", ".join(f"{why}: {n}" for why, n in sorted(placements.failures.items()))
            repair.reason += f"; no place for new disks: {counted or 'no node is online'}"
            return
        _, repair.nodes = placements.best[0]
        Move(instance, present, repair.nodes).apply(context.state)
        before, after = map(context.cluster.node_names, (present, repair.nodes))
        # Ganeti reinstalls only stopped instances: stop the instance first if it should run
        code: Json = {"OP_ID": "OP_INSTANCE_RECREATE_DISKS", "disks": [], "nodes": after}
        repair.steps = [_step(RECREATE_DISKS, instance, before, after, code)]
        code = {"OP_ID": "OP_INSTANCE_REINSTALL", "force_variant": False}
        repair.steps.append(_step(step.REINSTALL, instance, after, after, code))
        if instance.uses_memory:
            code = {"OP_ID": "OP_INSTANCE_SHUTDOWN", "force": False, "ignore_offline_nodes": True}
            repair.steps.insert(0, _step(step.STOP, instance, before, before, code))
            code = {"OP_ID": "OP_INSTANCE_STARTUP", "force": False}
            repair.steps.append(_step(step.START, instance, after, after, code))


def _step(kind: str, instance: Instance, before: list[str], after: list[str], code: Json) -> Json:
    """Return a step in the form of a transition step, without its number and dependencies."""
    code = {"OP_ID": code["OP_ID"], "instance_name": instance.name, **code}
    whole = {"kind": kind, "instance": instance.name, "from": before, "to": after}
    return {**whole, "opcodes": [code]}
