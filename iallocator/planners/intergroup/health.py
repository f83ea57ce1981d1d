"""The health of a group: offline nodes that hold instances, and nodes that violate N+1."""

from __future__ import annotations

from iallocator.n1 import plan_rules
from iallocator.n1.tolerance import FailureTolerance

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.cluster import Group, Node
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.planners.intergroup.moving import Mover

__all__ = ["HEALTHY", "UNHEALTHY", "WEAK", "Health", "examine", "stranding"]

HEALTHY, WEAK, UNHEALTHY = "healthy", "weakly unhealthy", "unhealthy"


class Health:
    """The problems of a group.

    Attributes
    ----------
    stranding:
        Its offline nodes that hold instances.
    full:
        Its online nodes without the memory for a failover to them.
    doomed:
        Its online nodes that hold instances which cannot be restarted when the node fails.
    """

    __slots__ = ("doomed", "full", "group", "stranding")

    def __init__(
        self, group: Group, stranding: list[int], full: list[int], doomed: list[int]
    ) -> None:
        self.group = group
        self.stranding = stranding
        self.full = full
        self.doomed = doomed

    @property
    def state(self) -> str:
        """`HEALTHY`, `WEAK` or `UNHEALTHY`."""
        if self.stranding:
            return UNHEALTHY
        return WEAK if self.full or self.doomed else HEALTHY

    @property
    def failing(self) -> list[int]:
        """The nodes that violate N+1, in their order."""
        return sorted({*self.full, *self.doomed})

    def victims(self, state: State) -> list[Instance]:
        """Return the instances that cause the problems, in the order in which they must leave.

        First those on offline nodes, primaries first; then the secondaries of nodes that violate
        N+1, then their primaries.
        """
        offline, failing = self.stranding, self.failing
        order = [
            *((state.primaries, index) for index in offline),
            *((state.secondaries, index) for index in offline),
            *((state.secondaries, index) for index in failing),
            *((state.primaries, index) for index in failing),
        ]
        found: dict[str, Instance] = {}
        for role, index in order:
            members = {name: i for name, i in role[index].items() if name not in found}
            found |= {i.name: i for i in sorted(members.values(), key=lambda one: one.order)}
        return list(found.values())

    def troubles(self, state: State) -> int:
        """Return the number of instances on offline nodes plus nodes that violate N+1."""
        held = {i.name for index in self.stranding for i in state.instances_on(index)}
        return len(held) + len(self.failing)

    def describe(self, nodes: Sequence[Node]) -> str:
        """Return the problems in words, or ""; `nodes` are those of the cluster."""
        parts = [
            f"{_listed(nodes, indices)} {text}"
            for indices, text in (
                (self.stranding, "offline with instances"),
                (self.full, "without the memory for failovers"),
                (self.doomed, "with a failure that is not tolerated"),
            )
            if indices
        ]
        return "; ".join(parts)


def _listed(nodes: Sequence[Node], indices: list[int]) -> str:
    shown = ", ".join(nodes[index].name for index in indices[:5])
    more = f" and {len(indices) - 5} more" if len(indices) > 5 else ""
    return f"node{'s' * (len(indices) > 1)} {shown}{more}"


def stranding(state: State, group: Group) -> list[int]:
    """Return the offline nodes of `group` that hold instances."""
    nodes = state.cluster.nodes
    return [
        index
        for index in group.nodes
        if nodes[index].offline and any(not i.forthcoming for i in state.instances_on(index))
    ]


def examine(mover: Mover, group: Group) -> Health:
    """Return the health of `group` as the state is now; ``--n1 off`` skips global N+1."""
    state, nodes = mover.context.state, mover.context.cluster.nodes
    offline = stranding(state, group)
    online = [i for i in group.nodes if nodes[i].online]
    full = [i for i in online if state.fails_n1(i)]
    lost: list[int] = []
    mode = mover.context.evaluator(group).rules.mode
    if mode != "off":
        rules = plan_rules(mode, mover.context.bonds.relations)
        tolerance = FailureTolerance(state, rules, group=group)
        broken = tolerance.not_tolerated(rules.of_online(state.cluster, group))
        lost = sorted({node for failure in broken for node in failure})
    return Health(group, offline, full, lost)
