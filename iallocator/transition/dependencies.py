"""Compute the dependencies of each step of a legal sequence, and no others.

An arrival uses capacity that was free at the start, or that earlier departures free. No MiB is
assigned to two arrivals. Therefore no node is overcommitted, whatever order the dependencies allow
and whatever steps run at the same time. A dependency for capacity is added only if some order would
otherwise overcommit a node. A computation of maximum flow decides whether every arrival gets
capacity.
"""

from __future__ import annotations

from itertools import combinations, pairwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.transition.resources import Amounts, Key
    from iallocator.transition.step import Step

__all__ = ["RoomFlow", "Waits", "find_waits"]

FEW_DEPARTURES = 12
"""The number of departures up to which the smallest sufficient set is found; above, a small one."""

MOST_PRUNED_STEPS = 400
"""The number of steps up to which unnecessary dependencies are searched and removed."""


class Waits:
    """The dependencies of a sequence of steps, by position.

    Attributes
    ----------
    needs:
        For each step: position of a step on which it depends -> reason, as text. Dependencies that
        follow from other dependencies are left out.
    known:
        For each step, all steps that are done before it, as bits by position.
    overdrawn:
        Positions of steps that overcommit a node even in this sequence.
    """

    __slots__ = ("known", "needs", "overdrawn")

    def __init__(self, needs: list[dict[int, str]], known: list[int], overdrawn: list[int]) -> None:
        self.needs = needs
        self.known = known
        self.overdrawn = overdrawn


def find_waits(cluster: Cluster, steps: Sequence[Step], room: Amounts) -> Waits:
    """Return the dependencies of `steps`, a legal sequence; `room`: the free amounts before it."""
    assignment = _Assignment(steps, room)
    for k in range(len(steps)):
        assignment.enter(k)
    if len(steps) <= MOST_PRUNED_STEPS:
        assignment.prune()
    needs: list[dict[int, str]] = []
    for k, known in enumerate(assignment.firm):
        why = dict(known)
        for source, keys in assignment.capacity_waits[k].items():
            amounts = {f"{what} on {cluster.nodes[node].name}" for node, what in keys}
            why[source] = "; ".join([*([why[source]] if source in why else []), *sorted(amounts)])
        implied = 0  # what other dependencies of the step already wait for
        for source in why:
            implied |= assignment.known[source]
        needs.append({source: why[source] for source in sorted(why) if not implied >> source & 1})
    return Waits(needs, assignment.known, assignment.overdrawn)


