"""The kinds of moves: which kinds are allowed, which moves are legal, and moves with scores."""

from __future__ import annotations

from iallocator.compat import OURS
from iallocator.model.moves import DRBD_FAILOVER, FAILOVER_TO, REPLACE_SECONDARY, Move, places_after
from iallocator.placement.limit_policy import limit_policies_of_plan
from iallocator.placement.move_limits import MoveLimits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from typing import Any

    from iallocator.aliases import Nodes
    from iallocator.compat import Behaviour
    from iallocator.model.cluster import Node
    from iallocator.model.instance import Instance
    from iallocator.model.moves import ElementaryMove
    from iallocator.model.node_view import Capacities
    from iallocator.model.state import State
    from iallocator.placement.limit_policy import LimitPolicies

__all__ = [
    "BY_LETTERS", "BY_NAME", "MOVE_KINDS", "MoveKind", "MoveRules", "ScoredMoves", "kinds_to",
    "possible",
]  # fmt: skip


class MoveKind:
    """A way to move an instance to a target node, or with the help of a target node.

    Attributes
    ----------
    name:
        Its steps in order: ``f`` failover to the secondary, ``r`` replace the secondary by the
        target, ``fa`` failover to the target.
    letters:
        The steps of `name`, one by one.
    drbd:
        Whether the kind is for drbd instances; otherwise it is for instances on shared storage.
    """

    __slots__ = ("drbd", "letters", "name")

    def __init__(self, name: str, drbd: bool = True) -> None:
        self.name = name
        self.letters = tuple(name.split())
        self.drbd = drbd

    @property
    def targeted(self) -> bool:
        """Return whether moves of this kind have a target node."""
        return self.letters != ("f",)

    @property
    def copies_first(self) -> bool:
        """Return whether the first step copies the disks from the present primary."""
        return self.letters[0] == "r"

    @property
    def secondary_leads(self) -> bool:
        """Return whether the present secondary runs the instance after the move, or during it."""
        return self.letters[0] == "f"

    def move(self, instance: Instance, nodes: Nodes, target: int) -> Move:
        """Return the move of this kind of `instance` from `nodes`, primary first, to `target`."""
        return Move.by_steps(instance, nodes, self.steps(nodes, target))

    def steps(self, nodes: Nodes, target: int) -> list[ElementaryMove]:
        """Return the steps of this kind of move for an instance on `nodes`, primary first."""
        steps: list[ElementaryMove] = []
        for letter in self.letters:
            if letter == "f":
                nodes = (nodes[1], nodes[0])
                steps.append((DRBD_FAILOVER, nodes[0]))
            elif letter == "r":
                nodes = (nodes[0], target)
                steps.append((REPLACE_SECONDARY, target))
            else:
                steps.append((FAILOVER_TO, target))
        return steps


MOVE_KINDS = (
    MoveKind("f"),
    MoveKind("r"),
    MoveKind("r f"),
    MoveKind("f r f"),
    MoveKind("f r"),
    MoveKind("fa", drbd=False),
)
"""All kinds of moves. Of moves with equal scores, the first kind is used."""

BY_LETTERS = {kind.letters: kind for kind in MOVE_KINDS}
BY_NAME = {kind.name: kind for kind in MOVE_KINDS}


