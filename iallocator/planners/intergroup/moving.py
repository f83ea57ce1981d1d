"""Move instances to other groups, with the ranking of placements of new instances.

The best placements of the groups are compared by the allocation policy of the group, then by the
score over all nodes.  A placement is a candidate only if the limits of the nodes, global N+1, and
the steps that lead to it allow it.
"""

from __future__ import annotations

from iallocator.model.moves import FAILOVER_TO, Move
from iallocator.model.state import derived
from iallocator.placement.across_groups import MOST_EQUAL, AcrossGroups
from iallocator.placement.groups import collect_offers
from iallocator.placement.moves import move_pair
from iallocator.placement.results import AllocationRequest, MoveResult, ScoredMove
from iallocator.planners.intergroup.context import forbidden

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import Kept
    from iallocator.n1.tolerance import FailureTolerance
    from iallocator.placement.evaluator import Evaluator
    from iallocator.planners.intergroup.context import IntergroupContext


__all__ = ["Mover"]

MOST_REJECTIONS = 2
"""The number of rejections by N+1 after which a group is left out.

This applies if several instances share one ranking.
"""

HARDLY_MORE = 1.1
"""The factor by which a rejected instance may be larger and still predict a rejection."""


class Mover:
    """Finds placements in other groups, and the moves to them, in the state of its context.

    Attributes
    ----------
    ranking:
        Ranks the placements over all groups.
    gave_up_early:
        Whether the last search without a result did not check every node. This happens only if
        equal instances share one ranking.
    doubtful:
        Whether a placement was rejected that another order of the moves, or an exact check of
        N+1, might allow. Callers reset it. A search that sets it proves nothing.
    """

    __slots__ = (
        "_exact_n1",
        "_queue",
        "_rejections",
        "_steps",
        "context",
        "doubtful",
        "gave_up_early",
        "ranking",
    )

    def __init__(self, context: IntergroupContext) -> None:
        self.context = context
        self.ranking = AcrossGroups(context)
        self._queue: _Queue | None = None
        self._rejections: Kept[int, _Rejections] = {}
        self._steps: dict[int, Evaluator] = {}
        self._exact_n1: dict[int, bool] = {}
        self.gave_up_early = False
        self.doubtful = False

    def put(self, instance: Instance, nodes: Nodes) -> None:
        """Move `instance` to `nodes` in the state; if `nodes` is (), only remove it."""
        state = self.context.state
        present = state.where.get(instance.name, ())
        if present == nodes:
            return
        if present:
            state.remove(instance, present)
        if nodes:
            state.place(instance, nodes)

    def immovable(self, instance: Instance) -> str:
        """Return why `instance` cannot move to any other group; "" if it can."""
        relations = self.context.affinity.relations
        if instance.forthcoming:
            return "it does not exist yet"
        hindered = forbidden(self.context.settings_of(self.context.cluster.group_of(instance)))
        if hindered:
            return hindered
        if not instance.kind.planners_move:
            return f"instances of type {instance.template} cannot be moved"
        if relations is not None and instance.name in relations.stuck:
            return "it cannot be stopped, and must not be by force"
        if relations is not None and instance.name in relations.settled:
            return "its stickiness is infinite"
        return ""

    def relocate(self, instance: Instance, groups: Sequence[Group]) -> MoveResult:
        """Return the move of `instance` to the best placement in `groups`, or why there is none.

        The instance is on its present nodes in the state, which is restored.
        """
        hindered = self.immovable(instance)
        if hindered:
            return MoveResult(message=hindered)
        rejected = 0
        self.gave_up_early = False
        queue = self._queued(instance, groups)
        if queue is not None:
            for group, nodes in queue:
                move = self._way(instance, group, nodes)
                if move is not None:
                    queue.taken.update(nodes)
                    return MoveResult([ScoredMove(move)])
            self._queue = None  # the instances before this one have taken its places
        for group, nodes in self.ranking.ranked(instance, groups):
            move = self._way(instance, group, nodes)
            if move is not None:
                return MoveResult([ScoredMove(move)])
            rejected += 1
        return MoveResult(message=self._why(instance, groups, rejected))

    def _queued(self, instance: Instance, groups: Sequence[Group]) -> _Queue | None:
        """Return the ranked placements that earlier equal instances have not used.

        Placements on nodes that have received an instance since then are left out; on other nodes,
        the limits are unchanged. None if instances do not share a ranking.
        """
        if not self.ranking.shares_rankings or not self.context.plain:
            return None
        if instance.exclusion or instance.desired:
            return None
        home = self.context.cluster.nodes[self.context.state.where[instance.name][0]]
        key = (*instance.shape, home.migration, *(group.index for group in groups))
        queue = self._queue
        if queue is None or queue.key != key or queue.left == 0:
            queue = self._queue = _Queue(key, self.ranking.ranked(instance, groups))
        queue.left -= 1
        return queue

    def only(self, instance: Instance, nodes: Nodes) -> MoveResult:
        """Return the move of `instance` to exactly `nodes`, or why it is not possible now."""
        context, state = self.context, self.context.state
        group = context.cluster.nodes[nodes[0]].group
        evaluator, before = context.evaluator(group), state.where[instance.name]
        if self.ranking.open(instance, [group]):
            with state.trial():  # all limits and constraints except N+1
                state.remove(instance, before)
                rejected = any(
                    evaluator.check(Move(instance, before, after))
                    for after in dict.fromkeys((nodes[:1], nodes))
                )
            move = None if rejected else self._way(instance, group, nodes)
            if move is not None:
                return MoveResult([ScoredMove(move)])
        return MoveResult(message=f"group {group.name} cannot take it")

    def tolerance(self, group: Group) -> FailureTolerance:
        """Return the N+1 check of `group` in the present state."""
        evaluator = self.context.evaluator(group)
        return evaluator.scope.tolerance(evaluator.rules)

    def places(self, instance: Instance, groups: Sequence[Group]) -> Iterator[tuple[float, Nodes]]:
        """Yield placements in `groups` that limits allow, with scores.

        `instance` must not be placed.
        """
        if self.immovable(instance):
            return
        for group in self.ranking.open(instance, groups):
            candidates = self.ranking.in_group(instance, group)
            for number in range(candidates.rows()):
                yield from candidates.row(number)

    def _way(self, instance: Instance, group: Group, nodes: Nodes) -> Move | None:
        """Return the move to the placement `nodes`; None if its steps or N+1 do not allow it."""
        rejections = self._rejections_of(group)
        key = instance.shape
        if rejections.hold(key, nodes):
            self._note_doubt(instance, group)
            return None
        if self._rejected_before_others_move(instance, nodes[0]):
            self.doubtful = True
            return None
        if self.ranking.shares_rankings and rejections.count(instance.memory) >= MOST_REJECTIONS:
            self.gave_up_early = self.doubtful = True
            return None
        if not self.keeps_n1(instance, group, nodes):
            self._note_doubt(instance, group)
            return None
        move = self.way(instance, nodes)
        if move is None:  # there may be steps after other moves
            self.doubtful = True
        return move

    def _note_doubt(self, instance: Instance, group: Group) -> None:
        """Set `doubtful` if the final state of a plan could keep N+1 despite a rejection by N+1.

        With ``no-worse``, if a failure is not tolerated already, an instance that arrives is
        checked more strictly than a final state. The other modes restart instances one by one, each
        on the best node: another choice of nodes might restart all.
        """
        context = self.context
        rules = context.evaluator(group).rules
        exact = self._exact_n1.get(group.index)
        if exact is None:
            if rules.exact:
                failing = rules.of_online(context.cluster, group)
                exact = len(self.tolerance(group).tolerated(failing)) == len(failing)
            else:
                exact = all(one.required_nodes > 1 for one in context.cluster.members(group))
            self._exact_n1[group.index] = exact
        if not exact or (not rules.exact and instance.required_nodes == 1):
            self.doubtful = True

    def keeps_n1(self, instance: Instance, group: Group, nodes: Nodes) -> bool:
        """Return whether N+1 allows `instance` on `nodes` of `group`; rejections are remembered."""
        rejections, key = self._rejections_of(group), instance.shape
        if rejections.hold(key, nodes):
            return False
        if self.tolerance(group).allows(Move(instance, (), nodes)):
            return True
        rejections.add(key, nodes, instance.memory)
        return False

    def way(self, instance: Instance, nodes: Nodes) -> Move | None:
        """Return the move to `nodes`, which limits and N+1 allow; None if no steps lead to them."""
        if not instance.needs_secondary:
            before = self.context.state.where[instance.name]
            return Move(instance, before, nodes, [(FAILOVER_TO, nodes[0])])
        group = self.context.cluster.nodes[nodes[0]].group
        steps = self._steps.get(group.index)
        if steps is None:
            steps = self._steps[group.index] = self.context.evaluator(group).for_steps()
        return move_pair(self.context, steps, instance, nodes[:1], nodes[1:]).best

    def _rejected_before_others_move(self, instance: Instance, node: int) -> bool:
        """Return whether a constraint forbids `node` as long as no other instance has moved.

        While placements are chosen, instances that have not moved yet do not restrict others, but
        moves are made one after the other.
        """
        affinity = self.context.affinity
        waiting, affinity.pending = affinity.pending, set()
        try:
            return bool(affinity.rejected_passing(instance, [node]))
        finally:
            affinity.pending = waiting

    def _rejections_of(self, group: Group) -> _Rejections:
        """Return the placements in `group` that N+1 has rejected since the group last changed."""
        now = [self.context.state.stamps[index] for index in group.nodes]
        return derived(self._rejections, group.index, now, _Rejections)

    def _why(self, instance: Instance, groups: Sequence[Group], rejected: int) -> str:
        """Return in words why `instance` cannot be placed in any of `groups`."""
        if not groups:
            return "no other group has access to its storage"
        reasons = self.ranking.closed(instance)
        closed = [reasons[group.index] for group in groups if group.index in reasons]
        if len(closed) == len(groups):
            return "; ".join(closed)
        if rejected:
            tried = "the best" if self.gave_up_early else f"each of the {rejected}"
            return (
                f"{tried} placements left in the other groups would break N+1, "
                "or cannot be reached step by step"
            )
        offers = self.ranking.offers
        if offers is None:  # a ranking of all nodes has no rejections by group
            offers = collect_offers(self.context, AllocationRequest(instance, groups, new=False))
        return offers.line or "the other groups have no nodes"


