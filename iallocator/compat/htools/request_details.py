"""Write a request as hail prints it with ``-v``: a value of Haskell as text.

Existing instances, nodes and groups appear as their positions in the message.
"""

from __future__ import annotations

from iallocator.compat.htools.backend import policy_text
from iallocator.model.templates import TEMPLATES
from iallocator.requests.existing import AllocateSecondary, ChangeGroup, NodeEvacuate, Relocate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance
    from iallocator.requests.existing import Request

__all__ = ["details_of", "group_text"]

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

ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
"""Character of a text -> its escape in a text of Haskell."""


def details_of(cluster: Cluster, request: Request, raw: dict[str, Any]) -> str:
    """Return `request` as hail prints it; `raw`: the request in Ganeti's message."""
    nodes = len(cluster.nodes)
    ordered = sorted(cluster.instances, key=lambda one: one.order, reverse=True)
    place = {one.name: number for number, one in enumerate(ordered)}

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


def group_text(group: Group, networks: Iterable[str]) -> str:
    """Return `group` in hail's words, with its `networks` in the order of the message."""
    policy = "".join(part.capitalize() for part in group.alloc_policy.split("_"))
    return (
        f"Group {{name = {_text(group.name)}, uuid = {_text(group.uuid)}, idx = {group.index}, "
        f"allocPolicy = Alloc{policy}, networks = {_texts(networks)}, "
        f"iPolicy = {policy_text(group.policy)}, allTags = {_texts(group.tags)}}}"
    )


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
        f"movable = {instance.kind.relocatable}, autoBalance = True, "
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
