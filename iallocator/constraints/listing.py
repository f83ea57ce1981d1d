"""List every constraint that a document, its tags, its request and the options express.

The limits of nodes are listed per instance, by what it requires.  Placement keys, pools, scores and
capacities of nodes are listed only if the strategy of a group uses them.
"""

from __future__ import annotations

from iallocator.constraints.table import CONSTRAINTS, AccessConstraint
from iallocator.model.constraints import (
    APART,
    CAPACITY,
    EVERY,
    LOCATION,
    MUST,
    ORDER,
    SHOULD,
    Constraint,
    SharedConstraint,
)
from iallocator.model.keys import LEVELS, in_force
from iallocator.model.tags import DESIRED, EXCLUSION, MIGRATION, exclusion_prefixes
from iallocator.model.tags import LOCATION as LOCATIONS
from iallocator.tags.pacemaker import PacemakerTags
from iallocator.tags.pacemaker_scores import INFINITY, shown
from iallocator.tags.placement_keys import NodeTags, ResourceTags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Protocol

    from iallocator.constraints.relations import Relations
    from iallocator.model.cluster import Cluster, Group, Node
    from iallocator.model.constraints import Member
    from iallocator.model.instance import Instance
    from iallocator.model.keys import PlacementKey
    from iallocator.requests import Allocate

__all__ = ["InForce", "Listed", "ListedKeys", "constraints_of"]

EXCLUSION_WEIGHT = 2.0
LOCATION_WEIGHT = 1.0
"""What the statistics ``pri_tags`` and ``location`` add to the score for each."""


def constraints_of(
    cluster: Cluster,
    wanted: Sequence[Allocate],
    relations: Relations | None,
    settings: ListedSettings,
    problems: list[str],
    everything: bool = True,
) -> Iterator[Constraint | SharedConstraint]:
    """What is in force: of nodes, instance by instance, of `wanted` new ones; of sets last.

    `settings` are those that are in force for the request, completed from tags.
    `everything`: what every instance has anyway, too: its size, and the roles of a mirrored one.
    Tags that cannot be understood are added to `problems`, in words.
    """
    instances = [*cluster.instances, *(request.instance for request in wanted)]
    asked = {request.instance.name: request for request in wanted}
    new = [request.instance for request in wanted]
    facts = PacemakerTags(cluster, new, problems, settings.tag_prefix)
    force = InForce(cluster, settings)
    listed = Listed(cluster, facts, settings, force)
    keys = ListedKeys(cluster, settings, problems) if force.keys() else None
    for node in cluster.nodes:
        yield from listed.of_node(node)
        if keys is not None and force.keys(node.group):
            yield from keys.of_node(node)
    if keys is not None:
        yield from keys.of_cluster()
    for instance in instances:
        if everything:
            yield from _capacities(instance)
            yield from _roles(instance)
        yield from _rooted(cluster, instance)
        if instance.name in asked:
            yield from _whitelist(asked[instance.name], settings)
        yield from listed.of_instance(instance)
        yield from _locations(cluster, instance, force)
        if keys is not None and force.keys(instance=instance):
            yield from keys.of_instance(instance)
        if relations is not None:
            yield from relations.of(instance.name)
    yield from _exclusions(instances, force, exclusion_prefixes(cluster.tags))
    if relations is not None:
        yield from _rules(relations)


def _capacities(instance: Instance) -> Iterator[Constraint]:
    needs = [("memory", instance.memory, "MiB"), ("vcpus", instance.vcpus, "")]
    if instance.local:
        needs.append(("disk_space_total", instance.disk, "MiB"))
    for name, amount, unit in needs:
        if amount:
            what = f"needs {amount} {unit} of {name.partition('_')[0]}".replace("  ", " ")
            yield Constraint(CAPACITY, MUST, instance.name, what, f"member {name}")


def _roles(instance: Instance) -> Iterator[Constraint]:
    """A mirrored instance has two roles, which must be on different nodes of one group."""
    if instance.required_nodes == 2:
        for role, other in (("primary", "secondary"), ("secondary", "primary")):
            what = f"{role} on another node than the {other}"
            yield Constraint(
                APART, MUST, instance.name, what, "disk template drbd", other=instance.name
            )


def _rooted(cluster: Cluster, instance: Instance) -> Iterator[Constraint]:
    """What is not mirrored stays where its disks are."""
    if instance.nodes and not instance.kind.relocatable:
        home = cluster.nodes[instance.nodes[0]].name
        yield Constraint(
            LOCATION, MUST, instance.name, f"stays on {home}", f"disk template {instance.template}"
        )


