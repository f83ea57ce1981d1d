"""Make empty clusters from ``--simulate``.

A specification is ``POLICY,NODES,DISK,MEMORY,CPUS[,SPINDLES[,EXCLUSIVE]]``. EXCLUSIVE is ``True``
if each spindle serves one instance only, else ``False``.
"""

from __future__ import annotations

from iallocator.errors import UsageError
from iallocator.model.cluster import (
    Cluster,
    Group,
    Node,
    NodeCpus,
    NodeDisk,
    NodeMemory,
    NodeSpindles,
)
from iallocator.sources.lines import default_policy, whole
from iallocator.sources.text import POLICY_OF_WORD, TextCluster
from iallocator.tolerances import LARGEST_NUMBER
from iallocator.units import MIB
from iallocator.wire.facts import read_facts
from iallocator.wire.fields import describe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.wire.reading import Reading

__all__ = ["parse_size", "simulate"]

SIZE_UNITS = {
    "": MIB, "m": MIB, "mib": MIB, "M": 1000**2, "mb": 1000**2,
    "g": 1024**3, "gib": 1024**3, "G": 1000**3, "gb": 1000**3,
    "t": 1024**4, "tib": 1024**4, "T": 1000**4, "tb": 1000**4,
}  # fmt: skip
"""Unit -> bytes. Units of several letters may have any case; small single letters are binary."""

LONGEST_SPECIFICATION = 80
"""The most characters of a specification in a message."""

LARGEST_COUNT = 100_000
"""Most nodes, cpus or spindles."""


def parse_size(text: str) -> int | None:
    """Return a size like ``100``, ``16g`` or ``1TiB`` in MiB, rounded down; None if it is invalid.

    Sizes are read as by htools: ``g`` and ``GiB`` are 1024^3 bytes, ``G`` and ``GB`` 1000^3.
    """
    import re

    match = re.fullmatch(r"([0-9]{1,15})\s*([A-Za-z]{0,3})", text)
    if not match:
        return None
    number, unit = match.groups()
    factor = SIZE_UNITS.get(unit if len(unit) < 2 else unit.lower())
    return int(number) * factor // MIB if factor else None


def simulate(specs: Sequence[str], reading: Reading) -> TextCluster:
    """Return a cluster with one group for each specification, and without instances.

    Groups are ``group-01``, ... with the nodes ``node-01-001``, ...; as in htools, the last
    specification is the first group.

    Raises
    ------
    UsageError
        If a specification is invalid.
    """
    groups: list[Group] = []
    nodes: list[Node] = []
    for number, spec in enumerate(reversed(specs), 1):
        fields = spec.split(",")
        if len(fields) not in (5, 6, 7):
            expected = "5 to 7 fields: policy,nodes,disk,memory,cpus[,spindles[,exclusive]]"
            raise _error(spec, expected)
        if fields[0] not in POLICY_OF_WORD:
            raise _error(
                spec, f"a policy out of {', '.join(POLICY_OF_WORD)}, got {describe(fields[0])}"
            )
        count, cpus = _count(spec, "nodes", fields[1]), _count(spec, "cpus", fields[4])
        disk, memory = _size(spec, "disk", fields[2]), _size(spec, "memory", fields[3])
        spindles = _count(spec, "spindles", fields[5]) if len(fields) > 5 else 1
        if fields[6:] and fields[6] not in ("True", "False"):
            raise _error(spec, f"True or False for exclusive storage, got {describe(fields[6])}")
        exclusive = fields[6:] == ["True"]
        of_disks = spindles if exclusive else 0
        free = of_disks if reading.behaviour.simulates_free_spindles else 0
        group = Group(
            number - 1,
            f"fake-uuid-{number:02}",
            f"group-{number:02}",
            default_policy(),
            POLICY_OF_WORD[fields[0]],
        )
        groups.append(group)
        nodes += (
            Node(
                f"node-{number:02}-{position:03}",
                group,
                memory=NodeMemory(memory, free=memory),
                disk=NodeDisk(disk, free=disk),
                cpus=NodeCpus(cpus, reserved=1),
                spindles=NodeSpindles(spindles, of_disks, free, exclusive),
            )
            for position in range(1, count + 1)
        )
    masters = tuple(node.name for node in nodes[:1])
    if not reading.behaviour.orders_by_name:
        nodes.reverse()
    else:
        nodes.sort(key=lambda node: node.name)
    cluster = Cluster("", [], groups, nodes, [])
    read_facts({"nodes": {}, "instances": {}}, cluster, reading)
    return TextCluster(cluster, default_policy(), masters)


def _count(spec: str, what: str, text: str) -> int:
    count = whole(text)
    if count is None or count > LARGEST_COUNT:
        raise _error(spec, f"{what} as a number up to {LARGEST_COUNT}, got {describe(text)}")
    return count


def _size(spec: str, what: str, text: str) -> int:
    size = parse_size(text)
    if size is None or size > LARGEST_NUMBER:
        raise _error(spec, f"{what} as a size like 512, 16g or 1TB, got {describe(text)}")
    return size


def _error(spec: str, expected: str) -> UsageError:
    shown = spec if len(spec) <= LONGEST_SPECIFICATION else f"{spec[:LONGEST_SPECIFICATION]}..."
    return UsageError(f"--simulate {shown}: expected {expected}")
