"""Moving one instance: every way there is, each step checked, the best kept.

All functions look at `context.state` as it is and leave it so; the caller carries
out what it likes.  The final score runs over the group that the instance goes to.
"""

from __future__ import annotations

from iallocator.filters.migration import may_not_receive
from iallocator.filters.node import (
    ABANDONED,
    FORCED_LIMITS,
    PRIMARY,
    SECONDARY,
    checks_for,
)
from iallocator.model.moves import FAILOVER, FAILOVER_TO, REPLACE_SECONDARY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iallocator.context import Context
    from iallocator.filters.node import Check
    from iallocator.model.instance import Instance
    from iallocator.model.moves import Step
    from iallocator.scoring import Kernel
    from iallocator.scoring.candidates import Candidates

__all__ = ["Move", "Outcome", "fail_over", "move_anywhere", "move_pair", "move_secondary"]


class Move:
    """A way to move an instance: the steps, where it ends, and the score then."""

    __slots__ = ("nodes", "score", "steps")

    def __init__(self, score: float, nodes: tuple[int, ...], steps: Sequence[Step]) -> None:
        self.score = score
        self.nodes = nodes
        self.steps = tuple(steps)


class Outcome:
    """The ways found to move an instance, best first, or why there is none.

    ``failures`` counts by reason the nodes, or pairs of nodes, that were refused.
    """

    __slots__ = ("failures", "message", "moves")

    def __init__(
        self,
        moves: Sequence[Move] = (),
        message: str = "",
        failures: dict[str, int] | None = None,
    ) -> None:
        self.moves = list(moves)
        self.message = message
        self.failures = failures or {}

    @property
    def best(self) -> Move | None:
        """The best way, if there is one."""
        return self.moves[0] if self.moves else None


def move_anywhere(context: Context, instance: Instance, targets: Sequence[int]) -> Outcome:
    """Move an instance on shared storage to the best of `targets`."""
    state = context.state
    present = state.where[instance.name]
    source = present[0]
    others = [index for index in targets if index != source]
    if not others:
        return Outcome(message="Can't find any good node: no nodes available")
    limits = context.move_limits(source)
    with state.trial():
        state.remove(instance, present)
        kernel = context.kernel(context.cluster.nodes[others[0]].group.nodes)
        refusals = may_not_receive(context.cluster, source, others)
        found = kernel.singles(instance, others, refusals, limits)
    return _outcome(context, found, lambda nodes: [(FAILOVER_TO, nodes[0])])


def move_secondary(context: Context, instance: Instance, targets: Sequence[int]) -> Outcome:
    """Give a drbd instance the best secondary of `targets`."""
    state = context.state
    present = state.where[instance.name]
    primary = present[0]
    others = [index for index in targets if index not in present]
    if not others:
        return Outcome(message="Can't find any good node: no nodes available")
    with state.trial():
        state.remove(instance, present)
        kernel = context.kernel(context.cluster.nodes[primary].group.nodes)
        limits = context.move_limits(present[-1])
        if context.settings.like_hail:  # hail tests the disk of the primary again
            found = kernel.pairs(instance, [primary], others, {}, FORCED_LIMITS, limits)
        else:
            found = kernel.secondaries(instance, primary, others, limits)
    return _outcome(context, found, lambda nodes: [(REPLACE_SECONDARY, nodes[1])])


def fail_over(context: Context, instance: Instance) -> Outcome:
    """Exchange the roles of a drbd instance's nodes."""
    state = context.state
    present = state.where[instance.name]
    if len(present) < 2:
        return Outcome(message="Instance has no secondary to fail over to")
    old, new = present
    if not _may_take_over(context, new):
        return Outcome(message=f"Its secondary {context.cluster.nodes[new].name} is not online")
    reason = _failover_refusal(context, instance, old, new)
    if reason is not None:
        return Outcome(message=reason, failures={reason: 1})
    with state.trial():
        state.remove(instance, present)
        state.place(instance, (new, old))
        score = context.kernel(context.cluster.nodes[new].group.nodes).score()
    return Outcome([Move(score, (new, old), [(FAILOVER, new)])])


def move_pair(context: Context, instance: Instance, targets: Sequence[int]) -> Outcome:
    """Move both nodes of a drbd instance to the best ordered pair of `targets`.

    The steps: a failover first if the primary is not online; the secondary to the
    new primary; failover; the secondary to the new secondary.
    """
    state, cluster = context.state, context.cluster
    present = state.where[instance.name]
    first: list[Step] = []
    targets = [index for index in targets if index not in present]
    if len(present) < 2:
        return Outcome(message="Instance has no secondary")
    if len(targets) < 2:
        return Outcome(
            message="Can't find any good nodes for relocation: no nodes available"
        )
    old, mirror = present
    if not cluster.nodes[old].online:
        if not _may_take_over(context, mirror):
            return _no_pair(f"its secondary {cluster.nodes[mirror].name} is not online", {})
        reason = _failover_refusal(context, instance, old, mirror)
        if reason is not None:
            return _no_pair(f"Failing over to the secondary: {reason}", {reason: 1})
        first = [(FAILOVER, mirror)]
        old, mirror = mirror, old
    with state.trial():
        state.remove(instance, present)
        kernel = context.kernel(cluster.nodes[targets[0]].group.nodes)
        refusals = _step_refusals(context, kernel, instance, (old, mirror), targets)
        limits = context.move_limits(old)
        found = kernel.pairs(instance, targets, targets, refusals, limits)
    outcome = _outcome(
        context,
        found,
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


def _no_pair(why: str, failures: dict[str, int]) -> Outcome:
    return Outcome(message=f"Can't find any good nodes for relocation: {why}", failures=failures)


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
    refusals = may_not_receive(context.cluster, old, targets)
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
    refused = may_not_receive(context.cluster, old, (new,))
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
    found: Candidates,
    steps: Callable[[tuple[int, ...]], list[Step]],
) -> Outcome:
    """The best placements in `found`, as moves."""
    if not found.feasible:
        return Outcome(
            message=f"Can't find any good node: {_tally(found.failures)}",
            failures=found.failures,
        )
    moves: list[Move] = []
    for score, nodes in found.ranked():
        moves.append(Move(score, nodes, steps(nodes)))
        if len(moves) >= context.settings.top:
            break
    return Outcome(moves, failures=found.failures)


def _tally(failures: dict[str, int]) -> str:
    from iallocator.reply import tally

    return tally(failures)
