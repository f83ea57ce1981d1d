"""Whether placements in one group keep N+1: by counting, and what is in doubt played through."""

from __future__ import annotations

from iallocator.deadline import check
from iallocator.n1.counting.playback import Playback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.counting.group_headroom import GroupHeadroom
    from iallocator.n1.counting.playback import Coming
    from iallocator.n1.counting.queues import Leaving
    from iallocator.n1.rules import Rules
    from iallocator.scoring import Kernels

    Doubt = tuple[int, Leaving]
    """A node that fails, and what leaves it then."""

__all__ = ["Trials"]

FEW, GROWTH = 4, 4
"""So many sizes are played through at once at first, and so many times as many each time."""

TWICE = 2
"""Once an instance is rejected on so many nodes, a failure is asked for all others at once."""


class Trials:
    """Judges placements in the group of `counting` on `state`, which may go on changing.

    Attributes
    ----------
    plain:
        Whether failures can be played through in arrays.
    """

    def __init__(
        self, state: State, kernels: Kernels, rules: Rules, counting: GroupHeadroom
    ) -> None:
        self._state = state
        self._kernels = kernels
        self._rules = rules
        self._counting = counting
        self._playbacks: dict[bool, Playback] = {}
        self.plain = not counting.intricate and self._untagged()
        self._version = -1
        self._before: dict[int, bool | None] = {}  # whether failures are survived as things are
        self._instance: Instance | None = None  # the last that was judged
        self._refuted: set[int] = set()  # where it would not do, as is known already
        self._foreseen: dict[tuple[float, ...], set[int]] = {}  # vector -> where it would not do
        self._asked: set[int] = set()  # failures of which that is known for every node
        self._refuters: dict[int, int] = {}  # node -> whose failure rejected somebody there last

    def _untagged(self) -> bool:
        """Whether only amounts tell nodes apart: no tags of instances, no reserved memory."""
        state = self._state
        return not any(
            state.reserved[index]
            or any(one.exclusion or one.desired for one in state.primaries[index].values())
            for index in self._counting.group.nodes
        )

    def keeps(self, instance: Instance, node: int) -> bool | None:
        """Whether `instance` may come to `node`; see `headroom.Headroom.keeps`."""
        counting = self._counting
        if counting.intricate or not counting.counts(instance):
            return None
        self._look_at(instance)
        if node in self._refuted:
            return False
        likely = self._refuters.get(node)
        if likely is not None and counting.survives(likely, instance, node) is False:
            against = self._counts_against(likely)
            if against is not False:
                return None if against is None else False
        doubts: list[Doubt] = []
        for failing, found in counting.unsettled(instance, node).items():
            if found is False:
                against = self._counts_against(failing)
                if against is not False:
                    self._refuters[node] = failing
                    return None if against is None else False
            else:
                doubts.append((failing, counting.leaving(failing, instance, node)))
        if likely is not None:
            doubts.sort(key=lambda doubt: doubt[0] != likely)
        return self._try(doubts, instance, node) if doubts else True

    def _look_at(self, instance: Instance) -> None:
        """Forget what is not true any more, or was true of another instance."""
        self._look_again()
        if self._instance is not instance:
            self._instance = instance
            self._asked = set()
            if instance.as_primary not in self._foreseen:
                self.foresee([instance])
            self._refuted = set(self._foreseen[instance.as_primary])

    def _look_again(self) -> None:
        """Forget what was true of the state before."""
        if self._version != self._state.version:
            self._version = self._state.version
            self._before = {}
            self._foreseen = {}
            self._instance = None

    @property
    def refuters(self) -> Mapping[int, int]:
        """Nodes that somebody was rejected on last, and by whose failure."""
        return self._refuters

    def learn(self, node: int, refuter: int | None) -> None:
        """The failure of `refuter` rejects whoever comes to `node`; None: no failure does."""
        if refuter is None:
            self._refuters.pop(node, None)
        else:
            self._refuters[node] = refuter

    def foresee(self, instances: Sequence[Instance]) -> None:
        """See at once where these would not do, as they come one by one to the state as it is.

        Of each node only the failure is asked that rejected somebody there last.
        """
        self._look_again()
        fresh = [one for one in instances if one.as_primary not in self._foreseen]
        rows = [
            (one, node, failing)
            for one in fresh
            if self._counting.counts(one)
            for node, failing in self._refuters.items()
            if self._counting.holds(one, node) and self._counts_against(failing)
        ]
        leaving = self._counting.leaving
        lost = self.lost(
            [(failing, leaving(failing, one, node)) for one, node, failing in rows],
            [(one, (node,)) for one, node, _ in rows],
        )
        self._foreseen |= {one.as_primary: set() for one in fresh}
        for (one, node, _), gone in zip(rows, lost or ()):
            if gone:
                self._foreseen[one.as_primary].add(node)

    def _try(self, doubts: Sequence[Doubt], instance: Instance, node: int) -> bool | None:
        """Play the failures in doubt through."""
        lost = self.lost(doubts, [(instance, (node,))] * len(doubts))
        if lost is None:
            return None
        for (failing, _), gone in zip(doubts, lost):
            against = gone and self._counts_against(failing)
            if against is not False:
                self._refuters[node] = failing
                if against:
                    self._refuted.add(node)
                    self._ask_everywhere(failing, instance)
                return None if against is None else False
        self._refuters.pop(node, None)
        return True

    def _ask_everywhere(self, failing: int, instance: Instance) -> None:
        """`failing` rejects `instance` on a second node: see at once where else."""
        if len(self._refuted) < TWICE or failing in self._asked:
            return
        self._asked.add(failing)
        counting, nodes = self._counting, self._state.cluster.nodes
        others = [
            i
            for i in counting.group.nodes
            if i != failing and nodes[i].online and i not in self._refuted
        ]
        doubts = [(failing, counting.leaving(failing, instance, -1))] * len(others)
        lost = self.lost(doubts, [(instance, (node,)) for node in others])
        found = [node for node, gone in zip(others, lost or ()) if gone]
        self._refuted.update(found)
        self._refuters.update(dict.fromkeys(found, failing))

    def _counts_against(self, failing: int) -> bool | None:
        """Whether a placement is rejected that leaves this failure lost; None: unknown."""
        return True if self._rules.strict else self._survived_before(failing)

    def _survived_before(self, failing: int) -> bool | None:
        """Whether a failure is survived as things are; None: unknown."""
        if failing not in self._before:
            found = self._counting.survives(failing, None, -1)
            if found is None:
                lost = self.lost([(failing, self._counting.leaving(failing, None, -1))], [None])
                found = None if lost is None else not lost[0]
            self._before[failing] = found
        return self._before[failing]

    def sound(self) -> bool | None:
        """Whether every failure is survived as things are; None: unknown."""
        found = self._counting.healthy()
        if found is not None or self._counting.intricate:
            return found
        self._look_again()
        verdicts = {self._survived_before(failing) for failing in self._counting.queues}
        return False if False in verdicts else None if None in verdicts else True

    def lost(self, doubts: Sequence[Doubt], coming: Sequence[Coming | None]) -> list[bool] | None:
        """Which failures lose somebody; None: they cannot be played through in arrays.

        With what is `coming` beside what the state holds, see `Playback.lost`.
        """
        playback = self._playback_of([leaving for _, leaving in doubts])
        if playback is None:
            return None
        return playback.lost([node for node, _ in doubts], [one for _, one in doubts], coming)

    def rejected_down(self, instances: Sequence[Instance], nodes: Sequence[int]) -> int:
        """How many of `instances` are rejected on all of `nodes` for certain, from the first on.

        They are ever smaller in one amount.  Only with ``strict``, and as far as one failure
        for each node tells, that which rejected somebody there last.
        """
        counting = self._counting
        known = self._rules.strict and self.plain and all(node in self._refuters for node in nodes)
        if not known or not (counting.counts(instances[0]) and counting.counts(instances[-1])):
            return 0
        found, size = 0, FEW
        while found < len(instances):
            check()
            part = instances[found : found + size]
            rejected = self._rejected_everywhere(part, nodes)
            found += rejected
            if rejected < len(part):
                break
            size *= GROWTH
        return found

    def _rejected_everywhere(self, instances: Sequence[Instance], nodes: Sequence[int]) -> int:
        """How many of these, from the first on, the failure loses that belongs to each node."""
        rows = [(one, node, self._refuters[node]) for one in instances for node in nodes]
        leaving = self._counting.leaving
        lost = self.lost(
            [(failing, leaving(failing, one, node)) for one, node, failing in rows],
            [(one, (node,)) for one, node, _ in rows],
        )
        if lost is None:
            return 0
        return lost.index(False) // len(nodes) if False in lost else len(instances)

    def _playback_of(self, leaving: Sequence[Leaving]) -> Playback | None:
        """What plays these through; None: arrays do not."""
        kinds = {kind for one in leaving for kind in one.recreated}
        single = len(self._state.cluster.groups) == 1
        if not self.plain or (len(kinds) > 1 and not single):
            return None
        return self._playback(single or True in kinds)

    def _playback(self, whole: bool) -> Playback:
        """Over all nodes, where instances are created anew; else over those of the group."""
        if whole not in self._playbacks:
            counting, state = self._counting, self._state
            scope = range(len(state.cluster.nodes)) if whole else counting.group.nodes
            self._playbacks[whole] = Playback(
                state, self._kernels.matrix(), scope, counting.targets
            )
        return self._playbacks[whole]
