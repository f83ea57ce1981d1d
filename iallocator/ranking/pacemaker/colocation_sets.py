"""In which order instances choose (rule 2), and which of them choose together (rule 8)."""

from __future__ import annotations

from iallocator.ranking.pacemaker.rules import Choice, choose, in_order
from iallocator.tags.pacemaker_scores import INFINITY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.ranking.pacemaker.capacity_usage import CapacityUsage
    from iallocator.ranking.pacemaker.rules import NodeScores, Weights
    from iallocator.tags.pacemaker import Amounts, PacemakerTags

    Key = tuple[int, int, list[int]]

__all__ = ["ColocationSet", "choose_for", "in_turn", "units_of"]


class ColocationSet:
    """One instance, or those that have to be on one node, in their order.

    ``home`` is where the first of them that runs, runs; None if none does.
    """

    __slots__ = ("home", "members", "weights")

    def __init__(
        self, members: Sequence[Instance], weights: Sequence[Weights], home: int | None
    ) -> None:
        self.members = list(members)
        self.weights = list(weights)
        self.home = home


def units_of(
    facts: PacemakerTags,
    weigher: NodeScores,
    instances: Sequence[Instance],
    homes: Mapping[str, int],
    pinned: Callable[[Instance], bool],
) -> list[ColocationSet]:
    """`instances`, those of one together-group as one, at the place of its first member.

    `homes`: name → where it runs, for those that do.
    """
    by_group: dict[str, list[Instance]] = {}
    members: list[list[Instance]] = []
    for instance in instances:
        group = facts.of(instance).group
        companions = by_group.get(group) if group else None
        if companions is None:
            companions = []
            members.append(companions)
            if group:
                by_group[group] = companions
        companions.append(instance)
    return [
        ColocationSet(
            some,
            [weigher.of(one, homes.get(one.name), pinned(one)) for one in some],
            next((homes[one.name] for one in some if one.name in homes), None),
        )
        for some in members
    ]


def in_turn(
    kind: str,
    cluster: Cluster,
    facts: PacemakerTags,
    weigher: NodeScores,
    usage: CapacityUsage,
    units: Sequence[ColocationSet],
) -> list[ColocationSet]:
    """`units` in the order in which they choose; `usage` is that of empty nodes.

    Higher priority first; then, but for ``default``, the higher score at home; then the
    higher score on the best node where they differ; then as they stand.  Unusable nodes are left
    out if none of the instances is in their group: groups choose independently of each other.
    """
    first = [facts.of(unit.members[0]).priority for unit in units]
    if kind == "default":
        return [units[k] for k in sorted(range(len(units)), key=lambda k: -first[k])]
    groups = {cluster.nodes[i].group for unit in units for one in unit.members for i in one.nodes}
    nodes = [n.index for n in cluster.nodes if facts.usable[n.index] or n.group in groups]
    base = [w if usable else -INFINITY for w, usable in zip(facts.weights, facts.usable)]
    choice = Choice(kind, cluster, usage, base)
    walk, _ = in_order(choice, nodes)
    walked: dict[int, list[int]] = {}

    def key(position: int) -> Key:
        unit = units[position]
        weights = weigher.together(unit.weights[::-1])
        home = -INFINITY if unit.home is None else weights[unit.home]
        if id(weights) not in walked or len(unit.members) > 1:
            walked[id(weights)] = [-weights[index] for index in walk]
        return -first[position], -home, walked[id(weights)]

    return [units[k] for k in sorted(range(len(units)), key=key)]


def choose_for(
    kind: str,
    cluster: Cluster,
    facts: PacemakerTags,
    weigher: NodeScores,
    usage: CapacityUsage,
    unit: ColocationSet,
    position: int,
    nodes: Sequence[int],
    home: int | None,
    costs: Mapping[int, float] | None = None,
) -> Choice:
    """The order of `nodes` for the member at `position` of `unit`, which runs on `home`.

    `nodes` are those that hard limits leave, and, for a member that is not the first,
    that the one before it allows.  `costs`: node → what it should not do there costs.
    """
    nodes = [index for index in nodes if facts.usable[index]]
    weights = unit.weights[position]
    if position + 1 < len(unit.members):
        possible = set(nodes)
        here = [index in possible for index in range(len(weights))]
        weights = weigher.heard(unit.weights[position:], here)
    rest = [facts.of(one).needs for one in unit.members[position:]]
    needs, preferred = rest[0], None
    if len(rest) > 1 and kind != "default":
        candidates = [index for index in nodes if weights[index] >= 0]
        whole = _sum(rest)
        if len(usage.lacking(candidates, whole)) < len(candidates):
            needs = whole
        else:
            preferred = _freest(cluster, usage, candidates)
    return choose(
        kind,
        cluster,
        usage,
        weights,
        nodes,
        needs,
        home,
        at_home=home is None or facts.weights[home] >= 0,
        preferred=preferred,
        costs=costs,
    )


def _sum(needs: Sequence[Amounts]) -> Amounts:
    """What several instances need together."""
    total: Amounts = {}
    for one in needs:
        for name, amount in one.items():
            total[name] = total.get(name, 0) + amount
    return total


def _freest(cluster: Cluster, usage: CapacityUsage, nodes: Sequence[int]) -> int | None:
    """The node with most free capacity, as it is found going through them by name."""
    found: int | None = None
    for index in sorted(nodes, key=lambda i: cluster.nodes[i].name.encode()):
        if found is None or usage.compare(index, found) > 0:
            found = index
    return found
