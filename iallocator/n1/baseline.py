"""Global N+1 compared with an initial state: which failures are not tolerated any more, or worse.

A plan, and a request under ``no-worse`` that moves instances, must not make a failure of its groups
worse than at its beginning.  A `Baseline` measures the failures of one group at the beginning, and
compares later states with them.

In the simulation of a failure only online nodes take over, in every mode, because a plan is about
the state after its last step.

Cost: that of `iallocator.n1.tolerance` for each failure that may have changed.
"""

from __future__ import annotations

from iallocator.model.state import derived
from iallocator.n1.bounds import demand_of
from iallocator.n1.exact import NO_LOSS
from iallocator.n1.rules import Rules
from iallocator.n1.simulation import Simulation
from iallocator.n1.tolerance import FailureCache, FailureTolerance, FailureWatch
from iallocator.scoring import Kernels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import Protocol

    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import Kept, State
    from iallocator.n1.bounds import Demands
    from iallocator.n1.exact import Loss

    Growth = tuple[float, float, float, float]
    """Instances and MiB that a failure loses in addition; and the same if instances that return
    from offline nodes do not count as lost in the initial state."""

    class Colocation(Protocol):
        """The affinity constraints."""

        def units(self) -> Mapping[str, Sequence[str]]:
            """Return, for each instance of a colocation group, the names of all its members."""


__all__ = [
    "CAME",
    "LEFT",
    "MOVED",
    "NO_GROWTH",
    "Baseline",
    "Growth",
    "MoveGuard",
    "OfflineInstances",
    "plan_rules",
]

LEFT, MOVED, CAME = range(3)
"""What a plan does to a group: instances only leave it; instances move within it; instances come
from another group, or are created."""

LENIENT = ("no-new", "no-worse")
"""The modes in which only online nodes take over; in a plan, ``strict`` uses the first of them."""

NO_GROWTH: Growth = (0.0, 0.0, 0.0, 0.0)

SHOWN = 3
"""Failures that a message names."""

WORK = 1_000_000
"""The work of all searches of one baseline for less loss: about a second."""

LOOK = 5
"""The work of looking at one node for one failure."""

SIMULATIONS = 50
"""About so many simulations one planner asks for: with more of them, arrays pay sooner."""


def plan_rules(mode: str, relations: Colocation | None = None) -> Rules:
    """Return the rules for plans, by which the members of a colocation group restart together."""
    mode = mode if mode in LENIENT else LENIENT[0]
    return Rules(mode, None if relations is None else relations.units())


