"""Where the next of many equal instances goes, with what was known for the one before it."""

from __future__ import annotations

from iallocator.deadline import check
from iallocator.limits.node import ALL_LIMITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.limits.node import LimitSet
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.headroom import Headroom
    from iallocator.n1.speculation import Speculation
    from iallocator.scoring import Kernels
    from iallocator.scoring.incremental import IncrementalScores

__all__ = ["NextPlace", "next_place_for"]

MOST_AHEAD = 64
"""So many placements are looked ahead at most."""

PATIENCE = 16
"""Where none is certain of N+1, that is counted again after so many times at the latest."""

FEW_AHEAD = 4
"""So many are looked ahead at least once one is wrong: that takes hardly longer than one."""

AROUND = 32
"""Where a guess was wrong, so many nodes are asked about at once."""


class NextPlace:
    """Answers as long as neither scores that are all but equal nor N+1 are in doubt.

    Where counting leaves N+1 in doubt, several placements are rehearsed; `newcomers` makes the
    instance that comes so many after the next one.
    """

    def __init__(
        self,
        state: State,
        scores: IncrementalScores,
        headroom: Headroom,
        groups: Sequence[int],
        newcomers: Callable[[int], Instance],
    ) -> None:
        self._state = state
        self._scores = scores
        self._headroom = headroom
        self._groups = groups
        self._newcomers = newcomers
        self._certain = 0
        self._ahead = 1
        self._pause, self._patience = 0, 1  # times until it is counted again what is certain

    def path(self, instance: Instance) -> Sequence[Nodes]:
        """The nodes for `instance` and more like it; []: ask otherwise, there may be none."""
        if self._certain <= 0:
            self._certain = self._count(instance)
        if self._certain <= 0:
            return self._rehearsed(instance)
        return self._scores.path(self._certain)

    def _count(self, instance: Instance) -> int:
        """How many more are certain of N+1; the more rarely asked, the longer there were none."""
        self._pause -= 1
        if self._pause > 0:
            return 0
        found = self._headroom.count(instance, self._groups)
        self._patience = 1 if found else min(2 * self._patience, PATIENCE)
        self._pause = self._patience
        return found

    def placed(self, path: Sequence[Nodes]) -> None:
        """So many more have come, each to its nodes."""
        self._certain -= len(path)
        self._scores.placed_along(path)

    def _rehearsed(self, instance: Instance) -> Sequence[Nodes]:
        """The same by rehearsals: each either finds a place, or learns why a guess was wrong."""
        alone = len(self._groups) == 1
        speculation = self._headroom.speculation(instance, self._groups[0]) if alone else None
        if speculation is None:
            return self._judged(instance)
        while True:
            check()
            guessed, exhausted = self._guess(speculation)
            known = speculation.confirmed() if guessed else 0
            if known is None or (not guessed and exhausted):
                return []
            if known == len(guessed):
                self._ahead = min(2 * self._ahead, MOST_AHEAD)
            else:
                self._ahead = max(FEW_AHEAD, known + 1)
                speculation.look_around(self._scores.nearest(AROUND))
            if known:
                return [(node,) for node in guessed[:known]]

    def _judged(self, instance: Instance) -> Sequence[Nodes]:
        """The best nodes, if N+1 is kept there."""
        best = self._scores.best()
        return [best] if best and self._headroom.allows(instance, best, False) else []

    def _guess(self, speculation: Speculation) -> tuple[list[int], bool]:
        """Where the next ones might come to, and whether there the best place cannot be told."""
        found: list[int] = []
        exhausted = False
        instance = self._newcomers(0)
        speculation.start()
        scores = self._scores.copy()
        with self._state.trial():
            for number in range(min(self._ahead, scores.left + 1)):
                if number:
                    self._state.place(instance, (found[-1],))
                    speculation.placed(instance, found[-1])
                    scores.placed((found[-1],))
                    instance = self._newcomers(number)
                best, rejected = scores.best_but(speculation.rejected())
                exhausted = best is None
                if best is None or not speculation.expect(instance, best, rejected):
                    break
                found.append(best)
        speculation.end()
        return found, exhausted


def next_place_for(
    instance: Instance,
    state: State,
    kernels: Kernels,
    headroom: Headroom,
    groups: Sequence[tuple[Group, Sequence[int]]],
    limits_of: Mapping[int, LimitSet],
    newcomers: Callable[[int], Instance],
) -> NextPlace | None:
    """What finds places for more like `instance`; None where soft limits are ignored.

    `groups` holds the nodes whose policy takes it; for `newcomers` see `NextPlace`.
    """
    if any(limits_of[group.index] is not ALL_LIMITS for group, _ in groups):
        return None
    from iallocator.scoring.incremental import IncrementalSingles
    from iallocator.scoring.incremental_pairs import IncrementalPairs

    kind = IncrementalPairs if instance.required_nodes == 2 else IncrementalSingles
    scores = kind(
        state, kernels.fixed, kernels.matrix(), instance, [nodes for _, nodes in groups], ALL_LIMITS
    )
    return NextPlace(state, scores, headroom, [group.index for group, _ in groups], newcomers)
