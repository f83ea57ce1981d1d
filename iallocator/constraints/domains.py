"""Which nodes share a failure domain."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.cluster import Node

__all__ = ["NOBODYS", "Domains", "Zones"]

NOBODYS = ":"
"""No prefix of any tag: every node is its own failure domain there."""


class Zones:
    """The nodes of a cluster by the failure domains of one prefix.

    Attributes
    ----------
    of:
        Per node its zone: nodes in the same failure domains are in one zone.
    touching:
        Per zone those that share a failure domain with it, itself among them.
    disjoint:
        Whether every node is in one failure domain.
    """

    __slots__ = ("disjoint", "of", "touching")

    def __init__(self, sites: Sequence[frozenset[str]]) -> None:
        numbers: dict[frozenset[str], int] = {}
        self.of = [numbers.setdefault(some, len(numbers)) for some in sites]
        inside: dict[str, list[int]] = {}
        for some, zone in numbers.items():
            for site in some:
                inside.setdefault(site, []).append(zone)
        self.touching = [tuple({z for site in some for z in inside[site]}) for some in numbers]
        self.disjoint = all(len(some) == 1 for some in numbers)

    def share(self, one: int, other: int) -> bool:
        """Whether two nodes share a failure domain."""
        return self.of[one] in self.touching[self.of[other]]


class Domains:
    """The failure domains of a cluster, by their prefix; "": every node is its own.

    Prefixes that no node has all mean the same as "".
    """

    __slots__ = ("_known", "_nodes", "_prefixes")

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._prefixes = {tag.partition(":")[0] for node in nodes for tag in node.tags}
        self._known: dict[str, Zones] = {}

    def zones(self, domain: str) -> Zones:
        """The zones of one prefix."""
        prefix = domain if domain in self._prefixes else ""
        found = self._known.get(prefix)
        if found is None:
            every = range(len(self._nodes))
            sites = [frozenset(self.sites(index, prefix)) for index in every]
            found = self._known[prefix] = Zones(sites)
        return found

    def known(self, domain: str) -> str:
        """`domain`; `NOBODYS` for all prefixes that no node has."""
        return domain if not domain or domain in self._prefixes else NOBODYS

    def sites(self, index: int, domain: str) -> list[str]:
        """The failure domains of a node; one without any is its own, and so is every one for ""."""
        node, prefix = self._nodes[index], domain + ":"
        known = domain and domain in self._prefixes
        found = [tag for tag in node.tags if tag.startswith(prefix)] if known else []
        return found or [f"node {node.name}"]
