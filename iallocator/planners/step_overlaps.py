"""Check a transition while its steps overlap: meetings of instances, and starts that are too early.

The check depends on nothing that ordered the steps. It reads only their numbers, their places and
their dependencies.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain

from iallocator.constraints.order_graph import circular
from iallocator.model.constraints import ORDER
from iallocator.tags.affinity import bond_between
from iallocator.transition.step import CREATE, FAILOVER, START

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from random import Random

    from iallocator.constraints.rule_violations import Pair
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.planners.plan_limits import PlanLimits
    from iallocator.transition.resources import Place
    from iallocator.transition.step import Step
    from iallocator.transition.transition import Transition

__all__ = ["overlap_problems"]


def overlap_problems(
    state: State,
    transition: Transition,
    limits: PlanLimits,
    rounds: int,
    over: Callable[[], bool] = lambda: False,
) -> list[str]:
    """Return what is wrong at any time of a transition that begins at `state`; [] for nothing.

    The transition is simulated with as many steps at a time as the dependencies allow, and then in
    `rounds` random orders. Once `over` returns True, at most one random order is simulated.
    """
    from random import Random

    overlaps = _Overlaps(state, transition, limits)
    problems = list(overlaps.simulate(_events(transition, None)))
    rng = Random(0)
    for k in range(rounds):
        if k and over():
            break
        problems += overlaps.simulate(_events(transition, rng))
    return list(dict.fromkeys(problems))


def _events(transition: Transition, rng: Random | None) -> Iterator[tuple[int, bool]]:
    """Yield begins and ends of steps in an order that the dependencies allow.

    An event is the number of a step, and True for its begin or False for its end.
    """
    waiting = {step.number: len(step.after) for step in transition.steps}
    followers: dict[int, list[int]] = {number: [] for number in waiting}
    for step in transition.steps:
        for number in step.after:
            followers[number].append(step.number)
    ready = [number for number, count in waiting.items() if not count]
    running: list[int] = []
    while ready or running:
        k = rng.randrange(len(ready) + len(running)) if rng else 0
        begins = k < len(ready)
        chosen = ready.pop(k) if begins else running.pop(k - len(ready))
        yield chosen, begins
        if begins:
            running.append(chosen)
            continue
        for number in followers[chosen]:
            waiting[number] -= 1
            if not waiting[number]:
                ready.append(number)


class _Overlaps:
    """The nodes on which each instance of a transition may run, from one event to the next."""

    def __init__(self, state: State, transition: Transition, limits: PlanLimits) -> None:
        self._state = state
        self._steps = {step.number: step.action for step in transition.steps}
        self._shares = transition.shares
        self._relations = limits.relations
        movers = {t.name: t.instance for t in self._steps.values() if t.instance is not None}
        idle = {name for name in limits.left_out if name not in movers}
        # primary nodes at first: of the moving instances, and of those that they must not meet
        self._tags = {name: one.exclusion for name, one in movers.items() if one.exclusion}
        others = {other.instance for name in movers for _, other, _ in self._separations(name)}
        tags = set(chain.from_iterable(self._tags.values()))
        self._first: dict[str, set[int]] = {}
        for index, here in enumerate(state.primaries):
            for name, one in here.items():
                relevant = name in movers or name in others or not tags.isdisjoint(one.exclusion)
                if relevant and name not in idle:
                    self._first[name] = {index}
                    self._tags[name] = one.exclusion
        last = {name: set(homes) for name, homes in self._first.items()}
        for number in sorted(self._steps):
            step = self._steps[number]
            if step.instance is not None:
                last[step.name] = _running(step.after, step.instance)
        self._most = self._tag_counts(self._first) | self._tag_counts(last)
        self._ends = (self._first, last)
        self._predecessors = self._start_order()

    def _tag_counts(self, homes: dict[str, set[int]]) -> Counter[tuple[int, str]]:
        """Return (node, exclusion tag) -> how many instances with the tag may be there."""
        return Counter(
            (node, tag)
            for name, nodes in homes.items()
            for node in nodes
            for tag in self._tags.get(name, ())
        )

    def _start_order(self) -> dict[str, list[str]]:
        """Return name -> the instances after which it must start, without circular orders."""
        relations = self._relations
        if relations is None:
            return {}
        starts = {step.name for step in self._steps.values() if self._starts(step)}
        rules = [rule for name in sorted(starts) for rule in relations.of(name, ORDER) if rule.must]
        orders = [(rule.other, rule.instance, rule.strength) for rule in rules]
        orders = [order for order in orders if order[0] in starts]
        in_circles = {name for circle in circular(orders) for name in circle}
        predecessors: dict[str, list[str]] = {}
        for former, latter, _ in orders:
            if former not in in_circles or latter not in in_circles:
                predecessors.setdefault(latter, []).append(former)
        return predecessors

    def simulate(self, events: Iterable[tuple[int, bool]]) -> Iterator[str]:
        """Yield what is wrong at any time between the `events`."""
        at = {name: set(homes) for name, homes in self._first.items()}
        present = self._tag_counts({n: self._unshared(n, homes) for n, homes in at.items()})
        pending = Counter(step.name for step in self._steps.values() if self._starts(step))
        for number, begins in events:
            step = self._steps[number]
            if step.instance is None:
                continue
            name = step.name
            if begins:
                if self._starts(step):
                    for former in self._predecessors.get(name, ()):
                        if pending[former]:
                            yield f"step {number}: {name} starts, and must start after {former}"
                new = _running(step.after, step.instance) - at.get(name, set())
                at[name] = at.get(name, set()) | new
                present.update(self._tag_counts({name: self._unshared(name, new)}))
                for node in new:
                    yield from self._meetings(number, step, node, at, present)
            else:
                gone = at.get(name, set()) - _running(step.after, step.instance)
                present.subtract(self._tag_counts({name: self._unshared(name, gone)}))
                at[name] = _running(step.after, step.instance)
                pending[name] -= self._starts(step)

    def _starts(self, step: Step) -> bool:
        """Return whether the instance runs after the step, but not before it."""
        if step.after is None or not step.after.running:
            return False
        nodes = self._state.cluster.nodes
        dead = step.before is not None and nodes[step.before.nodes[0]].offline
        return step.kind in (CREATE, START) or (step.kind == FAILOVER and dead)

    def _unshared(self, name: str, nodes: set[int]) -> set[int]:
        """Return those of `nodes` on which other instances must not meet the instance."""
        return {node for node in nodes if (name, node) not in self._shares}

    def _meetings(
        self,
        number: int,
        step: Step,
        node: int,
        at: dict[str, set[int]],
        present: Counter[tuple[int, str]],
    ) -> Iterator[str]:
        """Yield the forbidden meetings of an instance that may run on `node` from now on.

        `present` counts the instances with an exclusion tag on a node, without those that the
        transition permits to meet others there.
        """
        if (step.name, node) in self._shares:  # then no meeting with it is forbidden there
            return
        where = self._state.cluster.nodes[node].name
        for tag in self._tags.get(step.name, ()):
            if present[node, tag] > max(1, self._most[node, tag]):
                text = f"{step.name} meets another with exclusion tag {tag} on {where}"
                yield f"step {number}: {text}"
        for pair in self._separations(step.name):
            other = pair[1].instance
            homes = {home for home in at.get(other, ()) if (other, home) not in self._shares}
            if not any(self._violates(pair, node, home) for home in homes):
                continue
            violated_at_an_end = any(
                self._violates(pair, one, home)
                for ends in self._ends
                for one in ends.get(pair[0].instance, ())
                for home in ends.get(other, ())
            )
            if not violated_at_an_end:
                text = bond_between(*pair).text
                yield f"step {number}: {step.name}: must be {text}, and meets it on {where}"

    def _separations(self, name: str) -> Iterable[Pair]:
        """Return the hard anti-affinity constraints of an instance."""
        return () if self._relations is None else self._relations.apart_musts(name)

    def _violates(self, pair: Pair, node: int, home: int) -> bool:
        """Return whether the nodes of two separated instances share their failure domain."""
        assert self._relations is not None
        return self._relations.domains.zones(pair[2]).share(node, home)


def _running(place: Place | None, instance: Instance) -> set[int]:
    """Return the node on which an instance may run; none while it is stopped for a step."""
    if place is None or (instance.uses_memory and not place.running):
        return set()
    return {place.nodes[0]}
