"""Questions as a person puts them: words and options that become a request of Ganeti's.

=====================  ==============================================================
``allocate``           new instances, as ``--memory``, ``--disk`` and the like say
``evacuate NODES``     who is on these nodes (``--mode``: in which role)
``relocate NAME``      its secondary, or where its disks are shared its primary
``change-group NAMES`` to ``--to`` groups, or any other
=====================  ==============================================================

Names stand with commas between them; what comes before the first dot is enough where it
is unique.
"""

from __future__ import annotations

import re

from iallocator.errors import UsageError
from iallocator.model.templates import TEMPLATES
from iallocator.names import whole_name, whole_names
from iallocator.options import settings as options
from iallocator.options.parser import parse
from iallocator.options.table import Option
from iallocator.options.values import Choice, name_list, whole_between
from iallocator.planners.eligible import group_named
from iallocator.requests import EVAC_MODES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Json
    from iallocator.model.cluster import Cluster
    from iallocator.sources import Source


__all__ = ["KINDS", "OPTIONS", "Settings", "request_in_words", "request_of", "words_of"]

KINDS = ("allocate", "evacuate", "relocate", "change-group")

UNITS = {"": 1, "m": 1, "g": 1024, "t": 1024**2}
"""First letter of a unit -> MiB, as Ganeti's own commands read sizes."""

MOST = 10_000
"""New instances in one question."""


def size(text: str) -> int:
    """MiB from ``4G``, ``512``, ``1.5GiB``; every unit is binary, in any case."""
    form = r"([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*([mgt]?)(?:i?b)?"
    match = re.fullmatch(form, text, re.IGNORECASE)
    if not match:
        raise ValueError("a size such as 512M, 4G or 1T")
    return int(float(match[1]) * UNITS[match[2].lower()])


class Settings(options.Settings):
    """What new instances are like, and who is to move where."""

    name: str = ""
    memory: int | None = None
    vcpus: int = 1
    disk: Sequence[int] = ()
    template: str = ""
    spindle_use: int = 1
    instance_tags: Sequence[str] = ()
    network: Sequence[str] = ()
    group: str = ""
    count: int = 1
    mode: str = ""
    to: Sequence[str] = ()


OPTIONS = (
    Option("--name", "name", "allocate: the new instance's name (default new)", str, "NAME"),
    Option("--memory", "memory", "allocate: its memory", size, "SIZE"),
    Option("--vcpus", "vcpus", "allocate: its virtual cpus (default 1)", whole_between(1, 4096),
           "N"),
    Option("--disk", "disk", "allocate: the size of a disk; may repeat", size, "SIZE",
           repeats=True),
    Option("--template", "template", "allocate: its disk template", str, "NAME"),
    Option("--spindle-use", "spindle_use", "allocate: spindles it counts for (default 1)",
           whole_between(0, 4096), "N"),
    Option("--instance-tags", "instance_tags", "allocate: its tags", name_list, "TAG,..."),
    Option("--network", "network", "allocate: a network (uuid) of a nic; may repeat", str, "UUID",
           repeats=True),
    Option("--group", "group", "allocate: in this group", str, "GROUP"),
    Option("--count", "count", "allocate: so many of them", whole_between(1, MOST), "N"),
    Option("--mode", "mode", "evacuate: primary-only, secondary-only or all (default)",
           Choice(*EVAC_MODES), "MODE"),
    Option("--to", "to", "change-group: to one of these groups (name or uuid)", name_list,
           "GROUP,..."),
)  # fmt: skip

BELONGS = {option.target: option.help.partition(":")[0] for option in OPTIONS}
"""Attribute -> the kind of question that it is for."""


def words_of(positional: Sequence[str]) -> tuple[str, list[str], Sequence[str]]:
    """The kind, the names, and what is left: files.

    Raises
    ------
    UsageError
        If the question is not complete.
    """
    kind = positional[0] if positional else ""
    if kind not in KINDS:
        raise UsageError(f"ask one of {', '.join(KINDS)}" + (f", got {kind!r}" if kind else ""))
    if kind == "allocate":
        return kind, [], positional[1:]
    if len(positional) < 2:
        what = "nodes" if kind == "evacuate" else "instances"
        raise UsageError(f"ask {kind} needs the names of {what}")
    return kind, name_list(positional[1]) if positional[1] else [], positional[2:]


