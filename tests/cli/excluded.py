"""Define for every command a cluster in which an exclusion tag changes the output."""

from __future__ import annotations

from tests.builders import Json, allocate_rbd, cluster, instance, rbd

__all__ = ["EXCLUDED"]

OVERLOADED: Json = cluster(
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

NEW = allocate_rbd(OVERLOADED, tags=["srv:b"], memory=512)

EXCLUDED: dict[str, tuple[Json, tuple[str, ...]]] = {
    "": (NEW, ()),
    "ask": (OVERLOADED, ("evacuate", "node1", "--json")),
    "balance": (OVERLOADED, ("--json", "-G", "east")),
    "balance-groups": (OVERLOADED, ("--json",)),
    "capacity": (OVERLOADED, ("-p",)),
    "check": (OVERLOADED, ("-p",)),
    "compress": (OVERLOADED, ("--json",)),
    "config": (NEW, ()),
    "constraints": (OVERLOADED, ("--kind=apart",)),
    "explain": (NEW, ("--json",)),
    "maintain": (OVERLOADED, ("--json", "--force")),
    "make-room": (FULL, ("--json", "--n1=off")),
    "metrics": (OVERLOADED, ("--no-capacity",)),
    "place": (OVERLOADED, ("--json", "--strategy=pacemaker-balanced")),
    "reboot": (OVERLOADED, ("--json", "--force")),
    "redistribute": (AWAY, ("--json",)),
    "repair": (LOST, ("--json",)),
    "report": (OVERLOADED, ()),
    "rescue": (OVERLOADED, ("node1", "-p")),
    "show": (OVERLOADED, ("-p",)),
    "squeeze": (OVERLOADED, ("--json", "-G", "east", "--target-resources=3")),
}
"""Command -> a cluster, and arguments with which the tag changes the output."""
