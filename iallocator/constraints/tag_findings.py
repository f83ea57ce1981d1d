"""Report unknown and contradictory tags, and placement keys that some nodes lack.

Requests and the commands `check` and `constraints` show the same findings.
"""

from __future__ import annotations

from iallocator.errors import FEW_NAMES, named
from iallocator.model.constraints import (
    APART,
    GROUP_DOMAIN,
    ORDER,
    TOGETHER,
    TagFinding,
    domains_between,
)
from iallocator.tags.affinity import labelled
from iallocator.tags.foreign import misspelt, misspelt_foreign
from iallocator.tags.pacemaker_scores import SCORE_WORDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from iallocator.constraints.relations import Relations
    from iallocator.model.cluster import Cluster
    from iallocator.model.constraints import Member, Rule
    from iallocator.model.instance import Instance

__all__ = ["all_findings", "tag_findings"]

if TYPE_CHECKING:
    Units = Mapping[str, Sequence[str]]


SINGLE_VALUED_KINDS = ("priority", "stickiness", "ram-contention", "cpu-contention")
"""The kinds of tags that can have only one value for each object."""


def tag_findings(
    cluster: Cluster,
    instances: Sequence[Instance],
    prefix: str,
    relations: Relations | None,
    settings: Collection[str],
    shared: bool = True,
    keys: bool = True,
    whole: bool | None = None,
) -> list[TagFinding]:
    """Return the findings for the tags of `instances`.

    Parameters
    ----------
    cluster, instances:
        The cluster, and the instances with the tags to check.
    prefix:
        The beginning of the tags of this program.
    relations:
        The affinity rules and orders; None if there are none.
    settings:
        The names of the settings that tags can change.
    shared:
        Whether to check also the tags of the cluster, its groups and its nodes.
    keys:
        Whether a strategy uses placement keys and utilization attributes.
    whole:
        Whether scores must be whole numbers, as Pacemaker's strategies require; None: like `keys`.
    """
    findings = list(misspelt(cluster, instances, prefix, settings))
    if not shared:
        findings = [one for one in findings if one.owner.startswith("instance ")]
    names = {instance.name for instance in instances}
    known = {(one.owner, one.tag) for one in findings}
    whole = keys if whole is None else whole
    amounts = _amounts(cluster, instances, prefix, keys, whole) if shared else ()
    findings += (one for one in amounts if (one.owner, one.tag) not in known)
    findings += _contradictions(cluster, instances, prefix, settings, shared)
    findings += _unknown_labels(cluster, instances, prefix)
    if relations is not None:
        findings += _cycles(relations, names)
        findings += _parted_units(relations, names)
        findings += _unknown_domains(relations, names, prefix) if shared else ()
    findings += _lacking(cluster, instances, prefix) if shared and keys else ()
    return list({str(one): one for one in findings}.values())


def all_findings(
    cluster: Cluster,
    instances: Sequence[Instance],
    prefix: str,
    relations: Relations | None,
    settings: Collection[str],
    whole: bool = True,
) -> list[TagFinding]:
    """Return the findings for tags of this program and for tags of htools.

    `settings`: the names of the settings that tags can change. `whole`: whether scores must be
    whole numbers, as Pacemaker's strategies require.
    """
    ours = tag_findings(cluster, instances, prefix, relations, settings, whole=whole)
    return [*ours, *misspelt_foreign(cluster, instances)]


def _amounts(
    cluster: Cluster, instances: Sequence[Instance], prefix: str, keys: bool, whole: bool
) -> Iterator[TagFinding]:
    """Yield a finding for each tag with an invalid number, and for each score of an unknown node.

    Without `keys`, only tags of scores and stickiness are checked, which have effect with every
    strategy.
    """
    start = f"{prefix}score:", f"{prefix}stickiness:"
    owned = (one.tags for some in (cluster.nodes, instances) for one in some)
    if not (keys or any(tag.startswith(start) for tags in owned if tags for tag in tags)):
        return
    from iallocator.tags.pacemaker import PacemakerTags

    facts = PacemakerTags(cluster, (), [], prefix, whole)
    for instance in instances:
        if instance.tags:
            facts.of(instance)
    for one in facts.findings:
        if keys or one.tag.startswith(start):
            yield one


