"""Compute the effects of moves of each kind from the changes at each node of the moves.

A block is some instances (rows) × some target nodes (columns).  All primaries of a block are in one
condition (up or not), and all secondaries are in one condition, so one set of limits applies to the
block.  A limit is not tested if even the most demanding instance of a batch violates it on no node
(`RelevantChecks`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from iallocator.limits.node import (
    ABANDONED,
    ALL_LIMITS,
    FORCED_LIMITS,
    PRIMARY,
    SECONDARY,
    checks_for,
)
from iallocator.model.columns import COLUMNS
from iallocator.model.node_view import after_primary, after_secondary
from iallocator.scoring.metrics import LOCATION, STATISTICS, value_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.aliases import Floats, Truths
    from iallocator.constraints.checks import Check
    from iallocator.limits.node import LimitSet, RoleLimits
    from iallocator.model.node_view import Quantity
    from iallocator.planners.balance.move_kinds import MoveKind, MoveRules
    from iallocator.planners.balance.scan.arrays import (
        BatchView,
        InstanceBatch,
        MoveTags,
        NodeTable,
        Whole,
    )
    from iallocator.planners.balance.scan.proportional_statistics import ProportionalStatistics

__all__ = ["Block", "MoveEffects", "NodeInNewRole", "RelevantChecks", "Shift", "Sides", "Stack"]


class RelevantChecks:
    """The limits that moves of `batch` can violate in the present state of `table`.

    `tagged`: whether tags of nodes or instances affect scores or limits.
    """

    def __init__(self, table: NodeTable, batch: InstanceBatch, tagged: bool) -> None:
        self._table = table
        self._batch = batch
        self._tagged = tagged
        self._leading: dict[bool, tuple[BatchView, BatchView]] = {}
        self._checks: dict[tuple[RoleLimits, LimitSet, bool], tuple[Check, ...]] = {}

    def checks(self, role: RoleLimits, limits: LimitSet, leading: bool) -> tuple[Check, ...]:
        """Return the checks of `role` that can fail; `leading`: whether the role is the primary."""
        key = role, limits, leading
        if key not in self._checks:
            batch = self._batch
            checks = checks_for(role, batch, limits)  # type: ignore[arg-type]
            if leading not in self._leading:
                self._leading[leading] = self._views(leading)
            before, after = self._leading[leading]
            most = self._most
            self._checks[key] = tuple(
                check
                for check in checks
                if check.access
                or (self._tagged and check.reason == "FailTags")
                or np.any(check.fails(before, after, most))  # type: ignore[arg-type]
            )
        return self._checks[key]

    @cached_property
    def _most(self) -> InstanceBatch:
        """Return a batch with the largest amounts of memory of the instances."""
        batch = self._batch
        most = batch.take(np.zeros(1, dtype=np.intp))
        most.memory = batch.memory.max(axis=0, keepdims=True)
        most.takeover_memory = batch.takeover_memory.max(axis=0, keepdims=True)
        return most

    def _views(self, leading: bool) -> tuple[BatchView, BatchView]:
        """Return a view of all nodes, and one with the most demanding instance added to each."""
        table, batch = self._table, self._batch
        nodes = np.arange(len(table.nodes), dtype=np.intp)[None, :]
        before = table.view(nodes)
        vector = batch.as_primary if leading else batch.as_secondary
        reserved = before.reserved
        if not leading and batch.reserves:
            peers = table.peers.max(axis=1)[None, :] + batch.memory.max()
            reserved = np.maximum(reserved, peers)
        after = before.plus([None if v is None else _most(v) for v in vector], reserved)
        before.reserved = -np.inf  # a node may fail N+1 even without the instance
        return before, after


def _most(amounts: Floats) -> Floats:
    """Return the amount with the largest absolute value, shape (1, 1)."""
    low, high = amounts.min(axis=0, keepdims=True), amounts.max(axis=0, keepdims=True)
    most: Floats = low if -low > high else high
    return most


if TYPE_CHECKING:
    Shift = dict[int, tuple[Quantity, Quantity]]

    """Statistic -> what moves add to its sum, and to its sum of squares."""

    Stack = tuple[Floats, Floats]

    """What moves add to the sums and to the sums of squares, statistics × rows × columns.

    It has the first statistics of `ProportionalStatistics.without_reserved`, or all of them.
    """


class MoveEffects:
    """The effects of the moves of one kind in a block: which are `forbidden`, and what they add.

    The additions to statistics of `without_reserved` are the sum of `stacks`, those to other
    statistics the sum of `shifts`.
    """

    __slots__ = ("forbidden", "shifts", "stacks")

    def __init__(
        self, forbidden: Quantity, stacks: Sequence[Stack], shifts: Sequence[Shift]
    ) -> None:
        self.forbidden = forbidden
        self.stacks = stacks
        self.shifts = shifts


class NodeInNewRole:
    """The effects at a node that gets a new role: whether it is forbidden, and what it adds."""

    __slots__ = ("forbidden", "shift", "stack")

    def __init__(self, forbidden: Quantity, shift: Shift, stack: Stack) -> None:
        self.forbidden = forbidden
        self.shift = shift
        self.stack = stack


@dataclass(frozen=True, slots=True)
class ScanSetting:
    """The data that all moves of a scan share.

    Attributes
    ----------
    table, statistics:
        The nodes, and the groups of statistics that always change in proportion.
    rules:
        Which moves are allowed.
    migration:
        Nodes × nodes: whether migration tags permit moves from one node to another; None: always.
    order:
        Name of an instance -> its rank among equally good moves; the lowest is used.
    tagged:
        Whether exclusion tags or location tags affect scores or limits.
    keep:
        Whether all moves are kept in memory.
    """

    table: NodeTable
    statistics: ProportionalStatistics
    rules: MoveRules
    migration: Truths | None
    order: Mapping[str, int]
    tagged: bool
    keep: bool


@dataclass(frozen=True, slots=True)
class MoveNodes:
    """The present nodes of some instances of a batch, and the targets of their moves.

    Attributes
    ----------
    rows:
        Positions of the instances in the batch.
    targets:
        Positions of the targets in the table.
    primary, secondary:
        For each instance, the positions of its nodes in the table.
    left_reserved:
        For each instance, the MiB that its secondary reserves without the instance.
    across:
        Whether the arrays of a block are targets × instances, instead of instances × targets.
    up:
        For every node of the table, whether it is online, or will be powered down once empty.
    """

    rows: Whole
    targets: Whole
    primary: Whole
    secondary: Whole
    left_reserved: Floats
    up: Truths
    across: bool


class Sides:
    """The nodes of a block of moves, with and without the moving instances.

    All arrays broadcast to instances of `batch` × targets, or to targets × instances. `p`, `s` and
    `n` are the positions of the primaries, secondaries and targets.
    """

    def __init__(
        self,
        setting: ScanSetting,
        batch: InstanceBatch,
        tags: MoveTags | None,
        breakable: RelevantChecks,
        where: MoveNodes,
    ) -> None:
        self._table = setting.table
        self._batch = batch
        self._tags = tags
        self._statistics = setting.statistics
        self._rules = setting.rules
        self._breakable = breakable
        self._migration = setting.migration
        shape = (1, -1) if where.across else (-1, 1)
        self._rows = where.rows.reshape(shape)
        self.p = where.primary.reshape(shape)
        self.s = where.secondary.reshape(shape)
        self.n = where.targets.reshape(shape[::-1])
        self._primary_up = bool(where.up[where.primary[0]])
        self._off_primary = self._limits(self._primary_up)
        self._off_secondary = self._limits(bool(where.up[where.secondary[0]]))
        self._promotion: NodeInNewRole | None = None
        self._demotion: Stack | None = None
        self._views(where.left_reserved.reshape(shape))

    def _limits(self, up: bool) -> LimitSet:
        """Return the limits for a move off a node; `up`: whether the node is online."""
        return ALL_LIMITS if up and not self._rules.ignore_soft else FORCED_LIMITS

    def _views(self, left_reserved: Floats) -> None:
        """Set the views of the nodes with and without the instances.

        `left_reserved`: for each instance, the MiB that its secondary reserves without the
        instance.
        """
        table, batch = self._table, self._batch
        self._at_p = table.view(self.p)
        self._at_n = table.view(self.n)
        self._p0 = self._at_p.plus(batch.less_primary, self._at_p.reserved)
        self._tagged(self._p0, self.p, -1)
        if batch.drbd:
            self._at_s = table.view(self.s)
            self._s0 = self._at_s.plus(batch.less_secondary, left_reserved)

    def _tagged(self, view: BatchView, node: Whole, sign: int) -> BatchView:
        if self._tags is not None:
            rows = self._rows
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
        """Return what the change of `node` to `after` adds to the statistics of `others`."""
        shift: Shift = {}
        for k in self._statistics.others:
            old = self._table.values[k][node]
            new = value_of(k, after, self._table.centres[k])
            difference = new - old
            if STATISTICS[k].spread:
                shift[k] = difference, difference * (new + old)
            else:
                shift[k] = difference, 0.0
        return shift

    def _stack(self, after: BatchView, node: Whole, count: int | None = None) -> Stack:
        """Return what the change of each node of `node` to `after` adds to the deviations.

        The deviation of the reserved memory is left out. Only the first `count` statistics of
        `without_reserved` are computed; None: all of them.
        """
        kept = self._statistics.without_reserved[:count]
        old = self._table.values[kept][:, node]
        centres = self._table.centres
        new = np.empty((len(kept), *np.broadcast(self.p, node).shape))
        for j, k in enumerate(kept):
            new[j] = value_of(k, after, centres[k])
        added = new - old
        new += old
        new *= added
        return added, new

    def _forbidden(
        self, role: RoleLimits, limits: LimitSet, before: BatchView, after: BatchView
    ) -> Quantity:
        batch = self._batch
        forbidden: Quantity = False
        for check in self._breakable.checks(role, limits, role is PRIMARY):
            forbidden = forbidden | check.fails(before, after, batch)  # type: ignore[arg-type]
        return forbidden

    def _may_not_receive(self, source: Whole, target: Whole) -> Quantity:
        return False if self._migration is None else ~self._migration[source, target]

    def _shared(self, primary: Whole, secondary: Whole) -> Shift:
        """Return the change of common location tags if instances move to these two nodes."""
        if self._tags is None:
            return {}
        shared = self._tags.shared
        return {LOCATION: (shared[primary, secondary] - shared[self.p, self.s], 0.0)}

    @cached_property
    def _led(self) -> BatchView:
        """Return a view of the targets with each instance as primary."""
        return self._as_primary(self._at_n, self.n)

    @cached_property
    def _barred_led(self) -> Quantity:
        """Return which targets the limits forbid as primaries."""
        return self._forbidden(PRIMARY, self._off_primary, self._at_n, self._led)

    @cached_property
    def _barred_copied(self) -> Quantity:
        """Return which targets the limits forbid as primaries if disks are copied first.

        hbal then checks soft limits, even if the old primary is offline.
        """
        if self._rules.ignore_soft or not self._rules.behaviour.copies_from_offline:
            return self._barred_led
        return self._forbidden(PRIMARY, ALL_LIMITS, self._at_n, self._led)

    def _barred_secondary(self, secondary: BatchView, limits: LimitSet | None = None) -> Quantity:
        limits = limits or self._off_secondary
        return self._forbidden(SECONDARY, limits, self._at_n, secondary)

    def _barred_lead(
        self, own: BatchView, node: Whole, staying: BatchView, limits: LimitSet, barred: Quantity
    ) -> Quantity:
        """Return which targets are forbidden as primaries with `node` as secondary.

        `own`: the node without the instances; `staying`: the node as their secondary. `barred`:
        which targets are forbidden as primaries with any secondary.
        """
        return (
            self._may_not_receive(node, self.n)
            | barred
            | self._forbidden(SECONDARY, limits, own, staying)
        )

    @cached_property
    def _off_p(self) -> tuple[Shift, Stack]:
        """Return what instances add to statistics when they leave their primaries."""
        return self._both(self._p0, self.p)

    @cached_property
    def _off_s(self) -> tuple[Shift, Stack]:
        """Return what instances add to statistics when they leave their secondaries."""
        return self._both(self._s0, self.s)

    @cached_property
    def _comes(self) -> NodeInNewRole:
        """Return the effects of targets that become primaries."""
        return NodeInNewRole(self._barred_led, *self._both(self._led, self.n))

    @cached_property
    def _secondary_stack(self) -> Stack:
        """Return what each target adds to the deviations when it becomes a secondary.

        The deviation of the reserved memory is left out.
        """
        return self._stack(
            self._as_secondary(self._at_n, self.n, self.p), self.n, self._statistics.mirrored
        )

    def _both(self, after: BatchView, node: Whole) -> tuple[Shift, Stack]:
        return self._shift(after, node), self._stack(after, node)

    def _promoted(self) -> NodeInNewRole:
        """Return the effects of secondaries that become primaries."""
        if self._promotion is None:
            after = self._as_primary(self._s0, self.s)
            forbidden = self._may_not_receive(self.p, self.s) | self._forbidden(
                PRIMARY, self._off_primary, self._s0, after
            )
            self._promotion = NodeInNewRole(forbidden, *self._both(after, self.s))
        return self._promotion

    def _demoted(self) -> Stack:
        """Return what each primary adds to the deviations when it becomes a secondary.

        The deviation of the reserved memory is left out.
        """
        if self._demotion is None:
            after = self._as_secondary(self._p0, self.p, self.s)
            self._demotion = self._stack(after, self.p)
        return self._demotion


class Block(Sides):
    """The effects of each kind of moves of a block."""

    def failovers(self) -> MoveEffects:
        """Return the effects of failovers (``f``)."""
        promoted, demoted = self._promoted(), self._demoted()
        with_peer = self._as_secondary(self._p0, self.p, self.s)
        forbidden = promoted.forbidden | self._forbidden(
            SECONDARY if self._primary_up else ABANDONED, self._off_primary, self._p0, with_peer
        )
        shifts = [promoted.shift, self._shift(with_peer, self.p), self._shared(self.s, self.p)]
        return MoveEffects(forbidden, [promoted.stack, demoted], shifts)

    def moves(self, kinds: Sequence[MoveKind]) -> list[MoveEffects]:
        """Return the effects of moves of each of `kinds`, which must have targets."""
        if not self._batch.drbd:
            return [self._to_anywhere() for _ in kinds]
        makers = {
            ("r",): self._replace_secondary,
            ("r", "f"): self._replace_and_failover,
            ("f", "r", "f"): self._replace_primary,
            ("f", "r"): self._failover_and_replace,
        }
        same = (self.n == self.p) | (self.n == self.s)
        effects = [makers[kind.letters]() for kind in kinds]
        for one in effects:
            one.forbidden = one.forbidden | same
        return effects

    def _to_anywhere(self) -> MoveEffects:
        comes = self._led
        return MoveEffects(
            self._may_not_receive(self.p, self.n) | self._barred_led | (self.n == self.p),
            [self._stack(self._p0, self.p), self._stack(comes, self.n)],
            [self._shift(self._p0, self.p), self._shift(comes, self.n)],
        )

    def _replace_secondary(self) -> MoveEffects:
        after = self._as_secondary(self._at_n, self.n, self.p)
        forbidden = self._barred_secondary(after)
        if self._rules.behaviour.tests_primary_again:  # hail checks the unchanged primary, too
            forbidden = forbidden | self._forbidden(PRIMARY, FORCED_LIMITS, self._p0, self._at_p)
        shifts = [self._off_s[0], self._shift(after, self.n), self._shared(self.p, self.n)]
        if self._rules.behaviour.passes_n1_at_equality and not self._batch.forthcoming:
            reserved = np.ceil(self._at_p.reserved)
            if np.any(reserved != self._at_p.reserved):  # see `Node.reserve_slack`
                changed = self._at_p.plus([None] * len(COLUMNS), reserved)
                shifts.append(self._shift(changed, self.p))
        return MoveEffects(forbidden, [self._off_s[1], self._secondary_stack], shifts)

    def _replace_and_failover(self) -> MoveEffects:
        comes = self._comes
        staying = self._as_secondary(self._p0, self.p, self.n)
        forbidden = self._barred_lead(
            self._p0, self.p, staying, self._off_secondary, self._barred_copied
        )
        shifts = [self._off_s[0], comes.shift, self._shift(staying, self.p)]
        stacks = [self._off_s[1], self._demoted(), comes.stack]
        return MoveEffects(forbidden, stacks, [*shifts, self._shared(self.n, self.p)])

    def _replace_primary(self) -> MoveEffects:
        """Return the effects of a new primary beside the old secondary.

        On the secondary, only the reserved memory changes.
        """
        comes = self._comes
        staying = self._as_secondary(self._s0, self.s, self.n)
        barred = self._barred_lead(self._s0, self.s, staying, self._off_primary, self._barred_led)
        forbidden = self._promoted().forbidden | barred
        shifts = [self._off_p[0], comes.shift, self._shift(staying, self.s)]
        stacks = [self._off_p[1], comes.stack]
        return MoveEffects(forbidden, stacks, [*shifts, self._shared(self.n, self.s)])

    def _failover_and_replace(self) -> MoveEffects:
        promoted = self._promoted()
        after = self._as_secondary(self._at_n, self.n, self.s)
        forbidden = promoted.forbidden | self._barred_secondary(after, self._off_primary)
        shifts = [self._off_p[0], promoted.shift, self._shift(after, self.n)]
        stacks = [self._off_p[1], promoted.stack, self._secondary_stack]
        return MoveEffects(forbidden, stacks, [*shifts, self._shared(self.s, self.n)])
