"""Make a decision for each instance of a request from the records of the search.

A function for each type of request selects the records; `Moves` makes the decisions on instances
that move. The state is not read, because it has changed since the records were made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from iallocator.errors import assert_never
from iallocator.explain.choices import (
    CHOSEN_AS_NEW,
    PLACED_TOGETHER,
    choice_of,
    chosen_together,
    entries_of,
    limit_notes,
    nowhere,
    option_notes,
    order_note,
    request_notes,
    scope_note,
    soft_constraint_notes,
    subject,
    unmovable_notes,
)
from iallocator.explain.explanation import Decision, StepReport
from iallocator.explain.facts import GroupReport, NodeReport
from iallocator.explain.survey import EVACUATED_NODE, exclusions
from iallocator.ganeti.opcodes import job
from iallocator.model.moves import places_after
from iallocator.model.templates import DRBD
from iallocator.requests import Allocate, MultiAllocate
from iallocator.requests.existing import (
    AllocateSecondary,
    ChangeGroup,
    MultiEvacuate,
    NodeEvacuate,
    Relocate,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Json
    from iallocator.explain.group_responses import GroupResponse
    from iallocator.explain.recorder import Recorder
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.moves import ElementaryMove
    from iallocator.placement.context import Context
    from iallocator.placement.results import MoveResult
    from iallocator.requests.existing import Request

    Taken = tuple[GroupResponse | None, bool]
    """The response of a group that led to a placement; whether instances were placed together."""

__all__ = ["decisions_of"]

SKIPPED_INSTANCE = "not placed: with --compat hail, one failed instance fails the whole request"


def decisions_of(request: Request, noted: Recorder, response: Json) -> list[Decision]:
    """Return the decision on every instance of `request`, in the order of the response."""
    if isinstance(request, Allocate):
        return [_new(request, noted, None, [])]
    if isinstance(request, MultiAllocate):
        return _batch(request, noted, response)
    if isinstance(request, AllocateSecondary):
        return [_new_secondary(request, noted)]
    if not isinstance(request, Relocate | NodeEvacuate | ChangeGroup | MultiEvacuate):
        assert_never(request)
    moves = Moves(request, noted, response)
    if not moves.names:  # the request was rejected before any node was checked
        existing = request.existing(noted.context.cluster)
        return [moves.rejected(instance, response["info"]) for instance in existing]
    return [moves.decision(name) for name in moves.names]


def _new(request: Allocate, noted: Recorder, taken: Taken | None, notes: list[str]) -> Decision:
    """Return the decision on a new instance.

    `taken`: the response that led to its placement, if it is known, and whether the last comparison
    of groups is explained (else the first).
    """
    cluster, settings = noted.context.cluster, noted.context.settings
    notes = request_notes(settings, request) + notes
    choices = noted.choices.get(request.instance.name)
    if not choices:
        why = f"group {request.group_name} does not exist"
        left_out = dict.fromkeys((g.uuid for g in cluster.groups), f"not asked: {why}")
        decision = nowhere(cluster, request.instance, notes, left_out)
        decision.reason = why
        return decision
    if request.recreated is not None and settings.behaviour.recreates_in_place:
        notes.append("The instance exists: what it uses now is free for it.")
    if taken is None:
        return choice_of(cluster, choices[0], notes, {})
    group_response, last = taken
    if group_response is None:
        return choice_of(cluster, choices[-1 if last else 0], notes, {})
    for choice in choices:
        if any(one is group_response for one in choice.group_responses):
            return choice_of(cluster, choice, notes, {})
    return choice_of(cluster, choices[0], [*notes, PLACED_TOGETHER], {}, group_response)


def _batch(request: MultiAllocate, noted: Recorder, response: Json) -> list[Decision]:
    """Return the decisions on several new instances, in the order of the response.

    With ``--compat hail``, the instances after the first one that cannot be placed are not tried.
    """
    entries = entries_of(response)
    together = chosen_together(response)
    taken: dict[str, Taken] = {}  # in a search, the last response led to the placement
    for name, entry in entries.items():
        nodes = tuple(map(noted.index_of, entry["nodes"]))
        every = noted.responses_of.get(name, ())
        matching = [
            group_response
            for group_response in every
            if group_response.kind == "new" and nodes and group_response.best == nodes
        ]
        taken[name] = (matching[-1 if together else 0] if matching else None), together
    numbers = {
        name: group_response.number
        for name, (group_response, _) in taken.items()
        if group_response is not None
    }
    decisions = []
    for one in request.wanted:
        name = one.instance.name
        if name not in entries:
            decisions.append(
                Decision(name, subject(one.instance), None, [], reason=SKIPPED_INSTANCE)
            )
            continue
        number = numbers.get(name) or noted.comparison_number(name, together)
        before = [
            other for other in sorted(numbers, key=numbers.__getitem__) if numbers[other] < number
        ]
        decision = _new(one, noted, taken[name], order_note(before, "placed"))
        if not entries[name]["nodes"] and decision.answer is not None:
            decision.answer, decision.reason = None, entries[name]["reason"]
        decisions.append(decision)
    return decisions


def _new_secondary(request: AllocateSecondary, noted: Recorder) -> Decision:
    """Return the decision on the secondary of an instance that becomes drbd."""
    context, instance = noted.context, request.instance
    cluster, group = context.cluster, context.cluster.group_of(instance)
    group_response = noted.responses_of.get(instance.name, [])
    if group_response:
        report = group_response[-1].report
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


class Decided(NamedTuple):
    """The result for an instance that should move, and the deciding group's response."""

    instance: Instance
    outcome: MoveResult
    group_response: GroupResponse | None