def _unknown_labels(
    cluster: Cluster, instances: Iterable[Instance], prefix: str
) -> Iterator[TagFinding]:
    """Yield a finding for each tag with an empty label, or with a label that no node has."""
    known: set[str] | None = None
    for instance in instances:
        for tag in instance.tags:
            if not tag.startswith(f"{prefix}nodes:"):
                continue
            word, _, label = tag[len(prefix) + len("nodes:") :].partition(":")
            if word not in ("must", "never", "should"):
                continue  # reported as misspelt
            if word == "should":
                label, weight = labelled(label)
                if label and weight < 0:
                    continue  # reported with the affinity tags
            if known is None:
                known = {one for node in cluster.nodes for one in node.tags}
            owner = f"instance {instance.name}"
            if not label:
                text = f"does not count: expected {prefix}nodes:{word}:LABEL"
                yield TagFinding("unknown", owner, tag, text)
            elif label not in known:
                yield TagFinding("unknown", owner, tag, f"names label {label}: no node has it")


def _contradictions(
    cluster: Cluster,
    instances: Iterable[Instance],
    prefix: str,
    settings: Collection[str],
    shared: bool,
) -> Iterator[TagFinding]:
    """Yield a finding for each tag that contradicts another tag of the same object."""
    owners: list[tuple[str, Iterable[str]]] = []
    if shared:
        owners.append(("the cluster", cluster.tags))
        owners += ((f"group {group.name}", group.tags) for group in cluster.groups)
        owners += ((f"node {node.name}", node.tags) for node in cluster.nodes)
    owners += ((f"instance {one.name}", one.tags) for one in instances)
    for owner, tags in owners:
        # Scores that require a node, or all nodes, and scores that forbid it
        always: dict[str, str] = {}
        never: dict[str, str] = {}
        for tag in tags:
            where, _, value = tag.rpartition(":")
            if tag.startswith(f"{prefix}score:") and value in SCORE_WORDS:
                (never if value.startswith("-") else always).setdefault(where, tag)
        for where in sorted(always.keys() & never.keys()):
            against = f"contradicts {never[where]}"
            yield TagFinding("contradiction", owner, always[where], against)
        # Two values of what can have only one
        known: dict[str, str] = {}
        for tag in tags:
            if not tag.startswith(prefix):
                continue
            kind, _, rest = tag[len(prefix) :].partition(":")
            if kind in SINGLE_VALUED_KINDS or kind in settings:
                name = kind
            elif kind == "utilization":
                name = f"{kind}:{rest.rpartition(':')[0]}"
            else:
                continue
            other = known.setdefault(name, tag)
            if other != tag:
                yield TagFinding("contradiction", owner, tag, f"contradicts {other}")


def _cycles(relations: Relations, names: Collection[str]) -> Iterator[TagFinding]:
    """Yield a finding for each of the instances `names` in a cycle of hard start orders."""
    constraints = [
        constraint
        for name in relations.bound
        for constraint in relations.of(name, ORDER)
        if constraint.must and constraint.other
    ]
    orders = [
        (constraint.other, constraint.instance, constraint.strength) for constraint in constraints
    ]
    if not orders:
        return
    from iallocator.constraints.order_graph import circular

    for cycle in map(set, circular(orders)):
        for name in sorted(cycle & set(names)):
            constraint = next(b for b in relations.of(name, ORDER) if b.must and b.other in cycle)
            text = f"contradicts those of {constraint.other}: it waits, through others, for itself"
            tag = constraint.origin.removeprefix("tag ")
            yield TagFinding("contradiction", f"instance {name}", tag, text)


def _parted_units(relations: Relations, names: Collection[str]) -> Iterator[TagFinding]:
    """Yield a finding for each of the instances `names` that hard constraints separate and
    colocate.
    """
    from iallocator.constraints.relations import units_of

    units = relations.units()
    together = [(rule, _named_domains(rule)) for rule in relations.rules if rule.kind == TOGETHER]
    special = {domain for _, domains in together for domain in domains}
    general = units_of([rule for rule, domains in together if not domains], domains=True)
    for rule in relations.rules:
        if rule.kind == APART:
            yield from _of_each(_pairs(rule, units).get("", ()), names)
            usual = _pairs(rule, general)
            for domain in sorted(_named_domains(rule)):
                pairs = usual
                if domain in special:
                    same = [one for one, domains in together if domains <= {domain}]
                    pairs = _pairs(rule, units_of(same, domains=True))
                yield from _of_each(pairs.get(domain, ()), names)


