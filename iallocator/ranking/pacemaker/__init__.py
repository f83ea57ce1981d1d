"""Pacemaker's four placement strategies, by the rules that its scheduler follows.

``default`` compares scores and numbers of instances.  ``utilization`` also enforces capacities.
``balanced`` prefers nodes with more free capacity.  ``minimal`` fills one node after the other.
The tags are described in `iallocator.tags.pacemaker`.
"""

from __future__ import annotations

from iallocator.ranking.advertised import memory_lack
from iallocator.ranking.base import ScheduledInstance
from iallocator.ranking.pacemaker.capacity_usage import CapacityUsage
from iallocator.ranking.pacemaker.colocation_sets import (
    ColocationSet,
    SetRanking,
    units_of,
)
from iallocator.ranking.pacemaker.rules import NodeScores
from iallocator.tags.pacemaker import PacemakerTags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.model.instance import Instance
    from iallocator.ranking.base import RankQuery, WorkingSet
    from iallocator.ranking.pacemaker.rules import Choice

__all__ = ["facts_of", "kind_of", "node_scores_of", "order", "sequence"]


def kind_of(strategy: str) -> str:
    """Return the kind of a strategy: ``balanced`` for ``pacemaker-balanced``."""
    return strategy.removeprefix("pacemaker-")


def facts_of(context: WorkingSet) -> PacemakerTags:
    """Return the facts in the Pacemaker tags; tags are read, and warnings recorded, once per
    request.
    """
    facts = context.kept.get("pacemaker")
    if not isinstance(facts, PacemakerTags):
        facts = PacemakerTags(
            context.cluster, context.coming, context.remarks, context.settings.tag_prefix
        )
        context.kept["pacemaker"] = facts
    return facts


def node_scores_of(context: WorkingSet) -> NodeScores:
    """Return the scores of nodes, with the stickiness of the group of each node.

    Pacemaker has whole numbers only: the stickiness is rounded towards zero.
    """
    by_group = {g.index: int(context.settings_of(g).stickiness) for g in context.cluster.groups}
    stickiness = [by_group[node.group.index] for node in context.cluster.nodes]
    return NodeScores(facts_of(context), stickiness)


def order(query: RankQuery, nodes: Sequence[int]) -> Choice:
    """Return the order of `nodes` for the instance of `query`, with the others in place."""
    context = query.context
    facts = facts_of(context)
    weigher = node_scores_of(context)
    unit, position = ColocationSet([query.instance], [weigher.of(query.instance)], None), 0
    scheduled = context.scheduled
    lacks = {index: memory_lack(context.state, index, query.instance) for index in nodes}
    poor = {index: why for index, why in lacks.items() if why}
    allowed = [index for index in nodes if index not in poor]
    if scheduled is not None and scheduled.instance is query.instance and query.role == "primary":
        unit, position = scheduled.unit, scheduled.position
        if scheduled.after is not None:
            allowed = [index for index in allowed if index == scheduled.node]
    usage = CapacityUsage(facts, context.state, nodes)
    ranking = SetRanking(kind_of(query.strategy), context.cluster, facts, weigher, usage)
    choice = ranking.choose(unit, position, allowed, None, query.costs(allowed))
    rejected = dict(choice.rejected)
    for index in nodes:
        if not facts.usable[index]:
            rejected[index] = "it is in maintenance"
        elif index in poor:
            rejected[index] = poor[index]
        elif index not in allowed:
            assert scheduled is not None
            assert scheduled.after is not None
            rejected[index] = f"rule 8: goes where {scheduled.after.name} goes"
    choice.rejected = rejected
    return choice


def sequence(
    strategy: str, context: WorkingSet, instances: Sequence[Instance], homes: Mapping[str, int]
) -> list[ScheduledInstance]:
    """Return `instances` in Pacemaker's order of placement, the members of a set together.

    `strategy`: the name of the strategy. `homes`: name of a running instance -> the node on which
    it runs.
    """
    facts = facts_of(context)
    weigher = node_scores_of(context)
    units = units_of(facts, weigher, instances, homes, lambda instance: False)
    usage = CapacityUsage.of_empty_nodes(facts, context.state)
    ranking = SetRanking(kind_of(strategy), context.cluster, facts, weigher, usage)
    units = ranking.in_turn(units)
    return [ScheduledInstance(unit, k) for unit in units for k in range(len(unit.members))]
