"""Write a state in htools' text format; see `iallocator.sources.text` for the fields."""

from __future__ import annotations

from iallocator.errors import UsageError
from iallocator.model.columns import DISK, FREE_SPINDLES, MEMORY_LATER
from iallocator.sources.lines import default_policy, policy_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from iallocator.model.cluster import Cluster, Group, Node
    from iallocator.model.instance import Instance
    from iallocator.model.policy import Policy
    from iallocator.model.state import State

__all__ = ["write_text"]

STATUS_OF_STATE = {"up": "running", "down": "ADMIN_down", "offline": "ADMIN_offline"}


def write_text(
    cluster: Cluster,
    state: State,
    *,
    policy: Policy | None = None,
    masters: Collection[str] = (),
    backwards: bool = False,
    reported: bool = False,
    group: Group | None = None,
) -> str:
    """Return the cluster in `state` as a text file, for which htools compute the scores of `state`.

    Parameters
    ----------
    cluster, state:
        The facts of the cluster, and the placement of its instances.
    policy, masters:
        The policy of the whole cluster, and the names of its master nodes, if known.
    backwards:
        Whether `cluster` was read in the order of hail; then the order of its lists is reversed.
    reported:
        Whether the free memory of nodes is the reported one, and networks have the order of the
        source, as htools write them; otherwise, free memory is computed from `state`.
    group:
        The only group of which nodes and instances are written; None for all.

    Raises
    ------
    UsageError
        If a name contains characters that the format cannot represent.

    Notes
    -----
    The format has the sum of an instance's disks only, one word for all reasons why a node is not
    online, and no name of the cluster.
    """
    step = -1 if backwards else 1
    within = range(len(cluster.nodes)) if group is None else group.nodes
    instances = {name: i for k in within for name, i in state.primaries[k].items()}.values()
    order = sorted(instances, key=lambda instance: instance.order)[::step]
    changed = _changed(cluster, state) if reported else frozenset()
    policies = [policy_line("", policy or default_policy())]
    parts = [
        [
            _line(
                _cell(group.name),
                _cell(group.uuid),
                group.alloc_policy,
                _cells(group.tags),
                _cells(group.listed_networks if reported else sorted(group.networks)),
            )
            for group in cluster.groups
        ],
        [
            _node_line(node, state, node.name in masters, reported, node.index in changed)
            for node in cluster.nodes[::step]
            if node.index in within
        ],
        [_instance_line(instance, cluster, state) for instance in order],
        [_cell(tag, "\n\r") for tag in cluster.tags if tag],
        [*policies, *(policy_line(_cell(g.name), g.policy) for g in cluster.groups)],
    ]
    return "\n".join("".join(line + "\n" for line in part) for part in parts)


def _cell(text: str, forbidden: str = "|\n\r") -> str:
    """Return `text`; raise `UsageError` if the format cannot represent it in a field."""
    if any(char in text for char in forbidden):
        raise UsageError(f"{text!r} cannot be written in htools' text format")
    return text


def _cells(texts: Iterable[str]) -> str:
    return ",".join(_cell(text, "|\n\r,") for text in texts)


def _line(*fields: object) -> str:
    return "|".join(map(str, fields))


def _changed(cluster: Cluster, state: State) -> frozenset[int]:
    """Return the nodes with other instances than initially; htools write no free spindles there."""
    before = {one.name: one.nodes for one in cluster.instances}
    names = before.keys() | state.where.keys()
    moved = [name for name in names if before.get(name, ()) != state.where.get(name, ())]
    places = ((*before.get(name, ()), *state.where.get(name, ())) for name in moved)
    return frozenset(index for nodes in places for index in nodes)


def _node_line(node: Node, state: State, is_master: bool, reported: bool, changed: bool) -> str:
    columns = state.columns
    # What the node would report if all its primaries were running
    sleeping = sum(i.memory for i in state.primaries[node.index].values() if not i.uses_memory)
    free = columns[MEMORY_LATER][node.index] + sleeping - node.lent_memory
    if node.lent_memory:
        free = max(0, free)
    exclusive = node.exclusive_storage
    free_spindles = 0 if changed else node.free_spindles
    return _line(
        _cell(node.name),
        node.total_memory,
        node.reserved_memory,
        int(node.reported_memory if reported else free),
        node.total_disk,
        int(columns[DISK][node.index]),
        node.total_cpus,
        ("M" if is_master else "N") if node.online else "Y",
        _cell(node.group.uuid),
        node.total_spindles if exclusive else node.spindle_count,
        _cells(node.tags),
        _letter(exclusive),
        int(columns[FREE_SPINDLES][node.index]) if exclusive else free_spindles,
        node.reserved_cpus,
        float(node.cpu_speed),
    )


def _instance_line(instance: Instance, cluster: Cluster, state: State) -> str:
    names = cluster.node_names(state.where[instance.name])
    return _line(
        _cell(instance.name),
        instance.memory,
        instance.disk,
        instance.vcpus,
        instance.status_word or STATUS_OF_STATE[instance.admin_state],
        _letter(instance.auto_balance),
        names[0],
        names[1] if len(names) > 1 else "",
        instance.template,
        _cells(instance.tags),
        instance.spindle_use,
        "-" if instance.spindles is None else instance.spindles,
        _letter(instance.forthcoming),
    )


def _letter(value: bool) -> str:
    return "Y" if value else "N"
