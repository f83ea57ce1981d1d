"""Compute the best results of some planners by trying every placement.

Nothing in this module uses the code of the planners. A cluster has nodes (`Machine`) in groups, and
instances (`Home`). The limits of a node that gets an instance: free memory, free disk, the memory
that it reserves for failovers, and the ratio of virtual cpus. A failure of a node must not prevent
more instances from a restart than in the initial state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import combinations, permutations
from random import Random
from typing import NamedTuple

from benchmarks.gap import OWN_DISK, OWN_MEMORY, Home, Machine, generate
from benchmarks.planners_gap import Steps, TooManyError, free_of, reserved_of

__all__ = [
    "KINDS", "Case", "compress_case", "fewest_left_out", "fewest_unhealthy", "largest_share",
    "most_freed", "place_case", "redistribute_case", "squeeze_case",
]  # fmt: skip

KINDS = {
    "shared": ("rbd",),
    "drbd": ("drbd",),
    "mixed": ("drbd", "rbd"),
    "plain and shared": ("plain", "rbd", "rbd", "rbd"),
}
"""Kind of cluster -> disk templates of its instances."""

OWN_CPUS = 1
"""Number of cpus that a node uses itself."""

SPREAD = (1, 1, 1, 0.75, 1.25)
"""Factors for the sizes of unequal nodes."""

Loss = tuple[int, int]
"""Number of instances that cannot be restarted, and their memory in MiB."""


class Case(NamedTuple):
    """A cluster, and the options of the command.

    Attributes
    ----------
    groups:
        The number of the group of each node.
    down:
        The offline nodes.
    cpu_ratio:
        Virtual cpus for each cpu of a node.
    n1:
        The mode of global N+1.
    lenient:
        Whether soft limits are ignored.
    """

    machines: Sequence[Machine]
    homes: Sequence[Home]
    groups: Sequence[int]
    down: frozenset[int] = frozenset()
    cpu_ratio: float = 64
    n1: str = "no-worse"
    lenient: bool = False

    def text(self) -> str:
        """Return the cluster in the text format of htools."""
        numbers = sorted(set(self.groups))
        lines = [*(f"group{g}|uuid{g}|preferred|" for g in numbers), ""]
        for k, one in enumerate(self.machines):
            memory, disk = self.used(k)
            lines.append(
                f"{one.name}|{one.memory}|{OWN_MEMORY}|{one.memory - OWN_MEMORY - memory}|"
                f"{one.disk}|{one.disk - OWN_DISK - disk}|{one.cpus}|"
                f"{'Y' if k in self.down else 'N'}|uuid{self.groups[k]}|1"
            )
        lines.append("")
        for home in self.homes:
            primary, *other = (self.machines[k].name for k in home.nodes)
            lines.append(
                f"{home.name}|{home.memory}|{home.disk}|{home.cpus}|running|Y|{primary}|"
                f"{''.join(other)}|{home.template}||1"
            )
        policy = (
            "|128,1,1024,1,1,1|128,1,1024,1,1,1;65536,16,1048576,16,8,12|"
            f"diskless,file,sharedfile,plain,blockdev,drbd,rbd,ext|{self.cpu_ratio}|128"
        )
        policies = (f"group{g}{policy}" for g in numbers)
        return "\n".join([*lines, "", "", policy, *policies, ""])

    def used(self, node: int) -> tuple[int, int]:
        """Return the MiB of memory and of disk that the instances of a node use."""
        memory = sum(home.memory for home in self.homes if home.nodes[0] == node)
        disk = sum(h.disk for h in self.homes if node in h.nodes and h.template != "rbd")
        return memory, disk

    def members(self, group: int) -> list[int]:
        """Return the numbers of the nodes of a group."""
        return [k for k, one in enumerate(self.groups) if one == group]

    def held(self, group: int) -> list[Home]:
        """Return the instances with nodes in a group."""
        return [home for home in self.homes if self.groups[home.nodes[0]] == group]

    def stays(self, home: Home) -> bool:
        """Return whether an instance cannot move, because its disks are local or offline."""
        drbd = home.template == "drbd"
        return home.template == "plain" or (drbd and self.down.issuperset(home.nodes))

    def places(self, home: Home, group: int) -> Iterator[tuple[int, ...]]:
        """Yield each choice of online nodes of a group for the instance `home`."""
        online = [k for k in self.members(group) if k not in self.down]
        yield from permutations(online, 2 if home.template == "drbd" else 1)


class Placing:
    """Instances on nodes that a search chooses, beside instances that stay.

    Parameters
    ----------
    staying:
        The instances that stay where they are.
    steps:
        The budget of work.
    before:
        The instances of the initial state, which N+1 compares with.
    anew:
        Whether all instances of the group are placed again.
    """

    def __init__(
        self,
        case: Case,
        staying: Sequence[Home],
        steps: Steps,
        before: Sequence[Home],
        anew: bool = False,
    ) -> None:
        self.case = case
        self.placed = list(staying)
        self.steps = steps
        self._staying = staying
        self._before = before
        self.anew = anew

    def free(self) -> list[list[float]]:
        """Return the MiB of memory and of disk that are free on each node."""
        return free_of(self.case.machines, self.placed)

    @cached_property
    def _roles(self) -> list[set[tuple[str, int]]]:
        """Return for each node its initial instances with their roles; 0 is the primary."""
        return [
            {(home.name, home.nodes.index(k)) for home in self._before if k in home.nodes}
            for k in range(len(self.case.machines))
        ]

    def _may_lack(self, node: int) -> bool:
        """Return whether a node may lack memory for failovers with the instance placed last.

        It may if it lacks memory without this instance. If the instances of the group move and the
        mode is no-worse, it must not lack more.
        """
        lacks = []
        for homes in (self.placed[:-1], self.placed):
            kept = reserved_of(len(self.case.machines), homes)
            lacks.append(kept[node] - free_of(self.case.machines, homes)[node][0])
        no_more = not self.anew or self.case.n1 != "no-worse" or lacks[1] <= lacks[0]
        return lacks[0] >= 0 and no_more

    def fits(self, home: Home, forced: bool, secondary_forced: bool = False) -> bool:
        """Return whether the nodes of `home`, which was placed last, keep their limits.

        If all instances are placed again, a node keeps its limits if each instance had its role
        there before. With `forced`, soft limits are ignored; with `secondary_forced`, those of the
        secondary.
        """
        self.steps.spend()
        free, kept = self.free(), reserved_of(len(self.case.machines), self.placed)
        for role, node in enumerate(home.nodes):
            roles = {(h.name, h.nodes.index(node)) for h in self.placed if node in h.nodes}
            if self.anew and roles <= self._roles[node]:
                continue
            memory, disk = free[node]
            if home.template != "rbd" and disk <= 0:
                return False
            if role == 0 and memory <= 0:
                return False
            if forced or (role and secondary_forced):
                continue
            if memory <= (home.memory if role else 0):
                return False
            if kept[node] >= memory and not self._may_lack(node):
                return False
            cpus = OWN_CPUS + sum(one.cpus for one in self.placed if one.nodes[0] == node)
            if role == 0 and cpus > self.case.cpu_ratio * self.case.machines[node].cpus:
                return False
        return True

    def loss(self, failed: int, homes: Sequence[Home]) -> Loss:
        """Return the fewest instances and the least memory lost if the node `failed` fails.

        `homes` are all instances. Both minimums need not be reached together.
        """
        case = self.case
        on = [k for k in case.members(case.groups[failed]) if k != failed and k not in case.down]
        free = free_of(case.machines, homes)
        items = []
        for home in homes:
            if home.nodes[0] == failed and home.memory:  # without memory: the disks alone
                where = [k for k in home.nodes[1:] if k in on] if home.template == "drbd" else on
                items.append((home.memory, home.disk * (home.template == "plain"), where))
        items.sort(key=lambda one: (len(one[2]), -one[0]))
        best = [len(items), sum(one[0] for one in items)]

        def search(position: int, lost: Loss) -> None:
            self.steps.spend()
            if lost[0] >= best[0] and lost[1] >= best[1]:
                return
            if position == len(items):
                best[:] = min(best[0], lost[0]), min(best[1], lost[1])
                return
            memory, disk, where = items[position]
            for k in where:
                if free[k][0] > memory and (not disk or free[k][1] > disk):
                    free[k][0] -= memory
                    free[k][1] -= disk
                    search(position + 1, lost)
                    free[k][0] += memory
                    free[k][1] += disk
            search(position + 1, (lost[0] + 1, lost[1] + memory))

        search(0, (0, 0))
        return best[0], best[1]

    def keeps_n1(self) -> bool:
        """Return whether N+1 permits the final placement in the groups that got instances.

        If all instances are placed again, failures that staying instances make intolerable are
        exempt. Instances from offline nodes were lost in every failure.
        """
        case = self.case
        if case.n1 == "off":
            return True
        placed = {home.nodes[0] for home in self.placed if home not in self._staying}
        running = {home.name for home in self.placed if home.memory}
        returned = [h for h in self._before if h.nodes[0] in case.down and h.name in running]
        back = len(returned), sum(home.memory for home in returned)
        for group in {case.groups[node] for node in placed}:
            for node in case.members(group):
                if node in case.down:
                    continue
                allowed = (0, 0) if case.n1 == "strict" else self.loss(node, self._before)
                if case.n1 == "no-new" and allowed != (0, 0):
                    continue
                if self.anew and case.n1 == "strict" and self.loss(node, self._staying) > allowed:
                    continue
                if self.anew and case.n1 == "no-worse":
                    allowed = allowed[0] + back[0], allowed[1] + back[1]
                loss = self.loss(node, self.placed)
                if loss[0] > allowed[0] or loss[1] > allowed[1]:
                    return False
        return True


def _machines(rng: Random, counts: Sequence[int]) -> list[Machine]:
    """Return random nodes in groups; `counts` has the number of nodes of each group."""
    memory, equal = rng.choice([8192, 12288, 16384]), rng.random() < 0.5
    disk, cpus = rng.choice([65536, 131072, 262144]), rng.choice([4, 8])
    sizes = [1.0 if equal else rng.choice(SPREAD) for _ in range(sum(counts))]
    return [
        Machine(f"node{k}", int(memory * size), int(disk * size), cpus)
        for k, size in enumerate(sizes)
    ]


def _case(rng: Random, kind: str, counts: Sequence[int], most: int, down: float) -> Case:
    """Return a random cluster; `counts` has the number of nodes of each group.

    `most` is the highest number of instances, `down` the probability that one node is offline.
    """
    machines = _machines(rng, counts)
    groups = [g for g, count in enumerate(counts) for _ in range(count)]
    homes: list[Home] = []
    for group, count in enumerate(counts):
        first = groups.index(group)
        templates = KINDS[kind] if count > 1 else [t for t in KINDS[kind] if t != "drbd"]
        if templates:
            own = generate(rng, machines[first : first + count], templates, rng.randint(0, most))
            homes += [
                one._replace(
                    name=f"inst{group}{k:02}", nodes=tuple(first + node for node in one.nodes)
                )
                for k, one in enumerate(own)
            ]
    offline = [rng.randrange(len(machines))] if rng.random() < down else []
    return Case(
        machines, homes, groups, frozenset(offline), rng.choice([64, 64, 1, 0.5]),
        rng.choice(["off", "no-worse", "no-worse", "no-new", "strict"]), rng.random() < 0.2,
    )  # fmt: skip


def _too_full(rng: Random, case: Case) -> Case:
    """Return the cluster; sometimes the instances of a few nodes need too much memory."""
    if rng.random() < 0.3:
        machines = [one._replace(memory=int(one.memory * 0.8)) for one in case.machines]
        return case._replace(machines=machines)
    return case


RESERVE_MEMORY, RESERVE_CPUS = 2 * 128, 2
"""MiB and virtual cpus that each online node keeps free when nodes are freed.

