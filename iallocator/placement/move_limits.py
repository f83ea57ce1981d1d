"""Check the limits of nodes, and migration tags, for one instance that moves to other nodes.

`iallocator.placement.move_check` uses this module. Planners use it without an evaluator if nodes
will be powered down, or if they check a single step of a move.
"""

from __future__ import annotations

from iallocator.constraints.table import move_rejections
from iallocator.limits.node import PRIMARY, SECONDARY, STAYING, checks_for, without_reserve
from iallocator.limits.rejection import Rejection
from iallocator.model.instance import Backend, Disks, Instance
from iallocator.model.state import derived
from iallocator.scoring.scalar import ScalarKernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.constraints.checks import Check
    from iallocator.limits.node import RoleLimits
    from iallocator.model.node_view import Capacities
    from iallocator.model.state import Kept, State
    from iallocator.placement.limit_policy import LimitPolicies, LimitPolicy
    from iallocator.scoring.scalar import Failing

    Ask = Callable[[Instance, int, int], Rejection | None]
    """(instance, its primary, node) -> the limit that fails there, if one does."""


__all__ = ["MoveLimits"]

NO_PRIMARY = -1
"""A value of `primary` for an instance that needs a primary."""

NO_STAMP = -1
"""A number that is not the stamp of any state of a node."""


class KnownAnswers:
    """Results of one set of checks on the nodes of `state`, for instances without tags and pools.

    If a node accepts an instance, it accepts every smaller instance. So a node is first tested for
    an instance with the largest amount, of each resource, of all instances so far. If the node
    accepts this instance, it accepts each of them. Otherwise the node is tested once for each shape
    of an instance and, as a secondary, for each amount that it already reserves for the primary.
    """

    __slots__ = ("_answers", "_ask", "_full", "_most", "_reserving", "_roomy", "_state")

    def __init__(self, state: State, ask: Ask) -> None:
        self._state = state
        self._ask = ask
        self._most: Instance | None = None
        # The stamp of each node when it accepted, or rejected, the instance `_most`
        self._roomy = [NO_STAMP] * len(state.stamps)
        self._full = [NO_STAMP] * len(state.stamps)
        # Shape -> for each node that reserves nothing for the primary, its stamp and its result
        self._answers: dict[object, tuple[list[int], list[Rejection | None]]] = {}
        self._reserving: Kept[tuple[object, int, float], Rejection | None] = {}

    def rejections(
        self, instance: Instance, primary: int, nodes: Sequence[int]
    ) -> dict[int, Rejection]:
        """Return node -> the first limit that it fails; nodes that pass all limits are left out."""
        shape = instance.shape
        stamps, peers, roomy, full = self._state.stamps, self._state.peers, self._roomy, self._full
        if shape not in self._answers:
            self._answers[shape] = [NO_STAMP] * len(stamps), [None] * len(stamps)
            before = self._most or instance
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
            self._roomy = roomy = [NO_STAMP] * len(stamps)
            self._full = full = [NO_STAMP] * len(stamps)
        assert self._most is not None
        left = [index for index in nodes if roomy[index] != stamps[index]]
        for index in [index for index in left if full[index] != stamps[index]]:
            worst = primary
            if primary != NO_PRIMARY and peers[index]:
                worst = max(peers[index], key=peers[index].__getitem__)
            known = roomy if self._ask(self._most, worst, index) is None else full
            known[index] = stamps[index]
        left = [index for index in left if full[index] == stamps[index]]
        seen, answers = self._answers[shape]
        reserving = [] if primary == NO_PRIMARY else [i for i in left if primary in peers[i]]
        near = {
            index: derived(
                self._reserving,
                (shape, index, peers[index][primary]),
                stamps[index],
                lambda index=index: self._ask(instance, primary, index),  # type: ignore[misc]
            )
            for index in reserving
        }
        for index in [i for i in left if seen[i] != stamps[i] and i not in near]:
            answers[index] = self._ask(instance, primary, index)
            seen[index] = stamps[index]
        rejections = {i: near[i] if i in near else answers[i] for i in left} if near else answers
        return {i: rejection for i in left if (rejection := rejections[i]) is not None}


def _most(one: Sequence[float], other: Sequence[float]) -> tuple[float, ...]:
    """Return for each column the larger of two amounts by absolute value."""
    return tuple(max(a, b, key=abs) for a, b in zip(one, other))


