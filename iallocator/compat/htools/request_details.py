"""Write a request, and the data of a cluster, as hail prints them with ``-v``: values of Haskell.

Existing instances, nodes and groups appear as their positions in the message.
"""

from __future__ import annotations

from collections import Counter
from math import ceil

from iallocator.compat.htools.formats import domain, policy_text
from iallocator.model.columns import (
    CPUS,
    CPUS_LATER,
    DISK,
    DISK_LATER,
    FREE_SPINDLES,
    FREE_SPINDLES_LATER,
    MEMORY,
    MEMORY_LATER,
    MISPLACED,
    SPINDLES,
    SPINDLES_LATER,
)
from iallocator.model.templates import TEMPLATES
from iallocator.requests.existing import AllocateSecondary, ChangeGroup, NodeEvacuate, Relocate
from iallocator.units import shortest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Any

    from iallocator.model.cluster import Cluster, Group, Node
    from iallocator.model.instance import Instance
    from iallocator.model.policy import Policy
    from iallocator.model.state import State
    from iallocator.requests.existing import Request

__all__ = ["cluster_text", "details_of", "group_text"]

EVACUATION_MODES = {
    "all": "ChangeAll",
    "primary-only": "ChangePrimary",
    "secondary-only": "ChangeSecondary",
}
"""Mode of an evacuation -> its name in hail's output."""

NIC_MODES = {"bridged": "Bridged", "routed": "Routed", "openvswitch": "OpenVSwitch"}
"""Mode of a network interface -> its name in hail's output."""

LOAD = "DynUtil {cpuWeight = 1.0, memWeight = 1.0, dskWeight = 1.0, netWeight = 1.0}"
"""The load of a new instance, as hail prints it."""

STATES = {
    "up": "Running", "down": "StatusDown", "offline": "StatusOffline", "USER_down": "UserDown",
    "ERROR_up": "ErrorUp", "ERROR_down": "ErrorDown", "ERROR_wrongnode": "WrongNode",
    "ERROR_nodedown": "NodeDown", "ERROR_nodeoffline": "NodeOffline",
}  # fmt: skip
"""Administrative state of an instance, or its status in a text file -> its name in hail's
output.
"""

HYPERVISORS = {
    "kvm": "Kvm", "xen-pvm": "XenPvm", "xen-hvm": "XenHvm", "lxc": "Lxc", "chroot": "Chroot",
    "fake": "Fake",
}  # fmt: skip
"""Hypervisor -> its name in hail's output."""

ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
"""Character of a text -> its escape in a text of Haskell."""


def details_of(cluster: Cluster, request: Request, raw: dict[str, Any]) -> str:
    """Return `request` as hail prints it; `raw`: the request in Ganeti's message."""
    nodes, place = len(cluster.nodes), _instance_positions(cluster)

    def places(instances: Iterable[Instance]) -> str:
        return ",".join(str(place[one.name]) for one in instances)

    match request:
        case Relocate(instance=one):
            count = len(one.nodes) - 1 or 1
            return f"Relocate {places([one])} {count} [{nodes - 1 - request.source}]"
        case AllocateSecondary(instance=one):
            return f"AllocateSecondary {places([one])}"
        case NodeEvacuate():
            return f"NodeEvacuate [{places(request.instances)}] {EVACUATION_MODES[request.mode]}"
        case ChangeGroup():
            targets = ",".join(str(group.index) for group in request.targets or ())
            return f"ChangeGroup [{places(request.instances)}] [{targets}]"
    if raw["type"] == "multi-allocate":
        group = raw.get("group_name")
        pairs = zip(raw["instances"], request.new)
        listed = ",".join(
            f"({_new(one, own.instance)},{_allocation(one, group)})" for one, own in pairs
        )
        return f"MultiAllocate [{listed}]"
    allowed = raw.get("restrict-to-nodes")
    listed = "Nothing" if allowed is None else f"(Just {_texts(allowed)})"
    new = _new(raw, request.new[0].instance)
    return f"Allocate ({new}) ({_allocation(raw, raw.get('group_name'))}) {listed}"


def _instance_positions(cluster: Cluster) -> dict[str, int]:
    """Return name of an instance -> its number in hail's output; the last one read is number 0."""
    ordered = sorted(cluster.instances, key=lambda one: one.order, reverse=True)
    return {one.name: number for number, one in enumerate(ordered)}


