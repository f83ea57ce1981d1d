"""What a rule between many costs on every node, for all its shapes of members at once.

The members of a rule are told apart by what their tags ask (weight and failure domain), not
by who they are: arrays are shapes × nodes, whatever the number of instances.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.model.constraints import APART, domains_between

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iallocator.aliases import Floats
    from iallocator.constraints.domains import Domains, Zones
    from iallocator.model.constraints import Rule
    from iallocator.planners.balance.scan.node_table import Whole

    Shape = tuple[float, str]

    Costs = tuple[Floats, Floats]
    """Shapes × nodes: how many musts are broken there, and what the broken shoulds cost."""

__all__ = ["RuleCosts", "ShareMatrices"]


class ShareMatrices:
    """Per failure domain the matrix nodes × nodes: 1 where they share one."""

    def __init__(self, domains: Domains, nodes: int) -> None:
        self._domains = domains
        self._nodes = nodes
        self._known: dict[Zones, Floats] = {}
        self._alone: dict[int, bool] = {}

    def of(self, domain: str) -> Floats:
        """That of one prefix: the same object for all that mean the same."""
        zones = self._domains.zones(domain)
        found = self._known.get(zones)
        if found is None:
            inside = np.zeros((len(zones.touching), self._nodes))
            inside[zones.of, np.arange(self._nodes)] = 1
            touching = np.zeros((len(zones.touching),) * 2)
            for zone, others in enumerate(zones.touching):
                touching[zone, list(others)] = 1
            found = np.asarray((inside.T @ touching @ inside > 0) * 1.0, np.float64)
            self._known[zones] = found
            self._alone[id(found)] = bool((found == np.eye(self._nodes)).all())
        return found

    def is_identity(self, share: Floats) -> bool:
        """Whether `share`, one of these, says that every node is alone."""
        return self._alone[id(share)]


class RuleCosts:
    """One rule, whose shapes stand by weight.

    Attributes
    ----------
    row:
        Shape -> its row in all arrays here.
    """

    def __init__(self, rule: Rule, shares: ShareMatrices) -> None:
        self._apart = rule.kind == APART
        self._shares = shares
        self._shapes: list[Shape] = sorted({member.shape for member in rule.members})
        self.row = {shape: row for row, shape in enumerate(self._shapes)}
        self._weights: Floats = np.array([weight for weight, _ in self._shapes])
        self._rows_of: dict[str, Whole] = {}
        for domain in sorted({domain for _, domain in self._shapes}):
            rows = [row for row, shape in enumerate(self._shapes) if shape[1] == domain]
            self._rows_of[domain] = np.array(rows, dtype=np.intp)

    def matrix(self, counts: Mapping[Shape, Mapping[int, int]], nodes: int) -> Floats:
        """Counts by shape and node as an array."""
        found = np.zeros((len(self.row), nodes))
        row = self.row
        cells = [
            (row[shape], node, n) for shape, some in counts.items() for node, n in some.items()
        ]
        if cells:
            rows, columns, numbers = np.array(cells).T
            found[rows, columns] = numbers
        return found

    def costs(self, counts: Floats) -> Costs:
        """What one more of each shape breaks on each node, `counts` (shapes × nodes) being there.

        Cost: shapes × nodes × nodes for each failure domain that nodes have.
        """
        musts, costs = np.zeros_like(counts), np.zeros_like(counts)
        own = self._own(counts)
        named = [rows for domain, rows in self._rows_of.items() if domain]
        others = np.concatenate(named) if named else np.zeros(0, dtype=np.intp)
        others.sort()
        sums: dict[int, _Sums] = {}
        for domain, rows in self._rows_of.items():
            if not domain:
                self._add(musts, costs, rows, _Sums(self._weights, own), 1)
                continue
            share = self._shares.of(domain)
            if id(share) not in sums:
                sums[id(share)] = _Sums(self._weights, self._broken(counts, share))
            self._add(musts, costs, rows, sums[id(share)], 1)
            if len(named) > 1:  # what other domains ask of the two, they ask besides
                if 0 not in sums:
                    sums[0] = _Sums(self._weights[others], own[others])
                self._add(musts, costs, rows, sums[0], 1)
                self._add(musts, costs, rows, _Sums(self._weights[rows], own[rows]), -1)
        return musts, costs

    def _add(self, musts: Floats, costs: Floats, rows: Whole, sums: _Sums, sign: int) -> None:
        more, dearer = sums.asked_by(self._weights[rows])
        musts[rows] += sign * more
        costs[rows] += sign * dearer

    def _own(self, counts: Floats) -> Floats:
        """With how many of each shape a bond is broken on each node, in the domain they name."""
        found = np.zeros_like(counts)
        by_share: dict[int, tuple[Floats, list[Whole]]] = {}
        for domain, rows in self._rows_of.items():
            share = self._shares.of(domain)
            by_share.setdefault(id(share), (share, []))[1].append(rows)
        for share, some in by_share.values():
            together = np.concatenate(some)
            found[together] = self._broken(counts[together], share)
        return found

    def _broken(self, counts: Floats, share: Floats) -> Floats:
        alone = self._shares.is_identity(share)
        near: Floats = counts.copy() if alone else counts @ share
        return near if self._apart else counts.sum(axis=1, keepdims=True) - near

    def broken_between(self, one: str, other: str) -> Floats:
        """Nodes × nodes: by how many domains the bond of members that name these is broken."""
        shares = [self._shares.of(domain) for domain in domains_between(one, other)]
        broken = [share if self._apart else 1 - share for share in shares]
        return sum(broken[1:], broken[0])

    def own(self, inside: Floats) -> float:
        """What the shoulds of members with themselves add to costs; `inside`: shapes × nodes."""
        priced = np.where(np.isfinite(self._weights), self._weights, 0.0)
        return float(priced @ inside.sum(axis=1)) if self._apart else 0.0


class _Sums:
    """Sums over shapes by weight, so that the weaker of two weights can be asked for at once.

    `broken`: shapes × nodes, with how many of each shape the bond is broken.
    """

    def __init__(self, weights: Floats, broken: Floats) -> None:
        self._weights = weights
        finite = np.isfinite(weights)
        nothing = np.zeros((1, broken.shape[1]))
        priced = np.where(finite, weights, 0.0)[:, None] * broken
        self._cheaper = np.concatenate([nothing, np.cumsum(priced, axis=0)])
        self._fewer = np.concatenate([nothing, np.cumsum(broken, axis=0)])
        self._musts = broken[~finite].sum(axis=0)

    def asked_by(self, weights: Floats) -> tuple[Floats, Floats]:
        """Musts that are broken, and what the shoulds cost, for members of these weights."""
        upto = np.searchsorted(self._weights, weights, side="right")
        finite = np.isfinite(weights)
        own = np.where(finite, weights, 0.0)[:, None]
        costs = self._cheaper[upto] + own * (self._fewer[-1] - self._fewer[upto])
        musts = np.where(finite[:, None], 0.0, self._musts[None, :])
        return musts, costs
