"""Simulation: carry out the restarts after a failure of nodes on the state, one by one.

First the drbd primaries of the nodes fail over to their secondaries.  Then the primaries on shared
storage are moved one by one, each to the node of their group with the best score.  Then the plain
and file primaries are created anew, those with most memory first, each on the best node.  In the
score, they still count on the failed node as well.  Only hard limits are enforced.

Cost: O(m n) for a failure with *m* instances and *n* targets; many failures are simulated in arrays
(`iallocator.n1.simulation_arrays`).

Source: these are the steps of hail.
"""

from __future__ import annotations

from itertools import islice

from iallocator.constraints.table import entry_rejections, move_rejections
from iallocator.limits.node import (
    FORCED_LIMITS,
    PRIMARY,
    checks_for,
    failover_checks,
)
from iallocator.model.constraints import as_one, items_of
from iallocator.n1 import SCALAR_WORK, disk_rejection
from iallocator.n1.bounds import RestartOrder, failovers_succeed
from iallocator.scoring import Kernels
from iallocator.tolerances import SCORE_DECIMALS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1 import Failure, Rules

__all__ = ["Simulation", "UnrestartedInstance"]

WORTH_ARRAYS = 1_000
"""The number of moves × nodes from which on arrays are loaded. Without arrays, a move costs 50 µs
per node."""

WORTH_LOADED_ARRAYS = 100
"""The number of moves × nodes from which on arrays are used if a request has many candidates, and
so many moves have been simulated that loading arrays would have been faster."""


RESTARTS_BETWEEN_PROOFS = 8
"""The number of items that are restarted before sums may prove that the others restart, too. A
proof takes as long as about one restart."""


class UnrestartedInstance:
    """An instance that cannot be restarted after `failure`, and why."""

    __slots__ = ("failure", "instance", "why")

    def __init__(self, failure: Failure, instance: Instance, why: str) -> None:
        self.failure = failure
        self.instance = instance
        self.why = why


