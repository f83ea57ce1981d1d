"""Rules 3 to 5: which nodes are eligible, which comes first, and when an instance stays.

The kinds of strategy are ``default``, ``utilization``, ``balanced`` and ``minimal``.
"""

from __future__ import annotations

from iallocator.ranking.base import NodeRanking
from iallocator.tags.pacemaker_scores import INFINITE_SCORE, add, score_in_tags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.ranking.pacemaker.capacity_usage import CapacityUsage
    from iallocator.tags.pacemaker import Amounts, PacemakerTags

    Weights = Sequence[float]
    """The score of each node of the cluster, by index."""

__all__ = ["Choice", "NodeScores", "in_order"]

NODES_WORTH_ARRAYS = 64
"""The number of nodes from which on pairs are compared in arrays."""

YES_NO = ("no", "yes")


class NodeScores:
    """The scores of nodes for instances, by the tags in `facts`.

    `stickiness`: for each node of the cluster, the default stickiness of the instances that run on
    it.  A stickiness is added to the score of the node on which the instance runs.
    """

    __slots__ = ("_base", "_facts", "_shared", "_stickiness")

    def __init__(self, facts: PacemakerTags, stickiness: Sequence[int]) -> None:
        self._facts = facts
        self._stickiness = stickiness
        self._base = tuple(facts.weights)
        self._shared: dict[tuple[object, ...], Weights] = {}

    def of(self, instance: Instance, home: int | None = None, pinned: bool = False) -> Weights:
        """Return per node the weight plus the location score of `instance`, plus its stickiness.

        The stickiness counts only on `home`, the current node of the instance; None for none.

        Instances with equal scores, home and stickiness share one returned object.
        """
        known = self._facts.of(instance)
        sticky: float = 0
        if home is not None:
            sticky = self._stickiness[home] if known.stickiness is None else known.stickiness
            sticky = INFINITE_SCORE if pinned else max(0, sticky)
        if not known.scores and not sticky:
            return self._base
        key = home, sticky, *known.scores.items()
        if key in self._shared:
            return self._shared[key]
        weights = self._shared[key] = list(self._base)
        for index, score in known.scores.items():
            weights[index] = add(weights[index], score)
        if home is not None and sticky:
            weights[home] = add(weights[home], sticky)
        return weights

    def together(self, members: Sequence[Weights]) -> Weights:
        """Return the score of a colocation set: the sum over `members`.

        Members are added in order.  The sum ends before the first member that would leave no usable
        node with a score of at least 0.
        """
        usable = self._facts.usable
        if len(members) > 1 and not _available(members[0], usable):
            return members[0]
        return self.with_followers(members, usable)

    def with_followers(self, members: Sequence[Weights], possible: Sequence[bool]) -> Weights:
        """Return the score of a member plus the scores of the members that follow it.

        `possible`: for each node, whether the first member can be placed on it.
        """
        total = members[0]
        for other in members[1:]:
            more = [
                add(one, two if may else -INFINITE_SCORE)
                for one, two, may in zip(total, other, possible)
            ]
            if not _available(more, possible):
                break
            total = more
        return total


def _available(weights: Weights, counts: Sequence[bool]) -> bool:
    """Return whether a node with a true entry in `counts` has a score of at least 0."""
    return any(weight >= 0 for weight, count in zip(weights, counts) if count)