class Baseline:
    """The failures of the nodes of `group` in the initial state, and how they change.

    The modes ask for this at the end of a plan:

    * ``no-worse``: the failures that were tolerated are tolerated, and no other failure loses more.
    * ``no-new``: the failures of online nodes that were tolerated are tolerated.  If only one node
      is online, so that no node can take over, this is required only if instances come from
      outside.
    * ``strict``: all failures of the nodes that are online in the end are tolerated.  If instances
      only leave the group, ``no-new`` is enough.
    * ``off``: nothing.

    Nodes that a plan powers off or on count as they are when a method is called.

    Parameters
    ----------
    state:
        The initial state. It is measured at once; with `lazy`, when a failure is first needed, and
        it must not change until then.
    relations:
        The affinity constraints, for `plan_rules`.
    rules:
        The rules of failures; None: `plan_rules`, with the nodes that are online when asked.
    kernels, scope:
        As for `FailureTolerance`; None: those of the group alone.

    Attributes
    ----------
    tolerated:
        The online nodes that could fail initially: the failure was tolerated. Empty with `lazy`.
    offline_instances:
        The instances that were on offline nodes of the group initially.
    """

    def __init__(
        self,
        state: State,
        group: Group,
        mode: str,
        relations: Colocation | None = None,
        rules: Rules | None = None,
        kernels: Kernels | None = None,
        scope: Sequence[int] | None = None,
        lazy: bool = False,
    ) -> None:
        self.group = group
        self._mode = mode
        self._relations = relations
        self._rules = rules
        self._kernels = kernels
        self._scope = group.nodes if scope is None else scope
        self._cached: tuple[State, FailureCache] = state, FailureCache()
        self._stamps = list(state.stamps)
        self._lost_now: Kept[None, dict[int, Loss]] = {}
        effort = self.rules.effort
        self._limit = effort.used + WORK
        self._failing = self.online(state)
        self._offline = frozenset(group.nodes).difference(self._failing)
        self.offline_instances = OfflineInstances(state.cluster, group, self.rules, self._offline)
        self.tolerated: frozenset[int] = frozenset()
        self._alone: frozenset[int] = frozenset()
        self._losses: dict[int, Loss] = {}
        if lazy:
            self._losses = _InitialLosses(self.tolerance(state), self._lost)
        if mode == "off" or lazy:
            return
        if self.exact:
            self._losses = self.tolerance(state).losses(self._failing)
            lost = [index for index in self._failing if self._initial(index).instances]
        else:
            lost = self.not_tolerated(state, self._failing)
        tolerated = frozenset(self._failing).difference(lost)
        if len(self._failing) > 1:
            self.tolerated = tolerated
        else:
            self._alone = tolerated

    @property
    def rules(self) -> Rules:
        """The rules of failures."""
        return self._rules or plan_rules(self._mode, self._relations)

    @property
    def exact(self) -> bool:
        """Return whether losses are compared by exact search: ``no-worse``."""
        return self._mode == "no-worse"

    @property
    def strict(self) -> bool:
        """Return whether the failures of all nodes must be tolerated."""
        return self._mode == "strict"

    @property
    def failures(self) -> int:
        """How many nodes could fail in the initial state."""
        return len(self._failing)

    def online(self, state: State) -> list[int]:
        """Return the nodes of the group that are online."""
        nodes = state.cluster.nodes
        return [index for index in self.group.nodes if nodes[index].online]

    def tolerance(
        self,
        state: State,
        before: dict[int, bool] | None = None,
        losses: dict[int, Loss] | None = None,
        make: type[FailureTolerance] = FailureTolerance,
    ) -> FailureTolerance:
        """Return the N+1 of `state`; `before` and `losses` are as for `FailureTolerance`."""
        if self._cached[0] is not state:
            self._cached = state, FailureCache()
        cache, scope = self._cached[1], self._scope
        kernels = self._kernels or Kernels(state, [(len(scope), 0)], 0.0, scope)
        return make(state, kernels, self.rules, scope, None, cache, before, losses)

    def not_tolerated(self, state: State, failing: Sequence[int]) -> list[int]:
        """Return those failures, named by their nodes, that `state` does not tolerate."""
        return self.tolerance(state).not_tolerated(failing) if failing else []

    def allowed_losses(self, back: tuple[int, float]) -> dict[int, Loss]:
        """Return the initial losses, and with them the instances that are `back`.

        `back`: see `OfflineInstances.back`.
        """
        if not back[0]:
            return self._losses
        return {index: loss.with_more(*back) for index, loss in self._losses.items()}

    def _initial(self, index: int) -> Loss:
        """Return what the failure of a node lost in the initial state."""
        if isinstance(self._losses, _InitialLosses):
            return self._losses[index]
        return self._losses.get(index, NO_LOSS)

    # The check of a state

    def broken(self, state: State, change: int = MOVED, rescues: bool = False) -> list[int]:
        """Return the failures that `state` should tolerate and does not, or that lose more.

        `change`: what the plan did to the group. With `rescues` and ``no-worse``, the instances
        that return from offline nodes count as lost in every failure of the initial state.
        """
        if self.strict and change != LEFT:
            return self.not_tolerated(state, self.online(state))
        broken = self.not_tolerated(state, self.required(state, change)) + self.worse(state)
        if not (rescues and self.exact and broken):
            return broken
        back = self.offline_instances.back(state)
        if not back[0]:
            return broken
        growths = self._compare(self.tolerance(state).losses(broken), back)
        return [index for index in broken if any(growths[index][:2])]

    def first_broken(self, state: State) -> int | None:
        """Return the first node of `broken`, or None."""
        failing = self.online(state) if self.strict else self.required(state, MOVED)
        if failing:
            node = self.tolerance(state).first_not_tolerated(failing)
            if node is not None:
                return node
        return next(iter(self.worse(state)), None)

    def problem(self, state: State) -> str:
        """Describe the first of `broken`, and an instance that cannot be restarted; or ""."""
        node = self.first_broken(state)
        if node is None:
            return ""
        name = state.cluster.nodes[node].name
        if self._initial(node).instances:
            return f"more would be lost if {name} failed"
        simulation = Simulation.of_group(state, self.group, self.rules, failures=SIMULATIONS)
        lost = simulation.fail(node)
        text = f"the failure of {name} would not be survived"
        return f"{text}: {lost.instance.name} is lost, {lost.why}" if lost else text

    def still_offline(self, state: State) -> int:
        """Return how many instances are on nodes that are offline now and initially.

        Always 0 in other modes than ``no-worse``, where it has no effect.
        """
        if not self.exact:
            return 0
        nodes = state.cluster.nodes
        return sum(len(state.primaries[i]) for i in self._offline if not nodes[i].online)

    def required(self, state: State, change: int) -> list[int]:
        """Return the failures of online nodes that were tolerated initially."""
        tolerated = self.tolerated | self._alone if change == CAME else self.tolerated
        return [index for index in self.online(state) if index in tolerated]

    def worse(self, state: State) -> list[int]:
        """Return the failures of online nodes that lost something initially, and lose more now."""
        if not self.exact or len(self._failing) < 2:
            return []
        lost = [index for index in self.online(state) if self._initial(index).instances]
        if not lost:
            return []
        growths = self._compare(self.tolerance(state).losses(lost), (0, 0))
        return [index for index in lost if any(growths[index][2:])]

    # The growth of losses

    def moving(
        self, state: State, make: type[FailureTolerance] = FailureTolerance
    ) -> FailureTolerance:
        """Return the N+1 of `state` that compares moves with the initial losses."""
        return self.tolerance(state, losses=self._losses, make=make)

    def spent(self, share: float = 1) -> bool:
        """Return whether that share of the work is done, or the time is up."""
        effort = self.rules.effort
        return effort.spent or effort.used > self._limit - (1 - share) * WORK

    def growth(self, state: State, back: tuple[int, float] | None = None) -> Growth:
        """Return the sum of what all failures lose in addition in `state`.

        `back`: the instances that return from offline nodes, see `OfflineInstances.back`.
        """
        total = [0.0] * 4
        for growth in self._grown(state, back).values():
            total = [sum(pair) for pair in zip(total, growth)]
        return total[0], total[1], total[2], total[3]

    def describe_growth(self, state: State) -> str:
        """Describe the failures that lose more in `state`; "" if there are none."""
        nodes = state.cluster.nodes
        worse = [(index, more) for index, more in self._grown(state).items() if any(more[:2])]
        texts = [f"{nodes[index].name} ({_amount(*more[:2])})" for index, more in worse[:SHOWN]]
        if len(worse) > SHOWN:
            texts.append(f"one of {len(worse) - SHOWN} others")
        return f"more than before is lost if {', '.join(texts)} fails" if texts else ""

    def _grown(self, state: State, back: tuple[int, float] | None = None) -> dict[int, Growth]:
        """Return the growth of each failure that is not tolerated in `state`."""

        def compute() -> dict[int, Loss]:
            changed = {i for i, stamp in enumerate(self._stamps) if state.stamps[i] != stamp}
            failing = [i for i in self._failing if self._concerned(state, i, changed)]
            return self._lost(self.tolerance(state), failing)

        lost = derived(self._lost_now, None, state.version, compute)
        return self._compare(lost, self.offline_instances.back(state) if back is None else back)

    def _concerned(self, state: State, index: int, changed: set[int]) -> bool:
        """Return whether the `changed` nodes can change what the failure of a node loses."""
        if index in changed:
            return True
        demand = demand_of(state, index, self.rules)
        return bool(demand.movers or demand.intricate or not changed.isdisjoint(demand.failovers))

    def _lost(self, tolerance: FailureTolerance, failing: Sequence[int]) -> dict[int, Loss]:
        """Return what those of `failing` lose that are not tolerated."""
        losses = tolerance.losses(failing)
        lost = {index: loss for index, loss in losses.items() if loss.instances}
        self.rules.effort.used += LOOK * len(failing) * (1 + len(lost))
        return lost

    def _compare(self, losses: Mapping[int, Loss], back: tuple[int, float]) -> dict[int, Growth]:
        """Return how much more `losses` are than initially; see `Growth`."""
        if isinstance(self._losses, _InitialLosses):
            self._losses.measure(losses)
        count, memory = back
        growths: dict[int, Growth] = {}
        for index, loss in losses.items():
            before = self._initial(index)
            more = loss.instances - before.instances_least
            mib = loss.memory - before.memory_least
            growths[index] = (
                max(0, more - count), max(0, mib - memory), max(0, more), max(0, mib)
            )  # fmt: skip
        return growths


