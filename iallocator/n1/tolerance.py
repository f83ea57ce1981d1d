"""Global N+1: which failures of nodes a state tolerates, and which placements keep that.

A failure, named by its node, is tolerated if every instance of the node can be restarted on others.
The stages, fastest first; each runs only where the one before does not decide:

1. the spare memory of every failure, computed once for all candidates (`FailureWatch`);
2. bounds with the candidate in place (`iallocator.n1.bounds`);
3. simulation (`iallocator.n1.simulation`), or exact search (`iallocator.n1.exact`) with
   ``no-worse``.

Cost of the check of a placement with *n* nodes and *m* instances: O(n) once for the state, then
O(1) where the first stage decides, O(n) for each failure that needs the second, and O(n m) for each
that needs the third.

Source: the rules of a failure are those of hail (`iallocator.n1.rules`); the stages are this
program's own.
"""

from __future__ import annotations

from iallocator.limits.group import may_not_receive
from iallocator.model.columns import MEMORY
from iallocator.n1.bounds import SpareMemory, TargetCapacity, check_bounds, known_demand, takes_over
from iallocator.n1.rules import INFINITE, LOST, SAFE, UNKNOWN, UndecidedError
from iallocator.n1.simulation import Simulation
from iallocator.scoring import Kernels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.moves import Move
    from iallocator.model.state import State
    from iallocator.n1.bounds import Demand, Demands
    from iallocator.n1.exact import ExactSearch, Loss
    from iallocator.n1.rules import Rules
    from iallocator.n1.simulation import UnrestartedInstance

__all__ = ["FailureCache", "FailureTolerance", "FailureWatch"]

MANY = 8
"""So many failures checked together are worth one sort of the capacities of their targets."""

NOTHING: Mapping[int, float] = {}
"""The failovers of a failure that has none, or that is not tolerated in any case."""


class FailureCache:
    """What `FailureTolerance` objects of one state and equal rules keep for the next one.

    Attributes
    ----------
    demands:
        Node -> the demand of its failure.
    watches:
        Index of a group -> the bounds of its failures.
    """

    __slots__ = ("demands", "watches")

    def __init__(self) -> None:
        self.demands: Demands = {}
        self.watches: dict[int, FailureWatch] = {}


