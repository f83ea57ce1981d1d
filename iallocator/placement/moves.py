"""Find the best move of one instance: try each kind of move, and check each step.

All functions leave `context.state` unchanged; the caller applies the move that it chooses. The
parameter `evaluator` is the evaluator of the target group.
"""

from __future__ import annotations

from itertools import islice

from iallocator.constraints.table import closed_nodes, out_of_reach
from iallocator.model.moves import DRBD_FAILOVER, FAILOVER_TO, REPLACE_SECONDARY, Move
from iallocator.placement.new import other_nodes
from iallocator.placement.results import MoveResult, NodeQuery, ScoredMove, tally
from iallocator.ranking import ranks_nodes
from iallocator.ranking.advertised import memory_lack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from iallocator.limits.rejection import Rejection
    from iallocator.model.instance import Instance
    from iallocator.model.moves import ElementaryMove
    from iallocator.placement.context import Context
    from iallocator.placement.evaluator import Evaluator
    from iallocator.placement.results import RankedMoves
    from iallocator.scoring.candidates import Placement

__all__ = [
    "MOST_LOSSES_COMPARED", "can_copy_from", "fail_over", "may_take_over", "move_anywhere",
    "move_pair", "move_secondary", "with_nearest",
]  # fmt: skip


MOST_PLACEMENTS_WITH_N1 = 1_000
"""The most placements of a moving instance for which N+1 is checked; no others are offered."""

MOST_LOSSES_COMPARED = 100
"""The most placements that increase losses, and that are compared with each other."""

SHARE_OF_WORK = 0.5
"""The share of the simulation work that one comparison may use; joint searches need the rest."""


def with_nearest(context: Context, move: Callable[[], MoveResult]) -> MoveResult:
    """Return the result of `move`, with the nearest candidate if it has no move."""
    context.last_query = None
    outcome = move()
    if outcome.best is None and outcome.nearest is None:
        from iallocator.placement.nearest import nearest_move

        outcome.nearest = nearest_move(context, context.last_query)
    return outcome


def move_anywhere(
    context: Context,
    evaluator: Evaluator,
    instance: Instance,
    targets: Sequence[int],
    *,
    names_others: bool = True,
) -> MoveResult:
    """Return the best moves of an instance on shared storage to one of `targets`.

    `names_others`: list the other acceptable nodes, for templates with data outside Ganeti.
    """
    state = context.state
    present = state.where[instance.name]
    others = [index for index in targets if index != present[0]]
    if not others:
        return MoveResult(message="Can't find any good node: no nodes available")
    unreached = _unreached(context, instance, others)
    if unreached is not None:
        return unreached
    with state.trial():
        state.remove(instance, present)
        candidates = evaluator.candidates(instance, "moved", present, others)
        ranked = evaluator.ranked(instance, candidates, present)
    outcome = _outcome(
        context, evaluator, ranked, instance, lambda nodes: [(FAILOVER_TO, nodes[0])]
    )
    if outcome.best and instance.external and names_others:
        outcome.others = other_nodes(ranked.candidates, outcome.best.after)
    return outcome


def move_secondary(
    context: Context, evaluator: Evaluator, instance: Instance, targets: Sequence[int]
) -> MoveResult:
    """Return the best moves that give a drbd instance another secondary, one of `targets`."""
    state = context.state
    present = state.where[instance.name]
    others = [index for index in targets if index not in present]
    if not can_copy_from(context, present[0]):
        name = context.cluster.nodes[present[0]].name
        return MoveResult(message=f"Its disks cannot be copied: its primary {name} is offline")
    if not others:
        return MoveResult(message="Can't find any good node: no nodes available")
    unreached = _unreached(context, instance, others)
    if unreached is not None:
        return unreached
    with state.trial():
        state.remove(instance, present)
        candidates = evaluator.candidates(instance, "secondary", present, others)
        ranked = evaluator.ranked(instance, candidates, present, primary_given=True)
    return _outcome(
        context, evaluator, ranked, instance, lambda nodes: [(REPLACE_SECONDARY, nodes[1])]
    )


def _unreached(context: Context, instance: Instance, nodes: Sequence[int]) -> MoveResult | None:
    """Return the failed result if access constraints reject all of `nodes`, else None.

    All of `nodes` must be in one group.
    """
    lacking = out_of_reach(context.cluster, nodes, instance, third=True)
    if not lacking:
        return None
    group = context.cluster.nodes[nodes[0]].group.name
    why = f"no other node of group {group} {lacking}"
    failures: dict[str, int] = {}
    for reason in closed_nodes(context.cluster, nodes, instance).values():
        failures[reason] = failures.get(reason, 0) + 1
    return MoveResult(message=f"Can't find any good node: {why}", failures=failures)


