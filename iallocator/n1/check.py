"""Whether a placement keeps the N+1 that is asked for.

Three steps, each only where the one before was not conclusive: the slack of every
node's failure, computed once for all candidates; the cheap test with the
candidate in place; the simulation.
"""

from __future__ import annotations

from iallocator.model.columns import MEMORY
from iallocator.n1.bounds import Room, known_demand, verdict
from iallocator.n1.effort import UndecidedError
from iallocator.n1.failure_watch import FailureWatch
from iallocator.n1.simulation import Simulation
from iallocator.n1.verdicts import LOST, SAFE, UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.bounds import Demands
    from iallocator.n1.loss.no_worse import NoWorse
    from iallocator.n1.loss.part import Loss
    from iallocator.n1.rules import Rules
    from iallocator.n1.simulation import UnsurvivedFailure
    from iallocator.scoring import Kernels

__all__ = ["N1Cache", "N1Check"]

MANY = 8
"""Failures from which on it pays to sort the nodes that may take over, once for all."""


class N1Cache:
    """What judges leave to the next one, for as long as nothing there changes.

    Attributes
    ----------
    demands:
        Node -> its stamp, and what its failure asks for then.
    watches:
        Index of a group -> what was found of its failures.
    """

    __slots__ = ("demands", "watches")

    def __init__(self) -> None:
        self.demands: Demands = {}
        self.watches: dict[int, FailureWatch] = {}