class FailureTolerance:
    """Global N+1 of `state`, which every method leaves as it is.

    Parameters
    ----------
    kernels:
        Score and check the nodes in simulations.
    rules:
        Which failures must be tolerated, and what may be assumed.
    scope:
        The nodes over which the scores of the simulation run; the failing nodes with ``strict``.
    replaced:
        An instance that is off the state because a new one takes its place, and its nodes.
    cache:
        Shared by all objects for the same state and rules.
    before:
        Node -> whether its failure was tolerated before, if that does not follow from `state`.
    losses:
        Node -> what its failure lost before, if that does not follow from `state` (``no-worse``).
    """

    def __init__(
        self,
        state: State,
        kernels: Kernels,
        rules: Rules,
        scope: Sequence[int],
        replaced: tuple[Instance, Nodes] | None = None,
        cache: FailureCache | None = None,
        before: dict[int, bool] | None = None,
        losses: dict[int, Loss] | None = None,
    ) -> None:
        self._state = state
        self._kernels = kernels
        self._rules = rules
        self._scope = scope
        self._replaced = self._leaving = replaced
        self._cache = cache or FailureCache()
        self._before_is_given = before is not None
        self._tolerated: dict[int, bool] = {} if before is None else before
        self._losses = losses
        self._simulation = Simulation(state, kernels, rules, scope)
        self._watches: dict[int, FailureWatch] = {}
        self._exact_search: ExactSearch | None = None
        self._refuters: dict[tuple[int, float, bool], int] = {}  # by primary, MiB, local disks

    @classmethod
    def of_group(
        cls, state: State, group: Group, rules: Rules, cache: FailureCache | None = None
    ) -> FailureTolerance:
        """Return the N+1 of the nodes of `group` alone."""
        nodes = group.nodes
        kernels = Kernels(state, [(len(nodes), 0)], 0.0, nodes)
        return cls(state, kernels, rules, nodes, cache=cache)

    # The state of every failure

    def tolerated(self, nodes: Sequence[int]) -> list[int]:
        """Return those failures of `nodes` that are tolerated; none if that stays undecided."""
        try:
            return self._tolerated_before(nodes)
        except UndecidedError:
            return []

    def not_tolerated(self, nodes: Sequence[int]) -> list[int]:
        """Return those failures of `nodes` that are not tolerated."""
        tolerated = set(self.tolerated(nodes))
        return [node for node in nodes if node not in tolerated]

    def first_not_tolerated(self, nodes: Sequence[int]) -> int | None:
        """Return the first of `not_tolerated`, or None; exact search does not look behind it."""
        if not self._rules.exact:
            return next(iter(self.not_tolerated(nodes)), None)
        kinds = self._check_bounds(nodes)
        uncertain = (node for node in nodes if kinds[node] != SAFE)
        try:
            return next((node for node in uncertain if not self._exact().saves(node)), None)
        except UndecidedError:
            return nodes[0]

    def losses(self, nodes: Sequence[int]) -> dict[int, Loss]:
        """Return what the failure of each of `nodes` loses.

        Failures that are undecided when the work is spent are missing from the result.
        """
        from iallocator.n1.exact import NO_LOSS

        losses: dict[int, Loss] = {}
        kinds = self._check_bounds(nodes)
        try:
            for node in nodes:
                losses[node] = NO_LOSS if kinds[node] == SAFE else self._exact().loss(node)
        except UndecidedError:
            pass
        return losses

    def rejects_all(self, group: Group) -> bool:
        """Return whether bounds prove, with ``strict``, that `group` accepts no instance.

        A failure is not tolerated then, and a new instance takes memory and adds demand.
        """
        if not self._rules.strict:
            return False
        lost = self._watch(group).lost
        return any(self._check_bounds([node])[node] == LOST for node in lost)

    # The check of a placement

    def allows(self, move: Move) -> bool:
        """Return whether N+1 holds after `move`. Its instance must be off the state.

        `move.before` is empty for an instance that is checked like a new one. The result is False
        if the work is spent before N+1 is decided; `Deadline.undecided` counts these.
        """
        if self._rules.mode == "off":
            return True
        effort = self._rules.effort
        try:
            if not effort.spent:
                return self._refuter(move) is None
        except UndecidedError:
            pass
        effort.undecided += 1
        return False

    def cleared(self, moves: Iterable[Move]) -> list[Nodes]:
        """Return the new nodes of those of `moves` that sums allow; others may be allowed, too.

        All are moves of one instance from the same nodes into one group.  Cost: as one check, and
        a few comparisons for each move.
        """
        moves = list(moves)
        if not moves or self._rules.strict or self._rules.namesake is not None:
            return []
        instance, first = moves[0].instance, moves[0].after
        self._leave(moves[0])
        watch = self._watch(self._state.cluster.nodes[first[0]].group)
        taken = instance.memory if instance.uses_memory else 0
        if watch.movers(taken, self._rules):
            return []
        return [
            nodes
            for nodes in (move.after for move in moves)
            if next(self._overloaded(watch, taken, nodes[0]), None) is None
            and (nodes[0] not in watch.failing or watch.takes_over(self._rules, instance, nodes))
        ]

    def obstacle(self, move: Move) -> UnrestartedInstance | None:
        """Return an instance that cannot be restarted after a failure because of `move`.

        If the failure is not tolerated without `move` either, one that could be restarted then.
        None if there is no such failure, or if that stays undecided.
        """
        try:
            node = None if self._rules.mode == "off" else self._refuter(move)
            if node is None:
                return None
            lost = self._simulation.all_lost(node) if self._rules.exact else []
            known = {one.instance.name for one in lost}
            with self._state.trial():
                self._try_out(move.instance, move.after)
                if not known:
                    return self._simulation.fail(node)
                after = self._simulation.all_lost(node)
            new = [one for one in after if one.instance.name not in known] or after
            return new[0] if new else None
        except UndecidedError:
            return None

    def _refuter(self, move: Move) -> int | None:
        """Return a failure that would not be tolerated after `move`, or None.

        `move` can only break three kinds of failures: those with instances that need a new node and
        have little spare memory; those that fail over to the new primary; and that of the new
        primary itself.
        """
        self._leave(move)
        instance, nodes = move.instance, move.after
        group = self._state.cluster.nodes[nodes[0]].group
        if self._rules.namesake is not None:
            failing = self._rules.failing(self._state.cluster, group, self._scope)
            return self._refuted(failing, instance, nodes)
        watch = self._watch(group)
        taken = instance.memory if instance.uses_memory else 0
        if self._rules.exact:
            watch.refuter = self._worse_off(watch, taken, instance, nodes)
            return watch.refuter
        critical: list[int] = []
        for node in self._overloaded(watch, taken, nodes[0]):
            if self._rules.strict or self._tolerated_before([node]):
                return node
        if nodes[0] in watch.failing and not watch.takes_over(self._rules, instance, nodes):
            critical.append(nodes[0])
        critical += [n for _, n in self._critical(watch, taken, nodes[0]) if n not in critical]
        if watch.refuter in critical:  # it probably refutes this candidate as well
            critical.remove(watch.refuter)
            if self._refuted([watch.refuter], instance, nodes) is not None:
                return watch.refuter
        watch.refuter = self._refuted(critical, instance, nodes)
        return watch.refuter

    def _leave(self, move: Move) -> None:
        """Forget what is kept of the state before another move."""
        leaving = (move.instance, move.before) if move.before else self._replaced
        if leaving == self._leaving:
            return
        self._leaving = leaving
        self._exact_search = None
        self._refuters.clear()
        if not self._before_is_given:
            self._tolerated = {}

    def _overloaded(self, watch: FailureWatch, taken: float, primary: int) -> Iterator[int]:
        """Yield the failures that need more memory of `primary` than it will have left."""
        for node, amount in watch.onto(primary):
            if self._state.columns[MEMORY][primary] - taken - amount > 0:
                break
            if node in watch.failing:
                yield node

    def _critical(
        self, watch: FailureWatch, taken: float, primary: int
    ) -> Iterator[tuple[float, int]]:
        """Yield (spare, node) of the other failures with less spare memory than `taken`."""
        for spare, node in watch.movers(taken, self._rules):
            if node != primary:
                yield spare, node

    def _refuted(self, critical: Sequence[int], instance: Instance, nodes: Nodes) -> int | None:
        """Return the first failure of `critical` that the candidate makes intolerable."""
        lost = self._lost_with(critical, instance, nodes)
        if lost and not self._rules.strict:
            lost = self._tolerated_before(lost)
        return lost[0] if lost else None

    def _lost_with(self, critical: Sequence[int], instance: Instance, nodes: Nodes) -> list[int]:
        if not critical:
            return []
        with self._state.trial():
            self._try_out(instance, nodes)
            return self._lost(critical, one_is_enough=self._rules.strict)

    def _worse_off(
        self, watch: FailureWatch, taken: float, instance: Instance, nodes: Nodes
    ) -> int | None:
        """Return a failure that loses more: sums first, then bounds, then exact search."""
        key = nodes[0], taken, instance.local
        likely = self._refuters.get(key, watch.refuter)
        exact = None
        if likely is not None and likely != nodes[0]:
            exact = self._exact()
            if not exact.compares(nodes) and exact.known_by_bound(likely, instance, nodes):
                return likely
        uncertain, critical = self._uncertain(watch, taken, instance, nodes)
        if not (uncertain or critical):
            return None
        exact = exact or self._exact()
        if not exact.compares(nodes):
            undecided = []
            for node in uncertain:
                known = exact.known_by_bound(node, instance, nodes)
                if known:
                    self._refuters[key] = node
                    return node
                if known is None:
                    undecided.append(node)
            uncertain = undecided
        lost = self._lost_with(uncertain + critical, instance, nodes)
        return exact.first_worse(lost, instance, nodes)

    def _uncertain(
        self, watch: FailureWatch, taken: float, instance: Instance, nodes: Nodes
    ) -> tuple[list[int], list[int]]:
        """Return the failures that bounds do not clear now, and those they may not clear then.

        If disk matters as well, the bounds are checked with the candidate in place.
        """
        uncertain = list(self._overloaded(watch, taken, nodes[0]))
        critical: list[int] = []
        if nodes[0] in watch.failing and not watch.takes_over(self._rules, instance, nodes):
            (uncertain if instance.needs_secondary else critical).append(nodes[0])
        for spare, node in self._critical(watch, taken, nodes[0]):
            if node not in uncertain:
                (critical if spare >= 0 or watch.needs_disk(node) else uncertain).append(node)
        return uncertain, critical

    def _try_out(self, instance: Instance, nodes: Nodes) -> None:
        """Place the candidate; some rules count an instance that moves where it was."""
        where = self._state.where
        present = where.get(instance.name)
        self._state.place(instance, nodes)
        if self._rules.movers_stay and present is not None:
            where[instance.name] = present
        if self._rules.namesake is not None:
            self._state.mistake(self._rules.namesake, instance)

    # The stages

    def _exact(self) -> ExactSearch:
        """Return the exact search, which is loaded only where the other stages do not decide."""
        if self._exact_search is None:
            from iallocator.n1.exact import ExactSearch

            self._exact_search = ExactSearch(
                self._state,
                self._kernels,
                self._rules,
                self._simulation,
                self._leaving,
                self._losses,
            )
        return self._exact_search

    def _lost(self, failing: Sequence[int], one_is_enough: bool = False) -> list[int]:
        """Return those of `failing` that are not tolerated now; with exact search, undecided ones.

        With `one_is_enough`, the result may be incomplete if bounds prove one of them.
        """
        kinds = self._check_bounds(failing)
        lost = [node for node in failing if kinds[node] == LOST]
        if lost and one_is_enough:
            return lost
        unknown = [node for node in failing if kinds[node] == UNKNOWN]
        if self._rules.exact:  # the search is faster, and finds what the simulation does not
            return lost + unknown
        for group in dict.fromkeys(self._state.cluster.nodes[node].group for node in unknown):
            lost += self._simulation.lost([node for node in unknown if node in group.nodes])
        return lost

    def _tolerated_before(self, failing: Sequence[int]) -> list[int]:
        """Return those of `failing` that are tolerated without the candidate."""
        new = [node for node in failing if node not in self._tolerated]
        with self._state.trial():
            if self._leaving is not None:
                self._state.place(*self._leaving)
            lost = set(self._lost(new))
            if self._rules.exact:
                lost = {node for node in lost if not self._exact().saves(node)}
        self._tolerated.update((node, node not in lost) for node in new)
        return [node for node in failing if self._tolerated[node]]

    def _watch(self, group: Group) -> FailureWatch:
        watch = self._watches.get(group.index)
        if watch is None:
            failing = self._rules.failing(self._state.cluster, group, self._scope)
            known = self._cache.watches.get(group.index)
            demands = self._cache.demands
            if known is not None and known.catch_up(self._state, self._rules, failing, demands):
                watch = known
                watch.refuter = None
            else:
                watch = FailureWatch(self._state, self._rules, failing, demands)
                self._cache.watches[group.index] = watch
            self._watches[group.index] = watch
        return watch

    def _check_bounds(self, failing: Sequence[int]) -> dict[int, int]:
        """Return for each failure what bounds prove in the present state."""
        state, rules = self._state, self._rules
        kinds: dict[int, int] = {}
        capacities: dict[int, TargetCapacity] = {}
        for node in failing:
            group = state.cluster.nodes[node].group
            targets = rules.targets(state.cluster, group)
            if len(failing) >= MANY and group.index not in capacities:
                capacities[group.index] = TargetCapacity(state, targets)
            demand = known_demand(state, node, rules, self._cache.demands)
            capacity = capacities.get(group.index)
            kinds[node], _ = check_bounds(state, node, demand, rules, targets, capacity)
        return kinds