That is the amount of two instances of standard size.
"""


def squeeze_case(seed: int, kind: str) -> Case:
    """Return a random group of 3 to 5 nodes that is half full, or nearly full."""
    rng = Random(f"squeeze {seed} {kind}")
    case = _case(rng, kind, (rng.choice([3, 3, 4, 4, 5]),), rng.choice([5, 7, 9]), 0.3)
    return case if rng.random() < 0.5 else case._replace(cpu_ratio=64)


def most_freed(case: Case) -> int | None:
    """Return the largest number of nodes that can be freed; None if it is unknown.

    Only instances on shared storage move. Offline nodes must be empty in the end. Each online node
    then has the reserve, and N+1 is compared with the initial state.
    """
    others = [home for home in case.homes if home.template != "rbd"]
    if any(home.nodes[0] in case.down for home in others):
        return None
    online = [k for k in range(len(case.machines)) if k not in case.down]
    fixed = {node for home in others for node in home.nodes}
    candidates, steps = [k for k in online if k not in fixed], Steps()
    movable = sorted((h for h in case.homes if h.template == "rbd"), key=lambda h: -h.memory)
    try:
        for number in range(min(len(candidates), len(online) - 1), 0, -1):
            for off in combinations(candidates, number):
                less = case._replace(down=case.down.union(off))
                if _emptied(case, Placing(less, others, steps, case.homes), movable):
                    return number
    except TooManyError:
        return None
    return 0


def _emptied(before: Case, placing: Placing, rest: Sequence[Home]) -> bool:
    """Return whether the online nodes have capacity for all of `rest` and keep their reserves."""
    case, steps = placing.case, placing.steps
    steps.spend()
    free, kept = placing.free(), reserved_of(len(case.machines), placing.placed)
    for k in [k for k in range(len(case.machines)) if k not in case.down]:
        cpus = OWN_CPUS + sum(one.cpus for one in placing.placed if one.nodes[0] == k)
        if free[k][0] - kept[k] <= RESERVE_MEMORY:
            return False
        if cpus + RESERVE_CPUS > case.cpu_ratio * case.machines[k].cpus:
            return False
    if rest:
        for nodes in case.places(rest[0], 0):
            placing.placed.append(rest[0]._replace(nodes=nodes))
            if _emptied(before, placing, rest[1:]):
                return True
            placing.placed.pop()
        return False
    start = Placing(before, before.homes, steps, before.homes)
    for k in [k for k in range(len(case.machines)) if k not in case.down and case.n1 != "off"]:
        allowed = (0, 0) if case.n1 == "strict" else start.loss(k, before.homes)
        loss = placing.loss(k, placing.placed)
        if case.n1 == "no-new" and allowed != (0, 0):
            continue
        if loss[0] > allowed[0] or loss[1] > allowed[1]:
            return False
    return True


def compress_case(seed: int, kind: str) -> Case:
    """Return a random cluster of 2 or 3 groups with 2 to 6 nodes together."""
    rng = Random(f"compress {seed} {kind}")
    counts = rng.choice([(2, 2), (1, 2), (2, 1), (1, 3), (2, 3), (3, 2), (1, 1, 2), (2, 2, 2)])
    return _too_full(rng, _case(rng, kind, counts, 4, 0.2))


def _share(case: Case, group: int) -> float:
    """Return the sum of a group's free shares of memory, disk and virtual cpus."""
    free, total = [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]
    for k, one in enumerate(case.machines):
        if k in case.down:
            continue
        memory, disk = case.used(k)
        cpus = OWN_CPUS + sum(home.cpus for home in case.homes if home.nodes[0] == k)
        amounts = (one.memory - OWN_MEMORY - memory, one.disk - OWN_DISK - disk,
                   case.cpu_ratio * one.cpus - cpus)  # fmt: skip
        for number, amount in enumerate(amounts):
            if case.groups[k] == group:
                free[number] += max(0, amount)
        for number, amount in enumerate((one.memory, one.disk, case.cpu_ratio * one.cpus)):
            total[number] += amount
    return sum(own / whole for own, whole in zip(free, total, strict=True) if whole)


