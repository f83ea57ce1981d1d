"""Balance the load of groups that share storage pools: local search, from busy to idle groups.

Each step moves one instance, or one colocation group, to another group with access to its storage
pools.  Pairs of groups are tried in the order of the difference of their loads, the largest first,
from the more to the less loaded group.  If no such move lowers the score, moves in the other
direction are tried: the sum of the loads does not show how unevenly each kind of load is spread.
The step uses the first pair with a move that lowers the score, and makes the move of this pair that
lowers the score most.  The score is the spread of the loads relative to capacity, added up over the
kinds of load; lower is better.  A move must lower the score by more than it raises the penalties of
node scores and stickiness.
"""

from __future__ import annotations

from math import sqrt

from iallocator.deadline import TIME_IS_UP, Stopped, check
from iallocator.errors import many
from iallocator.model.columns import CPU_LOAD, NET_LOAD
from iallocator.model.moves import traffic
from iallocator.planners.intergroup.context import IntergroupResult, Peers, forbidden
from iallocator.planners.intergroup.evacuation import evacuate
from iallocator.planners.intergroup.moving import Mover
from iallocator.planners.plan import ends_of_colocation_groups
from iallocator.planners.plan_limits import length_reached
from iallocator.planners.search import (
    LOCAL_OPTIMUM,
    STALLED,
    Acceptance,
    LocalSearch,
    Neighbourhood,
)
from iallocator.tolerances import SCORE_DECIMALS, SCORE_TOLERANCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.planners.intergroup.context import IntergroupContext
    from iallocator.planners.plan import PlanEntry
    from iallocator.planners.result import PlanResult
    from iallocator.planners.search import Objective

__all__ = ["LOAD_KINDS", "Bounds", "Loads", "balance_groups", "check_group_balance"]

if TYPE_CHECKING:
    Load = Sequence[float]


LOAD_KINDS = ("cpu", "memory", "disk", "net")
"""The kinds of dynamic utilisation, in the order of their columns."""


class Loads:
    """The loads of several groups, relative to the average load of all these groups.

    The load of a group is the sum of the dynamic utilisation of its instances.  Each kind is
    divided by the capacity of the group: cpus times their speed, memory, disk, or the number of
    nodes for the net.  This ratio is divided by the ratio of all groups together: 1 is the average,
    2 is twice as loaded.  So kinds of load have no units, and can be added.

    If a group has no disks of its own, the capacity for disk load is the number of nodes.  Offline
    nodes have no load.  Nodes that accept no more instances have load, but no capacity.  A kind
    without any load or capacity is 0 in all groups.

    Attributes
    ----------
    groups:
        The groups.
    relative:
        For each group, in the order given, one relative load for each kind of `LOAD_KINDS`.
    """

    __slots__ = ("_centres", "_factors", "_squares", "groups", "relative")

    def __init__(self, state: State, groups: Sequence[Group]) -> None:
        self.groups = list(groups)
        every = state.cluster.nodes
        have_disks = all(any(every[i].total_disk for i in g.nodes) for g in groups)
        capacities: list[list[float]] = []  # of each group, of cpus, memory, disk and network
        loads: list[list[float]] = []
        for group in groups:
            nodes = [every[i] for i in group.nodes if every[i].online]
            disks = [node.total_disk if have_disks else 1.0 for node in nodes]
            capacities.append(
                [
                    sum(node.total_cpus * node.cpu_speed for node in nodes),
                    float(sum(node.total_memory for node in nodes)),
                    float(sum(disks)),
                    float(len(nodes)),
                ]
            )
            up = [i for i in group.nodes if not every[i].offline]
            columns = state.columns[CPU_LOAD : NET_LOAD + 1]
            loads.append([float(sum(column[i] for i in up)) for column in columns])
        means = [
            sum(column) / sum(size) if sum(size) else 0.0
            for column, size in zip(zip(*loads), zip(*capacities))
        ]
        self._factors = [
            [1 / (size * mean) if size * mean > 0 else 0.0 for size, mean in zip(sizes, means)]
            for sizes in capacities
        ]
        self.relative = [
            [amount * factor for amount, factor in zip(amounts, factors)]
            for amounts, factors in zip(loads, self._factors)
        ]
        self._centres: list[float] = []
        self._squares: list[float] = []
        self._sum_up()

    def _sum_up(self) -> None:
        columns = list(zip(*self.relative)) or [()] * len(LOAD_KINDS)
        self._centres = [sum(column) / (len(column) or 1) for column in columns]
        self._squares = [
            sum((x - centre) ** 2 for x in column) for column, centre in zip(columns, self._centres)
        ]

    def score(self) -> float:
        """Return the sum over the kinds of load of their standard deviation over the groups."""
        return sum(sqrt(square / (len(self.groups) or 1)) for square in self._squares)

    def of(self, position: int) -> float:
        """Return the relative load of the group at `position`, added over the kinds of load."""
        return sum(self.relative[position])

    def score_after(self, load: Load, source: int, target: int) -> float:
        """Return the score after an instance with `load` has moved between two groups.

        `source` and `target` are positions in `groups`.
        """
        score, count = 0.0, len(self.groups)
        for k, (amount, centre) in enumerate(zip(load, self._centres)):
            old, new = self.relative[source][k] - centre, self.relative[target][k] - centre
            less = old - amount * self._factors[source][k]
            more = new + amount * self._factors[target][k]
            mean = (less + more - old - new) / count
            square = self._squares[k] - old * old - new * new + less * less + more * more
            score += sqrt(max(0.0, square / count - mean * mean))
        return score

    def move(self, load: Load, source: int, target: int) -> None:
        """Move an instance with `load` from the group at `source` to the group at `target`."""
        for k, amount in enumerate(load):
            self.relative[source][k] -= amount * self._factors[source][k]
            self.relative[target][k] += amount * self._factors[target][k]
        self._sum_up()


