"""New instances placed together by exact search, where one after the other did not do.

Placing greedily takes the best place for each instance in turn; what it takes may be the
only place of a later one.  Here all are placed at once: what is linear is left to the
solver (`iallocator.solver`), and its answer is tried out by the rules that count for
any placement.
"""

from __future__ import annotations

from iallocator.model.columns import MEMORY
from iallocator.placement.groups import collect_offers, may_offer, offer_of
from iallocator.placement.joint_affinity import BondRows
from iallocator.solver.placement_problem import PlacementProblem
from iallocator.solver.problem import FOUND, IMPOSSIBLE, TIME_OUT, UNAVAILABLE
from iallocator.solver.refine import Deadline, search

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.options import Settings
    from iallocator.placement.context import Context
    from iallocator.placement.groups import AllocationRequest
    from iallocator.reply import GroupSolution

    Nodes = tuple[int, ...]

__all__ = [
    "JointResult", "broken_rules", "offer_exactly", "place_together", "places_of", "reserves",
    "told_apart",
]  # fmt: skip


class JointResult:
    """What came of placing instances together.

    ``status`` is one of `iallocator.solver.problem`; ``nodes`` are the places by instance,
    if found; ``alone`` names an instance that has no place even if it comes alone.
    """

    __slots__ = ("alone", "nodes", "status")

    def __init__(
        self, status: str, nodes: Mapping[str, Nodes] | None = None, alone: str = ""
    ) -> None:
        self.status = status
        self.nodes = dict(nodes or {})
        self.alone = alone

    def note(self, settings: Settings) -> str:
        """What to add to ``info``."""
        if self.alone:
            return ""
        return {
            FOUND: "; placed together by exact search",
            IMPOSSIBLE: "; exact search proved that no placement of all exists",
            TIME_OUT: f"; exact search found no answer within {settings.search_seconds:g} s",
            UNAVAILABLE: "; no exact search: its solver (highspy) is not installed",
        }[self.status]


def place_together(context: Context, wishes: Sequence[AllocationRequest]) -> JointResult:
    """Find a place for every wish, as the state is now; the state is left so."""
    deadline = Deadline(context.settings.search_seconds)
    problem = PlacementProblem(context.state, _lenient(context, wishes), reserves(context))
    bonds = BondRows(context, [wish.instance for wish in wishes])
    for wish in wishes:
        if collect_offers(context, wish).best is None:
            return JointResult(IMPOSSIBLE, alone=wish.instance.name)
        places = list(places_of(context, wish))
        problem.add(
            wish.instance,
            places,
            needs=bonds.needs(wish.instance, [nodes for _, nodes in places]),
            distinct=told_apart(context, wish.instance),
        )
        if deadline.left <= 0:
            return JointResult(TIME_OUT)
    program = problem.problem()
    bonds.bound(program)
    answer = search(program, lambda nodes: broken_rules(context, wishes, nodes), deadline)
    return JointResult(answer.status, answer.values(program))


def _lenient(context: Context, wishes: Sequence[AllocationRequest]) -> bool:
    """Whether soft limits are ignored in some group: then no row may hold to them."""
    groups = {group.index: group for wish in wishes for group in wish.groups}
    return any(context.settings_of(group).ignore_soft_errors for group in groups.values())


def places_of(
    context: Context, wish: AllocationRequest, scope: Sequence[int] | None = None
) -> Iterator[tuple[float, Nodes]]:
    """Every place that `wish` may have if nothing else comes, with its score over `scope`.

    Without a `scope` it is that of an allocation.
    """
    if scope is None:
        scope = wish.groups[0].nodes if wish.named else context.all_nodes()
    for group in wish.groups:
        evaluator = context.evaluator(group, scope)
        nodes = evaluator.online_nodes(wish.allowed)
        if not may_offer(context, wish, group, len(nodes)):
            continue
        yield from evaluator.new(wish.instance, nodes).everything()


def told_apart(context: Context, instance: Instance) -> tuple[Any, ...]:
    """What a strategy sees in an instance beside its size: our tags, and the keys asked for."""
    if context.settings.strategy == "score" and not context.settings.by_group:
        return ()
    prefix = context.settings.tag_prefix
    keys = (*instance.placement_keys, *instance.asked_keys)
    return (
        *(tag for tag in instance.tags if tag.startswith(prefix)),
        *((key.level, key.system, key.name, key.value, key.weight) for key in keys),
    )


def broken_rules(
    context: Context, wishes: Sequence[AllocationRequest], nodes: Mapping[str, Nodes]
) -> list[str] | None:
    """Try the places out, one after the other; the first that fails, and who was there before."""
    state = context.state
    placed: list[tuple[str, AllocationRequest]] = []
    try:
        for wish in wishes:
            instance = wish.instance
            offer = offer_exactly(context, wish, nodes[instance.name])
            if not offer.placements:
                return [*(name for name, _ in placed), instance.name]
            state.place(instance, nodes[instance.name])
            placed.append((instance.name, wish))
    finally:
        for name, wish in reversed(placed):
            state.remove(wish.instance, nodes[name])
    return None


def offer_exactly(context: Context, wish: AllocationRequest, nodes: Nodes) -> GroupSolution:
    """What the group of `nodes` offers if `wish` is to go to just these."""
    group = context.cluster.nodes[nodes[0]].group
    scope = group.nodes if wish.named else context.all_nodes()
    return offer_of(context, wish, context.evaluator(group, scope), only=nodes)


def reserves(context: Context) -> dict[int, float]:
    """Group index -> MiB that it can give before some failure can no longer be survived.

    When a node fails, all memory of its instances must be found on the other nodes that
    may take over; whatever is placed in the group comes off that, wherever it goes.
    """
    found = {group.index: _reserve(context, group) for group in context.cluster.groups}
    return {index: reserve for index, reserve in found.items() if reserve is not None}


def _reserve(context: Context, group: Group) -> float | None:
    evaluator = context.evaluator(group, context.all_nodes())
    state, rules = context.state, evaluator.rules
    if rules.mode == "off":
        return None
    targets = rules.targets(context.cluster, group)
    failing = rules.failing(context.cluster, group, context.all_nodes())
    judge = evaluator.scope.n1_check(rules)
    survivable = judge.survivable([node for node in failing if node in targets])
    free = {node: max(0, state.columns[MEMORY][node]) for node in targets}
    total = sum(free.values())
    spare = [
        total - free[node] - sum(i.memory for i in state.primaries[node].values() if i.uses_memory)
        for node in survivable
    ]
    return min(spare, default=None)
