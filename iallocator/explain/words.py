"""What an instance asks for, in words."""

from __future__ import annotations

from iallocator.limits.words import quantity
from iallocator.model.storage import pool_name, presumed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.model.instance import Instance

__all__ = ["subject"]


def subject(instance: Instance) -> str:
    """What an instance asks for, in one line."""
    parts = [
        instance.template,
        quantity(instance.memory, "MiB memory"),
        quantity(instance.vcpus, "virtual cpus"),
    ]
    if instance.disk_sizes:
        sizes = " + ".join(map(str, instance.disk_sizes))
        parts.append(f"{sizes} MiB disk")
    if instance.local and instance.disk != sum(instance.disk_sizes):
        parts[-1] += f" ({instance.disk} on each node)"
    if instance.pools is not None and instance.pools != presumed(instance.template):
        parts.append(f"in storage pool {' and '.join(map(pool_name, instance.pools))}")
    if instance.exclusion:
        parts.append(f"exclusion tags {', '.join(instance.exclusion)}")
    if instance.desired:
        parts.append(f"wants to be at {', '.join(sorted(instance.desired))}")
    return ", ".join(parts)
