"""Enforce location scores, stickiness, and the maintenance of nodes.

Hard constraints are enforced with every strategy, in requests and in plans. A score of minus
infinity keeps an instance off a node in either role; the score is a tag of the node, or a tag of
the instance that names the node. A node in maintenance receives no instances, and its running
instances stay.

In groups without one of Pacemaker's strategies, scores have the unit of the cluster score. The
score of an instance on a node is the score in its tag for the node, plus the score of the node,
plus its stickiness if the node is its present one. An instance that does not run on its best node
violates a soft constraint: the penalty is the difference of the two scores. A score of plus
infinity for a node requires this node, or another such node, as long as one of them is online.

Stickiness has effect only where a move is optional: in planners, not in requests. Infinite
stickiness keeps the primary in place unless its node is not online.
"""

from __future__ import annotations

from iallocator.model.constraints import ALL_INSTANCES, LOCATION, MUST, SHOULD, Constraint
from iallocator.tags.pacemaker import PacemakerTags
from iallocator.tags.pacemaker_scores import INFINITE_SCORE, add, score_in_tags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Protocol

    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance

    class ScoreSettings(Protocol):
        """The settings that define how scores count, and the default stickiness."""

        stickiness: float
        strategy: str

        @property
        def by_group(self) -> Mapping[int, ScoreSettings]:
            """Return group index -> its settings, for groups with tags that change settings."""


__all__ = ["PACEMAKER_PREFIX", "Locations", "by_pacemaker", "locations_of"]

PACEMAKER_PREFIX = "pacemaker-"
"""The beginning of the names of Pacemaker's strategies."""


def by_pacemaker(settings: ScoreSettings, group: Group | None = None) -> bool:
    """Return whether `group` has one of Pacemaker's strategies; None: whether any group has one."""
    if group is not None:
        settings = settings.by_group.get(group.index, settings)
        return settings.strategy.startswith(PACEMAKER_PREFIX)
    every = (settings, *settings.by_group.values())
    return any(one.strategy.startswith(PACEMAKER_PREFIX) for one in every)


def locations_of(
    cluster: Cluster,
    new: Iterable[Instance],
    prefix: str,
    settings: ScoreSettings | None,
    optional: bool,
    sticky: bool,
) -> Locations | None:
    """Return the location constraints that tags and settings express; None if there are none.

    Without `settings`, finite scores and stickiness have no effect. `optional`: whether the moves
    are optional, so that stickiness has effect. `sticky`: whether `settings` have a stickiness for
    all instances.
    """
    instances = [*cluster.instances, *new]
    maintenance = f"{prefix}maintenance"
    scores = f"{prefix}score:", f"{prefix}stickiness:"
    nodes = (node.tags for node in cluster.nodes if node.tags)
    owned = (instance.tags for instance in instances if instance.tags)
    if not (
        sticky
        or any(tag == maintenance or tag.startswith(scores[0]) for tags in nodes for tag in tags)
        or any(tag.startswith(scores) for tags in owned for tag in tags)
    ):
        return None
    facts = PacemakerTags(cluster, new, [], prefix, whole=settings is None)
    locations = Locations(cluster, instances, facts, prefix, settings, optional)
    return locations if locations else None


