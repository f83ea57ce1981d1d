"""How much more failures lose than as the cluster was read: what ``no-worse`` asks of moves.

Who is on a node that is not online is lost already: every failure of the group loses that one,
too, as things are.  So to bring it back grows no loss, even where it cannot be saved again.
"""

from __future__ import annotations

from iallocator.n1.bounds import demand_of
from iallocator.n1.exact import NO_LOSS, Loss
from iallocator.n1.tolerance import FailureTolerance, N1Cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.rules import Rules
    from iallocator.scoring import Kernels

    Grown = tuple[float, float, float, float]
    """Instances and MiB lost more, summed over the failures; the same where those that are
    brought back do not count as lost at first."""

__all__ = ["NOTHING", "Down", "Growth"]

NOTHING: Grown = (0.0, 0.0, 0.0, 0.0)

SHOWN = 3
"""Failures that are named."""

WORK = 1_000_000
"""What searches may spend in all to find out what places lose: about a second."""

LOOK = 5
"""What it costs to look at one node for one failure."""


class Growth:
    """Compares the failures of `group` with what they lose on `first`, which is as read."""

    __slots__ = (
        "_cache", "_down", "_failing", "_group", "_kernels", "_last", "_limit", "_losses",
        "_rules", "_stamps",
    )  # fmt: skip

    def __init__(self, first: State, kernels: Kernels, group: Group, rules: Rules) -> None:
        self._kernels = kernels
        self._group = group
        self._rules = rules
        self._failing = [index for index in group.nodes if first.cluster.nodes[index].online]
        dead = frozenset(group.nodes).difference(self._failing)
        self._down = Down(first.cluster, group, rules, dead)
        self._limit = rules.effort.used + WORK
        self._stamps = list(first.stamps)
        self._cache = N1Cache()
        self._last: tuple[int, dict[int, Loss]] = -1, {}
        self._losses = _Losses(self._check(first), self._lost)

    @property
    def failures(self) -> int:
        """How many nodes may fail."""
        return len(self._failing)

    def _check(self, state: State) -> FailureTolerance:
        return FailureTolerance(state, self._kernels, self._rules, self._group.nodes)

    def _lost(self, check: FailureTolerance, failing: Sequence[int]) -> dict[int, Loss]:
        """What those of `failing` lose, on the state of `check`, that are not survived."""
        found = check.losses(failing)
        lost = {index: loss for index, loss in found.items() if loss.instances}
        self._rules.effort.used += LOOK * len(failing) * (1 + len(lost))
        return lost

    def _lost_otherwise(self, state: State) -> dict[int, Loss]:
        """The same of the failures that may lose something else on `state` than at first."""
        version, found = self._last
        if version != state.version:
            other = {i for i, stamp in enumerate(self._stamps) if state.stamps[i] != stamp}
            failing = [i for i in self._failing if self._concerned(state, i, other)]
            found = self._lost(self._check(state), failing)
            self._losses.look_at(found)
            self._last = state.version, found
        return found

    def _concerned(self, state: State, index: int, other: set[int]) -> bool:
        """Whether the failure of a node asks something of those that are `other` than at first."""
        if index in other:
            return True
        demand = demand_of(state, index, self._rules)
        return bool(demand.movers or demand.intricate or not other.isdisjoint(demand.failovers))

    def rescued(self, state: State) -> tuple[int, float]:
        """Whom `state` brings back from nodes that are not online; see `Down.back`."""
        return self._down.back(state)

    def spent(self, share: float = 1) -> bool:
        """Whether that share of the work is done, or time is up."""
        effort = self._rules.effort
        return effort.spent or effort.used > self._limit - (1 - share) * WORK

    def judge(
        self,
        state: State,
        instance: Instance,
        present: Nodes,
        make: type[FailureTolerance] = FailureTolerance,
    ) -> FailureTolerance:
        """What accepts a place for `instance` if no failure loses more than at first.

        It was on `present`, and is off `state`.
        """
        leaving, cache, losses = (instance, present), self._cache, self._losses
        scope = self._group.nodes
        return make(state, self._kernels, self._rules, scope, leaving, cache, None, losses)

    def of(self, state: State, back: tuple[int, float] | None = None) -> Grown:
        """By how much `state` loses more; `back`: whom it brings back, see `Growth.rescued`."""
        found = [0.0] * 4
        for more in self._more(state, back).values():
            found = [sum(pair) for pair in zip(found, more)]
        return found[0], found[1], found[2], found[3]

    def _more(self, state: State, back: tuple[int, float] | None = None) -> dict[int, Grown]:
        """The same for each failure that is not survived on `state`."""
        count, memory = back or self.rescued(state)
        found: dict[int, Grown] = {}
        for index, loss in self._lost_otherwise(state).items():
            before = self._losses[index]
            more = loss.instances - before.instances_least
            mib = loss.memory - before.memory_least
            found[index] = max(0, more - count), max(0, mib - memory), max(0, more), max(0, mib)
        return found

    def told(self, state: State) -> str:
        """Which failures lose more on `state`, for people; "" where none does."""
        nodes = state.cluster.nodes
        worst = [(index, more) for index, more in self._more(state).items() if any(more[:2])]
        texts = [f"{nodes[index].name} ({_amount(*more[:2])})" for index, more in worst[:SHOWN]]
        if len(worst) > SHOWN:
            texts.append(f"one of {len(worst) - SHOWN} others")
        return f"more than before is lost if {', '.join(texts)} fails" if texts else ""


def _amount(count: float, memory: float) -> str:
    if count == float("inf") or memory == float("inf"):
        return "how much was not found"
    return f"{count:g} more, {memory:g} MiB" if count else f"{memory:g} MiB more"


class _Losses(dict[int, "Loss"]):
    """Node -> what its failure lost at first, found out by `lost` as soon as somebody asks."""

    def __init__(
        self,
        check: FailureTolerance,
        lost: Callable[[FailureTolerance, Sequence[int]], dict[int, Loss]],
    ) -> None:
        super().__init__()
        self._check = check
        self._lost = lost

    def __missing__(self, node: int) -> Loss:
        self.look_at((node,))
        return self[node]

    def look_at(self, nodes: Iterable[int]) -> None:
        """Find out about all of `nodes` at once; who is not known to lose something does not."""
        new = [node for node in nodes if node not in self]
        self.update(dict.fromkeys(new, NO_LOSS) | self._lost(self._check, new))


class Down:
    """Those of `group` that were on one of its nodes `dead` when the cluster was read."""

    __slots__ = ("_group", "_instances", "_rules")

    def __init__(self, cluster: Cluster, group: Group, rules: Rules, dead: Collection[int]) -> None:
        self._group = group
        self._rules = rules
        self._instances = [
            one for one in (cluster.instances if dead else ()) if one.nodes and one.nodes[0] in dead
        ]

    def back(self, state: State, coming: Instance | None = None) -> tuple[int, float]:
        """Who of them is on an online node of the group, or is `coming` to one.

        How many, those that must be together once, and their MiB of memory.
        """
        back = [one for one in self._instances if one is coming or self._is_back(state, one)]
        items = {one.name if one.needs_secondary else self._unit(one) for one in back}
        return len(items), sum(one.memory for one in back if one.uses_memory)

    def _unit(self, instance: Instance) -> str:
        """The first of those that must be together with `instance`."""
        return min(self._rules.units.get(instance.name) or (instance.name,))

    def _is_back(self, state: State, instance: Instance) -> bool:
        nodes, now = state.cluster.nodes, state.where.get(instance.name, ())
        return bool(now) and nodes[now[0]].online and nodes[now[0]].group is self._group
