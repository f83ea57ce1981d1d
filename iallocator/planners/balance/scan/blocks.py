"""Compute the effects of moves of each kind from the changes at each node of the moves.

A block is some instances (rows) × some target nodes (columns).  All primaries of a block are in one
condition (up or not), and all secondaries are in one condition, so one set of limits applies to the
block.  A limit is not tested if even the most demanding instance of a batch violates it on no node
(`RelevantChecks`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import TYPE_CHECKING, NamedTuple

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
from iallocator.model.node_view import after_primary, after_secondary, reserved_after
from iallocator.scoring.metrics import (
    LOCATION,
    RESERVED,
    RESERVED_TOTAL,
    STATISTICS,
    counting,
    value_of,
)

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
    from iallocator.planners.balance.scan.target_terms import RoleAmounts

__all__ = [
    "Block",
    "MoveEffects",
    "MoveNodes",
    "NodeChange",
    "RelevantChecks",
    "RowEffects",
    "ScanSetting",
    "Shift",
    "Sides",
]


class RelevantChecks:
    """The limits that moves of `batch` can violate in the present state of `table`.

    `most`: the most demanding instance of `batch`. `tagged`: whether tags of nodes or instances
    affect scores or limits.
    """

    def __init__(
        self, table: NodeTable, batch: InstanceBatch, most: InstanceBatch, tagged: bool
    ) -> None:
        self._table = table
        self._batch = batch
        self._most = most
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

    def _views(self, leading: bool) -> tuple[BatchView, BatchView]:
        """Return a view of all nodes, and one with the most demanding instance added to each."""
        table, batch = self._table, self._batch
        nodes = np.arange(len(table.nodes), dtype=np.intp)[None, :]
        before = table.view(nodes)
        most = self._most
        reserved = before.reserved
        if not leading and batch.reserves:
            peers = table.peers.max(axis=1)[None, :] + most.memory
            reserved = np.maximum(reserved, peers)
        after = before.plus(most.as_primary if leading else most.as_secondary, reserved)
        before.reserved = -np.inf  # a node may fail N+1 even without the instance
        return before, after


class Shift(NamedTuple):
    """What the change of one node of each move adds, without deviations of `without_reserved`.

    Attributes
    ----------
    linear:
        What it adds to the score by statistics that are sums.
    square, added:
        What it adds to the sum of squares, and to the sum, of reserved memory.
    """

    linear: Quantity = 0.0
    square: Quantity = 0.0
    added: Quantity = 0.0


class NodeChange(NamedTuple):
    """What a change of the primary or the secondary of each instance adds.

    Attributes
    ----------
    shift:
        What it adds to other statistics.
    deviations:
        What it adds to the sums of squares, and to the sums, of `without_reserved`, each as
        statistics × rows.
    """

    shift: Shift
    deviations: tuple[Floats, Floats]


class MoveEffects:
    """The effects of moves of one kind in a block: which are `forbidden`, and what they add.

    `shifts` depend on the target: they are what moves add beyond `RowEffects`, and beyond
    deviations of `without_reserved` at the target.
    """

    __slots__ = ("forbidden", "shifts")

    def __init__(self, forbidden: Quantity, *shifts: Shift) -> None:
        self.forbidden = forbidden
        self.shifts = shifts or (Shift(),)


class RowEffects:
    """What all moves of an instance add at nodes other than the target.

    Attributes
    ----------
    linear:
        What they add to the score by statistics that are sums.
    added:
        What they add to deviations, amounts × rows; see `ProportionalStatistics.size`.
    """

    __slots__ = ("added", "linear")

    def __init__(
        self, statistics: ProportionalStatistics, rows: int, changes: Sequence[NodeChange]
    ) -> None:
        self.linear: Floats = np.zeros(rows)
        self.added: Floats = np.zeros((statistics.size, rows))
        spreads, plain = len(statistics.spreads), len(statistics.without_reserved)
        for (linear, *reserved), (squares, sums) in changes:
            self.linear += np.ravel(linear)
            self.added[: len(squares)] += squares
            if statistics.moved >= plain:
                self.added[spreads : spreads + len(sums)] += sums
            for place, more in zip(statistics.reserved, reserved):
                self.added[place] += np.ravel(more)


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
        Effects of all moves of an instance are computed only for instances × targets.
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
        amounts: Sequence[RoleAmounts],
        tags: MoveTags | None,
        breakable: RelevantChecks,
        where: MoveNodes,
    ) -> None:
        self._table = setting.table
        self._batch = batch
        self._amounts = amounts
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
        reserved = reserved_after(self._at_p.reserved, batch)  # type: ignore[arg-type]
        self._p0 = self._at_p.plus(batch.less_primary, reserved)
        self._tagged(self._p0, self.p, -1)
        if batch.drbd:
            self._at_s = table.view(self.s)
            reserved = reserved_after(left_reserved, batch)  # type: ignore[arg-type]
            self._s0 = self._at_s.plus(batch.less_secondary, reserved)

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
        peers = self._table.peers.take(node * self._table.peers.shape[1] + primary)
        after: BatchView = after_secondary(view, self._batch, peers, np.maximum)  # type: ignore[arg-type,assignment]
        after.domain_conflicts = view.domain_conflicts
        return after

    def _shift(self, after: BatchView, node: Whole) -> Shift:
        """Return what the change of `node` to `after` adds."""
        values, statistics = self._table.values, self._statistics
        square: Quantity = 0.0
        added: Quantity = 0.0
        if statistics.reserving:
            old = values[RESERVED][node]
            new = value_of(RESERVED, after, self._table.centres[RESERVED])
            added = new - old
            square = added * (new + old)
        parts: list[Quantity] = []
        for k in statistics.sums:
            if k == RESERVED_TOTAL and statistics.reserving:  # the sum of the same values
                parts.append(statistics.weights[k] * added)
            else:
                new = STATISTICS[k].value(after) * counting(k, after)
                parts.append(statistics.weights[k] * (new - values[k][node]))
        return Shift(reduce(add, parts) if parts else 0.0, square, added)

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

    def _shared(self, primary: Whole, secondary: Whole) -> list[Shift]:
        """Return what common location tags add if instances move to these two nodes."""
        if self._tags is None:
            return []
        shared = self._tags.shared
        weight = self._statistics.weights.get(LOCATION, 0.0)
        return [Shift(weight * (shared[primary, secondary] - shared[self.p, self.s]))]

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
    def _comes(self) -> Shift:
        """Return what targets add when they become primaries."""
        return self._shift(self._led, self.n)

    @cached_property
    def _promoted(self) -> BatchView:
        """Return a view of the secondaries as primaries."""
        return self._as_primary(self._s0, self.s)

    @cached_property
    def _barred_promotion(self) -> Quantity:
        """Return which secondaries are forbidden as primaries."""
        return self._may_not_receive(self.p, self.s) | self._forbidden(
            PRIMARY, self._off_primary, self._s0, self._promoted
        )

    @cached_property
    def _demoted(self) -> BatchView:
        """Return a view of the primaries as secondaries, with the secondaries as primaries."""
        return self._as_secondary(self._p0, self.p, self.s)


class Block(Sides):
    """The effects of each kind of moves of a block."""

    def all_add(self, kind: MoveKind) -> RowEffects:
        """Return what all moves of `kind` of each instance add at nodes other than the target."""
        letters = kind.letters
        if letters == ("f",):
            changes = [self._promotes, self._demotes]
        elif letters == ("r",):
            changes = [self._leaves_secondary, *self._rounds_reserved()]
        elif letters == ("r", "f"):
            changes = [self._leaves_secondary, NodeChange(Shift(), self._demotes.deviations)]
        elif letters == ("f", "r"):
            changes = [self._leaves_primary, self._promotes]
        else:  # the memory that a staying secondary reserves depends on the target
            changes = [self._leaves_primary]
        return RowEffects(self._statistics, self.p.size, changes)

    @cached_property
    def _leaves_primary(self) -> NodeChange:
        return self._change(self._p0, self.p, -self._amount(PRIMARY, self.p, False))

    @cached_property
    def _leaves_secondary(self) -> NodeChange:
        return self._change(self._s0, self.s, -self._amount(SECONDARY, self.s, False))

    @cached_property
    def _promotes(self) -> NodeChange:
        added = self._amount(PRIMARY, self.s) - self._amount(SECONDARY, self.s, False)
        return self._change(self._promoted, self.s, added)

    @cached_property
    def _demotes(self) -> NodeChange:
        added = self._amount(SECONDARY, self.p) - self._amount(PRIMARY, self.p, False)
        return self._change(self._demoted, self.p, added)

    def _rounds_reserved(self) -> Sequence[NodeChange]:
        """Return what primaries add that stay, see `Node.passes_at_equality`."""
        if not self._rules.behaviour.passes_n1_at_equality or self._batch.forthcoming:
            return []
        reserved = np.ceil(self._at_p.reserved)
        if np.all(reserved == self._at_p.reserved):
            return []
        changed = self._at_p.plus([None] * len(COLUMNS), reserved)
        nothing = np.zeros((0, 1))
        return [NodeChange(self._shift(changed, self.p), (nothing, nothing))]

    def _amount(self, role: RoleLimits, node: Whole, coming: bool = True) -> Floats:
        """Return what instances add to the values of `node` in a role, statistics × rows."""
        amounts = self._amounts[0 if role is PRIMARY else 1]
        return amounts.added(self._rows[:, 0], node[:, 0], coming)

    def _change(self, after: BatchView, node: Whole, added: Floats) -> NodeChange:
        """Return what a change of `node` to `after` adds.

        `added`: what it adds to the values of deviations, statistics × rows.
        """
        old = self._table.values[self._statistics.without_reserved][:, node[:, 0]]
        return NodeChange(self._shift(after, node), (added * (2 * old + added), added))

    def moves(self, kind: MoveKind) -> MoveEffects:
        """Return the effects of moves of `kind`."""
        makers = {
            ("f",): self._failover,
            ("r",): self._replace_secondary,
            ("r", "f"): self._replace_and_failover,
            ("f", "r", "f"): self._replace_primary,
            ("f", "r"): self._failover_and_replace,
        }
        effects = makers.get(kind.letters, self._to_anywhere)()
        if kind.targeted:
            effects.forbidden = effects.forbidden | self._same
        return effects

    @cached_property
    def _same(self) -> Truths:
        """Return which targets are the primary or the secondary."""
        same: Truths = (self.n == self.p) | (self.n == self.s)
        return same

    def _failover(self) -> MoveEffects:
        forbidden = self._barred_promotion | self._forbidden(
            SECONDARY if self._primary_up else ABANDONED,
            self._off_primary,
            self._p0,
            self._demoted,
        )
        return MoveEffects(forbidden, *self._shared(self.s, self.p))

    def _to_anywhere(self) -> MoveEffects:
        return MoveEffects(self._may_not_receive(self.p, self.n) | self._barred_led, self._comes)

    def _replace_secondary(self) -> MoveEffects:
        after = self._as_secondary(self._at_n, self.n, self.p)
        forbidden = self._barred_secondary(after)
        if self._rules.behaviour.tests_primary_again:  # hail checks the unchanged primary, too
            forbidden = forbidden | self._forbidden(PRIMARY, FORCED_LIMITS, self._p0, self._at_p)
        return MoveEffects(forbidden, *self._shared(self.p, self.n), self._shift(after, self.n))

    def _replace_and_failover(self) -> MoveEffects:
        staying = self._as_secondary(self._p0, self.p, self.n)
        forbidden = self._barred_lead(
            self._p0, self.p, staying, self._off_secondary, self._barred_copied
        )
        shared = self._shared(self.n, self.p)
        return MoveEffects(forbidden, *shared, self._comes, self._shift(staying, self.p))

    def _replace_primary(self) -> MoveEffects:
        """Return the effects of a new primary beside the old secondary.

        On the secondary, only the reserved memory changes.
        """
        staying = self._as_secondary(self._s0, self.s, self.n)
        barred = self._barred_lead(self._s0, self.s, staying, self._off_primary, self._barred_led)
        forbidden = self._barred_promotion | barred
        shared = self._shared(self.n, self.s)
        return MoveEffects(forbidden, *shared, self._comes, self._shift(staying, self.s))

    def _failover_and_replace(self) -> MoveEffects:
        after = self._as_secondary(self._at_n, self.n, self.s)
        forbidden = self._barred_promotion | self._barred_secondary(after, self._off_primary)
        return MoveEffects(forbidden, *self._shared(self.s, self.n), self._shift(after, self.n))