def group_text(group: Group, networks: Iterable[str], first: int = 0) -> str:
    """Return `group` in hail's words, with its `networks` in the order of the message.

    `first`: the position of the first group.
    """
    policy = "".join(part.capitalize() for part in group.alloc_policy.split("_"))
    return (
        f"Group {{name = {_text(group.name)}, uuid = {_text(group.uuid)}, "
        f"idx = {group.index + first}, allocPolicy = Alloc{policy}, networks = {_texts(networks)}, "
        f"iPolicy = {policy_text(group.policy)}, allTags = {_texts(group.tags)}}}"
    )


def cluster_text(
    state: State, policy: Policy, masters: Collection[str], raw: dict[str, Any], first: int
) -> str:
    """Return the cluster in its initial `state` as hail prints it.

    `raw`: Ganeti's message; {} if the cluster is from another source. `first`: the position of the
    first node and of the first group.
    """
    cluster = state.cluster
    groups = raw.get("nodegroups", {})
    held = raw.get("instances", {})
    hypervisors = raw.get("enabled_hypervisors")
    hypervisor = _just(HYPERVISORS[hypervisors[0]] if hypervisors else None)
    place = _instance_positions(cluster)
    last = len(cluster.nodes) - 1 + first
    end = domain(cluster)
    parts = {
        "cdGroups": (
            group_text(one, groups.get(one.uuid, {}).get("networks", one.networks), first)
            for one in cluster.groups
        ),
        "cdNodes": (
            _node(state, one, place, first, one.name in masters, hypervisor, end)
            for one in cluster.nodes[::-1]
        ),
        "cdInstances": (
            _existing(
                state, one, [last - index for index in one.nodes], place, held.get(one.name), end
            )
            for one in sorted(cluster.instances, key=lambda one: place[one.name])
        ),
    }
    start = {"cdInstances": 0}
    lists = ", ".join(
        f"{name} = fromList "
        f"[{','.join(f'({k},{text})' for k, text in enumerate(texts, start.get(name, first)))}]"
        for name, texts in parts.items()
    )
    return (
        f"ClusterData {{{lists}, cdTags = {_texts(cluster.tags)}, "
        f"cdIPolicy = {policy_text(policy)}}}"
    )


def _existing(
    state: State,
    instance: Instance,
    nodes: Sequence[int],
    place: Mapping[str, int],
    raw: dict[str, Any] | None,
    end: str,
) -> str:
    """Return an `instance` on `nodes` as hail prints it.

    `raw`: the instance in the message. `end`: the common end of all names, which the alias lacks.
    """
    sizes = [(size, None) for size in instance.disk_sizes or [instance.disk]]
    if raw is not None:
        sizes = [(one["size"], one.get("spindles")) for one in raw["disks"]]
    disks = ",".join(
        f"Disk {{dskSize = {size}, dskSpindles = {_just(spindles)}}}" for size, spindles in sizes
    )
    secondary = nodes[1] if len(nodes) > 1 else -1
    state_name = STATES.get(instance.status_word, STATES[instance.admin_state])
    name = _text(instance.name)
    return (
        f"Instance {{name = {name}, alias = {_text(instance.name.removesuffix(end))}, "
        f"mem = {instance.memory}, "
        f"dsk = {instance.disk}, disks = [{disks}], vcpus = {instance.vcpus}, "
        f"runSt = {state_name}, pNode = {nodes[0]}, sNode = {secondary}, "
        f"idx = {place[instance.name]}, util = {_load(instance.load)}, "
        f"movable = {instance.kind.relocatable and instance.kind.has_disks}, "
        f"autoBalance = {instance.auto_balance}, "
        f"diskTemplate = {TEMPLATES[instance.template].in_htools[1]}, "
        f"spindleUse = {instance.spindle_use}, allTags = {_texts(instance.tags)}, "
        f"exclTags = {_texts(instance.exclusion)}, "
        f"dsrdLocTags = fromList {_texts(sorted(instance.desired))}, "
        f"locationScore = {_shared(state, instance)}, arPolicy = ArNotEnabled, "
        f"nics = [{','.join(map(_nic, (raw or {}).get('nics', ())))}], "
        f"forthcoming = {instance.forthcoming}}}"
    )