def request_of(kind: str, names: Sequence[str], settings: Settings, source: Source) -> Json:
    """The request that Ganeti would send.

    Raises
    ------
    UsageError
        If an option belongs to another question, or something is missing.
    NotFoundError
        If the cluster has no such node, instance or group.
    """
    for target, owner in BELONGS.items():
        if target in settings.chosen and owner != kind:
            raise UsageError(f"--{target.replace('_', '-')} is for {owner}, not for {kind}")
    cluster = source.cluster
    if kind == "allocate":
        return _allocate(settings, source)
    if kind == "evacuate":
        return _evacuate(names, settings.mode or "all", cluster)
    if kind == "relocate":
        return _relocate(names, cluster)
    return _change_group(names, settings.to, cluster)


def request_in_words(text: str, source: Source) -> Json:
    """The request that `text` asks for: words and options as ``ask`` takes them.

    Raises
    ------
    UsageError, NotFoundError
        As `request_of`, and if there are files among the words.
    """
    import shlex

    question = Settings()
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"--request: {error}") from None
    kind, names, more = words_of(parse(words, question, OPTIONS))
    if more:
        raise UsageError(f"--request: expected no file, got {' '.join(more)}")
    return request_of(kind, names, question, source)


def _allocate(settings: Settings, source: Source) -> Json:
    template = settings.template or next(iter(source.policy.templates), "")
    if settings.memory is None or not template:
        raise UsageError(f"ask allocate needs {'--template' if template == '' else '--memory'}")
    kind = TEMPLATES.get(template)
    if bool(settings.disk) == (kind is not None and not kind.has_disks):
        raise UsageError(f"--template {template}: " + ("no --disk" if settings.disk else "--disk?"))
    name = settings.name or "new"
    if settings.count == 1:
        return {"type": "allocate", **_instance(name, template, settings)}
    wanted = [_instance(f"{name}-{n}", template, settings) for n in range(1, settings.count + 1)]
    return {"type": "multi-allocate", "instances": wanted}


def _instance(name: str, template: str, settings: Settings) -> Json:
    kind = TEMPLATES.get(template)
    nodes, metadata = (kind.nodes, kind.metadata) if kind else (1, 0)
    disks = [{"size": size, "mode": "rw"} for size in settings.disk]
    return {
        "name": name,
        "memory": settings.memory,
        "vcpus": settings.vcpus,
        "spindle_use": settings.spindle_use,
        "disk_template": template,
        "disks": disks,
        "disk_space_total": sum(settings.disk) + metadata * len(disks),
        "nics": [{"network": network} for network in settings.network],
        "tags": list(settings.instance_tags),
        "required_nodes": nodes,
        "group_name": settings.group or None,
    }


def _evacuate(names: Sequence[str], mode: str, cluster: Cluster) -> Json:
    nodes = whole_names(names, [node.name for node in cluster.nodes], "evacuate", "node")
    leaving = {node.index for node in cluster.nodes if node.name in nodes}
    roles = {"primary-only": slice(0, 1), "secondary-only": slice(1, None)}.get(mode, slice(None))
    concerned = [i.name for i in cluster.instances if leaving.intersection(i.nodes[roles])]
    return {"type": "node-evacuate", "instances": sorted(concerned), "evac_mode": mode}


def _relocate(names: Sequence[str], cluster: Cluster) -> Json:
    if len(names) != 1:
        raise UsageError(f"relocate is about one instance, got {len(names)}")
    name = whole_name(names[0], [i.name for i in cluster.instances], "relocate", "instance")
    instance = next(i for i in cluster.instances if i.name == name)
    source = cluster.nodes[instance.nodes[-1]].name
    return {"type": "relocate", "name": name, "relocate_from": [source], "required_nodes": 1}


def _change_group(names: Sequence[str], targets: Sequence[str], cluster: Cluster) -> Json:
    known = [i.name for i in cluster.instances]
    found = [group_named(cluster, target, "--to").uuid for target in targets]
    instances = whole_names(names, known, "change-group", "instance")
    return {"type": "change-group", "instances": instances, "target_groups": found}
