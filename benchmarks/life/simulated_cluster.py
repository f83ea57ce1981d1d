"""Represent a simulated cluster as a document; instances are added, moved and removed."""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.clusters import POLICY, group_entry, node_entry
from iallocator.aliases import Json

__all__ = ["SCENARIOS", "Json", "Scenario", "SimulatedCluster"]

DISK = 40 * 1024 * 1024
SIZE = 10 * 1024


class Scenario(NamedTuple):
    """The description of a simulated cluster.

    `memory`: MiB per node. `groups`: number of groups; the nodes are distributed evenly. `load`:
    the memory of all requested instances, as a share of all memory.
    """

    name: str
    template: str
    memory: tuple[int, ...]
    groups: int
    load: float


SCENARIOS = {
    one.name: one
    for one in (
        Scenario("drbd", "drbd", (65536,) * 10, 1, 1.2),
        Scenario("shared", "rbd", (65536,) * 10, 1, 1.25),
        Scenario("mixed", "rbd", (32768,) * 4 + (65536,) * 4 + (98304,) * 2, 1, 1.15),
        Scenario("groups", "rbd", (65536,) * 12, 3, 1.05),
    )
}


class SimulatedCluster:
    """The current cluster as a document that Ganeti could send."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        count = scenario.groups
        self.names = [f"node{k:02}" for k in range(len(scenario.memory))]
        self.instances: dict[str, Json] = {}
        self.nodes = {
            name: node_entry(f"uuid-{k % count}", memory, DISK, cpus=64)
            for k, (name, memory) in enumerate(zip(self.names, scenario.memory))
        }
        groups = {f"uuid-{g}": group_entry(g) for g in range(count)}
        self.document: Json = {
            "version": 2,
            "cluster_name": "life.example.com",
            "cluster_tags": [],
            "enabled_hypervisors": ["xen-pvm"],
            "ipolicy": POLICY,
            "nodegroups": groups,
            "nodes": self.nodes,
            "instances": self.instances,
        }

    def request(self, name: str, memory: int) -> Json:
        """Return the request for a new instance; `memory` in MiB."""
        return _described(memory, self.scenario.template) | {
            "type": "allocate",
            "name": name,
            "required_nodes": 2 if self.scenario.template == "drbd" else 1,
            "group_name": None,
        }

    def add(self, name: str, memory: int, nodes: list[str]) -> None:
        """Add a new instance on `nodes`."""
        described = _described(memory, self.scenario.template)
        self.instances[name] = described | {"nodes": nodes, "admin_state": "up"}
        self._count(name, 1)

    def remove(self, name: str) -> None:
        """Remove the instance."""
        self._count(name, -1)
        del self.instances[name]

    def move(self, name: str, nodes: list[str]) -> None:
        """Move the instance to `nodes`."""
        self._count(name, -1)
        self.instances[name]["nodes"] = nodes
        self._count(name, 1)

    def on(self, node: str, position: int) -> list[str]:
        """Return the instances that have `node` as their primary (0) or secondary (1)."""
        return [n for n, one in self.instances.items() if one["nodes"][position:][:1] == [node]]

    def _count(self, name: str, sign: int) -> None:
        one = self.instances[name]
        primary = self.nodes[one["nodes"][0]]
        primary["free_memory"] -= sign * one["memory"]
        primary["i_pri_memory"] += sign * one["memory"]
        primary["i_pri_up_memory"] += sign * one["memory"]
        for node in one["nodes"]:
            self.nodes[node]["free_disk"] -= sign * one["disk_space_total"]


def _described(memory: int, template: str) -> Json:
    return {
        "memory": memory,
        "vcpus": 1,
        "spindle_use": 1,
        "disks": [{"size": SIZE, "mode": "rw", "spindles": 1, "dev_type": template}],
        "disk_space_total": SIZE + 128 if template == "drbd" else 0,
        "disk_template": template,
        "nics": [],
        "tags": [],
        "os": "debian",
        "hypervisor": "xen-pvm",
    }