def _node(
    state: State,
    node: Node,
    place: Mapping[str, int],
    first: int,
    is_master: bool,
    hypervisor: str,
    end: str,
) -> str:
    """Return `node` in its initial `state` as hail prints it.

    `end`: the common end of all names, which the alias lacks.
    """
    index, last = node.index, len(state.cluster.nodes) - 1 + first
    columns = [column[index] for column in state.columns]
    here = list(state.primaries[index].values())
    also = list(state.secondaries[index].values())
    used = sum(one.memory for one in here if one.uses_memory)
    free = node.reported_memory
    free_later = int(columns[MEMORY_LATER])
    reserved = ceil(state.reserved[index])
    memory, disk, cpus = node.total_memory, node.total_disk, node.total_cpus
    present = [one for one in here if not one.forthcoming]
    mirrored = [one for one in also if not one.forthcoming]
    lists = {
        "pList": _places(present, place),
        "pListForth": _places(here, place),
        "sList": _places(mirrored, place),
        "sListForth": _places(also, place),
    }
    peers = _peers(sorted(mirrored, key=lambda one: place[one.name]), last)
    spindles = node.total_spindles if node.exclusive_storage else node.spindle_count
    spindles_free = [node.free_spindles] * 2
    shares = [_quotient(columns[k], disk) if disk else "1.0" for k in (DISK, DISK_LATER)]
    used_spindles = [float(columns[k]) for k in (SPINDLES, SPINDLES_LATER)]
    if node.exclusive_storage:
        used_spindles = [0.0, 0.0]
        spindles_free = [int(columns[k]) for k in (FREE_SPINDLES, FREE_SPINDLES_LATER)]
        shares = [_quotient(one, spindles) if spindles else "1.0" for one in spindles_free]
    failing = reserved > max(0, free)
    most_spindles = node.group.policy.spindle_ratio * spindles
    memory_shares = [_quotient(one, memory) for one in (columns[MEMORY], free_later)]
    locations = Counter(
        (location, tag) for one in present for tag in one.exclusion for location in node.locations
    )
    tagged = ",".join(
        f"(({_text(location)},{_text(tag)}),{count})"
        for (location, tag), count in sorted(locations.items())
    )
    tags = ",".join(
        f"({_text(tag)},{count})" for tag, count in sorted(state.exclusion[index].items()) if count
    )
    name = _text(node.name)
    return (
        f"Node {{name = {name}, alias = {_text(node.name.removesuffix(end))}, "
        f"tMem = {float(memory)}, "
        f"nMem = {node.reserved_memory}, iMem = {used}, fMem = {free}, "
        f"fMemForth = {free_later}, "
        f"xMem = {memory - node.reserved_memory - used - free}, "
        f"tDsk = {float(disk)}, fDsk = {int(columns[DISK])}, "
        f"fDskForth = {int(columns[DISK_LATER])}, tCpu = {float(cpus)}, "
        f"tCpuSpeed = {shortest(node.cpu_speed)}, nCpu = {node.reserved_cpus}, "
        f"uCpu = {int(columns[CPUS])}, uCpuForth = {int(columns[CPUS_LATER])}, "
        f"tSpindles = {spindles}, fSpindles = {spindles_free[0]}, "
        f"fSpindlesForth = {spindles_free[1]}, "
        f"{', '.join(f'{key} = [{numbers}]' for key, numbers in lists.items())}, "
        f"idx = {last - index}, peers = [{peers}], "
        f"failN1 = {failing}, failN1Forth = True, rMem = {reserved}, rMemForth = 0, "
        f"pMem = {memory_shares[0]}, pMemForth = {memory_shares[1]}, "
        f"pDsk = {shares[0]}, pDskForth = {shares[1]}, "
        f"pRem = {_quotient(reserved, memory)}, pRemForth = 0.0, "
        f"pCpu = {_quotient(columns[CPUS], cpus)}, "
        f"pCpuForth = {_quotient(columns[CPUS_LATER], cpus)}, mDsk = 0.0, loDsk = 0, "
        f"hiCpu = {int(node.vcpu_ratio * cpus)}, hiSpindles = {shortest(most_spindles)}, "
        f"instSpindles = {used_spindles[0]}, "
        f"instSpindlesForth = {used_spindles[1]}, offline = {not node.online}, "
        f"isMaster = {is_master}, nTags = {_texts(node.tags)}, utilPool = {LOAD}, "
        f"utilLoad = {_loads(present, mirrored)}, utilLoadForth = {_loads(here, also)}, "
        f"pTags = fromList [{tags}], "
        f"group = {node.group.index + first}, iPolicy = {policy_text(node.group.policy)}, "
        f"exclStorage = {node.exclusive_storage}, "
        f"migTags = fromList {_texts(sorted(node.migration))}, "
        f"rmigTags = fromList {_texts(sorted(node.receives))}, "
        f"locationTags = fromList {_texts(sorted(node.locations))}, "
        f"locationScore = {int(columns[MISPLACED])}, "
        f"instanceMap = fromList [{tagged}], hypervisor = {hypervisor}}}"
    )


def _shared(state: State, instance: Instance) -> int:
    """Return how many location tags the nodes of an instance have in common."""
    primary, *others = [state.cluster.nodes[index].locations for index in instance.nodes]
    return sum(len(primary & one) for one in others)


