"""Answer ``node-evacuate``: move instances off their primaries, their secondaries, or both.

``multi-evacuate``, a request of Ganeti 2.4 and older, only chooses new secondaries.
"""

from __future__ import annotations

from iallocator.handlers.change_group import move_to_group
from iallocator.handlers.move_reply import MoveReport, move_entry
from iallocator.model.moves import Move
from iallocator.placement.moves import (
    can_copy_from,
    fail_over,
    may_take_over,
    move_anywhere,
    move_pair,
    move_secondary,
)
from iallocator.placement.results import MoveResult
from iallocator.placement.several.move_all import move_all
from iallocator.placement.several.sequence import RequiredMove, in_turn
from iallocator.reply import Reply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from typing import Any

    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context
    from iallocator.placement.evaluator import Evaluator
    from iallocator.requests.existing import MultiEvacuate, NodeEvacuate

__all__ = ["evacuation_task", "multi_evacuate", "node_evacuate"]


def node_evacuate(context: Context, request: NodeEvacuate) -> Reply:
    """Move the instances in the order given, each on the state that the previous one left.

    The evacuated nodes, and nodes that are not online, receive no instances. If an instance cannot
    be placed in its group, an exact search places all instances jointly. Instances that do not fit
    in their own group are then placed in other groups, if the document has any; not with
    ``--compat hail``.
    """
    left = request.evacuated_nodes()
    parted = _parted(context, request)
    tasks = [
        _no_way(instance, parted[instance.name])
        if instance.name in parted
        else evacuation_task(context, instance, request.mode, left)
        for instance in request.instances
    ]
    note, made = move_all(context, tasks)
    report = MoveReport(context)
    for instance, outcome in made:
        if outcome.best is not None:
            report.moved(outcome.best, move_entry(context, instance, outcome))
    failed = {i.name: outcome for i, outcome in made if outcome.best is None}
    for unit in context.affinity.units([i for i, _ in made if i.name in failed]):
        remotes = _elsewhere(context, unit) if all(map(request.may_leave_group, unit)) else {}
        for instance in unit:
            outcome, remote = failed[instance.name], remotes.get(instance.name)
            entry = move_entry(context, instance, outcome)
            move, nearest = None, outcome.nearest or ""
            if remote is not None and remote.best is not None:
                entry["remote"] = {
                    key: value
                    for key, value in move_entry(context, instance, remote).items()
                    if key not in ("instance", "failures")
                }
                nodes = "/".join(entry["remote"]["nodes"])
                nearest += f" (group {entry['remote']['group']} could take it on {nodes})"
                local = context.cluster.group_of(instance)
                move = remote.best if context.settings_of(local).inter_group == "yes" else None
            if move is None:
                report.failed(instance, outcome.message, entry, nearest)
            else:
                move.apply(context.state)
                report.moved(move, entry)
    return report.reply(note)


def multi_evacuate(context: Context, request: MultiEvacuate) -> Reply:
    """Choose another secondary for each instance with its secondary on one of the nodes.

    The protocol has no partial answer: the request fails with the first instance that cannot be
    moved.
    """
    cluster = context.cluster
    tasks = [
        evacuation_task(context, instance, "secondary-only", request.nodes)
        for instance in request.existing(cluster)
    ]
    note, made = move_all(context, tasks)
    result: list[list[Any]] = []
    solutions: list[dict[str, Any]] = []
    for instance, outcome in made:
        solutions.append(move_entry(context, instance, outcome))
        if outcome.best is None:
            why = outcome.message + (outcome.nearest or "")
            return Reply(False, f"{instance.name}: {why}{note}", [], solutions)
        result.append([instance.name, cluster.node_names(outcome.best.after[1:])])
    info = f"0 instances failed to move and {len(result)} were moved successfully{note}"
    return Reply(True, info, result, solutions)


def evacuation_task(
    context: Context, instance: Instance, mode: str, left: Collection[int]
) -> RequiredMove:
    """Return the task to move `instance` within its group.

    `mode`: which of its nodes it leaves. `left`: the nodes that are evacuated.
    """
    evaluator = context.evaluator(context.cluster.group_of(instance))
    targets = [i for i in evaluator.online_nodes() if i not in left]

    def exactly(nodes: tuple[int, ...]) -> MoveResult:
        if mode == "all" and len(nodes) > 1:
            return move_pair(context, evaluator, instance, nodes[:1], nodes[1:])
        return evacuate(context, evaluator, instance, mode, nodes[-1:])

    return RequiredMove(
        instance,
        lambda: evacuate(context, evaluator, instance, mode, targets),
        lambda: _places(context, instance, mode, targets),
        exactly,
    )


