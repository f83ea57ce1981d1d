"""Global N+1: which failures of nodes a state tolerates, and which placements keep that.

The stages, fastest first; each runs only where the one before does not decide:

1. the spare memory of every failure, computed once for all candidates (`FailureWatch`);
2. bounds with the candidate in place (`iallocator.n1.bounds`);
3. the simulation (`iallocator.n1.simulation`), or exact search (`iallocator.n1.exact`) with
   ``no-worse``.
"""

from __future__ import annotations

from iallocator.limits.migration import may_not_receive
from iallocator.model.columns import MEMORY
from iallocator.n1.bounds import SpareMemory, TargetCapacity, check_bounds, known_demand, takes_over
from iallocator.n1.rules import INFINITE, LOST, SAFE, UNKNOWN, UndecidedError
from iallocator.n1.simulation import Simulation
from iallocator.scoring import Kernels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.bounds import Demand, Demands
    from iallocator.n1.exact import ExactSearch, Loss
    from iallocator.n1.rules import Rules
    from iallocator.n1.simulation import UnsurvivedFailure

__all__ = ["FailureTolerance", "N1Cache"]


WORTH_A_ROOM = 8
"""So many failures that are looked at together are worth sorting what their targets can take."""

NOTHING: Mapping[int, float] = {}
"""What fails over where nothing does, or nothing can be saved."""