class Moves:
    """Makes the decisions about the instances of a request that moves instances.

    Attributes
    ----------
    names:
        The instances with a decision, in the order of the response.
    """

    def __init__(self, request: Request, noted: Recorder, response: Json) -> None:
        self._request = request
        self._noted = noted
        self._cluster = noted.context.cluster
        self._entries = entries_of(response)
        self._together = chosen_together(response)
        self._first: dict[str, Decided] = {}
        self._then: dict[str, Decided] = {}
        for instance, outcome in noted.outcomes:
            known = self._then if instance.name in self._first else self._first
            group_response = noted.response_for(instance, outcome, self._together)
            known[instance.name] = Decided(instance, outcome, group_response)
        self.names = [name for name in self._entries if name in self._first]

    def decision(self, name: str) -> Decision:
        """Return the decision on the instance called `name`."""
        done, entry = self._first[name], self._entries[name]
        request, rejected = self._request, done.outcome.best is None
        targets = request.target_groups(self._cluster)
        decision = self._decision(done) if targets is None else self._to_a_group(done, targets)

        # Notes on the limits that were enforced, and on the instances moved before
        instance, context = done.instance, self._noted.context
        if instance.kind.relocatable:
            group = (
                done.group_response.group
                if done.group_response
                else self._cluster.group_of(instance)
            )
            decision.notes += limit_notes(self._cluster, context.settings_of(group), instance)
        if instance.kind.relocatable and not request.considers_other_groups:
            decision.notes += scope_note(self._cluster, instance)
        every = list(self._first)
        before = every[: every.index(instance.name)]
        decision.notes += order_note([name for name in before if self._first[name].outcome.best])
        if self._together and not rejected:
            decision.notes.append(PLACED_TOGETHER)

        if rejected and request.may_leave_group(done.instance):
            self._elsewhere(decision, done)
        if rejected and request.all_or_nothing:
            decision.notes.append(
                "The whole request fails with it: the protocol has no partial answer."
            )
        if not entry["nodes"] and "reason" in entry and done.outcome.best is not None:
            decision.answer, decision.steps, decision.reason = None, [], entry["reason"]
        return decision

    def rejected(self, instance: Instance, reason: str) -> Decision:
        """Return the decision on an instance that cannot be moved for `reason`, without a group."""
        decision = Decision(instance.name, subject(instance), None, [], reason=reason)
        decision.present = self._cluster.node_names(instance.nodes)
        decision.notes += unmovable_notes(self._cluster, instance)
        return decision

    def _decision(self, done: Decided) -> Decision:
        """Return the decision on a move (or why there is none) from the response of one group."""
        instance, outcome, best = done.instance, done.outcome, done.outcome.best
        if not (instance.kind.relocatable and (done.group_response or outcome.best is None)):
            return self.rejected(instance, outcome.message)
        report = self._report(done)
        if report is None:
            return self.rejected(instance, outcome.message)
        answer = report.placements[0] if best else None
        decision = Decision(instance.name, subject(instance), answer, [report])
        decision.present = self._cluster.node_names(instance.nodes)
        decision.reason = "" if best else outcome.message
        if best is not None:
            decision.steps = _step_reports(self._noted.context, instance, best.steps)
            decision.notes += soft_constraint_notes(outcome.scored[0].extra)
        return decision

    def _report(self, done: Decided) -> GroupReport | None:
        """Return the report of the group that decided; None if there is nothing to report."""
        group_response, outcome = done.group_response, done.outcome
        if group_response is None:
            return self._not_asked(done)
        if group_response.kind == "exchange" and outcome.best is None:
            if (
                not group_response.report.failures
            ):  # the roles can change; the next step finds no node
                return self._not_asked(done)
            (reason,) = group_response.report.failures
            if outcome.message != reason:  # the primary is offline, so a failover comes first
                report = group_response.report
                old, secondary = self._cluster.node_names(group_response.instance.nodes)
                roles = (role for node in report.nodes for role in node.roles)
                rejections = [one.wording for role in roles for one in role.rejections]
                # Nodes of another group have no rejections: the secondary is not among them
                why = rejections[0] if rejections else outcome.message.rpartition(": ")[2]
                report.obstacle = (
                    f"{old} is not online, so the instance must first fail over to {secondary}, "
                    f"which cannot take it: {why}"
                )
                report.nodes, report.closest = [], ""
        return group_response.report

    def _not_asked(self, done: Decided) -> GroupReport | None:
        """Return the report of a group without queried nodes; None if no report is necessary."""
        instance, outcome = done.instance, done.outcome
        if not outcome.message.startswith("Can't find any good node"):
            return None
        group = self._cluster.group_of(instance)
        report = GroupReport(group.name, group.uuid, group.alloc_policy)
        report.failures = outcome.failures
        left = self._noted.left
        for index, name in zip(group.nodes, self._cluster.node_names(group.nodes)):
            why = exclusions(self._cluster.nodes[index], None)
            why += [EVACUATED_NODE] if index in left else []
            if not why and index in instance.nodes:
                why = ["holds it now"]
            report.nodes.append(NodeReport(name, why))
        if outcome.failures or not all(node.excluded for node in report.nodes):
            report.obstacle, report.nodes = outcome.message, []
        return report

    def _to_a_group(self, done: Decided, groups: Sequence[Group]) -> Decision:
        """Return the decision on a move to the best of `groups`; the group is chosen first."""
        instance = done.instance
        if not instance.kind.relocatable:
            return self.rejected(instance, done.outcome.message)
        cluster = self._cluster
        present = {cluster.group_of(one).uuid for one in self._request.existing(cluster)}
        targets = [group.uuid for group in groups]
        left_out = {group.uuid: "it is none of the target groups" for group in cluster.groups}
        left_out |= dict.fromkeys(present, "instances of the request are in it")
        left_out |= dict.fromkeys(targets, "it has no nodes")
        choice = self._choice(instance, left_out)
        if done.group_response is None or choice.answer is None:
            why = "no group can take it" if targets else "no group is left to move to"
            decision = self.rejected(instance, why)
        else:
            decision = self._decision(done)
        decision.choice = choice
        return decision

    def _choice(self, instance: Instance, left_out: dict[str, str]) -> Decision:
        """Return the decision on the group, from the comparison of the largest number of groups."""
        settings = self._noted.context.settings
        notes = [CHOSEN_AS_NEW, *option_notes(settings)]
        choices = self._noted.choices.get(instance.name, ())
        if not choices:
            return nowhere(self._cluster, instance, notes, left_out)
        most = max(len(choice.group_responses) for choice in choices)
        widest = [choice for choice in choices if len(choice.group_responses) == most]
        return choice_of(self._cluster, widest[0], notes, left_out)

    def _elsewhere(self, decision: Decision, done: Decided) -> None:
        """Add the offers of other groups for an instance that its own group cannot host."""
        cluster, context, instance = self._cluster, self._noted.context, done.instance
        local = cluster.group_of(instance)
        others = [group for group in cluster.groups if group is not local and group.nodes]
        if not instance.kind.relocatable or not others:
            return
        if not context.settings.behaviour.tries_other_groups:
            decision.notes.append("With --compat hail, other groups are not queried.")
            return
        if not self._noted.choices.get(instance.name):
            decision.notes.append("Other groups were not queried: time was up.")
            return
        left_out = {local.uuid: "its own group, which cannot take it"}
        then = self._then.get(instance.name)
        choice = self._choice(instance, left_out)
        offer = self._decision(then) if then else self.rejected(instance, "no group can take it")
        offer.choice = choice
        decision.elsewhere = offer
        if then is None or offer.answer is None:
            decision.notes.append("No other group can take it, either.")
        elif context.settings_of(local).inter_group != "yes":
            decision.notes.append(
                f"Group {offer.answer.group} could take it on {offer.answer.where}; "
                "--inter-group=yes would move it there."
            )
        else:
            decision.notes.append(
                "Its own group cannot take it; --inter-group=yes lets another do so."
            )
            decision.answer, decision.steps, decision.reason = offer.answer, offer.steps, ""


STEP_WORDS = {
    "OP_INSTANCE_REPLACE_DISKS": "new secondary {}",
    "OP_INSTANCE_MIGRATE": "migrate to {}",
    "OP_INSTANCE_FAILOVER": "fail over to {}",
}
"""Opcode of a step -> the step in words."""


def _step_reports(
    context: Context, instance: Instance, steps: Sequence[ElementaryMove]
) -> list[StepReport]:
    """Return the steps of a move in words.

    If its primary node is offline, an instance fails over, even if the opcode is that of a
    migration.
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
        StepReport(kind, name, STEP_WORDS[word].format(name))
        for (kind, _), name, word in zip(steps, names, words)
    ]
