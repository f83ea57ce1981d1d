"""Order live migrations by Pacemaker's scheduler (`crm_simulate`) and by this program.

`python -m benchmarks.pacemaker [PROBLEMS]` prints the table of `docs/explanation/measurements.md`.
A problem has nodes with some memory, and virtual machines that run on one node and must move to
another; both placements fit.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path
from random import Random

from iallocator.model.cluster import Cluster, Group, Node, NodeCpus, NodeMemory
from iallocator.model.instance import Backend, Disks, Instance
from iallocator.model.policy import Policy
from iallocator.model.state import State
from iallocator.transition.assemble import plan_transition

__all__ = ["Graph", "Problem", "available", "ours", "pacemakers", "problem"]

TOOL = "crm_simulate"
ROUNDS = 20
"""Number of random orders that are executed for each graph."""

DIGEST = "f2317cad3d54cec5d7d7aa7d0bf35cf8"
"""Pacemaker's digest of empty parameters; without it, Pacemaker restarts all machines."""

AGENT = {"type": "Dummy", "class": "ocf", "provider": "pacemaker"}


class Problem:
    """A problem of moves.

    Each of `nodes` nodes has the memory `capacity`; a machine has its memory, its current and its
    target node.
    """

    def __init__(
        self, nodes: int, capacity: int, machines: dict[str, tuple[int, int, int]]
    ) -> None:
        self.nodes = nodes
        self.capacity = capacity
        self.machines = machines


class Graph:
    """The dependencies of actions, and their effects on nodes.

    `waits`: action -> actions that must end before it. `owner`: action -> machine. `takes`,
    `frees`: action -> (node, memory), which is used from its start on, or freed at its end.
    """

    def __init__(self) -> None:
        self.waits: dict[str, set[str]] = {}
        self.owner: dict[str, str] = {}
        self.takes: dict[str, tuple[int, int]] = {}
        self.frees: dict[str, tuple[int, int]] = {}

    def ordered(self) -> dict[str, set[str]]:
        """Return machine -> other machines with an action on which one of its actions depends."""
        found: dict[str, set[str]] = {}
        for action, machine in self.owner.items():
            before = {self.owner[one] for one in self._before(action) if one in self.owner}
            found.setdefault(machine, set()).update(before - {machine})
        return found

    def _before(self, action: str) -> set[str]:
        seen: set[str] = set()
        waiting = [action]
        while waiting:
            for one in self.waits[waiting.pop()] - seen:
                seen.add(one)
                waiting.append(one)
        return seen

    def longest(self) -> int:
        """Return the largest number of migrations that must run one after the other."""
        length: dict[str, int] = {}

        def of(action: str) -> int:
            if action not in length:
                own = 1 if action in self.takes else 0
                length[action] = own + max((of(one) for one in self.waits[action]), default=0)
            return length[action]

        return max((of(action) for action in self.waits), default=0)

    def overfull(self, one: Problem, rng: Random) -> bool:
        """Return whether a random order with overlapping actions overfills a node."""
        used = [0] * one.nodes
        for memory, present, _ in one.machines.values():
            used[present] += memory
        waits = {action: set(before) for action, before in self.waits.items()}
        running: list[str] = []
        while waits or running:
            ready = sorted(action for action, before in waits.items() if not before)
            action = rng.choice(ready + running)
            if action in waits:
                del waits[action]
                running.append(action)
                node, memory = self.takes.get(action, (0, 0))
                used[node] += memory
                if used[node] > one.capacity:
                    return True
                continue
            running.remove(action)
            node, memory = self.frees.get(action, (0, 0))
            used[node] -= memory
            for before in waits.values():
                before.discard(action)
        return False


def available() -> bool:
    """Return whether Pacemaker's tool is installed."""
    return shutil.which(TOOL) is not None


