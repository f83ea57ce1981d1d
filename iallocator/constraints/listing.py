"""List every constraint that a document, its tags, its request and the options express.

The table `iallocator.constraints.table.CONSTRAINTS` determines what is listed, and in which order:
each constraint names a class of this module. The limits of nodes are listed for each instance, as
what it requires. Placement keys, scores and capacities of nodes are listed only if the strategy of
a group uses them.
"""

from __future__ import annotations

from iallocator.constraints.locations import PACEMAKER_PREFIX, by_pacemaker
from iallocator.constraints.table import CONSTRAINTS, EXCLUSION_TAGS, LOCATION_TAGS
from iallocator.constraints.words import quantity
from iallocator.model.constraints import (
    ALL_INSTANCES,
    APART,
    CAPACITY,
    LOCATION,
    MUST,
    ORDER,
    SHOULD,
    Constraint,
    SharedConstraint,
)
from iallocator.model.keys import LEVELS, in_force
from iallocator.model.tags import DESIRED, EXCLUSION, exclusion_prefixes
from iallocator.model.tags import NODE_LOCATION as LOCATIONS
from iallocator.tags.pacemaker import PacemakerTags
from iallocator.tags.pacemaker_scores import INFINITE_SCORE, score_in_tags
from iallocator.tags.placement_keys import NodeTags, ResourceTags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Protocol

    from iallocator.constraints.relations import Relations
    from iallocator.constraints.table import PlacementConstraint
    from iallocator.model.cluster import Cluster, Group, Node
    from iallocator.model.constraints import Member
    from iallocator.model.instance import Instance
    from iallocator.model.keys import PlacementKey
    from iallocator.requests import Allocate

    class ListedSettings(Protocol):
        """The settings that are listed as constraints, or that determine which constraints are
        listed.
        """

        affinity_overhead: int
        ignore_soft_errors: bool
        origins: Mapping[str, str]
        restrict_allocation_to: list[str] | None
        stickiness: float
        strategy: str
        tag_prefix: str

        @property
        def by_group(self) -> Mapping[int, ListedSettings]:
            """Return group index -> its settings, for groups with tags that change settings."""


__all__ = ["ListingFacts", "list_constraints"]

BLIND = "pacemaker-default"
"""The strategy of Pacemaker that ignores capacities."""


class ListingFacts:
    """The document, the request, the settings and the tags that express constraints.

    Parameters
    ----------
    wanted:
        The new instances of the request.
    relations:
        The affinity rules and orders; None if there are none.
    settings:
        The settings of the request, with those that tags change.
    problems:
        A list to which tags that cannot be understood are added, in words.
    everything:
        Whether to list also what every instance requires: its size, and two nodes for drbd.
    only:
        The group that is listed, with its nodes and instances; None: all groups.
    """

    def __init__(
        self,
        cluster: Cluster,
        wanted: Sequence[Allocate],
        relations: Relations | None,
        settings: ListedSettings,
        problems: list[str],
        everything: bool = True,
        only: Group | None = None,
    ) -> None:
        self.only = only
        new = [request.instance for request in wanted]
        prefix = settings.tag_prefix
        self.cluster = cluster
        self.instances = [*cluster.instances, *new]
        self.requests = {request.instance.name: request for request in wanted}
        self.relations = relations
        self.settings = settings
        self.prefix = prefix
        self.problems = problems
        self.everything = everything
        whole = by_pacemaker(settings)
        self.pacemaker = PacemakerTags(cluster, new, problems, prefix, whole)
        self.keys_above = ResourceTags(prefix, LEVELS.index("cluster"), problems)
        self.keys_own = ResourceTags(prefix, LEVELS.index("server"), problems)

    def settings_of(self, instance: Instance) -> ListedSettings:
        """Return the settings for the group of `instance`; for a new instance, those of the
        request.
        """
        if not instance.nodes:
            return self.settings
        group = self.cluster.group_of(instance)
        return self.settings.by_group.get(group.index, self.settings)

    def uses(
        self,
        matches: Callable[[str], bool],
        group: Group | None = None,
        instance: Instance | None = None,
    ) -> bool:
        """Return whether `matches` accepts the strategy of `group`, or of the group of `instance`.

        Without a group and an instance: whether `matches` accepts the strategy of any group.
        """
        groups = [group] if group is not None else self.cluster.groups
        if instance is not None and instance.nodes:
            groups = [self.cluster.group_of(instance)]
        own = self.settings.by_group
        return any(matches(own.get(one.index, self.settings).strategy) for one in groups)

    def tag(self, text: str) -> str:
        """Return the origin of a constraint that comes from the tag `text`."""
        return f"tag {self.prefix}{text}"


