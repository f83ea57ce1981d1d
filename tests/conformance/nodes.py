"""Generate the groups, policies and nodes of a document."""

from __future__ import annotations

from random import Random

from tests.builders import Json

from .profiles import EVERY, Profile

NETWORKS = ("net-blue", "net-green", "net-red")
PLACES = ("rack:a", "rack:b", "rack:c", "power:1", "power:2")
BREEDS = ("cpu:old", "cpu:new", "cpu:newest")


def cluster_tags(rng: Random, profile: Profile) -> list[str]:
    """Return random cluster tags, which define the meaning of tags of nodes and instances."""
    tags = []
    if profile.exclusion:
        tags += rng.sample(["htools:iextags:service", "htools:iextags:customer"], rng.randint(1, 2))
    if profile.locations:
        tags += rng.sample(["htools:nlocation:rack", "htools:nlocation:power"], rng.randint(1, 2))
    if profile.desired:
        tags.append("htools:desiredlocation:rack")
        if "htools:nlocation:rack" not in tags:
            tags.append("htools:nlocation:rack")
    if profile.migration:
        tags.append("htools:migration:cpu")
        if rng.random() < 0.6:
            tags.append("htools:allowmigration:cpu:old::cpu:new")
            tags.append("htools:allowmigration:cpu:new::cpu:old")
    tags.append("owner:operations")
    rng.shuffle(tags)
    return tags


def node_tags(rng: Random, profile: Profile) -> list[str]:
    """Return random tags of a node: its location, and migrations that it can receive."""
    tags = []
    if profile.locations or profile.desired:
        tags += rng.sample(PLACES, rng.randint(0, 2))
    if profile.migration and rng.random() < 0.7:
        tags.append(rng.choice(BREEDS + BREEDS[:1] * 3))
    return tags


def spec(memory: int, disk: int, cpus: int, disks: int, spindles: int) -> Json:
    """Return one end of a policy interval; sizes are in MiB."""
    return {
        "memory-size": memory,
        "disk-size": disk,
        "cpu-count": cpus,
        "disk-count": disks,
        "nic-count": 1,
        "spindle-use": spindles,
    }


def policy(rng: Random, profile: Profile) -> Json:
    """Return a random ipolicy with `profile.intervals` intervals, templates and ratios."""
    templates = list(EVERY)
    if rng.random() < profile.picky:
        templates = sorted(rng.sample(templates, rng.randint(4, 8)))
    return {
        "minmax": _intervals(rng, profile.intervals),
        "std": spec(512, 2048, 1, 1, 1),
        "disk-templates": templates,
        "vcpu-ratio": rng.choice((0.5, 1.0, 1.5)) if profile.tight_ratios else 4,
        "spindle-ratio": rng.choice((0.5, 1.0, 2.5)) if profile.tight_ratios else 32,
    }


def _intervals(rng: Random, count: int) -> list[Json]:
    """Return `count` random intervals of sizes, which touch or leave gaps."""
    low, high = spec(128, 256, 1, 0, 1), spec(32768, 262144, 16, 16, 12)
    intervals = [{"min": low, "max": high}]
    for _ in range(count - 1):
        last = intervals.pop()
        cut = rng.choice((512, 1024, 2048))
        gap = rng.choice((0, 0, 0, 1))
        disk = rng.choice((16384, 262144, 262144))
        cpus, disks = rng.choice((2, 4, 8)), rng.choice((2, 4))
        below = spec(cut, disk, cpus, disks, 12)
        above = spec(cut + gap, 256, rng.choice((1, 1, 2)), 0, 1)
        intervals += [{"min": last["min"], "max": below}, {"min": above, "max": last["max"]}]
    if rng.random() < 0.1:
        intervals[0] = {"min": low, "max": spec(4096, 16384, 4, 2, 2)}
    rng.shuffle(intervals)
    return intervals


