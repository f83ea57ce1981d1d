"""Find the fewest moves that make a request fit, by trying all moves on shared storage.

Of the capacities, only memory is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from random import Random

from tests.builders import Json, cluster, rbd

__all__ = ["MEMORY", "POOL", "Scenario", "all_fit", "fewest"]

Homes = tuple[str, ...]

MEMORY = 8000
"""MiB of memory of every node."""

POOL = "iallocator:pool:external:fast"


class Scenario:
    """Nodes of equal memory with instances on shared storage that constraints relate.

    Attributes
    ----------
    sizes, homes:
        MiB and node of each instance, by position.
    units:
        Positions of each colocation group; most have one member.
    apart:
        Positions of instances that must be on different nodes.
    pooled:
        Positions of instances that need a node with access to the pool, one of `reaching`.
    racks, pairs:
        The rack of each node; positions of two instances that must be in one rack.
    """

    def __init__(
        self, rng: Random, groups: dict[str, int] | None = None, racked: bool = False
    ) -> None:
        self.groups = groups or {"default": 3}
        self.names = [f"node{k + 1}" for k in range(sum(self.groups.values()))]
        self.reaching = [name for name in self.names if rng.random() < 0.7] or self.names[:1]
        self.sizes: list[int] = []
        homes: list[str] = []
        self.units: list[tuple[int, ...]] = []
        self.apart: set[int] = set()
        self.pooled: set[int] = set()
        for home in self.names:
            self._fill(rng, home, homes)
        self.homes = tuple(homes)
        self.racks = {name: "ab"[number % 2] for number, name in enumerate(self.names)}
        self.pairs: list[tuple[int, int]] = self._paired(rng) if racked else []

    def _paired(self, rng: Random) -> list[tuple[int, int]]:
        """Return pairs of otherwise unrelated instances in one rack."""
        free = [u[0] for u in self.units if len(u) == 1 and u[0] not in self.apart]
        rng.shuffle(free)
        inside = [[k for k in free if self.racks[self.homes[k]] == rack] for rack in "ab"]
        return [(some[0], some[1]) for some in inside if len(some) > 1]

    def _fill(self, rng: Random, home: str, homes: list[str]) -> None:
        left, meets = MEMORY, False
        while (size := rng.choice([900, 1700, 2300, 3100])) < left - rng.choice([200, 2500]):
            number = len(homes)
            kind = rng.random()
            if kind < 0.35 and size >= 1700:
                self.units.append((number, number + 1))
                parts = [size - 800, 800]
            else:
                self.units.append((number,))
                parts = [size]
                if kind > 0.8 and not meets:
                    self.apart.add(number)
                    meets = True
            if home in self.reaching and rng.random() < 0.3:
                self.pooled |= {number}
            self.sizes += parts
            homes += [home] * len(parts)
            left -= size

    def document(self, homes: Homes | None = None) -> Json:
        """Return the cluster as a document, with each instance on its node in `homes`."""
        unit_of = {k: unit for unit in self.units if len(unit) > 1 for k in unit}
        instances = {}
        for k, (home, size) in enumerate(zip(homes or self.homes, self.sizes)):
            tags = [POOL] if k in self.pooled else []
            tags += ["iallocator:separate:must:x"] if k in self.apart else []
            tags += [
                f"iallocator:colocate:must:r{pair[0]}:rack" for pair in self.pairs if k in pair
            ]
            if k in unit_of:
                tags.append(f"iallocator:colocate:must:u{unit_of[k][0]}")
            instances[f"i{k}"] = rbd(home, memory=size, tags=tags)
        changes = {
            name: {"tags": [f"rack:{rack}"] + [POOL] * (name in self.reaching)}
            for name, rack in self.racks.items()
        }
        return cluster(self.groups, memory=MEMORY, instances=instances, changes=changes)

    def free(self, homes: Homes) -> dict[str, int]:
        """Return the free MiB of each node with the instances on `homes`."""
        left = dict.fromkeys(self.names, MEMORY)
        for home, size in zip(homes, self.sizes):
            left[home] -= size
        return left

    def group_of(self, node: str) -> list[str]:
        """Return the nodes of the group of `node`."""
        first = 0
        for count in self.groups.values():
            some = self.names[first : first + count]
            if node in some:
                return some
            first += count
        raise KeyError(node)

    def steps(
        self, homes: Homes, fixed: Sequence[int], left: Sequence[str]
    ) -> Iterator[tuple[int, int, Homes]]:
        """Yield each legal move from `homes`: number of moved instances, MiB, and the new homes.

        The instances `fixed` and the instances on the nodes `left` do not move.
        """
        free = self.free(homes)
        for unit in self.units:
            if not set(unit).isdisjoint(fixed):
                continue
            size = sum(self.sizes[k] for k in unit)
            for target in self.group_of(homes[unit[0]]):
                if target == homes[unit[0]] or target in left or free[target] <= size:
                    continue
                if not self.pooled.isdisjoint(unit) and target not in self.reaching:
                    continue
                if not self.apart.isdisjoint(unit) and any(homes[k] == target for k in self.apart):
                    continue
                after = tuple(target if k in unit else home for k, home in enumerate(homes))
                if self._in_one_rack(after):
                    yield len(unit), size, after
        for one, other in self.pairs:
            yield from self._both(homes, one, other)

    def _in_one_rack(self, homes: Homes) -> bool:
        return all(self.racks[homes[a]] == self.racks[homes[b]] for a, b in self.pairs)

    def _both(self, homes: Homes, one: int, other: int) -> Iterator[tuple[int, int, Homes]]:
        """Yield the steps that move two instances together to nodes of another rack."""
        abroad = [n for n in self.names if self.racks[n] != self.racks[homes[one]]]
        for places in product(abroad, repeat=2):
            moved = dict(zip((one, other), places))
            after = tuple(moved.get(k, home) for k, home in enumerate(homes))
            reached = all(k not in self.pooled or n in self.reaching for k, n in moved.items())
            if reached and all(self.free(after)[n] > 0 for n in places):
                yield 2, self.sizes[one] + self.sizes[other], after


def all_fit(free: dict[str, int], sizes: Sequence[int], reach: Sequence[Sequence[str]]) -> bool:
    """Return whether all `sizes` fit at once, each on one of the nodes that it can reach."""
    for places in product(*reach):
        left = dict(free)
        for size, place in zip(sizes, places):
            left[place] -= size
        if all(left[place] > 0 for place in places):
            return True
    return False


def fewest(
    scenario: Scenario,
    reached: Callable[[Homes], bool],
    most: int,
    fixed: Sequence[int] = (),
    left: Sequence[str] = (),
) -> tuple[int, int] | None:
    """Return the least number of moves until `reached` is true, and their least MiB.

    Return None if more than `most` moves are needed.
    """
    layers: list[dict[Homes, int]] = [{} for _ in range(most + 1)]
    layers[0][scenario.homes] = 0
    for count, layer in enumerate(layers):
        done = [copied for homes, copied in layer.items() if reached(homes)]
        if done:
            return count, min(done)
        for homes, copied in layer.items():
            for moves, size, after in scenario.steps(homes, fixed, left):
                if count + moves <= most:
                    known = layers[count + moves].get(after, 1 << 40)
                    layers[count + moves][after] = min(known, copied + size)
    return None
