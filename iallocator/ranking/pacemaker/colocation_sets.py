"""Rule 2: in which order instances choose; rule 8: which of them choose together."""

from __future__ import annotations

from iallocator.ranking.pacemaker.rules import Choice, in_order
from iallocator.tags.pacemaker_scores import INFINITY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.ranking.pacemaker.ledger import Ledger
    from iallocator.ranking.pacemaker.node_scores import NodeScores, Weights
    from iallocator.tags.pacemaker import PacemakerTags

    Key = tuple[int, int, list[int]]

__all__ = ["ColocationSet", "in_turn", "units_of"]


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
    ledger: Ledger,
    units: Sequence[ColocationSet],
) -> list[ColocationSet]:
    """`units` in the order in which they choose; `ledger` is that of empty nodes.

    Higher priority first; then, but for ``default``, the higher score at home; then the
    higher score on the best node where they differ; then as they stand.
    """
    first = [facts.of(unit.members[0]).priority for unit in units]
    if kind == "default":
        return [units[k] for k in sorted(range(len(units)), key=lambda k: -first[k])]
    nodes = range(len(cluster.nodes))
    base = [w if usable else -INFINITY for w, usable in zip(facts.weights, facts.usable)]
    choice = Choice(kind, cluster, ledger, base)
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