def groups(rng: Random, profile: Profile, kind: str) -> Json:
    """Return the random `nodegroups` of a document, by uuid."""
    names = ["default", "rack2", "annex"][: profile.groups]
    if profile.shuffled:
        rng.shuffle(names)
    policies = ("preferred",) * 6 + ("last_resort", "last_resort", "unallocable")
    return {
        f"uuid-{name}": {
            "name": name,
            "alloc_policy": rng.choice(policies),
            "networks": _networks(rng, profile),
            "ipolicy": policy(rng, profile),
            "tags": [],
        }
        for name in names
    }


def _networks(rng: Random, profile: Profile) -> list[str]:
    if not profile.networks:
        return []
    return rng.sample(NETWORKS, rng.randint(1, 3))


def nodes(rng: Random, profile: Profile, uuids: list[str]) -> Json:
    """Return the random `nodes` of a document without instances.

    `instances.settle` adds the amounts that depend on instances.
    """
    places = [uuid for uuid in uuids for _ in range(rng.randint(*profile.nodes))]
    names = [f"node{number}" for number in range(1, len(places) + 1)]
    dedicated = {uuid for uuid in uuids if _dedicated(rng, profile)}
    pairs = list(zip(names, places, strict=True))
    if profile.shuffled:
        rng.shuffle(pairs)
    usual = _size(rng, profile)
    found = {name: _node(rng, profile, uuid, uuid in dedicated, usual) for name, uuid in pairs}
    drained = {uuid for uuid in uuids if profile.drained and rng.random() < profile.drained}
    for node in found.values():
        node["drained"] |= node["group"] in drained
    return found


def _dedicated(rng: Random, profile: Profile) -> bool:
    """Return at random whether all nodes of a group have exclusive storage."""
    return profile.exclusive == "all" or (profile.exclusive == "groups" and rng.random() < 0.5)


def _size(rng: Random, profile: Profile) -> Json:
    memory = rng.choice((12288, 16384, 24576, 32768, 49152))
    if profile.kvm:
        memory = max(memory, 16384)
    cpus = rng.choice((8, 12, 16, 24, 32))
    disk = rng.choice((307200, 614400, 1228800))
    return {
        "total_memory": memory,
        "reserved_memory": rng.choice((0, 512, 1024, 2048)),
        "total_disk": int(disk * profile.disk) if profile.measured else 0,
        "total_cpus": max(2, int(cpus * profile.cpu)),
        "reserved_cpus": rng.choice((0, 0, 1, 2)),
    }


def _node(rng: Random, profile: Profile, uuid: str, dedicated: bool, usual: Json) -> Json:
    size = _size(rng, profile) if profile.heterogeneous else dict(usual)
    if rng.random() < 0.03:
        size["reserved_cpus"] = size["total_cpus"]
    exclusive = dedicated or (profile.exclusive == "nodes" and rng.random() < 0.5)
    spindles = rng.randint(8, 40) if exclusive and profile.measured else 0
    return {
        **size,
        "total_spindles": spindles,
        "tags": node_tags(rng, profile),
        "primary_ip": "192.0.2.1",
        "secondary_ip": "198.51.100.1",
        "group": uuid,
        "master_candidate": rng.random() < 0.5,
        "master_capable": True,
        **_health(rng, profile),
        "ndparams": _ndparams(rng, exclusive),
    }


def _health(rng: Random, profile: Profile) -> Json:
    health = {"offline": False, "drained": False, "vm_capable": True}
    if rng.random() < profile.unwell:
        ailment = rng.choice(("offline", "offline", "drained", "vm_capable"))
        health[ailment] = not health[ailment]
    return health


def _ndparams(rng: Random, exclusive: bool) -> Json:
    params: Json = {
        "exclusive_storage": exclusive,
        "oob_program": "",
        "spindle_count": rng.choice((1, 2, 4, 8, 12)),
        "ssh_port": 22,
    }
    if rng.random() < 0.6:
        params["cpu_speed"] = 1 if rng.random() < 0.999 else 2
    return params
