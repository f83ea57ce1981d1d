"""Detect whether a document mentions storage pools; if not, the reader of pools is not loaded."""

from __future__ import annotations

from iallocator.model.templates import TEMPLATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from iallocator.wire.fields import Raw

__all__ = ["POOL_TAG", "instance_speaks_of_pools", "speaks_of_pools"]

POOL_TAG = "iallocator:pool:"
"""Prefix of tags that name a pool; its type and, after a colon, its name follow."""


def speaks_of_pools(document: Raw) -> bool:
    """Return whether `document`, without its request, mentions storage pools."""
    groups = (document.get("nodegroups") or {}).values()
    return (
        document.get("diskparams") is not None
        or any(group.get("diskparams") is not None or _tags(group) for group in groups)
        or any("storage_pools" in node or _tags(node) for node in document["nodes"].values())
        or any(map(instance_speaks_of_pools, document["instances"].values()))
    )


def instance_speaks_of_pools(raw: Raw) -> bool:
    """Return whether an instance names the storage of its disks."""
    if "storage_type" in raw or "storage_pool" in raw:
        return True
    tags = raw.get("tags")
    if tags and _tagged(tags):
        return True
    key = TEMPLATES[raw["disk_template"]].disk_key
    if key is not None:
        for disk in raw.get("disks") or ():
            if key in disk:
                return True
    return False


def _tags(raw: Raw) -> bool:
    return _tagged(raw.get("tags") or ())


def _tagged(tags: Iterable[str]) -> bool:
    return any(tag.startswith(POOL_TAG) for tag in tags)
