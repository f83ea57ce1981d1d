"""The limits of nodes, and migration tags, for one instance that comes to other nodes.

MoveChecks are made of this, and planners ask it that have evaluators for no group: their
nodes may be about to be powered down, or their moves in the middle of a way.
"""

from __future__ import annotations

from functools import partial

from iallocator.constraints.access import may_not_receive
from iallocator.limits.node import PRIMARY, SECONDARY, STAYING, checks_for
from iallocator.limits.rejection import Rejection
from iallocator.model.instance import Backend, Disks, Instance
from iallocator.model.state import derived
from iallocator.scoring.scalar import ScalarKernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.limits.node import Check, RoleLimits
    from iallocator.model.node_view import Capacities
    from iallocator.model.state import Kept, State
    from iallocator.placement.limit_policy import LimitPolicies, LimitPolicy
    from iallocator.scoring.scalar import Failing

    Ask = Callable[[Instance, int, int], Rejection | None]
    """(instance, its primary, node) -> the limit that fails there, if one does."""


__all__ = ["MoveLimits"]

NO_PRIMARY = -1
"""The primary of an instance that asks for one."""

UNKNOWN = -1
"""No stamp of a node."""


class KnownAnswers:
    """What the nodes of `state` say by the same checks, to instances without tags and pools.

    Every limit is the sooner broken the more an instance asks for.  So a node is asked first for
    one that wants as much of everything as any that came so far: if it has room for that,
    it has for each of them.  Otherwise it is asked once for each shape, and, by those that want
    a place for their mirrors, for each amount that it reserves for their primaries already.
    """

    __slots__ = ("_answers", "_ask", "_full", "_most", "_near", "_roomy", "_state")

    def __init__(self, state: State, ask: Ask) -> None:
        self._state = state
        self._ask = ask
        self._most: Instance | None = None
        self._roomy = [UNKNOWN] * len(state.stamps)  # as it was (stamp) with room for the most
        self._full = [UNKNOWN] * len(state.stamps)  # as it was without
        self._answers: dict[object, _Answers] = {}  # shape -> where nothing is reserved for it yet
        self._near: Kept[tuple[object, int, float], Rejection | None] = {}

    def rejections(
        self, instance: Instance, primary: int, nodes: Sequence[int]
    ) -> dict[int, Rejection]:
        """What fails on each of `nodes`, where something does."""
        shape = instance.shape
        if shape not in self._answers:
            self._answers[shape] = _Answers(len(self._state.stamps))
            self._widen(instance)
        answers, stamps, peers = self._answers[shape], self._state.stamps, self._state.peers
        nodes = self._tight(nodes, primary)
        apart = [index for index in nodes if primary in peers[index]]
        if apart:
            nodes = [index for index in nodes if primary not in peers[index]]
        for index in answers.outdated(nodes, stamps):
            answers.note(index, stamps[index], self._ask(instance, primary, index))
        found = answers.rejections(nodes)
        for index in apart:
            rejection = self._beside_peers(instance, shape, primary, index)
            if rejection is not None:
                found[index] = rejection
        return found

    def _widen(self, instance: Instance) -> None:
        """Have the most demanding instance ask for at least what `instance` does."""
        before = self._most
        if before is None:
            before = instance
        spindles = None  # more than any number
        if before.spindles is not None and instance.spindles is not None:
            spindles = max(before.spindles, instance.spindles)
        most = Instance(
            "",
            Backend(max(before.memory, instance.memory), vcpus=0),
            Disks(instance.template, spindles=spindles),
        )
        most.as_primary = _most(before.as_primary, instance.as_primary)
        most.as_secondary = _most(before.as_secondary, instance.as_secondary)
        self._most = most
        self._roomy = [UNKNOWN] * len(self._roomy)
        self._full = [UNKNOWN] * len(self._full)

    def _tight(self, nodes: Sequence[int], primary: int) -> list[int]:
        """Those of `nodes` that have no room for the most demanding one."""
        stamps, roomy, full = self._state.stamps, self._roomy, self._full
        left = [index for index in nodes if roomy[index] != stamps[index]]
        unknown = [index for index in left if full[index] != stamps[index]]
        for index in unknown:
            known = roomy if self._has_room(index, primary) else full
            known[index] = stamps[index]
        return [index for index in left if full[index] == stamps[index]] if unknown else left

    def _has_room(self, index: int, primary: int) -> bool:
        """Return whether node `index` could host the most demanding one beside any primary."""
        assert self._most is not None
        peers = self._state.peers[index]
        if primary != NO_PRIMARY and peers:
            primary = max(peers, key=peers.__getitem__)
        return self._ask(self._most, primary, index) is None

    def _beside_peers(
        self, instance: Instance, shape: object, primary: int, index: int
    ) -> Rejection | None:
        """What node `index`, which has mirrors of `primary`, answers to all of this shape."""
        key = shape, index, self._state.peers[index][primary]
        stamp = self._state.stamps[index]
        return derived(self._near, key, stamp, lambda: self._ask(instance, primary, index))