def largest_share(case: Case) -> float | None:
    """Return the largest free share of a group that can be emptied; None if it is unknown.

    The instances of the group move to other groups that have instances.
    """
    best, steps = 0.0, Steps()
    used = {case.groups[home.nodes[0]] for home in case.homes}
    try:
        for group in used:
            leaving = sorted(case.held(group), key=lambda home: -home.memory)
            staying = [home for home in case.homes if home not in leaving]
            if not any(map(case.stays, leaving)):
                placing = Placing(case, staying, steps, case.homes)
                if _all_placed(placing, leaving, sorted(used - {group})):
                    best = max(best, _share(case, group))
    except TooManyError:
        return None
    return best


def _all_placed(placing: Placing, rest: Sequence[Home], groups: Sequence[int]) -> bool:
    """Return whether all of `rest` can be placed in `groups`."""
    if not rest:
        return placing.keeps_n1()
    home, case = rest[0], placing.case
    for group in groups:
        for nodes in case.places(home, group):
            moved = home._replace(nodes=nodes)
            placing.placed.append(moved)
            if placing.fits(moved, case.lenient) and _all_placed(placing, rest[1:], groups):
                return True
            placing.placed.pop()
    return False


def redistribute_case(seed: int, kind: str) -> Case:
    """Return a random cluster of 2 or 3 groups, mostly with an offline node."""
    rng = Random(f"redistribute {seed} {kind}")
    counts = rng.choice([(2, 2), (2, 1), (1, 2), (2, 3), (3, 2), (1, 1, 2), (2, 2, 2), (3, 1)])
    case = _case(rng, kind, counts, 4, 0.8)
    if rng.random() < 0.3:
        case = case._replace(down=case.down | {rng.randrange(len(case.machines))})
    return _too_full(rng, case)