if TYPE_CHECKING:
    Usage = tuple[float, float, float, float]


SIZES_TRIED = 8
"""The largest number of different kinds of instances tried for a step between two groups."""


class Bounds:
    """The limits of a plan.

    Attributes
    ----------
    max_length:
        The maximum number of moves; None: any number.
    cost:
        The maximum amount to copy, in MiB; None: any amount.
    min_gain:
        By how much each step must lower the score at least.
    group:
        Each move must leave or enter this group; None: any group.
    """

    __slots__ = ("cost", "group", "max_length", "min_gain")

    def __init__(
        self,
        max_length: int | None = None,
        cost: float | None = None,
        min_gain: float = 0.0,
        group: Group | None = None,
    ) -> None:
        self.max_length = max_length
        self.cost = cost
        self.min_gain = min_gain
        self.group = group


class _Item:
    """An instance or a colocation group that moves as a whole.

    Attributes
    ----------
    members:
        Its instances.
    load:
        The sum of their loads: cpu, memory, disk and net.
    copied:
        The MiB that a move of all of them copies.
    name, order:
        The name of its first member, and the position of this member in the document.
    """

    __slots__ = ("copied", "load", "members", "name", "order")

    def __init__(self, members: Sequence[Instance]) -> None:
        self.members = members
        self.name = members[0].name
        self.order = members[0].order
        cpu, memory, disk, net = map(sum, zip(*(one.load for one in members)))
        self.load: Usage = (cpu, memory, disk, net)
        self.copied = sum(traffic(one, ["fa"]) for one in members)

    @property
    def names(self) -> list[str]:
        """Return the names of the instances of this item."""
        return [one.name for one in self.members]

    @property
    def shape(self) -> tuple[object, ...]:
        """Return the attributes of the item that decide on which nodes its instances may be."""
        return tuple(
            (one.as_primary, one.pools, one.requires, one.template) for one in self.members
        )


class _Step:
    """The moves of an item from the group at position `source` to the group at `target`."""

    __slots__ = ("_entries", "_item", "_source", "_target")

    def __init__(self, item: _Item, entries: Sequence[PlanEntry], source: int, target: int) -> None:
        self._item = item
        self._entries = entries
        self._source = source
        self._target = target

    def apply(self, state: _Balancing) -> None:
        """Move instances from one group to another in `state`, and add the moves to the plan."""
        source, target, entries = self._source, self._target, self._entries
        for entry in entries:
            entry.move.apply(state.context.state)
            state.loads.move(entry.move.instance.load, source, target)
            entry.score = state.loads.score()
            state.copied += entry.move.copied
        state.done.add(entries)
        item, name = self._item, self._item.name
        alike = state.movable[source][item.load]
        del alike[name]
        if not alike:
            del state.movable[source][item.load]
        state.movable[target].setdefault(item.load, {})[name] = item
        state.flows[source][0] += len(entries)
        state.flows[target][1] += len(entries)
        state.blocked = {(name, to) for name, to in state.blocked if to != source}
        plan = state.done.plan
        state.context.progress(f"{many(len(plan.entries), 'move')}, score {plan.after:.4f}")


def balance_groups(context: IntergroupContext, bounds: Bounds) -> IntergroupResult:
    """Return a plan that balances the loads of the groups.

    If a signal or the time limit ends the search, the plan has the moves found until then.
    """
    done = IntergroupResult("balance-groups", context)
    done.fill(_Balancing(context, bounds, done))
    return done


