"""Compare a state with the initial one: find the failures that are no longer tolerated, or that
lose more.

Cost: one check of each failure that a changed node affects; `PlanGuard` keeps bounds from one move
of a plan to the next.

Source: the rule for instances on offline nodes was developed for this program.
"""

from __future__ import annotations

from math import inf

from iallocator.errors import FEW_NAMES
from iallocator.model.state import derived
from iallocator.n1 import ENTERED, MOVED_WITHIN, ONLY_LEFT, WORK_PER_SECOND
from iallocator.n1.bounds import demand_of
from iallocator.n1.exact import NO_LOSS, OfflineInstances

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Protocol

    from iallocator.model.cluster import Group
    from iallocator.model.state import Kept, State
    from iallocator.n1 import Failure, Growth, Rules
    from iallocator.n1.exact import Loss
    from iallocator.n1.failure_watch import FailureWatch
    from iallocator.n1.simulation import UnrestartedInstance

    class Tolerance(Protocol):
        """The N+1 checks of one state, as far as a comparison needs them."""

        state: State
        rules: Rules

        def failing(self) -> list[Failure]:
            """Return the failures of the online nodes of the group."""

        def tolerated(self, failing: Sequence[Failure]) -> list[Failure]:
            """Return those of `failing` that are tolerated."""

        def not_tolerated(self, failing: Sequence[Failure]) -> list[Failure]:
            """Return those of `failing` that are not tolerated."""

        def first_not_tolerated(self, failing: Sequence[Failure]) -> Failure | None:
            """Return the first of `failing` that is not tolerated, or None."""

        def losses(self, failing: Sequence[Failure]) -> dict[Failure, Loss]:
            """Return the loss of each failure in `failing`."""

        def first_unrestarted(
            self, failure: Failure, failures: int = 1
        ) -> UnrestartedInstance | None:
            """Return the first instance that a simulation of `failure` cannot restart, or None."""

        def renewed(self, watch: FailureWatch | None, failing: Sequence[Failure]) -> FailureWatch:
            """Return `watch`, evaluated again where the state has changed; for None, return a new
            watch.
            """


__all__ = ["Comparison", "InitialFailures", "PassingGuard", "PlanGuard"]

NODE_CHECK_WORK = 5
"""The units of work of examining one node for one failure."""

EXPECTED_SIMULATIONS = 50
"""The approximate number of simulations of one planner, which decides whether arrays pay."""


class InitialFailures:
    """The failures of online nodes of `group`, and their losses, in the initial state.

    `state` must be the initial state when the object is created.

    Attributes
    ----------
    failing:
        The failures that are compared.
    several:
        Whether several nodes were online. Otherwise no node can take over.
    offline:
        The other nodes of the group.
    offline_instances:
        The instances that were on offline nodes of the group.
    stamps:
        `State.stamps` of the initial state.
    tolerated:
        The tolerated failures of `failing`, if several nodes were online; empty if not measured.
    alone:
        The tolerated failures of `failing` if at most one node was online. Such a failure is
        tolerated only if the node has no instance to restart.
    losses:
        Failure -> its loss in the initial state.
    """

    def __init__(self, state: State, failing: list[Failure], group: Group, rules: Rules) -> None:
        nodes = state.cluster.nodes
        online = [index for index in group.nodes if nodes[index].online]
        self.failing = failing
        self.several = len(online) > 1
        self.offline = frozenset(group.nodes).difference(online)
        self.offline_instances = OfflineInstances(state.cluster, group, rules, self.offline)
        self.stamps = list(state.stamps)
        self.tolerated: frozenset[Failure] = frozenset()
        self.alone: frozenset[Failure] = frozenset()
        self.losses: dict[Failure, Loss] = {}

    def loss(self, failure: Failure) -> Loss:
        """Return the loss of `failure` in the initial state."""
        if isinstance(self.losses, InitialLosses):
            return self.losses[failure]
        return self.losses.get(failure, NO_LOSS)

    def allowed_losses(self, back: tuple[int, float]) -> dict[Failure, Loss]:
        """Return for each failure its initial loss, increased by the instances that are `back`.

        `back`: the number of instances that have returned from offline nodes, and their MiB.
        """
        if not back[0]:
            return self.losses
        return {one: loss.with_more(*back) for one, loss in self.losses.items()}

    def growths(
        self, losses: Mapping[Failure, Loss], back: tuple[int, float]
    ) -> dict[Failure, Growth]:
        """Return for each failure how much its loss in `losses` exceeds its initial loss, as
        `Growth`.

        `back`: the number of instances that have returned from offline nodes, and their MiB.
        """
        if isinstance(self.losses, InitialLosses):
            self.losses.measure(losses)
        count, memory = back
        growths: dict[Failure, Growth] = {}
        for failure, loss in losses.items():
            before = self.loss(failure)
            more = loss.instances - before.instances_least
            mib = loss.memory - before.memory_least
            growths[failure] = (
                max(0, more - count), max(0, mib - memory), max(0, more), max(0, mib)
            )  # fmt: skip
        return growths


