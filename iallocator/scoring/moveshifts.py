"""How moves of many instances change the statistics, and which limits forbid them.

A block is some instances (rows) × some target nodes (columns), all with primaries and
secondaries in the same condition (online or not), so that the same limits count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.filters.node import (
    ABANDONED,
    ALL_LIMITS,
    FORCED_LIMITS,
    PRIMARY,
    SECONDARY,
    checks_for,
)
from iallocator.scoring.kernel import LOCATION, after_primary, after_secondary, values
from iallocator.scoring.statistics import STATISTICS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.filters.node import Check
    from iallocator.scoring.movekinds import MoveKind, MoveRules
    from iallocator.scoring.movetable import Crowd, CrowdView, Floats, NodeTable, Whole
    from iallocator.scoring.movetags import MoveTags
    from iallocator.scoring.view import Quantity

    Shift = dict[int, tuple[Quantity, Quantity]]
    """Statistic -> what is added to its sum, and to its sum of squares."""

__all__ = ["Block", "Shift"]


class Block:
    """`rows` of `crowd` × the nodes at `columns`; all arrays broadcast to that shape."""

    def __init__(
        self,
        table: NodeTable,
        crowd: Crowd,
        tags: MoveTags | None,
        live: Sequence[int],
        rules: MoveRules,
        migration: Quantity,
        rows: Whole,
        columns: Whole,
        primary: Whole,
        secondary: Whole,
        left_reserved: Floats,
    ) -> None:
        self._table = table
        self._crowd = crowd
        self._tags = tags
        self._live = live
        self._rules = rules
        self._migration = migration
        self._rows = rows
        self.p = primary[:, None]
        self.s = secondary[:, None]
        self.n = columns[None, :]
        self.primary_online = bool(table.online[primary[0]])
        self.secondary_online = bool(table.online[secondary[0]])
        self._off_primary = self._limits(self.primary_online)
        self._off_secondary = self._limits(self.secondary_online)
        self._views(left_reserved)

    def _limits(self, online: bool) -> int:
        """Which limits count for a move off a node in this condition."""
        return ALL_LIMITS if online and not self._rules.ignore_soft else FORCED_LIMITS

    def _views(self, left_reserved: Floats) -> None:
        """The nodes as they are, and without the instances."""
        table, crowd = self._table, self._crowd
        self._at_p = table.view(self.p)
        self._at_n = table.view(self.n)
        self._p0 = self._at_p.plus(crowd.less_primary, self._at_p.reserved)
        self._tagged(self._p0, self.p, -1)
        if crowd.drbd:
            self._at_s = table.view(self.s)
            self._s0 = self._at_s.plus(crowd.less_secondary, left_reserved[:, None])

    def _tagged(self, view: CrowdView, node: Whole, sign: int) -> CrowdView:
        if self._tags is not None:
            rows = self._rows[:, None]
            view.conflicts = view.conflicts + sign * self._tags.conflicts[rows, node]
            view.misplaced = view.misplaced + sign * self._tags.misplaced[rows, node]
            view.domain_conflicts = sign * self._tags.domains[rows, node]
        return view

    def _as_primary(self, view: CrowdView, node: Whole) -> CrowdView:
        after: CrowdView = after_primary(view, self._crowd)  # type: ignore[arg-type,assignment]
        return self._tagged(after, node, 1)

    def _as_secondary(self, view: CrowdView, node: Whole, primary: Whole) -> CrowdView:
        peers = self._table.peers[node, primary]
        after: CrowdView = after_secondary(view, self._crowd, peers, np.maximum)  # type: ignore[arg-type,assignment]
        after.domain_conflicts = view.domain_conflicts
        return after

    def _shift(self, after: CrowdView, node: Whole) -> Shift:
        """The change at `node`, from what it is to `after`."""
        old = self._table.values[:, node]
        new = values(after, self._table.centres)
        shift: Shift = {}
        for k in self._live:
            difference = new[k] - old[k]
            if STATISTICS[k].spread:
                shift[k] = difference, difference * (new[k] + old[k])
            else:
                shift[k] = difference, 0.0
        return shift

    def _forbidden(
        self, checks: Sequence[Check], limits: int, before: CrowdView, after: CrowdView
    ) -> Quantity:
        crowd = self._crowd
        found: Quantity = False
        for check in checks_for(tuple(checks), crowd, limits):  # type: ignore[arg-type]
            found = found | check.fails(before, after, crowd)  # type: ignore[arg-type]
        return found

    def _may_not_receive(self, source: Whole, target: Whole) -> Quantity:
        return False if self._migration is None else ~self._migration[source, target]

    def _shared(self, primary: Whole, secondary: Whole) -> Shift:
        """The change of location tags in common, once the instances are on these nodes."""
        if self._tags is None:
            return {}
        shared = self._tags.shared
        return {LOCATION: (shared[primary, secondary] - shared[self.p, self.s], 0.0)}

    def _left_behind(self) -> tuple[Check, ...]:
        return SECONDARY if self.primary_online else ABANDONED

    def failovers(self) -> tuple[Quantity, list[Shift]]:
        """``f``: whether it is forbidden, and the changes it makes."""
        leads = self._as_primary(self._s0, self.s)
        stays = self._as_secondary(self._p0, self.p, self.s)
        forbidden = (
            self._may_not_receive(self.p, self.s)
            | self._forbidden(PRIMARY, self._off_primary, self._s0, leads)
            | self._forbidden(self._left_behind(), self._off_primary, self._p0, stays)
        )
        shifts = [self._shift(leads, self.s), self._shift(stays, self.p)]
        return forbidden, [*shifts, self._shared(self.s, self.p)]

    def moves(self, kinds: Sequence[MoveKind]) -> list[tuple[Quantity, list[Shift]]]:
        """For each of `kinds` whether it is forbidden, and the changes it makes."""
        if not self._crowd.drbd:
            return [self._to_anywhere() for _ in kinds]
        self._make_parts()
        makers = {
            ("r",): self._replace_secondary,
            ("r", "f"): self._replace_and_failover,
            ("f", "r", "f"): self._replace_primary,
            ("f", "r"): self._failover_and_replace,
        }
        same = (self.n == self.p) | (self.n == self.s)
        found = []
        for kind in kinds:
            forbidden, shifts = makers[kind.letters]()
            found.append((forbidden | same, shifts))
        return found

    def _to_anywhere(self) -> tuple[Quantity, list[Shift]]:
        comes = self._as_primary(self._at_n, self.n)
        forbidden = (
            self._may_not_receive(self.p, self.n)
            | self._forbidden(PRIMARY, self._off_primary, self._at_n, comes)
            | (self.n == self.p)
        )
        return forbidden, [self._shift(self._p0, self.p), self._shift(comes, self.n)]

    def _make_parts(self) -> None:
        """What several kinds of moves have in common."""
        self._sp = self._as_primary(self._s0, self.s)
        self._np = self._as_primary(self._at_n, self.n)
        self._sp_forbidden = self._may_not_receive(self.p, self.s) | self._forbidden(
            PRIMARY, self._off_primary, self._s0, self._sp
        )
        self._p0_shift = self._shift(self._p0, self.p)
        self._s0_shift = self._shift(self._s0, self.s)
        self._sp_shift = self._shift(self._sp, self.s)
        self._np_shift = self._shift(self._np, self.n)

    def _replace_secondary(self) -> tuple[Quantity, list[Shift]]:
        after = self._as_secondary(self._at_n, self.n, self.p)
        forbidden = self._forbidden(SECONDARY, self._off_secondary, self._at_n, after)
        if self._rules.like_hbal:
            forbidden = forbidden | self._forbidden(
                PRIMARY, FORCED_LIMITS, self._p0, self._at_p
            )
        shifts = [self._s0_shift, self._shift(after, self.n), self._shared(self.p, self.n)]
        return forbidden, shifts

    def _replace_and_failover(self) -> tuple[Quantity, list[Shift]]:
        stays = self._as_secondary(self._p0, self.p, self.n)
        forbidden = (
            self._may_not_receive(self.p, self.n)
            | self._forbidden(PRIMARY, self._off_primary, self._at_n, self._np)
            | self._forbidden(SECONDARY, self._off_secondary, self._p0, stays)
        )
        shifts = [self._s0_shift, self._np_shift, self._shift(stays, self.p)]
        return forbidden, [*shifts, self._shared(self.n, self.p)]

    def _replace_primary(self) -> tuple[Quantity, list[Shift]]:
        stays = self._as_secondary(self._s0, self.s, self.n)
        forbidden = (
            self._sp_forbidden
            | self._may_not_receive(self.s, self.n)
            | self._forbidden(PRIMARY, self._off_primary, self._at_n, self._np)
            | self._forbidden(SECONDARY, self._off_primary, self._s0, stays)
        )
        shifts = [self._p0_shift, self._np_shift, self._shift(stays, self.s)]
        return forbidden, [*shifts, self._shared(self.n, self.s)]

    def _failover_and_replace(self) -> tuple[Quantity, list[Shift]]:
        after = self._as_secondary(self._at_n, self.n, self.s)
        forbidden = self._sp_forbidden | self._forbidden(
            SECONDARY, self._off_primary, self._at_n, after
        )
        shifts = [self._p0_shift, self._sp_shift, self._shift(after, self.n)]
        return forbidden, [*shifts, self._shared(self.s, self.n)]
