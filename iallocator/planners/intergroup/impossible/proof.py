"""Whether sums prove that instances cannot all come to other groups; see `measures`, `arrivals`."""

from __future__ import annotations

from iallocator.deadline import check
from iallocator.planners.intergroup.impossible.arrivals import KINDS, RAM, Arrivals, survived_in
from iallocator.planners.intergroup.impossible.measures import Amount, AtLeast, measures_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.planners.intergroup.impossible.arrivals import Kind
    from iallocator.planners.intergroup.impossible.measures import Measure
    from iallocator.planners.intergroup.moving import Mover

    Targets = Callable[[Instance], Sequence[Group]]
    Reach = frozenset[int]
    """Indices of nodes."""

__all__ = ["Proofs"]

SETS = 30
"""So many sets of nodes are asked, each for those that may go nowhere else."""


class Proofs:
    """Proves that sets of instances cannot all leave, on the state of the context of `mover`.

    What is known of a group is kept until one of its nodes changes.
    """

    def __init__(self, mover: Mover) -> None:
        self._mover = mover
        self._context = mover.context
        self._rooms: dict[int, tuple[int, Arrivals]] = {}

    def against(self, instances: Sequence[Instance], targets: Targets) -> str:
        """Why `instances`, all on the state, cannot all go to groups of their `targets`; or "".

        What is said is proved.  Cost: nodes × sizes of instances, once for each group.
        """
        reachable = self._mover.ranking.reachable
        reaches = [reachable(one, targets(one)) for one in instances]
        rooms = self._rooms_of(instances, frozenset[int]().union(*reaches))
        for reach in sorted(set(reaches), key=len, reverse=True)[:SETS]:
            check()
            bound = [one for one, own in zip(instances, reaches) if own <= reach]
            found = self._short(bound, rooms, reach)
            if found:
                only = len(bound) < len(instances)
                return f"{_whom(bound)} {found}" if only else found
        return ""

    def _rooms_of(self, leaving: Sequence[Instance], reach: Reach) -> list[Arrivals]:
        """What may come to the groups that `reach` is in."""
        state, nodes = self._context.state, self._context.cluster.nodes
        groups = {nodes[index].group.index: nodes[index].group for index in sorted(reach)}
        shared = {nodes[k].group.index for one in leaving for k in state.where[one.name]}
        found = [self._room(g) for g in groups.values() if g.index not in shared]
        mixed = [g for g in groups.values() if g.index in shared]
        solvent = {g.index: self._solvent(g) for g in mixed}
        if mixed:
            with state.trial():
                for one in leaving:
                    state.remove(one, state.where[one.name])
                found += [Arrivals(self._context, g, solvent[g.index], None) for g in mixed]
        return found

    def _room(self, group: Group) -> Arrivals:
        """What may come to a group that nobody leaves."""
        now = sum(self._context.state.revisions[index] for index in group.nodes)
        then, room = self._rooms.get(group.index, (-1, None))
        if room is None or then != now:
            survived = survived_in(self._context, group)
            room = Arrivals(self._context, group, self._solvent(group), survived)
            self._rooms[group.index] = now, room
        return room

    def _solvent(self, group: Group) -> frozenset[int]:
        """The nodes of `group` that have the memory for the failover of each of their peers."""
        state = self._context.state
        return frozenset(index for index in group.nodes if not state.fails_n1(index))

    def _short(self, instances: Sequence[Instance], rooms: Sequence[Arrivals], reach: Reach) -> str:
        """What the nodes of `reach` cannot hold of `instances`, or ""."""
        for number, kind in enumerate(KINDS):
            pieces = self._pieces(kind, instances)
            largest = max((room.largest(number) for room in rooms), default=0)
            if not pieces or largest == float("inf"):
                continue
            for measure in measures_of(pieces, largest):
                wanted = sum(map(measure, pieces))
                have = _less_than(wanted, (room.most(number, measure, reach) for room in rooms))
                if have is not None:
                    kept = kind.name == RAM.name and any(room.keeps for room in rooms)
                    beside = " beside what the failure of a node asks of them" if kept else ""
                    return _in_words(kind, measure, wanted, have, instances) + beside + " (proved)"
        return ""

    def _pieces(self, kind: Kind, instances: Sequence[Instance]) -> list[float]:
        """What has to find room as one; those that must be and are together are one piece."""
        units, where = self._context.units, self._context.state.where
        found: list[float] = []
        together: dict[object, float] = {}
        for one in instances:
            unit = units.get(one.name)
            if unit is None or not kind.of_primary:
                found += kind.pieces(one)
                continue
            key = tuple(unit), where[one.name][0]
            together[key] = together.get(key, 0) + sum(kind.pieces(one))
        return found + [amount for amount in together.values() if amount > 0]


def _less_than(wanted: float, amounts: Iterable[float]) -> float | None:
    """The sum of `amounts`, none of which is negative; None if some of them are enough already."""
    found: list[float] = []
    so_far = 0.0
    for amount in amounts:
        found.append(amount)
        so_far += amount
        if so_far >= wanted:
            return None
    return sum(found)


def _in_words(
    kind: Kind, measure: Measure, wanted: float, have: float, instances: Sequence[Instance]
) -> str:
    """What is proved, in words."""
    unit = kind.unit
    if isinstance(measure, AtLeast):
        size = f"{measure.least:.12g}{unit} {kind.name}"
        large = next(
            (i for i in instances if max(kind.pieces(i), default=0) >= measure.least), None
        )
        if not have and large is not None:
            return f"has {large.name}, and no node of the others may take {size}"
        return f"fills {wanted:.12g} places of {size}, the others have {have:.12g}"
    filled = "" if isinstance(measure, Amount) else " that its pieces could fill"
    return f"uses {wanted:.12g}{unit} {kind.name}, the others have {have:.12g} free{filled}"


def _whom(instances: Sequence[Instance]) -> str:
    more = f" and {len(instances) - 1} more" if len(instances) > 1 else ""
    return f"{instances[0].name}{more}, which may go to few groups only,"