class InitialLosses(dict["Failure", "Loss"]):
    """Failure -> its loss in the initial state, computed by `measured` when it is first read."""

    def __init__(self, measured: Callable[[Sequence[Failure]], dict[Failure, Loss]]) -> None:
        super().__init__()
        self._measured = measured

    def __missing__(self, failure: Failure) -> Loss:
        self.measure((failure,))
        return self[failure]

    def measure(self, failing: Iterable[Failure]) -> None:
        """Compute the losses of all `failing` at once; an undecided failure counts as no loss."""
        new = [one for one in failing if one not in self]
        if new:
            self.update(dict.fromkeys(new, NO_LOSS) | self._measured(new))


class Comparison:
    """A present state compared with the initial state, by the failures of the nodes of a group.

    Parameters
    ----------
    failures:
        The N+1 checks of the present state.
    initial:
        The failures of the initial state.
    limit:
        The work, in the unit of `Deadline.used`, at which searches for smaller losses end.
    """

    def __init__(self, failures: Tolerance, initial: InitialFailures, limit: float) -> None:
        self._failures = failures
        self.initial = initial
        self._limit = limit
        self._exempt: frozenset[Failure] = frozenset()
        self._lost_now: Kept[None, dict[Failure, Loss]] = {}

    @classmethod
    def begun(cls, failures: Tolerance, group: Group, now: bool) -> Comparison:
        """Return a comparison with the present state, which is the initial one.

        Parameters
        ----------
        failures:
            The N+1 checks of the state.
        group:
            The group with the failures.
        now:
            Whether the losses are measured now. Otherwise they are measured when they are first
            needed; the state must not change until then.
        """
        rules, failing = failures.rules, failures.failing()
        initial = InitialFailures(failures.state, failing, group, rules)
        begun = cls(failures, initial, rules.effort.used + WORK_PER_SECOND)
        if not now:
            initial.losses = InitialLosses(begun._lost_by)
            return begun
        if rules.mode == "off":
            return begun
        if rules.exact:
            initial.losses = failures.losses(failing)
            lost = [one for one in failing if initial.loss(one).instances]
        else:
            lost = failures.not_tolerated(failing)
        tolerated = frozenset(failing).difference(lost)
        if initial.several:
            initial.tolerated = tolerated
        else:
            initial.alone = tolerated
        return begun

    def of(self, failures: Tolerance) -> Comparison:
        """Return a comparison of the state of `failures` with the initial state of this object."""
        return Comparison(failures, self.initial, self._limit)

    def required(self, change: int) -> list[Failure]:
        """Return the failures of online nodes that must be tolerated after this `change`.

        They are the failures that were tolerated initially; with ``strict``, all failures, unless
        instances only leave the group. A group with one online node must tolerate its failure only
        if instances come from outside. `exempt` can take failures out for moves within the group.

        `change`: `ONLY_LEFT`, `MOVED_WITHIN` or `ENTERED`, the effect of a plan on the group.
        """
        failing, first = self._failures.failing(), self.initial
        if self._failures.rules.requires_all and change != ONLY_LEFT:
            exempt = () if change == ENTERED else self._exempt
            return [one for one in failing if one not in exempt]
        tolerated = first.tolerated | first.alone if change == ENTERED else first.tolerated
        return [one for one in failing if one in tolerated]

    def exempt(self) -> frozenset[Failure]:
        """Exempt, with ``strict``, the failures that no move within the group can make tolerated.

        The state must hold only the instances that stay. Return the exempt failures: those that are
        not tolerated now, or all if no other node is online.
        """
        failing = self._failures.failing() if self._failures.rules.requires_all else []
        tolerated = self._failures.tolerated(failing) if self.initial.several else ()
        self._exempt = frozenset(failing).difference(tolerated)
        return self._exempt

    def allowed_losses(self) -> list[tuple[Failure, Loss]]:
        """Return the failures of online nodes that lost something initially, with these losses.

        Only ``no-worse`` compares losses; in other modes the list is empty.
        """
        first = self.initial
        if not self._failures.rules.exact or not first.several:
            return []
        failing = self._failures.failing()
        return [(one, loss) for one in failing if (loss := first.loss(one)).instances]

    def worse(self) -> list[Failure]:
        """Return the failures of online nodes that lost something initially, and lose more now.

        Only ``no-worse`` compares losses; in other modes the list is empty. A failure that is
        undecided when the work is spent counts as one that loses more.
        """
        first = self.initial
        if not self._failures.rules.exact or not first.several:
            return []
        changed = self._changed()
        lost = [
            one
            for one in self._failures.failing()
            if first.loss(one).instances and self._concerned(one, changed)
        ]
        if not lost:
            return []
        growths = first.growths(self._failures.losses(lost), (0, 0))
        return [one for one in lost if one not in growths or any(growths[one][2:])]

    def broken(self, change: int = MOVED_WITHIN, rescues: bool = False) -> list[Failure]:
        """Return the failures that must be tolerated and are not, or that lose more than initially.

        `change`: `ONLY_LEFT`, `MOVED_WITHIN` or `ENTERED`, the effect of a plan on the group. With
        `rescues` and ``no-worse``, the instances that return from offline nodes count as lost in
        every failure of the initial state. Failures that are undecided when the work is spent are
        included.
        """
        broken = self._failures.not_tolerated(self.required(change)) + self.worse()
        if not (rescues and self._failures.rules.exact and broken):
            return broken
        back = self.initial.offline_instances.back(self._failures.state)
        if not back[0]:
            return broken
        growths = self.initial.growths(self._failures.losses(broken), back)
        return [one for one in broken if one not in growths or any(growths[one][:2])]

    def first_broken(self) -> Failure | None:
        """Return the first failure that loses more or is not tolerated as required, or None."""
        failing = self.required(MOVED_WITHIN)
        broken = self._failures.first_not_tolerated(failing) if failing else None
        return next(iter(self.worse()), None) if broken is None else broken

    def certainly_broken(self) -> bool:
        """Return whether exact search proves that a required failure is lost, or that one loses
        more.

        A simulation alone proves nothing: if instances restart in another order, the failure may be
        tolerated.
        """
        losses = self._failures.losses(self.required(MOVED_WITHIN))
        if any(loss.instances_least > 0 for loss in losses.values()):
            return True
        worse = self._failures.losses(self.worse())
        return any(
            loss.instances_least > self.initial.loss(one).instances
            or loss.memory_least > self.initial.loss(one).memory
            for one, loss in worse.items()
        )

    def problem(self) -> str:
        """Describe the first failure that is broken, and an instance that it loses; "" if there is
        none.
        """
        failure = self.first_broken()
        if failure is None:
            return ""
        name = " and ".join(self._failures.state.cluster.node_names(failure))
        if self.initial.loss(failure).instances:
            return f"more instances or memory could not be restarted if {name} failed"
        lost = self._failures.first_unrestarted(failure, EXPECTED_SIMULATIONS)
        text = f"the failure of {name} would not be tolerated"
        return f"{text}: {lost.instance.name} cannot be restarted, {lost.why}" if lost else text

    def still_offline(self) -> int:
        """Return the number of instances on nodes that are offline both now and initially.

        The number is 0 in other modes than ``no-worse``, where it has no effect.
        """
        if not self._failures.rules.exact:
            return 0
        nodes = self._failures.state.cluster.nodes
        offline = (i for i in self.initial.offline if not nodes[i].online)
        return sum(len(self._failures.state.primaries[i]) for i in offline)

    def guard(self, rescues: bool = False) -> PlanGuard:
        """Return an object that checks N+1 after each move of a plan.

        `rescues`: whether the instances that return from offline nodes count as lost in every
        failure of the initial state.
        """
        return PlanGuard(self._failures, self, rescues)

    def passing_guard(self) -> PassingGuard:
        """Return an object that checks each state between the moves of a plan by ``no-worse``."""
        return PassingGuard(self._failures, self)

    # The growth of losses

    def spent(self, share: float = 1) -> bool:
        """Return whether the fraction `share` (0 to 1) of the work for comparisons is done, or the
        time is up.
        """
        effort = self._failures.rules.effort
        return effort.spent or effort.used > self._limit - (1 - share) * WORK_PER_SECOND

    def growth(self, back: tuple[int, float] | None = None) -> Growth:
        """Return the total loss of all failures beyond their losses in the initial state.

        `back`: the number of instances that have returned from offline nodes, and their MiB; None:
        as in the present state.
        """
        total = [0.0] * 4
        for growth in self._grown(back).values():
            total = [sum(pair) for pair in zip(total, growth)]
        return total[0], total[1], total[2], total[3]

    def describe_growth(self) -> str:
        """Describe the failures that lose more than initially; "" if there are none."""
        names = self._failures.state.cluster.node_names
        worse = [(one, more) for one, more in self._grown(None).items() if any(more[:2])]
        texts: list[str] = []
        for failure, (count, memory, *_) in worse[:FEW_NAMES]:
            amount = f"{count:g} more, {memory:g} MiB" if count else f"{memory:g} MiB more"
            if inf in (count, memory):
                amount = "how much was not found"
            texts.append(f"{' and '.join(names(failure))} ({amount})")
        if len(worse) > FEW_NAMES:
            texts.append(f"one of {len(worse) - FEW_NAMES} others")
        return f"more than before cannot be restarted if {', '.join(texts)} fails" if texts else ""

    def _grown(self, back: tuple[int, float] | None) -> dict[Failure, Growth]:
        """Return the growth of each failure that is not tolerated now."""
        state, first = self._failures.state, self.initial

        def compute() -> dict[Failure, Loss]:
            changed = self._changed()
            return self._lost_by([one for one in first.failing if self._concerned(one, changed)])

        lost = derived(self._lost_now, None, state.version, compute)
        return first.growths(lost, first.offline_instances.back(state) if back is None else back)

    def _changed(self) -> set[int]:
        """Return the nodes that have changed since the initial state."""
        stamps = self._failures.state.stamps
        return {i for i, stamp in enumerate(self.initial.stamps) if stamps[i] != stamp}

    def _concerned(self, failure: Failure, changed: set[int]) -> bool:
        """Return whether changes of the nodes `changed` can change the loss of `failure`."""
        if not changed.isdisjoint(failure):
            return True
        demand = demand_of(self._failures.state, failure, self._failures.rules)
        return bool(demand.movers or demand.intricate or not changed.isdisjoint(demand.failovers))

    def _lost_by(self, failing: Sequence[Failure]) -> dict[Failure, Loss]:
        """Return the losses of those of `failing` that are not tolerated."""
        losses = self._failures.losses(failing)
        lost = {one: loss for one, loss in losses.items() if loss.instances}
        self._failures.rules.effort.used += NODE_CHECK_WORK * len(failing) * (1 + len(lost))
        return lost