class _Balancing:
    """A search that balances the groups; it has the plan so far and the state after it.

    Attributes
    ----------
    movable:
        For each group, load -> name -> item with this load, for the items that may leave the group.
    """

    def __init__(self, context: IntergroupContext, bounds: Bounds, done: IntergroupResult) -> None:
        self.context = context
        self.mover = Mover(context)
        self.peers = Peers(context.cluster)
        self.bounds = bounds
        self.done = done
        self.groups = [row.group for row in done.groups if self.peers.shared_by(row.group, True)]
        self.loads = Loads(context.state, self.groups)
        self.first = Loads(context.state, self.groups)
        done.plan.before = self.loads.score()
        self.copied = 0.0
        self.blocked: set[tuple[str, int]] = set()
        self.rejected: dict[int, str] = {}
        self.flows = [[0, 0] for _ in self.groups]
        self.movable = [self._movable(group) for group in self.groups]
        self.why = ""

    def _movable(self, group: Group) -> dict[Usage, dict[str, _Item]]:
        """Return the items that may leave `group`, by their load and their name.

        Instances must be on shared storage and auto-balanced.  Instances on offline nodes carry
        no load; other commands repair them.  A colocation group may be moved if all members may.
        """
        state, nodes = self.context.state, self.context.cluster.nodes
        up = [index for index in group.nodes if not nodes[index].offline]
        primaries = [i for index in up for i in state.primaries[index].values()]
        primaries.sort(key=lambda i: i.order)
        free = [
            i for i in primaries if i.external and i.auto_balance and not self.mover.immovable(i)
        ]
        single = {i.name: i for i in free}
        units = self.context.units
        items: dict[Usage, dict[str, _Item]] = {}
        for name in single:
            unit = units.get(name, (name,))
            if all(other in single for other in unit):
                item = _Item(sorted((single[other] for other in unit), key=lambda i: i.order))
                items.setdefault(item.load, {}).setdefault(item.name, item)
        return items

    def ranked(
        self, scores: Mapping[Usage, float], source: int, target: int
    ) -> Iterator[tuple[float, _Item]]:
        """Yield (score after its move, item) for the items of a group, the lowest score first.

        Items with equal scores are in the order of the MiB that their move copies.

        Parameters
        ----------
        scores:
            Load of an item -> score after its move, without penalties.
        source, target:
            Positions of the group with the items, and of the group that they may enter.
        """
        by_score: dict[float, list[_Item]] = {}
        nodes, penalised = self.groups[target].nodes, self.context.affinity.relations is not None
        for load, items in self.movable[source].items():
            if not penalised:
                by_score.setdefault(round(scores[load], SCORE_DECIMALS), []).extend(items.values())
                continue
            for item in items.values():
                penalty = self.penalty(item, dict.fromkeys(item.names, nodes))
                by_score.setdefault(round(scores[load] + penalty, SCORE_DECIMALS), []).append(item)
        for score in sorted(by_score):
            for item in sorted(by_score[score], key=lambda one: (one.copied, one.order)):
                if (item.name, target) not in self.blocked:
                    yield score, item

    def penalty(self, item: _Item, nodes: Mapping[str, Sequence[int]]) -> float:
        """Return by how much a move of the members raises penalties; the score must fall by more.

        The penalties are those of node labels, node scores, stickiness, and the spread over groups.
        `nodes`: name of a member -> its possible nodes. The node with the least penalty is used.
        """
        affinity, where = self.context.affinity, self.context.state.where
        relations, total = affinity.relations, 0.0
        for one in item.members if relations is not None else ():
            assert relations is not None
            name, home = one.name, where[one.name][0]
            if relations.spread_over_groups(name):
                costs = affinity.costs(one, [*nodes[name], home])
                least = min(costs.get(i, 0.0) for i in nodes[name])
                total += max(0.0, least - costs.get(home, 0.0))
            elif relations.prefers(name):
                penalty = relations.node_penalty
                least = min(penalty(name, i) for i in nodes[name])
                total += max(0.0, least - penalty(name, home))
        return total

    def run(self) -> str:
        """Add steps to the plan until no step helps; return why the plan ends."""
        hindered = forbidden(self.context.settings)
        if hindered:
            return hindered
        if len(self.done.groups) < 2:
            return "no super cluster: there is one group only"
        if not self.groups:
            return "no two groups share external storage"
        if not any(any(load) for load in self.loads.relative):
            return "no instance has any load"
        most = self.bounds.max_length

        def ended() -> str:
            full = most is not None and len(self.done.plan.entries) >= most
            return length_reached(most) if most is not None and full else ""

        search = LocalSearch(
            [_BetweenGroups()],
            lambda work: (work.loads.score(),),
            Acceptance(ended),
            self.context.deadline,
        )
        end = search.run(self)
        if end == TIME_IS_UP:
            raise Stopped(end)
        if end in (LOCAL_OPTIMUM, STALLED):
            return self.why or "no move of an instance evens the loads out any more"
        return end

    def fill_rows(self) -> None:
        """Complete the row of each group in the report of the plan."""
        total = sum(map(self.loads.of, range(len(self.groups))))
        for row in self.done.groups:
            if row.group not in self.groups:
                row.members = {"before": None, "after": None, "out": 0, "in": 0}
                row.reason = "shares no external storage with another group"
                continue
            position = self.groups.index(row.group)
            before, after = self.first.relative[position], self.loads.relative[position]
            leaving, come = self.flows[position]
            row.members = {
                "before": dict(zip(LOAD_KINDS, before)),
                "after": dict(zip(LOAD_KINDS, after)),
                "out": leaving,
                "in": come,
            }
            parts = [
                f"{many(count, 'instance')} {verb}{'s' * (count == 1)}"
                for count, verb in ((leaving, "leave"), (come, "arrive"))
                if count
            ]
            if not any(self.context.cluster.nodes[i].online for i in row.group.nodes):
                parts.append("no node of it is online")
            elif not leaving and not self.movable[position]:
                parts.append("it holds no instance on shared storage that may be moved")
            above = self.loads.of(position) * len(self.groups) > total  # loaded above average
            if above and position in self.rejected:
                parts.append(self.rejected[position])
            row.reason = "; ".join(parts) or "no move to or from it helps"


