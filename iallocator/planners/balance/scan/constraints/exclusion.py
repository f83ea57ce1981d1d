"""What exclusion, location and desired-location tags add to the moves of a batch.

Tags tie instances together that share no node, so nothing here is kept from one step
to the next: clusters without such tags have no `MoveTags` at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from iallocator.aliases import Floats
    from iallocator.planners.balance.scan.instance_batch import InstanceBatch
    from iallocator.planners.balance.scan.node_table import NodeTable

__all__ = ["MoveTags", "tags_matter"]


def tags_matter(table: NodeTable) -> bool:
    """Whether tags of nodes or instances have anything to do with scores or limits."""
    cluster = table.state.cluster
    located = any(cluster.nodes[index].locations for index in table.nodes)
    return located or cluster.tags_place_instances


class MoveTags:
    """Per instance (rows) and node (columns), for an instance that left its nodes.

    Attributes
    ----------
    conflicts, misplaced, domains:
        What its coming as the primary adds to the columns of these names, and to the
        conflicts within domains.
    shared:
        Matrix primary × secondary: location tags in common, where the primary is online.
    """

    def __init__(self, table: NodeTable, batch: InstanceBatch) -> None:
        shape = (len(batch.instances), len(table.nodes))
        self.conflicts: Floats = np.zeros(shape)
        self.misplaced: Floats = np.zeros(shape)
        self.domains: Floats = np.zeros(shape)
        self.shared = _shared(table) * (not batch.forthcoming)
        state = table.state
        for row, instance in enumerate(batch.instances):
            if not (instance.exclusion or instance.desired):
                continue
            with state.trial():
                state.remove(instance, state.where[instance.name])
                for k, index in enumerate(table.nodes):
                    conflicts, misplaced = state.tag_amounts(instance, index, None)
                    self.conflicts[row, k] = conflicts
                    self.misplaced[row, k] = misplaced
                    self.domains[row, k] = state.added_domain_conflicts(
                        instance, index, table.group
                    )


def _shared(table: NodeTable) -> Floats:
    nodes = [table.state.cluster.nodes[index] for index in table.nodes]
    return np.array(
        [[len(p.locations & s.locations) if p.online else 0 for s in nodes] for p in nodes],
        dtype=np.float64,
    )