class Choice(NodeRanking):
    """The order of the eligible nodes for one instance, and its criteria.

    Attributes
    ----------
    kind:
        The kind of the strategy.
    weights:
        Node -> score of the instance on it.
    present:
        The node on which the instance runs now, or None.
    preferred:
        The node with the most free capacity, if no node has capacity for the colocation set.
    stays:
        True if Pacemaker's rule 5 put the present node before a node of equal score.
    costs:
        Node -> penalty of the soft constraints violated there, subtracted from its score.
    """

    __slots__ = (
        "_cluster", "_count", "_free", "_usage", "_wins", "costs", "kind", "preferred",
        "present", "stays", "weights",
    )  # fmt: skip

    def __init__(self, kind: str, cluster: Cluster, usage: CapacityUsage, weights: Weights) -> None:
        super().__init__([], {})
        self.kind = kind
        self.weights = weights
        self.present: int | None = None
        self.preferred: int | None = None
        self.stays = False
        self.costs: Mapping[int, float] = {}
        self._cluster = cluster
        self._usage = usage
        self._free: dict[int, Amounts] = {}
        self._count: dict[int, int] = {}
        self._wins: dict[int, int] = {}

    def freeze(self, wins: dict[int, int]) -> None:
        """Store the amounts by which nodes were compared; later placements change them."""
        self._free = dict(self._usage.free)
        self._count = dict(self._usage.count)
        self._wins = wins

    def rank(self, index: int) -> tuple[float, float]:
        """Return the rank of a node, lower is better: penalty less score, then penalty."""
        cost = self.costs.get(index, 0)
        return -add(self.weights[index], -cost), cost

    def node_name(self, index: int) -> str:
        """Return the name of node `index`."""
        return self._cluster.nodes[index].name

    def criteria(self, index: int) -> list[tuple[str, str]]:
        """Return the criteria by which Pacemaker's rule 4 compares node `index`: (name, value)."""
        free = ", ".join(f"{name} {amount:.12g}" for name, amount in self._free[index].items())
        score, cost = score_in_tags(self.weights[index]), self.costs.get(index)
        criteria = {
            "score": f"{score} less {cost:g} for soft constraints" if cost else score,
            "free capacity": free or "none",
            "instances": str(self._count[index]),
            "present node": YES_NO[index == self.present],
            "name": self._cluster.nodes[index].name,
        }
        return [(name, criteria[name]) for name in ("score", *CRITERIA[self.kind], "name")]

    def decided(self, first: int, second: int) -> str:
        """Return the first criterion of Pacemaker's rule 4 by which node `first` precedes `second`.

        The text has the values of both nodes.
        """
        mine, other = dict(self.criteria(first)), dict(self.criteria(second))
        if first == self.preferred:
            return "rule 8: no node holds its whole group, this one has most free capacity"
        if self.stays and first == self.present:
            same = (
                f"score {mine['score']} here as there"
                if mine["score"] == other["score"]
                else (f"score {mine['score']} against {other['score']}")
            )
            return f"rule 5: it runs there, and stays: {same}"
        if mine["score"] != other["score"]:
            return f"rule 4: higher score: {mine['score']} against {other['score']}"
        if self._wins.get(first, 0) != self._wins.get(second, 0) and _before(self, second, first):
            return (
                "rule 4: the comparison of free capacity is cyclic; it comes before "
                f"{self._wins[first]} other nodes, against {self._wins[second]}"
            )
        for name in CRITERIA[self.kind]:
            if name == "free capacity":
                votes = self._votes(first, second)
                if votes:
                    return f"rule 4: more free capacity: {votes}"
            elif mine[name] != other[name]:
                words = {"instances": "fewer instances", "present node": "it runs there now"}
                figures = f": {mine[name]} against {other[name]}" if name == "instances" else ""
                return f"rule 4: {words[name]}{figures}"
        return f"rule 4: by name: {mine['name']} before {other['name']}"

    def _votes(self, one: int, other: int) -> str:
        """Return the capacities of which `one` and `other` have more; "" if `one` is not preferred.

        Node `one` is preferred if it has more free capacity than node `other` in the majority of
        the attributes in which the two nodes differ. The text gives the figures of both nodes.
        """
        mine, theirs = self._free[one], self._free[other]
        names = [*mine, *(name for name in theirs if name not in mine)]
        gaps = [(name, mine.get(name, 0), theirs.get(name, 0)) for name in names]
        won = [f"{name} {a:.12g} against {b:.12g}" for name, a, b in gaps if a > b]
        lost = [f"{name} {a:.12g} against {b:.12g}" for name, a, b in gaps if a < b]
        if len(won) <= len(lost):
            return ""
        return ", ".join(won) + (f"; less of {', '.join(lost)}" if lost else "")

    def by_tie(self, nodes: Sequence[int]) -> list[int]:
        """Return `nodes` in the order of the criteria that follow free capacity."""
        count, place = self._usage.count, self._usage.by_name
        if self.kind == "minimal":
            return sorted(nodes, key=place.__getitem__)
        size, present = len(place), self.present
        keys = [(2 * count[i] + (i != present)) * size + place[i] for i in nodes]
        return [index for _, index in sorted(zip(keys, nodes))]

    def wins(self, nodes: Sequence[int]) -> list[int]:
        """Return, for each of `nodes`, the number of others that Pacemaker's rule 4 ranks below it.

        Fewer than `NODES_WORTH_ARRAYS` nodes must be in the order of `by_tie`.
        """
        if len(nodes) >= NODES_WORTH_ARRAYS:
            return self._usage.rank_table().wins(nodes, self.present)
        return _wins(self, nodes)


