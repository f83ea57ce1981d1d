"""What the failures of a group lost in the initial state, to compare later states with it.

Source: the argument about instances on offline nodes is this program's own.
"""

from __future__ import annotations

from iallocator.n1.exact import NO_LOSS, OfflineInstances

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from iallocator.model.cluster import Group
    from iallocator.model.state import State
    from iallocator.n1 import Failure, Growth, Rules
    from iallocator.n1.exact import Loss


__all__ = ["InitialFailures", "InitialLosses"]


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
