"""The kinds of moves, made of what changes at each of their nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iallocator.planners.balance.scan.metric_changes import MoveEffects, Sides
from iallocator.scoring.metrics import STATISTICS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.planners.balance.move_kinds import MoveKind

__all__ = ["Block"]

FAILING = next(k for k, statistic in enumerate(STATISTICS) if statistic.name == "n1_cnt")
"""The statistic that is no sum over instances: nodes that fail N+1 count them."""


class Block(Sides):
    """What each kind of moves does; see `Sides`."""

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
        """For each of `kinds`, which have targets, what it does."""
        if not self._batch.drbd:
            return [self._to_anywhere() for _ in kinds]
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
        comes = self._led
        return MoveEffects(
            self._barred_anywhere(),
            [self._stack(self._p0, self.p), self._stack(comes, self.n)],
            [self._shift(self._p0, self.p), self._shift(comes, self.n)],
        )

    def _replace_secondary(self) -> MoveEffects:
        after = self._mirror(self.p)
        forbidden = self._barred_mirror(after) | self._primary_again()
        shifts = [self._off_s[0], self._shift(after, self.n), self._shared(self.p, self.n)]
        return MoveEffects(forbidden, [self._off_s[1], self._mirror_stack], shifts)

    def _replace_and_failover(self) -> MoveEffects:
        comes = self._comes
        stays = self._as_secondary(self._p0, self.p, self.n)
        forbidden = self._barred_lead(
            self._p0, self.p, stays, self._off_secondary, self._barred_copied
        )
        shifts = [self._off_s[0], comes.shift, self._shift(stays, self.p)]
        stacks = [self._off_s[1], self._stay(), comes.stack]
        return MoveEffects(forbidden, stacks, [*shifts, self._shared(self.n, self.p)])

    def _replace_primary(self) -> MoveEffects:
        """Only the memory that the secondary reserves changes there."""
        comes = self._comes
        stays = self._as_secondary(self._s0, self.s, self.n)
        barred = self._barred_lead(self._s0, self.s, stays, self._off_primary, self._barred_led)
        forbidden = self._lead().forbidden | barred
        shifts = [self._off_p[0], comes.shift, self._shift(stays, self.s)]
        stacks = [self._off_p[1], comes.stack]
        return MoveEffects(forbidden, stacks, [*shifts, self._shared(self.n, self.s)])

    def _failover_and_replace(self) -> MoveEffects:
        leads = self._lead()
        after = self._mirror(self.s)
        forbidden = leads.forbidden | self._barred_mirror(after, self._off_primary)
        shifts = [self._off_p[0], leads.shift, self._shift(after, self.n)]
        stacks = [self._off_p[1], leads.stack, self._mirror_stack]
        return MoveEffects(forbidden, stacks, [*shifts, self._shared(self.s, self.n)])