def problem(seed: int) -> Problem:
    """Return the random problem of `seed`, with 40 to 85 % of all memory in use."""
    rng = Random(f"pacemaker/{seed}")
    nodes, capacity = rng.randint(3, 6), 12
    now, then = [capacity] * nodes, [capacity] * nodes
    machines: dict[str, tuple[int, int, int]] = {}
    free = rng.uniform(0.15, 0.6)
    for number in range(nodes * 5):
        memory = rng.randint(1, 6)
        present = [k for k in range(nodes) if now[k] >= memory]
        wanted = [k for k in range(nodes) if then[k] >= memory]
        if present and wanted:
            here, there = rng.choice(present), rng.choice(wanted)
            now[here] -= memory
            then[there] -= memory
            machines[f"vm{number:02}"] = memory, here, there
        if sum(now) <= nodes * capacity * free:
            break
    return Problem(nodes, capacity, machines)


def ours(one: Problem) -> Graph:
    """Return the transition of this program for the problem."""
    group = Group(0, "uuid", "default", Policy(()))
    instances = [
        Instance(name, Backend(memory), Disks("rbd"), nodes=(present,))
        for name, (memory, present, _) in one.machines.items()
    ]
    nodes = [
        Node(
            f"node{k}",
            group,
            memory=NodeMemory(
                one.capacity + 1,
                free=one.capacity + 1 - sum(i.memory for i in instances if i.nodes == (k,)),
            ),
            cpus=NodeCpus(99),
        )
        for k in range(one.nodes)
    ]
    state = State(Cluster("cluster", (), [group], nodes, instances))
    wanted: dict[str, tuple[int, ...] | None] = {
        name: (there,) for name, (_, _, there) in one.machines.items()
    }
    transition = plan_transition(state, wanted)
    if transition.left:
        raise AssertionError(f"left: {transition.left}")
    graph = Graph()
    for step in transition.steps:
        action, task = str(step.number), step.action
        graph.waits[action] = {str(number) for number in step.after}
        graph.owner[action] = task.name
        for amounts, found in ((task.takes, graph.takes), (task.frees, graph.frees)):
            for (node, what), amount in amounts.items():
                if what == "memory" and amount:
                    found[action] = node, int(amount)
    return graph


def pacemakers(one: Problem) -> Graph:
    """Return Pacemaker's transition graph."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "cib.xml", Path(folder) / "graph.xml"
        source.write_bytes(ET.tostring(_cib(one)))
        command = [TOOL, "-x", str(source), "-S", "-G", str(target)]
        subprocess.run(command, capture_output=True, check=True)
        root = ET.parse(target).getroot()
    graph, names = Graph(), dict(enumerate(one.machines))
    for synapse in root.findall("synapse"):
        action = synapse.find("./action_set/*")
        assert action is not None
        number, key = str(action.get("id")), str(action.get("operation_key"))
        triggers = synapse.findall("./inputs/trigger/*")
        graph.waits[number] = {str(trigger.get("id")) for trigger in triggers}
        if key.startswith("r") and action.tag == "rsc_op":
            machine = names[int(key[1 : key.index("_")])]
            memory, present, wanted = one.machines[machine]
            graph.owner[number] = machine
            begins = "_migrate_to_" in key or ("_start_" in key and not _migrates(root, key))
            if begins:
                graph.takes[number] = wanted, memory
            if "_stop_" in key:
                graph.frees[number] = present, memory
    return graph


def _migrates(root: ET.Element, key: str) -> bool:
    """Return whether the resource of an operation migrates live."""
    wanted = f"{key[: key.index('_')]}_migrate_to_0"
    return any(action.get("operation_key") == wanted for action in root.iter("rsc_op"))


def _cib(one: Problem) -> ET.Element:
    """Return the problem as Pacemaker's configuration and status."""
    cib = ET.Element("cib", {"validate-with": "pacemaker-3.7", "crm_feature_set": "3.16.1",
                             "have-quorum": "1", "admin_epoch": "0", "epoch": "1",
                             "num_updates": "0", "dc-uuid": "1"})  # fmt: skip
    configuration, status = (ET.SubElement(cib, tag) for tag in ("configuration", "status"))
    options = {"placement-strategy": "utilization", "stonith-enabled": "false",
               "enable-startup-probes": "false", "no-quorum-policy": "ignore"}  # fmt: skip
    _pairs(ET.SubElement(configuration, "crm_config"), "cluster_property_set", "o", options)
    nodes, resources, constraints = (
        ET.SubElement(configuration, tag) for tag in ("nodes", "resources", "constraints")
    )
    for k, (memory, _, wanted) in enumerate(one.machines.values()):
        primitive = ET.SubElement(resources, "primitive", {"id": f"r{k}", **AGENT})
        _pairs(primitive, "meta_attributes", f"r{k}-m", {"allow-migrate": "true"})
        _pairs(primitive, "utilization", f"r{k}-u", {"memory": str(memory)})
        ET.SubElement(constraints, "rsc_location", id=f"l{k}", rsc=f"r{k}",
                      node=f"node{wanted}", score="INFINITY")  # fmt: skip
    for index in range(one.nodes):
        name, ident = f"node{index}", str(index + 1)
        node = ET.SubElement(nodes, "node", id=ident, uname=name)
        _pairs(node, "utilization", f"n{index}-u", {"memory": str(one.capacity)})
        state = ET.SubElement(status, "node_state", id=ident, uname=name, in_ccm="true",
                              crmd="online", join="member", expected="member")  # fmt: skip
        history = ET.SubElement(ET.SubElement(state, "lrm", id=ident), "lrm_resources")
        for k, (_, present, _) in enumerate(one.machines.values()):
            _operation(history, k, present == index)
    return cib


