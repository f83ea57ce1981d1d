"""Parse the tags for Pacemaker's strategies: capacities, needs, scores, priorities, groups.

============================================  ========================================
tag                                           on
============================================  ========================================
``iallocator:utilization:NAME:N``             nodes (capacity), instances (need)
``iallocator:score:N``                        nodes: weight, for every instance
``iallocator:maintenance``                    nodes: instances on the node stay
``iallocator:score:NODE:N``                   instances: preference for one node
``iallocator:stickiness:N``                   instances: preference for the present node
``iallocator:priority:N``                     instances: higher priorities are placed first
``iallocator:colocate:must:NAME``             instances: all with this tag on one node
============================================  ========================================

If no object has a tag ``utilization``, the attributes are memory, cpu and disk. Then, the capacity
of a node is its free capacity, and the need of an instance is its use. Invalid tags are ignored and
reported.

The tag ``iallocator:rescue:auto`` of a group permits the automatic rescue of its dead nodes.
"""

from __future__ import annotations

from iallocator.model.columns import CPUS, DISK, MEMORY
from iallocator.model.constraints import TagFinding
from iallocator.tags.foreign import nearest
from iallocator.tags.pacemaker_scores import add, read_integer, read_score
from iallocator.tolerances import LARGEST_NUMBER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from iallocator.model.cluster import Cluster, Node
    from iallocator.model.instance import Instance
    from iallocator.model.state import State

    Amounts = dict[str, float]
    """Attribute of the utilization, for example ``memory`` -> amount."""

__all__ = ["InstanceFacts", "PacemakerTags", "rescues"]

UTILIZATION_TAG = "utilization:"
SCORE_TAG = "score:"
STICKINESS_TAG = "stickiness:"
PRIORITY_TAG = "priority:"
COLOCATE_TAG = "colocate:must:"
MAINTENANCE_TAG = "maintenance"
RESCUE_TAG = "rescue:auto"

NUMBER_EXPECTED = "expected a whole number at the end"


class InstanceFacts:
    """The facts of one instance.

    ``needs``: attribute -> amount. ``scores``: node index -> location score. ``group``: the name of
    its colocation group, "" for none. ``stickiness``: None for the value in the settings.
    """

    __slots__ = ("group", "needs", "priority", "scores", "stickiness")

    def __init__(self) -> None:
        self.needs: Amounts = {}
        self.scores: dict[int, float] = {}
        self.stickiness: float | None = None
        self.priority = 0
        self.group = ""


