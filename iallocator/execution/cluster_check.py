"""Check on the present cluster whether the conditions that jobs of a plan rely on are met."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from iallocator.model.instance import Backend, Disks, Instance, Status
from iallocator.model.state import State
from iallocator.model.templates import TEMPLATES
from iallocator.transition import step as kinds
from iallocator.transition.execution import Execution
from iallocator.transition.resources import Place
from iallocator.transition.step import Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from iallocator.aliases import Json
    from iallocator.execution.jobs import Job
    from iallocator.model.cluster import Cluster, Node


__all__ = [
    "ClusterCheck",
    "LiveClusterCheck",
    "Places",
    "dead_nodes",
    "expectations",
    "places_of",
    "rejections",
]

LEAVING = (kinds.OFFLINE, kinds.POWER_OFF)
"""Kinds of steps after which no instance can be on the node."""


@dataclass
class Places:
    """The present places of instances and flags of nodes.

    Attributes
    ----------
    instances:
        Name -> names of its nodes, primary first.
    offline, drained:
        Names of nodes that have the flag.
    nodes:
        Names of all nodes.
    running:
        Names of the instances with the administrative state ``up``.
    """

    instances: dict[str, tuple[str, ...]] = field(default_factory=dict)
    offline: set[str] = field(default_factory=set)
    drained: set[str] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)
    running: set[str] = field(default_factory=set)

    def carry_out(self, step: Json) -> None:
        """Record the changes by `step`: the nodes of an instance, or the flags of a node."""
        if "instance" in step:
            self.instances[step["instance"]] = tuple(step["to"])
        elif step["kind"] == kinds.ONLINE:
            self.offline.discard(step["node"])
            self.drained.discard(step["node"])
        elif step["kind"] == kinds.OFFLINE:
            self.offline.add(step["node"])
            self.drained.discard(step["node"])  # as Ganeti does
        elif step["kind"] == kinds.DRAIN:
            self.drained.add(step["node"])
        elif step["kind"] == kinds.UNDRAIN:
            self.drained.discard(step["node"])


class ClusterCheck(Protocol):
    """Checks whether jobs can be executed on the present cluster."""

    def look(self, jobs: Sequence[Job], waiting: Sequence[Job]) -> dict[int, str]:
        """Return number of a job -> why it cannot be done now; jobs that can be done are left out.

        Parameters
        ----------
        jobs
            Jobs that are to be submitted, in the order of their numbers.  They are checked against
            the free capacity, too, one after the other.
        waiting
            Jobs that are in the queue already.  Their capacity is not checked: it is not known how
            much of it the running jobs have taken already.
        """

    def places(self) -> Places:
        """Return the present places."""


def expectations(transition: Json, before: Places) -> Json:
    """Return what a plan expects of the nodes that it drains, reboots, or powers on or off.

    `before`: the places before the plan.

    The result is name of a node -> ``offline``: whether the node is offline before the plan;
    ``stay``: the instances that are still on it after its last step (for a dead node, all of its
    instances); ``during``: the instances that run on it when it is rebooted.
    """
    after = Places(dict(before.instances))
    expected: Json = {}
    during: dict[str, list[str]] = {}
    for step in transition["steps"]:
        if step["kind"] == kinds.REBOOT:
            during[step["node"]] = _running_on(step["node"], after.instances, before.running)
        after.carry_out(step)
        if "node" in step:
            name = step["node"]
            here = sorted(one for one, nodes in after.instances.items() if name in nodes)
            expected[name] = {
                "offline": name in before.offline, "stay": here, "during": during.get(name, [])
            }  # fmt: skip
    return expected


def dead_nodes(head: Json) -> list[str]:
    """Return the dead nodes that an execution sets offline; `head`: the head of its journal."""
    marked = [one["node"] for one in head["transition"]["steps"] if one["kind"] == kinds.OFFLINE]
    return [name for name in marked if head["expected"][name]["offline"]]


def _running_on(
    node: str, places: Mapping[str, Sequence[str]], running: Collection[str]
) -> list[str]:
    """Return the instances with `node` as primary that are in `running`."""
    return sorted(
        name for name, nodes in places.items() if [*nodes[:1]] == [node] and name in running
    )


class LiveClusterCheck:
    """Checks jobs on the running cluster, read by `load`; `expected` is from `expectations`."""

    def __init__(self, load: Callable[[], Cluster], expected: Json) -> None:
        self._load = load
        self._expected = expected

    def places(self) -> Places:
        """Return the present places."""
        return places_of(self._load())

    def look(self, jobs: Sequence[Job], waiting: Sequence[Job]) -> dict[int, str]:
        """Return number of a job -> why the present cluster does not allow it, if it does not."""
        cluster = self._load()
        reasons = rejections(waiting, places_of(cluster), self._expected)
        if jobs:
            reasons |= rejections(
                jobs, places_of(cluster), self._expected, _Model(cluster).carry_out
            )
        return reasons


def rejections(
    jobs: Sequence[Job],
    places: Places,
    expected: Json,
    carry_out: Callable[[Json], str] = lambda step: "",
) -> dict[int, str]:
    """Return number of a job -> why it cannot be done now; jobs that can be done are left out.

    The jobs are checked one after the other, and `places` are changed as by jobs that can be done.
    `carry_out` executes a step on a model, and returns another reason against it, for example a
    lack of free capacity; "" if there is none.
    """
    rejected: dict[int, str] = {}
    for job in jobs:
        for step in job.steps:
            why = _hindrance(step, places, expected) or carry_out(step)
            if why:
                rejected[job.number] = why
                break
            places.carry_out(step)
    return rejected


def _hindrance(step: Json, places: Places, expected: Json) -> str:
    """Return the reason why `step` cannot be executed; "" if it can.

    `places` has the present nodes of the instances, and the states of the nodes.
    """
    if "node" in step:
        return _node_hindrance(step, places, expected.get(step["node"], {}))
    name, begins, ends = step["instance"], tuple(step["from"]), tuple(step["to"])
    there = places.instances.get(name)
    if there is None and step["kind"] != kinds.CREATE:
        return f"{name} is gone"
    if there is not None and step["kind"] == kinds.CREATE:
        return f"{name} exists already"
    if there is not None and there != begins:
        return f"{name} is on {':'.join(there)}, no longer on {':'.join(begins)}"
    for role, node in enumerate(ends):
        comes = begins[role : role + 1] != (node,) and not (role and node in begins)
        if node not in places.nodes:
            return f"{node} is gone"
        if comes and node in places.offline | places.drained:
            return f"{node} is {'offline' if node in places.offline else 'drained'}"
    return ""


def _node_hindrance(step: Json, places: Places, expected: Json) -> str:
    """Return the reason why a step that concerns a node cannot be executed; "" if it can."""
    name, kind = step["node"], step["kind"]
    if name not in places.nodes:
        return f"{name} is gone"
    marks = kind in (kinds.FENCE, kinds.OFFLINE)
    if marks and expected.get("offline") and name not in places.offline:
        return f"{name} is online again"
    if kind == kinds.DRAIN and name in places.offline:
        return f"{name} is offline"
    if kind == kinds.REBOOT:
        here = _running_on(name, places.instances, places.running)
        unexpected = [one for one in here if one not in expected.get("during", here)]
        if unexpected:
            return f"{', '.join(unexpected[:3])} would stop with {name}"
    if kind in LEAVING:
        stay = expected.get("stay", ())
        here = sorted(i for i, on in places.instances.items() if name in on and i not in stay)
        if here:
            return f"{', '.join(here[:3])} would be left on {name}"
    return ""


def places_of(cluster: Cluster) -> Places:
    """Return the present places of all instances of `cluster`, and the flags of its nodes."""
    nodes = cluster.nodes
    return Places(
        {one.name: tuple(cluster.node_names(one.nodes)) for one in cluster.instances},
        {node.name for node in nodes if node.offline},
        {node.name for node in nodes if node.drained},
        {node.name for node in nodes},
        {one.name for one in cluster.instances if one.uses_memory},
    )


class _Model:
    """Executes steps on the model of a cluster, with all hard limits."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._state = State(cluster)
        self._execution = Execution(self._state)
        self._running = {one.name: one.uses_memory for one in cluster.instances}
        self._new: dict[str, Instance] = {}
        self._node = {node.name: node for node in cluster.nodes}

    def carry_out(self, step: Json) -> str:
        """Execute the step on the model; return the limit that it breaks, or "".

        Offline nodes do not report their free capacity. If the plan powers on such a node before
        the step, Ganeti itself checks the capacity.
        """
        kind = step["kind"]
        if "node" in step:
            meant = Step(kind, node=self._node[step["node"]].index)
        else:
            name = step["instance"]
            instance = self._cluster.instance_named(name) or self._made(step)
            running = self._running.get(name, False)
            before = self._place(step["from"], running)
            if kind in (kinds.START, kinds.STOP):
                running = kind == kinds.START
            elif kind == kinds.CREATE:
                running = instance.uses_memory
            self._running[name] = running
            after = self._place(step["to"], running)
            meant = Step(kind, instance=instance, before=before, after=after)
        problems = self._execution.carry_out(meant)
        unknown = any(self._node[name].offline for name in step.get("to", ()))
        return problems[0] if problems and not unknown else ""

    def _place(self, names: Sequence[str], running: bool) -> Place | None:
        nodes: Iterable[Node] = (self._node[name] for name in names)
        return Place(tuple(node.index for node in nodes), running) if names else None

    def _made(self, step: Json) -> Instance:
        """Return the new instance that the first opcode of a step creates."""
        name = step["instance"]
        if name not in self._new:
            opcode = step["opcodes"][0]
            parameters = opcode["beparams"]
            sizes = [disk["size"] for disk in opcode["disks"]]
            template = opcode["disk_template"]
            extra = TEMPLATES[template].metadata * len(sizes)
            self._new[name] = Instance(
                opcode["instance_name"],
                Backend(
                    parameters["maxmem"],
                    parameters["vcpus"],
                    spindle_use=parameters.get("spindle_use", 1),
                ),
                Disks(template, sum(sizes) + extra, sizes),
                status=Status("up" if opcode.get("start", True) else "down"),
                tags=opcode.get("tags", ()),
            )
        return self._new[name]
