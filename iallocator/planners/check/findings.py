"""What may be wrong with a cluster, by kind; and all that is wrong in a group."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.model.cluster import Group

__all__ = ["KINDS", "NOT_ANALYSED", "OF_NODES", "Finding", "GroupHealth"]

KINDS = {
    "n1": "nodes without the memory for a failover to them",
    "global_n1": "nodes whose failure would not be survived",
    "conflicts": "nodes with instances that exclude each other",
    "offline_primary": "instances whose primary node is not online",
    "offline_secondary": "instances whose secondary node is not online",
    "policy": "nodes and instances outside the policy",
    "split": "instances whose nodes are in two groups",
    "location": "instances badly placed by location",
    "musts": "instances that break a must",
}
"""Kind of a finding -> what is counted: nodes or instances."""

NOT_ANALYSED = "nodes whose failure was not analysed for lack of time"
"""What is counted for `GroupHealth.not_analysed`."""

OF_NODES = {"n1", "global_n1", "conflicts"}
"""Kinds that count nodes, even where they name an instance."""


class Finding:
    """One thing that is wrong.

    Attributes
    ----------
    kind:
        One of `KINDS`.
    node, instance:
        Names; "" where it is not about one.
    text:
        What is wrong, with numbers.
    """

    __slots__ = ("instance", "kind", "node", "text")

    def __init__(self, kind: str, text: str, *, node: str = "", instance: str = "") -> None:
        self.kind = kind
        self.text = text
        self.node = node
        self.instance = instance

    def document(self) -> dict[str, object]:
        """As plain data; null for what it is not about."""
        return {
            "kind": self.kind,
            "node": self.node or None,
            "instance": self.instance or None,
            "text": self.text,
        }


class GroupHealth:
    """What is wrong in one group.

    Attributes
    ----------
    offline_nodes:
        How many nodes are not online, which alone is nothing wrong.
    not_analysed:
        Names of the nodes for which time did not suffice to find out whether their failure
        would be survived. These nodes have no finding of the kind ``global_n1``.
    examined:
        Whether there was time to look for findings of the other kinds.
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
        """Per kind how many nodes or instances there is something wrong with."""
        named: dict[str, set[tuple[str, str]]] = {kind: set() for kind in KINDS}
        for found in self.findings:
            about = ("", found.instance) if found.instance and found.kind not in OF_NODES else (
                found.node, ""
            )  # fmt: skip
            named[found.kind].add(about)
        return {kind: len(members) for kind, members in named.items()}
