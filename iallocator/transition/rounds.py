"""Transitions there and back: nodes are emptied, rebooted, and filled again, group by group."""

from __future__ import annotations

from dataclasses import dataclass

from iallocator.transition.paths import chain
from iallocator.transition.resources import Place
from iallocator.transition.step import DRAIN, REBOOT, UNDRAIN, Step
from iallocator.transition.transition import number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.moves import Move
    from iallocator.transition.resources import Amounts
    from iallocator.transition.separations import Separations
    from iallocator.transition.transition import Transition

__all__ = ["Round", "transition_of_rounds"]


@dataclass(frozen=True)
class Round:
    """Indices of nodes that are rebooted together; moves, in legal orders, before and after that.

    `master`: the node that cannot be drained; -1 if it is not known.
    """

    nodes: Sequence[int]
    out: Sequence[Move]
    back: Sequence[Move]
    master: int = -1


def transition_of_rounds(
    cluster: Cluster, left: Amounts, rounds: Iterable[Round], separations: Separations
) -> Transition:
    """The steps of `rounds`, one round after the other, where `left` is free at first.

    Every node but the master is drained before anything leaves it, and takes instances again
    before anything comes back.  `separations`: who must not meet whom on the way.
    """
    sequence: list[Step] = []
    earlier: list[Step] = []
    for one in rounds:
        made = _Steps(cluster, one)
        made.after(earlier)
        sequence += made.sequence()
        earlier = made.ends()
    separations.charge(sequence)
    shared = separations.yield_to(sequence)
    transition = number(cluster, sequence, left | separations.room)
    transition.remarks += shared
    transition.shares = separations.shares
    return transition


class _Steps:
    """The steps of one round, tied to each other."""

    def __init__(self, cluster: Cluster, one: Round) -> None:
        self._nodes = cluster.nodes
        switched = [index for index in one.nodes if index != one.master]
        self._drains = {index: Step(DRAIN, node=index) for index in switched}
        self._out = _chains(cluster, one.out)
        self._reboots = {index: Step(REBOOT, node=index) for index in one.nodes}
        self._opened = {index: Step(UNDRAIN, node=index) for index in switched}
        self._back = _chains(cluster, one.back)
        for index in one.nodes:
            # What happens around the reboot of one node, in order
            reboot, drain = self._reboots[index], self._drains.get(index)
            name = self._nodes[index].name
            if drain is not None:
                reboot.needs[drain] = "the step before"
            for steps in self._out:
                leaving = [step for step in steps if step.leaves(index) or _ran(step, index)]
                reboot.needs |= dict.fromkeys(leaving, f"{steps[0].name} leaves {name}")
                if leaving and drain is not None:
                    steps[0].needs[drain] = f"{name} is drained"
            opened = self._opened.get(index, reboot)
            if opened is not reboot:
                opened.needs[reboot] = f"{name} is up again"
            for steps in self._back:
                for step in steps:
                    if step.comes_to(index):
                        step.needs[opened] = f"{name} takes instances"

    def after(self, earlier: Sequence[Step]) -> None:
        """Begin when the steps that end the round before are done."""
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
        """All of them, each after what it needs."""
        out, back = (
            [step for steps in chains for step in steps] for chains in (self._out, self._back)
        )
        nodes = (self._drains, self._reboots, self._opened)
        drains, reboots, opened = (list(steps.values()) for steps in nodes)
        return [*drains, *out, *reboots, *opened, *back]

    def ends(self) -> list[Step]:
        """Those after which the round is over."""
        last = [*self._opened.values(), *(steps[-1] for steps in self._back)]
        return last or list(self._reboots.values())


def _ran(step: Step, index: int) -> bool:
    """Whether the instance runs on the node of that index before the step, and not after it."""
    assert step.before is not None
    assert step.after is not None
    return step.before.nodes[0] == index and step.after.nodes[0] != index


def _chains(cluster: Cluster, moves: Iterable[Move]) -> list[list[Step]]:
    return [
        chain(m.instance, Place(m.before, m.instance.uses_memory), m.steps, cluster) for m in moves
    ]
