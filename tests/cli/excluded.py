"""Define for every command a cluster in which an exclusion tag changes the output."""

from __future__ import annotations

from tests.builders import Json, allocate_rbd, cluster, instance, rbd

__all__ = ["EXCLUDED"]

CROWDED: Json = cluster(
    {"east": 3, "west": 2},
    instances={
        **{f"m{k}": instance("node1", "node2", tags=["srv:a"], memory=512) for k in range(2)},
        **{f"s{k}": rbd("node1", tags=["srv:b"], memory=512) for k in range(2)},
        "t": rbd("node3", tags=["srv:b", "ganeti:watcher:autorepair:reinstall"], memory=512),
        "w": rbd("node4", tags=["srv:b"], memory=256),
    },
)
"""A cluster of two pairs of instances that the exclusion tag would separate."""

LOST: Json = cluster(
    3,
    instances={
        "p": instance("node1", disk_template="plain", tags=["srv:a"], memory=512),
        "q": instance("node2", disk_template="plain", tags=["srv:a"], memory=512),
        "r": instance("node3", disk_template="plain", memory=2048),
    },
    changes={"node1": {"offline": True}},
    tags=("ganeti:watcher:autorepair:reinstall",),
)
"""A cluster in which instance ``p`` would be recreated on the second node."""

AWAY: Json = cluster(
    {"east": 1, "west": 2},
    instances={
        "p": rbd("node1", tags=["srv:a"], memory=512),
        "q": rbd("node2", tags=["srv:a"], memory=512),
        "r": rbd("node3", memory=2048),
    },
    changes={"node1": {"offline": True}},
)
"""A group to be evacuated, with instances that the exclusion tag would separate."""

FULL: Json = allocate_rbd(
    cluster(3, instances={"a": rbd("node1", memory=3000, tags=["srv:a"]),
                          "b": rbd("node2", memory=3000, tags=["srv:a"]),
                          "c": rbd("node3", memory=4500, tags=["srv:a"])}),
    memory=6000,
)  # fmt: skip
"""A request that fits if instance ``a`` moves to the node of ``b``."""

NEW = allocate_rbd(CROWDED, tags=["srv:b"], memory=512)

EXCLUDED: dict[str, tuple[Json, tuple[str, ...]]] = {
    "": (NEW, ()),
    "ask": (CROWDED, ("evacuate", "node1", "--json")),
    "balance": (CROWDED, ("--json", "-G", "east")),
    "balance-groups": (CROWDED, ("--json",)),
    "capacity": (CROWDED, ("-p",)),
    "check": (CROWDED, ("-p",)),
    "compress": (CROWDED, ("--json",)),
    "config": (NEW, ()),
    "constraints": (CROWDED, ("--kind=apart",)),
    "explain": (NEW, ("--json",)),
    "maintain": (CROWDED, ("--json", "--force")),
    "make-room": (FULL, ("--json", "--n1=off")),
    "metrics": (CROWDED, ("--no-capacity",)),
    "place": (CROWDED, ("--json", "--strategy=pacemaker-balanced")),
    "reboot": (CROWDED, ("--json", "--force")),
    "redistribute": (AWAY, ("--json",)),
    "repair": (LOST, ("--json",)),
    "report": (CROWDED, ()),
    "rescue": (CROWDED, ("node1", "-p")),
    "show": (CROWDED, ("-p",)),
    "squeeze": (CROWDED, ("--json", "-G", "east", "--target-resources=3")),
}
"""Command -> a cluster, and arguments with which the tag changes the output."""