def _amount(count: float, memory: float) -> str:
    if count == float("inf") or memory == float("inf"):
        return "how much was not found"
    return f"{count:g} more, {memory:g} MiB" if count else f"{memory:g} MiB more"


class _InitialLosses(dict[int, "Loss"]):
    """Node -> what its failure loses in the initial state, measured when it is first needed."""

    def __init__(
        self,
        tolerance: FailureTolerance,
        lost: Callable[[FailureTolerance, Sequence[int]], dict[int, Loss]],
    ) -> None:
        super().__init__()
        self._tolerance = tolerance
        self._lost = lost

    def __missing__(self, node: int) -> Loss:
        self.measure((node,))
        return self[node]

    def measure(self, nodes: Iterable[int]) -> None:
        """Measure all of `nodes` at once; an undecided failure counts as one without a loss."""
        new = [node for node in nodes if node not in self]
        if new:
            self.update(dict.fromkeys(new, NO_LOSS) | self._lost(self._tolerance, new))


class OfflineInstances:
    """The instances of `group` that were on one of its nodes `offline` in the initial state.

    Every failure of the initial state loses them as well, because they do not run.  So bringing
    them back increases no loss, even if they could not be restarted once more.
    """

    __slots__ = ("_group", "_instances", "_rules")

    def __init__(
        self, cluster: Cluster, group: Group, rules: Rules, offline: Collection[int]
    ) -> None:
        self._group = group
        self._rules = rules
        instances = cluster.instances if offline else ()
        self._instances = [one for one in instances if one.nodes and one.nodes[0] in offline]

    def back(self, state: State, coming: Instance | None = None) -> tuple[int, float]:
        """Return how many of them run on an online node of the group, and their MiB of memory.

        `coming` counts as one that does. A colocation group counts as one.
        """
        back = [one for one in self._instances if one is coming or self._is_back(state, one)]
        items = {one.name if one.needs_secondary else self._unit(one) for one in back}
        return len(items), sum(one.memory for one in back if one.uses_memory)

    def _unit(self, instance: Instance) -> str:
        """Return the first name in the colocation group of `instance`."""
        return min(self._rules.units.get(instance.name) or (instance.name,))

    def _is_back(self, state: State, instance: Instance) -> bool:
        nodes, now = state.cluster.nodes, state.where.get(instance.name, ())
        return bool(now) and nodes[now[0]].online and nodes[now[0]].group is self._group


