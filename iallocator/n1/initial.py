"""What the failures of a group lost in the initial state, to compare later states with it.

Source: the argument about instances on offline nodes is this program's own.
"""

from __future__ import annotations

from iallocator.n1.exact import NO_LOSS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.exact import Loss
    from iallocator.n1.rules import Failure, Rules

    Growth = tuple[float, float, float, float]
    """Instances and MiB that a failure loses in addition; and the same if instances that return
    from offline nodes do not count as lost in the initial state."""

__all__ = [
    "NO_GROWTH",
    "Growth",
    "InitialFailures",
    "InitialLosses",
    "OfflineInstances",
]

NO_GROWTH: Growth = (0.0, 0.0, 0.0, 0.0)


class InitialFailures:
    """The failures of online nodes of `group` in the initial state, which is `state` now.

    Attributes
    ----------
    failing:
        All of them.
    several:
        Whether several nodes were online. Otherwise no node can take over.
    offline:
        The other nodes of the group.
    offline_instances:
        The instances that were on offline nodes of the group.
    stamps:
        `State.stamps` of the initial state.
    tolerated:
        Those of `failing` that were tolerated, if several nodes were online; empty if that was not
        measured.
    alone:
        Those that were tolerated if one node was online: it had no instance to restart.
    losses:
        Failure -> what it lost.
    """

    def __init__(self, state: State, group: Group, rules: Rules) -> None:
        nodes = state.cluster.nodes
        online = [index for index in group.nodes if nodes[index].online]
        self.failing = rules.of_online(state.cluster, group)
        self.several = len(online) > 1
        self.offline = frozenset(group.nodes).difference(online)
        self.offline_instances = OfflineInstances(state.cluster, group, rules, self.offline)
        self.stamps = list(state.stamps)
        self.tolerated: frozenset[Failure] = frozenset()
        self.alone: frozenset[Failure] = frozenset()
        self.losses: dict[Failure, Loss] = {}

    def loss(self, failure: Failure) -> Loss:
        """Return what `failure` lost."""
        if isinstance(self.losses, InitialLosses):
            return self.losses[failure]
        return self.losses.get(failure, NO_LOSS)

    def allowed_losses(self, back: tuple[int, float]) -> dict[Failure, Loss]:
        """Return the losses, and with them the instances that are `back`.

        `back`: see `OfflineInstances.back`.
        """
        if not back[0]:
            return self.losses
        return {one: loss.with_more(*back) for one, loss in self.losses.items()}

    def growths(
        self, losses: Mapping[Failure, Loss], back: tuple[int, float]
    ) -> dict[Failure, Growth]:
        """Return how much more `losses` are than initially; see `Growth`."""
        if isinstance(self.losses, InitialLosses):
            self.losses.measure(losses)
        count, memory = back
        growths: dict[Failure, Growth] = {}
        for failure, loss in losses.items():
            before = self.loss(failure)
            more = loss.instances - before.instances_least
            mib = loss.memory - before.memory_least
            growths[failure] = (
                max(0, more - count), max(0, mib - memory), max(0, more), max(0, mib)
            )  # fmt: skip
        return growths


class InitialLosses(dict["Failure", "Loss"]):
    """Failure -> what it loses in the initial state, by `measured`, when it is first needed."""

    def __init__(self, measured: Callable[[Sequence[Failure]], dict[Failure, Loss]]) -> None:
        super().__init__()
        self._measured = measured

    def __missing__(self, failure: Failure) -> Loss:
        self.measure((failure,))
        return self[failure]

    def measure(self, failing: Iterable[Failure]) -> None:
        """Measure all of `failing` at once; an undecided failure counts as one without a loss."""
        new = [one for one in failing if one not in self]
        if new:
            self.update(dict.fromkeys(new, NO_LOSS) | self._measured(new))


class OfflineInstances:
    """The instances of `group` that were on one of its nodes `offline` in the initial state.

    Every failure of the initial state loses them as well, because they do not run.  So bringing
    them back increases no loss, even if they could not be restarted once more.
    """

    __slots__ = ("_group", "_instances", "_rules")

    def __init__(
        self, cluster: Cluster, group: Group, rules: Rules, offline: Collection[int]
    ) -> None:
        self._group = group
        self._rules = rules
        instances = cluster.instances if offline else ()
        self._instances = [one for one in instances if one.nodes and one.nodes[0] in offline]

    def back(self, state: State, coming: Instance | None = None) -> tuple[int, float]:
        """Return how many of them run on an online node of the group, and their MiB of memory.

        `coming` counts as one that does. A colocation group counts as one.
        """
        back = [one for one in self._instances if one is coming or self._is_back(state, one)]
        items = {one.name if one.needs_secondary else self._unit(one) for one in back}
        return len(items), sum(one.memory for one in back if one.uses_memory)

    def _unit(self, instance: Instance) -> str:
        """Return the first name in the colocation group of `instance`."""
        return min(self._rules.units.get(instance.name) or (instance.name,))

    def _is_back(self, state: State, instance: Instance) -> bool:
        nodes, now = state.cluster.nodes, state.where.get(instance.name, ())
        return bool(now) and nodes[now[0]].online and nodes[now[0]].group is self._group
