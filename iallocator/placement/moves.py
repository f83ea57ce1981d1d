"""Moving one instance: every way there is, each step checked, the best kept.

All functions look at `context.state` as it is and leave it so; the caller carries
out what it likes.  The final score runs over the group that the instance goes to.
"""

from __future__ import annotations

from iallocator.limits.group import out_of_reach
from iallocator.limits.migration import may_not_receive
from iallocator.limits.node import (
    ABANDONED,
    FORCED_LIMITS,
    PRIMARY,
    SECONDARY,
    checks_for,
)
from iallocator.model.moves import FAILOVER, FAILOVER_TO, REPLACE_SECONDARY
from iallocator.placement.new import other_nodes
from iallocator.placement.ranked_moves import rank_moves, unranked_extra

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from iallocator.limits.node import Check
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.moves import ElementaryMove
    from iallocator.placement.context import Context
    from iallocator.placement.ranked_moves import RankedMoves
    from iallocator.ranking.pairs import OrderedCandidates
    from iallocator.scoring import Kernel

__all__ = ["MoveOption", "MoveResult", "fail_over", "move_anywhere", "move_pair", "move_secondary"]


class MoveOption:
    """A way to move an instance: the steps, where it ends, and the score then.

    ``extra`` is what a strategy adds to the entry of ``solutions``.
    """

    __slots__ = ("extra", "nodes", "score", "steps")

    def __init__(
        self, score: float, nodes: tuple[int, ...], steps: Sequence[ElementaryMove]
    ) -> None:
        self.score = score
        self.nodes = nodes
        self.steps = tuple(steps)
        self.extra: dict[str, Any] = {}


class MoveResult:
    """The ways found to move an instance, best first, or why there is none.

    ``failures`` counts by reason the nodes, or pairs of nodes, that were refused.
    ``others`` are the nodes that an instance on shared storage could fail over to from
    its new place, best first; None for others.  ``order`` is the order of a strategy that
    ranked the nodes; None for others.  ``ranks`` is what lost allocations ranked them by.
    """

    __slots__ = ("failures", "message", "moves", "order", "others", "ranks")

    def __init__(
        self,
        moves: Sequence[MoveOption] = (),
        message: str = "",
        failures: dict[str, int] | None = None,
    ) -> None:
        self.moves = list(moves)
        self.message = message
        self.failures = failures or {}
        self.others: list[int] | None = None
        self.order: OrderedCandidates | None = None
        self.ranks: dict[tuple[int, ...], Any] = {}

    @property
    def best(self) -> MoveOption | None:
        """The best way, if there is one."""
        return self.moves[0] if self.moves else None


def move_anywhere(context: Context, instance: Instance, targets: Sequence[int]) -> MoveResult:
    """Move an instance on shared storage to the best of `targets`."""
    state = context.state
    present = state.where[instance.name]
    source = present[0]
    others = [index for index in targets if index != source]
    if not others:
        return MoveResult(message="Can't find any good node: no nodes available")
    unreached = _unreached(context, instance, others)
    if unreached is not None:
        return unreached
    group = context.cluster.nodes[others[0]].group
    context.look_at(group)
    limits = context.move_limits(source)
    with state.trial():
        state.remove(instance, present)
        kernel = context.kernel(group.nodes)
        refusals = context.bonds.refused(instance, others)
        refusals |= may_not_receive(context.cluster, source, others)
        found = rank_moves(
            context, group, instance, kernel.singles(instance, others, refusals, limits), present
        )
    outcome = _outcome(context, group, found, instance, lambda nodes: [(FAILOVER_TO, nodes[0])])
    if outcome.best and instance.external:
        outcome.others = other_nodes(found.candidates, outcome.best.nodes)
    return outcome


