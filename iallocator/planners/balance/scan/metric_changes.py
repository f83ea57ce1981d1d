"""How moves of many instances change the statistics, and which limits forbid them.

A block is some instances (rows) × some target nodes (columns), all with primaries and
secondaries in the same condition (up or not), so that the same limits count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.limits.node import (
    ABANDONED,
    ALL_LIMITS,
    FORCED_LIMITS,
    PRIMARY,
    SECONDARY,
)
from iallocator.scoring.metrics import STATISTICS
from iallocator.scoring.score_delta import LOCATION, after_primary, after_secondary, value_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Floats, Truths
    from iallocator.limits.node import Check, LimitSet
    from iallocator.model.node_view import Quantity
    from iallocator.planners.balance.move_kinds import MoveKind, MoveRules
    from iallocator.planners.balance.scan.constraints.exclusion import MoveTags
    from iallocator.planners.balance.scan.equivalent_metrics import Twins
    from iallocator.planners.balance.scan.instance_batch import InstanceBatch
    from iallocator.planners.balance.scan.node_table import BatchView, NodeTable, Whole
    from iallocator.planners.balance.scan.prefilter import RelevantChecks

    Shift = dict[int, tuple[Quantity, Quantity]]
    """Statistic -> what is added to its sum, and to its sum of squares."""

    Stack = tuple[Floats, Floats]
    """The same for the first of `Twins.steady`, as arrays statistics × rows × columns."""

__all__ = ["Block", "MoveEffects"]


class MoveEffects:
    """What a kind of moves does: where it is `forbidden`, and the changes it makes.

    `stacks` add up to the changes of the steady statistics, `shifts` to those of the others.
    """

    __slots__ = ("forbidden", "shifts", "stacks")

    def __init__(
        self, forbidden: Quantity, stacks: Sequence[Stack], shifts: Sequence[Shift]
    ) -> None:
        self.forbidden = forbidden
        self.stacks = stacks
        self.shifts = shifts


class Block:
    """`rows` of `batch` × the nodes at `columns`; all arrays broadcast to that shape.

    `up` says of every node of the table whether it is online, or is until it has been left.
    """

    def __init__(
        self,
        table: NodeTable,
        batch: InstanceBatch,
        tags: MoveTags | None,
        twins: Twins,
        rules: MoveRules,
        breakable: RelevantChecks,
        migration: Quantity,
        rows: Whole,
        columns: Whole,
        primary: Whole,
        secondary: Whole,
        left_reserved: Floats,
        up: Truths,
    ) -> None:
        self._table = table
        self._batch = batch
        self._tags = tags
        self._twins = twins
        self._rules = rules
        self._breakable = breakable
        self._migration = migration
        self._rows = rows
        self.p = primary[:, None]
        self.s = secondary[:, None]
        self.n = columns[None, :]
        self._primary_up = bool(up[primary[0]])
        self._off_primary = self._limits(self._primary_up)
        self._off_secondary = self._limits(bool(up[secondary[0]]))
        self._leads: _Part | None = None
        self._stays: Stack | None = None
        self._views(left_reserved)

    def _limits(self, up: bool) -> LimitSet:
        """Which limits count for a move off a node in this condition."""
        return ALL_LIMITS if up and not self._rules.ignore_soft else FORCED_LIMITS

    def _views(self, left_reserved: Floats) -> None:
        """The nodes as they are, and without the instances."""
        table, batch = self._table, self._batch
        self._at_p = table.view(self.p)
        self._at_n = table.view(self.n)
        self._p0 = self._at_p.plus(batch.less_primary, self._at_p.reserved)
        self._tagged(self._p0, self.p, -1)
        if batch.drbd:
            self._at_s = table.view(self.s)
            self._s0 = self._at_s.plus(batch.less_secondary, left_reserved[:, None])

    def _tagged(self, view: BatchView, node: Whole, sign: int) -> BatchView:
        if self._tags is not None:
            rows = self._rows[:, None]
            view.conflicts = view.conflicts + sign * self._tags.conflicts[rows, node]
            view.misplaced = view.misplaced + sign * self._tags.misplaced[rows, node]
            view.domain_conflicts = sign * self._tags.domains[rows, node]
        return view

    def _as_primary(self, view: BatchView, node: Whole) -> BatchView:
        after: BatchView = after_primary(view, self._batch)  # type: ignore[arg-type,assignment]
        return self._tagged(after, node, 1)

    def _as_secondary(self, view: BatchView, node: Whole, primary: Whole) -> BatchView:
        peers = self._table.peers[node, primary]
        after: BatchView = after_secondary(view, self._batch, peers, np.maximum)  # type: ignore[arg-type,assignment]
        after.domain_conflicts = view.domain_conflicts
        return after

    def _shift(self, after: BatchView, node: Whole) -> Shift:
        """The change at `node`, from what it is to `after`."""
        shift: Shift = {}
        for k in self._twins.others:
            old = self._table.values[k][node]
            new = value_of(k, after, self._table.centres[k])
            difference = new - old
            if STATISTICS[k].spread:
                shift[k] = difference, difference * (new + old)
            else:
                shift[k] = difference, 0.0
        return shift

    def _stack(self, after: BatchView, node: Whole, count: int | None = None) -> Stack:
        """The change at `node` of the first `count` steady statistics, of all without that."""
        steady = self._twins.steady[:count]
        old = self._table.values[steady][:, node]
        centres = self._table.centres
        rows = self.p.shape[0]
        new = np.empty((len(steady), rows, node.shape[1]))
        for j, k in enumerate(steady):
            new[j] = value_of(k, after, centres[k])
        added = new - old
        new += old
        new *= added
        return added, new

    def _forbidden(
        self, role: Sequence[Check], limits: LimitSet, before: BatchView, after: BatchView
    ) -> Quantity:
        batch = self._batch
        found: Quantity = False
        for check in self._breakable.checks(role, limits, role is PRIMARY):
            found = found | check.fails(before, after, batch)  # type: ignore[arg-type]
        return found

    def _may_not_receive(self, source: Whole, target: Whole) -> Quantity:
        return False if self._migration is None else ~self._migration[source, target]

    def _shared(self, primary: Whole, secondary: Whole) -> Shift:
        """The change of location tags in common, once the instances are on these nodes."""
        if self._tags is None:
            return {}
        shared = self._tags.shared
        return {LOCATION: (shared[primary, secondary] - shared[self.p, self.s], 0.0)}

    def _old_primary_checks(self) -> tuple[Check, ...]:
        return SECONDARY if self._primary_up else ABANDONED

    def failovers(self) -> MoveEffects:
        """``f``."""
        leads, stays = self._lead(), self._stay()
        with_peer = self._as_secondary(self._p0, self.p, self.s)
        forbidden = leads.forbidden | self._forbidden(
            self._old_primary_checks(), self._off_primary, self._p0, with_peer
        )
        shifts = [leads.shift, self._shift(with_peer, self.p), self._shared(self.s, self.p)]
        return MoveEffects(forbidden, [leads.stack, stays], shifts)

    def moves(self, kinds: Sequence[MoveKind]) -> list[MoveEffects]:
        """For each of `kinds` what it does."""
        if not self._batch.drbd:
            return [self._to_anywhere() for _ in kinds]
        self._make_parts(kinds)
        makers = {
            ("r",): self._replace_secondary,
            ("r", "f"): self._replace_and_failover,
            ("f", "r", "f"): self._replace_primary,
            ("f", "r"): self._failover_and_replace,
        }
        same = (self.n == self.p) | (self.n == self.s)
        found = [makers[kind.letters]() for kind in kinds]
        for one in found:
            one.forbidden = one.forbidden | same
        return found

    def _to_anywhere(self) -> MoveEffects:
        comes = self._as_primary(self._at_n, self.n)
        forbidden = (
            self._may_not_receive(self.p, self.n)
            | self._forbidden(PRIMARY, self._off_primary, self._at_n, comes)
            | (self.n == self.p)
        )
        return MoveEffects(
            forbidden,
            [self._stack(self._p0, self.p), self._stack(comes, self.n)],
            [self._shift(self._p0, self.p), self._shift(comes, self.n)],
        )

    def _make_parts(self, kinds: Sequence[MoveKind]) -> None:
        """What several kinds of moves have in common."""
        letters = {kind.letters for kind in kinds}
        self._p0_shift, self._p0_stack = self._both(self._p0, self.p)
        self._s0_shift, self._s0_stack = self._both(self._s0, self.s)
        if letters & {("r", "f"), ("f", "r", "f")}:
            after = self._as_primary(self._at_n, self.n)
            forbidden = self._forbidden(PRIMARY, self._off_primary, self._at_n, after)
            self._comes = _Part(forbidden, *self._both(after, self.n))
        if letters & {("r",), ("f", "r")}:
            after = self._as_secondary(self._at_n, self.n, self.p)
            self._mirror_stack = self._stack(after, self.n, self._twins.mirrored)

    def _both(self, after: BatchView, node: Whole) -> tuple[Shift, Stack]:
        return self._shift(after, node), self._stack(after, node)

    def _lead(self) -> _Part:
        """The secondary takes over."""
        if self._leads is None:
            after = self._as_primary(self._s0, self.s)
            forbidden = self._may_not_receive(self.p, self.s) | self._forbidden(
                PRIMARY, self._off_primary, self._s0, after
            )
            self._leads = _Part(forbidden, *self._both(after, self.s))
        return self._leads

    def _stay(self) -> Stack:
        """The primary becomes the secondary, whoever takes over."""
        if self._stays is None:
            after = self._as_secondary(self._p0, self.p, self.s)
            self._stays = self._stack(after, self.p)
        return self._stays

    def _replace_secondary(self) -> MoveEffects:
        after = self._as_secondary(self._at_n, self.n, self.p)
        forbidden = self._forbidden(SECONDARY, self._off_secondary, self._at_n, after)
        if self._rules.behaviour.tests_primary_again:
            forbidden = forbidden | self._forbidden(PRIMARY, FORCED_LIMITS, self._p0, self._at_p)
        shifts = [self._s0_shift, self._shift(after, self.n), self._shared(self.p, self.n)]
        return MoveEffects(forbidden, [self._s0_stack, self._mirror_stack], shifts)

    def _replace_and_failover(self) -> MoveEffects:
        comes = self._comes
        stays = self._as_secondary(self._p0, self.p, self.n)
        forbidden = (
            self._may_not_receive(self.p, self.n)
            | comes.forbidden
            | self._forbidden(SECONDARY, self._off_secondary, self._p0, stays)
        )
        shifts = [self._s0_shift, comes.shift, self._shift(stays, self.p)]
        stacks = [self._s0_stack, self._stay(), comes.stack]
        return MoveEffects(forbidden, stacks, [*shifts, self._shared(self.n, self.p)])

    def _replace_primary(self) -> MoveEffects:
        """Only the memory that the secondary reserves changes there."""
        comes = self._comes
        stays = self._as_secondary(self._s0, self.s, self.n)
        forbidden = (
            self._lead().forbidden
            | self._may_not_receive(self.s, self.n)
            | comes.forbidden
            | self._forbidden(SECONDARY, self._off_primary, self._s0, stays)
        )
        shifts = [self._p0_shift, comes.shift, self._shift(stays, self.s)]
        stacks = [self._p0_stack, comes.stack]
        return MoveEffects(forbidden, stacks, [*shifts, self._shared(self.n, self.s)])

    def _failover_and_replace(self) -> MoveEffects:
        leads = self._lead()
        after = self._as_secondary(self._at_n, self.n, self.s)
        forbidden = leads.forbidden | self._forbidden(
            SECONDARY, self._off_primary, self._at_n, after
        )
        shifts = [self._p0_shift, leads.shift, self._shift(after, self.n)]
        stacks = [self._p0_stack, leads.stack, self._mirror_stack]
        return MoveEffects(forbidden, stacks, [*shifts, self._shared(self.s, self.n)])


class _Part:
    """A node in its new role: where that is forbidden, and what changes."""

    __slots__ = ("forbidden", "shift", "stack")

    def __init__(self, forbidden: Quantity, shift: Shift, stack: Stack) -> None:
        self.forbidden = forbidden
        self.shift = shift
        self.stack = stack