def _whitelist(request: Allocate, settings: ListedSettings) -> Iterator[Constraint]:
    name = request.instance.name
    if settings.restrict_allocation_to is not None:
        nodes = ", ".join(settings.restrict_allocation_to)
        yield Constraint(LOCATION, MUST, name, f"on {nodes}", "option --restrict-allocation-to")
    elif request.restrict_to is not None:
        nodes = ", ".join(request.restrict_to)
        yield Constraint(LOCATION, MUST, name, f"on {nodes}", "member restrict-to-nodes")
    if request.group_name is not None:
        yield Constraint(
            LOCATION, MUST, name, f"in group {request.group_name}", "member group_name"
        )


def _locations(cluster: Cluster, instance: Instance, force: InForce) -> Iterator[Constraint]:
    name = instance.name
    for network in instance.networks:
        what = f"in a group with network {network}"
        yield Constraint(LOCATION, MUST, name, what, "member nics")
    scored = force.score(instance=instance)
    for tag in sorted(instance.desired) if scored else ():
        yield Constraint(
            LOCATION, SHOULD, name, f"on a node tagged {tag}", f"cluster tag {DESIRED}...",
            weight=LOCATION_WEIGHT,
        )  # fmt: skip
    located = any(tag.startswith(LOCATIONS) for tag in cluster.tags)
    if scored and instance.required_nodes == 2 and located:
        yield Constraint(
            APART, SHOULD, name, "primary and secondary in different locations",
            f"cluster tag {LOCATIONS}...", other=name, weight=LOCATION_WEIGHT,
        )  # fmt: skip
    needed = cluster.nodes[instance.nodes[0]].migration if instance.nodes else ()
    for tag in sorted(needed):
        yield Constraint(
            LOCATION, MUST, name, f"moves only to nodes that receive {tag}",
            f"cluster tag {MIGRATION}...",
        )  # fmt: skip


def _exclusions(
    instances: Iterable[Instance], force: InForce, prefixes: tuple[str, ...]
) -> Iterator[SharedConstraint]:
    """Instances with an exclusion tag in common: a new place must not join them.

    Once for each tag, and each strength that the groups of the instances give it.
    `prefixes`: those that tags of the cluster name, not an option.
    """
    sharing: dict[str, dict[str, list[str]]] = {}
    for instance in instances:
        soft = force.settings_of(instance).ignore_soft_errors
        strength = MUST if not soft else SHOULD if force.score(instance=instance) else ""
        for tag in instance.exclusion:
            sharing.setdefault(tag, {}).setdefault(strength, []).append(instance.name)
    for tag, bound in sharing.items():
        named = f"cluster tag {EXCLUSION}..." if tag.startswith(prefixes) else "--exclusion-tags"
        every = [name for names in bound.values() for name in names]
        for strength, names in bound.items():
            if strength and len(every) > 1:
                yield SharedConstraint(
                    APART, strength, tag, names, f"{named}, tag {tag}",
                    others=[name for other, some in bound.items() for name in some
                            if other != strength],
                    weight=EXCLUSION_WEIGHT if strength == SHOULD else 0.0,
                )  # fmt: skip


def _rules(relations: Relations) -> Iterator[SharedConstraint]:
    """The rules that tags make, once for each strength, weight and domain that they ask."""
    for rule in relations.rules:
        shapes: dict[tuple[float, str], list[Member]] = {}
        for member in rule.members:
            shapes.setdefault(member.shape, []).append(member)
        for (weight, domain), members in shapes.items():
            must = members[0].must
            names = list(dict.fromkeys(member.instance for member in members))
            yield SharedConstraint(
                rule.kind, MUST if must else SHOULD, rule.name, names, f"tag {members[0].tag}",
                domain=domain, weight=0.0 if must else weight,
            )  # fmt: skip


