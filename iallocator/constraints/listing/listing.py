"""Every constraint that a document, its tags, its request and the options express.

For people and programs that want to see what placements are bound by, and why; the
limits of nodes are listed per instance, by what it needs.
"""

from __future__ import annotations

from iallocator.constraints.in_force import InForce
from iallocator.constraints.listing.keys import ListedKeys
from iallocator.constraints.listing.nodes import Listed
from iallocator.model.constraints import (
    APART,
    CAPACITY,
    LOCATION,
    MUST,
    SHOULD,
    Constraint,
    SharedConstraint,
)
from iallocator.model.tags import DESIRED, EXCLUSION, MIGRATION, exclusion_prefixes
from iallocator.model.tags import LOCATION as LOCATIONS
from iallocator.requests import Allocate, MultiAllocate
from iallocator.tags.pacemaker import PacemakerTags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from iallocator.constraints.in_force import ListedSettings
    from iallocator.constraints.relations import Relations
    from iallocator.model.cluster import Cluster
    from iallocator.model.constraints import Member
    from iallocator.model.instance import Instance
    from iallocator.requests import Request

__all__ = ["constraints_of", "wanted_by"]

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


def wanted_by(request: Request | None) -> list[Allocate]:
    """The new instances of a request."""
    if isinstance(request, MultiAllocate):
        return list(request.wanted)
    return [request] if isinstance(request, Allocate) else []


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
    if instance.nodes and not instance.mirrored:
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