CRITERIA: dict[str, tuple[str, ...]] = {
    "default": ("instances", "present node"),
    "utilization": ("instances", "present node"),
    "balanced": ("free capacity", "instances", "present node"),
    "minimal": (),
}
"""Kind of strategy -> the criteria between score and name."""


def _before(choice: Choice, one: int, other: int) -> bool:
    """Return whether node `one` ranks before `other`, comparing only these two nodes of equal
    score.
    """
    votes = choice._votes(one, other), choice._votes(other, one)
    if votes[0] or votes[1]:
        return bool(votes[0])
    name = choice._cluster.nodes
    return (choice._count[one], one != choice.present, name[one].name.encode()) < (
        choice._count[other], other != choice.present, name[other].name.encode()
    )  # fmt: skip


def in_order(choice: Choice, nodes: Sequence[int]) -> tuple[list[int], dict[int, int]]:
    """Return `nodes` in the order of Pacemaker's rule 4, and the wins of each node.

    The wins of a node are the number of nodes of equal score that rank below it.

    Cost: one sort. For ``balanced``, in addition the square of the number of nodes with equal
    score; from `NODES_WORTH_ARRAYS` such nodes on, they are compared in arrays.
    """
    wins: dict[int, int] = {}
    ranked: list[int] = []
    place = choice._usage.by_name
    for level in _levels(choice, nodes):
        if choice.kind == "balanced":
            same = level if len(level) >= NODES_WORTH_ARRAYS else choice.by_tie(level)
            wins.update(zip(same, choice.wins(same)))
            keys = [place[i] - wins[i] * len(place) for i in same]
            same = [i for _, i in sorted(zip(keys, same))]
        else:
            same = choice.by_tie(level)
        ranked += same
    return ranked, wins


def _levels(choice: Choice, nodes: Sequence[int]) -> list[list[int]]:
    """Return `nodes` in lists of equal rank, best first."""
    levels: dict[tuple[float, float], list[int]] = {}
    if choice.costs:
        for index in nodes:
            levels.setdefault(choice.rank(index), []).append(index)
        return [levels[rank] for rank in sorted(levels)]
    by_weight: dict[float, list[int]] = {}
    weights = choice.weights
    if len({weights[index] for index in nodes}) == 1:
        return [list(nodes)]
    for index in nodes:
        by_weight.setdefault(weights[index], []).append(index)
    return [by_weight[weight] for weight in sorted(by_weight, reverse=True)]


def _wins(choice: Choice, nodes: Sequence[int]) -> list[int]:
    """Return for each of `nodes` how many others rank below it; of equal nodes, the earlier is
    first.
    """
    wins = [0] * len(nodes)
    for k, one in enumerate(nodes):
        for n in range(k + 1, len(nodes)):
            if choice._usage.compare(one, nodes[n]) >= 0:
                wins[k] += 1
            else:
                wins[n] += 1
    return wins