class _Rejections:
    """The placements in a group that N+1 rejected, while the nodes of the group do not change."""

    __slots__ = ("_memory", "_places")

    def __init__(self) -> None:
        self._places: dict[tuple[object, ...], set[Nodes]] = {}
        self._memory: list[int] = []

    def add(self, key: tuple[object, ...], nodes: Nodes, memory: int) -> None:
        """Record that N+1 rejects instances with the shape `key` and `memory` MiB on `nodes`."""
        self._places.setdefault(key, set()).add(nodes)
        self._memory.append(memory)

    def hold(self, key: tuple[object, ...], nodes: Nodes) -> bool:
        """Return whether a rejection of instances with the shape `key` on `nodes` is recorded."""
        return nodes in self._places.get(key, ())

    def count(self, memory: int) -> int:
        """Return how many recorded rejections predict one for an instance of `memory` MiB."""
        return sum(1 for other in self._memory if other <= HARDLY_MORE * memory)


class _Queue:
    """Ranked placements that several equal instances use, one after the other.

    Attributes
    ----------
    key:
        The attributes that these instances have in common.
    left:
        How many more instances may use the ranking.
    taken:
        The nodes that have received an instance.
    """

    __slots__ = ("_places", "key", "left", "taken")

    def __init__(self, key: tuple[object, ...], places: Iterator[tuple[Group, Nodes]]) -> None:
        self.key = key
        self.left = MOST_EQUAL
        self.taken: set[int] = set()
        self._places = places

    def __iter__(self) -> Iterator[tuple[Group, Nodes]]:
        return (place for place in self._places if self.taken.isdisjoint(place[1]))
