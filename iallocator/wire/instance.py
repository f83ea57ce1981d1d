"""Raw instances to instances: those of a document, and those that requests ask for."""

from __future__ import annotations

from iallocator.errors import RequestError
from iallocator.model.instance import Instance
from iallocator.model.policy import ALL_TEMPLATES
from iallocator.wire.fields import boolean, integer, name_of, objects, one_of, strings, text
from iallocator.wire.pools_present import instance_speaks_of_pools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.keys import PlacementKey
    from iallocator.wire.fields import Raw
    from iallocator.wire.reading import Reading

__all__ = ["keys_of", "new_instance", "read_instance"]

SOURCELESS = frozenset({"size", "mode", "spindles", "dev_type"})
"""Members of a disk that do not tell where it comes from."""

ADMIN_STATES = ("up", "down", "offline")


def new_instance(raw: Raw, reading: Reading, cluster: Cluster) -> Instance:
    """An instance that a request describes, in its place among those of `cluster`.

    It has no nodes yet, and it will run, whatever the description says of its state.
    """
    instance = read_instance(name_of(raw, "name"), raw, reading, new=True)
    reading.place(instance, cluster)
    instance.asked = raw
    if reading.behaviour.reads_pools and (cluster.storage or instance_speaks_of_pools(raw)):
        from iallocator.wire.pools import resolve_pools

        resolve_pools(instance, raw, cluster)
    return instance


def read_instance(name: str, raw: Raw, reading: Reading, new: bool = False) -> Instance:
    """The instance that `raw` describes, on no node yet; `new`: one that a request asks for."""
    sizes, spindles = _disks(raw)
    instance = Instance(
        name,
        integer(raw, "memory"),
        integer(raw, "vcpus"),
        integer(raw, "disk_space_total", sum(sizes)),
        sizes,
        one_of(raw, "disk_template", ALL_TEMPLATES),
        spindles=spindles,
        spindles_anywhere=reading.behaviour.counts_spindles_anywhere,
        spindle_use=integer(raw, "spindle_use", 1),
        admin_state="up" if new else _admin_state(raw),
        forthcoming=False if new else boolean(raw, "forthcoming", False),
        auto_balance=boolean(raw, "auto_balance", True) or not reading.reads_auto_balance,
        tags=strings(raw, "tags", []),
        networks=_networks(raw),
        load=reading.load,
    )
    if "placement_keys" in raw:
        instance.placement_keys = keys_of(raw)
    return instance


def _disks(raw: Raw) -> tuple[list[int], int | None]:
    """Sizes of the disks, MiB, and the spindles of all; None if one does not say its own."""
    sizes: list[int] = []
    spindles: int | None = 0
    for position, disk in enumerate(objects(raw, "disks", [])):
        try:
            sizes.append(integer(disk, "size"))
            own = None if disk.get("spindles") is None else integer(disk, "spindles")
            if not disk.keys() <= SOURCELESS:
                _check_source(disk)
        except RequestError as error:
            raise error.below(f"disks/{position}") from None
        spindles = None if spindles is None or own is None else spindles + own
    return sizes, spindles


def keys_of(raw: Raw, level: str = "server") -> Sequence[PlacementKey]:
    """The ``placement_keys`` of a cluster, an instance or a request; what reads them loads late."""
    from iallocator.wire.placement_keys import read_keys

    return read_keys(raw, level)


def _check_source(disk: Raw) -> None:
    """What a disk comes from is text or null; whether it matters is not known yet."""
    for key in ("vg", "metavg", "provider", "pool"):
        if key in disk:
            text(disk, key, None)


def _admin_state(raw: Raw) -> str:
    if "admin_state" in raw:
        return one_of(raw, "admin_state", ADMIN_STATES)
    return "up" if boolean(raw, "should_run", True) else "down"


def _networks(raw: Raw) -> list[str]:
    found: list[str] = []
    for position, nic in enumerate(objects(raw, "nics", [])):
        if nic.get("network") is not None:
            try:
                found.append(text(nic, "network"))
            except RequestError as error:
                raise error.below(f"nics/{position}") from None
    return found