class Simulation:
    """Simulates failures on `state`. Each method restores the state unless its docstring says
    otherwise.

    Parameters
    ----------
    kernels:
        Compute the scores of nodes, and check their limits.
    scope:
        The nodes over which the score is computed when an instance is created anew.
    """

    @classmethod
    def of_group(
        cls, state: State, group: Group, rules: Rules, min_disk: float = 0.0, failures: int = 1
    ) -> Simulation:
        """Return a simulation of about `failures` failures of nodes of `group`.

        `min_disk`: the share of every node's disk that stays free. With many failures, scores are
        computed in arrays.
        """
        nodes = group.nodes
        kernels = Kernels(state, [(len(nodes), 0)] * failures, min_disk, nodes)
        return cls(state, kernels, rules, nodes)

    def __init__(self, state: State, kernels: Kernels, rules: Rules, scope: Sequence[int]) -> None:
        self._state = state
        self.kernels = kernels
        self._rules = rules
        self._scope = scope

    @property
    def worth_arrays(self) -> bool:
        """Return whether so much has been simulated that loading arrays would have been faster."""
        return self.kernels.simulated > WORTH_ARRAYS

    def fail(self, failure: Failure) -> UnrestartedInstance | None:
        """Return the first instance that cannot be restarted after `failure`, or None.

        Raises
        ------
        UndecidedError
            If the limit of work is reached before the result is known.
        """
        with self._state.trial():
            return next(self._failures(failure), None)

    def all_lost(self, failure: Failure) -> list[UnrestartedInstance]:
        """Return the instances that `failure` leaves without a node, in the order of restarts."""
        with self._state.trial():
            return list(self._failures(failure))

    def _failures(self, failure: Failure) -> Iterator[UnrestartedInstance]:
        """Simulate `failure`; yield the instances that cannot be restarted, and remove them.

        Changes the state: call it in a trial.
        """
        state = self._state
        leaving = self.leaving(failure)
        many = len(leaving) > RESTARTS_BETWEEN_PROOFS
        order = self._order(failure, leaving) if many else None
        stranded = self._failovers(failure)
        for one in stranded:
            yield one
            if one.instance.name in state.where:
                state.remove(one.instance, state.where[one.instance.name])
        for item in self._unplaced(leaving, failure, order):
            what = "memory and disk" if self._rules.recreates(item[0]) else "memory"
            largest = min(item, key=_memory)
            others = " and ".join(one.name for one in item if one is not largest)
            whole = f"it together with {others}" if others else "it"
            which = "no node has"
            if state.cluster.reach(largest) is not None:
                access = state.cluster.access_words(largest, third=True, brief=True)
                which = f"no other node that {access} has"
            yield UnrestartedInstance(failure, largest, f"{which} the {what} for {whole}")

    def _order(
        self, failure: Failure, leaving: Sequence[tuple[int, list[Instance]]]
    ) -> RestartOrder:
        """Return what the order of `leaving` proves before the failovers of `failure`."""
        return RestartOrder(self._state, failure, leaving, self._rules, self.kernels.min_disk)

    def _unplaced(
        self,
        leaving: Sequence[tuple[int, list[Instance]]],
        failure: Failure,
        order: RestartOrder | None,
    ) -> Iterator[list[Instance]]:
        """Yield what `unplaced` yields; end when `order` proves that all other items restart."""
        for begin in range(0, len(leaving), RESTARTS_BETWEEN_PROOFS):
            if begin and order is not None and order.proves(begin):
                return
            yield from self.unplaced(leaving[begin : begin + RESTARTS_BETWEEN_PROOFS], failure)

    def leaving(self, failure: Failure) -> list[tuple[int, list[Instance]]]:
        """Return (failed node, instances) for each item that needs a new node after `failure`.

        An item is one instance, or the members of a colocation group on the failed node. Instances
        that must be created anew come last.
        """
        recreated = [
            (node, item)
            for node in failure
            for item in self._items(
                sorted((i for i in self._primaries(node) if self._rules.recreates(i)), key=_memory)
            )
        ]
        return [*((n, item) for n in failure for item in self.movers(n)), *recreated]

    def unplaced(
        self, leaving: Iterable[tuple[int, list[Instance]]], failure: Collection[int]
    ) -> Iterator[list[Instance]]:
        """Restart the items of `leaving` one by one; yield the instances of each that no node
        accepts.

        Changes the state: call it in a trial, after the failovers.
        """
        state = self._state
        targets: dict[int, list[int]] = {}
        for node, item in leaving:
            group = state.cluster.nodes[node].group
            if group.index not in targets:
                able = self._rules.targets(state.cluster, group)
                targets[group.index] = [t for t in able if t not in failure]
            scope = self._scope if self._rules.recreates(item[0]) else group.nodes
            if not self._move(node, item, targets[group.index], scope):
                yield item

    def goes(self, item: Sequence[Instance], target: int) -> bool:
        """Move all instances of `item` to the node `target`; return whether it accepts them.

        Changes the state: call it in a trial.
        """
        node = self._state.where[item[0].name][0]
        return self._move(node, item, (target,), (target,))

    def fails_over(self, instance: Instance, failed: Collection[int]) -> bool:
        """Let `instance` fail over; return whether its secondary, not in `failed`, accepts it.

        The failover changes the state. The caller must undo it.
        """
        return not self._failover(instance, failed)

    def lost(
        self, failing: Sequence[Failure], one_is_enough: bool = False
    ) -> dict[Failure, UnrestartedInstance | None]:
        """Return the failures in `failing`, all in one group, that lose an instance.

        Each failure has the first instance that the simulation cannot restart, or None if arrays
        decide: arrays do not name instances. With `one_is_enough`, the result may have the first of
        these failures only.
        """
        failing = [one for one in failing if not self._order(one, self.leaving(one)).proves()]
        if not failing:
            return {}
        nodes = self._state.cluster.nodes
        group = nodes[failing[0][0]].group
        steps = sum(
            not one.needs_secondary  # which can restart on one node only
            for failure in failing
            for node in failure
            for one in self._state.primaries[node].values()
        )
        many = self.kernels.many and self.worth_arrays
        enough = WORTH_LOADED_ARRAYS if many else WORTH_ARRAYS
        one_group = all(
            len(one) == 1 or all(nodes[i].group is group for i in one) for one in failing
        )
        if steps * len(group.nodes) > enough and one_group:
            from iallocator.n1 import simulation_arrays as batch

            if batch.suits(self._state, group, self._rules, failing):
                fixed = self.kernels.fixed
                lost = batch.lost_failures(self, self._state, fixed, self._rules, failing)
                return dict.fromkeys(lost)
        simulated = ((failure, self.fail(failure)) for failure in failing)
        found = ((failure, first) for failure, first in simulated if first is not None)
        return dict(islice(found, 1) if one_is_enough else found)

    def _primaries(self, node: int) -> list[Instance]:
        """Return the instances that must leave `node`, in the order of their restarts.

        An instance that the checked placement moves to another node has left `node` already. With
        ``strict``, such an instance is restarted nevertheless, as in hail: it is moved off its old
        node, whichever of its old and new nodes fails. In hail, the instances that the request has
        placed on `node` come first, the last one first of all.
        """
        state = self._state
        leaving = [
            instance
            for instance in state.primaries[node].values()
            if not instance.forthcoming
            and (self._rules.strict or state.where[instance.name][0] == node)
        ]
        if not self._rules.movers_stay:
            return sorted(leaving, key=lambda one: one.order)
        arrived = [one for one in reversed(leaving) if one.nodes[:1] != (node,)]
        return arrived + sorted(
            (one for one in leaving if one.nodes[:1] == (node,)), key=lambda one: one.order
        )

    def movers(self, node: int) -> list[list[Instance]]:
        """Return the items that move to another node when `node` fails: its primaries on shared
        storage. The members of a colocation group are one item.
        """
        movers = (
            instance
            for instance in self._primaries(node)
            if not instance.needs_secondary and not self._rules.recreates(instance)
        )
        return self._items(movers)

    def items(self, failure: Failure) -> list[tuple[int, list[Instance]]]:
        """Return (failed node, instances) for each item that must restart after `failure`.

        An item is one instance, or the members of a colocation group on the failed node. drbd
        instances are items of their own.
        """
        leaving: list[tuple[int, list[Instance]]] = []
        for node in failure:
            here = self._primaries(node)
            leaving += ((node, [one]) for one in here if one.needs_secondary)
            leaving += ((node, item) for item in self.movers(node))
            rest = (i for i in here if not i.needs_secondary and self._rules.recreates(i))
            leaving += ((node, item) for item in self._items(rest))
        return leaving

    def _items(self, instances: Iterable[Instance]) -> list[list[Instance]]:
        """Return `instances` divided into items; the members of a colocation group are one item."""
        if not self._rules.units:
            return [[instance] for instance in instances]
        return items_of(instances, self._rules.units)

    def failovers_fail(self, failure: Failure) -> bool:
        """Let the drbd primaries of `failure` fail over; return whether one cannot.

        Changes the state: call it in a trial.
        """
        return next(self._failovers(failure), None) is not None

    def _failovers(self, failure: Failure) -> Iterator[UnrestartedInstance]:
        """Let the drbd primaries of `failure` fail over; yield those that cannot.

        Changes the state: call it in a trial.
        """
        proved = not self.kernels.min_disk and failovers_succeed(self._state, failure, self._rules)
        for node in failure:
            for instance in self._primaries(node):
                if instance.needs_secondary:
                    if proved:
                        old, secondary = self._state.where[instance.name]
                        self._state.remove(instance, (old, secondary))
                        self._state.place(instance, (secondary, old))
                        continue
                    why = self._failover(instance, failure)
                    if why:
                        yield UnrestartedInstance(failure, instance, why)

    def _failover(self, instance: Instance, failed: Collection[int]) -> str:
        """Fail `instance` over to its secondary; return why that is impossible, or ""."""
        state = self._state
        nodes = state.where[instance.name]
        if len(nodes) < 2:
            return "it has no secondary"
        old, secondary = nodes
        name = state.cluster.nodes[secondary].name
        if secondary in failed and old in failed:
            return f"its secondary {name} fails as well"
        if not self._rules.strict and not state.cluster.nodes[secondary].online:
            return f"its secondary {name} is not online"
        if move_rejections(state.cluster, old, (secondary,)):
            return f"its secondary {name} lacks a migration tag"
        state.remove(instance, nodes)
        if self._rules.strict:
            checker = self.kernels.checker(state)
            rejection = disk_rejection(checker, state, instance, old, secondary)
            if rejection is not None:
                return f"its secondary {name} rejects it: {rejection.reason}"
        rejection = self.kernels.checker(state).primary_rejection(
            instance, secondary, failover_checks(instance)
        )
        if rejection is not None and rejection.reason == "FailMem":
            return f"its secondary {name} has not enough memory"
        if rejection is not None:
            return f"its secondary {name} rejects it: {rejection.reason}"
        state.place(instance, (secondary, old))
        return ""

    def _move(
        self, node: int, item: Sequence[Instance], targets: Sequence[int], scope: Sequence[int]
    ) -> bool:
        """Move all of `item` off `node` to the best of `targets`; return whether one accepts them.

        `scope`: the nodes over which the scores are computed.
        """
        self._rules.spend(len(targets) * SCALAR_WORK)
        self.kernels.simulated += len(targets)
        state, first = self._state, item[0]
        if self._rules.impersonated(first) and not self._rules.recreates(first):
            return self._move_namesake(first, targets, scope)
        source = state.where[first.name][0]
        for one in item:
            if not self._rules.recreates(one):  # a recreated instance counts on its old node, too
                state.remove(one, state.where[one.name][:1])
        kernel = self.kernels.make(state, scope)
        if self._rules.recreates(first):
            rejections: dict[int, str] = {}
            group = state.cluster.nodes[node].group
            for one in item:
                rejections |= entry_rejections(state.cluster, group, one)
        else:
            rejections = move_rejections(state.cluster, source, targets)
        ranked = kernel.singles(as_one(item), targets, rejections, FORCED_LIMITS).row(0)
        if len(item) == 1:
            best = next(ranked, None)
        else:
            best = next((place for place in ranked if self._fit(item, place[1][0])), None)
        if best is None:
            return False
        for one in item:
            state.place(one, best[1])
        return True

    def _move_namesake(self, one: Instance, targets: Sequence[int], scope: Sequence[int]) -> bool:
        """Move `one`, the new instance or its namesake (`Rules.namesake`), to the best node.

        It can stay on its present node only if it fits there a second time: hail first records the
        node that it moves to, and then removes it from the node that it leaves.
        """
        state = self._state
        (present,) = state.where[one.name][:1]
        rejections = move_rejections(state.cluster, present, targets)
        checks = checks_for(PRIMARY, one, FORCED_LIMITS)
        again = present in targets and not (
            present in rejections
            or self.kernels.checker(state).primary_rejection(one, present, checks)
        )
        state.remove(one, (present,))
        kernel = self.kernels.make(state, scope)
        others = [index for index in targets if index != present]
        best = next(kernel.singles(one, others, rejections, FORCED_LIMITS).row(0), None)
        if again and (best is None or (round(kernel.score(), SCORE_DECIMALS), (present,)) < best):
            state.where[one.name] = (present,)
            return True
        if best is not None:
            state.place(one, best[1])
        return best is not None

    def _fit(self, item: Sequence[Instance], index: int) -> bool:
        """Return whether the node `index` accepts all of `item`, one after the other."""
        with self._state.trial():
            for one in item:
                checks = checks_for(PRIMARY, one, FORCED_LIMITS)
                if self.kernels.checker(self._state).primary_rejection(one, index, checks):
                    return False
                self._state.place(one, (index,))
        return True


def _memory(instance: Instance) -> float:
    return -instance.memory
