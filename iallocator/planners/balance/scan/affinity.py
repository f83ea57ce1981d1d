"""Bonds between instances in scans of many moves: where one must not, or should not, run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from iallocator.model.instance import Instance
    from iallocator.planners.balance.move_kinds import MoveKind
    from iallocator.planners.balance.scan.affinity_table import Ties
    from iallocator.planners.balance.scan.node_table import Floats, NodeTable, Whole

    Truths = NDArray[np.bool_]

__all__ = ["MoveBonds"]

NOWHERE = -1


class MoveBonds:
    """The bonds of `instances` (rows) on the nodes of `table` (columns), as the others are now.

    Attributes
    ----------
    barred:
        Where a must forbids an instance to run.
    closed:
        Where it must not come in either role.
    costs:
        What the wishes cost that it would break there.
    """

    def __init__(self, table: NodeTable, instances: Sequence[Instance], ties: Ties) -> None:
        self._table = table
        self._ties = ties
        self._names = [instance.name for instance in instances]
        self._rows_by_other: dict[str, tuple[int, ...]] = {}
        self._same: dict[str, Truths] = {}
        shape = (len(instances), len(table.nodes))
        self.barred: Truths = np.zeros(shape, dtype=bool)
        self.costs: Floats = np.zeros(shape)
        self.closed: Truths = np.zeros(shape, dtype=bool)
        self._staying: Truths = np.zeros(shape, dtype=bool)
        self._close()
        rows_by_other: dict[str, dict[int, None]] = {}
        for row, name in enumerate(self._names):
            for tie in ties.of(name):
                rows_by_other.setdefault(tie.other, {})[row] = None
        self._rows_by_other = {other: tuple(rows) for other, rows in rows_by_other.items()}
        self._homes = {other: self._home(other) for other in self._rows_by_other}
        for row in range(len(instances)):
            self._look_at(row)

    def refresh(self) -> Whole:
        """Look again at those bound to instances that moved; their rows."""
        changed: dict[int, None] = {}
        for other, rows in self._rows_by_other.items():
            home = self._home(other)
            if home != self._homes[other]:
                self._homes[other] = home
                changed |= dict.fromkeys(rows)
        for row in changed:
            self._look_at(row)
        return np.array(list(changed), dtype=np.intp)

    def verdict(
        self, kind: MoveKind, rows: Whole, primary: Whole, secondary: Whole, targets: Whole
    ) -> tuple[Truths, Floats] | None:
        """For moves of `kind` of the instances in `rows`: what is forbidden, what wishes cost.

        Both broadcast to rows × `targets`; None if nothing is.  The cost is the difference to
        the present.  A node that runs an instance only for a while must not be forbidden
        either.
        """
        row = rows[:, None]
        if kind.letters == ("r",):
            closed = self.closed[row, targets[None, :]]
            return (closed, np.zeros(closed.shape)) if closed.any() else None
        on_mirror = secondary[rows][:, None]
        node = on_mirror if kind.letters in (("f",), ("f", "r")) else targets[None, :]
        barred: Truths = self.barred[row, node]
        if kind.mirror_leads:
            barred = barred | self.barred[row, on_mirror]
        if kind.letters == ("f", "r"):
            barred = barred | self.closed[row, targets[None, :]]
        costs: Floats = self.costs[row, node] - self.costs[row, primary[rows][:, None]]
        return barred, costs

    def _close(self) -> None:
        """Note which nodes tags close to whom, and who must stay where it is."""
        position, where = self._table.position, self._table.state.where
        for row, name in enumerate(self._names):
            forbidden = self._ties.forbidden(name)
            self.closed[row, [position[i] for i in forbidden if i in position]] = True
            if self._ties.stays(name):
                self._staying[row] = True
                self._staying[row, position[where[name][0]]] = False

    def _home(self, name: str) -> int:
        return self._table.state.where.get(name, (NOWHERE,))[0]

    def _look_at(self, row: int) -> None:
        barred, costs = self.barred[row], self.costs[row]
        barred[:] = self.closed[row] | self._staying[row]
        costs[:] = 0
        for tie in self._ties.of(self._names[row]):
            home = self._homes[tie.other]
            if home == NOWHERE:
                continue
            same = self._shared(tie.domain)[:, home]
            broken = same if tie.apart else ~same
            if tie.must:
                barred |= broken
            else:
                costs += tie.weight * broken

    def _shared(self, domain: str) -> Truths:
        """Matrix nodes of the table × nodes of the cluster: whether they share a failure domain."""
        found = self._same.get(domain)
        if found is None:
            sites = self._ties.sites[domain]
            numbers: dict[str, int] = {}
            for some in sites:
                for site in sorted(some):
                    numbers.setdefault(site, len(numbers))
            inside = np.zeros((len(sites), len(numbers)), dtype=np.float32)
            for index, some in enumerate(sites):
                inside[index, [numbers[site] for site in some]] = 1
            found = (inside[self._table.nodes] @ inside.T) > 0
            self._same[domain] = found
        return found