def _healthy(placing: Placing, group: int) -> bool:
    """Return whether a group is healthy.

    Its offline nodes have no instances. Its online nodes have the memory for failovers, and their
    failures are tolerated.
    """
    case, homes = placing.case, placing.placed
    nodes = case.members(group)
    if any(case.down.__contains__(k) for home in homes for k in home.nodes if k in nodes):
        return False
    free, kept = placing.free(), reserved_of(len(case.machines), homes)
    online = [k for k in nodes if k not in case.down]
    if any(free[k][0] <= kept[k] for k in online):
        return False
    return case.n1 == "off" or all(placing.loss(k, homes) == (0, 0) for k in online)


def fewest_unhealthy(case: Case) -> int | None:
    """Return the least number of unhealthy groups after moves; None if it is unknown.

    Groups that are healthy stay healthy. Groups that receive instances are healthy in the end.
    """
    steps = Steps()
    groups = sorted(set(case.groups))
    try:
        start = Placing(case, case.homes, steps, case.homes)
        ill = [group for group in groups if not _healthy(start, group)]
        for number in range(len(ill), 0, -1):
            for repaired in combinations(ill, number):
                leaving = [
                    home for group in ill for home in case.held(group) if not case.stays(home)
                ]
                staying = [home for home in case.homes if home not in leaving]
                placing = Placing(case, staying, steps, case.homes)
                good = [group for group in groups if group not in ill or group in repaired]
                if _repaired(placing, leaving, good):
                    return len(ill) - number
    except TooManyError:
        return None
    return len(ill)


