"""Why steps cannot be done, for people."""

from __future__ import annotations

from iallocator.transition.resources import describe_amount

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.model.cluster import Cluster
    from iallocator.transition.planning.schedule import ScheduleResult
    from iallocator.transition.resources import Key
    from iallocator.transition.step import Step

__all__ = ["reasons"]


def reasons(cluster: Cluster, found: ScheduleResult) -> dict[str, str]:
    """By instance that is left, what its first step lacks, and who holds that."""
    waiting = set(found.left)
    heads: dict[str, Step] = {}
    for step in found.left:
        if step.name and step.name not in heads and not waiting & step.needs.keys():
            heads[step.name] = step
    lacking = {name: _lacks(found, step) for name, step in heads.items()}
    holders_of = _holders(found)
    holders = {
        name: {holder for key in keys for holder in holders_of.get(key, ())} - {name}
        for name, keys in lacking.items()
    }
    told_of: dict[str, str] = {}
    for name, keys in lacking.items():
        if not keys:
            continue
        (node, what), amount = keys[0], heads[name].takes[keys[0]]
        free = max(found.room[node, what], 0)
        needed = describe_amount(what, amount)
        text = f"needs {needed} on {cluster.nodes[node].name}, {free:.12g} free at that moment"
        circle = _circle(name, holders)
        if circle:
            around = " waits for ".join([*circle, circle[0]])
            text += f"; {around}; no way through a third node or with a stop was found"
        elif holders[name]:
            text += f"; {', '.join(sorted(holders[name]))} would have to leave before"
        told_of[name] = text
    for step in found.left:
        if step.name and step.name not in told_of:
            names = sorted({one.name or one.kind for one in step.needs if one in waiting})
            told_of[step.name] = (
                f"waits for {', '.join(names)}, which cannot be done"
                if names
                else "no order of steps was found in which its turn comes"
            )
    return told_of


def _lacks(found: ScheduleResult, step: Step) -> list[Key]:
    room = found.room
    return sorted(key for key, more in step.takes.items() if key in room and room[key] < more)


def _holders(found: ScheduleResult) -> dict[Key, set[str]]:
    """What is held -> who of those left would free it."""
    holders: dict[Key, set[str]] = {}
    for step in found.left:
        for key in step.frees:
            holders.setdefault(key, set()).add(step.name)
    return holders


def _circle(start: str, holders: dict[str, set[str]]) -> list[str]:
    """The shortest way from an instance over those it waits for back to itself."""
    paths = [[start]]
    seen: set[str] = set()
    while paths:
        path = paths.pop(0)
        for name in sorted(holders.get(path[-1], ())):
            if name == start:
                return path
            if name not in seen:
                seen.add(name)
                paths.append([*path, name])
    return []
