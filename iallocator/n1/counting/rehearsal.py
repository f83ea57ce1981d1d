"""Placements of equal instances, one after the other, judged at once.

Where they come to is guessed: to the best node that rejects nobody, as far as is known.  What
counting leaves in doubt of all of them is played through together, which takes little longer
than for one; the first guess that turns out wrong ends what is believed, and is learnt.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from iallocator.model.instance import Instance
    from iallocator.n1.counting.group_headroom import GroupHeadroom
    from iallocator.n1.counting.playback import Coming
    from iallocator.n1.counting.queues import Queue
    from iallocator.n1.counting.trials import Doubt, Trials

__all__ = ["Rehearsal"]

RECENT = 16
"""So many failures that rejected somebody are asked before all others."""


AT_ONCE = 160
"""To play so many failures through takes no more than twice as long as a few of them."""


class _Guess:
    """One failure that has to be played through, and how that should end.

    Attributes
    ----------
    doubt, coming:
        See `Trials.lost`.
    node:
        Where the last of `coming` comes to.
    rejected:
        Whether the failure is expected to reject it.
    """

    __slots__ = ("coming", "doubt", "node", "rejected")

    def __init__(self, doubt: Doubt, coming: Coming, rejected: bool) -> None:
        self.doubt = doubt
        self.coming = coming
        self.node = coming[1][-1]
        self.rejected = rejected


class Rehearsal:
    """Judges placements in the group of `counting`, with ``strict``.

    From `start` to `end`, which belong around a trial of the state, `expect` and `placed` are
    called in turn; `come_true` then says how much of it is so.
    """

    def __init__(self, trials: Trials, counting: GroupHeadroom) -> None:
        self._trials = trials
        self._counting = counting
        self._guesses: list[list[_Guess]] = []
        self._path: tuple[int, ...] = ()
        self._queues: dict[int, Queue] = {}
        self._recent: list[int] = []  # failures that showed a guess to be wrong, the last ones
        self._wrong: _Guess | None = None  # the one that ended what is believed

    def judges(self, instance: Instance) -> bool:
        """Whether it can tell of `instance`."""
        counting = self._counting
        return not counting.intricate and self._trials.plain and counting.counts(instance)

    def rejected(self) -> Collection[int]:
        """The nodes that reject, as far as is known, whoever comes."""
        return self._trials.refuters.keys()

    def start(self) -> None:
        """Forget what was asked before."""
        self._guesses = []
        self._path = ()
        self._queues = {}

    def expect(self, instance: Instance, node: int, rejected: Sequence[int]) -> bool:
        """Guess that the next instance comes to `node` because those in `rejected` reject it.

        False: it is known that this is not so, and why is learnt.
        """
        guesses: list[_Guess] = []
        asked = [(self._trials.refuters[other], other) for other in rejected]
        unsettled, verdicts = self._counting.unsettled_and(instance, node, asked)
        for (failing, other), survives in zip(asked, verdicts):
            if survives:
                self._trials.learn(other, None)
            elif survives is None:
                guesses.append(self._guess(failing, instance, other, True))
        if True in verdicts:
            return False
        for failing, survives in unsettled.items():
            if survives is False:
                self._trials.learn(node, failing)
                return False
            guesses.append(self._guess(failing, instance, node, False))
        self._guesses.append(guesses)
        return True

    def _guess(self, failing: int, instance: Instance, node: int, rejected: bool) -> _Guess:
        doubt = failing, self._counting.leaving(failing, instance, node)
        return _Guess(doubt, (instance, (*self._path, node)), rejected)

    def placed(self, instance: Instance, node: int) -> None:
        """`instance` has come to `node`, for as long as the trial lasts."""
        queues = self._counting.queues
        if node in queues and node not in self._queues:
            self._queues[node] = queues[node]
            queues[node] = queues[node].copy()
        self._path = *self._path, node
        self._counting.placed(instance, node)

    def end(self) -> None:
        """The trial is over."""
        for node in set(self._path):
            self._counting.undo(node, self._queues.get(node))

    def come_true(self) -> int | None:
        """How many of the guesses are so, from the first on; None: it cannot be told.

        Where there are many, asked first are the failures that have rejected somebody: mostly it
        is one of them that shows what is wrong, and the others need not be played through then.
        """
        if sum(map(len, self._guesses)) <= AT_ONCE:
            return self._so(len(self._guesses), lambda one: True)
        likely = {*self._trials.refuters.values(), *self._recent}
        known = self._so(len(self._guesses), lambda one: one.rejected or one.doubt[0] in likely)
        if not known:
            return known
        return self._so(known, lambda one: not (one.rejected or one.doubt[0] in likely))

    def look_around(self, nodes: Collection[int]) -> None:
        """See where else that failure rejects the next instance that showed a guess to be wrong.

        What is rejected at one node for want of a large place elsewhere mostly is so at many.
        """
        wrong, self._wrong = self._wrong, None
        if wrong is None or wrong.node == wrong.doubt[0]:
            return
        failing, leaving = wrong.doubt
        others = [node for node in nodes if node not in (failing, wrong.node)]
        instance, path = wrong.coming
        coming = [(instance, (*path[:-1], node)) for node in others]
        lost = self._trials.lost([(failing, leaving)] * len(others), coming)
        for node, gone in zip(others, lost or ()):
            if gone:
                self._trials.learn(node, failing)
            elif self._trials.refuters.get(node) == failing:
                self._trials.learn(node, None)

    def _so(self, count: int, asked: Callable[[_Guess], bool]) -> int | None:
        """How many of the first `count` guesses are so as far as those tell that are `asked`."""
        chosen = [[one for one in guesses if asked(one)] for guesses in self._guesses[:count]]
        every = [one for guesses in chosen for one in guesses]
        lost = self._trials.lost([one.doubt for one in every], [one.coming for one in every])
        if lost is None:
            return None
        found = iter(lost)
        for number, guesses in enumerate(chosen):
            wrong = [one for one, gone in zip(guesses, found) if gone is not one.rejected]
            for guess in wrong:
                self._learn(guess)
            if wrong:
                return number
        return count

    def _learn(self, wrong: _Guess) -> None:
        """Remember how that failure ends indeed."""
        self._wrong = wrong
        self._trials.learn(wrong.node, None if wrong.rejected else wrong.doubt[0])
        if not wrong.rejected:
            self._recent = [*self._recent, wrong.doubt[0]][-RECENT:]
