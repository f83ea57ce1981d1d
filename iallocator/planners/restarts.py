"""Simulate failures for the verifier: decide whether the instances of failed nodes restart.

A failure is tolerated if restarts in some order succeed, and each target node accepts each instance
by all hard limits.  Drbd primaries fail over to their secondaries.  Then two orders are tried for
the other items: the largest item first, on the node with most free memory; and hail's order, on the
node with the best score.  An item is an instance, or all members of a colocation group on the
failed node.

If only limits of amounts concern the instances, the first order adds up the amounts on each node.
This takes a third of the time of placing the instances.  If it does not succeed, both orders place
them.

This module shares no code with the checks that planners make (`iallocator.n1.tolerance`), so that
an error in their bounds, counting or arrays cannot pass a plan.  With ``no-worse``, exact search
decides where both orders fail. Exact search only proposes restarts; the limits on the state must
accept them.

Cost: O(m log n) for a failure with *m* instances and *n* targets, and O(m n) if the first order
fails.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import chain

from iallocator.constraints.table import entry_rejections, move_rejections
from iallocator.limits.node import FORCED_LIMITS, PRIMARY, checks_for, failover_checks
from iallocator.model.columns import MEMORY
from iallocator.model.constraints import as_one, items_of
from iallocator.scoring import Kernels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from iallocator.constraints.checks import Check
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1 import Failure, Rules
    from iallocator.n1.exact import Loss

    FailedItem = tuple[int, list[Instance]]
    """A failed node, and instances of it that restart together."""

__all__ = ["Restarts"]

EXPECTED_SCORED_FAILURES = 50
"""The assumed number of failures simulated by score; it decides whether arrays of scores pay."""


class Restarts:
    """Simulated restarts of instances after failures on `state`; each method restores the state.

    `rules` must be the rules of a plan: only online nodes take over. `scope`: indices of the nodes
    over which scores are computed.
    """

    def __init__(self, state: State, rules: Rules, scope: Sequence[int]) -> None:
        self._state = state
        self._rules = rules
        self._scope = scope
        self.kernels = Kernels(state, [(len(scope), 0)] * EXPECTED_SCORED_FAILURES)
        self._checker = self.kernels.checker(state)

    def succeed(self, failure: Failure, by_score_only: bool = False) -> frozenset[int] | None:
        """Return the nodes on which all instances of `failure` restart; None if one cannot restart.

        `by_score_only`: try only hail's order, which is the one that planners simulate.
        """
        amounts = _Amounts(self._state)
        secondaries = self._fail_over(failure, amounts.fail_over)
        if secondaries is not None:
            leaving = self._leaving(failure)
            if not leaving:
                return secondaries
            if not by_score_only:
                targets = self._targets(failure)
                chosen = self._restart_largest_first(
                    leaving, targets, amounts.restart, amounts.free
                )
                if chosen is not None:
                    return secondaries | chosen
        with self._state.trial():
            secondaries = self._fail_over(failure, self._place_at_secondary)
            if secondaries is None:
                return None
            leaving, targets = self._leaving(failure), self._targets(failure)
            chosen = None
            if not by_score_only:
                free = self._state.columns[MEMORY].__getitem__
                with self._state.trial():
                    chosen = self._restart_largest_first(leaving, targets, self._go, free)
            if chosen is None and not self._certainly_fail(leaving, targets):
                chosen = self._best_score(leaving, targets)
            return None if chosen is None else secondaries | chosen

    def lost(self, failing: Sequence[Failure]) -> list[Failure]:
        """Return the failures of `failing` after which an instance cannot be restarted."""
        return [failure for failure in failing if self.succeed(failure) is None]

    def loss(self, failure: Failure) -> Loss:
        """Return a lower and an upper bound of what cannot be restarted after `failure`.

        Exact search computes the bounds, in instances and MiB.
        """
        from iallocator.n1.exact import ExactSearch

        return ExactSearch(self._state, self.kernels, self._rules, self).loss(failure)

    def items(self, failure: Failure) -> list[FailedItem]:
        """Return the items on the nodes of `failure`, each with its failed node.

        On each node, drbd instances come first, and instances that must be recreated last.
        """
        failed_items: list[FailedItem] = []
        for node in failure:
            here = sorted(
                (
                    one
                    for one in self._state.primaries[node].values()
                    if not one.forthcoming and self._state.where[one.name][0] == node
                ),
                key=lambda one: one.order,
            )
            drbd = [[one] for one in here if one.needs_secondary]
            rest = [one for one in here if not one.needs_secondary]
            moved = items_of((i for i in rest if not self._rules.recreates(i)), self._rules.units)
            created = sorted(filter(self._rules.recreates, rest), key=lambda one: -one.memory)
            for item in chain(drbd, moved, items_of(created, self._rules.units)):
                failed_items.append((node, item))
        return failed_items

    def _leaving(self, failure: Failure) -> list[FailedItem]:
        """Return the items of `failure` that do not fail over to a secondary."""
        return [one for one in self.items(failure) if not one[1][0].needs_secondary]

    def _fail_over(
        self, failure: Failure, go: Callable[[Instance, int, int], bool]
    ) -> frozenset[int] | None:
        """Fail over the drbd primaries of failed nodes; return their secondaries, or None.

        None means that the secondary of one instance does not accept it. `go(instance, node,
        secondary)` makes an instance of a failed node run on its secondary, and returns whether the
        secondary accepts it.
        """
        state = self._state
        used: set[int] = set()
        for node in failure:
            for one in list(state.primaries[node].values()):
                nodes = state.where[one.name]
                if one.forthcoming or not one.needs_secondary or nodes[0] != node:
                    continue
                secondary = nodes[1] if len(nodes) > 1 else None
                if (
                    secondary is None
                    or secondary in failure
                    or not state.cluster.nodes[secondary].online
                    or move_rejections(state.cluster, node, (secondary,))
                    or not go(one, node, secondary)
                ):
                    return None
                used.add(secondary)
        return frozenset(used)

    def _place_at_secondary(self, one: Instance, node: int, secondary: int) -> bool:
        self._state.remove(one, (node, secondary))
        if self._checker.primary_rejection(one, secondary, failover_checks(one)):
            return False
        self._state.place(one, (secondary, node))
        return True

    def _targets(self, failure: Failure) -> dict[int, list[int]]:
        """Return failed node -> the online nodes of its group that have not failed."""
        nodes = self._state.cluster.nodes
        return {
            node: [t for t in nodes[node].group.nodes if nodes[t].online and t not in failure]
            for node in failure
        }

    def _rejections(self, node: int, item: Sequence[Instance], targets: Sequence[int]) -> set[int]:
        """Return the `targets` that migration tags or policies forbid for an item of `node`."""
        cluster = self._state.cluster
        if not self._rules.recreates(item[0]):
            return set(move_rejections(cluster, node, targets))
        group = cluster.nodes[node].group
        return {t for one in item for t in entry_rejections(cluster, group, one)}

    def _restart_largest_first(
        self,
        leaving: Sequence[FailedItem],
        targets: dict[int, list[int]],
        go: Callable[[Sequence[Instance], int], bool],
        free: Callable[[int], float],
    ) -> frozenset[int] | None:
        """Restart each item on the node with most free memory that accepts it, largest item first.

        Return the nodes that were used; None if an item was not accepted. `go(item, node)` restarts
        an item on a node if the node accepts it, and returns whether it did. `free(node)` returns
        the free MiB of a node. The caller must undo the changes of `go`.
        """
        queues: dict[int, list[tuple[float, int]]] = {}  # index of a group -> -MiB free, node
        used: set[int] = set()
        for node, item in sorted(leaving, key=lambda one: -sum(i.memory for i in one[1])):
            group = self._state.cluster.nodes[node].group
            if group.index not in queues:
                queues[group.index] = [(-free(t), t) for t in targets[node]]
                heapify(queues[group.index])
            queue = queues[group.index]
            barred = self._rejections(node, item, targets[node])
            rejected: list[tuple[float, int]] = []
            chosen = None
            while queue and chosen is None:
                entry = heappop(queue)
                if entry[1] not in barred and go(item, entry[1]):
                    chosen = entry[1]
                    heappush(queue, (-free(chosen), chosen))
                else:
                    rejected.append(entry)
            if chosen is None:
                return None
            for entry in rejected:
                heappush(queue, entry)
            used.add(chosen)
        return frozenset(used)

    def _certainly_fail(self, leaving: Sequence[FailedItem], targets: dict[int, list[int]]) -> bool:
        """Return whether an item fits on no target, or all items together lack memory."""
        free = self._state.columns[MEMORY]
        if len(targets) == 1:
            (where,) = targets.values()
            needed = sum(i.memory for _, item in leaving for i in item if i.uses_memory)
            if needed > sum(max(0, free[t]) for t in where):
                return True
        for node, item in leaving:
            barred = self._rejections(node, item, targets[node])
            with self._state.trial():
                if not any(t not in barred and self._go(item, t) for t in targets[node]):
                    return True
        return False

    def _best_score(
        self, leaving: Sequence[FailedItem], targets: dict[int, list[int]]
    ) -> frozenset[int] | None:
        """Restart the items in hail's order, each on the node with the best score.

        Return the nodes that were used; None if an item was not accepted. The caller must undo the
        changes of the state.
        """
        state = self._state
        used: set[int] = set()
        created = [one for one in leaving if self._rules.recreates(one[1][0])]
        moved = [one for one in leaving if not self._rules.recreates(one[1][0])]
        for node, item in (*moved, *created):
            where = targets[node]
            barred = dict.fromkeys(self._rejections(node, item, where), "FailMig")
            with state.trial():
                for one in item:
                    state.remove(one, state.where[one.name][:1])
                kernel = self.kernels.make(state, self._scope)
                ranked = kernel.singles(as_one(item), where, barred, FORCED_LIMITS).row(0)
                order: Iterator[int] = iter([place[1][0] for place in ranked])
            chosen = next((t for t in order if self._go(item, t)), None)
            if chosen is None:
                return None
            used.add(chosen)
        return frozenset(used)

    def _go(self, item: Sequence[Instance], target: int) -> bool:
        """Move all of `item` to `target` if the node accepts them; return whether it does."""
        state = self._state
        if len(item) > 1:
            with state.trial():
                if not all(self._go([one], target) for one in item):
                    return False
        for one in item:
            checks = checks_for(PRIMARY, one, FORCED_LIMITS)
            source = state.where[one.name][:1]
            state.remove(one, source)
            if self._checker.primary_rejection(one, target, checks):
                state.place(one, source)
                return False
            state.place(one, (target,))
        return True


class _Amounts:
    """The amounts on nodes after restarts, added up without placing the instances.

    It accepts an instance only if amounts alone decide: each limit that concerns the instance is a
    limit of a `Resource`.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._added: dict[tuple[int, int], float] = {}  # node, column -> the change of its amount

    def free(self, node: int) -> float:
        """Return the free memory of a node after the restarts added so far, in MiB."""
        return self._state.columns[MEMORY][node] + self._added.get((node, MEMORY), 0)

    def fail_over(self, one: Instance, node: int, secondary: int) -> bool:
        """Add the failover of `one` to its secondary; return whether it certainly fits there."""
        change = [now - then for now, then in zip(one.as_primary, one.as_secondary)]
        return self._come(secondary, change, failover_checks(one))

    def restart(self, item: Sequence[Instance], target: int) -> bool:
        """Add the restart of all of `item` on `target`; return whether they certainly fit there."""
        before = dict(self._added) if len(item) > 1 else {}
        for one in item:
            if not self._come(target, one.as_primary, checks_for(PRIMARY, one, FORCED_LIMITS)):
                if len(item) > 1:
                    self._added = before
                return False
        return True

    def _come(self, index: int, change: Sequence[float], checks: Sequence[Check]) -> bool:
        node, columns, added = self._state.cluster.nodes[index], self._state.columns, self._added
        columns_used: set[int] = set()
        for check in checks:
            resource = check.lacks.resource
            if resource is None:
                if check.applies(node.group):
                    return False
                continue
            amount = sum(
                columns[column][index] + added.get((index, column), 0)
                for column in resource.columns
            )
            if resource.taken(change) > resource.spare(amount, node):
                return False
            columns_used.update(resource.columns)
        for column in columns_used:
            added[index, column] = added.get((index, column), 0) + change[column]
        return True