def _repaired(placing: Placing, rest: Sequence[Home], good: Sequence[int]) -> bool:
    """Return whether the groups `good` can be healthy if each of `rest` stays or leaves."""
    if not rest:
        return all(_healthy(placing, group) for group in good)
    home, case = rest[0], placing.case
    own = case.groups[home.nodes[0]]
    ways = [home.nodes, *(p for g in good if g != own for p in case.places(home, g))]
    for nodes in ways:
        moved = home._replace(nodes=nodes)
        placing.placed.append(moved)
        stays = nodes == home.nodes
        possible = stays or placing.fits(moved, case.lenient)
        if possible and _repaired(placing, rest[1:], good):
            return True
        placing.placed.pop()
    return False


def place_case(seed: int, kind: str) -> Case:
    """Return a random group of 2 to 4 nodes that is nearly full, or too full."""
    rng = Random(f"place {seed} {kind}")
    case = _case(rng, kind, (rng.randint(2, 4),), 7, 0.5)
    return _too_full(rng, case)


def fewest_left_out(case: Case) -> int | None:
    """Return the least number of instances left out by a full re-placement; None if unknown.

    An instance that is left out keeps its disks. Instances on plain disks stay; those on an offline
    node are left out.
    """
    steps, movable, staying, stopped = Steps(), [], [], 0
    for home in case.homes:
        if home.template != "plain":
            movable.append(home)
        elif home.nodes[0] in case.down:
            stopped += 1
        else:
            staying.append(home)
    # Limits count less for instances that leave an offline node, so these come last
    movable.sort(key=lambda home: home.nodes[0] in case.down)
    orders = movable, sorted(movable, key=lambda h: (h.nodes[0] in case.down, -h.memory))
    try:
        for number in range(len(movable) + 1):
            for out in combinations(movable, number):
                disks = [home._replace(memory=0, cpus=0) for home in out if home.template == "drbd"]
                rest = [home for home in movable if home not in out]
                placing = Placing(case, [*staying, *disks], steps, case.homes, anew=True)
                if any(
                    _placed_beside(
                        placing, stayers, [h for h in order if h not in (*out, *stayers)]
                    )
                    for count in range(len(rest), -1, -1)
                    for stayers in combinations(rest, count)
                    for order in orders
                ):
                    return stopped + number
    except TooManyError:
        return None
    return stopped + len(movable)


