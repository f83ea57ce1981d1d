"""The list of instances that ``--print-instances`` shows, with htools' titles.

Memory is in MiB, disk in GiB, loads have no unit.
"""

from __future__ import annotations

from iallocator.names import domains_of
from iallocator.render.states.listing import WIDEST, aligned, decimal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State

__all__ = ["instance_list"]

TITLES = (
    "F", "Name", "Pri_node", "Sec_node", "Auto_bal", "vcpu", "mem", "dsk",
    "lCpu", "lMem", "lDsk", "lNet",
)  # fmt: skip

LEFT = 5
"""How many of the columns have their values to the left."""


def instance_list(state: State, backwards: bool = False, group: Group | None = None) -> str:
    """The instances of `state` as a table, one line each; ``R`` before those that run.

    `backwards`: whether the cluster was read as hail does: its lists then stand backwards, and
    are as wide as those of htools.
    `group`: those with their primary node there only.
    """
    nodes = range(len(state.primaries)) if group is None else group.nodes
    found = [instance for index in nodes for instance in state.primaries[index].values()]
    found.sort(key=lambda instance: instance.order, reverse=backwards)
    domains = (
        []
        if backwards
        else domains_of([node.name for node in state.cluster.nodes], [one.name for one in found])
    )
    rows = [_row(instance, state, domains) for instance in found]
    left = [position < LEFT for position in range(len(TITLES))]
    return aligned(TITLES, rows, left, 0 if backwards else WIDEST)


def _row(instance: Instance, state: State, domains: Sequence[str]) -> list[str]:
    names = [_short(n, domains) for n in state.cluster.node_names(state.where[instance.name])]
    return [
        "R" if instance.admin_state == "up" else " ",
        _short(instance.name, domains),
        names[0],
        names[1] if len(names) > 1 else "",
        "Y" if instance.auto_balance else "N",
        str(instance.vcpus),
        f"{instance.memory:5}",
        f"{instance.disk // 1024:5}",
        *(decimal(load, 3) for load in instance.load),
    ]


def _short(name: str, domains: Sequence[str]) -> str:
    """`name` without the first of `domains` that it ends with."""
    return next((name.removesuffix(end) for end in domains if name.endswith(end)), name)
