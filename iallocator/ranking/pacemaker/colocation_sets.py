"""The order of placement of instances (rule 2), and their colocation sets (rule 8)."""

from __future__ import annotations

from collections.abc import Mapping

from iallocator.ranking.pacemaker.rules import Choice, in_order
from iallocator.tags.pacemaker import lacking
from iallocator.tags.pacemaker_scores import INFINITE_SCORE, score_in_tags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.ranking.pacemaker.capacity_usage import CapacityUsage
    from iallocator.ranking.pacemaker.rules import NodeScores, Weights
    from iallocator.tags.pacemaker import Amounts, PacemakerTags

__all__ = ["ColocationSet", "SetRanking", "units_of"]


class ColocationSet:
    """One instance, or several instances that must be on one node, in their order.

    ``home`` is the node of the first running member; None if no member runs.
    """

    __slots__ = ("home", "members", "weights")

    def __init__(
        self, members: Sequence[Instance], weights: Sequence[Weights], home: int | None
    ) -> None:
        self.members = list(members)
        self.weights = list(weights)
        self.home = home


def units_of(
    facts: PacemakerTags,
    weigher: NodeScores,
    instances: Sequence[Instance],
    homes: Mapping[str, int],
    pinned: Callable[[Instance], bool],
) -> list[ColocationSet]:
    """Return `instances` as colocation sets, each at the position of its first member.

    `weigher`: the scores of nodes. `homes`: name of a running instance -> the node on which it
    runs. `pinned` returns whether an instance must stay where it is.
    """
    by_group: dict[str, list[Instance]] = {}
    members: list[list[Instance]] = []
    for instance in instances:
        group = facts.of(instance).group
        companions = by_group.get(group) if group else None
        if companions is None:
            companions = []
            members.append(companions)
            if group:
                by_group[group] = companions
        companions.append(instance)
    return [
        ColocationSet(
            some,
            [weigher.of(one, homes.get(one.name), pinned(one)) for one in some],
            next((homes[one.name] for one in some if one.name in homes), None),
        )
        for some in members
    ]


