"""Where instances go while some nodes are away, and whether they can come back.

What runs on a node that is to be rebooted goes to its mirror, or to the node of its group that the
engine finds best.  The answer holds for a whole set of nodes, by every limit, with the
failures that could be survived before still survivable by those that stay.  Whether an instance
could come back is asked before anything is moved: what stands where its node would not take it
now, stays there.

Sums come first.  What leaves a node stays in its group of nodes, so the nodes of a set, with what
they have free and what leaves them, may together have no more memory than the whole group has free.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from iallocator.deadline import check
from iallocator.limits.migration import may_not_receive
from iallocator.model.columns import MEMORY
from iallocator.model.instance import primary_vector
from iallocator.model.moves import FAILOVER, FAILOVER_TO, REPLACE_SECONDARY, Move
from iallocator.model.tags import new_conflict
from iallocator.model.templates import PLAIN
from iallocator.n1.baseline import Baseline
from iallocator.placement.context import Context
from iallocator.placement.moves import move_anywhere, move_secondary
from iallocator.planners.plan import PlanEntry, mark_colocation_groups
from iallocator.planners.power_state import Switched
from iallocator.planners.reboot.options import IGNORED
from iallocator.tolerances import AMOUNT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from iallocator.aliases import Nodes
    from iallocator.deadline import Deadline
    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.model.moves import ElementaryMove
    from iallocator.options.settings import Settings
    from iallocator.placement.results import MoveResult
    from iallocator.planners.reboot.options import RebootOptions

__all__ = ["Absence", "Away", "Gone", "RebootContext", "Remaining", "Returns", "Room", "way_back"]


class Away:
    """What comes of taking some nodes away.

    Attributes
    ----------
    entries:
        The moves that empty them, in an order in which they can be made.
    reason:
        Why they cannot be away at the same time; "" if they can.
    short:
        The failure that would not be survived meanwhile; "" for none.
    homeless:
        Whether somebody found no place, or none that keeps N+1.
    """

    __slots__ = ("entries", "homeless", "reason", "short")

    def __init__(self) -> None:
        self.entries: list[PlanEntry] = []
        self.reason = ""
        self.short = ""
        self.homeless = False


def way_back(move: Move) -> Move:
    """Return the move that brings an instance back to where `move` found it."""
    steps: list[ElementaryMove]
    if len(move.before) == 1:
        steps = [(FAILOVER_TO, move.before[0])]
    elif move.after == move.before[::-1]:
        steps = [(FAILOVER, move.before[0])]
    elif move.after[0] == move.before[0]:
        steps = [(REPLACE_SECONDARY, move.before[1])]
    else:
        steps = [(REPLACE_SECONDARY, move.before[0]), (FAILOVER, move.before[0])]
    return Move.by_steps(move.instance, move.after, steps)


class Remaining:
    """Looks at what is left; made while everything is as it was, which it compares with."""

    def __init__(self, context: RebootContext, wanted: RebootOptions) -> None:
        self._context = context
        self._wanted = wanted
        self._relations = context.bonds.relations
        self._baselines = [
            Baseline(context.state, group, context.settings.plan_n1(group.index), self._relations)
            for group in context.cluster.groups
            if group.nodes
        ]

    def broken(self, away: Away) -> str:
        """A must that holds before the moves and not after them; or ""."""
        relations, state = self._relations, self._context.state
        if relations is None:
            return ""
        moved: dict[str, int | None] = {
            one.move.instance.name: one.move.before[0] for one in away.entries
        }
        for name, bond in relations.newly_broken(
            moved, state.where, relations.rule_counts(state.where)
        ):
            return f"{name} must be {bond.text}"
        return ""

    def short(self, gone: frozenset[int]) -> str:
        """A failure that those that stay would not survive any more; or ""."""
        if self._wanted.down:
            return ""
        state = self._context.state
        with state.trial():
            self._let_go_of_mirrors(gone)
            if self._wanted.single == IGNORED:
                self._let_go_of_singles()
            for baseline in self._baselines:
                away = gone.intersection(baseline.group.nodes)
                if away and baseline.tolerated:
                    online = baseline.online(state)
                    problem = baseline.problem(state) if len(online) > 1 else ""
                    if len(online) == 1 and len(away) > 1 and self._claims(online[0]):
                        problem = (
                            f"only {self._context.cluster.nodes[online[0]].name} would be left"
                        )
                    if problem:
                        return problem
        return ""

    def _claims(self, index: int) -> bool:
        """Whether anything on a node is to be saved when that fails."""
        here = self._context.state.primaries[index].values()
        return any(one.running and not one.forthcoming for one in here)

    def _let_go_of_singles(self) -> None:
        """Count with nobody who has no secondary."""
        state = self._context.state
        for instances in state.primaries:
            for instance in [one for one in instances.values() if not one.needs_secondary]:
                if not instance.forthcoming:
                    state.remove(instance, state.where[instance.name])

    def _let_go_of_mirrors(self, gone: frozenset[int]) -> None:
        """Count those whose mirror is away as lost with their node: nothing could save them."""
        state = self._context.state
        for index in sorted(gone):
            for instance in list(state.instances_on(index)):
                nodes = state.where[instance.name]
                state.remove(instance, nodes)
                if len(nodes) > 1 and nodes[0] not in gone:
                    state.place(_unsaved(instance), nodes[:1])


def _unsaved(instance: Instance) -> Instance:
    """The same amounts on its primary, and no claim to be saved when that fails."""
    twin = instance.as_template(PLAIN)
    twin.as_primary = primary_vector(instance)
    twin.forthcoming = True
    return twin


class Returns:
    """Answers for one instance at a time, each worked out once."""

    def __init__(self, context: RebootContext, wanted: RebootOptions) -> None:
        self._context = context
        self._wanted = wanted
        self._known: dict[tuple[str, int], str] = {}

    def barred(self, instance: Instance, gone: Collection[int]) -> str:
        """Why it could not come back to that of its nodes which is among `gone`; or ""."""
        left = next(index for index in instance.nodes if index in gone)
        if (instance.name, left) not in self._known:
            found = self._as_primary(instance) or self._as_mirror(instance, left)
            self._known[instance.name, left] = found
        return self._known[instance.name, left]

    def _as_primary(self, instance: Instance) -> str:
        context, home = self._context, instance.nodes[0]
        name = context.cluster.nodes[home].name
        relations = context.bonds.relations
        if relations is not None and relations.binds(instance.name):
            rule_counts = relations.rule_counts(context.state.where)
            if relations.musts_broken(instance.name, home, rule_counts):
                return f"could not come back to {name}, where it breaks a must"
        evaluator = context.evaluator(context.cluster.nodes[home].group)
        with context.state.trial():
            context.state.remove(instance, instance.nodes)
            takes = evaluator.for_steps().takes_primary(instance, home)
        return "" if takes else f"could not come back to {name}, which lacks the room for it"

    def _as_mirror(self, instance: Instance, left: int) -> str:
        """Who loses a half gets it back as its mirror, whichever half it was."""
        if not instance.needs_secondary or not self._wanted.evacuate or len(instance.nodes) < 2:
            return ""
        context = self._context
        other = next(index for index in instance.nodes if index != left)
        evaluator = context.evaluator(context.cluster.nodes[left].group).for_steps()
        with context.state.trial():
            context.state.remove(instance, instance.nodes)
            found = evaluator.candidates(instance, "mirror", (other, left), [left])
        if found.feasible:
            return ""
        name, why = context.cluster.nodes[left].name, ", ".join(sorted(found.failures))
        return f"could not come back to {name}: {why}"


class Room:
    """The memory of `context`'s nodes; `leaves` says whether an instance leaves a node's group.

    No limit but memory is looked at, and no failure: what is rejected here is impossible.
    """

    def __init__(self, context: Context, leaves: Callable[[Instance, int], bool]) -> None:
        state = context.state
        self._group = [node.group.index for node in context.cluster.nodes]
        self._free: dict[int, float] = {}
        self._need = [0.0] * len(self._group)
        for node in context.cluster.nodes:
            free = max(0.0, state.columns[MEMORY][node.index]) if node.online else 0.0
            self._free[node.group.index] = self._free.get(node.group.index, 0.0) + free
            leaving = [one for one in state.instances_on(node.index) if leaves(one, node.index)]
            self._need[node.index] = free + sum(one.memory for one in leaving)

    def lacks(self, gone: Collection[int]) -> bool:
        """Whether the others cannot hold what leaves the nodes `gone`."""
        return any(need > self._free[group] for group, need in self._needs(gone).items())

    def fewest(self, nodes: Collection[int]) -> int:
        """No fewer sets than this have all of `nodes` in one of them that can be away."""
        needs = self._needs(nodes)
        parts = [need / self._free[group] for group, need in needs.items() if self._free[group]]
        return max((ceil(part - AMOUNT) for part in parts), default=0)

    def _needs(self, nodes: Collection[int]) -> dict[int, float]:
        """Group -> what those of `nodes` in it have free, and what leaves them."""
        found: dict[int, float] = {}
        for index in nodes:
            found[self._group[index]] = found.get(self._group[index], 0.0) + self._need[index]
        return found


MOVES = 20
"""How many instances the choice between the two forms of the kernel counts with."""


class RebootContext(Context):
    """A context that can forget what it knows of nodes that are online."""

    __slots__ = ()

    def __init__(
        self, cluster: Cluster, settings: Settings, deadline: Deadline | None = None
    ) -> None:
        super().__init__(cluster, settings, [(len(cluster.nodes), 0)] * MOVES, deadline=deadline)

    def forget(self) -> None:
        """Other nodes are online than before: what was derived from that is made anew."""
        self._scopes.clear()
        self._evaluators.clear()
        self._rules.clear()
        self._failure_caches.clear()


class Gone:
    """A ``with`` block in which the nodes `gone` are offline, at whose end all is as before it."""

    __slots__ = ("_context", "_switched", "_trial")

    def __init__(self, context: RebootContext, gone: Collection[int]) -> None:
        self._context = context
        self._switched = Switched(context.cluster, off=gone)
        self._trial = context.state.trial()

    def __enter__(self) -> None:
        self._switched.__enter__()
        self._trial.__enter__()
        self._context.forget()

    def __exit__(self, *_: object) -> None:
        self._trial.__exit__(None, None, None)
        self._switched.__exit__()
        self._context.forget()


FEW = 40
"""Of no more moves than this each is held to N+1, where that helps."""


class Manner(NamedTuple):
    """How places are chosen, of those that the limits leave.

    ``tight``: not the best but the fullest node, so that large ones find room later;
    ``careful``: every move is held to N+1, which is dear and seldom needed.
    """

    tight: bool
    careful: bool


class Absence:
    """Answers for sets of nodes, each asked from the beginning; the state stays as it is.

    `deadline` is the context's.
    """

    def __init__(self, context: RebootContext, wanted: RebootOptions) -> None:
        self._context = context
        self.deadline = context.deadline
        self._wanted = wanted
        self._relations = context.bonds.relations
        self._returns = Returns(context, wanted)
        self._manner = Manner(False, False)
        self._remaining = Remaining(context, wanted)
        self._room = Room(context, self._leaves_disks)

    def of(self, gone: Collection[int]) -> Away:
        """What comes of taking the nodes `gone` away together."""
        check()
        gone = frozenset(gone)
        if len(gone) > 1 and self._room.lacks(gone):
            away = Away()
            away.reason = "the nodes that stay have less memory than what leaves"
            return away
        away = self._tried(gone, Manner(False, False))
        for manner in (Manner(True, False), Manner(False, True), Manner(True, True)):
            if manner.careful and len(away.entries) > FEW:
                continue
            if away.short if manner.careful else away.homeless:
                away = self._tried(gone, manner)
        away.reason = away.reason or away.short
        return away

    def fewest(self, nodes: Collection[int]) -> int:
        """All of `nodes` can be away in no fewer sets than this, one after the other."""
        return self._room.fewest(nodes)

    def _tried(self, gone: frozenset[int], manner: Manner) -> Away:
        away = Away()
        self._manner = manner
        with Gone(self._context, gone):
            away.reason = self._emptied(gone, away)
            away.short = "" if away.reason else self._remaining.short(gone)
        return away

    # Who leaves

    def _leaving(self, gone: Collection[int]) -> list[Instance]:
        """Those that leave the nodes `gone`: those with a mirror first, then the largest."""
        state, found = self._context.state, {}
        for index in sorted(gone):
            for instance in state.instances_on(index):
                if self._leaves(instance, index):
                    found[instance.name] = instance
        return sorted(
            found.values(), key=lambda i: (not i.needs_secondary, -i.memory, -i.disk, i.name)
        )

    def _leaves(self, instance: Instance, index: int) -> bool:
        """Whether `instance` has to leave its node `index`."""
        if instance.forthcoming:
            return False
        if instance.needs_secondary and self._wanted.evacuate:
            return True
        if self._wanted.down or not instance.running:
            return False
        if self._context.state.where[instance.name][0] != index:
            return False
        return instance.needs_secondary or self._wanted.single != IGNORED

    def _leaves_disks(self, instance: Instance, index: int) -> bool:
        """Whether `instance` leaves its node `index` for one of which nothing is known yet."""
        return not instance.needs_secondary and self._leaves(instance, index)

    def _units(self, leaving: Sequence[Instance]) -> Iterator[list[Instance]]:
        """`leaving`, those that must be on one node together where the first of them stands."""
        bound = {} if self._relations is None else self._relations.units()
        names = {instance.name: instance for instance in leaving}
        done: set[str] = set()
        for instance in leaving:
            if instance.name not in done:
                unit = [names[n] for n in bound.get(instance.name, [instance.name]) if n in names]
                done.update(one.name for one in unit)
                yield unit

    # Where they go

    def _emptied(self, gone: frozenset[int], away: Away) -> str:
        """Move everybody away; why that cannot be, or ""."""
        leaving = self._leaving(gone)
        for instance in leaving:
            reason = self._staying(instance) or self._returns.barred(instance, gone)
            if reason:
                return f"{instance.name} {reason}"
        for unit in self._units(leaving):
            reason = self._moved(unit, gone, away)
            if reason:
                return reason
        groups = {} if self._relations is None else self._relations.units()
        mark_colocation_groups(away.entries, groups)
        return self._remaining.broken(away)

    def _staying(self, instance: Instance) -> str:
        """Why it cannot leave its node at all; or ""."""
        relations = self._relations
        if relations is not None and instance.name in relations.stuck:
            return "cannot be stopped, and must not be by force"
        runs_on = relations is not None and instance.name in relations.keep_running
        if runs_on and not instance.kind.migrates:
            return "is to keep running, and would be stopped to be moved"
        if instance.needs_secondary and len(instance.nodes) < 2:
            return "has no secondary"
        return ""

    def _moved(self, unit: Sequence[Instance], gone: frozenset[int], away: Away) -> str:
        """Move those of `unit`, which must be together; why that cannot be, or ""."""
        state = self._context.state
        homes = {instance.name: state.where[instance.name] for instance in unit}
        for instance in unit:
            state.remove(instance, homes[instance.name])
        for instance in unit:
            before = homes[instance.name]
            state.place(instance, before)
            steps, reason = self._way(instance, before, gone, away)
            if reason:
                return f"{instance.name} {reason}"
            move = Move.by_steps(instance, before, steps)
            move.apply(state)
            away.entries.append(PlanEntry(move))
        return ""

    def _way(
        self, instance: Instance, before: Nodes, gone: frozenset[int], away: Away
    ) -> tuple[list[ElementaryMove], str]:
        """The steps off the nodes `gone`, or why there are none."""
        if not instance.needs_secondary:
            return self._elsewhere(instance, before, gone, away)
        steps: list[ElementaryMove] = []
        with self._context.state.trial():
            if before[0] in gone:
                reason = self._no_failover(instance, before)
                if reason:
                    return [], reason
                steps.append((FAILOVER, before[1]))
                Move(instance, before, before[::-1]).apply(self._context.state)
            if self._wanted.evacuate:
                more, reason = self._other_mirror(instance, gone, away)
                return [*steps, *more], reason
        return steps, ""

    def _elsewhere(
        self, instance: Instance, before: Nodes, gone: frozenset[int], away: Away
    ) -> tuple[list[ElementaryMove], str]:
        """To the best node of the group that its instance can also come back from."""
        context, home = self._context, before[0]
        evaluator = context.evaluator(context.cluster.nodes[home].group).with_normal_limits()
        targets = [
            index
            for index in evaluator.online_nodes()
            if not may_not_receive(context.cluster, index, [home])
        ]

        def best(moved: Instance, targets: Sequence[int]) -> tuple[list[ElementaryMove], str]:
            return self._best(
                moved,
                targets,
                gone,
                away,
                lambda some: move_anywhere(context, evaluator, moved, some, names_others=False),
            )

        steps, reason = best(instance, targets)
        tags = set(instance.exclusion)
        companions = [other for other in context.cluster.instances if other.nodes[:1] == (home,)]
        if steps or not any(
            tags.intersection(other.exclusion) for other in companions if other is not instance
        ):
            return steps, reason
        # The instance already shares an exclusion tag at home: it may share it elsewhere with the
        # same instances, but with no others.
        primaries = context.state.primaries
        apart = [i for i in targets if not new_conflict(instance, primaries[i].values())]
        untagged = instance.twin(instance.name, instance.order)
        untagged.exclusion = ()
        with context.state.trial():
            context.state.remove(instance, before)
            context.state.place(untagged, before)
            away.homeless = False
            steps, _ = best(untagged, apart)
        return steps, "" if steps else reason

    def _other_mirror(
        self, instance: Instance, gone: frozenset[int], away: Away
    ) -> tuple[list[ElementaryMove], str]:
        """Another secondary for one whose secondary is to be away."""
        context = self._context
        present = context.state.where[instance.name]
        evaluator = context.evaluator(context.cluster.nodes[present[0]].group).with_normal_limits()
        return self._best(
            instance,
            evaluator.online_nodes(),
            gone,
            away,
            lambda some: move_secondary(context, evaluator, instance, some),
        )

    def _best(
        self,
        instance: Instance,
        targets: Sequence[int],
        gone: frozenset[int],
        away: Away,
        ask: Callable[[Sequence[int]], MoveResult],
    ) -> tuple[list[ElementaryMove], str]:
        """The best of `targets`, or why there is none; if need be, the best that keeps N+1."""
        short, left = "", list(targets)
        fitting: list[tuple[float, Move]] = []
        while left and (found := ask(left)).best is not None:
            move = found.best
            left.remove(move.after[-1])
            short = self._short_after(move, gone) if self._manner.careful else ""
            if not short:
                fitting.append((self._left(move.after[-1]), move))
                if not self._manner.tight:
                    break
        if fitting:
            return list(min(fitting, key=lambda one: one[0])[1].steps), ""
        away.homeless = True
        return [], short or f"has no other place: {ask(list(targets)).message}"

    def _left(self, index: int) -> float:
        """MiB of memory that a node has left beyond what it reserves."""
        state = self._context.state
        return state.columns[MEMORY][index] - state.reserved[index]

    def _short_after(self, move: Move, gone: frozenset[int]) -> str:
        """The failure that would not be survived after `move`; "" for none."""
        with self._context.state.trial():
            move.apply(self._context.state)
            problem = self._remaining.short(gone)
        return f"has no other place: {problem}" if problem else ""

    def _no_failover(self, instance: Instance, before: Nodes) -> str:
        """Why it cannot run at its mirror, where soft limits but exclusion tags give way; or ""."""
        context, (home, mirror) = self._context, before
        node = context.cluster.nodes[mirror]
        if not node.online:
            return f"cannot fail over to {node.name}, which is not online"
        if may_not_receive(context.cluster, mirror, [home]):
            return f"could not come back from {node.name}: migration tags"
        rejection = context.evaluator(node.group).check(
            Move(instance, before, (mirror, home)), n1=False
        )
        if rejection is not None:
            return f"cannot fail over to {node.name}: {rejection.text}"
        other = new_conflict(instance, context.state.primaries[mirror].values())
        return (
            f"cannot fail over to {node.name}: {other} has the same exclusion tag" if other else ""
        )
