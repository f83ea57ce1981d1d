"""Generate instances, and place them on the nodes of a document."""

from __future__ import annotations

from random import Random

from tests.builders import Json

from .nodes import NETWORKS, PLACES
from .profiles import Profile

Residents = tuple[list[Json], list[Json]]

SERVICES = ("service:dns", "service:mail", "customer:x", "customer:y")
MEASURED = ("drbd", "plain")
UNSIZED = ("diskless", "rbd", "ext", "blockdev")
DYNAMIC = (
    "total_memory",
    "reserved_memory",
    "free_memory",
    "total_disk",
    "free_disk",
    "total_spindles",
    "free_spindles",
    "total_cpus",
    "reserved_cpus",
    "i_pri_memory",
    "i_pri_up_memory",
)


def description(rng: Random, profile: Profile, template: str, wild: float = 0.0) -> Json:
    """Return the description of an instance without nodes.

    Its disk template is `template`; `wild` is the probability (0 to 1) of a size that most policies
    reject.
    """
    disks = _disks(rng, profile, template)
    out_of_policy = rng.random() < wild
    memory = rng.choice((128, 256, 512, 512, 1024, 1024, 1024, 2048, 2048, 4096))
    vcpus = rng.choice((1, 1, 1, 2, 2, 4))
    spindle_use = rng.choice((1, 1, 1, 2, 3))
    if out_of_policy:
        memory = rng.choice((memory, 64, 40000))
        vcpus = rng.choice((vcpus, 17, 24))
        spindle_use = rng.choice((spindle_use, 14))
    return {
        "memory": memory,
        "vcpus": vcpus,
        "spindle_use": spindle_use,
        "disks": disks,
        "disk_template": template,
        "disk_space_total": _disk_space(template, disks),
        "nics": _nics(rng, profile),
        "tags": _tags(rng, profile),
        "os": "debootstrap",
        "hypervisor": "kvm" if profile.kvm else "xen-pvm",
    }


def _disks(rng: Random, profile: Profile, template: str) -> list[Json]:
    if template == "diskless":
        return []
    disks = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        disk: Json = {"size": rng.choice((512, 1024, 2048, 4096, 10240, 20480)), "mode": "rw"}
        if profile.exclusive != "none" and rng.random() < 1 - profile.unsized:
            disk["spindles"] = rng.choice((1, 1, 1, 2, 3))
        elif rng.random() < 0.5:
            disk["spindles"] = None
        disks.append({**disk, "dev_type": template})
    return disks


def _disk_space(template: str, disks: list[Json]) -> int:
    """Return the MiB of disk on one node; each drbd disk has 128 MiB of metadata."""
    if template in UNSIZED:
        return 0
    metadata = 128 if template == "drbd" else 0
    return sum(disk["size"] + metadata for disk in disks)


def _nics(rng: Random, profile: Profile) -> list[Json]:
    nic: Json = {"mac": "aa:00:00:11:22:33", "ip": None, "mode": "bridged", "link": "br0"}
    if profile.networks and rng.random() < 0.5:
        nic["network"] = rng.choice(NETWORKS)
    return [nic] * rng.choice((0, 1, 1, 1, 2))


def _tags(rng: Random, profile: Profile) -> list[str]:
    tags = []
    if profile.exclusion and rng.random() < 0.4:
        tags += rng.sample(SERVICES, rng.choice((1, 1, 2)))
    if profile.desired and rng.random() < 0.5:
        tags.append(rng.choice([place for place in PLACES if place.startswith("rack")]))
    if rng.random() < 0.1:
        tags.append("note:none")
    return tags


def populate(rng: Random, profile: Profile, nodes: Json, nodegroups: Json) -> Json:
    """Return random instances for `nodes`, most of them within their group's policy.

    Every node gets primaries for up to about `profile.fill` of its memory.
    """
    instances: Json = {}
    for home in list(nodes):
        policy = nodegroups[nodes[home]["group"]]["ipolicy"]
        budget = nodes[home]["total_memory"] * profile.fill * rng.uniform(0.4, 1.0)
        if not _healthy(nodes[home]):
            budget *= rng.choice((0.0, 0.1, 0.5))
        while budget > 0 and rng.random() < 0.9:
            tries = (_resident(rng, profile, nodes, home) for _ in range(6))
            fit = [one for one in tries if within(policy, one)]
            if not fit or rng.random() < 0.03:
                fit = [_resident(rng, profile, nodes, home)]
            instance = fit[0]
            budget -= instance["memory"]
            if budget > 0:
                instances[f"instance{len(instances) + 1}"] = instance
    if not profile.shuffled:
        return instances
    return dict(rng.sample(list(instances.items()), len(instances)))


