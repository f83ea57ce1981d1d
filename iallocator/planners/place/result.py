"""A whole cluster placed anew: from the places to moves, a transition, and scores."""

from __future__ import annotations

from iallocator.model.moves import FAILOVER, FAILOVER_TO, REPLACE_SECONDARY, apply_steps
from iallocator.model.state import State
from iallocator.placement.context import Context
from iallocator.planners.eligible import score_of
from iallocator.planners.place.whole import place_cluster
from iallocator.planners.plan import PlannedMove, traffic
from iallocator.transition.assemble import plan_transition

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.model.moves import ElementaryMove
    from iallocator.options import Settings
    from iallocator.planners.place.scheduler import ScheduleResult
    from iallocator.requests import Allocate
    from iallocator.transition.transition import Transition

__all__ = ["Placed", "in_document_order", "place_anew", "steps_between"]

LETTERS = {FAILOVER: "f", REPLACE_SECONDARY: "r", FAILOVER_TO: "fa"}


class Placed:
    """What came of placing a cluster anew.

    Attributes
    ----------
    places:
        In the order in which instances chose.
    names:
        The instances in the order of the document, new ones last.
    moves:
        Of the instances that change their nodes, in the order of the transition.
    transition:
        The steps, and what each waits for.
    before, after:
        The state of the cluster then.
    remarks:
        What is worth knowing besides, for stderr.
    """

    def __init__(
        self, strategy: str, before: State, places: Sequence[ScheduleResult], names: Sequence[str]
    ) -> None:
        self.strategy = strategy
        self.cluster: Cluster = before.cluster
        self.before = before
        self.places = places
        self.names = names
        self.after = before
        self.moves: list[PlannedMove] = []
        self.transition: Transition
        self.remarks: list[str] = []

    @property
    def scores(self) -> tuple[float, float]:
        """Of all nodes, before and after; lower is better."""
        scope = range(len(self.cluster.nodes))
        return score_of(self.before, scope), score_of(self.after, scope)


def in_document_order(cluster: Cluster, names: Sequence[str] | None) -> list[Instance]:
    """The instances of `cluster` as the document has them, whose order is `names`.

    None: as they stand in `cluster`, which is by name.
    """
    if names is None:
        return list(cluster.instances)
    position = {name: k for k, name in enumerate(names)}
    return sorted(cluster.instances, key=lambda i: position[i.name])


def place_anew(
    cluster: Cluster,
    settings: Settings,
    strategy: str,
    instances: Sequence[Instance],
    wanted: Sequence[Allocate],
) -> Placed:
    """Place `instances` and then the new ones in `wanted` by one of Pacemaker's strategies."""
    new = [one.instance for one in wanted]
    context = Context(cluster, settings, coming=new)
    before = State(cluster)
    places = place_cluster(context, strategy, instances, wanted)
    placed = Placed(strategy, before, places, [i.name for i in (*instances, *new)])
    for place in places:
        if place.node is not None:
            place.broken = context.bonds.broken(place.instance, place.node)
    placed.after = context.state
    placed.remarks = context.remarks
    aims = {
        place.instance.name: place.nodes
        for place in places
        if place.nodes != place.before and (place.nodes or place.runs)
    }
    created = [instance for instance in new if instance.name in aims]
    placed.transition = plan_transition(before, aims, created, context.bonds.demands())
    placed.moves = _moves(placed)
    return placed


def _moves(placed: Placed) -> list[PlannedMove]:
    """One move per instance that changes its nodes, in the order of their first steps."""
    first: dict[str, int] = {}
    for step in placed.transition.steps:
        if step.task.instance is not None:
            first.setdefault(step.task.instance.name, step.number)
    changed = [p for p in placed.places if p.before and p.nodes and p.nodes != p.before]
    changed.sort(key=lambda place: first.get(place.instance.name, 0))
    state = State(placed.cluster)
    moves = []
    for place in changed:
        assert place.nodes is not None
        steps = steps_between(place.before, place.nodes)
        apply_steps(state, place.instance, steps)
        group = placed.cluster.nodes[place.nodes[0]].group
        letters = [LETTERS[kind] for kind, _ in steps]
        names = placed.cluster.node_names([target for _, target in steps])
        notation = " ".join(
            letter if letter == "f" else f"{letter}:{name}" for letter, name in zip(letters, names)
        )
        score = score_of(state, group.nodes)
        copied = traffic(place.instance, letters)
        move = PlannedMove(place.instance, place.before, steps, notation, score, copied)
        move.broken = place.broken
        moves.append(move)
    return moves


def steps_between(before: tuple[int, ...], after: tuple[int, ...]) -> list[ElementaryMove]:
    """The elementary moves that bring an instance from `before` to `after`, primary first."""
    if before == after:
        return []
    if len(before) == 1:
        return [(FAILOVER_TO, after[0])]
    primary, secondary = after
    steps: list[ElementaryMove] = []
    now = before
    if primary != now[0]:
        if primary != now[1]:
            steps.append((REPLACE_SECONDARY, primary))
        steps.append((FAILOVER, primary))
        now = (primary, now[0])
    if secondary != now[1]:
        steps.append((REPLACE_SECONDARY, secondary))
    return steps