class N1Check:
    """Judges placements of one instance on `state`, which it leaves as it is.

    `scope` are the nodes over which the allocation's score runs; `leaving` is an
    instance that is off the state already, and the nodes on which it was before.
    `remembered` is shared by the judges of one request.
    `survived` says of nodes whether their failure could be survived before, where that
    is not to be taken from `state`; `losses`, with ``no-worse``, what it lost.
    """

    def __init__(
        self,
        state: State,
        kernels: Kernels,
        rules: Rules,
        scope: Sequence[int],
        leaving: tuple[Instance, tuple[int, ...]] | None = None,
        remembered: N1Cache | None = None,
        survived: dict[int, bool] | None = None,
        losses: dict[int, Loss] | None = None,
    ) -> None:
        self._kernels = kernels
        self._losses = losses
        self._worse: NoWorse | None = None
        self._refuters: dict[tuple[int, float, bool], int] = {}  # by primary and what it takes
        self._leaving = leaving
        self._remembered = remembered or N1Cache()
        self._state = state
        self._rules = rules
        self._scope = scope
        self._simulation = Simulation(state, kernels, rules, scope)
        self._watches: dict[int, FailureWatch] = {}
        self._survived: dict[int, bool] = {} if survived is None else survived

    def accepts(self, instance: Instance, nodes: tuple[int, ...]) -> bool:
        """Whether `instance` may be put on `nodes`, primary first; what is undecided may not."""
        if self._rules.mode == "off":
            return True
        effort = self._rules.effort
        try:
            if not effort.spent:
                return self._refuter(instance, nodes) is None
        except UndecidedError:
            pass
        effort.undecided += 1
        return False

    def lost(self, group: Group) -> bool:
        """Whether with ``strict`` sums tell of a failure that is lost as things are.

        Then nothing is accepted in `group`: what comes takes room, and asks for more.
        """
        if not self._rules.strict:
            return False
        told = self._watch(group).lost
        return any(self._cheap([node])[node] == LOST for node in told)

    def stranded(self, instance: Instance, nodes: tuple[int, ...]) -> UnsurvivedFailure | None:
        """Which failure this placement makes unsurvivable, and who finds no place.

        Where some are lost without it, too, one who is not.
        """
        try:
            node = None if self._rules.mode == "off" else self._refuter(instance, nodes)
            if node is None:
                return None
            lost = self._simulation.all_lost(node) if self._rules.exact else []
            known = {one.instance.name for one in lost}
            with self._state.trial():
                self._try_out(instance, nodes)
                if not known:
                    return self._simulation.fail(node)
                found = self._simulation.all_lost(node)
            new = [one for one in found if one.instance.name not in known] or found
            return new[0] if new else None
        except UndecidedError:
            return None

    def survivable(self, nodes: Sequence[int]) -> list[int]:
        """Those of `nodes` whose failure can be survived as things are; none if undecided."""
        try:
            return self._survived_before(nodes)
        except UndecidedError:
            return []

    def first_lost(self, nodes: Sequence[int]) -> int | None:
        """The first of `nodes` whose failure cannot be survived as things are, or None.

        It is the first that is not among `survivable`; those behind it are not searched.
        """
        if not self._rules.exact:
            saved = set(self.survivable(nodes))
            return next((node for node in nodes if node not in saved), None)
        kinds = self._cheap(nodes)
        doubtful = (node for node in nodes if kinds[node] != SAFE)
        try:
            return next((node for node in doubtful if not self._no_worse().saves(node)), None)
        except UndecidedError:
            return nodes[0]

    def losses(self, nodes: Sequence[int]) -> dict[int, Loss]:
        """What the failure of each of `nodes` loses as things are.

        What a lack of time leaves undecided is no part of it.
        """
        from iallocator.n1.loss.part import NO_LOSS

        found: dict[int, Loss] = {}
        kinds = self._cheap(nodes)
        try:
            for node in nodes:
                safe = kinds[node] == SAFE
                found[node] = NO_LOSS if safe else self._no_worse().loss(node)
        except UndecidedError:
            pass
        return found

    def _refuter(self, instance: Instance, nodes: tuple[int, ...]) -> int | None:
        """A node whose failure could not be survived with the candidate in place.

        Only three kinds of failure can become so: those whose instances need a new
        node and have little to spare; those that fail over to the new primary; and
        that of the new primary itself.
        """
        if self._rules.namesake is not None:
            group = self._state.cluster.nodes[nodes[0]].group
            failing = self._rules.failing(self._state.cluster, group, self._scope)
            return self._refuted(failing, instance, nodes)
        watch = self._watch(self._state.cluster.nodes[nodes[0]].group)
        taken = instance.memory if instance.uses_memory else 0
        if self._rules.exact:
            watch.refuter = self._worse_off(watch, taken, instance, nodes)
            return watch.refuter
        critical: list[int] = []
        for node in self._failing_over(watch, taken, nodes[0]):
            if self._rules.strict or self._survived_before([node]):
                return node
        if nodes[0] in watch.failing and not watch.takes_over(self._rules, instance, nodes):
            critical.append(nodes[0])
        critical += [n for _, n in self._moving(watch, taken, nodes[0]) if n not in critical]
        if watch.refuter in critical:  # likely this one's, too
            critical.remove(watch.refuter)
            if self._refuted([watch.refuter], instance, nodes) is not None:
                return watch.refuter
        watch.refuter = self._refuted(critical, instance, nodes)
        return watch.refuter

    def _failing_over(self, watch: FailureWatch, taken: float, primary: int) -> Iterator[int]:
        """The nodes whose failure asks more memory of the new `primary` than it will have left."""
        for node, amount in watch.onto(primary):
            if self._state.columns[MEMORY][primary] - taken - amount > 0:
                break
            if node in watch.failing:
                yield node

    def _moving(
        self, watch: FailureWatch, taken: float, primary: int
    ) -> Iterator[tuple[float, int]]:
        """(spare, node) of the other failures in which too little may be left for who moves."""
        for spare, node in watch.movers(taken, self._rules):
            if node != primary:
                yield spare, node

    def _refuted(
        self, critical: Sequence[int], instance: Instance, nodes: tuple[int, ...]
    ) -> int | None:
        """The first of `critical` that fails unsurvivably because of the candidate."""
        lost = self._lost_with(critical, instance, nodes)
        if lost and not self._rules.strict:
            lost = self._survived_before(lost)
        return lost[0] if lost else None

    def _lost_with(
        self, critical: Sequence[int], instance: Instance, nodes: tuple[int, ...]
    ) -> list[int]:
        if not critical:
            return []
        with self._state.trial():
            self._try_out(instance, nodes)
            return self._lost(critical, one_is_enough=self._rules.strict)

    def _worse_off(
        self, watch: FailureWatch, taken: float, instance: Instance, nodes: tuple[int, ...]
    ) -> int | None:
        """A node whose failure loses more: sums first, then the cheap test, search last."""
        asked = nodes[0], taken, instance.local
        known = self._refuters.get(asked, watch.refuter)
        if known is not None and known != nodes[0] and self._told(known, instance, nodes):
            return known
        doubtful, critical = self._in_doubt(watch, taken, instance, nodes)
        if not (doubtful or critical):
            return None
        worse = self._no_worse()
        if not worse.compares(nodes):
            open_yet = []
            for node in doubtful:
                told = worse.told(node, instance, nodes)
                if told:
                    self._refuters[asked] = node
                    return node
                if told is None:
                    open_yet.append(node)
            doubtful = open_yet
        lost = self._lost_with(doubtful + critical, instance, nodes)
        return worse.first_worse(lost, instance, nodes)

    def _told(self, node: int, instance: Instance, nodes: tuple[int, ...]) -> bool | None:
        """Whether sums tell that the failure of `node` loses more."""
        worse = self._no_worse()
        return None if worse.compares(nodes) else worse.told(node, instance, nodes)

    def _in_doubt(
        self, watch: FailureWatch, taken: float, instance: Instance, nodes: tuple[int, ...]
    ) -> tuple[list[int], list[int]]:
        """The failures that the cheap test does not clear as things are; those that may get so.

        Where disk matters as well, sums are asked with the candidate in place.
        """
        doubtful = list(self._failing_over(watch, taken, nodes[0]))
        critical: list[int] = []
        if nodes[0] in watch.failing and not watch.takes_over(self._rules, instance, nodes):
            (doubtful if instance.template == "drbd" else critical).append(nodes[0])
        for spare, node in self._moving(watch, taken, nodes[0]):
            if node not in doubtful:
                (critical if spare >= 0 or watch.needs_disk(node) else doubtful).append(node)
        return doubtful, critical

    def _no_worse(self) -> NoWorse:
        """What compares losses; loaded where the cheap test and the simulation do not do."""
        if self._worse is None:
            from iallocator.n1.loss.no_worse import NoWorse

            self._worse = NoWorse(
                self._state,
                self._kernels,
                self._rules,
                self._simulation,
                self._leaving,
                self._losses,
            )
        return self._worse

    def _try_out(self, instance: Instance, nodes: tuple[int, ...]) -> None:
        """Place the candidate; by some rules one that moves is still taken for where it was."""
        where = self._state.where
        present = where.get(instance.name)
        self._state.place(instance, nodes)
        if self._rules.movers_stay and present is not None:
            where[instance.name] = present
        if self._rules.namesake is not None:
            self._state.mistake(self._rules.namesake, instance)

    def _lost(self, failing: Sequence[int], one_is_enough: bool = False) -> list[int]:
        """Those of `failing` that cannot be survived as the state is now; exact: in doubt.

        If `one_is_enough`, some of them where sums tell of one.
        """
        kinds = self._cheap(failing)
        lost = [node for node in failing if kinds[node] == LOST]
        if lost and one_is_enough:
            return lost
        unknown = [node for node in failing if kinds[node] == UNKNOWN]
        if self._rules.exact:  # the search is quicker, and finds what the simulation does not
            return lost + unknown
        for group in dict.fromkeys(self._state.cluster.nodes[node].group for node in unknown):
            lost += self._simulation.lost([node for node in unknown if node in group.nodes])
        return lost

    def _survived_before(self, failing: Sequence[int]) -> list[int]:
        """Those of `failing` that could be survived without the candidate."""
        new = [node for node in failing if node not in self._survived]
        with self._state.trial():
            if self._leaving is not None:
                self._state.place(*self._leaving)
            lost = set(self._lost(new))
            if self._rules.exact:
                lost = {node for node in lost if not self._no_worse().saves(node)}
        self._survived.update((node, node not in lost) for node in new)
        return [node for node in failing if self._survived[node]]

    def _watch(self, group: Group) -> FailureWatch:
        watch = self._watches.get(group.index)
        if watch is None:
            failing = self._rules.failing(self._state.cluster, group, self._scope)
            known = self._remembered.watches.get(group.index)
            demands = self._remembered.demands
            if known is not None and known.catch_up(self._state, self._rules, failing, demands):
                watch = known
                watch.refuter = None
            else:
                watch = FailureWatch(self._state, self._rules, failing, self._remembered.demands)
                self._remembered.watches[group.index] = watch
            self._watches[group.index] = watch
        return watch

    def _cheap(self, failing: Sequence[int]) -> dict[int, int]:
        """The cheap verdict on the failure of each node, as the state is now."""
        state, rules = self._state, self._rules
        kinds: dict[int, int] = {}
        rooms: dict[int, Room] = {}
        for node in failing:
            group = state.cluster.nodes[node].group
            targets = rules.targets(state.cluster, group)
            if len(failing) >= MANY and group.index not in rooms:
                rooms[group.index] = Room(state, targets)
            demand = known_demand(state, node, rules, self._remembered.demands)
            kinds[node], _ = verdict(state, node, demand, rules, targets, rooms.get(group.index))
        return kinds
