"""Emptying nodes by balancing: each move the one that lowers the score most, alike ones as one.

Nearly all the work of balancing a group that loses nodes is to empty them, and most of what
is on them is alike: of those only the first few are scanned, until some have moved.
"""

from __future__ import annotations

from iallocator.deadline import check
from iallocator.planners.balance.greedy import GreedyBalancer
from iallocator.planners.balance.problem import BalanceProblem
from iallocator.planners.plan import Plan
from iallocator.scoring.state_score import score_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iallocator.model.instance import Instance
    from iallocator.planners.stop_criteria import StopCriteria

__all__ = ["empty"]

FEWEST = 16
"""Of so many instances that are alike at least the moves are known at a time."""

SHARE = 4
"""Of so many kinds one more: a scan of all is dear where all differ."""


def empty(problem: BalanceProblem, limits: StopCriteria, progress: Callable[[Plan], None]) -> Plan:
    """As a `GreedyBalancer` whose rules are to evacuate only; the moves are made in its state."""
    if problem.relations is not None and problem.relations.binding:
        return GreedyBalancer(problem, limits, progress).run()
    plan = Plan("balance", score_of(problem.state, problem.scope))
    waiting, centres = _waiting(problem), problem.means()
    while waiting and not plan.stop:
        check()
        count = max(FEWEST, len({_kind(problem, one) for one in waiting}) // SHARE)
        some = BalanceProblem(
            problem.state, problem.scope, problem.fixed, _first(problem, waiting, count),
            problem.rules, problem.relations, centres=centres,
        )  # fmt: skip
        found = GreedyBalancer(some, limits.at_most(count), progress).run()
        plan.moves += found.moves
        plan.stop, plan.reason = found.stop, found.reason
        if len(found.moves) < count:
            break
        waiting = _waiting(problem)
    return plan


def _waiting(problem: BalanceProblem) -> list[Instance]:
    """The instances that have a node which is not online."""
    nodes, where = problem.state.cluster.nodes, problem.state.where
    return [i for i in problem.instances if not all(nodes[index].online for index in where[i.name])]


def _first(problem: BalanceProblem, waiting: Sequence[Instance], count: int) -> list[Instance]:
    """The first `count` of each kind, in their order."""
    taken: dict[object, int] = {}
    found = []
    for one in waiting:
        kind = _kind(problem, one)
        taken[kind] = taken.get(kind, 0) + 1
        if taken[kind] <= count:
            found.append(one)
    return found


def _kind(problem: BalanceProblem, one: Instance) -> object:
    """Equal for instances whose moves have equal scores and limits."""
    state = problem.state
    here = state.where[one.name]
    nodes = [state.cluster.nodes[index] for index in here]
    bound = problem.relations is not None and problem.relations.binds(one.name)
    special = one.exclusion or one.desired or one.restricted or any(n.locations for n in nodes)
    if bound or special:
        return one.name
    source: object = here
    if len(here) == 1:
        source = nodes[0].migration, here[0] in problem.rules.leaving, nodes[0].online
    amounts = tuple(one.as_primary), tuple(one.as_secondary), one.memory, one.takeover_memory
    kind = one.template, one.forthcoming, one.reserves, one.spindles is None, one.counts_disk
    return source, amounts, kind