class ConstraintListing:
    """Lists what one constraint requires of nodes, instances, groups and the cluster."""

    def __init__(self, facts: ListingFacts, constraint: PlacementConstraint) -> None:
        self._facts = facts
        self._constraint = constraint

    def of_node(self, node: Node) -> Iterable[Constraint]:
        """Return what the constraint requires of all instances on `node`."""
        return ()

    def of_cluster(self) -> Iterable[Constraint]:
        """Return what the constraint requires of every instance."""
        return ()

    def of_instance(self, instance: Instance) -> Iterable[Constraint]:
        """Return what the constraint requires of `instance`."""
        return ()

    def of_sets(self) -> Iterable[SharedConstraint]:
        """Return what the constraint requires of sets of instances."""
        return ()


def list_constraints(facts: ListingFacts) -> Iterator[Constraint | SharedConstraint]:
    """Yield the constraints of each node, of the cluster, of each instance, and of sets of
    instances.
    """
    listings: list[ConstraintListing] = [
        globals()[one.listing](facts, one) for one in CONSTRAINTS if one.listing
    ]
    cluster, only = facts.cluster, facts.only
    for node in cluster.nodes:
        for one in listings if only in (None, node.group) else ():
            yield from one.of_node(node)
    for one in listings:
        yield from one.of_cluster()
    instances = [
        instance
        for instance in facts.instances
        if only is None or not instance.nodes or cluster.group_of(instance) is only
    ]
    for instance in instances:
        for one in listings:
            yield from one.of_instance(instance)
    for one in listings:
        for shared in one.of_sets():
            if only is None or any(shared.binds(instance.name) for instance in instances):
                yield shared


class NodeStateListing(ConstraintListing):
    """Lists that a node that is not online receives no instances."""

    def of_node(self, node: Node) -> Iterator[Constraint]:
        if not node.online:
            state = "offline" if node.offline else "drained" if node.drained else "not vm_capable"
            yield Constraint(
                LOCATION,
                MUST,
                ALL_INSTANCES,
                f"nothing new on {node.name}",
                f"node {node.name}: {state}",
            )


class SizeListing(ConstraintListing):
    """Lists the memory, virtual cpus and disk that an instance requires of its nodes."""

    def of_instance(self, instance: Instance) -> Iterator[Constraint]:
        needs = [
            ("memory", instance.memory, "MiB of memory"),
            ("vcpus", instance.vcpus, "virtual cpus"),
        ]
        if instance.local:
            needs.append(("disk_space_total", instance.disk, "MiB of disk"))
        for name, amount, unit in needs if self._facts.everything else ():
            if amount:
                what = f"needs {quantity(amount, unit)}"
                yield Constraint(CAPACITY, MUST, instance.name, what, f"member {name}")


class RolesListing(ConstraintListing):
    """Lists that the two roles of an instance must be on different nodes."""

    def of_instance(self, instance: Instance) -> Iterator[Constraint]:
        if instance.required_nodes == 2 and self._facts.everything:
            for role, other in (("primary", "secondary"), ("secondary", "primary")):
                what = f"{role} on another node than the {other}"
                yield Constraint(
                    APART, MUST, instance.name, what, "disk template drbd", other=instance.name
                )


class LocalDisksListing(ConstraintListing):
    """Lists that an instance with disks on one node only must stay there."""

    def of_instance(self, instance: Instance) -> Iterator[Constraint]:
        if instance.nodes and not instance.kind.relocatable:
            home = self._facts.cluster.nodes[instance.nodes[0]].name
            origin = f"disk template {instance.template}"
            yield Constraint(LOCATION, MUST, instance.name, f"stays on {home}", origin)


