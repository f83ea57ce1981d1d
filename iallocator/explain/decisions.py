"""Make one decision for each instance of a request from what was recorded.

A function for each type of request selects the records.  Nothing is looked up in the state,
because the state has changed since.
"""

from __future__ import annotations

from iallocator.errors import assert_never
from iallocator.explain.choices import (
    TOGETHER,
    choice_of,
    chosen_together,
    entries_of,
    nowhere,
    option_notes,
    order_note,
    request_notes,
    scope_note,
    subject,
)
from iallocator.explain.explanation import Decision
from iallocator.explain.facts import GroupReport, NodeReport
from iallocator.explain.moves import Moves
from iallocator.explain.survey import exclusions
from iallocator.model.templates import DRBD
from iallocator.requests import Allocate, MultiAllocate
from iallocator.requests.existing import (
    AllocateSecondary,
    ChangeGroup,
    MultiEvacuate,
    NodeEvacuate,
    Relocate,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.aliases import Json
    from iallocator.explain.asked import Asked
    from iallocator.explain.recorder import Recorder
    from iallocator.requests.existing import Request

    Taken = tuple[Asked | None, bool]
    """The response of a group that led to a placement, and whether several were chosen together."""

__all__ = ["decisions_of"]

NOT_ASKED = "not looked at: with --compat hail one that fails, fails the whole request"


def decisions_of(request: Request, noted: Recorder, response: Json) -> list[Decision]:
    """Return the decision on every instance of `request`, in the order of the response."""
    if isinstance(request, Allocate):
        return [_new(request, noted, None, [])]
    if isinstance(request, MultiAllocate):
        return _batch(request, noted, response)
    if isinstance(request, AllocateSecondary):
        return [_mirrored(request, noted)]
    if not isinstance(request, Relocate | NodeEvacuate | ChangeGroup | MultiEvacuate):
        assert_never(request)
    moves = Moves(request, noted, response)
    if not moves.names:  # the request was rejected before any node was checked
        existing = request.existing(noted.context.cluster)
        return [moves.rejected(instance, response["info"]) for instance in existing]
    return [moves.decision(name) for name in moves.names]


def _new(request: Allocate, noted: Recorder, taken: Taken | None, notes: list[str]) -> Decision:
    """Return the decision on a new instance; `taken` led to its placement, if that is known."""
    cluster, settings = noted.context.cluster, noted.context.settings
    notes = request_notes(settings, request) + notes
    choices = noted.choices.get(request.instance.name)
    if not choices:
        why = f"group {request.group_name} does not exist"
        left_out = dict.fromkeys((g.uuid for g in cluster.groups), f"not asked: {why}")
        found = nowhere(cluster, request.instance, notes, left_out)
        found.reason = why
        return found
    if request.recreated is not None and settings.behaviour.recreates_in_place:
        notes.append("The instance exists: what it uses now is free for it.")
    if taken is None:
        return choice_of(cluster, choices[0], notes, {})
    said, last = taken
    if said is None:
        return choice_of(cluster, choices[-1 if last else 0], notes, {})
    for choice in choices:
        if any(one is said for one in choice.said):
            return choice_of(cluster, choice, notes, {})
    return choice_of(cluster, choices[0], [*notes, TOGETHER], {}, said)


def _taken(noted: Recorder, entry: Json, together: bool) -> Taken:
    """Return what led to the placement in `entry`; the result of a search is the last response."""
    nodes = tuple(map(noted.index_of, entry["nodes"]))
    every = noted.asked_of.get(entry["instance"], ())
    found = [said for said in every if said.kind == "new" and nodes and said.best == nodes]
    return (found[-1 if together else 0] if found else None), together


def _batch(request: MultiAllocate, noted: Recorder, response: Json) -> list[Decision]:
    """Return the decisions on several new instances, in the order of the response.

    hail ends with the first instance that cannot be placed.
    """
    entries = entries_of(response)
    together = chosen_together(response)
    taken = {name: _taken(noted, entry, together) for name, entry in entries.items()}
    turns = {name: said.turn for name, (said, _) in taken.items() if said is not None}
    decisions = []
    for one in request.wanted:
        name = one.instance.name
        if name not in entries:
            decisions.append(Decision(name, subject(one.instance), None, [], reason=NOT_ASKED))
            continue
        turn = turns.get(name) or noted.last_turn(name, together)
        before = [other for other in sorted(turns, key=turns.__getitem__) if turns[other] < turn]
        decision = _new(one, noted, taken[name], order_note(before, "placed"))
        if not entries[name]["nodes"] and decision.answer is not None:
            decision.answer, decision.reason = None, entries[name]["reason"]
        decisions.append(decision)
    return decisions


def _mirrored(request: AllocateSecondary, noted: Recorder) -> Decision:
    """Return the decision on the secondary of an instance that becomes drbd."""
    context, instance = noted.context, request.instance
    cluster, group = context.cluster, context.cluster.group_of(instance)
    said = noted.asked_of.get(instance.name, [])
    if said:
        report = said[-1].report
    else:
        report = GroupReport(group.name, group.uuid, group.alloc_policy)
        report.nodes = [
            NodeReport(
                name, exclusions(cluster.nodes[index], None) or ["is the primary, which stays"]
            )
            for index, name in zip(group.nodes, cluster.node_names(group.nodes))
        ]
    answer = report.placements[0] if report.placements else None
    decision = Decision(instance.name, subject(instance.as_template(DRBD)), answer, [report])
    decision.present = cluster.node_names(instance.nodes)
    decision.notes = [
        f"It is of type {instance.template} now; its primary stays. The score runs over all nodes.",
        *option_notes(context.settings_of(group)),
        *scope_note(cluster, instance),
    ]
    decision.reason = "" if answer else "no node can be the secondary"
    return decision
