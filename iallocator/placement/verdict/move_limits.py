"""The limits of nodes, and migration tags, for one instance that comes to other nodes.

Verdicts are made of this, and planners ask it that have evaluators for no group: their
nodes may be about to be powered down, or their moves in the middle of a way.
"""

from __future__ import annotations

from functools import partial

from iallocator.limits.migration import may_not_receive
from iallocator.limits.node import PRIMARY, SECONDARY, STAYING, checks_for
from iallocator.limits.rejection import Rejection
from iallocator.placement.verdict.known_answers import NO_PRIMARY, KnownAnswers
from iallocator.scoring.scalar import ScalarKernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.limits.node import Check, RoleLimits
    from iallocator.model.instance import Instance
    from iallocator.model.node_view import Capacities
    from iallocator.model.state import State
    from iallocator.placement.motions import Motion, Motions
    from iallocator.placement.verdict.known_answers import Ask
    from iallocator.scoring.scalar import Failing


__all__ = ["MoveLimits"]


class MoveLimits:
    """What `state`, as it is when asked, has left for moves by `motions`.

    The instance is off the state.  `fixed` holds the capacities of every node; scores, where
    they are asked for, run over `scope`.
    """

    __slots__ = ("_fixed", "_kernel", "_known", "_motions", "_scope", "_state", "_version")

    def __init__(
        self, state: State, fixed: Capacities, motions: Motions, scope: Sequence[int] = ()
    ) -> None:
        self._state = state
        self._fixed = fixed
        self._motions = motions
        self._scope = scope
        self._version = -1
        self._kernel: ScalarKernel | None = None
        self._known: dict[tuple[object, object], KnownAnswers] = {}

    def allow(self, instance: Instance, before: Nodes, after: Nodes) -> bool:
        """Whether `instance` may come from `before` to `after`, migration tags included."""
        if before[:1] != after[:1] and may_not_receive(self._state.cluster, before[0], after[:1]):
            return False
        if self._copies_from_offline(before, after):
            return False
        changed = before[:1] != after[:1], before[1:] != after[1:]
        return self._failing(instance, before, after, *changed) is None

    def _copies_from_offline(self, before: Nodes, after: Nodes) -> bool:
        """Whether only the mirror is new, and the primary is not there to copy it from."""
        if before[:1] != after[:1] or before[1:] == after[1:]:
            return False
        return not self._motions.reaches(self._state.cluster.nodes[before[0]])

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
        """The same for each of `nodes` as the secondary of one whose primary is `primary`.

        Of the primary only what matters to a node that holds mirrors of its other instances.
        """
        found: dict[int, Rejection] = {}
        left = [index for index in nodes if index in before[:1]]
        for several in ([index for index in nodes if index not in left], left):
            if several:
                found |= self._mirrors_of_one_motion(instance, before, primary, several)
        return found

    def _mirrors_of_one_motion(
        self, instance: Instance, before: Nodes, primary: int, nodes: Sequence[int]
    ) -> dict[int, Rejection]:
        checks = self._mirror_checks(instance, before, (primary, nodes[0]))
        return self._rejections(instance, SECONDARY, checks, primary, nodes)

    def _rejections(
        self,
        instance: Instance,
        role: RoleLimits,
        checks: tuple[Check, ...],
        primary: int,
        nodes: Sequence[int],
    ) -> dict[int, Rejection]:
        """Those of `nodes` that fail one of `checks`, each with the first that it fails.

        Nothing is kept for those to whom other nodes, or their own tags, matter too.
        """
        known = self._known.get((role, checks))
        if known is None:
            known = self._known[role, checks] = KnownAnswers(self._state, self._asking(checks))
        if instance.exclusion or instance.desired or instance.pools is not None:
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
                staying = checks_for(STAYING, instance, self._motion_off(before[0]).secondary)
                found = kernel.failing_mirror(instance, before[0], after[0], index, staying)
        return None if found is None else (index, found)

    def open_to(
        self, instance: Instance, source: int, nodes: Sequence[int], barred: Mapping[int, str]
    ) -> list[int]:
        """Those of `nodes` that may be the only one of `instance`, which was on `source`.

        Best first; none of `barred`.
        """
        rejections = {**barred, **may_not_receive(self._state.cluster, source, nodes)}
        limits = self._motion_off(source).primary
        found = self._as_it_is().singles(instance, nodes, rejections, limits)
        return [index for _, (index,) in found.row(0)]

    def _primary_checks(self, instance: Instance, before: Nodes) -> tuple[Check, ...]:
        """What is tested on the new primary of a move or of a new instance."""
        motion = self._motion_off(before[0]) if before else self._motions.new
        return checks_for(PRIMARY, instance, motion.primary)

    def _mirror_checks(self, instance: Instance, before: Nodes, after: Nodes) -> tuple[Check, ...]:
        """What is tested on the new secondary of a move or of a new instance."""
        if after[1] in before[:1]:
            return self._motions.old_primary_checks(instance, self._state.cluster.nodes[after[1]])
        motion = self._motion_off(before[-1]) if before else self._motions.new
        return checks_for(SECONDARY, instance, motion.secondary)

    def _motion_off(self, source: int) -> Motion:
        return self._motions.off(self._state.cluster.nodes[source])

    def _as_it_is(self) -> ScalarKernel:
        version = self._state.version
        if self._kernel is None or (self._scope and version != self._version):
            self._kernel = ScalarKernel(self._state, self._scope, self._fixed)
        elif version != self._version:
            self._kernel.look_again()
        self._version = version
        return self._kernel


def _rejection_of(instance: Instance, index: int, failing: Failing) -> Rejection:
    """What is said of a limit that fails on node `index`; at once of pools, which change."""
    check, now, then = failing
    text = partial(check.numbers, now, then, instance)
    return Rejection(check.reason, text() if check.pools else text, index)