class _BetweenGroups(Neighbourhood[_Balancing, _Step]):
    """The move of an item from one group to another that lowers the score most.

    Pairs of groups are tried in the order of the difference of their loads, the largest first. The
    first pair with a move decides.
    """

    name = "between groups"

    def best(
        self, state: _Balancing, objective: Objective, allows: Callable[[_Step], bool]
    ) -> _Step | None:
        """Return the best move of the first pair of groups that has one."""
        state.why = ""
        level = [state.loads.of(position) for position in range(len(state.groups))]
        pairs = [
            (to - own, source, target)
            for source, own in enumerate(level)
            for target, to in enumerate(level)
            if source != target
            and state.bounds.group in (None, state.groups[source], state.groups[target])
        ]
        for _, source, target in sorted(pairs):
            check()
            step = self._between(state, objective[0], source, target)
            if step is not None:
                return step
        return None

    @staticmethod
    def _between(work: _Balancing, now: float, source: int, target: int) -> _Step | None:
        """Return the best possible move from one group to another; None if none gains enough."""
        group, bounds = work.groups[target], work.bounds
        least = max(bounds.min_gain, SCORE_TOLERANCE)
        scores = {
            load: work.loads.score_after(load, source, target) for load in work.movable[source]
        }
        own = work.groups[source]
        tried: set[tuple[object, ...]] = set()
        for score, item in work.ranked(scores, source, target):
            if not all(group in work.peers.of(member, own) for member in item.members):
                continue
            if now - score < least:
                if now - score > SCORE_TOLERANCE:
                    work.why = work.why or "no move gains as much as is asked for"
                break
            if item.shape in tried:
                continue
            if len(tried) >= SIZES_TRIED:
                break
            if bounds.cost is not None and work.copied + item.copied > bounds.cost:
                work.why = "no move that helps is within --cost"
                continue
            length = len(work.done.plan.entries) + len(item.members)
            if bounds.max_length is not None and length > bounds.max_length:
                most = many(bounds.max_length, "move")
                work.why = f"the next move needs more than {most} (--max-length)"
                continue
            done = evacuate(work.mover, item.members, lambda instance: [group], search=False)
            if done.failed is None:
                after = {entry.move.instance.name: entry.move.after[:1] for entry in done.entries}
                if now - scores[item.load] - work.penalty(item, after) < least:
                    work.why = work.why or "no move gains as much as stickiness requires"
                    work.blocked.add((item.name, target))
                    continue
                return _Step(item, done.entries, source, target)
            tried.add(item.shape)
            work.blocked.add((item.name, target))
            work.rejected[source] = (
                f"{done.failed.name} has no place in {group.name}: {done.reason}"
            )
        return None


def check_group_balance(done: PlanResult) -> list[str]:
    """Return the steps of a plan that do not lower the score, in words; [] if there are none."""
    problems = []
    last = done.plan.before
    ends = ends_of_colocation_groups(done.entries)
    for number, (entry, end) in enumerate(zip(done.entries, ends), start=1):
        if end and entry.score >= last:
            problems.append(f"move {number}: the score does not fall")
        last = entry.score if end else last
    return problems
