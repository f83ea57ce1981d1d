"""A transition at its moments: who may meet whom while steps overlap, and who starts too early.

It takes nothing from what put the steps in order: only their numbers, their places and
their waits.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain

from iallocator.model.constraints import ORDER
from iallocator.tags.affinity import bond_between
from iallocator.transition.order_graph import circular
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

__all__ = ["wrong_moments"]


def wrong_moments(
    state: State,
    transition: Transition,
    limits: PlanLimits,
    rounds: int,
    over: Callable[[], bool] = lambda: False,
) -> list[str]:
    """What is wrong at some moment of a transition that begins at `state`; [] if nothing is.

    With as many steps side by side as the waits allow, and in `rounds` random orders; when
    the time is `over`, in no more than one of those.
    """
    from random import Random

    moments = _Moments(state, transition, limits)
    problems = list(moments.walk(_events(transition, None)))
    rng = Random(0)
    for k in range(rounds):
        if k and over():
            break
        problems += moments.walk(_events(transition, rng))
    return list(dict.fromkeys(problems))


def _events(transition: Transition, rng: Random | None) -> Iterator[tuple[int, bool]]:
    """(number of a step, whether it begins): begins and ends in an order that waits allow."""
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


class _Moments:
    """Where everybody may run, from one event to the next."""

    def __init__(self, state: State, transition: Transition, limits: PlanLimits) -> None:
        self._state = state
        self._steps = {step.number: step.action for step in transition.steps}
        self._shares = transition.shares
        self._relations = limits.relations
        movers = {t.name: t.instance for t in self._steps.values() if t.instance is not None}
        idle = {name for name in limits.left_out if name not in movers}
        self._tags = {name: one.exclusion for name, one in movers.items() if one.exclusion}
        self._first = self._homes(movers, idle)
        last = {name: set(homes) for name, homes in self._first.items()}
        for number in sorted(self._steps):
            step = self._steps[number]
            if step.instance is not None:
                last[step.name] = _running(step.after, step.instance)
        self._most = self._counted(self._first) | self._counted(last)
        self._ends = (self._first, last)
        self._leaders = self._musts()

    def _homes(self, movers: Iterable[str], idle: Iterable[str]) -> dict[str, set[int]]:
        """Name -> its primary, of those that move and of those that they must not meet."""
        others = {other.instance for name in movers for _, other, _ in self._apart(name)}
        tags = set(chain.from_iterable(self._tags.values()))
        homes: dict[str, set[int]] = {}
        for index, here in enumerate(self._state.primaries):
            for name, one in here.items():
                asked = name in movers or name in others or not tags.isdisjoint(one.exclusion)
                if asked and name not in idle:
                    homes[name] = {index}
                    self._tags[name] = one.exclusion
        return homes

    def _counted(self, homes: dict[str, set[int]]) -> Counter[tuple[int, str]]:
        """(node, exclusion tag) -> how many with it may be there."""
        return Counter(
            (node, tag)
            for name, nodes in homes.items()
            for node in nodes
            for tag in self._tags.get(name, ())
        )

    def _musts(self) -> dict[str, list[str]]:
        """Name -> those that it must start after, those in circles left out."""
        relations = self._relations
        if relations is None:
            return {}
        starts = {step.name for step in self._steps.values() if self._starts(step)}
        bonds = [b for name in sorted(starts) for b in relations.of(name, ORDER) if b.must]
        orders = [(bond.other, bond.instance, bond.strength) for bond in bonds]
        orders = [order for order in orders if order[0] in starts]
        round_about = {name for circle in circular(orders) for name in circle}
        found: dict[str, list[str]] = {}
        for former, latter, _ in orders:
            if former not in round_about or latter not in round_about:
                found.setdefault(latter, []).append(former)
        return found

    def walk(self, events: Iterable[tuple[int, bool]]) -> Iterator[str]:
        """What is wrong at some moment of the walk."""
        at = {name: set(homes) for name, homes in self._first.items()}
        present = self._counted({n: self._unshared(n, homes) for n, homes in at.items()})
        pending = Counter(step.name for step in self._steps.values() if self._starts(step))
        for number, begins in events:
            step = self._steps[number]
            if step.instance is None:
                continue
            name = step.name
            if begins:
                if self._starts(step):
                    for leader in self._leaders.get(name, ()):
                        if pending[leader]:
                            yield f"step {number}: {name} starts, and must start after {leader}"
                new = _running(step.after, step.instance) - at.get(name, set())
                at[name] = at.get(name, set()) | new
                present.update(self._counted({name: self._unshared(name, new)}))
                for node in new:
                    yield from self._met(number, step, node, at, present)
            else:
                gone = at.get(name, set()) - _running(step.after, step.instance)
                present.subtract(self._counted({name: self._unshared(name, gone)}))
                at[name] = _running(step.after, step.instance)
                pending[name] -= self._starts(step)

    def _starts(self, step: Step) -> bool:
        """Whether the instance does not run before the step, and does after it."""
        if step.after is None or not step.after.running:
            return False
        nodes = self._state.cluster.nodes
        dead = step.before is not None and nodes[step.before.nodes[0]].offline
        return step.kind in (CREATE, START) or (step.kind == FAILOVER and dead)

    def _unshared(self, name: str, nodes: set[int]) -> set[int]:
        """Those of `nodes` on which the instance may not be met."""
        return {node for node in nodes if (name, node) not in self._shares}

    def _met(
        self,
        number: int,
        step: Step,
        node: int,
        at: dict[str, set[int]],
        present: Counter[tuple[int, str]],
    ) -> Iterator[str]:
        """Whom an instance meets that may be on `node` from now on, and must not.

        `present`: how many with an exclusion tag are on a node, those left out who may meet.
        """
        if (step.name, node) in self._shares:  # and whoever meets it there is not asked either
            return
        where = self._state.cluster.nodes[node].name
        for tag in self._tags.get(step.name, ()):
            if present[node, tag] > max(1, self._most[node, tag]):
                told = f"{step.name} meets another with exclusion tag {tag} on {where}"
                yield f"step {number}: {told}"
        for bond in self._apart(step.name):
            other = bond[1].instance
            homes = {home for home in at.get(other, ()) if (other, home) not in self._shares}
            if any(self._breaks(bond, node, home) for home in homes) and not self._always(bond):
                text = bond_between(*bond).text
                yield f"step {number}: {step.name}: must be {text}, and meets it on {where}"

    def _apart(self, name: str) -> Iterable[Pair]:
        return () if self._relations is None else self._relations.apart_musts(name)

    def _breaks(self, bond: Pair, node: int, home: int) -> bool:
        assert self._relations is not None
        return self._relations.domains.zones(bond[2]).share(node, home)

    def _always(self, bond: Pair) -> bool:
        """Whether it does not hold at first, or in the end."""
        return any(
            self._breaks(bond, node, home)
            for ends in self._ends
            for node in ends.get(bond[0].instance, ())
            for home in ends.get(bond[1].instance, ())
        )


def _running(place: Place | None, instance: Instance) -> set[int]:
    """Where an instance may run: nowhere while it is stopped, though it is to run."""
    if place is None or (instance.uses_memory and not place.running):
        return set()
    return {place.nodes[0]}
