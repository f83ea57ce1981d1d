"""N+1 of one group as a state stands, for those who only ask which failures are survived."""

from __future__ import annotations

from iallocator.n1.simulation import Simulation
from iallocator.n1.tolerance import FailureTolerance
from iallocator.scoring import Kernels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.cluster import Group
    from iallocator.model.state import State
    from iallocator.n1.exact import Loss
    from iallocator.n1.rules import Rules
    from iallocator.n1.tolerance import N1Cache

__all__ = ["first_not_survived", "losses_of", "not_survived", "simulation_of"]


def simulation_of(
    state: State, group: Group, rules: Rules, min_disk: float = 0.0, failures: int = 1
) -> Simulation:
    """What plays failures of nodes of `group` through on `state`, about so many.

    `min_disk` is the share of every node's disk that stays free.
    """
    kernels = _kernels(state, group, min_disk, failures)
    return Simulation(state, kernels, rules, group.nodes)


def not_survived(
    state: State,
    group: Group,
    rules: Rules,
    failing: Sequence[int],
    remembered: N1Cache | None = None,
) -> list[int]:
    """Those of `failing`, nodes of `group`, whose failure could not be survived as `state` is.

    `remembered` is of this state, and of such rules.  Cost: a few sums per node, and a
    simulation for each that those do not decide.
    """
    if not failing:
        return []
    kernels = _kernels(state, group)
    check = FailureTolerance(state, kernels, rules, group.nodes, remembered=remembered)
    saved = set(check.survivable(failing))
    return [index for index in failing if index not in saved]


def first_not_survived(
    state: State,
    group: Group,
    rules: Rules,
    failing: Sequence[int],
    remembered: N1Cache | None = None,
) -> int | None:
    """The first that `not_survived` finds, or None: by exact search none is asked behind it."""
    if not failing:
        return None
    check = FailureTolerance(
        state, _kernels(state, group), rules, group.nodes, remembered=remembered
    )
    return check.first_lost(failing)


def losses_of(state: State, group: Group, rules: Rules, failing: Sequence[int]) -> dict[int, Loss]:
    """What the failure of each of `failing`, nodes of `group`, loses as `state` is."""
    check = FailureTolerance(state, _kernels(state, group), rules, group.nodes)
    return check.losses(failing)


def _kernels(state: State, group: Group, min_disk: float = 0.0, failures: int = 1) -> Kernels:
    return Kernels(state, [(len(group.nodes), 0)] * failures, min_disk, group.nodes)
