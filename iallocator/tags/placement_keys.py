"""Parse placement keys in tags.

=====================  ========================================================
cluster, instance      ``iallocator:key:NAME:VALUE:WEIGHT`` (customer)
cluster, instance      ``iallocator:syskey:NAME:VALUE:WEIGHT`` (system)
cluster, instance      ``iallocator:specialkey:NAME:VALUE:WEIGHT``, NAME one of
                       ``ram``, ``cpu``, ``load``
node, group            ``iallocator:key:NAME:VALUE``
node, group            ``iallocator:stickykey:NAME:VALUE:WEIGHT``
node, group            ``iallocator:ram-contention:RATIO``
node, group            ``iallocator:cpu-contention:RATIO``
=====================  ========================================================

A name contains no colon; ``iallocator:`` is the default prefix. An invalid tag is ignored, with a
remark.
"""

from __future__ import annotations

from iallocator.model.keys import SPECIAL_NAMES, PlacementKey
from iallocator.tags.affinity import NUMBER_CHARACTERS
from iallocator.tolerances import LARGEST_NUMBER, LEAST_DIVISOR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.cluster import Cluster, Node
    from iallocator.model.instance import Instance

__all__ = ["NodeTags", "ResourceTags"]

INSTANCE_KEY_KINDS = ("key", "syskey", "specialkey")


class ResourceTags:
    """Reads placement keys from tags of clusters and instances; each text is parsed once."""

    def __init__(self, prefix: str, level: int, remarks: list[str]) -> None:
        self._prefix = prefix
        self._level = level
        self._remarks = remarks
        self._known: dict[str, PlacementKey | None] = {}

    def of_cluster(self, cluster: Cluster) -> list[PlacementKey]:
        """Return the placement keys in tags of the cluster, in the order of the tags."""
        return self._keys(cluster.tags, "the cluster")

    def of_instance(self, instance: Instance) -> list[PlacementKey]:
        """Return the placement keys in tags of an instance, in the order of the tags."""
        return self._keys(instance.tags, f"instance {instance.name}") if instance.tags else []

    def _keys(self, tags: Sequence[str], owner: str) -> list[PlacementKey]:
        """Return the placement keys in `tags`, which belong to the object called `owner`."""
        known = self._known
        keys: list[PlacementKey] = []
        for tag in tags:
            if tag in known:
                key = known[tag]
            else:
                key = known[tag] = self._read(tag, owner)
            if key is not None:
                keys.append(key)
        return keys

    def _read(self, tag: str, owner: str) -> PlacementKey | None:
        kind, body = _split(tag, self._prefix)
        if kind not in INSTANCE_KEY_KINDS:
            return None
        try:
            name, value, weight = _parts(body, "NAME", "VALUE", "WEIGHT")
            if kind == "specialkey":
                if name not in SPECIAL_NAMES:
                    raise ValueError("ram, cpu or load")
                name = SPECIAL_NAMES[name]
            elif kind == "syskey" and name.startswith("_"):
                raise ValueError("a name that does not begin with _, which marks customer keys")
            key = PlacementKey(name, _number(value), _number(weight), kind != "key", self._level)
        except ValueError as error:
            self._remarks.append(_remark(tag, owner, str(error)))
            return None
        return key


class NodeTags:
    """The facts in the tags of one node.

    A key or a ratio in a tag of the node group applies if no tag of the node sets it.

    Attributes
    ----------
    keys:
        (name, value) of each key of the node, sticky keys included.
    sticky:
        The sticky keys as tags for an instance: a key that is compared with system keys becomes a
        system key, a reserved key becomes a customer key.
    ram_contention, cpu_contention:
        Ratios above 0; None without a tag.
    """

    __slots__ = ("cpu_contention", "keys", "ram_contention", "sticky")

    def __init__(self, prefix: str, node: Node, remarks: list[str]) -> None:
        self.keys: list[tuple[str, float]] = []
        self.sticky: list[str] = []
        self.ram_contention: float | None = None
        self.cpu_contention: float | None = None
        self._take(prefix, node.tags, f"node {node.name}", remarks)
        if any(tag.startswith(prefix) for tag in node.group.tags):
            # Add the keys of `group` that the node does not set, and its ratios
            group = node.group
            own = {name for name, _ in self.keys}
            ratios = self.ram_contention, self.cpu_contention
            self._take(
                prefix, [t for t in group.tags if _key_name(t, prefix) not in own],
                f"group {group.name}", remarks,
            )  # fmt: skip
            self.ram_contention = ratios[0] or self.ram_contention
            self.cpu_contention = ratios[1] or self.cpu_contention

    def _take(self, prefix: str, tags: Sequence[str], owner: str, remarks: list[str]) -> None:
        """Add the facts in `tags` of `owner`; add one remark about each invalid tag."""
        for tag in tags:
            kind, body = _split(tag, prefix)
            try:
                self._read(prefix, kind, body)
            except ValueError as error:
                remark = _remark(tag, owner, str(error))
                if remark not in remarks:
                    remarks.append(remark)

    def _read(self, prefix: str, kind: str, body: str) -> None:
        if kind == "key":
            name, value = _parts(body, "NAME", "VALUE")
            self.keys.append((name, _number(value)))
        elif kind == "stickykey":
            name, value, weight = _parts(body, "NAME", "VALUE", "WEIGHT")
            self.keys.append((name, _number(value)))
            _number(weight)
            own = "key" if name.startswith("_") else "syskey"
            self.sticky.append(f"{prefix}{own}:{body}")
        elif kind == "ram-contention":
            self.ram_contention = _ratio(body)
        elif kind == "cpu-contention":
            self.cpu_contention = _ratio(body)
        elif kind in INSTANCE_KEY_KINDS:
            raise ValueError("key or stickykey on a node")


def _key_name(tag: str, prefix: str) -> str:
    """Return the name of the node key that `tag` sets; "" if it sets none."""
    kind, body = _split(tag, prefix)
    return body.partition(":")[0] if kind in ("key", "stickykey") else ""


def _split(tag: str, prefix: str) -> tuple[str, str]:
    """Return the kind and the rest of a tag of this program; ("", "") for another tag."""
    if not tag.startswith(prefix):
        return "", ""
    kind, _, body = tag[len(prefix) :].partition(":")
    return kind, body


def _parts(body: str, *wanted: str) -> list[str]:
    parts = body.split(":")
    if len(parts) != len(wanted) or not parts[0]:
        raise ValueError(":".join(wanted))
    return parts


def _number(text: str) -> float:
    """Return the decimal number in `text`, from -2^53 to 2^53."""
    try:
        value = float(text) if NUMBER_CHARACTERS.issuperset(text) else None
    except ValueError:
        value = None
    if value is None or not -LARGEST_NUMBER <= value <= LARGEST_NUMBER:
        raise ValueError(f"a number, got {text!r}")
    return value


def _ratio(text: str) -> float:
    value = _number(text)
    if not LEAST_DIVISOR <= value <= 1 / LEAST_DIVISOR:
        raise ValueError(f"a number from {LEAST_DIVISOR} to {1 / LEAST_DIVISOR:.0f}, got {text!r}")
    return value


def _remark(tag: str, owner: str, expected: str) -> str:
    return f"Warning: tag {tag!r} of {owner} does not count: expected {expected}"