def _peers(secondaries: Iterable[Instance], last: int) -> str:
    """Return the primaries of instances with a secondary on one node, and their reserved MiB.

    The largest amount is first; of equal amounts, the one that was reached last. `last`: the
    position of the first node of the model.
    """
    peers: list[tuple[int, int]] = []
    for one in secondaries:
        peer = last - one.nodes[0]
        memory = dict(peers).get(peer, 0) + (one.memory if one.reserves else 0)
        peers = [(peer, memory), *(other for other in peers if other[0] != peer)]
        peers.sort(key=lambda other: -other[1])  # stable
    return ",".join(f"({peer},{memory})" for peer, memory in peers)


def _places(instances: Iterable[Instance], place: Mapping[str, int]) -> str:
    return ",".join(map(str, sorted((place[one.name] for one in instances), reverse=True)))


def _loads(primaries: Sequence[Instance], secondaries: Iterable[Instance]) -> str:
    """Return the sum of the loads on a node; a secondary has only the load of its disk."""
    sums = [float(sum(loads)) for loads in zip(*(one.load for one in primaries))] or [0.0] * 4
    sums[2] += sum(one.load[2] for one in secondaries)
    return _load(sums)


def _load(values: Sequence[float]) -> str:
    names = ("cpuWeight", "memWeight", "dskWeight", "netWeight")
    listed = ", ".join(f"{name} = {shortest(value)}" for name, value in zip(names, values))
    return f"DynUtil {{{listed}}}"


def _quotient(part: float, whole: float) -> str:
    """Return ``part / whole`` as hail prints it; Infinity or NaN if `whole` is 0."""
    if whole:
        return shortest(part / whole)
    return f"{'-' if part < 0 else ''}Infinity" if part else "NaN"


def _allocation(raw: dict[str, Any], group: str | None) -> str:
    """Return the part on the number of nodes that a new instance requires, and on its `group`."""
    wanted = _maybe(group)
    return f"AllocDetails {raw['required_nodes']} {f'({wanted})' if group is not None else wanted}"


def _new(raw: dict[str, Any], instance: Instance) -> str:
    """Return the new `instance` as hail prints it; `raw`: the instance in Ganeti's message."""
    name = _text(raw["name"])
    disks = ",".join(
        f"Disk {{dskSize = {one['size']}, dskSpindles = {_just(one.get('spindles'))}}}"
        for one in raw["disks"]
    )
    return (
        f"Instance {{name = {name}, alias = {name}, mem = {raw['memory']}, "
        f"dsk = {raw['disk_space_total']}, disks = [{disks}], vcpus = {raw['vcpus']}, "
        f"runSt = Running, pNode = 0, sNode = 0, idx = -1, util = {LOAD}, "
        f"movable = {instance.kind.relocatable and instance.kind.has_disks}, autoBalance = True, "
        f"diskTemplate = {TEMPLATES[raw['disk_template']].in_htools[1]}, "
        f"spindleUse = {raw['spindle_use']}, allTags = {_texts(raw['tags'])}, "
        f"exclTags = {_texts(instance.exclusion)}, "
        f"dsrdLocTags = fromList {_texts(sorted(instance.desired))}, locationScore = 0, "
        f"arPolicy = ArNotEnabled, nics = [{','.join(map(_nic, raw['nics']))}], "
        "forthcoming = False}"
    )


def _nic(raw: dict[str, Any]) -> str:
    """Return the network interface `raw` as hail prints it."""
    mode = raw.get("mode")
    return (
        f"Nic {{mac = {_maybe(raw.get('mac'))}, ip = {_maybe(raw.get('ip'))}, "
        f"mode = {_just(mode and NIC_MODES[mode])}, link = {_maybe(raw.get('link'))}, "
        f"bridge = {_maybe(raw.get('bridge'))}, network = {_maybe(raw.get('network'))}}}"
    )


def _just(value: object) -> str:
    return "Nothing" if value is None else f"Just {value}"


def _maybe(text: str | None) -> str:
    return _just(None if text is None else _text(text))


def _texts(texts: Iterable[str]) -> str:
    return f"[{','.join(map(_text, texts))}]"


def _text(text: str) -> str:
    """Return `text` as Haskell writes it: in quotation marks, non-ASCII characters as numbers."""
    quoted = '"'
    numbered = False
    for letter in text:
        separate = "\\&" if numbered and letter.isdigit() else ""
        numbered = not " " <= letter <= "~" and letter not in ESCAPES
        quoted += separate + (f"\\{ord(letter)}" if numbered else ESCAPES.get(letter, letter))
    return f'{quoted}"'