def fail_over(context: Context, evaluator: Evaluator, instance: Instance) -> MoveResult:
    """Return the move that exchanges the roles of the nodes of a drbd instance."""
    state = context.state
    present = state.where[instance.name]
    if len(present) < 2:
        return MoveResult(message="Instance has no secondary to fail over to")
    old, new = present
    if not may_take_over(context, new):
        return MoveResult(message=f"Its secondary {context.cluster.nodes[new].name} is not online")
    exchange = Move(instance, present, (new, old), [(DRBD_FAILOVER, new)])
    rejection = evaluator.check(exchange, n1=False)
    if rejection is not None:
        _record_exchange(context, evaluator, instance, rejection)
        return MoveResult(message=rejection.reason, failures={rejection.reason: 1})
    settings = evaluator.settings
    overhead = settings.affinity_overhead if settings.strategy == "affinity" else 0
    lack = memory_lack(state, new, instance, overhead)
    if lack:
        return MoveResult(message=f"Its secondary {context.cluster.nodes[new].name} {lack}")
    extra: dict[str, Any] = {}
    if ranks_nodes(settings.strategy):
        from iallocator.ranking.base import RankQuery, strategy_module

        query = RankQuery(settings.strategy, context, instance, present)
        with state.trial():
            state.remove(instance, present)
            extra = strategy_module(settings.strategy).order(query, [new]).extra(new)
    extra |= _violated_soft(context, instance, (new, old))
    return MoveResult([ScoredMove(exchange, evaluator.score(exchange), extra=extra)])


def move_pair(
    context: Context,
    evaluator: Evaluator,
    instance: Instance,
    targets: Sequence[int],
    seconds: Sequence[int] | None = None,
) -> MoveResult:
    """Return the best moves of both nodes of a drbd instance to an ordered pair of `targets`.

    `seconds`: the nodes for the new secondary; None: `targets`. Steps: a failover first if the
    primary is not online; the new primary becomes the secondary; failover; the new secondary
    becomes the secondary.
    """
    state, cluster = context.state, context.cluster
    present = state.where[instance.name]
    first: list[ElementaryMove] = []
    seconds = [index for index in seconds or targets if index not in present]
    targets = [index for index in targets if index not in present]
    if len(present) < 2:
        return MoveResult(message="Instance has no secondary")
    if len({*targets, *seconds}) < 2:
        return MoveResult(message="Can't find any good nodes for relocation: no nodes available")
    unreached = _unreached(context, instance, targets)
    if unreached is not None:
        return unreached
    old, secondary = present
    if not cluster.nodes[old].online:
        if not may_take_over(context, secondary):
            return _no_pair(f"its secondary {cluster.nodes[secondary].name} is not online", {})
        rejection = evaluator.check(
            Move(instance, present, (secondary, old)), n1=False, passing=True
        )
        if rejection is not None:
            _record_exchange(context, evaluator, instance, rejection)
            why = f"Failing over to the secondary: {rejection.reason}"
            if context.settings.behaviour.lists_rejections:
                why = f"Allocation failed: {why}"
            return _no_pair(why, {rejection.reason: 1})
        first = [(DRBD_FAILOVER, secondary)]
        old, secondary = secondary, old
    with state.trial():
        state.remove(instance, present)
        candidates = evaluator.candidates(instance, "pair", (old, secondary), targets, seconds)
        ranked = evaluator.ranked(instance, candidates, present)
    outcome = _outcome(
        context,
        evaluator,
        ranked,
        instance,
        lambda nodes: [
            *first,
            (REPLACE_SECONDARY, nodes[0]),
            (DRBD_FAILOVER, nodes[0]),
            (REPLACE_SECONDARY, nodes[1]),
        ],
    )
    if outcome.best is None:
        why = tally(outcome.failures)
        if context.settings.behaviour.lists_rejections:
            from iallocator.placement.listed_reasons import listed_reasons

            why = listed_reasons(context, last_pair=True)
        return _no_pair(why, outcome.failures)
    return outcome


def _record_exchange(
    context: Context, evaluator: Evaluator, instance: Instance, rejection: Rejection
) -> None:
    """Record why an instance cannot fail over to its secondary."""
    present = context.state.where[instance.name]
    limit_policy = evaluator.limit_policies.off(context.cluster.nodes[present[0]])
    query = NodeQuery.of_exchange(instance, present, limit_policy, rejection)
    context.last_query = evaluator, query


def _no_pair(why: str, failures: dict[str, int]) -> MoveResult:
    return MoveResult(message=f"Can't find any good nodes for relocation: {why}", failures=failures)


def may_take_over(context: Context, node: int) -> bool:
    """Return whether Ganeti allows a failover to node `node`; hail does not check it."""
    return context.cluster.nodes[node].online or context.settings.behaviour.fails_over_to_offline


