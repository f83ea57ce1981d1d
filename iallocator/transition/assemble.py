"""Make a transition from present and requested placements, or from moves.

`transition_of_rounds` empties nodes, reboots them and fills them again, group by group.
"""

from __future__ import annotations

from iallocator.light import ValueObject
from iallocator.transition.paths import (
    BEFORE_MOVES,
    chain,
    dead_steps,
    fences,
    node_steps,
    tie_orders,
)
from iallocator.transition.planner import TransitionPlanner
from iallocator.transition.requirements import Demands, NodeChanges
from iallocator.transition.resources import Place
from iallocator.transition.schedule import arrange
from iallocator.transition.step import DRAIN, PROMOTE, REBOOT, UNDRAIN, Step
from iallocator.transition.transition import number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.model.moves import Move
    from iallocator.model.state import State
    from iallocator.transition.resources import Amounts
    from iallocator.transition.separations import Separations
    from iallocator.transition.transition import Transition

__all__ = ["Round", "plan_transition", "transition_of_moves", "transition_of_rounds"]


def plan_transition(
    state: State,
    wanted: Mapping[str, tuple[int, ...] | None],
    new: Iterable[Instance] = (),
    demands: Demands | None = None,
) -> Transition:
    """Return the transition from `state` to the requested placements of instances.

    Parameters
    ----------
    state
        The present placement; it is not changed.
    wanted
        Instance name -> indices of its nodes, primary first; None: stop the instance. Other
        instances stay.
    new
        Instances that do not exist yet; `wanted` has their nodes.
    demands
        The orders of starts, the nodes to power on or off, and other requirements.

    Changes that cannot be made are in `Transition.left`, with the reason.

    Raises
    ------
    LookupError
        If a name in `wanted` is unknown.
    """
    demands = demands or Demands()
    planner = TransitionPlanner(state, wanted, new, demands)
    numbered = [number(state.cluster, sequence, planner.room) for sequence in planner.plan()]
    transition = min(numbered, key=lambda one: (one.pairs, one.longest))
    transition.left = planner.left
    transition.remarks = planner.remarks + transition.remarks
    return transition


def transition_of_moves(
    cluster: Cluster,
    left: Amounts,
    moves: Iterable[Move],
    orders: Sequence[tuple[str, str, str]] = (),
    around: NodeChanges | None = None,
    separations: Separations | None = None,
) -> Transition:
    """Return the transition with the steps of `moves`, which are legal one after the other.

    Instances that ran on an offline node start only after that node is fenced.

    Parameters
    ----------
    cluster
        The cluster with the nodes.
    left
        The free amounts of every node before the first move, as from `resources.room`.
    moves
        The moves. An instance may move more than once.
    orders
        (before, after, strength): pairs of instances that must start in this order, as in
        `Demands`. The moves are reordered to meet the orders; each order that cannot be met has a
        remark.
    around
        Changes of nodes: power, drained flags and tags.
    separations
        The instances that must not share a node during the transition.
    """
    moves = list(moves)
    arranged = arrange(cluster, left, moves, orders, separations)
    chains: dict[str, list[Step]] = {}
    last: dict[str, Step] = {}
    sequence: list[Step] = []
    off = around.power_on if around is not None else ()
    for move in (moves[k] for k in arranged.positions):
        instance, name = move.instance, move.instance.name
        live = name in last or move.before[0] not in off  # nothing runs on a node that is off
        made = chain(instance, Place(move.before, instance.uses_memory), move.steps, cluster, live)
        if not made:
            continue
        if name in last:
            made[0].needs[last[name]] = "the step before"
        last[name] = made[-1]
        sequence += made
        chains.setdefault(name, []).extend(made)
    tie_orders(chains, arranged.orders)
    shared: list[str] = []
    if separations is not None:
        separations.charge(sequence)
        shared = separations.allow_meetings(sequence)
        left = left | separations.room
    if around is not None:
        made = node_steps(cluster, around, sequence)
        first = [action for action in made if action.kind in BEFORE_MOVES]
        dead = dead_steps(cluster, around, sequence)
        sequence = [*dead, *first, *sequence, *(action for action in made if action not in first)]
    known = around.dead if around is not None else ()
    transition = number(cluster, [*fences(cluster, sequence, known), *sequence], left)
    transition.remarks += arranged.remarks + shared
    transition.sequence = list(arranged.positions)
    transition.shares = separations.shares if separations is not None else frozenset()
    return transition


class Round(ValueObject):
    """Nodes that are rebooted together, with the moves before and after the reboots.

    The moves are in a legal order. `nodes` are indices. `master`: the index of the master node,
    which cannot be drained; -1 if it is not known. `settles`: whether the moves after the reboots
    wait until all nodes are back.
    """

    nodes: Sequence[int]
    out: Sequence[Move]
    back: Sequence[Move]
    master: int = -1
    settles: bool = False


