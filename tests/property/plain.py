"""Model the cluster without kept values: every query adds up all instances.

This second implementation follows the description of the model, not the package: sums over lists of
instances, `statistics.pstdev` over lists of nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from statistics import pstdev

from tests.builders import Json

__all__ = ["Plain", "Resident"]

STATIC_KVM_MEMORY = 4096
MEMORY_RATIO = "iallocator:memory-ratio:"
WITH_DISKS = ("drbd", "plain")


class Resident:
    """An instance as the document describes it, with its present nodes."""

    def __init__(self, name: str, raw: Json, nodes: Iterable[str]) -> None:
        self.name = name
        self.nodes = list(nodes)
        self.memory = int(raw["memory"])
        self.vcpus = int(raw["vcpus"])
        self.template = str(raw["disk_template"])
        self.local = self.template in WITH_DISKS
        self.disk = int(raw["disk_space_total"]) if self.local else 0
        self.spindle_use = int(raw["spindle_use"]) if self.local else 0
        known = [disk.get("spindles") for disk in raw["disks"]]
        known = known if self.local else []
        self.spindles_unknown = None in known
        self.spindles = 0 if self.spindles_unknown else sum(known)
        self.admin_state = str(raw.get("admin_state", "up"))
        self.forthcoming = bool(raw.get("forthcoming", False))
        self.balanced = bool(raw.get("auto_balance", True))
        self.tags = list(raw["tags"])

    @property
    def runs(self) -> bool:
        """Return whether the instance uses memory."""
        return self.admin_state == "up" and not self.forthcoming

    @property
    def takes_over(self) -> bool:
        """Return whether the secondary node needed the memory of the instance at its placement."""
        return self.admin_state != "offline" and self.balanced

    @property
    def fails_over(self) -> bool:
        """Return whether the secondary node reserves memory for the instance."""
        return self.admin_state != "offline" and self.balanced and not self.forthcoming


class Plain:
    """A document with the present placement of its instances, which may change."""

    def __init__(self, document: Json) -> None:
        self.document = document
        self.nodes: dict[str, Json] = document["nodes"]
        self.groups: dict[str, Json] = document["nodegroups"]
        self.before = [Resident(n, raw, raw["nodes"]) for n, raw in document["instances"].items()]
        self.now = {one.name: one for one in self.before}

    def put(self, name: str, raw: Json, nodes: Iterable[str]) -> None:
        """Place the instance called `name` on `nodes`."""
        self.now[name] = Resident(name, raw, nodes)

    def take(self, name: str) -> None:
        """Remove the instance called `name` from its nodes."""
        del self.now[name]

    def online(self, node: str) -> bool:
        """Return whether the node accepts instances."""
        raw = self.nodes[node]
        return not (raw["offline"] or raw["drained"] or not raw["vm_capable"])

    def members(self, group: str) -> list[str]:
        """Return the nodes of the group called `group`."""
        (uuid,) = (uuid for uuid, raw in self.groups.items() if raw["name"] == group)
        return [name for name, raw in self.nodes.items() if raw["group"] == uuid]

    def number(self, node: str, key: str) -> int:
        """Return the amount that the node reports; 0 if it cannot be queried."""
        return int(self.nodes[node].get(key, 0))

    def policy(self, node: str) -> Json:
        """Return the policy of the node's group."""
        policy: Json = self.groups[self.nodes[node]["group"]]["ipolicy"]
        return policy

    def exclusive(self, node: str) -> bool:
        """Return whether disks on the node have dedicated spindles."""
        return bool(self.nodes[node]["ndparams"]["exclusive_storage"])

    def primaries(self, node: str) -> list[Resident]:
        """Return the instances with their primary on the node."""
        return _primaries(self.now.values(), node)

    def secondaries(self, node: str) -> list[Resident]:
        """Return the instances with their secondary on the node."""
        return _secondaries(self.now.values(), node)

    # memory, MiB

    def free_memory(self, node: str) -> int:
        """Return the free memory of the node in MiB, less what was missing initially."""
        return self._free_memory(node, self.now.values())

    def _free_memory(self, node: str, instances: Iterable[Resident]) -> int:
        missing = self._recorded(node, self.before) - self.number(node, "free_memory")
        return self._recorded(node, instances) - max(0, missing) + self._lent(node)

    def _lent(self, node: str) -> int:
        """Return the MiB that the tag memory-ratio of the group or the cluster adds to the node."""
        ratio = Fraction(1)
        group: Json = self.groups[self.nodes[node]["group"]]
        for tag in (*self.document.get("cluster_tags", ()), *group.get("tags", ())):
            if tag.startswith(MEMORY_RATIO):
                ratio = Fraction(tag.removeprefix(MEMORY_RATIO))
        return int((ratio - 1) * self._recorded(node, ()))

    def _recorded(self, node: str, instances: Iterable[Resident]) -> int:
        kvm = self.document["enabled_hypervisors"][:1] == ["kvm"]
        own = STATIC_KVM_MEMORY if kvm else self.number(node, "reserved_memory")
        used = sum(i.memory for i in _primaries(instances, node) if i.runs)
        return self.number(node, "total_memory") - own - used

    def free_memory_later(self, node: str) -> int:
        """Return the free memory after all instances that may run have started, in MiB."""
        idle = sum(i.memory for i in _primaries(self.before, node) if not i.runs)
        come = sum(i.memory for i in self.primaries(node))
        gone = sum(i.memory for i in _primaries(self.before, node))
        first = self.number(node, "free_memory")
        if self._lent(node):
            first = self._free_memory(node, self.before)
        return first - idle - (come - gone)

    def reserved(self, node: str) -> int:
        """Return the most MiB that the failure of one other node requires on the node."""
        peers: Counter[str] = Counter()
        for one in self.secondaries(node):
            if one.fails_over:
                peers[one.nodes[0]] += one.memory
        return max(peers.values(), default=0)

    def fails_n1(self, node: str) -> bool:
        """Return whether the failovers to the node need more memory than it has."""
        return self.free_memory(node) <= self.reserved(node)

    # disk (MiB), spindles, cpus; `later`: with forthcoming instances

    def free_disk(self, node: str, later: bool = False) -> int:
        """Return the free disk that the node reported, less disks that have moved to it since."""
        before = sum(i.disk for i in _on(self.before, node) if not i.forthcoming)
        now = sum(i.disk for i in self._counted(node, later))
        return self.number(node, "free_disk") + before - now

    def free_spindles(self, node: str, later: bool = False) -> int:
        """Return the spindles of the node that no disk uses exclusively."""
        before = sum(i.spindles for i in _on(self.before, node) if not i.forthcoming)
        now = sum(i.spindles for i in self._counted(node, later))
        free = self.number(node, "free_spindles") + before - now
        if later and self._spindles_unknown(node):
            arrived = now - sum(i.spindles for i in _on(self.before, node))
            return self._beside_unknown(node) - arrived
        return free

    def _beside_unknown(self, node: str) -> int:
        """Return negative spindles if instances of the node have an unknown number of spindles."""
        coming = [i for i in _on(self.before, node) if i.forthcoming]
        coming.sort(key=lambda i: i.name, reverse=True)
        last = max(at for at, one in enumerate(coming) if one.spindles_unknown)
        return -1 - sum(one.spindles for one in coming[last + 1 :])

    def _spindles_unknown(self, node: str) -> bool:
        """Return whether a forthcoming instance on the node has an unknown number of spindles."""
        return self.exclusive(node) and any(
            one.forthcoming and one.spindles_unknown for one in _on(self.before, node)
        )

    def used_spindles(self, node: str, later: bool = False) -> int:
        """Return the sum of the spindle use of the node's instances, as for shared spindles."""
        return sum(i.spindle_use for i in self._counted(node, later))

    def high_spindles(self, node: str) -> float:
        """Return the highest number of spindles in use on the node that the policy allows."""
        count = self.nodes[node]["ndparams"]["spindle_count"]
        return float(self.policy(node)["spindle-ratio"] * count)

    def used_cpus(self, node: str, later: bool = False) -> int:
        """Return the virtual cpus in use on the node, including those of the node itself."""
        here = [i for i in self.primaries(node) if later or not i.forthcoming]
        used = sum(i.vcpus for i in here if i.admin_state != "offline")
        return self.number(node, "reserved_cpus") + used

    def _counted(self, node: str, later: bool) -> list[Resident]:
        return [i for i in _on(self.now.values(), node) if later or not i.forthcoming]

    # tags

    def exclusion(self, one: Resident) -> set[str]:
        """Return the tags of an instance that a node may have only once."""
        return {t for t in one.tags if t.startswith(self._meaning("htools:iextags:"))}

    def desired(self, one: Resident) -> set[str]:
        """Return the desired locations of an instance."""
        return {t for t in one.tags if t.startswith(self._meaning("htools:desiredlocation:"))}

    def locations(self, node: str) -> set[str]:
        """Return the locations of a node."""
        kinds = tuple(kind + ":" for kind in self._meaning("htools:nlocation:"))
        return {tag for tag in self.nodes[node]["tags"] if tag.startswith(kinds)}

    def _meaning(self, kind: str) -> tuple[str, ...]:
        tags = self.document["cluster_tags"]
        return tuple(tag.removeprefix(kind) for tag in tags if tag.startswith(kind))

    # the score

    def score(self, scope: Iterable[str]) -> float:
        """Return the cluster score over the nodes in `scope`; lower is better."""
        return sum(weight * value for _, weight, value in self.terms(list(scope)))

    def terms(self, scope: list[str]) -> Iterator[tuple[str, float, float]]:
        """Return name, weight and value of each of the twenty statistics."""
        online = [node for node in scope if self.online(node)]
        offline = [node for node in scope if not self.online(node)]
        yield "free_mem", 0.5, _spread(self._memory_share(n) for n in online)
        yield "free_disk", 0.5, _spread(self._disk_share(n, False) for n in online)
        yield "n1_cnt", 1, sum(self._instances(n) for n in online if self.fails_n1(n))
        yield "reserved_mem", 1, _spread(self._reserved_share(n) for n in online)
        yield "offline_all", 4, sum(self._instances(n) for n in offline)
        yield "offline_pri", 16, sum(len(_real(self.primaries(n))) for n in offline)
        yield "vcpu_ratio", 0.5, _spread(self._cpu_share(n, False) for n in online)
        for name in ("cpu_load", "mem_load", "net_load"):
            yield name, 1, _spread(len(_real(self.primaries(n))) for n in online)
        yield "disk_load", 1, _spread(self._instances(n) for n in online)
        yield "pri_tags", 2, sum(self._conflicts(n) for n in online)
        yield "spindles", 0.5, _spread(self._spindle_share(n, False) for n in online)
        yield "free_mem_forth", 0.5, _spread(self._memory_share(n, True) for n in online)
        yield "free_disk_forth", 0.5, _spread(self._disk_share(n, True) for n in online)
        yield "vcpu_ratio_forth", 0.5, _spread(self._cpu_share(n, True) for n in online)
        yield "spindles_forth", 0.5, _spread(self._spindle_share(n, True) for n in online)
        yield "location", 1, sum(self._misplaced(n) for n in online)
        yield "location_exclusion", 1, self._shared_domains(online)
        yield "reserved_mem_total", 0.25, sum(self._reserved_share(n) for n in online)

    def _instances(self, node: str) -> int:
        return len(_real(self.primaries(node))) + len(_real(self.secondaries(node)))

    def _memory_share(self, node: str, later: bool = False) -> float:
        free = self.free_memory_later(node) if later else self.free_memory(node)
        return _share(free, self.number(node, "total_memory"))

    def _reserved_share(self, node: str) -> float:
        return _share(self.reserved(node), self.number(node, "total_memory"))

    def _disk_share(self, node: str, later: bool) -> float:
        if self.exclusive(node):
            total = self.number(node, "total_spindles")
            return _share(self.free_spindles(node, later), total, without=1)
        return _share(self.free_disk(node, later), self.number(node, "total_disk"), without=1)

    def _cpu_share(self, node: str, later: bool) -> float:
        speed = float(self.nodes[node]["ndparams"].get("cpu_speed", 1))
        return _share(self.used_cpus(node, later), self.number(node, "total_cpus")) / speed

    def _spindle_share(self, node: str, later: bool) -> float:
        if self.exclusive(node):
            return 0
        return _share(self.used_spindles(node, later), self.high_spindles(node))

    def _conflicts(self, node: str) -> int:
        tags = Counter(tag for one in self.primaries(node) for tag in self.exclusion(one))
        return sum(count - 1 for count in tags.values())

    def _misplaced(self, node: str) -> int:
        here = self.locations(node)
        points = 0
        for one in _real(self.primaries(node)):
            points += len(self.desired(one) - here)
            points += sum(len(here & self.locations(other)) for other in one.nodes[1:])
        return points

    def _shared_domains(self, online: list[str]) -> int:
        pairs = Counter(
            (location, tag)
            for node in online
            for one in _real(self.primaries(node))
            for location in self.locations(node)
            for tag in self.exclusion(one)
        )
        return sum(count - 1 for count in pairs.values())


def _primaries(instances: Iterable[Resident], node: str) -> list[Resident]:
    return [one for one in instances if one.nodes[0] == node]


def _secondaries(instances: Iterable[Resident], node: str) -> list[Resident]:
    return [one for one in instances if node in one.nodes[1:]]


def _on(instances: Iterable[Resident], node: str) -> list[Resident]:
    return [one for one in instances if node in one.nodes]


def _real(instances: Iterable[Resident]) -> list[Resident]:
    """Return the instances that exist, without forthcoming ones."""
    return [one for one in instances if not one.forthcoming]


def _share(part: float, whole: float, without: float = 0) -> float:
    return part / whole if whole else without


def _spread(values: Iterable[float]) -> float:
    found = list(values)
    return pstdev(found) if found else 0