class _Assignment:
    """Records which step uses the capacity that another step frees.

    Attributes
    ----------
    firm, capacity_waits:
        For each step, the steps on which it depends: for other reasons than capacity (position ->
        reason), and for capacity (position -> keys).
    known:
        For each step, all steps that are done before it, as bits.
    depth:
        For each step, the length of the longest chain that ends with it.
    free:
        For each scarce resource of a node, the amounts that are not assigned yet, as (position of
        the departure that frees the amount, amount). The position -1 means an amount that is free
        before the sequence.
    """

    def __init__(self, steps: Sequence[Step], room: Amounts) -> None:
        self.steps = steps
        self.position = {step: k for k, step in enumerate(steps)}
        demands: Amounts = {}
        for step in steps:
            for key, amount in step.takes.items():
                if key in room:
                    demands[key] = demands.get(key, 0) + amount
        self.scarce = {key for key, amount in demands.items() if amount > room[key]}
        self.room = {key: room[key] for key in self.scarce}
        self.free: dict[Key, list[tuple[int, float]]] = {
            key: [(-1, room[key])] if room[key] > 0 else [] for key in self.scarce
        }
        self.debt = {key: -room[key] for key in self.scarce if room[key] < 0}
        self.payers: dict[Key, dict[int, float]] = {}
        self.firm: list[dict[int, str]] = []
        self.capacity_waits: list[dict[int, list[Key]]] = []
        self.known: list[int] = []
        self.depth: list[int] = []
        self.overdrawn: list[int] = []

    def enter(self, k: int) -> None:
        """Assign to step `k`, the next step of the sequence, the capacity that it takes."""
        step = self.steps[k]
        self.firm.append({self.position[before]: why for before, why in step.needs.items()})
        self.capacity_waits.append({})
        self.known.append(0)
        wanted = {key: more for key, more in step.takes.items() if key in self.scarce}
        for key in wanted:
            if key in self.debt:
                self._pay(key)
            for payer in self.payers.get(key, ()):
                self.capacity_waits[k].setdefault(payer, []).append(key)
        self._learn(k)
        chosen = self._choose(k, wanted)
        if chosen is None:
            self.overdrawn.append(k)
            chosen = sorted({s for key in wanted for s, _ in self.free[key] if s >= 0})
        for source in chosen:
            keys = [key for key in sorted(wanted) if self.steps[source].frees.get(key)]
            self.capacity_waits[k].setdefault(source, []).extend(keys)
        self._learn(k)
        before = (*self.firm[k], *self.capacity_waits[k])
        self.depth.append(1 + max((self.depth[source] for source in before), default=0))
        # Assign capacity: of the latest departure first, initially free capacity last
        for key in sorted(wanted):
            amount = wanted[key]
            for source, offer in sorted(self.free[key], reverse=True):
                if amount <= 0:
                    break
                if source >= 0 and not self.known[k] >> source & 1:
                    continue
                used = min(amount, offer)
                amount -= used
                self.free[key].remove((source, offer))
                if offer > used:
                    self.free[key].append((source, offer - used))
        for key, less in step.frees.items():
            if key in self.scarce:
                self.free[key].append((k, less))

    def _learn(self, k: int) -> None:
        known = 0
        for source in (*self.firm[k], *self.capacity_waits[k]):
            known |= self.known[source] | 1 << source
        self.known[k] = known

    def _pay(self, key: Key) -> None:
        """Select departures that end the overcommitment of `key`; all arrivals depend on them."""
        debt = self.debt[key]
        given = {source: amount for source, amount in self.free[key] if source >= 0}
        if sum(given.values()) < debt:
            return
        del self.debt[key]
        chosen = self._smallest({one: {key: amount} for one, amount in given.items()}, {key: debt})
        done = 0
        for source in chosen:
            done |= self.known[source] | 1 << source
        self.payers[key] = {}
        for source in sorted(one for one in given if done >> one & 1):
            paid = min(debt, given[source])
            self.payers[key][source] = paid
            debt -= paid
            self.free[key] = [(s, a - paid if s == source else a) for s, a in self.free[key]]

    def _choose(self, k: int, wanted: Amounts) -> list[int] | None:
        """Return further departures on which step `k` must depend; None if no set is enough."""
        known = self.known[k]
        lacking: Amounts = {}
        for key, amount in wanted.items():
            have = sum(a for s, a in self.free[key] if s < 0 or known >> s & 1)
            if amount > have:
                lacking[key] = amount - have
            if key in self.debt:
                return None
        if not lacking:
            return []
        offers: dict[int, Amounts] = {}
        for key in lacking:
            for source, amount in self.free[key]:
                if source >= 0 and amount > 0 and not known >> source & 1:
                    offers.setdefault(source, {})[key] = amount
        for key, amount in lacking.items():
            if sum(offer.get(key, 0) for offer in offers.values()) < amount:
                return None

        return self._smallest(offers, lacking)

    def _smallest(self, offers: dict[int, Amounts], lacking: Amounts) -> list[int]:
        """Return a smallest set of departures that free the `lacking` amounts.

        Of several sets, one with early and small departures is returned. The steps that are done
        before a departure count as parts of its set. `offers`: position of a departure -> the
        amounts that it frees.
        """
        depth = self.depth
        sources = sorted(offers)
        brings = {one: self.known[one] | 1 << one for one in sources}

        def enough(chosen: Sequence[int]) -> bool:
            done = 0
            for source in chosen:
                done |= brings[source]
            given = [offers[one] for one in sources if done >> one & 1]
            return all(
                sum(offer.get(key, 0) for offer in given) >= amount
                for key, amount in lacking.items()
            )

        def rank(chosen: Sequence[int]) -> tuple[int, float, tuple[int, ...]]:
            given = sum(sum(offers[source].values()) for source in chosen)
            return max(depth[source] for source in chosen), given, tuple(chosen)

        if len(sources) <= FEW_DEPARTURES:
            for size in range(1, len(sources) + 1):
                fitting = [c for c in combinations(sources, size) if enough(c)]
                if fitting:
                    smallest: tuple[int, ...] = min(fitting, key=rank)
                    return list(smallest)
        chosen = sorted(sources, key=lambda s: (depth[s], -sum(offers[s].values()), s))
        for source in reversed(list(chosen)):
            rest = [one for one in chosen if one != source]
            if rest and enough(rest):
                chosen = rest
        return chosen

    def prune(self) -> None:
        """Remove each dependency for capacity that is not necessary."""
        if self.overdrawn:
            return
        handing = RoomFlow(self.steps, self.room, self.payers)
        fixed = {
            (k, s)
            for k, waiting in enumerate(self.capacity_waits)
            for s in waiting
            if s in self.firm[k]
        }
        waits = [(k, s) for k, waiting in enumerate(self.capacity_waits) for s in waiting]
        waits.sort(key=lambda wait: (-self.depth[wait[1]], wait))
        for k, source in waits:
            if (k, source) in fixed:
                continue
            if any(source in self.payers.get(key, ()) for key in self.steps[k].takes):
                continue
            keys = self.capacity_waits[k].pop(source)
            before = list(self.known)
            for later in range(k, len(self.steps)):
                self._learn(later)
            changed = [j for j in range(k, len(self.steps)) if before[j] != self.known[j]]
            if not handing.possible(self.known, changed):
                self.capacity_waits[k][source] = keys
                self.known = before