class RequestedNodesListing(ConstraintListing):
    """Lists the nodes or the group that a request names for a new instance."""

    def of_instance(self, instance: Instance) -> Iterator[Constraint]:
        name = instance.name
        request = self._facts.requests.get(name)
        if request is None:
            return
        if self._facts.settings.restrict_allocation_to is not None:
            nodes = ", ".join(self._facts.settings.restrict_allocation_to)
            yield Constraint(LOCATION, MUST, name, f"on {nodes}", "option --restrict-allocation-to")
        elif request.restrict_to is not None:
            nodes = ", ".join(request.restrict_to)
            yield Constraint(LOCATION, MUST, name, f"on {nodes}", "member restrict-to-nodes")
        if request.group_name is not None:
            yield Constraint(
                LOCATION, MUST, name, f"in group {request.group_name}", "member group_name"
            )


class InstanceListing(ConstraintListing):
    """Lists the nodes that a constraint allows or prefers for an instance; see
    `PlacementConstraint.listed`.
    """

    def of_instance(self, instance: Instance) -> Iterator[Constraint]:
        facts = self._facts
        for what, origin, weight in self._constraint.listed(facts.cluster, instance, facts.prefix):
            strength = SHOULD if weight else MUST
            yield Constraint(LOCATION, strength, instance.name, what, origin, weight=weight)


class PacemakerListing(ConstraintListing):
    """Lists the constraints that Pacemaker also has.

    They are scores of nodes, stickiness of instances, and capacities and maintenance of nodes.
    """

    def of_node(self, node: Node) -> Iterator[Constraint]:
        """Yield the maintenance, the score and the capacities of a node."""
        facts, name, tags = self._facts, node.name, self._facts.pacemaker
        if node.online and tags.maintenance[node.index]:
            yield Constraint(
                LOCATION, MUST, ALL_INSTANCES, f"nothing new on {name}, what is there stays",
                facts.tag(f"maintenance of {name}"),
            )  # fmt: skip
        weight = tags.weights[node.index]
        if weight and (weight < INFINITE_SCORE or by_pacemaker(facts.settings, node.group)):
            yield self._score(
                ALL_INSTANCES, weight, name, facts.tag(f"score:{score_in_tags(weight)} of {name}")
            )
        used = facts.uses(_uses_capacities, node.group)
        for attribute, amount in tags.capacity[node.index].items() if used else ():
            yield Constraint(
                CAPACITY, MUST, ALL_INSTANCES,
                f"at most {amount:g} of {attribute} on {name}",
                facts.tag(f"utilization:{attribute}:{amount:g} of {name}"),
            )  # fmt: skip

    def of_instance(self, instance: Instance) -> Iterator[Constraint]:
        """Yield the utilization and scores of an instance, and the constraints that keep it in
        place.
        """
        facts, name = self._facts, instance.name
        own = facts.pacemaker.of(instance)
        used = facts.pacemaker.tagged and facts.uses(_uses_capacities, instance=instance)
        for attribute, amount in own.needs.items() if used else ():
            yield Constraint(
                CAPACITY, MUST, name, f"needs {amount:g} of {attribute}",
                facts.tag(f"utilization:{attribute}:{amount:g}"),
            )  # fmt: skip
        for index, score in own.scores.items():
            there = facts.cluster.nodes[index]
            origin = facts.tag(f"score:{there.name}:{score_in_tags(score)}")
            if score >= INFINITE_SCORE and not by_pacemaker(facts.settings, there.group):
                yield Constraint(LOCATION, MUST, name, f"on {there.name}", origin)
            else:
                yield self._score(name, score, there.name, origin)
        if not instance.nodes:
            return
        home = facts.cluster.nodes[instance.nodes[0]]
        if facts.pacemaker.maintenance[home.index] and instance.running and not home.offline:
            yield Constraint(
                LOCATION, MUST, name, f"stays on {home.name}",
                facts.tag(f"maintenance of {home.name}"),
            )  # fmt: skip
        pacemaker = by_pacemaker(facts.settings, home.group)
        if own.stickiness is None:
            settings = facts.settings if pacemaker else facts.settings_of(instance)
            stickiness, origin = settings.stickiness, "setting stickiness"
        else:
            stickiness = own.stickiness
            origin = facts.tag(f"stickiness:{score_in_tags(stickiness)}")
        if stickiness >= INFINITE_SCORE and not pacemaker:
            if home.online:
                yield Constraint(LOCATION, MUST, name, f"stays on {home.name}", origin)
        elif stickiness and (pacemaker or stickiness > 0):
            yield Constraint(
                LOCATION, SHOULD, name, f"stays on {home.name}, score {score_in_tags(stickiness)}",
                origin, weight=float(stickiness),
            )  # fmt: skip

    def _score(self, name: str, score: float, node: str, origin: str) -> Constraint:
        if score <= -INFINITE_SCORE:
            return Constraint(LOCATION, MUST, name, f"not on {node}", origin)
        what = f"on {node}, score {score_in_tags(score)}"
        return Constraint(LOCATION, SHOULD, name, what, origin, weight=float(score))


