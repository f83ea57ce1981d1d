"""Rank nodes by placement keys with a second implementation, without kept values.

It uses nothing of the package: each query reads the document, rule by rule, in fractions. Of the
limits of nodes, it knows only the two free memories.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction

from tests.builders import Json

Key = tuple[str, str, str, Fraction, Fraction]
"""A key: level, class, name, value and weight."""

__all__ = ["Options", "Scenario"]

LEVELS = [
    "cluster", "billing entity", "customer product offer", "customer", "image product offer",
    "image", "vdc product offer", "vdc", "server product offer", "server",
    "first disk product offer", "first disk", "network product offer", "network",
    "first nic product offer", "first nic",
]  # fmt: skip
SPECIAL = {"ram": "#RAM", "cpu": "#CPU", "load": "#LOAD"}


class Options:
    """The options of the command line that affect placement keys."""

    def __init__(
        self, overhead: int = 1024, initial: int = 80, final: int = -10, steps: int = 10
    ) -> None:
        self.overhead = overhead
        self.thresholds = [
            initial + Fraction((final - initial) * number, steps - 1) for number in range(steps)
        ]
        self.words = [
            f"--affinity-overhead={overhead}",
            f"--initial-msav={initial}",
            f"--final-msav={final}",
            f"--msav-steps={steps}",
        ]


class Scenario:
    """A document with the present placement of its instances.

    `possible` returns whether a node can host an instance; by default, every online node can.
    """

    def __init__(
        self,
        document: Json,
        options: Options,
        possible: Callable[[Scenario, Json, str], bool] | None = None,
    ) -> None:
        self.document = document
        self.options = options
        self.possible = possible
        self.instances: dict[str, Json] = dict(document["instances"])
        self.where: dict[str, list[str]] = {n: i["nodes"] for n, i in self.instances.items()}
        self.asked: dict[str, list[Json]] = {}

    # places

    def online(self, node: str) -> bool:
        raw = self.document["nodes"][node]
        return not raw["offline"] and not raw["drained"] and bool(raw["vm_capable"])

    def members(self, uuid: str) -> list[str]:
        """Return the online nodes of a group, by name."""
        nodes = self.document["nodes"]
        return sorted(n for n in nodes if nodes[n]["group"] == uuid and self.online(n))

    def running(self, node: str) -> list[str]:
        """Return the instances that run on a node."""
        return [
            name
            for name, nodes in self.where.items()
            if nodes[0] == node
            and self.instances[name].get("admin_state", "up") == "up"
            and not self.instances[name].get("forthcoming")
        ]

    def put(self, name: str, raw: Json, nodes: Sequence[str], asked: Iterable[Json] = ()) -> None:
        """Start an instance on `nodes`; `asked` are keys in the request."""
        self.instances[name] = {**raw, "admin_state": raw.get("admin_state", "up")}
        self.where[name] = list(nodes)
        self.asked[name] = list(asked)

    def take(self, name: str) -> None:
        """Stop an instance, so that it is on no node."""
        del self.where[name]

    # keys

    def keys(self, raw: Json, asked: Iterable[Json]) -> Iterator[Key]:
        """Yield all keys of an instance, in the order of the document, tags first."""
        for tags, level in ((self.document["cluster_tags"], "cluster"), (raw["tags"], "server")):
            for tag in tags:
                yield from _resource_tag(tag, level)
        for item in self.document.get("placement_keys", []):
            yield _listed(item, "cluster")
        for item in [*raw.get("placement_keys", []), *asked]:
            yield _listed(item, "server")

    def compiled(
        self, raw: Json, asked: Iterable[Json], system: bool
    ) -> dict[str, tuple[Fraction, Fraction]]:
        """Return for each name the key of the lowest level; within one level, the last key."""
        found = [
            key
            for key in self.keys(raw, asked)
            if key[4] != 0
            and (key[1] != "customer") == system
            and not key[2].startswith("_" if system else "#")
        ]
        result = {}
        for name in {key[2] for key in found}:
            same = [key for key in found if key[2] == name]
            lowest = max(LEVELS.index(key[0]) for key in same)
            last = [key for key in same if LEVELS.index(key[0]) == lowest][-1]
            result[name] = (last[3], last[4])
        return result

    def own_keys(self, node: str) -> list[tuple[str, Fraction]]:
        """Return the keys of a node's tags."""
        found = []
        for tag in self.document["nodes"][node]["tags"]:
            parts = tag.split(":")
            if parts[0] == "iallocator" and parts[1] in ("key", "stickykey"):
                found.append((parts[2], Fraction(parts[3])))
        return found

    def sticky(self, node: str) -> list[str]:
        """Return the sticky keys that an instance on the node gets."""
        return [
            tag.replace("stickykey", "key" if ":_" in tag else "syskey")
            for tag in self.document["nodes"][node]["tags"]
            if tag.startswith("iallocator:stickykey:")
        ]

    def customer_keys(self, node: str) -> list[tuple[str, Fraction]]:
        """Return the keys of all instances on the node, and the reserved keys of the node."""
        found = [key for key in self.own_keys(node) if key[0].startswith("_")]
        for name in self.running(node):
            raw = self.instances[name]
            compiled = self.compiled(raw, self.asked.get(name, []), system=False)
            found += [(key, value) for key, (value, _) in compiled.items()]
        return found

    def system_keys(self, node: str) -> list[tuple[str, Fraction]]:
        """Return the node's own system keys, and those of its memory, cpus and load."""
        raw = self.document["nodes"][node]
        found = [key for key in self.own_keys(node) if not key[0].startswith("_")]
        memory = raw["total_memory"] * self.ratio(node, "ram", Fraction(1))
        policy = self.document["nodegroups"][raw["group"]]["ipolicy"]
        ratio = self.ratio(node, "cpu", Fraction(policy["vcpu-ratio"]))
        cpus = raw["total_cpus"] * ratio
        vcpus = sum(self.instances[name]["vcpus"] for name in self.running(node))
        found.append(("#RAM", min(Fraction(1), self.allocated(node) / memory)))
        found.append(("#CPU", min(Fraction(1), Fraction(vcpus) / cpus)))
        found.append(("#LOAD", min(Fraction(1), Fraction(str(raw.get("load", 0))))))
        return found

    # memory

    def ratio(self, node: str, kind: str, default: Fraction) -> Fraction:
        for tag in self.document["nodes"][node]["tags"]:
            if tag.startswith(f"iallocator:{kind}-contention:"):
                return Fraction(tag.rpartition(":")[2])
        return default

    def allocated(self, node: str) -> int:
        """Return the memory of the instances that run on a node, in MiB."""
        return sum(int(self.instances[name]["memory"]) for name in self.running(node))

    def has_memory(self, node: str, raw: Json) -> bool:
        """Return whether unallocated and free memory both exceed what the instance needs."""
        fresh = Scenario(self.document, self.options)
        known = self.document["nodes"][node]
        needed = raw["memory"] + self.options.overhead
        uncontended = known["total_memory"] * self.ratio(node, "ram", Fraction(1))
        contended = known["free_memory"] + fresh.allocated(node)
        here = self.allocated(node)
        return bool(uncontended - here > needed and contended - here > needed)

    # the rounds

    def rank(self, raw: Json, nodes: Iterable[str], asked: Iterable[Json]) -> list[list[str]]:
        """Return the acceptable nodes in ranks, best first; equal ones are sorted by name."""
        asked = list(asked)
        system = self.compiled(raw, asked, system=True)
        customer = self.compiled(raw, asked, system=False)
        waiting = [node for node in sorted(nodes) if self.has_memory(node, raw)]
        if self.possible:
            waiting = [node for node in waiting if self.possible(self, raw, node)]
        ranked: list[list[str]] = []
        for threshold in self.options.thresholds:
            passed = [n for n in waiting if _sum(system, self.system_keys(n)) > threshold]
            waiting = [node for node in waiting if node not in passed]
            scores = {node: _sum(customer, self.customer_keys(node)) for node in passed}
            for score in sorted(set(scores.values()), reverse=True):
                ranked.append([node for node in passed if scores[node] == score])
        return ranked

    def ranked(self, raw: Json, nodes: Iterable[str], asked: Iterable[Json]) -> list[str]:
        """Return the acceptable nodes from the best to the worst."""
        return [node for equals in self.rank(raw, nodes, asked) for node in equals]

    def choose(self, raw: Json, nodes: Iterable[str], asked: Iterable[Json] = ()) -> list[str]:
        """Return the best node, or the best pair of nodes for drbd; [] if there is none."""
        nodes, asked = list(nodes), list(asked)
        for primary in self.ranked(raw, nodes, asked):
            if raw["disk_template"] != "drbd":
                return [primary]
            others = [node for node in nodes if node != primary]
            for secondary in self.ranked(raw, others, asked):
                return [primary, secondary]
        return []

    def choose_group(
        self, raw: Json, uuids: Iterable[str], asked: Iterable[Json] = ()
    ) -> list[str]:
        """Return the best nodes of the best group: by allocation policy, then by rank."""
        asked = list(asked)
        for policy in ("preferred", "last_resort"):
            groups = [u for u in uuids if self._policy(u) == policy]
            offers = [self.choose(raw, self.members(uuid), asked) for uuid in groups]
            by_primary = {offer[0]: offer for offer in offers if offer}
            for primary in self.ranked(raw, by_primary, asked):
                return by_primary[primary]
        return []

    def _policy(self, uuid: str) -> str:
        return str(self.document["nodegroups"][uuid]["alloc_policy"])


def _sum(
    wanted: dict[str, tuple[Fraction, Fraction]], found: list[tuple[str, Fraction]]
) -> Fraction:
    total = Fraction(0)
    for name, here in found:
        if name in wanted:
            value, weight = wanted[name]
            difference = abs(value - here)
            proximity = Fraction(0) if difference >= 1 else 1 - difference
            total += weight * proximity
    return total


def _resource_tag(tag: str, level: str) -> Iterator[Key]:
    parts = tag.split(":")
    if parts[0] == "iallocator" and parts[1] in ("key", "syskey", "specialkey"):
        kind = {"key": "customer", "syskey": "system", "specialkey": "special"}[parts[1]]
        name = SPECIAL[parts[2]] if kind == "special" else parts[2]
        yield level, kind, name, Fraction(parts[3]), Fraction(parts[4])


def _listed(item: Json, level: str) -> Key:
    name = str(item["name"])
    if item["class"] == "special":
        name = SPECIAL.get(name, name)
    value, weight = Fraction(str(item["value"])), Fraction(str(item["weight"]))
    return str(item.get("level", level)), str(item["class"]), name, value, weight
