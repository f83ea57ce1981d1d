"""Check global N+1: the failures that a state tolerates, and the moves that keep them tolerated.

A failure is a set of nodes that fail together; usually it is one node. It is tolerated if every
instance of its nodes can be restarted on others. The check has stages, the fastest first. Each
stage runs only if the one before does not decide:

1. the memory that any node can lose before a failure is not tolerated, kept from one state to the
   next (`failure_watch`);
2. bounds after the checked instance is placed (`bounds`, `pools`);
3. counting, for many equal instances on one node each (`counting`);
4. simulation (`simulation`), or exact search (`exact`) with ``no-worse``.

`unrestarted` finds a small set of instances that cannot be restarted.

Cost of the check of a move with *n* nodes and *m* instances: O(n) once for the state, then O(1)
where the first stage decides, O(n) for each failure that needs the second, and O(n m) for each that
needs the last.

Source: the rules of a failure (`iallocator.n1`) are those of hail; the stages were developed for
this program.
"""

from __future__ import annotations

import sys

from iallocator.model.columns import MEMORY
from iallocator.model.moves import Move
from iallocator.model.state import derived
from iallocator.n1 import PROVED_LOST, PROVED_SAFE, UNPROVED, Rules, UndecidedError
from iallocator.n1.bounds import capacities_for, check_bounds, known_demand
from iallocator.n1.failure_watch import FailureWatch
from iallocator.scoring import Kernels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from iallocator.aliases import Nodes
    from iallocator.deadline import Deadline
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import Kept, State
    from iallocator.n1 import Failure
    from iallocator.n1.bounds import Demands
    from iallocator.n1.comparison import Comparison
    from iallocator.n1.counting import CountedTolerance, Speculation
    from iallocator.n1.exact import Evacuation, ExactSearch, Loss
    from iallocator.n1.simulation import Simulation, UnrestartedInstance
    from iallocator.n1.unrestarted import (
        Failover,
        FailoverPlan,
        InteractingNodes,
        ToleratedPairs,
        UnrestartedSearch,
    )

    N1Refuter = tuple[Failure, UnrestartedInstance | None]

    """A failure that rejects a move, and an instance that cannot be restarted, if it is known."""

__all__ = ["FailureTolerance"]

FEW_PLACEMENTS = 40
"""The number of calls of `FailureTolerance.accepts` up to which exact search is used, because
loading the array library, which counting needs, takes longer."""