def _parted(context: Context, request: NodeEvacuate) -> dict[str, str]:
    """Return instance -> why it cannot fail over together with its colocation group.

    With the mode ``primary-only``, each instance fails over to its own secondary. The instances of
    a colocation group must therefore have one secondary node in common.
    """
    reasons: dict[str, str] = {}
    names = context.cluster.node_names
    for unit in context.affinity.units(request.instances) if request.mode == "primary-only" else ():
        secondaries = {one.name: one.nodes[1] for one in unit if len(one.nodes) > 1}
        for name, own in secondaries.items():
            other = next((n for n, secondary in secondaries.items() if secondary != own), None)
            if other is not None:
                mine, theirs = names((own, secondaries[other]))
                reasons[name] = (
                    f"it can fail over to its secondary {mine} only, and {other}, which must be "
                    f"on the same node, to {theirs} only; mode all moves both"
                )
    return reasons


def _no_way(instance: Instance, why: str) -> RequiredMove:
    """Return a task that reports that `instance` cannot be moved, and why."""
    rejected = MoveResult(message=why)
    return RequiredMove(instance, lambda: rejected, lambda: iter(()), lambda nodes: rejected)


def _places(
    context: Context, instance: Instance, mode: str, targets: Sequence[int]
) -> Iterator[tuple[float, tuple[int, ...]]]:
    """Yield score and nodes of the placements after an evacuation; `instance` is not placed.

    `mode`: which of its nodes it leaves. `targets`: the nodes that may receive it.
    """
    present = instance.nodes
    if len(instance.nodes) < instance.required_nodes:
        return  # a drbd instance without its secondary cannot be moved
    if not instance.kind.relocatable or (mode == "secondary-only" and instance.shared):
        return
    evaluator = context.evaluator(context.cluster.group_of(instance))
    if mode == "primary-only" and len(present) > 1:
        if not may_take_over(context, present[1]):
            return
        after = present[::-1]
        yield evaluator.score(Move(instance, (), after)), after
        return
    free = [index for index in targets if index not in present]
    if instance.shared:
        candidates = evaluator.candidates(instance, "moved", present, free)
    elif mode == "secondary-only":
        if not can_copy_from(context, present[0]):
            return
        candidates = evaluator.candidates(instance, "secondary", present, free)
    else:
        candidates = evaluator.candidates(instance, "any pair", present, free)
    yield from candidates.everything()


def evacuate(
    context: Context,
    evaluator: Evaluator,
    instance: Instance,
    mode: str,
    targets: Sequence[int],
) -> MoveResult:
    """Return the best moves of `instance` within its group to `targets`.

    `mode`: which of its nodes it leaves.
    """
    if not instance.kind.relocatable:
        return MoveResult(message=f"Instances of type {instance.template} cannot be relocated")
    if instance.needs_secondary:
        if mode == "primary-only":
            return fail_over(context, evaluator, instance)
        if mode == "secondary-only":
            return move_secondary(context, evaluator, instance, targets)
        return move_pair(context, evaluator, instance, targets)
    if mode == "secondary-only":
        return MoveResult(
            message=f"Instances of type {instance.template} have no secondary to relocate"
        )
    return move_anywhere(context, evaluator, instance, targets)


def _elsewhere(context: Context, unit: Sequence[Instance]) -> dict[str, MoveResult]:
    """Return name of an instance -> its move to another group, for all of a colocation group
    `unit`.

    The result is empty if the document has only one group, or with ``--compat hail``.
    """
    outcomes: dict[str, MoveResult] = {}
    if context.deadline.over():
        return outcomes
    with context.state.trial():
        for position in in_turn(context, unit):
            instance = unit[position]
            local = context.cluster.group_of(instance)
            others = [g for g in context.cluster.groups if g is not local and g.nodes]
            if not (
                instance.kind.relocatable
                and others
                and context.settings.behaviour.tries_other_groups
            ):
                continue
            outcome = move_to_group(context, instance, others, names_nearest=False)
            if outcome.best is not None:
                outcomes[instance.name] = outcome
                outcome.best.apply(context.state)
    return outcomes if len(outcomes) == len(unit) else {}
