"""Exclude documents from comparisons, each with its reason.

If hail is known to be wrong, or reads less than iallocator, a difference has no meaning.
"""

from __future__ import annotations

from tests.builders import Json

STATIC_KVM_MEMORY = 4096

CPU_SPEED = "a node's cpu_speed is not 1: hail does not read it"
OWN_GROUP = "an instance of the batch names its own group: hail does not read it"
AUTO_BALANCE = "an instance is not auto-balanced: hail does not read it"
START_N1 = "hail 3.0.2 checks the N+1 of a node with another figure at the start"
NO_NUMBER = "hail's score is not a number: exclusive storage without spindles"
LOST_ALLOCATIONS = "lost allocations rank a group: hail tests no N+1 then"


def incomparable(document: Json, like_hail: bool = False) -> str:
    """Return why answers to a document cannot be compared with hail's; "" if they can.

    With `like_hail`, this program reads no more than hail does.
    """
    speeds = (node["ndparams"].get("cpu_speed", 1) for node in document["nodes"].values())
    if not like_hail and any(speed != 1 for speed in speeds):
        return CPU_SPEED
    if any(_unscored(node) for node in document["nodes"].values()):
        return NO_NUMBER
    if not like_hail and any(one.get("group_name") for one in _batch(document["request"])):
        return OWN_GROUP
    balanced = (one.get("auto_balance", True) for one in document["instances"].values())
    if not like_hail and not all(balanced):
        return AUTO_BALANCE
    if any(_n1_differs_at_start(document, name) for name in document["nodes"]):
        return START_N1
    return ""


def _unscored(node: Json) -> bool:
    """Return whether hail divides by zero for a node with exclusive storage but no spindles."""
    exclusive = node["ndparams"]["exclusive_storage"]
    return bool(exclusive) and _reports(node) and not node["total_spindles"]


def _batch(request: Json) -> list[Json]:
    """Return the new instances of a multi-allocate request; [] for other types."""
    return [one for one in request.get("instances", ()) if isinstance(one, dict)]


def comparable(document: Json) -> bool:
    """Return whether hail's answer to the document must equal iallocator's."""
    return not incomparable(document)


def ranked_otherwise(document: Json) -> bool:
    """Return whether iallocator or hail ranks a group by lost allocations.

    iallocator ranks every group with exclusive storage on all nodes in this way. hail does so if
    all allocatable groups are of this kind, and therefore also if no group is allocatable; then it
    does not test N+1 either.
    """
    groups = document["nodegroups"]
    dedicated = {uuid: _is_dedicated(document, uuid) for uuid in groups}
    by_hail = all(
        dedicated[uuid] for uuid in groups if groups[uuid]["alloc_policy"] != "unallocable"
    )
    return by_hail or any(dedicated.values())


def _is_dedicated(document: Json, uuid: str) -> bool:
    """Return whether all online nodes of a group have exclusive storage."""
    members = (node for node in document["nodes"].values() if node["group"] == uuid)
    nodes = [node for node in members if _reports(node) and not node["drained"]]
    return all(bool(node["ndparams"]["exclusive_storage"]) for node in nodes)


def _n1_differs_at_start(document: Json, name: str) -> bool:
    """Return whether reported and accounted free memory give a node different N+1 results.

    If both equal what the node reserves, iallocator follows hail.
    """
    node = document["nodes"][name]
    if not _reports(node):
        return False
    reserved = _reserved_for_peers(document, name)
    reported, accounted = int(node["free_memory"]), _free_memory(document, name)
    return (reported < reserved) != (
        accounted <= reserved
    ) and not reported == accounted == reserved


def _reports(node: Json) -> bool:
    return bool(node["vm_capable"]) and not node["offline"]


def _free_memory(document: Json, name: str) -> int:
    """Return the free memory of a node in MiB, computed from its instances."""
    node = document["nodes"][name]
    kvm = document["enabled_hypervisors"][:1] == ["kvm"]
    own = STATIC_KVM_MEMORY if kvm else node["reserved_memory"]
    used = sum(
        instance["memory"]
        for instance in document["instances"].values()
        if instance["nodes"][0] == name and _runs(instance)
    )
    recorded = node["total_memory"] - own - used
    return int(min(recorded, node["free_memory"]))


def _runs(instance: Json) -> bool:
    return instance.get("admin_state", "up") == "up" and not instance.get("forthcoming")


def _reserved_for_peers(document: Json, name: str) -> int:
    """Return the most MiB that the failure of one other node requires on this node."""
    peers: dict[str, int] = {}
    for instance in document["instances"].values():
        if name in instance["nodes"][1:] and _will_fail_over(instance):
            primary = instance["nodes"][0]
            peers[primary] = peers.get(primary, 0) + instance["memory"]
    return max(peers.values(), default=0)


def _will_fail_over(instance: Json) -> bool:
    return instance.get("admin_state", "up") != "offline" and not instance.get("forthcoming")