def within(policy: Json, instance: Json) -> bool:
    """Return whether an instance is in an interval of `policy`, ignoring spindles."""
    if instance["disk_template"] not in policy["disk-templates"]:
        return False
    return any(
        _between(interval, "memory-size", instance["memory"])
        and _between(interval, "cpu-count", instance["vcpus"])
        and _between(interval, "disk-count", len(instance["disks"]))
        and all(_between(interval, "disk-size", disk["size"]) for disk in instance["disks"])
        for interval in policy["minmax"]
    )


def _between(interval: Json, what: str, value: int) -> bool:
    return bool(interval["min"][what] <= value <= interval["max"][what])


def _healthy(node: Json) -> bool:
    return node["vm_capable"] and not (node["offline"] or node["drained"])


def _resident(rng: Random, profile: Profile, nodes: Json, home: str) -> Json:
    """Return one instance with its primary on node `home`."""
    peers = [
        name
        for name, node in nodes.items()
        if name != home and node["group"] == nodes[home]["group"]
    ]
    template = rng.choice(profile.templates)
    if template == "drbd" and not peers:
        template = "plain"
    places = [home]
    if template == "drbd":
        fit = [name for name in peers if _healthy(nodes[name])]
        places.append(rng.choice(fit if fit and rng.random() < 1 - profile.deserted else peers))
    instance = {**description(rng, profile, template), "nodes": places}
    instance["admin_state"] = "up"
    if rng.random() < profile.down:
        instance["admin_state"] = rng.choice(("down", "down", "offline"))
    if rng.random() < profile.forthcoming:
        instance["forthcoming"] = True
    if rng.random() < profile.unbalanced:
        instance["auto_balance"] = False
    return instance


def settle(rng: Random, profile: Profile, nodes: Json, instances: Json) -> None:
    """Set the amounts that `nodes` report for `instances`.

    Dead nodes report no amounts.
    """
    for name, node in nodes.items():
        _report(rng, profile, node, _residents(instances, name))
        dark = node["offline"] or not node["vm_capable"]
        if dark and not (profile.telling and rng.random() < profile.telling):
            remove_dynamic_fields(node)


def remove_dynamic_fields(node: Json) -> None:
    """Remove the fields that only a reachable node can report."""
    for field in DYNAMIC:
        node.pop(field, None)


def break_down(rng: Random, node: Json) -> None:
    """Mark a node at random as offline, drained or not vm_capable."""
    ailment = rng.choice(("offline", "drained"))
    node[ailment] = True
    if ailment == "offline":
        remove_dynamic_fields(node)


def _residents(instances: Json, name: str) -> Residents:
    """Return the primaries of a node, and all instances with disks on it."""
    primaries = [i for i in instances.values() if i["nodes"][0] == name]
    return primaries, [i for i in instances.values() if name in i["nodes"]]


def _report(rng: Random, profile: Profile, node: Json, residents: Residents) -> None:
    """Set the amounts that a node reports, with some difference to its instances."""
    primaries, holders = residents
    memory = sum(i["memory"] for i in primaries)
    running = sum(i["memory"] for i in primaries if _runs(i))
    held = [i for i in holders if i["disk_template"] in MEASURED and not i.get("forthcoming")]
    disk = sum(i["disk_space_total"] for i in held)
    spindles = sum(d.get("spindles") or 0 for i in held for d in i["disks"])
    free = node["total_memory"] - node["reserved_memory"] - running
    free_disk = node["total_disk"] - disk + _drift(rng, profile, 20480)
    node["free_memory"] = max(0, free + _drift(rng, profile, 1024))
    node["free_disk"] = min(node["total_disk"], max(0, free_disk))
    node["free_spindles"] = max(0, node["total_spindles"] - spindles)
    node["i_pri_memory"] = memory
    node["i_pri_up_memory"] = running


def _runs(instance: Json) -> bool:
    return instance["admin_state"] == "up" and not instance.get("forthcoming")


def _drift(rng: Random, profile: Profile, most: int) -> int:
    """Return a random difference between a report and the sum of the instances."""
    if profile.drift == "none" or rng.random() < 0.3:
        return 0
    sign = {"less": -1, "more": 1}.get(profile.drift) or rng.choice((-1, 1))
    return sign * rng.randint(1, most)
