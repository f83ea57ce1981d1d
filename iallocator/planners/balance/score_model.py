"""Model the nodes of a group without the movable roles of instances, for bounds of the score."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np

from iallocator.constraints.table import closed_nodes
from iallocator.deadline import check
from iallocator.limits.node import FORCED_LIMITS, PRIMARY, SECONDARY, checks_for
from iallocator.model.columns import COLUMNS
from iallocator.model.node_view import NodeView, after_primary, after_secondary
from iallocator.planners.balance.move_kinds import MOVE_KINDS
from iallocator.scoring.arrays import capacity_matrix
from iallocator.scoring.metrics import STATISTICS, terms
from iallocator.scoring.scalar import kernel_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from iallocator.aliases import Floats
    from iallocator.limits.node import RoleLimits
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.planners.balance.plan_builder import BalanceProblem

    Bools = Any  # an array of booleans

__all__ = ["UNLINEAR", "MovableRole", "ScoreModel"]

UNLINEAR = frozenset({"reserved", "fails_n1", "conflicts", "misplaced", "domain_conflicts"})
"""Amounts of a node that are no sums over its instances. No arriving instance lowers them."""


class MovableRole:
    """The primary or the secondary role of an instance, which may move to another node.

    Attributes
    ----------
    instance, primary:
        The instance, and whether the role is its primary.
    vector:
        The amounts that the role adds to each column of a node.
    present:
        The index of its present node.
    allowed:
        For each online node of the scope, whether the role may be there.
    """

    __slots__ = ("allowed", "instance", "present", "primary", "vector")

    def __init__(self, instance: Instance, primary: bool, present: int, allowed: Bools) -> None:
        self.instance = instance
        self.primary = primary
        self.vector = instance.as_primary if primary else instance.as_secondary
        self.present = present
        self.allowed = allowed


class ScoreModel:
    """The nodes of a group without the roles of instances that can move.

    Attributes
    ----------
    state:
        The state with all instances.
    scope, online:
        The indices of the nodes of the group, and of its online nodes.
    place:
        Index of a node -> its position in `online`.
    capacities:
        Capacities × online nodes.
    mobile:
        The instances that can move, each with its roles that can move: 0 primary, 1 secondary.
    parts:
        For each instance of `mobile`, its movable roles for which an online node is allowed.
    rows:
        Columns × online nodes: the amounts of the nodes without `parts`.
    """

    def __init__(self, problem: BalanceProblem, state: State) -> None:
        self._problem = problem
        self.state = state
        nodes = state.cluster.nodes
        self.scope = sorted(problem.scope)
        self.online = [index for index in self.scope if nodes[index].online]
        self.place = {index: k for k, index in enumerate(self.online)}
        self.capacities = capacity_matrix([problem.fixed[index] for index in self.online])
        free = [(one, self._free_roles(one)) for one in problem.instances]
        self.mobile = [(one, roles) for one, roles in free if roles]
        self.rows = np.array([state.row(index) for index in self.online], dtype=np.float64)
        self.rows = self.rows.reshape(-1, len(COLUMNS)).T.copy()
        for instance, roles in self.mobile:
            present = state.where[instance.name]
            for role in roles:
                self._add(_vector(instance, role), present[role], -1)
        self.parts: list[list[MovableRole]] = []
        self._fits: dict[tuple[object, ...], Bools] = {}
        for instance, roles in self.mobile:
            check()
            self.parts.append([*self._parts_of(instance, roles)])

    def _add(self, vector: Sequence[float], index: int, sign: int) -> None:
        if index in self.place:
            self.rows[:, self.place[index]] += sign * np.array(vector, dtype=np.float64)

    def _at(self, nodes: Iterable[int]) -> Bools:
        """Return for each online node whether it is one of `nodes`."""
        mask: Bools = np.zeros(len(self.online), dtype=bool)
        mask[[self.place[index] for index in nodes if index in self.place]] = True
        return mask

    def _free_roles(self, instance: Instance) -> Sequence[int]:
        """Return the roles of an instance that may move to another node: 0 primary, 1 secondary."""
        nodes, rules = self.state.cluster.nodes, self._problem.rules
        present = [nodes[index] for index in self.state.where[instance.name]]
        if len(present) == 1:
            may = rules.instance_moves and not (rules.evacuate_only and present[0].online)
            return (0,) if may else ()
        if not any(rules.allows_of(kind, *present) for kind in MOVE_KINDS if kind.drbd):
            return ()
        return (0, 1) if rules.instance_moves else (1,)

    def _parts_of(self, instance: Instance, roles: Sequence[int]) -> Iterator[MovableRole]:
        """Yield the movable `roles` of an instance; a role that no online node accepts stays."""
        present = self.state.where[instance.name]
        here = self._at(present)
        closed: Bools = np.zeros(len(self.online), dtype=bool)
        if instance.restricted:
            closed = self._at(closed_nodes(self.state.cluster, self.online, instance))
        for role in roles:
            if len(roles) == 2 and not self._problem.rules.disk_moves:
                allowed = here
            else:
                key = (role, instance.as_primary, instance.as_secondary, instance.template,
                       instance.counts_disk, instance.memory, instance.takeover_memory)  # fmt: skip
                if key not in self._fits:
                    before = self.view()
                    after = (
                        after_primary(before, instance)
                        if role == 0
                        else after_secondary(before, instance, 0, np.maximum)
                    )
                    limits: RoleLimits = PRIMARY if role == 0 else SECONDARY
                    fits = np.ones(len(self.online), dtype=bool)
                    for one in checks_for(limits, instance, FORCED_LIMITS):
                        if one.lacks.resource is not None and not one.access:
                            fits &= ~np.asarray(one.fails(before, after, instance), dtype=bool)
                    self._fits[key] = fits
                allowed = (self._fits[key] & ~closed) | here
            if len(roles) == 1 and len(present) == 2:  # the primary stays, and is no secondary
                allowed = allowed & ~self._at(present[:1])
            if allowed.any():
                yield MovableRole(instance, role == 0, present[role], allowed)
            else:
                self._add(_vector(instance, role), present[role], 1)

    def present(self, instance: Instance) -> tuple[int, ...]:
        """Return the present nodes of an instance, primary first."""
        return self.state.where[instance.name]

    def present_rows(self) -> Floats:
        """Return the present amounts, columns × online nodes."""
        return np.array([self.state.row(index) for index in self.online], dtype=np.float64).T

    def fixed_peers(self) -> Floats:
        """Return the MiB that each online node reserves for the failure of each node in `scope`.

        The array has a row for each online node, and a column for each node in `scope`. Instances
        that can move are left out.
        """
        peers = np.zeros((len(self.online), len(self.scope)))
        with self.without_parts() as state:
            for k, index in enumerate(self.online):
                for peer, memory in state.peers[index].items():
                    if peer in self.scope:
                        peers[k, self.scope.index(peer)] = memory
        return peers

    def view(self, rows: Floats | None = None) -> NodeView:
        """Return a view of the online nodes with amounts `rows`; None: without movable roles."""
        zero = np.zeros(len(self.online))
        return NodeView([*(self.rows if rows is None else rows)], [*self.capacities], zero)

    def fixed_sums(self) -> list[float]:
        """Return for each statistic that is a sum its lowest possible weighted term.

        The terms have the amounts of the instances that cannot move, and the least amount of each
        movable role. Statistics that are deviations have 0.
        """
        stay = [  # the roles that cannot move, of instances with another role that can
            (_vector(instance, role), index)
            for (instance, _), parts in zip(self.mobile, self.parts)
            for role, index in enumerate(self.state.where[instance.name])
            if parts and not any(part.primary == (role == 0) for part in parts)
        ]
        with self.without_parts() as state:
            kernel = kernel_of(state, self._problem.scope)
            sums = terms(kernel.totals, (), lambda variance: 0.0)
        for vector, index in stay:
            for k, value in enumerate(self.added(vector, index)):
                sums[k] += value
        for k, statistic in enumerate(STATISTICS):
            if not statistic.spread and not statistic.reads & UNLINEAR and not statistic.offline:
                sums[k] += sum(
                    min(self.added(part.vector, index)[k] for index in self.targets(part))
                    for parts in self.parts
                    for part in parts
                )
        return sums

    @contextmanager
    def without_parts(self) -> Iterator[State]:
        """Return a ``with`` block in which the state lacks the instances with movable roles."""
        state = self.state
        with state.trial():
            for parts in self.parts:
                if parts:
                    state.remove(parts[0].instance, state.where[parts[0].instance.name])
            yield state

    def targets(self, part: MovableRole) -> list[int]:
        """Return the possible nodes of a role: the allowed online nodes, and its present node."""
        return [*(index for index, may in zip(self.online, part.allowed) if may), part.present]

    def added(self, vector: Sequence[float], index: int) -> list[float]:
        """Return for each statistic that is a sum what `vector` on node `index` adds to its term.

        Other statistics have 0. The terms are weighted.
        """
        nothing = [0.0] * len(COLUMNS)
        fixed = self._problem.fixed[index]
        online = self.state.cluster.nodes[index].online
        changes = []
        for statistic in STATISTICS:
            if statistic.spread or statistic.offline == online or statistic.reads & UNLINEAR:
                changes.append(0.0)
                continue
            values = [statistic.value(NodeView(one, fixed, 0.0)) for one in (vector, nothing)]
            changes.append(statistic.weight * (values[0] - values[1]))
        return changes

    def hides_spindles(self) -> bool:
        """Return whether amounts of spindles are no sums over instances; see `Holdings`."""
        nodes = self.state.cluster.nodes
        return any(one.hides_spindles for one, _ in self.mobile) and any(
            nodes[index].exclusive_storage for index in self.online
        )


def _vector(instance: Instance, role: int) -> tuple[float, ...]:
    """Return the amounts that an instance adds to its primary (role 0) or secondary (role 1)."""
    return instance.as_secondary if role else instance.as_primary