class FailureWatch:
    """What is known of the failures in a group before any candidate is placed.

    A failure is looked at again only where it may have changed: at a node that has changed
    itself, where mirrors lost the room for what fails over to them, where a lower bound of
    what is spare does not tell any more that it is survived, and where nothing bounds it.

    Attributes
    ----------
    failing:
        The nodes whose failure has to be survived.
    lost:
        Those whose failure sums told to be lost when it was last looked at.
    refuter:
        The node whose failure refuted the last candidate that was rejected.
    """

    __slots__ = (
        "_demands", "_group_targets", "_memory", "_noted", "_onto", "_place", "_sources", "_spare",
        "_stamps", "_state", "_unbounded", "_unsorted", "failing", "lost", "refuter",
    )  # fmt: skip

    def __init__(
        self,
        state: State,
        rules: Rules,
        failing: Sequence[int],
        demands: Demands,
    ) -> None:
        self._state = state
        self.failing = frozenset(failing)
        self.refuter: int | None = None
        self.lost: set[int] = set()
        self._spare = SpareMemory()
        self._place = {node: place for place, node in enumerate(failing)}
        self._demands: dict[int, Demand] = {}
        self._unbounded: set[int] = set()
        self._noted: dict[int, Mapping[int, float]] = {}
        self._onto: dict[int, list[tuple[float, int, int]]] = {}  # -MiB, place, failing node
        self._sources: dict[int, set[int]] = {}  # secondary -> whose failure asks it to take over
        self._unsorted: set[int] = set()
        groups = {state.cluster.nodes[node].group for node in failing}
        self._group_targets = {group.index: rules.targets(state.cluster, group) for group in groups}
        self._ask(failing, rules, demands)
        concerned = self.failing.union(*self._group_targets.values(), self._sources)
        self._memory = {index: state.columns[MEMORY][index] for index in concerned}
        self._stamps = {index: state.stamps[index] for index in concerned}

    def _ask(self, nodes: Collection[int], rules: Rules, demands: Demands) -> None:
        """Look at the failures of `nodes` as the state is now, and note them."""
        rooms: dict[int, TargetCapacity] = {}
        for node in nodes:
            group = self._state.cluster.nodes[node].group.index
            targets = self._group_targets[group]
            if len(nodes) >= WORTH_A_ROOM and targets and group not in rooms:
                rooms[group] = TargetCapacity(self._state, targets)
            self._note(node, self._asked(node, rules, targets, rooms.get(group), demands))
        for secondary in self._unsorted:
            self._onto[secondary].sort()
        self._unsorted.clear()

    def _asked(
        self,
        node: int,
        rules: Rules,
        targets: Sequence[int],
        room: TargetCapacity | None,
        demands: Demands,
    ) -> Mapping[int, float]:
        """What fails over from `node` if that is survived, by secondary; notes what is spare."""
        state = self._state
        demand = known_demand(state, node, rules, demands)
        self._demand(node, demand)
        kind, spare = check_bounds(state, node, demand, rules, targets, room)
        self._spare.forget(node)
        bounded = kind == SAFE and spare >= 0 and demand.shares is None
        self._unbounded.discard(node)
        if demand.intricate or (demand.movers and not bounded):
            self._unbounded.add(node)
        (self.lost.add if kind == LOST else self.lost.discard)(node)
        if kind == LOST and not (rules.strict or rules.exact):
            return NOTHING
        if kind != SAFE:
            spare = -1
        if spare != INFINITE and (demand.movers or demand.intricate or not rules.exact):
            self._spare.note(node, spare)
        return demand.failovers

    def _demand(self, node: int, demand: Demand) -> None:
        """What the failure of `node` asks for from now on."""
        before = self._demands.get(node)
        if before is demand:
            return
        for secondary in before.failovers if before is not None else ():
            self._sources[secondary].discard(node)
        for secondary in demand.failovers:
            self._sources.setdefault(secondary, set()).add(node)
        self._demands[node] = demand

    def _note(self, node: int, failovers: Mapping[int, float]) -> None:
        """Count from now on with `failovers` of `node`, in the place of those before."""
        place, before = self._place[node], self._noted.get(node, NOTHING)
        if failovers is before:
            return
        for secondary, amount in before.items():
            self._onto[secondary].remove((-amount, place, node))
        for secondary, amount in failovers.items():
            self._onto.setdefault(secondary, []).append((-amount, place, node))
            self._unsorted.add(secondary)
        self._noted[node] = failovers

    def catch_up(
        self,
        state: State,
        rules: Rules,
        failing: Sequence[int],
        demands: Demands,
    ) -> bool:
        """Whether these failures are as noted, or could be noted anew where nodes have changed."""
        if state is not self._state or rules.strict:
            return False
        if self.failing != frozenset(failing):
            return False
        now = state.stamps
        changed = [index for index, then in self._stamps.items() if now[index] != then]
        if changed:
            self._renew(changed, rules, demands)
        return True

    def _renew(self, changed: Sequence[int], rules: Rules, demands: Demands) -> None:
        """Look again at the failures that nodes which have `changed` are concerned by."""
        state = self._state
        for index in changed:
            memory = state.columns[MEMORY][index]
            self._spare.vanish(self._memory[index] - memory)
            self._memory[index] = memory
        concerned = {node for index in changed for node in self._sources.get(index, ())}
        again = {node for node in concerned if not self._still_saved(node, changed)}
        again |= self._unbounded.union(self._spare.doubtful(0))
        again |= self.failing.intersection(changed)
        self._ask(again, rules, demands)
        for index in self._sources:
            self._memory.setdefault(index, state.columns[MEMORY][index])
            self._stamps.setdefault(index, state.stamps[index])
        self._stamps |= {index: state.stamps[index] for index in changed}

    def _still_saved(self, node: int, changed: Sequence[int]) -> bool:
        """Whether what fails over from `node` still does: only where it goes has changed."""
        demand = self._demands[node]
        noted = self._noted.get(node) is demand.failovers
        return noted and takes_over(self._state, demand, demand.failovers.keys() & changed)

    def movers(self, taken: float, rules: Rules) -> list[tuple[float, int]]:
        """(spare memory, node) of the failures where something needs a new node, if `taken` counts.

        Those that have less than `taken` MiB to spare, the most critical first; -1 where the
        cheap test does not tell.
        """
        for node in self._spare.doubtful(taken):
            targets = self._group_targets[self._state.cluster.nodes[node].group.index]
            _, spare = check_bounds(self._state, node, self._demands[node], rules, targets)
            self._spare.note(node, spare)
        return self._spare.less_than(taken)

    def needs_disk(self, node: int) -> bool:
        """Whether what leaves `node` when it fails needs disk elsewhere."""
        return self._demands[node].plain > 0

    def onto(self, node: int) -> Iterator[tuple[int, float]]:
        """(failing node, MiB that fail over from there to `node`), the most first."""
        return ((failing, -less) for less, _, failing in self._onto.get(node, ()))

    def takes_over(self, rules: Rules, instance: Instance, nodes: tuple[int, ...]) -> bool:
        """Whether the new primary's failure is plainly survived: only failovers, and room."""
        demand = self._demands[nodes[0]]
        if rules.strict or len(nodes) < 2 or demand.movers or demand.intricate or demand.single:
            return False
        cluster = self._state.cluster
        if may_not_receive(cluster, nodes[0], nodes[1:]) or not cluster.nodes[nodes[1]].online:
            return False
        amount = demand.failovers.get(nodes[1], 0) + instance.memory
        return self._state.columns[MEMORY][nodes[1]] - amount > 0


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