class PlanGuard:
    """Checks each move of a plan: every failure that was tolerated initially must stay tolerated.

    `rescues`: whether the instances that return from offline nodes count as lost in every failure
    of the initial state.
    """

    def __init__(self, failures: Tolerance, comparison: Comparison, rescues: bool) -> None:
        self._failures = failures
        self._comparison = comparison
        self._rescues = rescues
        self._kept = set(comparison.initial.tolerated)  # the failures that must stay tolerated
        self._watch: FailureWatch | None = None
        self._suspect: Failure | None = None  # the failure that was found not tolerated last

    def keeps(self) -> bool:
        """Return whether every failure that was tolerated before is still tolerated.

        "Before" is the initial state; with ``strict``, also the state after any earlier move.
        """
        if self._rescues:
            return not self._comparison.broken(rescues=True)
        failing = sorted(self._kept)
        self._watch = watch = self._failures.renewed(self._watch, failing)
        if watch.lost:
            return False
        uncertain = [one for one in failing if one in watch.uncertain]
        suspect = [one for one in uncertain if one == self._suspect]
        others = [one for one in uncertain if one != self._suspect]
        for part in suspect, others:
            broken = self._failures.first_not_tolerated(part) if part else None
            if broken is not None:
                self._suspect = broken
                return False
        return not self._comparison.worse()

    def required(self) -> list[Failure]:
        """Return failures that must be tolerated after the next move; there may be others."""
        if not self._rescues:
            return sorted(self._kept)
        return [] if self._failures.rules.exact else self._comparison.required(MOVED_WITHIN)

    def moved(self) -> None:
        """Record the failures that are tolerated in the present state, after a move of the plan."""
        if self._failures.rules.requires_all:
            rest = [one for one in self._failures.failing() if one not in self._kept]
            self._kept |= set(rest).difference(self._failures.not_tolerated(rest))


class PassingGuard:
    """Checks each state of a plan: no failure may lose more instances than initially.

    This is checked in every ``--n1`` mode. Instances that return from offline nodes count as lost
    in every failure of the initial state. `failures` has the rules of ``no-worse``.

    Cost: one check by `PlanGuard`; if it finds a broken failure, also the search for the losses.
    """

    def __init__(self, failures: Tolerance, comparison: Comparison) -> None:
        self._comparison = comparison
        self._all = PlanGuard(failures, comparison, rescues=False)

    def keeps(self) -> bool:
        """Return whether no failure loses more instances than initially."""
        return self._all.keeps() or not self._comparison.growth()[0]

    def required(self) -> list[Failure]:
        """Return an empty list: the failures that must be tolerated are not known."""
        return []

    def moved(self) -> None:
        """Record the present state, after a move of the plan."""
        self._all.moved()
