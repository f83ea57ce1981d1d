"""The kinds of findings about a group, and the effect of the failure of each of its nodes.

The effect says where each instance fails over to, is moved to, or is created anew.
"""

from __future__ import annotations

from iallocator.n1 import Rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State

__all__ = ["KINDS", "NOT_ANALYSED", "OF_NODES", "Finding", "GroupHealth", "NodeFailure", "failures"]

KINDS = {
    "n1": "nodes without the memory for a failover to them",
    "global_n1": "nodes with a failure that is not tolerated",
    "conflicts": "nodes with instances that exclude each other",
    "offline_primary": "instances with a primary that is not online",
    "offline_secondary": "instances with a secondary that is not online",
    "policy": "nodes and instances outside the policy",
    "split": "instances with nodes in two groups",
    "location": "instances badly placed by location",
    "musts": "instances that violate a hard constraint",
}
"""The kinds of findings -> the nodes or instances that are counted, in words."""

NOT_ANALYSED = "nodes with a failure that was not analysed for lack of time"
"""The nodes that `GroupHealth.not_analysed` counts, in words."""

OF_NODES = {"n1", "global_n1", "conflicts"}
"""The kinds that count nodes, also if a finding names an instance."""


class Finding:
    """One problem of a node or an instance.

    Attributes
    ----------
    kind:
        One of `KINDS`.
    node, instance:
        The name of the node and of the instance; "" if the problem concerns none.
    text:
        The problem in words, with numbers.
    """

    __slots__ = ("instance", "kind", "node", "text")

    def __init__(self, kind: str, text: str, *, node: str = "", instance: str = "") -> None:
        self.kind = kind
        self.text = text
        self.node = node
        self.instance = instance

    def document(self) -> dict[str, object]:
        """Return the finding as plain data; null for a name that is ""."""
        return {
            "kind": self.kind,
            "node": self.node or None,
            "instance": self.instance or None,
            "text": self.text,
        }


class GroupHealth:
    """The problems of one group.

    Attributes
    ----------
    offline_nodes:
        The number of nodes that are not online.  An offline node is no finding by itself.
    not_analysed:
        Names of the nodes with a failure that was not analysed before the time limit.  They have no
        finding of the kind ``global_n1``.
    examined:
        True if the findings of the other kinds were searched for before the time limit.
    """

    __slots__ = ("examined", "findings", "group", "not_analysed", "offline_nodes", "score")

    def __init__(
        self,
        group: Group,
        findings: list[Finding],
        score: float,
        offline_nodes: int,
        not_analysed: list[str],
        examined: bool = True,
    ) -> None:
        self.not_analysed = not_analysed
        self.examined = examined
        self.group = group
        self.findings = findings
        self.score = score
        self.offline_nodes = offline_nodes

    @property
    def counts(self) -> dict[str, int]:
        """Return, for each kind, the number of nodes or instances with such a finding."""
        named: dict[str, set[tuple[str, str]]] = {kind: set() for kind in KINDS}
        for found in self.findings:
            about = ("", found.instance) if found.instance and found.kind not in OF_NODES else (
                found.node, ""
            )  # fmt: skip
            named[found.kind].add(about)
        return {kind: len(members) for kind, members in named.items()}


if TYPE_CHECKING:
    Share = tuple[int, int]

    """A number of instances, and the memory that they need, MiB."""


class NodeFailure:
    """The effect of the failure of one node.

    Attributes
    ----------
    node:
        The name of the node.
    analysed:
        True if the failure was analysed.  Not analysed are failures of nodes that are not online,
        unless N+1 is ``strict``.  With ``--n1 off``, no failure is analysed.
    late:
        True if the failure was not analysed before the time limit.
    lost:
        The reason why the failure is not tolerated; "" if it is tolerated.
    failovers:
        Name of a secondary -> the instances that fail over to it, as number and memory.
    moved, recreated:
        The instances that start on another node from shared storage, and the instances that are
        created anew.
    """

    __slots__ = ("analysed", "failovers", "late", "lost", "moved", "node", "recreated")

    def __init__(self, node: str, analysed: bool, lost: str, late: bool) -> None:
        self.node = node
        self.analysed = analysed and not late
        self.late = analysed and late
        self.lost = lost
        self.failovers: dict[str, Share] = {}
        self.moved: Share = (0, 0)
        self.recreated: Share = (0, 0)

    @property
    def survived(self) -> bool:
        """Return whether the failure was analysed, and all instances can be restarted."""
        return self.analysed and not self.lost


def failures(
    state: State, health: Iterable[GroupHealth], n1: str, by_group: Mapping[int, str]
) -> list[NodeFailure]:
    """Return the failure of each node, in the order of `health` and of the nodes of each group.

    `health` is the result of `examine` for `state`, `n1` and `by_group`.
    """
    nodes = state.cluster.nodes
    found: list[NodeFailure] = []
    for group in health:
        rules = Rules(by_group.get(group.group.index, n1))
        lost = {f.node: f.text for f in group.findings if f.kind == "global_n1"}
        late = frozenset(group.not_analysed)
        for index in group.group.nodes:
            node = nodes[index]
            analysed = rules.mode != "off" and (rules.strict or node.online)
            one = NodeFailure(node.name, analysed, lost.get(node.name, ""), node.name in late)
            found.append(one)
            for instance in state.primaries[index].values():
                if instance.forthcoming:
                    continue
                if instance.needs_secondary:
                    secondaries = state.where[instance.name][1:]
                    name = nodes[secondaries[0]].name if secondaries else ""
                    one.failovers[name] = _more(one.failovers.get(name, (0, 0)), instance)
                elif rules.recreates(instance):
                    one.recreated = _more(one.recreated, instance)
                else:
                    one.moved = _more(one.moved, instance)
    return found


def _more(share: Share, instance: Instance) -> Share:
    """Return `share` with `instance` added."""
    return share[0] + 1, share[1] + (instance.memory if instance.uses_memory else 0)