class Locations:
    """The location constraints of the instances of a cluster, and of new ones.

    Attributes
    ----------
    closed:
        Node index -> the constraint that keeps all instances off the node.
    settled:
        Instance with infinite stickiness on an online node -> the constraint that it stays there.
    """

    __slots__ = (
        "_confined", "_homes", "_known", "_maintained", "_names", "_own", "_preferences", "_prefix",
        "_ranked", "_required", "_scored", "_weights", "closed", "settled",
    )  # fmt: skip

    def __init__(
        self,
        cluster: Cluster,
        instances: Iterable[Instance],
        facts: PacemakerTags,
        prefix: str,
        settings: ScoreSettings | None = None,
        optional: bool = False,
    ) -> None:
        self._prefix = prefix
        names = self._names = [node.name for node in cluster.nodes]
        self._maintained = {i: name for i, name in enumerate(names) if facts.maintenance[i]}
        self.closed: dict[int, Constraint] = {
            index: self._must(ALL_INSTANCES, f"not on {name}", f"score:-INFINITY of {name}")
            for index, name in enumerate(names)
            if facts.weights[index] <= -INFINITE_SCORE
        }
        for index, name in self._maintained.items():
            self.closed.setdefault(
                index, self._must(ALL_INSTANCES, f"not on {name}", f"maintenance of {name}")
            )
        self._own: dict[str, dict[int, Constraint]] = {}
        self._homes: dict[str, Constraint] = {}
        self._confined: dict[str, frozenset[int]] = {}
        self._required: dict[str, Constraint] = {}
        self._preferences: dict[str, _Preference] = {}
        self._known: dict[str, Mapping[int, Constraint]] = {}
        self.settled: dict[str, Constraint] = {}
        self._scored = [
            settings is not None and not by_pacemaker(settings, node.group)
            for node in cluster.nodes
        ]
        self._weights = [
            weight if scored and abs(weight) < INFINITE_SCORE else 0
            for weight, scored in zip(facts.weights, self._scored)
        ]
        self._ranked = sorted(
            (i for i, scored in enumerate(self._scored) if scored), key=lambda i: -self._weights[i]
        )
        # Instances without scores and stickiness are all alike, unless nodes have scores
        every = () if settings is None else (settings, *settings.by_group.values())
        alike = not any(facts.weights) and not any(one.stickiness > 0 for one in every)
        tags = f"{prefix}score:", f"{prefix}stickiness:"
        for instance in instances:
            scored = any(tag.startswith(tags) for tag in instance.tags)
            if alike and not scored and not self._maintained:
                continue
            known = facts.of(instance)
            unscored = alike and not known.scores and not known.stickiness
            if unscored and not self._maintained:
                continue
            own = {
                index: self._must(
                    instance.name, f"not on {names[index]}", f"score:{names[index]}:-INFINITY"
                )
                for index, score in known.scores.items()
                if add(score, facts.weights[index]) <= -INFINITE_SCORE and index not in self.closed
            }
            if own:
                self._own[instance.name] = own
            home = instance.nodes[0] if instance.nodes and instance.running else None
            if home in self._maintained and not cluster.nodes[home].offline:
                name = self._maintained[home]
                self._confine(
                    instance,
                    home,
                    self._must(instance.name, f"on {name}", f"maintenance of {name}"),
                )
            if settings is not None and not unscored:
                self._score(cluster, instance, facts, settings, optional)

    def _score(
        self,
        cluster: Cluster,
        instance: Instance,
        facts: PacemakerTags,
        settings: ScoreSettings,
        optional: bool,
    ) -> None:
        """Read the scores and the stickiness of `instance`."""
        name, instance_facts = instance.name, facts.of(instance)
        scores = {
            index: s for index, s in instance_facts.scores.items() if self._scored[index] and s
        }
        online = cluster.nodes
        required = [
            i for i, s in scores.items() if s >= INFINITE_SCORE and i not in self.forbidden(name)
        ]
        if any(online[i].online for i in required):
            said = " or ".join(self._names[i] for i in required)
            tags = ", ".join(f"score:{self._names[i]}:INFINITY" for i in required)
            self._required[name] = self._must(name, f"on {said}", tags)
            if name not in self._homes:
                self._confined[name] = frozenset(required)
        home = instance.nodes[0] if instance.nodes else None
        origin = ""
        stickiness: float = 0
        if home is not None and self._scored[home]:
            if instance_facts.stickiness is None:
                own = settings.by_group.get(cluster.nodes[home].group.index, settings)
                stickiness, origin = max(0, own.stickiness), "setting stickiness"
            else:
                stickiness = max(0, instance_facts.stickiness)
                origin = f"tag {self._prefix}stickiness:{score_in_tags(stickiness)}"
        if stickiness >= INFINITE_SCORE and home is not None and online[home].online:
            stays = Constraint(LOCATION, MUST, name, f"on {self._names[home]}", origin)
            self.settled[name] = stays
            if optional:
                self._confine(instance, home, stays)
        finite = {i: s for i, s in scores.items() if abs(s) < INFINITE_SCORE}
        if optional and home is not None and 0 < stickiness < INFINITE_SCORE:
            finite[home] = finite.get(home, 0) + stickiness
        else:
            origin = ""
        if name not in self._confined and (finite or any(self._weights)):
            preference = _Preference(
                finite, self._weights, self._ranked, self.forbidden(name), self._scored
            )
            preference.origin, preference.home = origin, home
            self._preferences[name] = preference

    def _confine(self, instance: Instance, home: int, constraint: Constraint) -> None:
        if instance.name not in self._homes:
            self._homes[instance.name] = constraint
            self._confined[instance.name] = frozenset((home,))

    def __bool__(self) -> bool:
        return bool(self.closed or self._own or self._confined or self._preferences or self.settled)

    def _must(self, instance: str, what: str, tag: str) -> Constraint:
        return Constraint(LOCATION, MUST, instance, what, f"tag {self._prefix}{tag}")

    def forbidden(self, instance: str) -> Mapping[int, Constraint]:
        """Return the nodes that `instance` must not use in any role, with the constraint."""
        own = self._own.get(instance)
        if own is None:
            return self.closed
        if instance not in self._known:
            self._known[instance] = self.closed | own
        return self._known[instance]

    def confined(self, instance: str) -> Collection[int] | None:
        """Return the only nodes that the primary of `instance` may use; None for any nodes."""
        return self._confined.get(instance)

    def stays(self, instance: str) -> bool:
        """Return whether the primary of `instance` must stay where it is."""
        return instance in self._homes

    @property
    def pinned(self) -> Collection[str]:
        """Return the instances with a primary that must stay where it is."""
        return self._homes.keys()

    def broken(self, instance: str, node: int) -> list[Constraint]:
        """Return the hard constraints that are violated if the primary of `instance` is on `node`.

        For an instance that must stay in place, only this constraint is checked.
        """
        pin = self._homes.get(instance)
        confined = self._confined.get(instance)
        if pin is not None:
            return [] if confined and node in confined else [pin]
        must = self.forbidden(instance).get(node)
        constraints = [] if must is None else [must]
        if confined is not None and node not in confined:
            constraints.append(self._required[instance])
        return constraints

    # Soft constraints

    @property
    def preferring(self) -> Collection[str]:
        """Return the instances with a penalty on some node."""
        return self._preferences.keys()

    def penalty(self, instance: str, node: int) -> float:
        """Return by how much the score of `instance` on `node` is below that on its best node."""
        preference = self._preferences.get(instance)
        return 0.0 if preference is None else preference.penalty(node)

    def penalties(self, instance: str) -> Sequence[float]:
        """Return the penalty of `instance` on each node of the cluster."""
        preference = self._preferences.get(instance)
        count = len(self._names)
        return [0.0] * count if preference is None else list(map(preference.penalty, range(count)))

    def violated_soft(self, instance: str, node: int) -> list[Constraint]:
        """Return the violated preference of `instance` on `node`, with its penalty; [] if there is
        none.
        """
        penalty = self.penalty(instance, node)
        if penalty <= 0:
            return []
        preference = self._preferences[instance]
        best, names, prefix = preference.best_node, self._names, self._prefix
        tags: list[str] = []
        for index in (best, node):
            if index == preference.home and preference.origin:
                tags.append(preference.origin)
            tagged = preference.own.get(index, 0)
            if index != preference.home or not preference.origin:
                tags += [f"tag {prefix}score:{names[index]}:{tagged:g}"] if tagged else []
            weight = self._weights[index]
            tags += [f"tag {prefix}score:{weight:g} of {names[index]}"] if weight else []
        origin = ", ".join(tags)
        return [Constraint(LOCATION, SHOULD, instance, f"on {names[best]}", origin, weight=penalty)]