class FencingListing(ConstraintListing):
    """Lists that an offline node must be fenced before its instances start on other nodes."""

    def of_instance(self, instance: Instance) -> Iterator[Constraint]:
        if not (instance.nodes and instance.uses_memory and instance.kind.survives_failure):
            return
        home = self._facts.cluster.nodes[instance.nodes[0]]
        if home.offline:
            yield Constraint(
                ORDER, MUST, instance.name, f"starts elsewhere after the fencing of {home.name}",
                f"node {home.name}: offline",
            )  # fmt: skip


class LocationTagsListing(ConstraintListing):
    """Lists the different, desired locations that the two roles of an instance should have."""

    def of_instance(self, instance: Instance) -> Iterator[Constraint]:
        name = instance.name
        if not self._facts.uses(_by_score, instance=instance):
            return
        for tag in sorted(instance.desired):
            yield Constraint(
                LOCATION, SHOULD, name, f"on a node tagged {tag}", f"cluster tag {DESIRED}...",
                weight=float(LOCATION_TAGS.weight),
            )  # fmt: skip
        located = any(tag.startswith(LOCATIONS) for tag in self._facts.cluster.tags)
        if instance.required_nodes == 2 and located:
            yield Constraint(
                APART, SHOULD, name, "primary and secondary in different locations",
                f"cluster tag {LOCATIONS}...", other=name, weight=float(LOCATION_TAGS.weight),
            )  # fmt: skip


class PlacementKeysListing(ConstraintListing):
    """Lists placement keys and memory ratios, for groups with the strategy that uses them."""

    def of_node(self, node: Node) -> Iterator[Constraint]:
        """Yield how much memory may be allocated on a node, if a memory ratio limits the amount."""
        facts = self._facts
        if not facts.uses(_uses_keys, node.group):
            return
        ratio = NodeTags(facts.prefix, node, facts.problems).ram_contention
        if ratio is not None:
            amount = ratio * node.total_memory
            yield Constraint(
                CAPACITY, MUST, ALL_INSTANCES,
                f"at most {amount:.12g} MiB of memory on {node.name}",
                facts.tag(f"ram-contention:{ratio:.12g} of {node.name}"),
            )  # fmt: skip

    def of_cluster(self) -> Iterator[Constraint]:
        """Yield the placement keys that apply to every instance without keys of its own."""
        facts = self._facts
        if facts.uses(_uses_keys):
            tags = facts.keys_above.of_cluster(facts.cluster)
            yield from self._keys(
                ALL_INSTANCES, tags, "tag of the cluster", facts.cluster.placement_keys
            )

    def of_instance(self, instance: Instance) -> Iterator[Constraint]:
        """Yield the keys of an instance, from its tags or its request."""
        facts = self._facts
        if not facts.uses(_uses_keys, instance=instance):
            return
        overhead = facts.settings.affinity_overhead
        if not instance.nodes and overhead:
            needed = instance.memory + overhead
            yield Constraint(
                CAPACITY, MUST, instance.name, f"needs more than {needed} MiB of free memory",
                "member memory, setting affinity-overhead",
            )  # fmt: skip
        more = [*instance.placement_keys, *instance.asked_keys]
        tags = facts.keys_own.of_instance(instance)
        yield from self._keys(instance.name, tags, "tag of the instance", more)

    def _keys(
        self, name: str, tags: Iterable[PlacementKey], origin: str, more: Iterable[PlacementKey]
    ) -> Iterator[Constraint]:
        """Yield the keys that have effect, one for each class and name; `tags` take precedence over
        `more`.
        """
        tagged, others = list(tags), list(more)
        for system in (True, False):
            word = "system" if system else "customer"
            for key in in_force([*tagged, *others], system).values():
                where = origin if key in tagged else f"placement_keys, level {LEVELS[key.level]}"
                yield Constraint(
                    LOCATION, SHOULD, name, f"near {key.value:.12g} of {word} key {key.name}",
                    where, weight=key.weight,
                )  # fmt: skip