class ListedKeys:
    """The keys of the cluster, of nodes and of instances; complaints go to `problems`."""

    def __init__(self, cluster: Cluster, settings: ListedSettings, problems: list[str]) -> None:
        self._cluster = cluster
        self._settings = settings
        self._problems = problems
        prefix = settings.tag_prefix
        self._above = ResourceTags(prefix, LEVELS.index("cluster"), problems)
        self._own = ResourceTags(prefix, LEVELS.index("server"), problems)

    def of_cluster(self) -> Iterator[Constraint]:
        """What holds for every instance that does not say otherwise."""
        tags = self._above.of_cluster(self._cluster)
        yield from self._listed(EVERY, tags, "tag of the cluster", self._cluster.placement_keys)

    def of_node(self, node: Node) -> Iterator[Constraint]:
        """How much memory may be allocated on `node`, where a ratio says so."""
        ratio = NodeTags(self._settings.tag_prefix, node, self._problems).ram_contention
        if ratio is not None:
            amount = ratio * node.total_memory
            yield Constraint(
                CAPACITY, MUST, EVERY, f"at most {amount:.12g} MiB of memory on {node.name}",
                f"tag {self._settings.tag_prefix}ram-contention:{ratio:.12g} of {node.name}",
            )  # fmt: skip

    def of_instance(self, instance: Instance) -> Iterator[Constraint]:
        """What `instance` says itself, or its request for it."""
        overhead = self._settings.affinity_overhead
        if not instance.nodes and overhead:
            needed = instance.memory + overhead
            yield Constraint(
                CAPACITY, MUST, instance.name, f"needs more than {needed} MiB of free memory",
                "member memory, setting affinity-overhead",
            )  # fmt: skip
        keys = [*instance.placement_keys, *instance.asked_keys]
        tags = self._own.of_instance(instance)
        yield from self._listed(instance.name, tags, "tag of the instance", keys)

    def _listed(
        self, name: str, tags: Iterable[PlacementKey], origin: str, more: Iterable[PlacementKey]
    ) -> Iterator[Constraint]:
        """Those that count, one of each class and name; tags come before `more`."""
        tagged, others = list(tags), list(more)
        for system in (True, False):
            word = "system" if system else "customer"
            for key in in_force([*tagged, *others], system).values():
                where = origin if key in tagged else f"placement_keys, level {LEVELS[key.level]}"
                yield Constraint(
                    LOCATION, SHOULD, name, f"near {key.value:.12g} of {word} key {key.name}",
                    where, weight=key.weight,
                )  # fmt: skip


class Listed:
    """The constraints of nodes and of single instances that are no relations."""

    def __init__(
        self, cluster: Cluster, facts: PacemakerTags, settings: ListedSettings, force: InForce
    ) -> None:
        self._force = force
        self._cluster = cluster
        self._facts = facts
        self._settings = settings
        self._prefix = settings.tag_prefix

    def of_node(self, node: Node) -> Iterator[Constraint]:
        """What holds for every instance on `node`."""
        name, facts = node.name, self._facts
        if not node.online:
            state = "offline" if node.offline else "drained" if node.drained else "not vm_capable"
            yield Constraint(
                LOCATION, MUST, EVERY, f"nothing new on {name}", f"node {name}: {state}"
            )
        elif facts.maintenance[node.index]:
            yield Constraint(
                LOCATION, MUST, EVERY, f"nothing new on {name}, what is there stays",
                self._tag(f"maintenance of {name}"),
            )  # fmt: skip
        weight = facts.weights[node.index]
        if weight and (weight <= -INFINITY or self._force.scores(node.group)):
            yield self._score(EVERY, weight, name, self._tag(f"score:{shown(weight)} of {name}"))
        heeded = self._force.capacities(node.group)
        for attribute, amount in facts.capacity[node.index].items() if heeded else ():
            yield Constraint(
                CAPACITY, MUST, EVERY, f"at most {amount:g} of {attribute} on {name}",
                self._tag(f"utilization:{attribute}:{amount:g} of {name}"),
            )  # fmt: skip

    def of_instance(self, instance: Instance) -> Iterator[Constraint]:
        """What holds for `instance` alone."""
        name = instance.name
        for constraint in CONSTRAINTS:
            if not isinstance(constraint, AccessConstraint):
                continue
            for what, origin in constraint.listed(self._cluster, instance, self._prefix):
                yield Constraint(LOCATION, MUST, name, what, origin)
        facts = self._facts.of(instance)
        heeded = self._facts.tagged and self._force.capacities(instance=instance)
        for attribute, amount in facts.needs.items() if heeded else ():
            yield Constraint(
                CAPACITY, MUST, name, f"needs {amount:g} of {attribute}",
                self._tag(f"utilization:{attribute}:{amount:g}"),
            )  # fmt: skip
        scored = self._force.scores(instance=instance)
        for index, score in facts.scores.items():
            if score > -INFINITY and not scored:
                continue
            node = self._cluster.nodes[index].name
            yield self._score(name, score, node, self._tag(f"score:{node}:{shown(score)}"))
        yield from self._stays(instance, facts.stickiness)
        yield from self._fencing(instance)

    def _stays(self, instance: Instance, stickiness: int | None) -> Iterator[Constraint]:
        if not instance.nodes:
            return
        home = self._cluster.nodes[instance.nodes[0]]
        if self._facts.maintenance[home.index] and instance.running and not home.offline:
            yield Constraint(
                LOCATION, MUST, instance.name, f"stays on {home.name}",
                self._tag(f"maintenance of {home.name}"),
            )  # fmt: skip
        if stickiness is None:
            weight, origin = self._settings.stickiness, "setting stickiness"
        else:
            weight, origin = stickiness, self._tag(f"stickiness:{shown(stickiness)}")
        if weight and self._force.scores(instance=instance):
            yield Constraint(
                LOCATION, SHOULD, instance.name, f"stays on {home.name}, score {shown(weight)}",
                origin, weight=float(weight),
            )  # fmt: skip

    def _fencing(self, instance: Instance) -> Iterator[Constraint]:
        """An offline node must be fenced before what ran there starts elsewhere."""
        if not (instance.nodes and instance.uses_memory and instance.kind.survives_failure):
            return
        home = self._cluster.nodes[instance.nodes[0]]
        if home.offline:
            yield Constraint(
                ORDER, MUST, instance.name, f"starts elsewhere after the fencing of {home.name}",
                f"node {home.name}: offline",
            )  # fmt: skip

    def _score(self, name: str, score: int, node: str, origin: str) -> Constraint:
        if score <= -INFINITY:
            return Constraint(LOCATION, MUST, name, f"not on {node}", origin)
        what = f"on {node}, score {shown(score)}"
        return Constraint(LOCATION, SHOULD, name, what, origin, weight=float(score))

    def _tag(self, text: str) -> str:
        return f"tag {self._prefix}{text}"


