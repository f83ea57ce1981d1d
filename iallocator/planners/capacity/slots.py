"""Global N+1 by counting: whether what runs on a failed node finds room, with nothing moved.

Take the largest memory and the largest disk among the instances that must leave a
node, and count how many instances of that size the other nodes of its group can
take: their slots.  Whatever is placed takes at most one slot, so with no more
instances than slots each finds a place, in any order and by any choice.  If all of
them are alike, each takes exactly one slot, and with fewer slots one is left over.
"""

from __future__ import annotations

from iallocator.model.columns import DISK, MEMORY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.planners.capacity.rules import CapacityRules

    Need = tuple[float, float]
    """Memory and disk of an instance, MiB."""

__all__ = ["Slots"]

PLENTY = 1 << 40
"""Slots of a node for instances that need nothing."""


class Slots:
    """Judges placements on `state` as ``--n1 strict`` does, as far as counting can tell."""

    def __init__(self, state: State, rules: CapacityRules) -> None:
        self._state = state
        self._rules = rules
        cluster = state.cluster
        watched = set(rules.failing(cluster, cluster.groups[0], ())) if cluster.groups else set()
        self._groups = {
            group.index: _Group(state, rules, group, watched) for group in cluster.groups
        }

    def accepts(self, instance: Instance, nodes: tuple[int, ...]) -> bool | None:
        """Whether `instance` on `nodes` keeps N+1; None: counting does not tell."""
        if len(nodes) > 1:
            return None
        own = self._state.cluster.nodes[nodes[0]].group.index
        verdicts = [
            found.accepts(instance, nodes[0]) if index == own else found.healthy()
            for index, found in self._groups.items()
        ]
        return False if False in verdicts else None if None in verdicts else True


class _Failure:
    """What leaves a failed node.

    Attributes
    ----------
    need, count:
        The largest memory and the largest disk, and how many instances there are.
    alike:
        Whether all need exactly that.
    """

    __slots__ = ("alike", "count", "need", "node")

    def __init__(self, node: int, needs: Iterable[Need]) -> None:
        self.node = node
        found = list(needs)
        self.count = len(found)
        self.need = (max((m for m, _ in found), default=0), max((d for _, d in found), default=0))
        self.alike = len(set(found)) <= 1


class _Group:
    """The failures of one group, and the slots of its nodes."""

    def __init__(self, state: State, rules: CapacityRules, group: Group, watched: set[int]) -> None:
        nodes = state.cluster.nodes
        self._state = state
        self._rules = rules
        self._group = group
        self._targets = rules.targets(state.cluster, group)
        self._slots: dict[Need, dict[int, int]] = {}
        self._unknown = (
            group.exclusive
            or getattr(state, "pools", None) is not None
            or any(nodes[index].migration for index in group.nodes)
        )
        self._failures: list[_Failure] = []
        if not self._unknown:
            self._failures = [self._failure(i) for i in group.nodes if i in watched]
        self._healthy: bool | None = None
        self._judged = False

    def _failure(self, node: int) -> _Failure:
        """What leaves `node`; where something fails over or is refused, nobody knows."""
        needs: list[Need] = []
        for instance in self._state.primaries[node].values():
            if instance.forthcoming:
                continue
            self._unknown |= instance.template == "drbd" or self._refused(instance)
            needs.append(_need(instance))
        return _Failure(node, needs)

    def _refused(self, instance: Instance) -> bool:
        """Whether it would be created anew, and the policy does not admit it."""
        recreated = self._rules.recreates(instance)
        return recreated and self._group.policy.refuses(instance, False) is not None

    def healthy(self) -> bool | None:
        """Whether every failure is survived as things are; None: unknown."""
        if not self._judged:
            self._judged = True
            self._healthy = None if self._unknown else self._verdict(self._failures, None, -1)
        return self._healthy

    def accepts(self, instance: Instance, node: int) -> bool | None:
        """The same with `instance` on `node`."""
        if self._unknown or self._refused(instance):
            return None
        return self._verdict(self._failures, instance, node)

    def _verdict(
        self, failures: list[_Failure], instance: Instance | None, node: int
    ) -> bool | None:
        certain = True
        for failure in failures:
            need, count, alike = failure.need, failure.count, failure.alike
            if instance is not None and failure.node == node:
                more = _need(instance)
                alike = alike and (not count or more == need)
                need = max(need[0], more[0]), max(need[1], more[1])
                count += 1
            if not count:
                continue
            slots = self._slots_for(need)
            left = slots[-1] - slots.get(failure.node, 0)
            if instance is not None and failure.node != node and node in slots:
                left += self._count(node, need, _need(instance)) - slots[node]
            if left < count:
                if alike:
                    return False
                certain = False
        return True if certain else None

    def _slots_for(self, need: Need) -> dict[int, int]:
        """Slots of each target; under -1 those of all."""
        slots = self._slots.get(need)
        if slots is None:
            slots = {target: self._count(target, need, (0, 0)) for target in self._targets}
            slots[-1] = sum(slots.values())
            self._slots[need] = slots
        return slots

    def _count(self, target: int, need: Need, taken: Need) -> int:
        """How often `need` fits on `target` after `taken`; some memory and disk must remain."""
        counts = [PLENTY]
        for column, amount, less in zip((MEMORY, DISK), need, taken):
            if amount or column == MEMORY:
                free = self._state.columns[column][target] - less - 1
                counts.append(int(free // amount) if amount else PLENTY if free >= 0 else 0)
        return max(0, min(counts))


def _need(instance: Instance) -> Need:
    """What an instance takes on its primary; a stopped one takes no memory."""
    memory = instance.memory if instance.uses_memory else 0
    return memory, instance.disk if instance.local else 0