class FailureWatch:
    """The bounds of all failures in a group before any candidate is placed.

    A failure is evaluated again only where it may have changed: if its node has changed; if a
    secondary has lost the memory for its failovers; if the lower bound of its spare memory no
    longer proves that it is tolerated; and if nothing bounds it.

    Attributes
    ----------
    failing:
        The nodes that must be able to fail.
    lost:
        The failures that bounds proved intolerable at their last evaluation.
    uncertain:
        The failures that bounds do not prove to be tolerated.
    refuter:
        The failure that refuted the last rejected candidate.
    """

    __slots__ = (
        "_demands", "_group_targets", "_memory", "_noted", "_onto", "_place", "_sources", "_spare",
        "_stamps", "_state", "_unbounded", "_unsorted", "failing", "lost", "refuter", "uncertain",
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
        self.uncertain: set[int] = set()
        self._spare = SpareMemory()
        self._place = {node: place for place, node in enumerate(failing)}  # breaks ties
        self._demands: dict[int, Demand] = {}
        self._unbounded: set[int] = set()
        self._noted: dict[int, Mapping[int, float]] = {}
        self._onto: dict[int, list[tuple[float, int, int]]] = {}  # -MiB, place, failing node
        self._sources: dict[int, set[int]] = {}  # secondary -> nodes that fail over to it
        self._unsorted: set[int] = set()
        groups = {state.cluster.nodes[node].group for node in failing}
        self._group_targets = {group.index: rules.targets(state.cluster, group) for group in groups}
        self._ask(failing, rules, demands)
        concerned = self.failing.union(*self._group_targets.values(), self._sources)
        self._memory = {index: state.columns[MEMORY][index] for index in concerned}
        self._stamps = {index: state.stamps[index] for index in concerned}

    def _ask(self, nodes: Collection[int], rules: Rules, demands: Demands) -> None:
        """Evaluate the failures of `nodes` in the present state."""
        capacities: dict[int, TargetCapacity] = {}
        for node in nodes:
            group = self._state.cluster.nodes[node].group.index
            targets = self._group_targets[group]
            if len(nodes) >= MANY and targets and group not in capacities:
                capacities[group] = TargetCapacity(self._state, targets)
            self._note(node, self._asked(node, rules, targets, capacities.get(group), demands))
        for secondary in self._unsorted:
            self._onto[secondary].sort()
        self._unsorted.clear()

    def _asked(
        self,
        node: int,
        rules: Rules,
        targets: Sequence[int],
        capacity: TargetCapacity | None,
        demands: Demands,
    ) -> Mapping[int, float]:
        """Return the failovers from `node` by secondary, in MiB, and note its spare memory."""
        state = self._state
        demand = known_demand(state, node, rules, demands)
        self._demand(node, demand)
        kind, spare = check_bounds(state, node, demand, rules, targets, capacity)
        self._spare.forget(node)
        bounded = kind == SAFE and spare >= 0 and not demand.plain and demand.shares is None
        self._unbounded.discard(node)
        if demand.intricate or (demand.movers and not bounded):
            self._unbounded.add(node)
        (self.lost.add if kind == LOST else self.lost.discard)(node)
        (self.uncertain.discard if kind == SAFE else self.uncertain.add)(node)
        if kind == LOST and not (rules.strict or rules.exact):
            return NOTHING
        if kind != SAFE:
            spare = -1
        if spare != INFINITE and (demand.movers or demand.intricate or not rules.exact):
            self._spare.note(node, spare)
        return demand.failovers

    def _demand(self, node: int, demand: Demand) -> None:
        """Store the demand of the failure of `node`."""
        before = self._demands.get(node)
        if before is demand:
            return
        for secondary in before.failovers if before is not None else ():
            self._sources[secondary].discard(node)
        for secondary in demand.failovers:
            self._sources.setdefault(secondary, set()).add(node)
        self._demands[node] = demand

    def _note(self, node: int, failovers: Mapping[int, float]) -> None:
        """Replace the failovers that are counted for the failure of `node`."""
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
        """Evaluate failures of changed nodes again; return False if that is impossible.

        It is impossible with ``strict``, on another state, and for other failing nodes or targets.
        """
        if state is not self._state or rules.strict:
            return False
        if self.failing != frozenset(failing):
            return False
        groups = state.cluster.groups
        if any(
            rules.targets(state.cluster, groups[g]) != t for g, t in self._group_targets.items()
        ):
            return False
        now = state.stamps
        changed = [index for index, then in self._stamps.items() if now[index] != then]
        if changed:
            self._renew(changed, rules, demands)
        return True

    def _renew(self, changed: Sequence[int], rules: Rules, demands: Demands) -> None:
        """Evaluate the failures that the `changed` nodes concern."""
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
        """Return whether the failovers from `node` still succeed if only targets `changed`."""
        demand = self._demands[node]
        noted = self._noted.get(node) is demand.failovers
        return noted and takes_over(self._state, demand, demand.failovers.keys() & changed)

    def movers(self, taken: float, rules: Rules) -> list[tuple[float, int]]:
        """Return (spare memory, node) of the failures with less spare memory than `taken` MiB.

        Only failures with an instance that needs a new node, the most critical first. The spare
        memory is -1 if bounds do not decide.
        """
        for node in self._spare.doubtful(taken):
            targets = self._group_targets[self._state.cluster.nodes[node].group.index]
            kind, spare = check_bounds(self._state, node, self._demands[node], rules, targets)
            self._spare.note(node, spare)
            if kind != SAFE:
                self.uncertain.add(node)
        return self._spare.less_than(taken)

    def needs_disk(self, node: int) -> bool:
        """Return whether instances of `node` need disk on another node when it fails."""
        return self._demands[node].plain > 0

    def onto(self, node: int) -> Iterator[tuple[int, float]]:
        """Yield (failing node, MiB that fail over from it to `node`), the largest first."""
        return ((failing, -less) for less, _, failing in self._onto.get(node, ()))

    def takes_over(self, rules: Rules, instance: Instance, nodes: tuple[int, ...]) -> bool:
        """Return whether sums prove that the failure of the new primary is tolerated afterwards.

        Either the failure only has failovers, and there is memory for them, or its spare memory
        covers what `instance` adds.
        """
        demand = self._demands[nodes[0]]
        if instance.uses_memory and not (instance.needs_secondary or instance.local):
            if rules.strict or demand.intricate or demand.plain or demand.shares is not None:
                return False
            if rules.recreates(instance) or instance.restricted or instance.name in rules.units:
                return False
            # As `check_bounds`: more is moved, and a larger instance closes each target earlier
            larger = max(0, instance.memory - demand.largest)
            group = self._state.cluster.nodes[nodes[0]].group.index
            lost = instance.memory + len(self._group_targets[group]) * larger
            return self._spare.least(nodes[0]) >= lost
        if rules.strict or len(nodes) < 2 or demand.movers or demand.intricate or demand.single:
            return False
        cluster = self._state.cluster
        if may_not_receive(cluster, nodes[0], nodes[1:]) or not cluster.nodes[nodes[1]].online:
            return False
        amount = demand.failovers.get(nodes[1], 0) + instance.memory
        return self._state.columns[MEMORY][nodes[1]] - amount > 0