class SetRanking:
    """Ranks colocation sets and nodes by the rules of one kind of strategy.

    Parameters
    ----------
    kind:
        ``default``, ``utilization``, ``balanced`` or ``minimal``.
    facts, weigher:
        The contents of the tags, and the scores that these tags give to nodes.
    usage:
        The usage of the nodes.  Each placement that is counted in it changes the ranks.
    """

    __slots__ = ("_cluster", "_facts", "_kind", "_usage", "_weigher")

    def __init__(
        self,
        kind: str,
        cluster: Cluster,
        facts: PacemakerTags,
        weigher: NodeScores,
        usage: CapacityUsage,
    ) -> None:
        self._kind = kind
        self._cluster = cluster
        self._facts = facts
        self._weigher = weigher
        self._usage = usage

    def in_turn(self, units: Sequence[ColocationSet]) -> list[ColocationSet]:
        """Return `units` in the order of placement; the usage must be that of empty nodes.

        The set with the higher priority comes first. Then, except for ``default``, the set with the
        higher score on its home node comes first, then the set with the higher score on the best
        node on which the scores differ. Equal sets keep their order.  Unusable nodes of groups
        without any of the instances are left out, because the order in one group must not depend on
        another group.
        """
        facts, cluster = self._facts, self._cluster
        first = [facts.of(unit.members[0]).priority for unit in units]
        if self._kind == "default":
            return [units[k] for k in sorted(range(len(units)), key=lambda k: -first[k])]
        groups = {
            cluster.nodes[i].group for unit in units for one in unit.members for i in one.nodes
        }
        nodes = [n.index for n in cluster.nodes if facts.usable[n.index] or n.group in groups]
        base = [w if usable else -INFINITE_SCORE for w, usable in zip(facts.weights, facts.usable)]
        walk, _ = in_order(Choice(self._kind, cluster, self._usage, base), nodes)

        # Sets with the same scores share their sum, and the rank of it among all sums
        sums: dict[tuple[int, ...], tuple[Weights, list[float]]] = {}
        members = [tuple(map(id, unit.weights)) for unit in units]
        for unit, same in zip(units, members):
            if same not in sums:
                weights = self._weigher.together(unit.weights[::-1])
                sums[same] = weights, [-weights[index] for index in walk]
        rank: dict[tuple[int, ...], int] = {}
        place = 0
        before: list[float] = []
        for same in sorted(sums, key=lambda same: sums[same][1]):
            if sums[same][1] != before:
                place, before = place + 1, sums[same][1]
            rank[same] = place
        keys = []
        for position, (unit, same) in enumerate(zip(units, members)):
            home = -INFINITE_SCORE if unit.home is None else sums[same][0][unit.home]
            keys.append((-first[position], -home, rank[same]))
        return [units[k] for k in sorted(range(len(units)), key=keys.__getitem__)]

    def choose(
        self,
        unit: ColocationSet,
        position: int,
        nodes: Sequence[int],
        home: int | None,
        costs: Mapping[int, float] | None = None,
    ) -> Choice:
        """Return the order of `nodes` for the member at `position` of `unit`, which runs on `home`.

        `nodes` pass the hard limits.  For a member that is not the first, only the node of the
        member before it is possible.  `costs`: node -> penalty of the soft constraints violated
        there; it rejects no node.
        """
        facts, usage = self._facts, self._usage
        nodes = [index for index in nodes if facts.usable[index]]
        weights = unit.weights[position]
        if position + 1 < len(unit.members):
            possible = set(nodes)
            here = [index in possible for index in range(len(weights))]
            weights = self._weigher.with_followers(unit.weights[position:], here)

        # Rule 8: the needs are those of the whole rest of the set, if a node has capacity for it
        rest = [facts.of(one).needs for one in unit.members[position:]]
        needs, preferred = rest[0], None
        if len(rest) > 1 and self._kind != "default":
            candidates = [index for index in nodes if weights[index] >= 0]
            whole = _sum(rest)
            if len(usage.lacking(candidates, whole)) < len(candidates):
                needs = whole
            else:
                preferred = _freest(self._cluster, usage, candidates)

        # Rule 3: nodes without capacity, or with a negative score, are not eligible
        choice = Choice(self._kind, self._cluster, usage, weights)
        choice.costs = costs or {}
        choice.present = home
        short = usage.lacking(nodes, needs) if self._kind != "default" else ()
        eligible = [index for index in nodes if weights[index] >= 0 and index not in short]
        if len(eligible) < len(nodes):
            out = [index for index in nodes if weights[index] < 0 or index in short]
            choice.rejected = _Rejected({i: (usage.free[i], weights[i]) for i in out}, needs)

        # Rules 4 and 5: the best node comes first, or that where the instance runs
        choice.ranked, wins = in_order(choice, eligible)
        if choice.ranked:
            best = choice.rank(choice.ranked[0])
            first = None
            if preferred in eligible and choice.rank(preferred) <= best:
                first = choice.preferred = preferred
            elif (
                best[0] < 0
                and home is not None
                and home in eligible
                and facts.weights[home] >= 0
                and choice.rank(home) == best
            ):
                first = home
                choice.stays = home != choice.ranked[0]
            if first is not None:
                choice.ranked.remove(first)
                choice.ranked.insert(0, first)
        choice.freeze(wins)
        return choice


class _Rejected(Mapping[int, str]):
    """Node -> why Pacemaker's rule 3 (score, capacity) rejects it; texts are made on access.

    `nodes`: node -> its free amounts and its score. The amounts are fixed: a change of the usage
    makes new objects.
    """

    def __init__(self, nodes: dict[int, tuple[Amounts, float]], needs: Amounts) -> None:
        self._nodes = nodes
        self._needs = needs

    def __getitem__(self, index: int) -> str:
        free, weight = self._nodes[index]
        needs = self._needs
        if weight < 0:
            return f"rule 3: score {score_in_tags(weight)}"
        return "rule 3: " + ", ".join(
            f"needs {needs[name]:.12g} {name}, {free.get(name, 0):.12g} free"
            for name in lacking(free, needs)
        )

    def __iter__(self) -> Iterator[int]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)


def _sum(needs: Sequence[Amounts]) -> Amounts:
    """Return the sum of the needs of several instances."""
    total: Amounts = {}
    for one in needs:
        for name, amount in one.items():
            total[name] = total.get(name, 0) + amount
    return total


def _freest(cluster: Cluster, usage: CapacityUsage, nodes: Sequence[int]) -> int | None:
    """Return the node of `nodes` with the most free capacity; None if there are no nodes.

    The nodes are compared one after the other, in the order of their names.
    """
    freest: int | None = None
    for index in sorted(nodes, key=lambda i: cluster.nodes[i].name.encode()):
        if freest is None or usage.compare(index, freest) > 0:
            freest = index
    return freest
