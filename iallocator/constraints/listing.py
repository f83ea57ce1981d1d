"""List every constraint that a document, its tags, its request and the options express.

The table `iallocator.constraints.table.CONSTRAINTS` says what is listed, and in which order: each
constraint names methods of `Listing`. The limits of nodes are listed per instance, by what it
requires. Placement keys, scores and capacities of nodes are listed only if the strategy of a group
uses them.
"""

from __future__ import annotations

from iallocator.constraints.table import CONSTRAINTS
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
    from iallocator.constraints.table import AccessConstraint
    from iallocator.model.cluster import Cluster, Group, Node
    from iallocator.model.constraints import Member
    from iallocator.model.instance import Instance
    from iallocator.model.keys import PlacementKey
    from iallocator.requests import Allocate

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
            """Group index -> its settings, for groups with tags that set others."""


__all__ = ["Listing"]

EXCLUSION_WEIGHT = 2.0
LOCATION_WEIGHT = 1.0
"""What the statistics ``pri_tags`` and ``location`` add to the score for each violation."""

PACEMAKER = "pacemaker-"
BLIND = "pacemaker-default"
"""The one of Pacemaker's strategies that ignores capacities."""


class Listing:
    """The list of all constraints.

    Parameters
    ----------
    wanted:
        The new instances of the request.
    relations:
        The affinity rules and orders; None if there are none.
    settings:
        The settings of the request, completed from tags.
    problems:
        Tags that cannot be understood are added here, in words.
    everything:
        Whether to list what every instance has: its size, and the two roles of drbd.
    """

    def __init__(
        self,
        cluster: Cluster,
        wanted: Sequence[Allocate],
        relations: Relations | None,
        settings: ListedSettings,
        problems: list[str],
        everything: bool = True,
    ) -> None:
        new = [request.instance for request in wanted]
        prefix = settings.tag_prefix
        self._cluster = cluster
        self._instances = [*cluster.instances, *new]
        self._requests = {request.instance.name: request for request in wanted}
        self._relations = relations
        self._settings = settings
        self._prefix = prefix
        self._problems = problems
        self._everything = everything
        self._facts = PacemakerTags(cluster, new, problems, prefix)
        self._keys_above = ResourceTags(prefix, LEVELS.index("cluster"), problems)
        self._keys_own = ResourceTags(prefix, LEVELS.index("server"), problems)

    def constraints(self) -> Iterator[Constraint | SharedConstraint]:
        """Yield the constraints of each node, of the cluster, of each instance, and of sets."""
        for node in self._cluster.nodes:
            for one in CONSTRAINTS:
                if one.of_node:
                    yield from getattr(self, one.of_node)(node)
        for one in CONSTRAINTS:
            if one.of_cluster:
                yield from getattr(self, one.of_cluster)()
        for instance in self._instances:
            for one in CONSTRAINTS:
                if one.of_instance:
                    yield from getattr(self, one.of_instance)(instance, one)
        for one in CONSTRAINTS:
            if one.of_sets:
                yield from getattr(self, one.of_sets)()

    # Which settings and strategies apply to an instance, or in a group

    def _settings_of(self, instance: Instance) -> ListedSettings:
        """Return the settings of the group of `instance`; of a new one those of the request."""
        if not instance.nodes:
            return self._settings
        group = self._cluster.group_of(instance)
        return self._settings.by_group.get(group.index, self._settings)

    def _strategy(
        self,
        matches: Callable[[str], bool],
        group: Group | None = None,
        instance: Instance | None = None,
    ) -> bool:
        """Return whether a strategy matches in `group`, for `instance`, or else in any group."""
        groups = [group] if group is not None else self._cluster.groups
        if instance is not None and instance.nodes:
            groups = [self._cluster.group_of(instance)]
        own = self._settings.by_group
        return any(matches(own.get(one.index, self._settings).strategy) for one in groups)

    # Nodes, sizes and roles

    def node_state(self, node: Node) -> Iterator[Constraint]:
        """Yield that a node which is not online receives no instances."""
        if not node.online:
            state = "offline" if node.offline else "drained" if node.drained else "not vm_capable"
            yield Constraint(
                LOCATION, MUST, EVERY, f"nothing new on {node.name}", f"node {node.name}: {state}"
            )

    def size(self, instance: Instance, _: object) -> Iterator[Constraint]:
        """Yield the memory, virtual cpus and disk that an instance requires of its nodes."""
        needs = [("memory", instance.memory, "MiB"), ("vcpus", instance.vcpus, "")]
        if instance.local:
            needs.append(("disk_space_total", instance.disk, "MiB"))
        for name, amount, unit in needs if self._everything else ():
            if amount:
                what = f"needs {amount} {unit} of {name.partition('_')[0]}".replace("  ", " ")
                yield Constraint(CAPACITY, MUST, instance.name, what, f"member {name}")

    def roles(self, instance: Instance, _: object) -> Iterator[Constraint]:
        """Yield that the two roles of an instance are on different nodes."""
        if instance.required_nodes == 2 and self._everything:
            for role, other in (("primary", "secondary"), ("secondary", "primary")):
                what = f"{role} on another node than the {other}"
                yield Constraint(
                    APART, MUST, instance.name, what, "disk template drbd", other=instance.name
                )

    def local_disks(self, instance: Instance, _: object) -> Iterator[Constraint]:
        """Yield that an instance with disks on one node only stays there."""
        if instance.nodes and not instance.kind.relocatable:
            home = self._cluster.nodes[instance.nodes[0]].name
            origin = f"disk template {instance.template}"
            yield Constraint(LOCATION, MUST, instance.name, f"stays on {home}", origin)

    def requested_nodes(self, instance: Instance, _: object) -> Iterator[Constraint]:
        """Yield the nodes and the group that a request names for a new instance."""
        name = instance.name
        request = self._requests.get(name)
        if request is None:
            return
        if self._settings.restrict_allocation_to is not None:
            nodes = ", ".join(self._settings.restrict_allocation_to)
            yield Constraint(LOCATION, MUST, name, f"on {nodes}", "option --restrict-allocation-to")
        elif request.restrict_to is not None:
            nodes = ", ".join(request.restrict_to)
            yield Constraint(LOCATION, MUST, name, f"on {nodes}", "member restrict-to-nodes")
        if request.group_name is not None:
            yield Constraint(
                LOCATION, MUST, name, f"in group {request.group_name}", "member group_name"
            )

    def access(self, instance: Instance, constraint: AccessConstraint) -> Iterator[Constraint]:
        """Yield what an access constraint requires of the nodes of an instance."""
        for what, origin in constraint.listed(self._cluster, instance, self._prefix):
            yield Constraint(LOCATION, MUST, instance.name, what, origin)

    # Pacemaker's scores, stickiness, capacities and maintenance

    def pacemaker_node(self, node: Node) -> Iterator[Constraint]:
        """Yield the maintenance, the score and the capacities of a node."""
        name, facts = node.name, self._facts
        if node.online and facts.maintenance[node.index]:
            yield Constraint(
                LOCATION, MUST, EVERY, f"nothing new on {name}, what is there stays",
                self._tag(f"maintenance of {name}"),
            )  # fmt: skip
        weight = facts.weights[node.index]
        if weight and (weight <= -INFINITY or self._strategy(_scores, node.group)):
            yield self._score(EVERY, weight, name, self._tag(f"score:{shown(weight)} of {name}"))
        used = self._strategy(_capacities, node.group)
        for attribute, amount in facts.capacity[node.index].items() if used else ():
            yield Constraint(
                CAPACITY, MUST, EVERY, f"at most {amount:g} of {attribute} on {name}",
                self._tag(f"utilization:{attribute}:{amount:g} of {name}"),
            )  # fmt: skip

    def pacemaker_instance(self, instance: Instance, _: object) -> Iterator[Constraint]:
        """Yield utilization, scores, and what keeps an instance where it is."""
        name, facts = instance.name, self._facts.of(instance)
        used = self._facts.tagged and self._strategy(_capacities, instance=instance)
        for attribute, amount in facts.needs.items() if used else ():
            yield Constraint(
                CAPACITY, MUST, name, f"needs {amount:g} of {attribute}",
                self._tag(f"utilization:{attribute}:{amount:g}"),
            )  # fmt: skip
        scored = self._strategy(_scores, instance=instance)
        for index, score in facts.scores.items():
            if score > -INFINITY and not scored:
                continue
            node = self._cluster.nodes[index].name
            yield self._score(name, score, node, self._tag(f"score:{node}:{shown(score)}"))
        if not instance.nodes:
            return
        home = self._cluster.nodes[instance.nodes[0]]
        if self._facts.maintenance[home.index] and instance.running and not home.offline:
            yield Constraint(
                LOCATION, MUST, name, f"stays on {home.name}",
                self._tag(f"maintenance of {home.name}"),
            )  # fmt: skip
        if facts.stickiness is None:
            stickiness, origin = self._settings.stickiness, "setting stickiness"
        else:
            stickiness = facts.stickiness
            origin = self._tag(f"stickiness:{shown(stickiness)}")
        if stickiness and scored:
            yield Constraint(
                LOCATION, SHOULD, name, f"stays on {home.name}, score {shown(stickiness)}",
                origin, weight=float(stickiness),
            )  # fmt: skip

    def fencing(self, instance: Instance, _: object) -> Iterator[Constraint]:
        """Yield that an offline node must be fenced before its instances start elsewhere."""
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

    # Networks, and htools' tags

    def networks(self, instance: Instance, _: object) -> Iterator[Constraint]:
        """Yield the networks that the group of an instance must be connected to."""
        for network in instance.networks:
            what = f"in a group with network {network}"
            yield Constraint(LOCATION, MUST, instance.name, what, "member nics")

    def location_tags(self, instance: Instance, _: object) -> Iterator[Constraint]:
        """Yield the desired locations, and that the roles are in different locations."""
        name = instance.name
        if not self._strategy(_score, instance=instance):
            return
        for tag in sorted(instance.desired):
            yield Constraint(
                LOCATION, SHOULD, name, f"on a node tagged {tag}", f"cluster tag {DESIRED}...",
                weight=LOCATION_WEIGHT,
            )  # fmt: skip
        located = any(tag.startswith(LOCATIONS) for tag in self._cluster.tags)
        if instance.required_nodes == 2 and located:
            yield Constraint(
                APART, SHOULD, name, "primary and secondary in different locations",
                f"cluster tag {LOCATIONS}...", other=name, weight=LOCATION_WEIGHT,
            )  # fmt: skip

    def migration_tags(self, instance: Instance, _: object) -> Iterator[Constraint]:
        """Yield the migration tags that another node of an instance must receive."""
        needed = self._cluster.nodes[instance.nodes[0]].migration if instance.nodes else ()
        for tag in sorted(needed):
            yield Constraint(
                LOCATION, MUST, instance.name, f"moves only to nodes that receive {tag}",
                f"cluster tag {MIGRATION}...",
            )  # fmt: skip

    def exclusion_tags(self) -> Iterator[SharedConstraint]:
        """Yield the sets of instances with an exclusion tag in common.

        There is one set for each tag, and for each strength that the groups of the instances give
        the tag.
        """
        prefixes = exclusion_prefixes(self._cluster.tags)
        sharing: dict[str, dict[str, list[str]]] = {}
        for instance in self._instances:
            strength = MUST
            if self._settings_of(instance).ignore_soft_errors:
                strength = SHOULD if self._strategy(_score, instance=instance) else ""
            for tag in instance.exclusion:
                sharing.setdefault(tag, {}).setdefault(strength, []).append(instance.name)
        for tag, by_strength in sharing.items():
            named = f"cluster tag {EXCLUSION}..."
            if not tag.startswith(prefixes):
                named = "--exclusion-tags"
            every = [name for names in by_strength.values() for name in names]
            for strength, names in by_strength.items():
                if strength and len(every) > 1:
                    yield SharedConstraint(
                        APART, strength, tag, names, f"{named}, tag {tag}",
                        others=[name for other, some in by_strength.items() for name in some
                                if other != strength],
                        weight=EXCLUSION_WEIGHT if strength == SHOULD else 0.0,
                    )  # fmt: skip

    # Affinity rules and orders

    def orders(self, instance: Instance, _: object) -> Iterable[Constraint]:
        """Return the orders and priorities of an instance."""
        return () if self._relations is None else self._relations.of(instance.name)

    def affinity_rules(self) -> Iterator[SharedConstraint]:
        """Yield the affinity rules, once for each strength, weight and failure domain."""
        for rule in () if self._relations is None else self._relations.rules:
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

    # Placement keys

    def node_keys(self, node: Node) -> Iterator[Constraint]:
        """Yield how much memory may be allocated on a node, if a ratio limits that."""
        if not self._strategy(_keys, node.group):
            return
        ratio = NodeTags(self._prefix, node, self._problems).ram_contention
        if ratio is not None:
            amount = ratio * node.total_memory
            yield Constraint(
                CAPACITY, MUST, EVERY, f"at most {amount:.12g} MiB of memory on {node.name}",
                self._tag(f"ram-contention:{ratio:.12g} of {node.name}"),
            )  # fmt: skip

    def cluster_keys(self) -> Iterator[Constraint]:
        """Yield the keys of all instances that do not set others."""
        if self._strategy(_keys):
            tags = self._keys_above.of_cluster(self._cluster)
            yield from self._keys(EVERY, tags, "tag of the cluster", self._cluster.placement_keys)

    def instance_keys(self, instance: Instance, _: object) -> Iterator[Constraint]:
        """Yield the keys of an instance, from its tags or its request."""
        if not self._strategy(_keys, instance=instance):
            return
        overhead = self._settings.affinity_overhead
        if not instance.nodes and overhead:
            needed = instance.memory + overhead
            yield Constraint(
                CAPACITY, MUST, instance.name, f"needs more than {needed} MiB of free memory",
                "member memory, setting affinity-overhead",
            )  # fmt: skip
        more = [*instance.placement_keys, *instance.asked_keys]
        tags = self._keys_own.of_instance(instance)
        yield from self._keys(instance.name, tags, "tag of the instance", more)

    def _keys(
        self, name: str, tags: Iterable[PlacementKey], origin: str, more: Iterable[PlacementKey]
    ) -> Iterator[Constraint]:
        """Yield the keys that count, one of each class and name; tags come before `more`."""
        tagged, others = list(tags), list(more)
        for system in (True, False):
            word = "system" if system else "customer"
            for key in in_force([*tagged, *others], system).values():
                where = origin if key in tagged else f"placement_keys, level {LEVELS[key.level]}"
                yield Constraint(
                    LOCATION, SHOULD, name, f"near {key.value:.12g} of {word} key {key.name}",
                    where, weight=key.weight,
                )  # fmt: skip


def _scores(strategy: str) -> bool:
    """Return whether a strategy uses Pacemaker's scores and stickiness."""
    return strategy.startswith(PACEMAKER)


def _capacities(strategy: str) -> bool:
    """Return whether a strategy uses utilization attributes."""
    return strategy.startswith(PACEMAKER) and strategy != BLIND


def _keys(strategy: str) -> bool:
    """Return whether a strategy uses placement keys."""
    return strategy == "affinity"


def _score(strategy: str) -> bool:
    """Return whether a strategy uses the score of the cluster, with its location tags."""
    return strategy == "score"
