"""The load of groups against their capacity, and how unevenly it lies on them."""

from __future__ import annotations

from math import sqrt

from iallocator.model.columns import CPU_LOAD, NET_LOAD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.cluster import Group
    from iallocator.model.state import State

    Load = Sequence[float]

__all__ = ["LOADS", "Loads"]

LOADS = ("cpu", "memory", "disk", "net")
"""The kinds of dynamic utilisation."""


class Loads:
    """The load of several groups, relative to what all of them carry on average.

    Of each kind the load of a group, the sum of its instances' dynamic utilisation, is
    divided by the group's capacity (cpus times their speed, memory, disk, number of nodes
    for the net), and that by the same of all groups together: 1 is the average, 2 twice as
    loaded.  So the kinds have no units and compare with each other.  Where some group has
    no disks of its own, disk is counted by the node.  Offline nodes carry nothing; nodes
    that take no more instances count for the load, not for the capacity.  A kind that nobody
    has any load or capacity of is 0 everywhere.

    Attributes
    ----------
    relative:
        Per group, in the order given, one number per kind of `LOADS`.
    """

    __slots__ = ("_centres", "_factors", "_squares", "groups", "relative")

    def __init__(self, state: State, groups: Sequence[Group]) -> None:
        self.groups = list(groups)
        own = all(any(state.cluster.nodes[i].total_disk for i in g.nodes) for g in groups)
        capacities = [_capacity(state, group, own) for group in groups]
        loads = [_load(state, group) for group in groups]
        means = [
            sum(column) / sum(room) if sum(room) else 0.0
            for column, room in zip(zip(*loads), zip(*capacities))
        ]
        self._factors = [
            [1 / (room * mean) if room * mean > 0 else 0.0 for room, mean in zip(rooms, means)]
            for rooms in capacities
        ]
        self.relative = [
            [amount * factor for amount, factor in zip(amounts, factors)]
            for amounts, factors in zip(loads, self._factors)
        ]
        self._centres: list[float] = []
        self._squares: list[float] = []
        self._sum_up()

    def _sum_up(self) -> None:
        columns = list(zip(*self.relative)) or [()] * len(LOADS)
        self._centres = [sum(column) / (len(column) or 1) for column in columns]
        self._squares = [
            sum((x - centre) ** 2 for x in column) for column, centre in zip(columns, self._centres)
        ]

    def score(self) -> float:
        """The standard deviations over the groups, one per kind, added up."""
        return sum(sqrt(square / (len(self.groups) or 1)) for square in self._squares)

    def of(self, position: int) -> float:
        """How loaded the group at `position` is: the sum over the kinds."""
        return sum(self.relative[position])

    def score_after(self, load: Load, source: int, target: int) -> float:
        """The score once an instance of this load has gone from one group to another."""
        score, count = 0.0, len(self.groups)
        for k, (amount, centre) in enumerate(zip(load, self._centres)):
            old, new = self.relative[source][k] - centre, self.relative[target][k] - centre
            less = old - amount * self._factors[source][k]
            more = new + amount * self._factors[target][k]
            mean = (less + more - old - new) / count
            square = self._squares[k] - old * old - new * new + less * less + more * more
            score += sqrt(max(0.0, square / count - mean * mean))
        return score

    def move(self, load: Load, source: int, target: int) -> None:
        """Have an instance of this load go from one group to another."""
        for k, amount in enumerate(load):
            self.relative[source][k] -= amount * self._factors[source][k]
            self.relative[target][k] += amount * self._factors[target][k]
        self._sum_up()


def _capacity(state: State, group: Group, disk: bool) -> list[float]:
    """Of each kind; `disk`: whether disks are counted by their size, and not by the node."""
    nodes = [state.cluster.nodes[i] for i in group.nodes if state.cluster.nodes[i].online]
    disks = [node.total_disk if disk else 1.0 for node in nodes]
    return [
        sum(node.total_cpus * node.cpu_speed for node in nodes),
        float(sum(node.total_memory for node in nodes)),
        float(sum(disks)),
        float(len(nodes)),
    ]


def _load(state: State, group: Group) -> list[float]:
    columns = state.columns[CPU_LOAD : NET_LOAD + 1]
    up = [index for index in group.nodes if not state.cluster.nodes[index].offline]
    return [float(sum(column[index] for index in up)) for column in columns]