class _Answers:
    """What the nodes answered to instances of one shape, and how they were then (stamps)."""

    __slots__ = ("_found", "_stamps")

    def __init__(self, count: int) -> None:
        self._stamps = [UNKNOWN] * count
        self._found: dict[int, Rejection] = {}

    def outdated(self, nodes: Sequence[int], stamps: Sequence[int]) -> list[int]:
        """Those of `nodes` that have changed since they were asked."""
        known = self._stamps
        return [index for index in nodes if known[index] != stamps[index]]

    def note(self, index: int, stamp: int, rejection: Rejection | None) -> None:
        """Node `index`, as it is by `stamp`, has answered."""
        if rejection is None:
            self._found.pop(index, None)
        else:
            self._found[index] = rejection
        self._stamps[index] = stamp

    def rejections(self, nodes: Sequence[int]) -> dict[int, Rejection]:
        """What those of `nodes` said that reject."""
        found = self._found
        return {index: found[index] for index in nodes if index in found}


def _most(one: Sequence[float], other: Sequence[float]) -> tuple[float, ...]:
    """The larger amount of each column, whatever its sign."""
    return tuple(max(a, b, key=abs) for a, b in zip(one, other))


class MoveLimits:
    """What `state`, as it is when asked, has left for moves by `limit_policies`.

    The instance is off the state.  `fixed` holds the capacities of every node; scores, where
    they are asked for, run over `scope`.
    """

    __slots__ = ("_fixed", "_kernel", "_known", "_limit_policies", "_scope", "_state")

    def __init__(
        self,
        state: State,
        fixed: Capacities,
        limit_policies: LimitPolicies,
        scope: Sequence[int] = (),
    ) -> None:
        self._state = state
        self._fixed = fixed
        self._limit_policies = limit_policies
        self._scope = scope
        self._kernel: Kept[None, ScalarKernel] = {}
        self._known: dict[tuple[object, object], KnownAnswers] = {}

    def allow(self, instance: Instance, before: Nodes, after: Nodes) -> bool:
        """Return whether `instance` may move from `before` to `after`, migration tags included."""
        if before[:1] != after[:1] and may_not_receive(self._state.cluster, before[0], after[:1]):
            return False
        primary, mirror = before[:1] != after[:1], before[1:] != after[1:]
        if mirror and not primary:  # the disks are copied from the primary
            source = self._state.cluster.nodes[before[0]]
            if not self._limit_policies.reaches(source):
                return False
        return self._failing(instance, before, after, primary, mirror) is None

    def rejection(
        self, instance: Instance, before: Nodes, after: Nodes, primary: bool, mirror: bool
    ) -> Rejection | None:
        """The first limit that fails on the nodes `after`; `primary`, `mirror`: those are new.

        A mirror that stays keeps memory for the new primary.  `before` is () for an instance
        that is nowhere.
        """
        failing = self._failing(instance, before, after, primary, mirror)
        if failing is None:
            return None
        return _rejection_of(instance, *failing)

    def primary_rejections(
        self, instance: Instance, before: Nodes, nodes: Sequence[int]
    ) -> dict[int, Rejection]:
        """The first limit that fails on each of `nodes` as the primary, where one does.

        What a node said to an instance of the same shape holds until the node changes.
        """
        checks = self._primary_checks(instance, before)
        return self._rejections(instance, PRIMARY, checks, NO_PRIMARY, nodes)

    def mirror_rejections(
        self, instance: Instance, before: Nodes, primary: int, nodes: Sequence[int]
    ) -> dict[int, Rejection]:
        """Return the first limit that fails on each of `nodes` as the secondary beside `primary`.

        Of the primary only what matters to a node that holds mirrors of its other instances.
        """
        found: dict[int, Rejection] = {}
        left = [index for index in nodes if index in before[:1]]
        for several in ([index for index in nodes if index not in left], left):
            if several:
                checks = self._mirror_checks(instance, before, (primary, several[0]))
                found |= self._rejections(instance, SECONDARY, checks, primary, several)
        return found

    def _rejections(
        self,
        instance: Instance,
        role: RoleLimits,
        checks: tuple[Check, ...],
        primary: int,
        nodes: Sequence[int],
    ) -> dict[int, Rejection]:
        """Those of `nodes` that fail one of `checks`, each with the first that it fails.

        Nothing is kept for instances with tags or pools, for which other nodes matter, too.
        """
        known = self._known.get((role, checks))
        if known is None:
            known = self._known[role, checks] = KnownAnswers(self._state, self._asking(checks))
        if (
            instance.exclusion
            or instance.desired
            or instance.requires
            or (instance.pools is not None)
        ):
            ask = self._asking(checks)
            answers = ((index, ask(instance, primary, index)) for index in nodes)
            return {index: answer for index, answer in answers if answer is not None}
        return known.rejections(instance, primary, nodes)

    def _asking(self, checks: tuple[Check, ...]) -> Ask:
        """How a node is asked for a place by `checks`, as it is then."""

        def ask(instance: Instance, primary: int, index: int) -> Rejection | None:
            kernel = self._as_it_is()
            if primary == NO_PRIMARY:
                failing = kernel.failing_primary(instance, index, checks)
            else:
                failing = kernel.failing_secondary(instance, primary, index, checks)
            return None if failing is None else _rejection_of(instance, index, failing)

        return ask

    def _failing(
        self, instance: Instance, before: Nodes, after: Nodes, primary: bool, mirror: bool
    ) -> tuple[int, Failing] | None:
        """The node that fails a limit, and which limit."""
        kernel, found, index = self._as_it_is(), None, after[0]
        if primary:
            checks = self._primary_checks(instance, before)
            found = kernel.failing_primary(instance, index, checks)
        if found is None and len(after) > 1 and (mirror or (primary and before)):
            index = after[1]
            if mirror:
                mirror_checks = self._mirror_checks(instance, before, after)
                found = kernel.failing_secondary(instance, after[0], index, mirror_checks)
            else:
                staying = checks_for(STAYING, instance, self._limit_policy_off(before[0]).secondary)
                found = kernel.failing_mirror(instance, before[0], after[0], index, staying)
        return None if found is None else (index, found)

    def open_to(
        self, instance: Instance, source: int, nodes: Sequence[int], barred: Mapping[int, str]
    ) -> list[int]:
        """Those of `nodes` that may be the only one of `instance`, which was on `source`.

        Best first; none of `barred`.
        """
        rejections = {**barred, **may_not_receive(self._state.cluster, source, nodes)}
        limits = self._limit_policy_off(source).primary
        found = self._as_it_is().singles(instance, nodes, rejections, limits)
        return [index for _, (index,) in found.row(0)]

    def _primary_checks(self, instance: Instance, before: Nodes) -> tuple[Check, ...]:
        """What is tested on the new primary of a move or of a new instance."""
        limit_policy = self._limit_policy_off(before[0]) if before else self._limit_policies.new
        return checks_for(PRIMARY, instance, limit_policy.primary)

    def _mirror_checks(self, instance: Instance, before: Nodes, after: Nodes) -> tuple[Check, ...]:
        """What is tested on the new secondary of a move or of a new instance."""
        if after[1] in before[:1]:
            return self._limit_policies.old_primary_checks(
                instance, self._state.cluster.nodes[after[1]]
            )
        limit_policy = self._limit_policy_off(before[-1]) if before else self._limit_policies.new
        return checks_for(SECONDARY, instance, limit_policy.secondary)

    def _limit_policy_off(self, source: int) -> LimitPolicy:
        return self._limit_policies.off(self._state.cluster.nodes[source])

    def _as_it_is(self) -> ScalarKernel:
        state = self._state
        return derived(
            self._kernel, None, state.version, lambda: ScalarKernel(state, self._scope, self._fixed)
        )


def _rejection_of(instance: Instance, index: int, failing: Failing) -> Rejection:
    """What is said of a limit that fails on node `index`; at once of pools, which change."""
    check, now, then = failing
    text = partial(check.numbers, now, then, instance)
    return Rejection(check.reason, text() if check.access else text, index)