def move_secondary(context: Context, instance: Instance, targets: Sequence[int]) -> MoveResult:
    """Give a drbd instance the best secondary of `targets`."""
    state = context.state
    present = state.where[instance.name]
    primary = present[0]
    others = [index for index in targets if index not in present]
    if not others:
        return MoveResult(message="Can't find any good node: no nodes available")
    unreached = _unreached(context, instance, others)
    if unreached is not None:
        return unreached
    group = context.cluster.nodes[primary].group
    context.look_at(group)
    with state.trial():
        state.remove(instance, present)
        kernel = context.kernel(group.nodes)
        limits = context.move_limits(present[-1])
        if context.settings.like_hail:  # hail tests the disk of the primary again
            found = kernel.pairs(instance, [primary], others, {}, FORCED_LIMITS, limits)
        else:
            found = kernel.secondaries(instance, primary, others, limits)
        ranked = rank_moves(context, group, instance, found, present, primary_given=True)
    return _outcome(context, group, ranked, instance, lambda nodes: [(REPLACE_SECONDARY, nodes[1])])


def _unreached(context: Context, instance: Instance, nodes: Sequence[int]) -> MoveResult | None:
    """The outcome if none of `nodes`, which are of one group, reaches the storage pools."""
    pools = out_of_reach(context.cluster, nodes, instance)
    if not pools:
        return None
    group = context.cluster.nodes[nodes[0]].group.name
    why = f"no other node of group {group} reaches {pools}"
    return MoveResult(message=f"Can't find any good node: {why}", failures={"FailDisk": len(nodes)})


def fail_over(context: Context, instance: Instance) -> MoveResult:
    """Exchange the roles of a drbd instance's nodes."""
    state = context.state
    present = state.where[instance.name]
    if len(present) < 2:
        return MoveResult(message="Instance has no secondary to fail over to")
    old, new = present
    if not _may_take_over(context, new):
        return MoveResult(message=f"Its secondary {context.cluster.nodes[new].name} is not online")
    reason = _failover_refusal(context, instance, old, new)
    if reason is not None:
        return MoveResult(message=reason, failures={reason: 1})
    with state.trial():
        state.remove(instance, present)
        group = context.cluster.nodes[new].group
        extra = unranked_extra(context, group, instance, present, new)
        state.place(instance, (new, old))
        score = context.kernel(group.nodes).score()
    move = MoveOption(score, (new, old), [(FAILOVER, new)])
    move.extra = extra | _wishes(context, instance, (new, old))
    return MoveResult([move])