class _Preference:
    """The finite scores of one instance on the nodes of a cluster.

    `ranked`: the nodes on which scores count, those with the highest weights first.

    Attributes
    ----------
    own:
        Node -> the score in the tag of the instance, plus its stickiness on its present node.
    best_node:
        The node with the highest score, of those that the instance may use.
    home, origin:
        The present node of the instance, and the tag or setting with its stickiness; "" if it has
        none.
    """

    __slots__ = ("_best", "_scored", "_weights", "best_node", "home", "origin", "own")

    def __init__(
        self,
        own: Mapping[int, float],
        weights: Sequence[float],
        ranked: Sequence[int],
        forbidden: Collection[int],
        scored: Sequence[bool],
    ) -> None:
        self.own = own
        self._weights = weights
        self._scored = scored
        self.home: int | None = None
        self.origin = ""
        closed = {*own, *forbidden}
        first = [next((i for i in ranked if i not in closed), None)]
        usable = [i for i in (*own, *first) if i is not None and i not in forbidden]
        self.best_node = max(usable, key=lambda i: (self.score(i), -i), default=0)
        self._best = self.score(self.best_node)

    def score(self, node: int) -> float:
        """Return the score of the instance on `node`."""
        return self.own.get(node, 0) + self._weights[node]

    def penalty(self, node: int) -> float:
        """Return how much the score on `node` is below the best; 0 where scores do not count."""
        if not self._scored[node]:
            return 0.0
        return max(0.0, float(self._best - self.score(node)))
