"""The score of an instance, or of instances that belong together, on every node."""

from __future__ import annotations

from iallocator.tags.pacemaker_scores import INFINITY, add

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.instance import Instance
    from iallocator.tags.pacemaker import PacemakerTags

    Weights = Sequence[int]
    """Per node of the cluster, a score."""

__all__ = ["NodeScores"]


class NodeScores:
    """Scores by the tags in `facts`.

    `stickiness` has an entry for each node of the cluster: what an instance without a stickiness
    of its own adds to the score of that node while it runs there.
    """

    __slots__ = ("_base", "_facts", "_nodes", "_stickiness")

    def __init__(self, facts: PacemakerTags, stickiness: Sequence[int]) -> None:
        self._facts = facts
        self._stickiness = stickiness
        self._base = tuple(facts.weights)
        self._nodes = range(len(facts.weights))

    def of(self, instance: Instance, home: int | None = None, pinned: bool = False) -> Weights:
        """Node weight, location score, and stickiness on `home`, where it runs.

        The same object is returned for all instances of which nothing is said.
        """
        known = self._facts.of(instance)
        sticky = 0
        if home is not None:
            sticky = self._stickiness[home] if known.stickiness is None else known.stickiness
            sticky = INFINITY if pinned else max(0, sticky)
        if not known.scores and not sticky:
            return self._base
        weights = list(self._base)
        for index, score in known.scores.items():
            weights[index] = add(weights[index], score)
        if home is not None and sticky:
            weights[home] = add(weights[home], sticky)
        return weights

    def together(self, members: Sequence[Weights]) -> Weights:
        """The score of a group: the sum over `members`.

        Each is added in turn unless that leaves no usable node with a score that is not
        negative; once there is none, nothing is added.
        """
        usable = self._facts.usable
        if len(members) > 1 and not _available(members[0], usable):
            return members[0]
        return self.heard(members, usable)

    def heard(self, members: Sequence[Weights], possible: Sequence[bool]) -> Weights:
        """The score of a member when those after it are heard, too.

        `possible` says per node whether the first may go there.
        """
        total = members[0]
        for other in members[1:]:
            more = [
                add(one, two if may else -INFINITY) for one, two, may in zip(total, other, possible)
            ]
            if not _available(more, possible):
                break
            total = more
        return total


def _available(weights: Weights, counts: Sequence[bool]) -> bool:
    """Whether some node that counts has a score that is not negative."""
    return any(weight >= 0 for weight, count in zip(weights, counts) if count)
