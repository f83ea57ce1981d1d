"""Represent separations as amounts, so that an instance waits for another one as for memory.

A node has one unit for each exclusion tag. A node or failure domain has one unit for each pair of
instances that must be separate. An instance holds its units where it runs, or may run while one of
its steps is executed. An instance that is stopped temporarily holds none.
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

MANY_UNITS = 20_000
"""The number of units above which only those held before or after the transition are considered."""


class Separations:
    """The units that the instances in `wanted` hold during a transition from `state`.

    Parameters
    ----------
    state
        The initial state.
    wanted
        Name of an instance -> its nodes at the end, primary first; None: it is stopped. Other
        instances stay.
    demands
        Has the instances that must be separate. Exclusion tags are read from the instances.
    new
        The instances that are created.

    If instances that must be separate share a node at the end (a limit is not enforced, or a hard
    constraint was violated before), there is a unit for each of them.

    Attributes
    ----------
    room:
        (index of a node, text) -> the units that are free before the transition.
    shares:
        (instance, index of a node) for instances that `allow_meetings` lets share a node
        temporarily.
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
        self._needs = _needs(known, wanted, () if demands is None else demands.apart(wanted))
        self.shares: frozenset[tuple[str, int]] = frozenset()
        self._first: dict[tuple[str, str], int] = {}
        for domain in {domain for needs in self._needs.values() for _, domain in needs if domain}:
            for node in range(len(state.cluster.nodes)):
                list(self._keys("", domain, node))
        first: Amounts = {}
        last: Amounts = {}
        for name in self._needs:
            instance, present = known[name], state.where.get(name)
            goes = wanted.get(name, present)
            if present is not None and not (goes is None and not instance.uses_memory):
                _add(first, self._of(name, present[0]))
            if goes is not None:
                _add(last, self._of(name, goes[0]))
        keys = {*first, *last}
        every = {need for needs in self._needs.values() for need in needs}
        nodes = range(len(state.cluster.nodes))
        if len(every) * len(nodes) <= MANY_UNITS:  # for temporary moves
            keys.update(
                key for what, domain in every for n in nodes for key in self._keys(what, domain, n)
            )
        self.room: Amounts = {
            key: max(1, last.get(key, 0)) - first.get(key, 0) for key in sorted(keys)
        }

    def held(self, instance: Instance, place: Place | None) -> Amounts:
        """Return the units of separations that `instance` holds at `place`: (node, text) -> 1.

        Two instances that must be separate need the only unit for their pair, or for their tag.
        """
        if place is None or instance.name not in self._needs:
            return {}
        if instance.uses_memory and not place.running:
            return {}
        return dict.fromkeys(self._of(instance.name, place.nodes[0]), 1)

    def charge(self, steps: Iterable[Step]) -> None:
        """Add to each of `steps` the units of separations that the step takes and frees."""
        if not self._needs:
            return
        for step in steps:
            if step.instance is not None:
                before = self.held(step.instance, step.before)
                after = self.held(step.instance, step.after)
                step.takes |= {key: 1 for key in after if key not in before}
                step.frees |= {key: 1 for key in before if key not in after}

    def allow_meetings(self, sequence: Sequence[Step]) -> list[str]:
        """Let instances meet where `sequence` requires it; return a remark for each meeting.

        Other code has verified the sequence. In it, instances may meet temporarily if they leave an
        offline node, move as one group, or if the constraint allows it during moves. Such meetings
        are recorded in `shares`. The dependencies of all other steps are not changed.
        """
        left, remarks = dict(self.room), []
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
                remarks.append(f"{step.name} shares {node} for a while: {key[1]}")
            for key in [key for key in step.frees if key in left]:
                if (step.name, key) in guests:
                    guests.remove((step.name, key))
                    del step.frees[key]
                else:
                    left[key] += 1
        self.shares |= shares
        return remarks

    def _of(self, name: str, node: int) -> list[Key]:
        return [key for what, domain in self._needs[name] for key in self._keys(what, domain, node)]

    def _keys(self, what: str, domain: str, node: int) -> Iterator[Key]:
        """Yield (node, text) for the exclusive right to have `what` on a node or in its domains.

        If `domain` is not "", each failure domain of that kind to which `node` belongs has one
        right. The right is listed at the node of the failure domain that was seen first.
        """
        if not domain:
            yield node, what
            return
        for site in self._sites_of(node, domain):
            yield self._first.setdefault((domain, site), node), f"{what} in {site}"


def _needs(
    known: Mapping[str, Instance], wanted: Wanted, apart: Iterable[tuple[str, str, str]]
) -> dict[str, list[tuple[str, str]]]:
    """Return instance -> (unit, kind of failure domain), for instances that must not meet."""
    needs: dict[str, list[tuple[str, str]]] = {}
    movers = [known[name] for name in wanted if name in known]
    tags = {tag for mover in movers for tag in mover.exclusion}
    for name, instance in known.items() if tags else ():
        for tag in instance.exclusion:
            if tag in tags:
                needs.setdefault(name, []).append((f"exclusion tag {tag}", ""))
    for one, other, domain in apart:
        if one in known and other in known:
            need = (f"{one} and {other} apart", domain)
            needs.setdefault(one, []).append(need)
            needs.setdefault(other, []).append(need)
    return needs


def _add(amounts: Amounts, keys: Iterable[Key]) -> None:
    for key in keys:
        amounts[key] = amounts.get(key, 0) + 1