def _pairs(parent: ET.Element, tag: str, ident: str, values: dict[str, str]) -> None:
    box = ET.SubElement(parent, tag, id=ident)
    for key, value in values.items():
        ET.SubElement(box, "nvpair", id=f"{ident}-{key}", name=key, value=value)


def _operation(history: ET.Element, k: int, here: bool) -> None:
    """Add the history of a resource on a node: started there, or found stopped."""
    operation, code = ("start", "0") if here else ("monitor", "7")
    resource = ET.SubElement(history, "lrm_resource", {"id": f"r{k}", **AGENT})
    key = f"{k + 1}:-1:{code}:00000000-0000-0000-0000-000000000000"
    ET.SubElement(resource, "lrm_rsc_op", {
        "id": f"r{k}_last_0", "operation_key": f"r{k}_{operation}_0", "operation": operation,
        "interval": "0", "call-id": str(k + 1), "rc-code": code, "op-status": "0",
        "crm_feature_set": "3.16.1", "op-digest": DIGEST, "transition-key": key,
        "transition-magic": f"0:{code};{key}",
    })  # fmt: skip


class Figures:
    """Sums over problems for one scheduler."""

    def __init__(self) -> None:
        self.waits = 0
        self.longest = 0
        self.overfull = 0

    def add(self, one: Problem, graph: Graph) -> bool:
        """Count one problem; return whether some order that the graph permits overfills a node."""
        rng = Random(0)
        overfull = any(graph.overfull(one, rng) for _ in range(ROUNDS))
        self.waits += sum(map(len, graph.ordered().values()))
        self.longest += graph.longest()
        self.overfull += overfull
        return overfull


def measure(seeds: range) -> dict[str, tuple[int, Figures, Figures]]:
    """Return the number of problems and both schedulers' figures, by Pacemaker's result."""
    found = {
        "all": (Figures(), Figures()),
        "Pacemaker overfills no node": (Figures(), Figures()),
    }
    counts = dict.fromkeys(found, 0)
    for one in map(problem, seeds):
        theirs, mine = pacemakers(one), ours(one)
        kinds = ["all"] if Figures().add(one, theirs) else list(found)
        for kind in kinds:
            counts[kind] += 1
            found[kind][0].add(one, theirs)
            found[kind][1].add(one, mine)
    return {kind: (counts[kind], *figures) for kind, figures in found.items()}


def main() -> None:
    """Measure all problems, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", type=int, nargs="?", default=300, help="so many (300)")
    asked = parser.parse_args().problems
    if not available():
        parser.error(f"{TOOL} is not installed")
    print(
        "| problems | program | pairs that wait | longest chain, mean | "
        "problems in which a node is overfull at some time |"
    )
    print("|---|---|---|---|---|")
    for kind, (count, theirs, mine) in measure(range(asked)).items():
        for name, figures in (("Pacemaker", theirs), ("iallocator", mine)):
            print(
                f"| {kind}: {count} | {name} | {figures.waits} | "
                f"{figures.longest / max(count, 1):.2f} | {figures.overfull} |"
            )


if __name__ == "__main__":
    main()
