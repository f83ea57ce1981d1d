"""Who must not be where another is: a transition waits for that as it waits for room.

A node has room for one of those with a common exclusion tag, a node or a failure domain
for one of two that must be apart.  Whoever runs there, or may run there while one of its
steps is under way, has that room; what is stopped for a while has none.
"""

from __future__ import annotations

from iallocator.transition.requirements import itself

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.transition.requirements import Demands
    from iallocator.transition.resources import Amounts, Key, Place
    from iallocator.transition.step import Step

    Wanted = Mapping[str, tuple[int, ...] | None]

__all__ = ["Separations"]

MANY = 20_000
"""Of more rooms than this only those where somebody begins or ends are looked at."""


class Separations:
    """What those in `wanted` need for themselves on their way, in a transition from `state`.

    Parameters
    ----------
    state
        Where everybody is at first.
    wanted
        Name -> its nodes in the end, primary first; None: stopped.  The others stay.
    demands
        Says who must be apart; exclusion tags are known without it.
    new
        Those that are created.

    Where more of them share a node in the end, because soft limits were not asked or what they
    must do was broken before, there is room for as many.

    Attributes
    ----------
    room:
        What is free at first, as `iallocator.transition.resources.room` says it of amounts.
    shares:
        (instance, index of a node): who meets others there for a while, see `yield_to`.
    """

    def __init__(
        self,
        state: State,
        wanted: Wanted,
        demands: Demands | None = None,
        new: Iterable[Instance] = (),
    ) -> None:
        self._state = state
        self._sites_of = demands.sites if demands is not None else itself
        known = {one.name: one for here in state.primaries for one in here.values()}
        known |= {one.name: one for one in new}
        self._wishes = _wishes(known, wanted, () if demands is None else demands.apart(wanted))
        self.shares: frozenset[tuple[str, int]] = frozenset()
        self._first: dict[tuple[str, str], int] = {}
        for domain in {
            domain for wishes in self._wishes.values() for _, domain in wishes if domain
        }:
            for node in range(len(state.cluster.nodes)):
                list(self._keys("", domain, node))
        first: Amounts = {}
        last: Amounts = {}
        for name in self._wishes:
            instance, present = known[name], state.where.get(name)
            goes = wanted.get(name, present)
            if present is not None and not (goes is None and not instance.uses_memory):
                _add(first, self._of(name, present[0]))
            if goes is not None:
                _add(last, self._of(name, goes[0]))
        keys = {*first, *last}
        every = {wish for wishes in self._wishes.values() for wish in wishes}
        nodes = range(len(state.cluster.nodes))
        if len(every) * len(nodes) <= MANY:  # for ways round
            keys.update(
                key for what, domain in every for n in nodes for key in self._keys(what, domain, n)
            )
        self.room: Amounts = {
            key: max(1, last.get(key, 0)) - first.get(key, 0) for key in sorted(keys)
        }

    def held(self, instance: Instance, place: Place | None) -> Amounts:
        """The rooms that `instance` has for itself at `place`."""
        if place is None or instance.name not in self._wishes:
            return {}
        if instance.uses_memory and not place.running:
            return {}
        return dict.fromkeys(self._of(instance.name, place.nodes[0]), 1)

    def charge(self, steps: Iterable[Step]) -> None:
        """Let `steps`, which do not know of it yet, take and give back what they need of it."""
        if not self._wishes:
            return
        for step in steps:
            if step.instance is not None:
                before = self.held(step.instance, step.before)
                after = self.held(step.instance, step.after)
                step.takes |= {key: 1 for key in after if key not in before}
                step.frees |= {key: 1 for key in before if key not in after}

    def yield_to(self, sequence: Sequence[Step]) -> list[str]:
        """Have those ask for no room who would find none in `sequence`; what for, in words.

        Others made that sequence. Who asks for none where is kept in `shares`: off dead nodes,
        among those that move as one, and on their way limits let two of them meet for a while.
        All others wait for each other as before.
        """
        left, told = dict(self.room), []
        guests: set[tuple[str, Key]] = set()
        shares: set[tuple[str, int]] = set()
        for step in sequence:
            for key in [key for key in step.takes if key in left]:
                if left[key] > 0:
                    left[key] -= 1
                    continue
                del step.takes[key]
                guests.add((step.name, key))
                assert step.after is not None
                home = step.after.nodes[0]
                shares.add((step.name, home))
                node = self._state.cluster.nodes[key[0]].name
                told.append(f"{step.name} shares {node} for a while: {key[1]}")
            for key in [key for key in step.frees if key in left]:
                if (step.name, key) in guests:
                    guests.remove((step.name, key))
                    del step.frees[key]
                else:
                    left[key] += 1
        self.shares |= shares
        return told

    def _of(self, name: str, node: int) -> list[Key]:
        return [
            key for what, domain in self._wishes[name] for key in self._keys(what, domain, node)
        ]

    def _keys(self, what: str, domain: str, node: int) -> Iterator[Key]:
        """The rooms of `node`: its own, or those of its failure domains, at their first node."""
        if not domain:
            yield node, what
            return
        for site in self._sites_of(node, domain):
            yield self._first.setdefault((domain, site), node), f"{what} in {site}"


def _wishes(
    known: Mapping[str, Instance], wanted: Wanted, apart: Iterable[tuple[str, str, str]]
) -> dict[str, list[tuple[str, str]]]:
    """Name -> (what it needs for itself, domain), for who moves and whom they must not meet."""
    found: dict[str, list[tuple[str, str]]] = {}
    movers = [known[name] for name in wanted if name in known]
    tags = {tag for mover in movers for tag in mover.exclusion}
    for name, instance in known.items() if tags else ():
        for tag in instance.exclusion:
            if tag in tags:
                found.setdefault(name, []).append((f"exclusion tag {tag}", ""))
    for one, other, domain in apart:
        if one in known and other in known:
            wish = (f"{one} and {other} apart", domain)
            found.setdefault(one, []).append(wish)
            found.setdefault(other, []).append(wish)
    return found


def _add(amounts: Amounts, keys: Iterable[Key]) -> None:
    for key in keys:
        amounts[key] = amounts.get(key, 0) + 1
