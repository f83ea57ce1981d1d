"""What a strategy has to say of its order: for the administrator's eyes."""

from __future__ import annotations

from iallocator.explain.facts import Placed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.explain.facts import Term
    from iallocator.explain.group_report import GroupReport
    from iallocator.model.cluster import Cluster
    from iallocator.ranking.base import NodeRanking
    from iallocator.ranking.pairs import OrderedCandidates


__all__ = ["between_groups", "note_order", "placed_by"]


def note_order(report: GroupReport, order: OrderedCandidates, cluster: Cluster) -> None:
    """Note in `report` how `order` ranked the nodes, and which it rejected."""
    report.strategy = order.name
    report.ranking = (
        [(cluster.nodes[index].name, order.criteria((index,))) for index in order.primaries]
        if order.first is not None
        else []
    )
    report.rejected_by_strategy = {
        cluster.nodes[index].name: why for index, why in order.rejections().items()
    }


def placed_by(
    order: OrderedCandidates,
    cluster: Cluster,
    group: str,
    found: Sequence[tuple[Nodes, float, list[Term]]],
) -> list[Placed]:
    """The placements in `found` (nodes, score, terms), the first with what put it before each."""
    names = ["/".join(cluster.node_names(nodes)) for nodes, _, _ in found]
    over = {
        name: order.decided(found[0][0], nodes) for name, (nodes, _, _) in zip(names[1:], found[1:])
    }
    return [
        Placed(
            group,
            cluster.node_names(nodes),
            score,
            terms,
            ", ".join(f"{name} {value}" for name, value in order.criteria(nodes)),
            over if k == 0 else {},
        )
        for k, (nodes, score, terms) in enumerate(found)
    ]


def between_groups(
    order: NodeRanking | None, cluster: Cluster, groups: Sequence[GroupReport]
) -> Mapping[str, str]:
    """Group → why the first of `groups` comes before it, where a strategy compared them."""
    if order is None:
        return {}
    index = {node.name: node.index for node in cluster.nodes}
    first, *others = [(g.uuid, index[g.placements[0].nodes[0]]) for g in groups]
    return {uuid: order.decided(first[1], node) for uuid, node in others}