class MoveLimits:
    """Checks of the limits of nodes on the present `state`, for moves by `limit_policies`.

    The instance is not placed.  `fixed` holds the capacities of every node; scores, if they are
    needed, include the nodes of `scope`.
    """

    __slots__ = ("_fixed", "_known", "_limit_policies", "_made", "_scope", "_state")

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
        self._made: ScalarKernel | None = None
        self._known: dict[tuple[object, object], KnownAnswers] = {}

    def allow(self, instance: Instance, before: Nodes, after: Nodes) -> bool:
        """Return whether `instance` may move from `before` to `after`, migration tags included."""
        if before[:1] != after[:1] and move_rejections(self._state.cluster, before[0], after[:1]):
            return False
        primary, secondary = before[:1] != after[:1], before[1:] != after[1:]
        if secondary and not primary:  # the disks are copied from the primary
            source = self._state.cluster.nodes[before[0]]
            if not self._limit_policies.reaches(source):
                return False
        return self._failing(instance, before, after, primary, secondary) is None

    def rejection(
        self, instance: Instance, before: Nodes, after: Nodes, primary: bool, secondary: bool
    ) -> Rejection | None:
        """Return the first limit that `instance` would violate on `after`, or None.

        `primary`, `secondary`: whether this role is new. A secondary that stays reserves memory for
        the new primary. `before`: the nodes before; () for an instance that is not placed.
        """
        failing = self._failing(instance, before, after, primary, secondary)
        if failing is None:
            return None
        return _rejection_of(instance, *failing)

    def primary_rejections(
        self, instance: Instance, before: Nodes, nodes: Sequence[int]
    ) -> dict[int, Rejection]:
        """Return node -> the first limit that rejects it as the primary node of `instance`.

        Nodes that no limit rejects are left out. Results are cached for instances of equal shape
        until a node changes.
        """
        checks = self._primary_checks(instance, before)
        return self._rejections(instance, PRIMARY, checks, NO_PRIMARY, nodes)

    def secondary_rejections(
        self, instance: Instance, before: Nodes, primary: int, nodes: Sequence[int]
    ) -> dict[int, Rejection]:
        """Return node -> the first limit that rejects it as the secondary beside `primary`.

        Nodes that no limit rejects are left out. The result depends on `primary` only for nodes
        that are secondaries of its other instances.
        """
        rejections: dict[int, Rejection] = {}
        left = [index for index in nodes if index in before[:1]]
        for several in ([index for index in nodes if index not in left], left):
            if several:
                checks = self._secondary_checks(instance, before, (primary, several[0]))
                rejections |= self._rejections(instance, SECONDARY, checks, primary, several)
        return rejections

    def _rejections(
        self,
        instance: Instance,
        role: RoleLimits,
        checks: tuple[Check, ...],
        primary: int,
        nodes: Sequence[int],
    ) -> dict[int, Rejection]:
        """Return node -> the first of `checks` that it fails; nodes that pass are left out.

        Nothing is cached for instances with tags or pools, because other nodes affect the result.
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
        """Return a function that tests `checks` on a node, in the state at the time of its call."""

        def ask(instance: Instance, primary: int, index: int) -> Rejection | None:
            kernel = self._kernel
            if primary == NO_PRIMARY:
                failing = kernel.failing_primary(instance, index, checks)
            else:
                failing = kernel.failing_secondary(instance, primary, index, checks)
            return None if failing is None else _rejection_of(instance, index, failing)

        return ask

    def _failing(
        self, instance: Instance, before: Nodes, after: Nodes, primary: bool, secondary: bool
    ) -> tuple[int, Failing] | None:
        """Return the first node of `after` that fails a limit, with the limit; or None."""
        kernel, failing, index = self._kernel, None, after[0]
        if primary:
            checks = self._primary_checks(instance, before)
            if index in before:
                checks = without_reserve(checks, self._state.cluster.nodes[index])
            failing = kernel.failing_primary(instance, index, checks)
        if failing is None and len(after) > 1 and (secondary or (primary and before)):
            index = after[1]
            if secondary:
                secondary_checks = self._secondary_checks(instance, before, after)
                if index in before:
                    node = self._state.cluster.nodes[index]
                    secondary_checks = without_reserve(secondary_checks, node)
                failing = kernel.failing_secondary(instance, after[0], index, secondary_checks)
            else:
                staying = checks_for(STAYING, instance, self._limit_policy_off(before[0]).secondary)
                failing = kernel.failing_under_new_primary(
                    instance, before[0], after[0], index, staying
                )
        return None if failing is None else (index, failing)

    def open_to(
        self, instance: Instance, source: int, nodes: Sequence[int], barred: Mapping[int, str]
    ) -> list[int]:
        """Return those of `nodes` that may be the only node of `instance`, lowest score first.

        The instance was on `source`, and is not placed now. `barred`: node -> why it is excluded.
        """
        rejections = {**barred, **move_rejections(self._state.cluster, source, nodes)}
        limits = self._limit_policy_off(source).primary
        kernel = self._kernel
        kernel.follow()
        candidates = kernel.singles(instance, nodes, rejections, limits)
        return [index for _, (index,) in candidates.row(0)]

    def _primary_checks(self, instance: Instance, before: Nodes) -> tuple[Check, ...]:
        """Return the checks of the new primary of a move or of a new instance."""
        limit_policy = self._limit_policy_off(before[0]) if before else self._limit_policies.new
        return checks_for(PRIMARY, instance, limit_policy.primary)

    def _secondary_checks(
        self, instance: Instance, before: Nodes, after: Nodes
    ) -> tuple[Check, ...]:
        """Return the checks of the new secondary of a move or of a new instance."""
        if after[1] in before[:1]:
            return self._limit_policies.old_primary_checks(
                instance, self._state.cluster.nodes[after[1]]
            )
        if not before:
            return checks_for(SECONDARY, instance, self._limit_policies.new.secondary)
        limit_policy = self._limit_policy_off(before[-1])
        if before[0] != after[0] and not limit_policy.secondary.spares:
            limit_policy = self._limit_policy_off(before[0])  # the move is forced by either node
        return checks_for(SECONDARY, instance, limit_policy.secondary)

    def _limit_policy_off(self, source: int) -> LimitPolicy:
        return self._limit_policies.off(self._state.cluster.nodes[source])

    @property
    def _kernel(self) -> ScalarKernel:
        """Return the kernel of the present state; it is made when it is first needed."""
        if self._made is None:
            self._made = ScalarKernel(self._state, self._scope, self._fixed)
        return self._made


def _rejection_of(instance: Instance, index: int, failing: Failing) -> Rejection:
    """Return the rejection for the limit in `failing`, which node `index` fails.

    Texts about storage pools are made at once, because the free space of pools changes.
    """
    check, now, then = failing

    def text() -> str:
        return check.numbers(now, then, instance)

    return Rejection(check.reason, text() if check.access else text, index)