if TYPE_CHECKING:

    class ListedSettings(Protocol):
        """The settings that are listed as constraints, or say how; see `Settings`."""

        affinity_overhead: int
        ignore_soft_errors: bool
        restrict_allocation_to: list[str] | None
        stickiness: int
        strategy: str
        tag_prefix: str

        @property
        def by_group(self) -> Mapping[int, ListedSettings]:
            """Group index → the settings of the groups whose tags ask for others."""


PACEMAKER = "pacemaker-"
BLIND = "pacemaker-default"
"""The one of Pacemaker's strategies that does not look at capacities."""


class InForce:
    """What the groups of a cluster heed, by their `settings`."""

    def __init__(self, cluster: Cluster, settings: ListedSettings) -> None:
        self._cluster = cluster
        self._settings = settings

    def settings_of(self, instance: Instance) -> ListedSettings:
        """Those that judge an instance where it is; of a new one those of the request."""
        if not instance.nodes:
            return self._settings
        group = self._cluster.group_of(instance)
        return self._settings.by_group.get(group.index, self._settings)

    def _any(
        self, heeds: Callable[[str], bool], group: Group | None, instance: Instance | None
    ) -> bool:
        groups = [group] if group is not None else self._cluster.groups
        if instance is not None and instance.nodes:
            groups = [self._cluster.group_of(instance)]
        own = self._settings.by_group
        return any(heeds(own.get(one.index, self._settings).strategy) for one in groups)

    def scores(self, group: Group | None = None, instance: Instance | None = None) -> bool:
        """Whether Pacemaker's scores and stickiness count in `group`, or for `instance`."""
        return self._any(lambda name: name.startswith(PACEMAKER), group, instance)

    def capacities(self, group: Group | None = None, instance: Instance | None = None) -> bool:
        """Whether utilization attributes count there."""
        return self._any(lambda name: name.startswith(PACEMAKER) and name != BLIND, group, instance)

    def keys(self, group: Group | None = None, instance: Instance | None = None) -> bool:
        """Whether placement keys count there."""
        return self._any(lambda name: name == "affinity", group, instance)

    def score(self, group: Group | None = None, instance: Instance | None = None) -> bool:
        """Whether the score of the cluster counts there, with what it has of locations."""
        return self._any(lambda name: name == "score", group, instance)