def move_pair(
    context: Context,
    instance: Instance,
    targets: Sequence[int],
    seconds: Sequence[int] | None = None,
) -> MoveResult:
    """Move both nodes of a drbd instance to the best ordered pair of `targets`.

    `seconds` are the nodes for the new secondary, if those are not the same.

    The steps: a failover first if the primary is not online; the secondary to the
    new primary; failover; the secondary to the new secondary.
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
    old, mirror = present
    if not cluster.nodes[old].online:
        if not _may_take_over(context, mirror):
            return _no_pair(f"its secondary {cluster.nodes[mirror].name} is not online", {})
        reason = _failover_refusal(context, instance, old, mirror)
        if reason is not None:
            return _no_pair(f"Failing over to the secondary: {reason}", {reason: 1})
        first = [(FAILOVER, mirror)]
        old, mirror = mirror, old
    group = cluster.nodes[targets[0]].group
    context.look_at(group)
    with state.trial():
        state.remove(instance, present)
        kernel = context.kernel(group.nodes)
        refusals = _step_refusals(context, kernel, instance, (old, mirror), targets)
        limits = context.move_limits(old)
        found = rank_moves(
            context,
            group,
            instance,
            kernel.pairs(instance, targets, seconds, refusals, limits),
            present,
        )
    outcome = _outcome(
        context,
        group,
        found,
        instance,
        lambda nodes: [
            *first,
            (REPLACE_SECONDARY, nodes[0]),
            (FAILOVER, nodes[0]),
            (REPLACE_SECONDARY, nodes[1]),
        ],
    )
    if outcome.best is None:
        return _no_pair(_tally(outcome.failures), outcome.failures)
    return outcome


def _no_pair(why: str, failures: dict[str, int]) -> MoveResult:
    return MoveResult(message=f"Can't find any good nodes for relocation: {why}", failures=failures)


def _step_refusals(
    context: Context,
    kernel: Kernel,
    instance: Instance,
    present: tuple[int, int],
    targets: Sequence[int],
) -> dict[int, str]:
    """Why a target cannot be the new primary, before its own limits as primary count.

    It must first take the mirror of an instance on `present`, then receive it from the
    primary there, which keeps the mirror.  The instance is off its nodes now.
    """
    old, mirror = present
    refusals = context.bonds.refused(instance, targets)
    refusals |= may_not_receive(context.cluster, old, targets)
    limits = context.move_limits(mirror)
    refusals = kernel.mirror_refusals(instance, old, targets, limits) | refusals
    checker = context.kernels.checker(context.state)
    left = _left_behind(context, instance, old)
    peers = context.state.peers[old]
    keeps: dict[float, str | None] = {}  # by what the old primary reserves for the new one
    for index in targets:
        amount = peers.get(index, 0)
        if amount not in keeps:
            keeps[amount] = checker.secondary_refusal(instance, index, old, left)
        reason = keeps[amount]
        if reason is not None and index not in refusals:
            refusals[index] = reason
    return refusals


def _may_take_over(context: Context, node: int) -> bool:
    """Whether Ganeti would let an instance fail over to the node; hail does not ask."""
    return context.cluster.nodes[node].online or context.settings.like_hail


def _failover_refusal(context: Context, instance: Instance, old: int, new: int) -> str | None:
    """Why a drbd instance on `old` cannot fail over to its secondary `new`, or None."""
    state = context.state
    refused = context.bonds.refused(instance, (new,))
    refused |= may_not_receive(context.cluster, old, (new,))
    if refused:
        return refused[new]
    with state.trial():
        state.remove(instance, (old, new))
        checker = context.kernels.checker(state)
        on_new = checks_for(PRIMARY, instance, context.move_limits(old))
        on_old = _left_behind(context, instance, old)
        return checker.primary_refusal(instance, new, on_new) or checker.secondary_refusal(
            instance, new, old, on_old
        )


def _left_behind(context: Context, instance: Instance, old: int) -> Sequence[Check]:
    """What is tested on the old primary of a failover, which becomes the secondary."""
    checks = SECONDARY if context.cluster.nodes[old].online else ABANDONED
    return checks_for(checks, instance, context.move_limits(old))


def _outcome(
    context: Context,
    group: Group,
    found: RankedMoves,
    instance: Instance,
    steps: Callable[[tuple[int, ...]], list[ElementaryMove]],
) -> MoveResult:
    """The best placements of `instance` in `found`, as moves into `group`."""
    candidates, order = found.candidates, found.order
    outcome = MoveResult(failures=candidates.failures)
    outcome.order = order
    if not candidates.feasible:
        outcome.message = f"Can't find any good node: {_tally(candidates.failures)}"
        return outcome
    settings = context.settings_of(group)
    for rank, nodes in candidates.ranked():
        move = MoveOption(found.scores[nodes] if found.scores else rank, nodes, steps(nodes))
        if settings.strategy != "score":
            move.extra = {"strategy": settings.strategy}
            if order is not None:
                move.extra |= order.extra(nodes)
            else:
                outcome.ranks[nodes] = rank
        move.extra |= _wishes(context, instance, nodes)
        outcome.moves.append(move)
        if len(outcome.moves) >= settings.top:
            break
    return outcome


def _wishes(context: Context, instance: Instance, nodes: tuple[int, ...]) -> dict[str, Any]:
    """What the entry of ``solutions`` says of wishes that the place breaks."""
    broken = context.bonds.broken(instance, nodes[0])
    return {"broken": broken} if broken else {}


def _tally(failures: dict[str, int]) -> str:
    from iallocator.reply import tally

    return tally(failures)
