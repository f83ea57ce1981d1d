"""Read what every source of a cluster has: restrictions by tags, and storage pools."""

from __future__ import annotations

from iallocator.constraints.table import read_access
from iallocator.model.tags import interpret_tags
from iallocator.model.templates import TEMPLATES
from iallocator.wire.fields import POOL_TAG

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.model.cluster import Cluster
    from iallocator.wire.fields import Raw
    from iallocator.wire.reading import Reading

__all__ = ["mentions_pools", "read_facts"]


def read_facts(document: Raw, cluster: Cluster, reading: Reading) -> None:
    """Read into `cluster` the placement restrictions by tags and storage pools in `document`.

    Every source of a cluster calls this function. `document` has the members that
    `iallocator.wire.pools` reads. Members of nodes, groups and instances may be missing, except
    their tags.
    """
    interpret_tags(cluster, reading.exclusion)
    if not reading.behaviour.counts_new_statistics:
        for node in cluster.nodes:
            node.new_statistics = 0
    if reading.behaviour.passes_n1_at_equality:
        for node in cluster.nodes:
            node.passes_at_equality = True
    if reading.behaviour.reads_pools:
        groups = (document.get("nodegroups") or {}).values()
        if (
            document.get("diskparams") is not None
            or any(raw.get("diskparams") is not None or _names_pool(raw) for raw in groups)
            or any(
                "storage_pools" in raw or "volume_groups" in raw or _names_pool(raw)
                for raw in document["nodes"].values()
            )
            or any(map(mentions_pools, document["instances"].values()))
        ):
            from iallocator.wire.pools import read_pools

            read_pools(document, cluster)
    if reading.behaviour.knows_affinity:
        read_access(cluster, cluster.instances, reading.tag_prefix)


def mentions_pools(raw: Raw) -> bool:
    """Return whether the raw instance names the storage of its disks."""
    if "storage_type" in raw or "storage_pool" in raw:
        return True
    if _names_pool(raw):
        return True
    key = TEMPLATES[raw["disk_template"]].disk_key
    return bool(key) and any(key in disk for disk in raw.get("disks") or ())


def _names_pool(raw: Raw) -> bool:
    """Return whether a tag of the object `raw` names a storage pool."""
    return any(tag.startswith(POOL_TAG) for tag in raw.get("tags") or ())
