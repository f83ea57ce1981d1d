"""Read the past resource use of instances from Ganeti's archive of jobs.

A job is a file ``job-123`` in ``/var/lib/ganeti/queue/archive``, or in folders below it. Its
opcodes say which instances were created, removed, renamed and changed. The past follows from the
present cluster, backwards from one change to the one before:

* Backwards, a creation removes the instance, and a removal adds it.
* The size of a removed instance is that of its creation. If the archive does not have the creation,
  the mean size of the present instances is used, provided that the cluster has one group.
* The group of an instance is its present group, or that of the node on which it was created.

Ganeti removes archived jobs after 21 days by default (``ganeti-cleaner``).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from iallocator.deadline import check
from iallocator.errors import IallocatorError, UsageError
from iallocator.files import read_file
from iallocator.model.templates import TEMPLATES
from iallocator.units import DAY, LATEST_TIME
from iallocator.wire.codec import decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from iallocator.model.cluster import Cluster

__all__ = ["ArchiveDemand", "InstanceSize", "past_demand"]

JOB = re.compile(r"job-[0-9]+")

ARCHIVED_SUCCESS = "success"


@dataclass(slots=True)
class InstanceSize:
    """The size of an instance: MiB of memory and disk, virtual cpus, and its group.

    The group is a uuid. Disk is the sum over all nodes of the instance. `copies` is the number of
    nodes with a copy of each disk: 0 on shared storage. An attribute is None if it is unknown.
    """

    group: str | None
    memory: float | None
    disk: float | None
    vcpus: float | None
    copies: int | None = None


@dataclass(slots=True)
class ArchiveDemand:
    """The instances at the end of each past day, computed from an archive of jobs.

    Attributes
    ----------
    days:
        Pairs of a time in seconds since 1970 and the instances at that time, the latest first. The
        times are the ends of days, and the time of the first job.
    damaged:
        How many files could not be read.
    unknown:
        How many removed instances have an unknown size; they are left out, or have the mean size.
    """

    days: list[tuple[float, list[InstanceSize]]]
    damaged: int
    unknown: int


@dataclass(slots=True)
class _Change:
    """The change of an instance by one successful opcode.

    Attributes
    ----------
    time:
        The time at which the opcode ended, in seconds since 1970.
    kind:
        ``create``, ``remove``, ``rename``, ``set`` or ``grow``.
    size:
        ``create``: the size of the new instance. ``remove``: the size of the instance before, if it
        is known.
    before, after:
        ``set``: the size before and after the opcode; None: not changed, or unknown. ``grow``:
        `after` has the MiB of disk that are added on one node.
    """

    time: float
    kind: str
    name: str
    new_name: str = ""
    size: InstanceSize | None = None
    before: InstanceSize | None = None
    after: InstanceSize | None = None


def past_demand(folder: str, cluster: Cluster, now: float, limit: int) -> ArchiveDemand:
    """Return the resource use of instances at the end of each day, from an archive of jobs.

    Parameters
    ----------
    folder:
        The folder of the archive, or of the whole queue.
    cluster:
        The present cluster.
    now:
        The time of the cluster, in seconds since 1970. Later jobs are ignored.
    limit:
        Most bytes of a file.

    Raises
    ------
    UsageError
        If the folder cannot be read, or has no jobs.
    """
    # Name of each node, whole and short -> the uuid of its group
    homes = {node.name.partition(".")[0]: node.group.uuid for node in cluster.nodes}
    homes |= {node.name: node.group.uuid for node in cluster.nodes}
    changes: list[_Change] = []
    first, damaged = now, 0
    for path in _jobs(folder):
        check()
        try:
            document = decode(read_file(path, limit))
            demand_changes = list(_changes(document, homes))
            begun = _time(document.get("received_timestamp")) or now
        except (IallocatorError, ValueError, TypeError, KeyError, AttributeError):
            damaged += 1
            continue
        first = min([first, begun, *(one.time for one in demand_changes)])
        changes += [one for one in demand_changes if one.time <= now]
    if first >= now:
        raise UsageError(f"--job-archive {folder}: no job before the time of the cluster")
    changes.sort(key=lambda one: one.time)
    _complete(changes)
    days, unknown = _backwards(changes, cluster, first, now)
    return ArchiveDemand(days, damaged, unknown)


def _jobs(folder: str) -> Iterator[str]:
    """Yield the paths of the files of jobs in `folder` and below."""
    if not os.path.isdir(folder):
        raise UsageError(f"--job-archive {folder}: expected a folder")
    for path, below, names in os.walk(folder):
        below.sort()
        for name in sorted(names):
            if JOB.fullmatch(name):
                yield os.path.join(path, name)


def _time(stamp: Any) -> float:
    """Return a time stamp of Ganeti, seconds and microseconds, as seconds; 0 if there is none."""
    if not stamp:
        return 0.0
    seconds, micro = stamp
    time = float(seconds) + float(micro) / 1e6
    return time if 0 < time <= LATEST_TIME else 0.0


def _changes(document: Any, homes: Mapping[str, str]) -> Iterator[_Change]:
    """Yield the changes by the successful opcodes of a job; `homes`: node -> uuid of its group."""
    ended = _time(document.get("end_timestamp"))
    for operation in document["ops"]:
        if operation["status"] != ARCHIVED_SUCCESS:
            continue
        opcode = operation["input"]
        time = _time(operation.get("end_timestamp")) or ended
        name, kind = opcode.get("instance_name"), opcode["OP_ID"]
        if not time or not isinstance(name, str):
            continue
        if kind == "OP_INSTANCE_CREATE":
            yield _Change(time, "create", name, size=_created(opcode, operation, homes))
        elif kind == "OP_INSTANCE_REMOVE" or (
            kind == "OP_BACKUP_EXPORT" and opcode.get("remove_instance")
        ):
            yield _Change(time, "remove", name)
        elif kind == "OP_INSTANCE_RENAME":
            yield _Change(time, "rename", name, new_name=str(opcode["new_name"]))
        elif kind == "OP_INSTANCE_SET_PARAMS":
            memory, vcpus = _backend(opcode)
            yield _Change(time, "set", name, after=InstanceSize(None, memory, None, vcpus))
            for change in opcode.get("disks") or ():
                if change[0] == "add":
                    grown = InstanceSize(None, None, float(change[-1]["size"]), None)
                    yield _Change(time, "grow", name, after=grown)
        elif kind == "OP_INSTANCE_GROW_DISK" and not opcode.get("absolute"):
            grown = InstanceSize(None, None, float(opcode["amount"]), None)
            yield _Change(time, "grow", name, after=grown)


def _backend(opcode: Any) -> tuple[float | None, float | None]:
    """Return the memory (MiB) and the virtual cpus that an opcode sets; None: not set."""
    given = opcode.get("beparams") or {}
    memory = given.get("maxmem", given.get("memory"))
    numbers = [
        one if isinstance(one, (int, float)) else None for one in (memory, given.get("vcpus"))
    ]
    return numbers[0], numbers[1]


def _created(opcode: Any, operation: Any, homes: Mapping[str, str]) -> InstanceSize:
    """Return the size of the instance that an opcode has created."""
    memory, vcpus = _backend(opcode)
    template = TEMPLATES.get(opcode.get("disk_template"))
    disks = opcode.get("disks") or ()
    disk: float | None = None
    if template is not None:
        each = sum(float(one["size"]) + template.metadata for one in disks)
        disk = each * template.nodes if template.local else 0.0
    node = opcode.get("pnode")
    if node is None and isinstance(operation.get("result"), list) and operation["result"]:
        node = operation["result"][0]  # an allocator has chosen it
    group = homes.get(node) if isinstance(node, str) else None
    copies = None if template is None else template.nodes * template.local
    return InstanceSize(group, memory, disk, vcpus, copies)


def _complete(changes: list[_Change]) -> None:
    """Set the sizes before each change and removal, as far as earlier `changes` contain them."""
    known: dict[str, InstanceSize] = {}
    for one in changes:
        size = known.get(one.name)
        if one.kind == "create":
            assert one.size is not None
            known[one.name] = _copy(one.size)
        elif one.kind == "remove":
            one.size = known.pop(one.name, None)
        elif one.kind == "rename" and size is not None:
            known[one.new_name] = known.pop(one.name)
        elif one.kind == "set":
            assert one.after is not None
            size = known.setdefault(one.name, InstanceSize(None, None, None, None))
            one.before = _copy(size)
            size.memory = size.memory if one.after.memory is None else one.after.memory
            size.vcpus = size.vcpus if one.after.vcpus is None else one.after.vcpus
        elif one.kind == "grow" and size is not None and size.disk is not None:
            assert one.after is not None
            size.disk += (one.after.disk or 0.0) * (1 if size.copies is None else size.copies)


def _copy(size: InstanceSize) -> InstanceSize:
    return InstanceSize(size.group, size.memory, size.disk, size.vcpus, size.copies)


def _backwards(
    changes: list[_Change], cluster: Cluster, first: float, now: float
) -> tuple[list[tuple[float, list[InstanceSize]]], int]:
    """Return the instances at the end of each day before `now`, and the number of unknown ones."""
    present = {
        one.name: InstanceSize(
            cluster.group_of(one).uuid,
            one.memory,
            one.own_disk * one.required_nodes,
            one.vcpus,
            one.required_nodes if one.local else 0,
        )
        for one in cluster.instances
        if one.nodes
    }
    count = max(len(present), 1)
    mean = InstanceSize(
        cluster.groups[0].uuid if len(cluster.groups) == 1 else None,
        sum(one.memory or 0 for one in present.values()) / count,
        sum(one.disk or 0 for one in present.values()) / count,
        sum(one.vcpus or 0 for one in present.values()) / count,
    )
    unknown = 0
    days: list[tuple[float, list[InstanceSize]]] = []
    left = list(changes)
    day = now // DAY * DAY - 1  # the last second of the day before
    while day > first - DAY:
        while left and left[-1].time > day:
            unknown += _undo(left.pop(), present, mean)
        days.append((max(day, first), [_copy(one) for one in present.values()]))
        day -= DAY
    return days, unknown


def _undo(change: _Change, present: dict[str, InstanceSize], mean: InstanceSize) -> bool:
    """Change `present` to the instances before `change`; return whether a size was unknown."""
    name = change.name
    if change.kind == "create":
        present.pop(name, None)
    elif change.kind == "rename" and change.new_name in present:
        present[name] = present.pop(change.new_name)
    elif change.kind == "set" and name in present:
        size, before = present[name], change.before
        if before is not None:
            size.memory = size.memory if before.memory is None else before.memory
            size.vcpus = size.vcpus if before.vcpus is None else before.vcpus
    elif change.kind == "grow" and name in present and change.after is not None:
        size = present[name]
        copies = 1 if size.copies is None else size.copies
        size.disk = max((size.disk or 0.0) - (change.after.disk or 0.0) * copies, 0.0)
    elif change.kind == "remove":
        size = InstanceSize(None, None, None, None) if change.size is None else _copy(change.size)
        parts = (size.group, size.memory, size.disk, size.vcpus)
        size.group = mean.group if size.group is None else size.group
        size.memory = mean.memory if size.memory is None else size.memory
        size.disk = mean.disk if size.disk is None else size.disk
        size.vcpus = mean.vcpus if size.vcpus is None else size.vcpus
        if size.group is not None:
            present[name] = size
        return None in parts
    return False