class PacemakerTags:
    """The tags of a cluster, and of the new instances.

    If `whole` is false, scores and stickiness may have decimals; Pacemaker has whole numbers only.

    Attributes
    ----------
    tagged:
        True if tags define the utilization.
    weights:
        Per node, the score that every instance has for it.
    capacity:
        Per node, attribute -> capacity from tags; empty if not `tagged`.
    maintenance:
        Per node, true if a tag sets maintenance.
    usable:
        Per node, true if it accepts instances: it is online and not in maintenance.
    kept:
        Per node, true if its instances stay: it is in maintenance or not vm_capable.
    problems, findings:
        Invalid tags, as messages and as findings. The tags of an instance are added when the
        instance is read.
    """

    def __init__(
        self,
        cluster: Cluster,
        coming: Iterable[Instance],
        problems: list[str],
        prefix: str,
        whole: bool = True,
    ) -> None:
        self.problems = problems
        self._prefix = prefix
        self._whole = whole
        self._names = [node.name for node in cluster.nodes]
        self._by_name: Sequence[int] = ()
        self._index = {node.name: node.index for node in cluster.nodes}
        self._known: dict[str, InstanceFacts] = {}
        self.findings: list[TagFinding] = []
        owned = [node.tags for node in cluster.nodes]
        owned += [instance.tags for instance in (*cluster.instances, *coming)]
        start = prefix + UTILIZATION_TAG
        self.tagged = any(tag.startswith(start) for tags in owned for tag in tags)
        self.weights: list[float] = [0] * len(cluster.nodes)
        self.capacity: list[Amounts] = [{} for _ in cluster.nodes]
        self.maintenance = [False] * len(cluster.nodes)
        for node in cluster.nodes:
            for tag in self._ours(node.tags):
                if tag.startswith(UTILIZATION_TAG):
                    self._amount(tag, f"node {node.name}", self.capacity[node.index])
                elif tag.startswith(SCORE_TAG):
                    for score in self._score(tag, SCORE_TAG, f"node {node.name}"):
                        self.weights[node.index] = add(self.weights[node.index], score)
                elif tag == MAINTENANCE_TAG:
                    self.maintenance[node.index] = True
        self.kept = [
            maintained or not node.vm_capable
            for node, maintained in zip(cluster.nodes, self.maintenance)
        ]
        self.usable = [node.online and not kept for node, kept in zip(cluster.nodes, self.kept)]

    @property
    def by_name(self) -> Sequence[int]:
        """Return the rank of each node by name, compared as bytes."""
        if not self._by_name:
            names = [name.encode() for name in self._names]
            places = [0] * len(names)
            for place, index in enumerate(sorted(range(len(names)), key=names.__getitem__)):
                places[index] = place
            self._by_name = places
        return self._by_name

    def _ours(self, tags: Sequence[str]) -> Iterator[str]:
        """Yield the text after this program's prefix, for each of `tags` that begins with it."""
        size = len(self._prefix)
        return (tag[size:] for tag in tags if tag.startswith(self._prefix))

    def of(self, instance: Instance) -> InstanceFacts:
        """Return the facts of `instance`, which are read on first use."""
        known = self._known.get(instance.name)
        if known is None:
            facts = InstanceFacts()
            owner = f"instance {instance.name}"
            for tag in self._ours(instance.tags):
                if tag.startswith(UTILIZATION_TAG):
                    self._amount(tag, owner, facts.needs)
                elif tag.startswith(SCORE_TAG):
                    where, _, value = tag[len(SCORE_TAG) :].rpartition(":")
                    index = self._index.get(where)
                    if index is None:
                        meant = nearest(where, self._index, "")
                        self._complain(owner, tag, f"there is no such node{meant}")
                        continue
                    for score in self._score(tag, tag.removesuffix(value), owner):
                        facts.scores[index] = add(facts.scores.get(index, 0), score)
                elif tag.startswith(STICKINESS_TAG):
                    for score in self._score(tag, STICKINESS_TAG, owner):
                        facts.stickiness = score
                elif tag.startswith(PRIORITY_TAG):
                    for score in self._score(tag, PRIORITY_TAG, owner):
                        facts.priority = int(score)
                elif tag.startswith(COLOCATE_TAG) and ":" not in tag[len(COLOCATE_TAG) :]:
                    facts.group = tag[len(COLOCATE_TAG) :]
            if not self.tagged:
                facts.needs = own_needs(instance)
            known = self._known[instance.name] = facts
        return known

    def _score(self, tag: str, prefix: str, owner: str) -> Iterator[float]:
        """Yield the score that follows `prefix` in `tag`; report an invalid score instead."""
        try:
            yield read_score(tag[len(prefix) :], self._whole or prefix == PRIORITY_TAG)
        except ValueError:
            self._complain(
                owner, tag, NUMBER_EXPECTED if self._whole else "expected a number at the end"
            )

    def _amount(self, tag: str, owner: str, amounts: Amounts) -> None:
        name, _, value = tag[len(UTILIZATION_TAG) :].rpartition(":")
        try:
            amounts[name] = max(-LARGEST_NUMBER, min(LARGEST_NUMBER, read_integer(value)))
        except ValueError:
            self._complain(owner, tag, NUMBER_EXPECTED)

    def _complain(self, owner: str, tag: str, why: str) -> None:
        finding = TagFinding("unknown", owner, f"{self._prefix}{tag}", f"does not count: {why}")
        self.findings.append(finding)
        self.problems.append(f"Warning: {finding}")

    def free(self, state: State, index: int) -> Amounts:
        """Return the free amount of each attribute on node `index`; negative if overcommitted."""
        if not self.tagged:
            return free_now(state, index)
        free = dict(self.capacity[index])
        for instance in state.instances_on(index):
            take(free, self.of(instance).needs)
        return free


def own_needs(instance: Instance) -> Amounts:
    """Return the memory (MiB), disk space (MiB) and virtual cpus that an instance uses."""
    return {
        "memory": instance.memory,
        "cpu": 0 if instance.admin_offline else instance.vcpus,
        "disk": instance.disk if instance.local else 0,
    }


def free_now(state: State, index: int) -> Amounts:
    """Return the memory (MiB), disk space (MiB) and virtual cpus that are free on a node."""
    node, columns = state.cluster.nodes[index], state.columns
    return {
        "memory": columns[MEMORY][index],
        "cpu": node.vcpu_ratio * node.total_cpus - columns[CPUS][index],
        "disk": columns[DISK][index],
    }


def take(free: Amounts, needs: Amounts) -> None:
    """Subtract `needs` from `free`; a missing attribute counts as 0."""
    for name, amount in needs.items():
        free[name] = free[name] - amount if name in free else 0


def lacking(free: Amounts, needs: Amounts) -> Sequence[str]:
    """Return the attributes of `needs` that exceed `free`; equal amounts fit."""
    return [name for name, amount in needs.items() if free.get(name, 0) < amount]


def rescues(node: Node, prefix: str) -> bool:
    """Return whether a tag of its group permits the automatic rescue of a dead node.

    A node in maintenance, or drained, is not rescued, because it may be rebooting. `prefix`: the
    beginning of tags of this program.
    """
    return (
        prefix + RESCUE_TAG in node.group.tags
        and not node.drained
        and prefix + MAINTENANCE_TAG not in node.tags
    )