class FailureTolerance:
    """Checks global N+1 on `state`, and leaves the state unchanged.

    Every method reads the state at the time of the call. Results about failures are kept from one
    state to the next, as far as they are still valid.

    Parameters
    ----------
    rules:
        Which failures must be tolerated, and which nodes may take over.
    scope:
        The nodes over which simulations compute scores; with ``strict``, also the nodes that fail.
        None: the nodes of `group`; all nodes if `group` is None too.
    kernels:
        Compute scores and check limits of nodes in simulations; None: new kernels for `scope`.
    group:
        The group with the failures that are compared with the initial state of a plan.
    min_disk:
        The share of every node's disk that stays free.

    Attributes
    ----------
    state, rules:
        The state that is checked, and the rules.
    replaced:
        An instance that is not placed because a new one takes its place, and its nodes.
    """

    def __init__(
        self,
        state: State,
        rules: Rules,
        scope: Sequence[int] | None = None,
        kernels: Kernels | None = None,
        group: Group | None = None,
        min_disk: float = 0.0,
    ) -> None:
        self.state = state
        self.rules = rules
        self._group = group
        self._scope: Sequence[int] = range(len(state.cluster.nodes)) if scope is None else scope
        if scope is None and group is not None:
            self._scope = group.nodes
        self._min_disk = min_disk
        self._given_kernels = kernels
        self._kernels: Kernels | None = None
        self._simulation: Simulation | None = None
        self._power: object = None  # the condition of the nodes for which kernels were made
        self._version = -1
        self.replaced: tuple[Instance, Nodes] | None = None
        self._comparison: Comparison | None = None
        self._leaving: tuple[Instance, Nodes] | None = None
        self._losses: dict[Failure, Loss] | None = None
        self._required: Collection[Failure] | None = None  # as `require` has it; None: by the rules
        # What is kept from one state to the next
        self._demands: Demands = {}
        self._known_watches: dict[int, FailureWatch] = {}
        self._counted: CountedTolerance | None = None
        self._asked = 0  # how often `accepts` was called
        self._explaining: Kept[int, Simulation] = {}
        self._unrestarted: Kept[None, UnrestartedSearch] = {}
        self._failovers: Kept[int, list[Failover] | None] = {}  # by group
        # What is known of one state
        self._tolerated: dict[Failure, bool] = {}
        self._unrestarted_now: dict[Failure, UnrestartedInstance | None] = {}
        self._all_unrestarted_now: dict[Failure, list[UnrestartedInstance]] = {}
        self._unrestarted_then: dict[Failure, UnrestartedInstance | None] = {}  # after a move
        self._watches: dict[int, FailureWatch] = {}
        self._exact_search: ExactSearch | None = None
        self._refuters: dict[tuple[int, float, bool], Failure] = {}  # by primary, MiB, local disks
        # By instance, nodes before and after. Messages name this failure: a second check may find
        # another one, because the checks of other placements change the order.
        self._rejections: dict[tuple[str, Nodes, Nodes], N1Refuter] = {}

    def on(self, state: State) -> FailureTolerance:
        """Return the N+1 checks of another `state`, with the rules and the initial state of this
        object.
        """
        if state is self.state:
            return self
        other = type(self)(
            state, self.rules, self._scope, self._given_kernels, self._group, self._min_disk
        )
        if self._comparison is not None:
            other._comparison = self._comparison.of(other)
        return other

    def _renew(self) -> None:
        """Drop the results for another state, or for nodes that are in another condition now."""
        if self.rules.plan and self._given_kernels is None:
            nodes = self.state.cluster.nodes
            power = [(nodes[i].online, nodes[i].total_memory) for i in self._scope]
            self.rules.switch(power)
            if power != self._power:
                self._power, self._version, self._simulation = power, -1, None
        if self._version != self.state.version:
            self._version = self.state.version
            self._forget()

    def _forget(self) -> None:
        self._watches = {}
        self._exact_search = None
        self._refuters.clear()
        self._rejections.clear()
        self._all_unrestarted_now = {}
        self._leaving = self.replaced
        self._tolerated = {}
        self._unrestarted_now = {}

    # The state of every failure

    def failing(self) -> list[Failure]:
        """Return the failures of the online nodes of the group."""
        assert self._group is not None
        self._renew()
        return self.rules.of_online(self.state.cluster, self._group)

    def tolerated(self, failing: Sequence[Failure]) -> list[Failure]:
        """Return those of `failing` that are tolerated; none if the work is spent before that is
        known.
        """
        self._renew()
        try:
            return self._tolerated_before(failing)
        except UndecidedError:
            return []

    def not_tolerated(self, failing: Sequence[Failure]) -> list[Failure]:
        """Return those of `failing` that are not tolerated."""
        if not failing:
            return []
        tolerated = set(self.tolerated(failing))
        return [failure for failure in failing if failure not in tolerated]

    def first_not_tolerated(self, failing: Sequence[Failure]) -> Failure | None:
        """Return the first of `failing` that is not tolerated, or None."""
        if not self.rules.exact:
            return next(iter(self.not_tolerated(failing)), None)
        self._renew()
        kinds = self._check_bounds(failing)
        uncertain = (failure for failure in failing if kinds[failure] != PROVED_SAFE)
        try:
            return next((one for one in uncertain if not self._exact().tolerates(one)), None)
        except UndecidedError:
            return failing[0]

    def not_proved(self, failing: Sequence[Failure]) -> list[Failure]:
        """Return those of `failing` that bounds do not prove to be tolerated."""
        self._renew()
        kinds = self._check_bounds(failing)
        return [one for one in failing if kinds[one] != PROVED_SAFE]

    def evacuation(self, failure: Failure) -> Evacuation:
        """Return the instances that leave after `failure`, and the nodes that can receive them."""
        self._renew()
        return self._exact().evacuation(failure)

    def memory_moved(self, failure: Failure) -> float:
        """Return the MiB of the instances that need another node after `failure`.

        Failovers to secondaries are not included.
        """
        return known_demand(self.state, failure, self.rules, self._demands).moved

    def losses(self, failing: Sequence[Failure]) -> dict[Failure, Loss]:
        """Return what each of `failing` loses.

        Failures that are undecided when the work is spent are missing from the result.
        """
        from iallocator.n1.exact import NO_LOSS

        self._renew()
        losses: dict[Failure, Loss] = {}
        kinds = self._check_bounds(failing)
        try:
            for one in failing:
                losses[one] = NO_LOSS if kinds[one] == PROVED_SAFE else self._exact().loss(one)
        except UndecidedError:
            pass
        return losses

    def rejects_all(self, group: Group) -> bool:
        """Return whether bounds prove, with ``strict``, that `group` accepts no instance.

        That is proved if a failure is certainly not tolerated now: a new instance cannot improve
        it.
        """
        if not self.rules.requires_all:
            return False
        self._renew()
        lost = self._watch(group).lost
        return any(self._check_bounds([one])[one] == PROVED_LOST for one in lost)

    # The instances that cannot be restarted

    def unrestarted(self, failure: Failure) -> list[Instance]:
        """Return the instances that cannot be restarted after `failure`, as few as were found.

        Cost: a few look-ups for each node that takes over, if free memory is ample.

        Raises
        ------
        UndecidedError
            If the work is spent before the result is known.
        """
        return self._unrestarted_search().lost(failure)

    def interacting(self, online: Sequence[int]) -> InteractingNodes:
        """Return the pairs of `online` nodes that may lose more if both fail than in two single
        failures.
        """
        from iallocator.n1.unrestarted import InteractingNodes

        return InteractingNodes(self.state, self._unrestarted_search(), online)

    def tolerated_pairs(self, interacting: InteractingNodes, deadline: Deadline) -> ToleratedPairs:
        """Return the interacting pairs of nodes that are certainly tolerated."""
        from iallocator.n1.unrestarted import ToleratedPairs

        return ToleratedPairs(self._unrestarted_search(), interacting, deadline)

    def _unrestarted_search(self) -> UnrestartedSearch:
        from iallocator.n1.unrestarted import UnrestartedSearch

        return derived(
            self._unrestarted,
            None,
            self.state.version,
            lambda: UnrestartedSearch(self.state, self.rules, self._min_disk),
        )

    def first_unrestarted(self, failure: Failure, failures: int = 1) -> UnrestartedInstance | None:
        """Return the first instance that a simulation of `failure` cannot restart, or None.

        The result of an earlier simulation is used if there is one. `failures`: about how many
        failures the caller will simulate; the number determines the method.

        Raises
        ------
        UndecidedError
            If the work is spent before the result is known.
        """
        self._renew()
        known = self._unrestarted_now.get(failure) if self._leaving is None else None
        return known or self._naming(failures).fail(failure)

    def all_unrestarted(self, failure: Failure, failures: int = 1) -> list[UnrestartedInstance]:
        """Return all instances that a simulation of `failure` cannot restart.

        The simulation is done once for each state. `failures`: about how many failures the caller
        will simulate; the number determines the method.

        Raises
        ------
        UndecidedError
            If the work is spent before the result is known.
        """
        self._renew()
        if failure not in self._all_unrestarted_now:
            self._all_unrestarted_now[failure] = self._naming(failures).all_lost(failure)
        return self._all_unrestarted_now[failure]

    def _naming(self, failures: int) -> Simulation:
        """Return a simulation that names an instance for each failure that loses one.

        `failures`: about how many failures it will simulate.
        """
        if failures == 1:
            return self._simulated()
        state, scope = self.state, self._scope

        def compute() -> Simulation:
            from iallocator.n1.simulation import Simulation

            kernels = self._given_kernels
            if kernels is None:
                kernels = Kernels(state, [(len(scope), 0)] * failures, self._min_disk, scope)
            return Simulation(state, kernels, self.rules, scope)

        return derived(self._explaining, failures, self._power, compute)

    def failover_plan(self, group: Group) -> FailoverPlan | None:
        """Return where the instances of `group` restart; None if memory alone does not decide."""
        from iallocator.n1.unrestarted import FailoverPlan, failovers_of

        self._renew()
        failovers = derived(
            self._failovers,
            group.index,
            [(self.state.stamps[k], self.state.cluster.nodes[k].online) for k in group.nodes],
            lambda: failovers_of(self.state, group, self.rules),
        )
        return None if failovers is None else FailoverPlan(self.state, failovers)

    # The check of a move

    def require(
        self,
        failures: Collection[Failure] | None = None,
        losses: dict[Failure, Loss] | None = None,
    ) -> None:
        """Check moves from now on against given failures or losses instead of the initial state.

        Parameters
        ----------
        failures:
            The only failures that must be tolerated after a move. ``no-worse`` ignores them.
        losses:
            Failure -> what it may lose, with ``no-worse``.
        """
        self._required = failures
        self._losses = losses
        self._exact_search = None

    def allows(self, move: Move) -> bool:
        """Return whether N+1 is kept by `move`. The instance of `move` must not be placed.

        `move.before` is empty for an instance that is checked like a new one. The result is False
        if the work is spent before N+1 is decided; `Deadline.undecided` counts such results.
        """
        if self.rules.mode == "off":
            return True
        effort = self.rules.effort
        try:
            if not effort.spent:
                failure = self._refuter(move)
                if failure is not None:
                    self._reject(move, failure)
                return failure is None
        except UndecidedError:
            pass
        effort.undecided += 1
        return False

    def proved_allowed(self, first: Move, placements: Sequence[Nodes]) -> list[Nodes]:
        """Return those of `placements` that sums prove to keep N+1; others may keep it, too.

        `placements`: nodes of one group for the instance of `first`. All of them are checked as
        moves from ``first.before``. Cost: as one check, and a few comparisons for each placement.
        """
        if self.rules.requires_all or self.rules.namesake is not None:
            return []
        instance = first.instance
        self._renew()
        self._leave(first)
        watch = self._watch(self.state.cluster.nodes[first.after[0]].group)
        memory = instance.memory if instance.uses_memory else 0
        if watch.with_less_spare(memory, self.rules):
            return []
        return [
            nodes
            for nodes in placements
            if next(self._overloaded(watch, memory, nodes[0]), None) is None
            and not watch.endangered(self.rules, instance, nodes)
        ]

    def obstacle(self, move: Move) -> UnrestartedInstance | None:
        """Return an instance that cannot be restarted after a failure because of `move`.

        The failure is the one for which `allows` has rejected `move`. If the failure is not
        tolerated without `move` either, the result is an instance that could be restarted without
        `move`. The result is None if no failure rejects `move`, or if the work is spent.
        """
        try:
            if self.rules.mode == "off":
                return None
            self._renew()
            self._leave(move)
            rejection = self._rejections.get((move.instance.name, move.before, move.after))
            if rejection is None:
                refuter = self._refuter(move)
                if refuter is None:
                    return None
                rejection = self._reject(move, refuter)
            failure, unrestarted = rejection
            known = self.lost_before(failure) if self.rules.exact else ()
            if unrestarted is not None and not known:
                return unrestarted
            with self.state.trial():
                self._try_out(move.instance, move.after)
                if not known:
                    return self._simulated().fail(failure)
                after = self._simulated().all_lost(failure)
            new = [one for one in after if one.instance.name not in known] or after
            return new[0] if new else None
        except UndecidedError:
            return None

    def lost_before(self, failure: Failure) -> set[str]:
        """Return the names of the instances that `failure` loses without the move that it rejects.

        The result is empty with ``no-new``, which only checks failures that were tolerated before.

        Raises
        ------
        UndecidedError
            If the work is spent before the result is known.
        """
        if not (self.rules.exact or self.rules.requires_all):
            return set()
        return {one.instance.name for one in self.all_unrestarted(failure)}

    def _reject(self, move: Move, failure: Failure) -> N1Refuter:
        """Record that `failure` rejects `move`, and return the record.

        The record is the failure, and the instance that would be lost; None if no simulation named
        it.
        """
        rejection = failure, self._unrestarted_then.get(failure)
        self._rejections[move.instance.name, move.before, move.after] = rejection
        return rejection

    def _refuter(self, move: Move) -> Failure | None:
        """Return a failure that would not be tolerated after `move`, or None.

        `move` can only break three kinds of failures: those with instances that need a new node and
        have little spare memory; those with instances that fail over to the new primary; and those
        of the new primary itself.
        """
        self._renew()
        self._leave(move)
        self._unrestarted_then = {}
        instance, nodes = move.instance, move.after
        group = self.state.cluster.nodes[nodes[0]].group
        if self.rules.namesake is not None:
            failing = self.rules.failing(self.state.cluster, group, self._scope)
            return self._refuted(failing, instance, nodes)
        watch = self._watch(group)
        memory = instance.memory if instance.uses_memory else 0
        if self.rules.exact:
            watch.refuter = self._worse_off(watch, memory, instance, nodes)
            return watch.refuter
        for failure in self._overloaded(watch, memory, nodes[0]):
            if self._must_tolerate([failure]):
                return failure
        critical = watch.endangered(self.rules, instance, nodes)
        critical += [f for _, f in self._critical(watch, memory, nodes[0]) if f not in critical]
        if watch.refuter in critical:  # it probably refutes this candidate as well
            critical.remove(watch.refuter)
            if self._refuted([watch.refuter], instance, nodes) is not None:
                return watch.refuter
        watch.refuter = self._refuted(critical, instance, nodes)
        return watch.refuter

    def _leave(self, move: Move) -> None:
        """Drop the results that were cached for the instance of another move."""
        leaving = (move.instance, move.before) if move.before else self.replaced
        if leaving == self._leaving:
            return
        self._leaving = leaving
        self._exact_search = None
        self._refuters.clear()
        self._tolerated = {}
        self._unrestarted_now = {}

    def _overloaded(self, watch: FailureWatch, memory: float, primary: int) -> Iterator[Failure]:
        """Yield the failures after which `primary` lacks the memory for the failovers to it.

        A new instance of `memory` MiB is counted on `primary`.
        """
        for failure, amount in watch.failovers_to(primary):
            if self.state.columns[MEMORY][primary] - memory - amount > 0:
                break
            if failure in watch.failing:
                yield failure

    def _critical(
        self, watch: FailureWatch, memory: float, primary: int
    ) -> Iterator[tuple[float, Failure]]:
        """Yield (spare memory, failure) for failures without `primary` that `memory` MiB more can
        break.
        """
        for spare, failure in watch.with_less_spare(memory, self.rules):
            if primary not in failure:
                yield spare, failure

    def _refuted(
        self, critical: Sequence[Failure], instance: Instance, nodes: Nodes
    ) -> Failure | None:
        """Return the first failure of `critical` that the candidate makes intolerable, or None."""
        known = self._required is not None or self.rules.requires_all
        if known:
            critical = self._must_tolerate(critical)
        lost: Sequence[Failure] = self._lost_with(critical, instance, nodes, one_is_enough=known)
        if lost and not known:
            lost = self._must_tolerate(lost)
        return lost[0] if lost else None

    def _must_tolerate(self, failing: Sequence[Failure]) -> Sequence[Failure]:
        """Return those of `failing` that must be tolerated after the candidate is placed."""
        if self._required is not None:
            return [one for one in failing if one in self._required]
        return failing if self.rules.requires_all else self._tolerated_before(failing)

    def _lost_with(
        self,
        critical: Sequence[Failure],
        instance: Instance,
        nodes: Nodes,
        one_is_enough: bool = False,
    ) -> list[Failure]:
        if not critical:
            return []
        with self.state.trial():
            self._try_out(instance, nodes)
            self._unrestarted_then = self._lost(critical, one_is_enough)
        return list(self._unrestarted_then)

    def _worse_off(
        self, watch: FailureWatch, memory: float, instance: Instance, nodes: Nodes
    ) -> Failure | None:
        """Return a failure that loses more with the candidate, or None.

        Sums, bounds and exact search decide, in this order.
        """
        key = nodes[0], memory, instance.local
        likely = self._refuters.get(key, watch.refuter)
        if likely is not None and nodes[0] not in likely:
            exact = self._exact()
            if not exact.compares(nodes) and exact.known_by_bound(likely, instance, nodes):
                return likely
        # Bounds do not prove these failures tolerated: now, or with the candidate.  If disk matters
        # as well, the bounds are checked with the candidate in place.
        uncertain = list(self._overloaded(watch, memory, nodes[0]))
        critical: list[Failure] = []
        for failure in watch.endangered(self.rules, instance, nodes):
            if failure not in uncertain:
                (uncertain if instance.needs_secondary else critical).append(failure)
        for spare, failure in self._critical(watch, memory, nodes[0]):
            if failure not in uncertain:
                (critical if spare >= 0 or watch.needs_disk(failure) else uncertain).append(failure)
        if not (uncertain or critical):
            return None
        if uncertain and not self._exact().compares(nodes):
            undecided = []
            for failure in uncertain:
                known = self._exact().known_by_bound(failure, instance, nodes)
                if known:
                    self._refuters[key] = failure
                    return failure
                if known is None:
                    undecided.append(failure)
            uncertain = undecided
        lost = self._lost_with(uncertain + critical, instance, nodes)
        return self._exact().first_worse(lost, instance, nodes) if lost else None

    def _try_out(self, instance: Instance, nodes: Nodes) -> None:
        """Place the candidate; with some rules, a moving instance also counts on its old nodes."""
        where = self.state.where
        present = where.get(instance.name)
        self.state.place(instance, nodes)
        if self.rules.movers_stay and present is not None:
            where[instance.name] = present
        if self.rules.namesake is not None:
            self.state.impersonate(self.rules.namesake, instance)

    # Comparison with the initial state

    def measure(self, now: bool = True) -> None:
        """Measure the failures of online nodes of the group, as those of the initial state.

        With `now` False, losses are measured when they are first needed; the state must not change
        until then.
        """
        from iallocator.n1.comparison import Comparison

        assert self._group is not None
        self._comparison = Comparison.begun(self, self._group, now)

    def exactly(self) -> FailureTolerance:
        """Return N+1 checks by the rules of ``no-worse``, with the present state as the initial
        one.
        """
        if self.rules.exact:
            return self
        rules = Rules("no-worse", self.rules.units, self.rules.effort, plan=self.rules.plan)
        exact = type(self)(
            self.state, rules, self._scope, self._given_kernels, self._group, self._min_disk
        )
        exact.measure()
        return exact

    @property
    def comparison(self) -> Comparison:
        """Return the present state compared with the initial one, which `measure` has measured."""
        assert self._comparison is not None
        return self._comparison

    def release(self) -> None:
        """Forget what `measure` has measured, so that the memory of this object can be freed.

        The comparison refers to this object. Without the collector of cyclic garbage, which is off
        while planners run, both would stay in memory.
        """
        self._comparison = None

    # The headroom for equal instances

    def accepts(self, instance: Instance, nodes: Nodes) -> bool:
        """Return whether N+1 is kept by a new `instance` on `nodes`, by counting if it pays.

        After each placement, the caller must call `placed`.
        """
        self._asked += 1
        if len(nodes) == 1 and self.counts():
            counting, exact = self._counting(), self.rules.exact
            counted = (counting.tolerates if exact else counting.allows)(instance, nodes[0])
            if counted or (counted is False and not exact):
                return counted
        return self.allows(Move(instance, (), nodes))

    def counts(self) -> bool:
        """Return whether counting is loaded, or is worth loading."""
        if self._counted is not None or "numpy" in sys.modules:
            return True
        if self.rules.exact:
            return self._asked > FEW_PLACEMENTS
        return self._simulation is not None and self._simulation.worth_arrays

    def certainly_rejects(self, instance: Instance, node: int) -> bool:
        """Return whether `node` certainly rejects a new `instance`, and every larger one."""
        return (
            self.rules.requires_all
            and self.counts()
            and self._counting().certainly_lost(instance, node)
        )

    def rejected_down(self, instances: Sequence[Instance], nodes: Sequence[int]) -> int:
        """Return how many instances at the start of `instances` are certainly rejected by all of
        `nodes`.

        The instances are equal except in one amount, which decreases from each to the next. The
        result is valid only with ``strict``.
        """
        return self._counting().rejected_down(instances, nodes)

    def prepare(self, instances: Sequence[Instance]) -> None:
        """Simulate in one batch which nodes reject each of `instances`, for later calls of
        `accepts`.

        The instances are of one template.
        """
        if not self.rules.exact and self.counts():
            self._counting().prepare(instances)

    def headroom(self, instance: Instance, groups: Sequence[int]) -> int:
        """Return how many more instances equal to `instance` certainly keep N+1.

        The number holds whichever nodes of `groups` they are placed on. It is 0 for an instance
        with a secondary.
        """
        return self._counting().count(instance, groups) if instance.required_nodes == 1 else 0

    def speculation(self, instance: Instance, group: int) -> Speculation | None:
        """Return an object that checks several placements of equal instances in `group` at once.

        The result is None if that is impossible.
        """
        speculation = self._counting().speculation(group)
        return speculation if speculation is not None and speculation.suits(instance) else None

    def placed(self, arrivals: Sequence[tuple[Instance, Nodes]]) -> None:
        """Update the counts after equal instances were placed on their nodes.

        Names and orders of the instances may differ.
        """
        if any(len(nodes) > 1 for _, nodes in arrivals):
            self._counted = None
        elif self._counted is not None:
            self._counted.placed(arrivals)

    def exchange_counts(self, counts: CountedTolerance | None) -> CountedTolerance | None:
        """Return the present counts, and use `counts` from now on; None: count again when needed.

        Use it around a trial of the state with arrivals that are not passed to `placed`.
        """
        present, self._counted = self._counted, counts
        return present

    def _counting(self) -> CountedTolerance:
        if self._counted is None:
            from iallocator.n1.counting import CountedTolerance

            cluster = self.state.cluster
            failing = {
                one for g in cluster.groups for one in self.rules.failing(cluster, g, self._scope)
            }
            self._counted = CountedTolerance(
                self.state, self.rules, failing, self._simulated().kernels
            )
        return self._counted

    # The stages

    def _exact(self) -> ExactSearch:
        """Return the exact search; it is loaded when the other stages do not decide."""
        if self._exact_search is None:
            from iallocator.n1.exact import ExactSearch

            self._exact_search = ExactSearch(
                self.state,
                self._simulated().kernels,
                self.rules,
                self._simulated(),
                self._leaving,
                self._losses,
            )
        return self._exact_search

    def _lost(
        self, failing: Sequence[Failure], one_is_enough: bool = False
    ) -> dict[Failure, UnrestartedInstance | None]:
        """Return those of `failing` that are not tolerated; with exact search, also undecided ones.

        Each has its first instance that cannot be restarted, or None if no simulation named it.
        With `one_is_enough`, the result may be incomplete if it is not empty.
        """
        kinds = self._check_bounds(failing)
        lost: dict[Failure, UnrestartedInstance | None] = dict.fromkeys(
            one for one in failing if kinds[one] == PROVED_LOST
        )
        if lost and one_is_enough:
            return lost
        unknown = [one for one in failing if kinds[one] == UNPROVED]
        if self.rules.exact:  # the search is faster, and finds what the simulation does not
            return lost | dict.fromkeys(unknown)
        by_group: dict[Group, list[Failure]] = {}
        for one in unknown:
            by_group.setdefault(self.state.cluster.nodes[one[0]].group, []).append(one)
        for some in by_group.values():
            lost |= self._simulated().lost(some, one_is_enough)
            if lost and one_is_enough:
                break
        return lost

    def _tolerated_before(self, failing: Sequence[Failure]) -> list[Failure]:
        """Return those of `failing` that are tolerated without the candidate."""
        new = [one for one in failing if one not in self._tolerated]
        with self.state.trial():
            if self._leaving is not None:
                self.state.place(*self._leaving)
            lost = self._lost(new)
            if self.rules.exact:
                lost = dict.fromkeys(one for one in lost if not self._exact().tolerates(one))
        self._unrestarted_now |= lost
        self._tolerated.update((one, one not in lost) for one in new)
        return [one for one in failing if self._tolerated[one]]

    def _watch(self, group: Group) -> FailureWatch:
        watch = self._watches.get(group.index)
        if watch is None:
            failing = self.rules.failing(self.state.cluster, group, self._scope)
            watch = self.renewed(self._known_watches.get(group.index), failing)
            watch.refuter = None
            self._known_watches[group.index] = self._watches[group.index] = watch
        return watch

    def renewed(self, watch: FailureWatch | None, failing: Sequence[Failure]) -> FailureWatch:
        """Return `watch`, evaluated where the state has changed, or a new one for `failing`."""
        self._renew()
        if watch is None or not watch.catch_up(self.state, self.rules, failing, self._demands):
            return FailureWatch(self.state, self.rules, failing, self._demands)
        return watch

    def _simulated(self) -> Simulation:
        """Return the simulation; with ``strict``, it keeps the required share of disk free."""
        if self._simulation is None:
            from iallocator.n1.simulation import Simulation

            kernels = self._given_kernels
            if kernels is None:
                free = self._min_disk if self.rules.strict else 0.0
                kernels = Kernels(self.state, [(len(self._scope), 0)], free, self._scope)
            self._simulation = Simulation(self.state, kernels, self.rules, self._scope)
        return self._simulation

    def _check_bounds(self, failing: Sequence[Failure]) -> dict[Failure, int]:
        """Return for each failure what bounds prove in the present state."""
        state, rules = self.state, self.rules
        if rules.strict and self._min_disk:  # which bounds do not know
            return dict.fromkeys(failing, UNPROVED)
        capacities = capacities_for(state, rules, failing)
        kinds: dict[Failure, int] = {}
        for one in failing:
            demand = known_demand(state, one, rules, self._demands)
            kinds[one], _ = check_bounds(state, one, demand, rules, capacities)
        return kinds
