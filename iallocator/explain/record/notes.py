"""Sentences about what decisions were made under: options, limits, groups not asked, the order."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.options.settings import Settings
    from iallocator.requests import Allocate

__all__ = [
    "CHOSEN_AS_NEW", "TOGETHER", "chosen_together", "entries_of", "limit_notes", "option_notes",
    "order_note", "request_notes", "scope_note", "unmovable_notes", "wish_notes",
]  # fmt: skip

N1_MODES = {
    "strict": "N+1 is strict: the failure of any node must be survived, whoever causes it.",
    "no-new": "N+1 minds no failure that is lost already.",
    "off": "Global N+1 is not looked at.",
}
"""What is worth a note where N+1 is not judged as usual."""

NAMED = 3
"""How many instances that went before are named at most."""

MARKS = ("; placed together by exact search", "; optimal: score")
"""What ``info`` says where places were chosen together."""

TOGETHER = "Its place was chosen together with those of the others, not by its own rank."

CHOSEN_AS_NEW = (
    "Chosen as for a new instance: scores run over all nodes, and what it uses now is still in use."
)


def chosen_together(response: Mapping[str, Any]) -> bool:
    """Whether the places of all instances were chosen at once."""
    return any(mark in response["info"] for mark in MARKS)


def entries_of(response: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of ``solutions`` that are about an instance, by its name."""
    return {one["instance"]: one for one in response["solutions"] if "instance" in one}


def request_notes(settings: Settings, request: Allocate) -> list[str]:
    """What the request and the options ask for besides the instance."""
    found = []
    if request.group_name is not None:
        found.append(f"The request names group {request.group_name}.")
    option = settings.restrict_allocation_to
    allowed = request.restrict_to if option is None else option
    if allowed is not None:
        source = "the request" if option is None else "--restrict-allocation-to"
        found.append(f"Restricted by {source} to {', '.join(allowed)}.")
    return found + option_notes(settings)


def option_notes(settings: Settings) -> list[str]:
    """What the options say of the limits for a new instance."""
    found = []
    if settings.ignore_soft_errors:
        found.append("Soft limits are not looked at.")
    if settings.n1 in N1_MODES:
        found.append(N1_MODES[settings.n1])
    return found


def limit_notes(cluster: Cluster, settings: Settings, instance: Instance) -> list[str]:
    """What is worth saying of the limits for moving `instance` off its nodes.

    `settings` are those of the group that decides.
    """
    if settings.ignore_soft_errors:
        return ["Soft limits are not looked at."]
    lost = [cluster.nodes[i].name for i in instance.nodes if not cluster.nodes[i].online]
    if not lost:
        return []
    return [f"Not online: {' and '.join(lost)}. Moves off there are held to hard limits only."]


def scope_note(cluster: Cluster, instance: Instance) -> list[str]:
    """Which groups are not asked where an instance has to stay in its own."""
    local = cluster.group_of(instance)
    others = [g.name for g in cluster.groups if g is not local and g.nodes]
    return [f"It stays in group {local.name}: not asked is {', '.join(others)}."] if others else []


def order_note(names: Sequence[str], done: str = "moved") -> list[str]:
    """What went before on the same state: the instances called `names` are `done`."""
    if not names:
        return []
    told = ", ".join(names) if len(names) <= NAMED else f"{len(names)} instances"
    verb = "is" if len(names) == 1 else "are"
    return [f"As things are once {told} of this request {verb} {done}."]


def unmovable_notes(cluster: Cluster, instance: Instance) -> list[str]:
    """Why an instance without a second copy of its disks cannot move."""
    if instance.kind.relocatable:
        return []
    return [
        f"Disks of type {instance.template} are on {cluster.nodes[instance.nodes[0]].name} only: "
        "no other node has a copy, and none can reach them."
    ]


def wish_notes(extra: Mapping[str, Any]) -> list[str]:
    """Return a note on each soft constraint that the place violates; `extra` is its entry's."""
    return [
        f"Its place violates a soft constraint: should be {text}."
        for text in extra.get("broken", ())
    ]
