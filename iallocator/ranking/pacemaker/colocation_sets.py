"""The order of placement of instances (rule 2), and their colocation sets (rule 8)."""

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
    """One instance, or several instances that must be on one node, in their order.

    ``home`` is the node of the first running member; None if no member runs.
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
    """Return `instances` as colocation sets, each at the position of its first member.

    `homes`: name of a running instance → the node on which it runs.
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
    """Return `units` in the order of placement; `usage` is the usage of empty nodes.

    The set with the higher priority comes first.  Then, except for ``default``, the higher score on
    the home node decides, then the higher score on the best node where the scores differ.  Equal
    sets keep their order.  Unusable nodes of groups without any of the instances are left out,
    because the order in one group must not depend on another group.
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
    """Return the order of `nodes` for the member at `position` of `unit`, which runs on `home`.

    `nodes` pass the hard limits.  For a member that is not the first, only the node of the member
    before it is possible.  `costs`: node → penalty of the soft constraints violated there.
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
    """Return the sum of the needs of several instances."""
    total: Amounts = {}
    for one in needs:
        for name, amount in one.items():
            total[name] = total.get(name, 0) + amount
    return total


def _freest(cluster: Cluster, usage: CapacityUsage, nodes: Sequence[int]) -> int | None:
    """Return the node with the most free capacity, found by comparing nodes in order of name."""
    found: int | None = None
    for index in sorted(nodes, key=lambda i: cluster.nodes[i].name.encode()):
        if found is None or usage.compare(index, found) > 0:
            found = index
    return found
