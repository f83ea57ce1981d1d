"""In which order instances choose."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from iallocator.model.constraints import Constraint
    from iallocator.model.instance import Instance

__all__ = ["in_order"]


def in_order(
    instances: Sequence[Instance],
    priorities: Mapping[str, int],
    bonds: Callable[[str], Sequence[Constraint]],
    units: Mapping[str, Sequence[str]],
) -> list[Instance]:
    """`instances` by priority, higher first; those after another follow it; else as given.

    Those that must be on one node follow each other, unless something must start between.
    """
    ranked = sorted(instances, key=lambda i: -priorities.get(i.name, 0))
    by_name = {instance.name: instance for instance in instances}
    placed: dict[str, Instance] = {}
    entered: set[str] = set()
    left = {id(unit): iter(unit) for unit in units.values()}
    waiting = [instance.name for instance in reversed(ranked)]
    while waiting:  # a chain may be as long as the list: no recursion
        name = waiting[-1]
        if name not in entered:
            entered.add(name)
            follows = [bond.other for bond in bonds(name)]
        else:
            waiting.pop()
            if name in placed:
                continue
            placed[name] = by_name[name]
            rest = left.get(id(units.get(name)), iter(()))
            follows = [next((n for n in rest if n in by_name and n not in entered), "")]
        waiting += [n for n in reversed(follows) if n in by_name and n not in entered]
    return list(placed.values())