class RoomFlow:
    """The departures and arrivals of every scarce resource of a node.

    `room` has the free amounts before the first step: `Key` -> amount. The amounts that `payers`
    free to end an overcommitment are not available to arrivals.
    """

    def __init__(
        self, steps: Sequence[Step], room: Amounts, payers: Mapping[Key, Mapping[int, float]]
    ) -> None:
        self._gives: dict[Key, dict[int, float]] = {}
        self._takes: dict[Key, dict[int, float]] = {}
        self._keys: list[list[Key]] = []
        for key, free in room.items():
            self._gives[key] = {-1: max(free, 0)}
            self._takes[key] = {}
        for k, step in enumerate(steps):
            self._keys.append([key for key in step.takes if key in room])
            for key, less in step.frees.items():
                if key in room:
                    self._gives[key][k] = less - payers.get(key, {}).get(k, 0)
            for key in self._keys[-1]:
                self._takes[key][k] = step.takes[key]

    def possible(self, known: Sequence[int], changed: Sequence[int]) -> bool:
        """Return whether all arrivals have capacity, whichever permitted order the steps have.

        `known`: for each step, the bits of the steps that are done before it. `changed`: the steps
        that have fewer predecessors than at the last test; only their keys are tested.
        """
        keys = sorted({key for k in changed for key in self._keys[k]})
        return all(self._provided(key, known) for key in keys)

    def _provided(self, key: Key, known: Sequence[int]) -> bool:
        """Return whether free capacity and departures cover all arrivals that use resource `key`.

        Augmenting paths hand the amounts to the arrivals.
        """
        left = dict(self._gives[key])
        given: dict[int, dict[int, float]] = {k: {} for k in self._takes[key]}
        for k, amount in sorted(self._takes[key].items()):
            lacking = amount
            while lacking > 0:
                path = _augmenting(k, left, given, known)
                if path is None:
                    return False
                # Hand on as much along the path as each part of it allows
                handed = min(lacking, left[path[-1][1]])
                for (_, source), (other, _) in pairwise(path):
                    handed = min(handed, given[other][source])
                for position, (arrival, source) in enumerate(path):
                    given[arrival][source] = given[arrival].get(source, 0) + handed
                    if position + 1 < len(path):
                        given[path[position + 1][0]][source] -= handed
                left[path[-1][1]] -= handed
                lacking -= handed
        return True


def _augmenting(
    start: int,
    left: Mapping[int, float],
    given: Mapping[int, Mapping[int, float]],
    known: Sequence[int],
) -> list[tuple[int, int]] | None:
    """Return an augmenting path of (arrival, source) pairs from `start`; None if there is none.

    Each arrival in the path releases the source of the pair before it.
    """
    paths: list[list[tuple[int, int]]] = [[]]
    ends = [start]
    seen: set[int] = set()
    while ends:
        k, path = ends.pop(0), paths.pop(0)
        for source in left:
            if source in seen or not (source < 0 or bool(known[k] >> source & 1)):
                continue
            seen.add(source)
            longer = [*path, (k, source)]
            if left[source] > 0:
                return longer
            for other in given:
                if other != k and given[other].get(source, 0) > 0:
                    ends.append(other)
                    paths.append(longer)
    return None