def _placed_beside(placing: Placing, stayers: Sequence[Home], movers: Sequence[Home]) -> bool:
    """Return whether all of `movers` can be placed in their group if `stayers` keep their nodes.

    Instances that stay come first: they may stay beside each other even if the nodes lack capacity.
    """
    if any(placing.case.down.intersection(home.nodes[:1]) for home in stayers):
        return False
    number = len(placing.placed)
    placing.placed += stayers
    possible = _placed_anew(placing, movers)
    del placing.placed[number:]
    return possible


def _placed_anew(placing: Placing, rest: Sequence[Home]) -> bool:
    """Return whether all of `rest` can be placed in their group."""
    case = placing.case
    if not rest:
        several = len([k for k in range(len(case.machines)) if k not in case.down]) > 1
        return not several or placing.keeps_n1()
    home = rest[0]
    places = [nodes for nodes in case.places(home, 0) if nodes != home.nodes]
    if len(home.nodes) > 1:  # without a secondary, the disks may stay on the offline node
        on = [k for k in home.nodes if k not in case.down]
        off = [k for k in home.nodes if k in case.down]
        places += [(on[0], off[0])] if on and off else []
    forced = case.lenient or home.nodes[0] in case.down
    for nodes in places:
        moved = home._replace(nodes=nodes)
        placing.placed.append(moved)
        fits = placing.fits(moved, forced, home.nodes[-1] in case.down)
        if fits and _placed_anew(placing, rest[1:]):
            return True
        placing.placed.pop()
    return False