def _named_domains(rule: Rule) -> set[str]:
    """Return the failure domains that members of `rule` name."""
    return {member.domain for member in rule.members} - {""}


def _pairs(rule: Rule, units: Units) -> dict[str, list[tuple[Member, Member]]]:
    """Return domain -> pairs of members that `rule` separates but that are in one colocation group.

    The domain is the one that the two members name. Each member with a hard constraint is paired
    with at most one earlier member.
    """
    first: dict[int, list[Member]] = {}
    pairs: dict[str, list[tuple[Member, Member]]] = {}
    for member in rule.members if units else ():
        unit = units.get(member.instance)
        if not member.must or unit is None:
            continue
        others = first.setdefault(id(unit), [])
        other = next((one for one in others if one.instance != member.instance), None)
        if len(others) < 2:
            others.append(member)
        if other is not None:
            for domain in domains_between(member.domain, other.domain):
                pairs.setdefault(domain, []).append((member, other))
    return pairs


def _of_each(
    pairs: Iterable[tuple[Member, Member]], names: Collection[str]
) -> Iterator[TagFinding]:
    """Yield one finding for each instance of `pairs` that is in `names`."""
    for member, other in pairs:
        for one, against in ((member, other), (other, member)):
            if one.instance in names:
                text = f"contradicts tags by which it must be together with {against.instance}"
                yield TagFinding("contradiction", f"instance {one.instance}", one.tag, text)


def _unknown_domains(
    relations: Relations, names: Collection[str], prefix: str
) -> Iterator[TagFinding]:
    """Yield a finding for each failure domain of a rule that is missing in the tags of some nodes.

    A node without such a tag is a failure domain of its own.
    """
    nodes = relations.cluster.nodes
    seen: set[str] = set()
    for rule in relations.rules:
        for member in rule.members:
            unseen = member.domain not in seen | {"", GROUP_DOMAIN}
            if unseen and member.instance in names:
                seen.add(member.domain)
                start = f"{member.domain}:"
                without = [n.name for n in nodes if not any(t.startswith(start) for t in n.tags)]
                if without:
                    what = f"names {member.domain}, of which {_some(without, len(nodes))} no tag"
                    owner = f"instance {member.instance}"
                    yield TagFinding("lacking", owner, member.tag, what)


def _lacking(cluster: Cluster, instances: Iterable[Instance], prefix: str) -> Iterator[TagFinding]:
    """Yield a finding for each placement key or utilization attribute that some nodes lack."""
    has: dict[str, set[str]] = {}
    for node in cluster.nodes:
        for tag in (*node.tags, *node.group.tags):
            for name in _named(tag, prefix, ("key", "stickykey", "utilization")):
                has.setdefault(name, set()).add(node.name)
    seen: set[str] = set()
    owners = [("the cluster", cluster.tags)]
    owners += ((f"instance {one.name}", one.tags) for one in instances)
    for owner, tags in owners:
        for tag in tags:
            for name in _named(tag, prefix, ("syskey", "key", "utilization")):
                customers = tag.startswith(f"{prefix}key:") and not name.startswith("key _")
                if name in seen or customers:  # nodes do not set keys of customers
                    continue
                seen.add(name)
                nodes = cluster.nodes
                without = [n.name for n in nodes if n.name not in has.get(name, ())]
                if without:
                    text = f"asks for {name}, of which {_some(without, len(nodes))} none"
                    yield TagFinding("lacking", owner, tag, text)


def _named(tag: str, prefix: str, kinds: Sequence[str]) -> Iterator[str]:
    """Yield ``key NAME`` or ``utilization NAME`` if `tag` is of one of `kinds`."""
    if tag.startswith(prefix):
        kind, _, rest = tag[len(prefix) :].partition(":")
        name = rest.partition(":")[0]
        if kind in kinds and name:
            yield f"{'utilization' if kind == 'utilization' else 'key'} {name}"


def _some(names: Sequence[str], count: int) -> str:
    """Return subject and verb for nodes with these `names`: "node1, node2, node3 and 2 more have".

    The subject is "all nodes" if `count`, the number of nodes of the cluster, is reached.
    """
    if len(names) == count:
        return "all nodes have"
    return f"{named(names, FEW_NAMES)} {'has' if len(names) == 1 else 'have'}"
