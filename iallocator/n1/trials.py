"""Whether placements in one group keep N+1: by counting, and what is in doubt played through."""

from __future__ import annotations

from iallocator.n1.playback import Playback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.headroom import GroupHeadroom
    from iallocator.n1.queues import Queue
    from iallocator.n1.rules import Rules
    from iallocator.scoring import Kernels

    Doubt = tuple[int, Queue]
    """A node that fails, and what leaves it then."""

__all__ = ["Trials"]

TWICE = 2
"""Once so many nodes in turn are refused for the same failure, it is asked for all others."""


class Trials:
    """Judges placements in the group of `counting` on `state`, which may go on changing."""

    def __init__(
        self, state: State, kernels: Kernels, rules: Rules, counting: GroupHeadroom
    ) -> None:
        self._state = state
        self._kernels = kernels
        self._rules = rules
        self._counting = counting
        self._playbacks: dict[bool, Playback] = {}
        self._plain = not counting.intricate and self._untagged()
        self._version = -1
        self._before: dict[int, bool | None] = {}  # whether failures are survived as things are
        self._instance: Instance | None = None  # the last that was judged
        self._refuter: int | None = None  # whose failure refused a placement last
        self._refusals = 0  # how often that has been so for this instance, by playing through
        self._refused: set[int] = set()  # where it would refuse this instance, too

    def _untagged(self) -> bool:
        """Whether only amounts tell nodes apart: no tags of instances, no reserved memory."""
        state = self._state
        return not any(
            state.reserved[index]
            or any(one.exclusion or one.desired for one in state.primaries[index].values())
            for index in self._counting.group.nodes
        )

    def keeps(self, instance: Instance, node: int) -> bool | None:
        """Whether `instance` may come to `node`; see `iallocator.n1.headroom.Headroom.keeps`."""
        counting = self._counting
        if counting.intricate or not counting.counts(instance):
            return None
        self._look_at(instance)
        if node in self._refused:
            return False
        known = self._refuter
        if known is not None and counting.survives(known, instance, node) is False:
            verdict = self._counts_against(known)
            if verdict is not False:
                return None if verdict is None else False
        doubts: list[Doubt] = []
        for failing in counting.queues:
            found = counting.survives(failing, instance, node)
            if found is False:
                verdict = self._counts_against(failing)
                if verdict is None:
                    return None
                if verdict:
                    self._refuter = failing
                    return False
            elif found is None:
                doubts.append((failing, counting.queue(failing, instance, node)))
        return self._try(doubts, instance, node) if doubts else True

    def _look_at(self, instance: Instance) -> None:
        """Forget what is not true any more, or was true of another instance."""
        if self._version != self._state.version:
            self._version = self._state.version
            self._before = {}
            self._instance = None
        if self._instance is not instance:
            self._instance = instance
            self._refusals = 0
            self._refused = set()

    def _try(self, doubts: Sequence[Doubt], instance: Instance, node: int) -> bool | None:
        """Play the failures in doubt through, first the one that refused last."""
        likely = [one for one in doubts if one[0] == self._refuter]
        for part in (likely, [one for one in doubts if one[0] != self._refuter]):
            lost = self._lost(part, [(instance, node)] * len(part))
            if lost is None:
                return None
            for (failing, _), gone in zip(part, lost):
                against = gone and self._counts_against(failing)
                if against is None:
                    return None
                if against:
                    self._note(failing, instance)
                    return False
        return True

    def _note(self, failing: int, instance: Instance) -> None:
        """`failing` refuses `instance` somewhere; if not for the first time, see where else."""
        self._refusals = self._refusals + 1 if failing == self._refuter else 1
        self._refuter = failing
        if self._refusals != TWICE:
            return
        counting = self._counting
        nodes = self._state.cluster.nodes
        others = [i for i in counting.group.nodes if i != failing and nodes[i].online]
        doubts = [(failing, counting.queue(failing, instance, -1))] * len(others)
        lost = self._lost(doubts, [(instance, node) for node in others])
        self._refused.update(node for node, gone in zip(others, lost or ()) if gone)

    def _counts_against(self, failing: int) -> bool | None:
        """Whether a placement is refused that leaves this failure lost; None: unknown."""
        return True if self._rules.strict else self._survived_before(failing)

    def _survived_before(self, failing: int) -> bool | None:
        """Whether a failure is survived as things are; None: unknown."""
        if failing not in self._before:
            found = self._counting.survives(failing, None, -1)
            if found is None:
                lost = self._lost([(failing, self._counting.queue(failing, None, -1))], [None])
                found = None if lost is None else not lost[0]
            self._before[failing] = found
        return self._before[failing]

    def sound(self) -> bool | None:
        """Whether every failure is survived as things are; None: unknown."""
        found = self._counting.healthy()
        if found is not None or self._counting.intricate:
            return found
        if self._version != self._state.version:
            self._version = self._state.version
            self._before = {}
            self._instance = None
        verdicts = {self._survived_before(failing) for failing in self._counting.queues}
        return False if False in verdicts else None if None in verdicts else True

    def _lost(
        self, doubts: Sequence[Doubt], coming: Sequence[tuple[Instance, int] | None]
    ) -> list[bool] | None:
        """Which failures lose somebody; None: they cannot be played through in arrays."""
        kinds = {kind for _, queue in doubts for kind in queue.kinds()}
        single = len(self._state.cluster.groups) == 1
        if not self._plain or (len(kinds) > 1 and not single):
            return None
        playback = self._playback(single or True in kinds)
        return playback.lost([node for node, _ in doubts], [q for _, q in doubts], coming)

    def _playback(self, whole: bool) -> Playback:
        """Over all nodes, where instances are created anew; else over those of the group."""
        if whole not in self._playbacks:
            counting, state = self._counting, self._state
            scope = range(len(state.cluster.nodes)) if whole else counting.group.nodes
            self._playbacks[whole] = Playback(
                state, self._kernels.matrix(), scope, counting.targets
            )
        return self._playbacks[whole]