class FailureTolerance:
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
        self._worse: ExactSearch | None = None
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
        known_by_bound = self._watch(group).lost
        return any(self._check_bounds([node])[node] == LOST for node in known_by_bound)

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
        kinds = self._check_bounds(nodes)
        doubtful = (node for node in nodes if kinds[node] != SAFE)
        try:
            return next((node for node in doubtful if not self._exact().saves(node)), None)
        except UndecidedError:
            return nodes[0]

    def losses(self, nodes: Sequence[int]) -> dict[int, Loss]:
        """What the failure of each of `nodes` loses as things are.

        What a lack of time leaves undecided is no part of it.
        """
        from iallocator.n1.exact import NO_LOSS

        found: dict[int, Loss] = {}
        kinds = self._check_bounds(nodes)
        try:
            for node in nodes:
                safe = kinds[node] == SAFE
                found[node] = NO_LOSS if safe else self._exact().loss(node)
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
        worse = self._exact()
        if not worse.compares(nodes):
            open_yet = []
            for node in doubtful:
                known_by_bound = worse.known_by_bound(node, instance, nodes)
                if known_by_bound:
                    self._refuters[asked] = node
                    return node
                if known_by_bound is None:
                    open_yet.append(node)
            doubtful = open_yet
        lost = self._lost_with(doubtful + critical, instance, nodes)
        return worse.first_worse(lost, instance, nodes)

    def _told(self, node: int, instance: Instance, nodes: tuple[int, ...]) -> bool | None:
        """Whether sums tell that the failure of `node` loses more."""
        worse = self._exact()
        return None if worse.compares(nodes) else worse.known_by_bound(node, instance, nodes)

    def _in_doubt(
        self, watch: FailureWatch, taken: float, instance: Instance, nodes: tuple[int, ...]
    ) -> tuple[list[int], list[int]]:
        """The failures that the cheap test does not clear as things are; those that may get so.

        Where disk matters as well, sums are asked with the candidate in place.
        """
        doubtful = list(self._failing_over(watch, taken, nodes[0]))
        critical: list[int] = []
        if nodes[0] in watch.failing and not watch.takes_over(self._rules, instance, nodes):
            (doubtful if instance.needs_secondary else critical).append(nodes[0])
        for spare, node in self._moving(watch, taken, nodes[0]):
            if node not in doubtful:
                (critical if spare >= 0 or watch.needs_disk(node) else doubtful).append(node)
        return doubtful, critical

    def _exact(self) -> ExactSearch:
        """What compares losses; loaded where the cheap test and the simulation do not do."""
        if self._worse is None:
            from iallocator.n1.exact import ExactSearch

            self._worse = ExactSearch(
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
        kinds = self._check_bounds(failing)
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
                lost = {node for node in lost if not self._exact().saves(node)}
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

    def _check_bounds(self, failing: Sequence[int]) -> dict[int, int]:
        """The cheap check_bounds on the failure of each node, as the state is now."""
        state, rules = self._state, self._rules
        kinds: dict[int, int] = {}
        rooms: dict[int, TargetCapacity] = {}
        for node in failing:
            group = state.cluster.nodes[node].group
            targets = rules.targets(state.cluster, group)
            if len(failing) >= MANY and group.index not in rooms:
                rooms[group.index] = TargetCapacity(state, targets)
            demand = known_demand(state, node, rules, self._remembered.demands)
            kinds[node], _ = check_bounds(
                state, node, demand, rules, targets, rooms.get(group.index)
            )
        return kinds
