"""Find the limits of nodes that a placement violates, by a simple calculation."""

from __future__ import annotations

from collections.abc import Iterator

from tests.builders import Json

from .plain import Plain, Resident

__all__ = ["admits", "broken_hard", "broken_soft"]


def broken_hard(plain: Plain, name: str, before: list[str]) -> list[str]:
    """Return the hard limits that the current placement of an instance violates.

    Only nodes with another role than in `before` count, because an instance that stays uses nothing
    new.
    """
    one = plain.now[name]
    found: list[str] = []
    primary = one.nodes[0]
    if before[:1] != [primary] and plain.online(primary):
        if plain.free_memory(primary) <= 0:
            found.append(f"{primary}: no memory left for a primary")
        found += _storage(plain, one, primary)
    for secondary in one.nodes[1:]:
        if before[1:] != [secondary] and plain.online(secondary):
            found += _storage(plain, one, secondary)
    return found


def _storage(plain: Plain, one: Resident, node: str) -> Iterator[str]:
    if not one.local:
        return
    if plain.free_disk(node) <= 0:
        yield f"{node}: no disk left"
    if plain.exclusive(node):
        if one.spindles_unknown:
            yield f"{node}: spindles unknown"
        if plain.free_spindles(node) < 0:
            yield f"{node}: no spindles left"


def broken_soft(plain: Plain, name: str, raw: Json, nodes: list[str]) -> list[str]:
    """Return the soft limits that a new instance would violate on `nodes`."""
    present = plain.now.pop(name, None)
    failing = {node for node in nodes if plain.fails_n1(node)}
    free = {node: (plain.free_memory(node), plain.free_memory_later(node)) for node in nodes}
    tags = {t for one in plain.primaries(nodes[0]) for t in plain.exclusion(one)}
    plain.put(name, raw, nodes)
    one = plain.now[name]
    found = [f"{n}: fails N+1 now" for n in nodes if plain.fails_n1(n) and n not in failing]
    found += _cpus(plain, nodes[0])
    found += [f"{nodes[0]}: {tag} is there already" for tag in plain.exclusion(one) & tags]
    if plain.free_memory_later(nodes[0]) <= 0:
        found.append(f"{nodes[0]}: no memory later")
    found += [f"{n}: no failover" for n in nodes[1:] if one.memory * one.takes_over >= min(free[n])]
    found += [problem for node in nodes for problem in _shared_storage(plain, one, node)]
    plain.take(name)
    if present is not None:
        plain.now[name] = present
    return found


def _cpus(plain: Plain, node: str) -> Iterator[str]:
    most = plain.policy(node)["vcpu-ratio"] * plain.number(node, "total_cpus")
    for later in (False, True):
        if plain.used_cpus(node, later) > most:
            yield f"{node}: more than {most} cpus"


def _shared_storage(plain: Plain, one: Resident, node: str) -> Iterator[str]:
    if not one.local:
        return
    for later in (False, True):
        used, most = plain.used_spindles(node, later), plain.high_spindles(node)
        if not plain.exclusive(node) and used > most:
            yield f"{node}: {used} spindles, {most} allowed"
    if plain.free_disk(node, later=True) <= 0:
        yield f"{node}: no disk later"
    if plain.exclusive(node) and plain.free_spindles(node, later=True) < 0:
        yield f"{node}: no spindles later"


def admits(policy: Json, raw: Json, exclusive: bool) -> bool:
    """Return whether `policy` allows the template and the size of an instance."""
    return raw["disk_template"] in policy["disk-templates"] and any(
        _inside(interval["min"], interval["max"], raw, exclusive) for interval in policy["minmax"]
    )


def _inside(low: Json, high: Json, raw: Json, exclusive: bool) -> bool:
    spindles = [disk.get("spindles") for disk in raw["disks"]]
    if exclusive and None in spindles:
        return False
    sizes = {
        "memory-size": [raw["memory"]],
        "cpu-count": [raw["vcpus"]],
        "spindle-use": [sum(spindles) if exclusive else raw["spindle_use"]],
    }
    if raw["disk_template"] != "diskless":
        sizes["disk-size"] = [disk["size"] for disk in raw["disks"]]
        sizes["disk-count"] = [len(raw["disks"])]
    return all(low[key] <= size <= high[key] for key, found in sizes.items() for size in found)