def can_copy_from(context: Context, primary: int) -> bool:
    """Return whether Ganeti can copy disks from node `primary`; hail does not check it."""
    if context.settings.behaviour.copies_from_offline:
        return True
    return not context.cluster.nodes[primary].offline


def _outcome(
    context: Context,
    evaluator: Evaluator,
    moves: RankedMoves,
    instance: Instance,
    steps: Callable[[tuple[int, ...]], list[ElementaryMove]],
) -> MoveResult:
    """Return the best placements in `moves` as moves of `instance` into the group.

    `steps`: nodes of a placement -> the elementary moves to them.
    """
    candidates, order = moves.candidates, moves.order
    outcome = MoveResult(failures=candidates.failures)
    outcome.order = order
    if not candidates.feasible:
        why = tally(candidates.failures)
        if context.settings.behaviour.lists_rejections:
            from iallocator.placement.listed_reasons import listed_reasons

            why = listed_reasons(context)
        outcome.message = f"Can't find any good node: {why}"
        return outcome
    settings, present = evaluator.settings, context.state.where[instance.name]
    ranked: Iterable[Placement] = candidates.ranked()
    if evaluator.rules.exact:
        ranked = least_loss(context, evaluator, instance, moves)
        if not ranked:
            from iallocator.placement.nearest import rejected_by_n1

            failures = {**candidates.failures, "FailN1": candidates.feasible}
            message = f"Can't find any good node: {tally(failures)}"
            outcome = MoveResult(message=message, failures=failures)
            place = next(candidates.ranked())[1]
            outcome.nearest = rejected_by_n1(context, evaluator, instance, place)
            return outcome
    for rank, nodes in ranked:
        placement = rank, nodes
        extra: dict[str, Any] = {}
        if settings.strategy != "score":
            extra = {"strategy": settings.strategy}
            if order is not None:
                extra |= order.extra(nodes)
            else:
                outcome.ranks[nodes] = rank
        extra |= _violated_soft(context, instance, nodes)
        move = Move(instance, present, nodes, steps(nodes))
        outcome.scored.append(
            ScoredMove(move, moves.score(placement), moves.penalty(placement), extra)
        )
        if len(outcome.scored) >= settings.top:
            break
    return outcome


def least_loss(
    context: Context, evaluator: Evaluator, instance: Instance, ranked: RankedMoves
) -> list[Placement]:
    """Return the placements in `ranked` after which failures lose least, for ``no-worse``.

    `instance` is on the state. If it comes from another group, placements that use failover
    capacity are rejected; the result can be empty. If it leaves a node and stays in its group, no
    placement is rejected, because the instance must leave. Placements after which no failure loses
    more than in the initial state come first, in their order.
    """
    state, top = context.state, evaluator.settings.top
    candidates, present = ranked.candidates, state.where[instance.name]
    source = context.cluster.nodes[present[0]]
    stays = source.group is evaluator.group
    rejects = not stays and evaluator.limit_policies.off(source).asks_n1
    if (candidates.feasible == 1 and not rejects) or context.effort.spent:
        return list(islice(candidates.ranked(), top))
    # The failures of a group are those of the state before it is changed
    compared = context.failures(evaluator.group) if stays else None
    with state.trial():
        state.remove(instance, present)
        check = compared or evaluator.scope.tolerance(evaluator.rules)
        best: list[Placement] = []
        others: list[Placement] = []
        for place in islice(candidates.ranked(), MOST_PLACEMENTS_WITH_N1):
            allowed = check.allows(Move(instance, present if stays else (), place[1]))
            (best if allowed else others).append(place)
            if len(best) >= top:
                break
        if not rejects and len(best) < top:
            # Compare the placements after which failures lose more, those that lose least first
            growing = (compared or context.failures(evaluator.group)).comparison
            grown: list[tuple[tuple[float, ...], Placement]] = []
            for place in others[:MOST_LOSSES_COMPARED]:
                if growing.spent(SHARE_OF_WORK):
                    break
                with state.trial():
                    state.place(instance, place[1])
                    grown.append((growing.growth(), place))
            best += [place for _, place in sorted(grown, key=lambda one: one[0])]
            best += others[len(grown) :]
        if context.trace is not None:
            context.trace.preferred(evaluator, instance, ranked, best[:top], check)
    return best[:top]


def _violated_soft(context: Context, instance: Instance, nodes: tuple[int, ...]) -> dict[str, Any]:
    """Return the soft constraints that `instance` violates on `nodes`, for the entry of
    ``solutions``.

    The result is {} if there are none.
    """
    broken = context.affinity.broken(instance, nodes[0])
    return {"broken": broken} if broken else {}