def transition_of_rounds(
    cluster: Cluster, left: Amounts, rounds: Iterable[Round], separations: Separations
) -> Transition:
    """Return the transition with the steps of `rounds`, one round after the other.

    Every node except the master is drained before an instance leaves it, and undrained before an
    instance returns. `left`: the free amounts of every node before the first round. `separations`:
    the instances that must not share a node during the transition.
    """
    sequence: list[Step] = []
    earlier: list[Step] = []
    for one in rounds:
        made = _Steps(cluster, one)
        made.after(earlier)
        sequence += made.sequence()
        earlier = made.ends()
    separations.charge(sequence)
    shared = separations.allow_meetings(sequence)
    transition = number(cluster, sequence, left | separations.room)
    transition.remarks += shared
    transition.shares = separations.shares
    return transition


class _Steps:
    """The steps of one round, with their dependencies."""

    def __init__(self, cluster: Cluster, one: Round) -> None:
        self._nodes = cluster.nodes
        switched = [index for index in one.nodes if index != one.master]
        self._drains = {index: Step(DRAIN, node=index) for index in switched}
        self._out = _chains(cluster, one.out)
        self._reboots = {index: Step(REBOOT, node=index) for index in one.nodes}
        self._opened = {index: Step(UNDRAIN, node=index) for index in switched}
        self._promoted: list[Step] = []
        for index, step in self._opened.items():
            here = cluster.nodes[index]
            if not here.master_candidate or here.drained or here.offline:
                continue
            if len(one.nodes) == 1:
                step.promotes = True
                continue
            # Ganeti writes the SSH key of a master candidate to nodes that answer only
            promote = Step(PROMOTE, node=index)
            promote.needs[step] = "the step before"
            for other, reboot in self._reboots.items():
                if other != index:
                    promote.needs[reboot] = f"{cluster.nodes[other].name} is up again"
            self._promoted.append(promote)
        self._back = _chains(cluster, one.back)
        last: dict[str, Step] = {}
        for steps in self._back:  # an instance may move more than once
            if steps[0].name in last:
                steps[0].needs[last[steps[0].name]] = "the step before"
            last[steps[0].name] = steps[-1]

        def ran(step: Step, index: int) -> bool:
            """Return whether the step moves the primary of its instance away from node `index`."""
            assert step.before is not None
            assert step.after is not None
            return step.before.nodes[0] == index and step.after.nodes[0] != index

        for index in one.nodes:
            # The steps around the reboot of a node, in order
            reboot, drain = self._reboots[index], self._drains.get(index)
            name = self._nodes[index].name
            if drain is not None:
                reboot.needs[drain] = "the step before"
            for steps in self._out:
                leaving = [step for step in steps if step.leaves(index) or ran(step, index)]
                reboot.needs |= dict.fromkeys(leaving, f"{steps[0].name} leaves {name}")
                if leaving and drain is not None:
                    steps[0].needs[drain] = f"{name} is drained"
            opened = self._opened.get(index, reboot)
            if opened is not reboot:
                opened.needs[reboot] = f"{name} is up again"
            for steps in self._back:
                for step in steps:
                    if step.comes_to(index) or one.settles:
                        step.needs[opened] = f"{name} takes instances"

    def after(self, earlier: Sequence[Step]) -> None:
        """Add dependencies: this round begins after the steps `earlier` of the previous round."""
        others = [
            *self._drains.values(),
            *[*(steps[0] for steps in self._out), *self._reboots.values()],
        ]
        if self._drains:
            first, *others = others
            first.needs |= dict.fromkeys(earlier, "the round before")
            earlier = [first]
        for step in others:
            for before in earlier:
                step.needs.setdefault(before, "the round before")

    def sequence(self) -> list[Step]:
        """Return all steps in a legal order."""
        out, back = (
            [step for steps in chains for step in steps] for chains in (self._out, self._back)
        )
        nodes = (self._drains, self._reboots, self._opened)
        drains, reboots, opened = (list(steps.values()) for steps in nodes)
        return [*drains, *out, *reboots, *opened, *back, *self._promoted]

    def ends(self) -> list[Step]:
        """Return the last steps of the round, on which the next round depends."""
        last = [*self._opened.values(), *(steps[-1] for steps in self._back)]
        return last or list(self._reboots.values())


def _chains(cluster: Cluster, moves: Iterable[Move]) -> list[list[Step]]:
    return [
        chain(m.instance, Place(m.before, m.instance.uses_memory), m.steps, cluster) for m in moves
    ]