class MoveGuard:
    """Checks after each move of a plan on `state` that no required failure is broken.

    A failure is required if it was tolerated initially; with ``strict``, also if a move has made it
    tolerated.  What failures demand is kept from one move to the next.  `rescues`: as for
    `Baseline.broken`.
    """

    __slots__ = ("_baseline", "_demands", "_required", "_rescues", "_state", "_suspect", "_watch")

    def __init__(self, baseline: Baseline, state: State, rescues: bool = False) -> None:
        self._baseline = baseline
        self._state = state
        self._rescues = rescues
        self._required = set(baseline.tolerated)
        self._suspect = -1  # the failure that broke N+1 last
        self._demands: Demands = {}
        self._watch: FailureWatch | None = None

    def keeps(self) -> bool:
        """Return whether N+1 holds in the present state."""
        state, baseline = self._state, self._baseline
        if self._rescues:
            return not baseline.broken(state, rescues=True)
        rules = baseline.rules
        failing = sorted(self._required)
        if self._watch is None or not self._watch.catch_up(state, rules, failing, self._demands):
            self._watch = FailureWatch(state, rules, failing, self._demands)
        if self._watch.lost:
            return False
        suspect = [index for index in failing if index == self._suspect]
        others = [index for index in failing if index != self._suspect]
        for part in suspect, others:
            uncertain = [index for index in part if index in self._watch.uncertain]
            if not uncertain:
                continue
            broken = baseline.tolerance(state).first_not_tolerated(uncertain)
            if broken is not None:
                self._suspect = broken
                return False
        return not baseline.worse(state)

    def moved(self) -> None:
        """Continue from the present state, after a move of the plan."""
        if self._baseline.strict:
            rest = [i for i in self._baseline.online(self._state) if i not in self._required]
            broken = self._baseline.not_tolerated(self._state, rest)
            self._required |= set(rest).difference(broken)
