"""Why an instance moves the way it does, or cannot: one function for each way to move.

They mirror `iallocator.placement.moves`, which they ask for the answer; then every
node is asked what it says to each step.  All leave the state as it is.
"""

from __future__ import annotations

from iallocator.explain.affinity import bond_refusals
from iallocator.explain.limits import RolesTested, first_of
from iallocator.explain.move_report import MoveExplanation
from iallocator.explain.nearest_miss import closest_move
from iallocator.explain.steps import failover_refusal, step_refusals, tag_refusals
from iallocator.explain.what_if import WhatIf
from iallocator.limits.node import FORCED_LIMITS
from iallocator.placement.evaluator import Motion
from iallocator.placement.moves import fail_over, move_anywhere, move_pair, move_secondary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from iallocator.explain.move_report import Told
    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context
    from iallocator.placement.evaluator import Evaluator

    Nodes = tuple[int, ...]

__all__ = ["tell_anywhere", "tell_failover", "tell_pair", "tell_secondary"]


def tell_anywhere(
    context: Context,
    instance: Instance,
    evaluator: Evaluator,
    left: Collection[int] = (),
    only: Nodes = (),
) -> Told:
    """Move an instance on shared storage within a group; the nodes in `left` are no targets.

    `only`: just there, as with the other ways to move.
    """
    nodes = context.cluster.nodes
    journey = MoveExplanation(context, instance, evaluator.group, left)
    source = journey.present[0]
    journey.exclude((source,), "holds it now")
    journey.outcome = move_anywhere(context, evaluator, instance, only or journey.targets)
    with journey.off():
        prospect = WhatIf(context, instance, evaluator.motions.off(nodes[source]))
        barred = bond_refusals(context, instance, journey.targets)
        barred |= tag_refusals(context, source, journey.targets)
        seats = RolesTested(prospect, journey.targets, None, barred)
        journey.survey(seats)
        if journey.outcome.best is None:
            journey.report.closest = closest_move(context, seats, barred)
    return journey.told()


def tell_secondary(
    context: Context,
    instance: Instance,
    evaluator: Evaluator,
    left: Collection[int] = (),
    only: Nodes = (),
) -> Told:
    """Give a drbd instance another secondary in the group, none of those in `left`.

    hail tests the limits of the primary, too.
    """
    journey = MoveExplanation(context, instance, evaluator.group, left)
    primary, present = journey.present[0], journey.present[-1]
    journey.exclude(journey.present[1:], "holds the mirror now")
    journey.exclude((primary,), "is the primary, which stays")
    journey.outcome = move_secondary(context, evaluator, instance, only[1:] or journey.targets)
    forced = evaluator.motions.off(context.cluster.nodes[present])
    with journey.off():
        if context.settings.like_hail:
            prospect = WhatIf(context, instance, Motion("as hail", FORCED_LIMITS, forced.secondary))
            journey.excluded[primary] = []
        else:
            prospect = WhatIf(context, instance, forced, on_primary=())
        secondaries = [index for index in journey.targets if index != primary]
        seats = RolesTested(prospect, [primary], secondaries, {})
        journey.survey(seats)
        if journey.outcome.best is None:
            journey.report.closest = closest_move(context, seats)
    return journey.told()


def tell_failover(context: Context, instance: Instance, evaluator: Evaluator) -> Told:
    """Exchange the roles of a drbd instance's nodes."""
    nodes = context.cluster.nodes
    old, new = context.state.where[instance.name][0], context.state.where[instance.name][-1]
    group = evaluator.group
    journey = MoveExplanation(context, instance, group)
    journey.outcome = fail_over(context, evaluator, instance)
    if old == new:
        return journey.told()
    others = [index for index in group.nodes if index not in (old, new)]
    journey.exclude(others, "does not hold its mirror")
    journey.exclude((old,), "is the primary now, and becomes the secondary")
    journey.excluded[new] = []  # whether it is online is not asked
    refusals = failover_refusal(context, evaluator.motions, instance, old, new)
    with journey.off():
        prospect = WhatIf(context, instance, evaluator.motions.off(nodes[old]))
        seats = RolesTested(prospect, [new], None, refusals)
        journey.survey(seats)
        if journey.outcome.best is None:
            own = first_of(prospect.primary_failures(new))
            barred = () if own == refusals.get(new) else refusals
            journey.report.closest = closest_move(context, seats, barred)
    return journey.told()


def tell_pair(
    context: Context,
    instance: Instance,
    evaluator: Evaluator,
    left: Collection[int] = (),
    only: Nodes = (),
) -> Told:
    """Move both nodes of a drbd instance to others in the group, none of those in `left`."""
    nodes = context.cluster.nodes
    journey = MoveExplanation(context, instance, evaluator.group, left)
    journey.exclude(journey.present, "holds it now")
    seconds = only[1:] or None
    journey.outcome = move_pair(context, evaluator, instance, only[:1] or journey.targets, seconds)
    if len(journey.present) < 2:
        return journey.told()
    old, mirror = journey.present
    if not nodes[old].online:
        refusals = failover_refusal(context, evaluator.motions, instance, old, mirror)
        if refusals:
            _first_step_fails(journey, old, mirror, refusals[mirror].told)
            return journey.told()
        old, mirror = mirror, old
    with journey.off():
        as_mirror = WhatIf(context, instance, evaluator.motions.off(nodes[mirror]))
        barred, curable = step_refusals(
            context, evaluator.motions, instance, old, journey.targets, as_mirror
        )
        prospect = WhatIf(context, instance, evaluator.motions.off(nodes[old]))
        targets = journey.targets
        seats = RolesTested(prospect, targets, targets, barred | curable)
        journey.survey(seats)
        if journey.outcome.best is None and len(targets) > 1:
            journey.report.closest = closest_move(context, seats, barred, as_mirror, old)
    return journey.told()


def _first_step_fails(journey: MoveExplanation, old: int, mirror: int, told: str) -> None:
    """The primary is not online, and the failover that must come first is refused."""
    names = journey.context.cluster.node_names((old, mirror))
    journey.report.failures = journey.outcome.failures
    journey.report.obstacle = (
        f"{names[0]} is not online, so the instance must first fail over to {names[1]}, "
        f"which cannot take it: {told}"
    )
