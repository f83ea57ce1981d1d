"""Define the names, addresses and sizes of the cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

# A benchmarking network (RFC 2544) and a reserved top-level domain (RFC 2606): nothing else can
# have these addresses, and no packet leaves the cluster's own network.
SUBNET = "198.18.77"
DOMAIN = "e2e.example"
CLUSTER_NAME = f"cluster.{DOMAIN}"
CLUSTER_IP = f"{SUBNET}.1"

FIRST_GROUP = "default"  # the name of Ganeti's initial group
SECOND_GROUP = "annex"

VOLUME_GROUP = "xenvg"
FAST_GROUP = "fastvg"  # a second volume group, which a scenario adds to some nodes
VOLUME_GROUPS = "volume-groups.json"  # in `NODE_STATE`: volume group -> MiB
BRIDGE = "gntbr"

# Ganeti reports the free space of the first template when a request names none
TEMPLATES = ("drbd", "plain", "sharedfile", "file", "diskless")

DAEMONS = "/usr/lib/ganeti/daemon-util"  # starts and stops the daemons of Ganeti

# On a memory file system that only the cluster's processes see
STORE = Path("/srv/e2e")
# Each node has its own /run; the fake tools store their state here
NODE_STATE = Path("/run/e2e")


@dataclass(frozen=True)
class NodeSpec:
    """The description of one node of the cluster.

    Attributes
    ----------
    number : int
        Counted from 1; node 1 is the master.
    group : str
        Name of its node group.
    memory : int
        MiB of memory that the node claims to have.
    cpus : int
        Processors that the node claims to have.
    disk : int
        MiB in its volume group.
    """

    number: int
    group: str
    memory: int
    cpus: int
    disk: int

    @property
    def name(self) -> str:
        """Return the fully qualified host name."""
        return f"node{self.number}.{DOMAIN}"

    @property
    def address(self) -> str:
        """Return the IPv4 address on the cluster's network."""
        return f"{SUBNET}.{10 + self.number}"


def default_nodes() -> tuple[NodeSpec, ...]:
    """Return the standard cluster: two groups of three different nodes.

    Returns
    -------
    tuple of NodeSpec
        The nodes, master first.
    """
    gib = 1024
    return (
        NodeSpec(1, FIRST_GROUP, 32 * gib, 12, 300 * gib),
        NodeSpec(2, FIRST_GROUP, 24 * gib, 8, 400 * gib),
        NodeSpec(3, FIRST_GROUP, 16 * gib, 12, 200 * gib),
        NodeSpec(4, SECOND_GROUP, 24 * gib, 8, 300 * gib),
        NodeSpec(5, SECOND_GROUP, 32 * gib, 12, 400 * gib),
        NodeSpec(6, SECOND_GROUP, 16 * gib, 8, 200 * gib),
    )


def instance(short: str) -> str:
    """Return the full name of an instance.

    Parameters
    ----------
    short : str
        Name of the instance without domain.

    Returns
    -------
    str
        Name with domain.
    """
    return f"{short}.{DOMAIN}"