class MemoryRatioListing(ConstraintListing):
    """Lists the memory that may be allocated on a node, where the setting memory-ratio increases
    it.
    """

    def of_node(self, node: Node) -> Iterator[Constraint]:
        if node.lent_memory:
            settings = self._facts.settings
            own = settings.by_group.get(node.group.index, settings)
            amount = node.total_memory - node.reserved_memory + node.lent_memory
            yield Constraint(
                CAPACITY, MUST, ALL_INSTANCES,
                f"at most {amount:.12g} MiB of memory for instances on {node.name}",
                own.origins.get("memory_ratio", "option --memory-ratio"),
            )  # fmt: skip


class DiskReserveListing(ConstraintListing):
    """Lists the disk that must stay free on a node."""

    def of_node(self, node: Node) -> Iterator[Constraint]:
        if node.disk_reserve:
            what = f"{node.disk_reserve:.12g} MiB of disk stay free on {node.name}"
            yield Constraint(CAPACITY, MUST, ALL_INSTANCES, what, node.kept_by)


class ExclusionTagsListing(ConstraintListing):
    """Lists the instances with an exclusion tag in common, which must, or should, be on separate
    nodes.
    """

    def of_sets(self) -> Iterator[SharedConstraint]:
        """Yield the sets of instances with an exclusion tag in common.

        There is one set for each tag, and for each strength that the groups of the instances give
        the tag.
        """
        facts = self._facts
        prefixes = exclusion_prefixes(facts.cluster.tags)
        sharing: dict[str, dict[str, list[str]]] = {}
        for instance in facts.instances:
            strength = MUST
            if facts.settings_of(instance).ignore_soft_errors:
                strength = SHOULD if facts.uses(_by_score, instance=instance) else ""
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
                        weight=float(EXCLUSION_TAGS.weight) if strength == SHOULD else 0.0,
                    )  # fmt: skip


class AffinityListing(ConstraintListing):
    """Lists the affinity rules, start orders and priorities that tags of this program set."""

    def of_instance(self, instance: Instance) -> Iterable[Constraint]:
        """Return the start orders and priorities of an instance."""
        relations = self._facts.relations
        return () if relations is None else relations.of(instance.name)

    def of_sets(self) -> Iterator[SharedConstraint]:
        """Yield the affinity rules, once for each strength, weight and failure domain."""
        relations = self._facts.relations
        for rule in () if relations is None else relations.rules:
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


def _uses_capacities(strategy: str) -> bool:
    """Return whether a strategy uses utilization attributes of instances and nodes."""
    return strategy.startswith(PACEMAKER_PREFIX) and strategy != BLIND


def _uses_keys(strategy: str) -> bool:
    """Return whether a strategy uses placement keys."""
    return strategy == "affinity"


def _by_score(strategy: str) -> bool:
    """Return whether a strategy uses the score of the cluster, with its location tags."""
    return strategy == "score"