class MoveRules:
    """The rules by which moves are allowed.

    Attributes
    ----------
    disk_moves, instance_moves:
        Whether disks may be copied, and whether primaries may change.
    restricted:
        Whether a drbd instance may leave its primary only if that node is not online, or by one
        failover.
    evacuate_only:
        Whether only instances on nodes that are not online may move.
    ignore_soft:
        Whether soft limits are ignored.
    leaving:
        Indices of nodes that will be powered down. No instance may move to them. They are
        online while instances move off them, so all limits are enforced for these moves.
    behaviour:
        The differences between this program and htools.
    """

    __slots__ = (
        "behaviour",
        "disk_moves",
        "evacuate_only",
        "ignore_soft",
        "instance_moves",
        "leaving",
        "restricted",
    )  # fmt: skip

    def __init__(
        self,
        *,
        disk_moves: bool = True,
        instance_moves: bool = True,
        restricted: bool = False,
        evacuate_only: bool = False,
        ignore_soft: bool = False,
        leaving: Collection[int] = (),
        behaviour: Behaviour = OURS,
    ) -> None:
        self.disk_moves = disk_moves
        self.instance_moves = instance_moves
        self.restricted = restricted
        self.evacuate_only = evacuate_only
        self.ignore_soft = ignore_soft
        self.leaving = frozenset(leaving)
        self.behaviour = behaviour

    def minding_soft_limits(self, ignore: bool) -> MoveRules:
        """Return a copy that enforces soft limits, or ignores them if `ignore` is true."""
        return self if ignore == self.ignore_soft else self._with(ignore_soft=ignore)

    def also_on_online_nodes(self) -> MoveRules:
        """Return a copy that also permits moves of instances on online nodes."""
        return self._with(evacuate_only=False)

    def while_leaving(self, nodes: Collection[int]) -> MoveRules:
        """Return a copy for a plan that powers down `nodes`; hsqueeze treats them as dead."""
        return self._with(leaving=nodes if self.behaviour.frees_online_nodes else ())

    @property
    def limit_policies(self) -> LimitPolicies:
        """Return which limits are enforced for which kind of move."""
        return limit_policies_of_plan(self.ignore_soft, self.leaving)

    def _with(self, **changes: bool | Collection[int]) -> MoveRules:
        options: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        return MoveRules(**options | changes)

    def allows_of(self, kind: MoveKind, primary: Node, secondary: Node) -> bool:
        """Return whether an instance on these nodes may make a move of `kind`."""
        return self.allows(
            kind, primary.online, secondary.online, self.limit_policies.reaches(primary)
        )

    def allows(
        self, kind: MoveKind, primary_online: bool, secondary_online: bool, primary_up: bool
    ) -> bool:
        """Return whether an instance may make a move of `kind`, by the condition of its nodes.

        A node that is online accepts instances. `primary_up`: whether the primary node can be
        reached. A drained node is up, but not online.
        """
        if kind.copies_first and not (primary_up or self.behaviour.copies_from_offline):
            return False
        if self.evacuate_only and primary_online and secondary_online:
            return False
        if kind.drbd and kind.targeted and not self.disk_moves:
            return False
        if kind.letters == ("r",):
            return True
        if not self.instance_moves:
            return False
        if kind.secondary_leads and not secondary_online:
            return False
        if self.restricted and kind.drbd:
            if kind.letters == ("f", "r", "f"):
                return False
            return kind.letters == ("f",) or not primary_online
        return True


def kinds_to(state: State, instance: Instance, target: int, rules: MoveRules) -> Iterator[MoveKind]:
    """Yield the kinds of moves that `rules` allow and that make `target` the primary."""
    nodes, present = state.cluster.nodes, state.where[instance.name]
    ends = nodes[present[0]], nodes[present[-1]]
    for kind in MOVE_KINDS:
        if kind.drbd != (len(present) > 1) or not rules.allows_of(kind, *ends):
            continue
        if kind.targeted == (target in present):
            continue
        if places_after(present, kind.steps(present, target))[0] == target:
            yield kind


def possible(
    state: State,
    fixed: Capacities,
    move: Move,
    rules: MoveRules,
) -> bool:
    """Make the steps of `move` on the state as long as the limits allow each step.

    Return whether they allow all steps. The caller must undo the change of the state.  Soft limits
    are not enforced for a move off a node that is not online. `fixed`: the capacities of the nodes.
    """
    instance, present = move.instance, move.before
    nodes = [state.cluster.nodes[index] for index in present]
    limits = MoveLimits(state, fixed, rules.limit_policies.all_the_way(nodes))
    for step in move.steps:
        after = places_after(present, [step])
        state.remove(instance, present)
        if not limits.allow(instance, present, after):
            return False
        state.place(instance, after)
        present = after
    return True


class ScoredMoves:
    """Moves to be made together, in order: one move, or the moves of a colocation group.

    Attributes
    ----------
    moves:
        The moves. Each is legal after the moves before it.
    score:
        The score of the balanced nodes after all moves; lower is better.
    violated:
        How many hard constraints the members of a colocation group violate after all moves.
    """

    __slots__ = ("moves", "score", "violated")

    def __init__(self, moves: Sequence[Move], score: float, violated: int = 0) -> None:
        self.moves = tuple(moves)
        self.score = score
        self.violated = violated

    @property
    def copied(self) -> int:
        """Return how many MiB the moves copy between nodes."""
        return sum(move.copied for move in self.moves)

    @property
    def nodes(self) -> frozenset[int]:
        """Return all nodes that the moves change, by index."""
        return frozenset().union(*(move.nodes for move in self.moves))
