"""The disk templates of Ganeti, in one table: where each stores data, and its properties.

To add a template, add a row to `TEMPLATES`. No other code compares names of templates, except to
create an instance of a certain template.
"""

from __future__ import annotations

from math import inf

__all__ = [
    "DISKLESS", "DRBD", "EXT", "FILES", "NOWHERE", "PLAIN", "SHARED", "TEMPLATES", "VOLUMES",
    "Template", "in_htools_order",
]  # fmt: skip

VOLUMES = "volumes"
"""Storage of templates with disks in a volume group. The disks use the free disk and the spindles
of their node."""

FILES = "files"
"""Storage of templates with disks that are files of a node. The free disk that the node reports is
not the space for these files."""

SHARED = "shared"
"""Storage of templates with disks on storage that several nodes have access to."""

NOWHERE = "nowhere"
"""Storage of templates without disks."""


class Template:
    """One disk template.

    In all templates of Ganeti, the properties `relocatable`, `migrates`, `survives_failure` and
    `planners_move` have one value: true if more than one node has the data. They are separate
    because a future template may differ.

    Attributes
    ----------
    name:
        The name in Ganeti.
    storage:
        `VOLUMES`, `FILES`, `SHARED` or `NOWHERE`.
    nodes:
        How many nodes an instance has: 2 if a secondary node has a copy of the disks, else 1.
    metadata:
        The MiB that each disk takes on each node in addition to its size.
    disk_key, parameter_key:
        The member of a disk, and the disk parameter of a group, that name the storage pool; or "".
    recreated_if_strict:
        Whether strict N+1, like hail, does not restart the instance elsewhere after a failure but
        creates it anew.
    in_htools:
        The position of the template in the enumeration of htools, and its name there.
    local:
        Whether the disks take disk space and spindles of the node.
    shared:
        Whether each node that has access to the storage can run the instance.
    relocatable:
        Whether a request can move the instance to another node.
    migrates:
        Whether the instance moves by migration or failover; if not, its disks are copied.
    survives_failure:
        Whether the instance can be restarted on another node after its primary has failed.
    planners_move:
        Whether planners move the instance when no option requests it.
    """

    __slots__ = (
        "disk_key", "in_htools", "local", "metadata", "migrates", "name", "nodes", "parameter_key",
        "planners_move", "recreated_if_strict", "relocatable", "shared", "storage",
        "survives_failure",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        storage: str,
        nodes: int = 1,
        metadata: int = 0,
        disk_key: str = "",
        parameter_key: str = "",
        recreated_if_strict: bool = False,
        in_htools: tuple[float, str] | None = None,
    ) -> None:
        self.name = name
        self.storage = storage
        self.nodes = nodes
        self.metadata = metadata
        self.disk_key = disk_key
        self.parameter_key = parameter_key
        self.recreated_if_strict = recreated_if_strict
        self.in_htools = in_htools or (inf, f"DT{name.capitalize()}")
        self.local = storage == VOLUMES
        self.shared = storage in (SHARED, NOWHERE)
        on_several_nodes = self.shared or nodes > 1
        self.relocatable = on_several_nodes
        self.migrates = on_several_nodes
        self.survives_failure = on_several_nodes
        self.planners_move = on_several_nodes

    @property
    def has_disks(self) -> bool:
        """Return whether instances of this template have disks."""
        return self.storage != NOWHERE

    @property
    def may_be_external(self) -> bool:
        """Return whether the disks of an instance can be on shared storage instead."""
        return not self.shared and self.nodes == 1

    def on_shared_storage(self) -> Template:
        """Return a template of equal name for instances with all disks on shared storage."""
        return ON_SHARED_STORAGE[self.name]


DRBD, PLAIN, DISKLESS, EXT = "drbd", "plain", "diskless", "ext"
"""The names of templates that some requests or commands create."""

TEMPLATES = {
    template.name: template
    for template in (
        Template("blockdev", SHARED, recreated_if_strict=True, in_htools=(4, "DTBlock")),
        Template(DISKLESS, NOWHERE, in_htools=(0, "DTDiskless")),
        Template(DRBD, VOLUMES, nodes=2, metadata=128, in_htools=(5, "DTDrbd8")),
        Template(EXT, SHARED, disk_key="provider", in_htools=(7, "DTExt")),
        Template("file", FILES, in_htools=(1, "DTFile")),
        Template("gluster", SHARED, parameter_key="volume", in_htools=(8, "DTGluster")),
        Template(PLAIN, VOLUMES, in_htools=(3, "DTPlain")),
        Template("rbd", SHARED, disk_key="pool", parameter_key="pool", in_htools=(6, "DTRbd")),
        Template("sharedfile", SHARED, in_htools=(2, "DTSharedFile")),
    )
}
"""Name of a disk template -> the template; sorted by name."""

ON_SHARED_STORAGE = {
    one.name: Template(one.name, SHARED, one.nodes, one.metadata) for one in TEMPLATES.values()
}
"""Name of a template -> the template of this name for disks on shared storage."""


def in_htools_order() -> tuple[str, ...]:
    """Return the names of all templates in the order of htools; unknown ones are last."""
    return tuple(sorted(TEMPLATES, key=lambda name: TEMPLATES[name].in_htools))
