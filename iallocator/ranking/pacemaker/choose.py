"""One member of a unit chooses its node: rules 3 to 5 and 8."""

from __future__ import annotations

from iallocator.ranking.pacemaker.rules import choose

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.ranking.pacemaker.colocation_sets import ColocationSet
    from iallocator.ranking.pacemaker.ledger import Ledger
    from iallocator.ranking.pacemaker.node_scores import NodeScores
    from iallocator.ranking.pacemaker.rules import Choice
    from iallocator.tags.pacemaker import Amounts, PacemakerTags

__all__ = ["choose_for"]


def choose_for(
    kind: str,
    cluster: Cluster,
    facts: PacemakerTags,
    weigher: NodeScores,
    ledger: Ledger,
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
        if len(ledger.lacking(candidates, whole)) < len(candidates):
            needs = whole
        else:
            preferred = _freest(cluster, ledger, candidates)
    return choose(
        kind,
        cluster,
        ledger,
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


def _freest(cluster: Cluster, ledger: Ledger, nodes: Sequence[int]) -> int | None:
    """The node with most free capacity, as it is found going through them by name."""
    found: int | None = None
    for index in sorted(nodes, key=lambda i: cluster.nodes[i].name.encode()):
        if found is None or ledger.compare(index, found) > 0:
            found = index
    return found
