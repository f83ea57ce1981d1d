"""Global N+1 before and after a plan: whose failure must be survivable in the end, and is not.

In the simulation of a failure only online nodes take over, in every mode: a plan is about
what happens once it is carried out.
"""

from __future__ import annotations

from iallocator.n1.bounds import Demand, TargetCapacity, check_bounds, demand_of
from iallocator.n1.exact import NO_LOSS, Loss
from iallocator.n1.growth import Down
from iallocator.n1.of_group import first_not_survived, losses_of, not_survived, simulation_of
from iallocator.n1.rules import LOST, SAFE, Rules
from iallocator.n1.tolerance import N1Cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from iallocator.constraints.relations import Relations
    from iallocator.model.cluster import Group
    from iallocator.model.state import State
    from iallocator.options.settings import Settings

__all__ = ["CAME", "LEFT", "MOVED", "FailureGuard", "Survival", "doomed", "mode_of"]

LEFT, MOVED, CAME = range(3)
"""What a plan does to a group: somebody only leaves it; somebody moves within it; somebody comes
from another group, or is created."""

LENIENT = ("no-new", "no-worse")
"""The modes whose simulation offers online nodes only; any other is judged as the first."""


ASKED = 50
"""How often one planner asks who is lost, about: the more often, the sooner arrays pay."""


def mode_of(settings: Settings, group: Group) -> str:
    """How a plan for `group` is judged; hbal and hsqueeze know no global N+1."""
    if not settings.behaviour.plans_keep_n1 and not settings.says("n1"):
        return "off"
    return settings.by_group.get(group.index, settings).n1


def doomed(
    state: State,
    group: Group,
    failing: Sequence[int],
    relations: Relations | None = None,
    mode: str = LENIENT[0],
) -> list[int]:
    """Those of `failing`, nodes of `group`, whose failure could not be survived as `state` is."""
    return not_survived(state, group, _rules(relations, mode), failing)


def _rules(relations: Relations | None, mode: str) -> Rules:
    """The rules by which plans are judged; those that must be together are lost together."""
    mode = mode if mode in LENIENT else LENIENT[0]
    return Rules(mode, None if relations is None else relations.units())


class Survival:
    """The failures in `group` that a plan, which begins at `state`, must leave survivable.

    ``no-worse``: those that could be survived before it, and no other may lose more than
    before, by exact search.  ``no-new``: those of the online nodes that could be survived
    before it; where only one node is online, which nobody could take over from, only if somebody
    comes from elsewhere.  ``strict``: those of all nodes that are online in the end, but where
    instances only leave, which is no reason to ask for more than ``no-new``.  ``off``: none.
    Nodes that the plan powers down or on are judged as they are when one asks.

    Attributes
    ----------
    saved:
        The online nodes whose failure could be survived at the beginning.
    """

    __slots__ = (
        "_alone", "_dead", "_down", "_known", "_losses", "_mode", "group", "relations", "saved",
    )  # fmt: skip

    def __init__(
        self, state: State, group: Group, mode: str, relations: Relations | None = None
    ) -> None:
        self.relations = relations
        self.group = group
        self._mode = mode
        self._known: tuple[State, N1Cache] = state, N1Cache()
        self.saved: frozenset[int] = frozenset()
        self._alone: frozenset[int] = frozenset()
        self._losses: dict[int, Loss] = {}
        online = self.online(state)
        self._dead = frozenset(group.nodes).difference(online)
        self._down = Down(state.cluster, group, self.rules, self._dead)
        if mode != "off" and len(online) == 1:
            self._alone = frozenset(online).difference(self.doomed(state, online))
        if mode != "off" and len(online) > 1:
            if self.rules.exact:
                found = losses_of(state, group, self.rules, online)
                self._losses = {index: loss for index, loss in found.items() if loss.instances}
            lost = self._losses if self.rules.exact else self.doomed(state, online)
            self.saved = frozenset(online).difference(lost)

    def online(self, state: State) -> list[int]:
        """The nodes of the group that are online."""
        nodes = state.cluster.nodes
        return [index for index in self.group.nodes if nodes[index].online]

    @property
    def rules(self) -> Rules:
        """How failures are judged, with the nodes that are online now."""
        return _rules(self.relations, self._mode)

    @property
    def strict(self) -> bool:
        """Whether the failures of all nodes must be survivable."""
        return self._mode == "strict"

    def doomed(self, state: State, failing: Sequence[int]) -> list[int]:
        """Those of `failing` whose failure could not be survived as `state` is."""
        return not_survived(state, self.group, self.rules, failing, self._cache(state))

    def first_doomed(self, state: State, failing: Sequence[int]) -> int | None:
        """The first of `doomed`, or None; most often known with less work."""
        return first_not_survived(state, self.group, self.rules, failing, self._cache(state))

    def _cache(self, state: State) -> N1Cache:
        """What is known of `state`, the last that was asked about."""
        if self._known[0] is not state:
            self._known = state, N1Cache()
        return self._known[1]

    def lost(self, state: State, change: int = MOVED, rescues: bool = False) -> list[int]:
        """The nodes whose failure should be survivable in `state`, and is not; or loses more.

        `change`: what the plan did to the group.  `rescues`: with ``no-worse`` who comes back
        from a node that was not online counts as lost before, whichever failed.
        """
        if self.strict and change != LEFT:
            return self.doomed(state, self.online(state))
        found = self.doomed(state, self._kept(state, change)) + self.worse(state)
        return self._beyond_rescue(state, found) if rescues and self.rules.exact else found

    def _kept(self, state: State, change: int) -> list[int]:
        """The nodes, online in `state`, whose failure could be survived at the beginning."""
        saved = self.saved | self._alone if change == CAME else self.saved
        return [index for index in self.online(state) if index in saved]

    def first_lost(self, state: State) -> int | None:
        """The first that `lost` finds in `state`, or None."""
        failing = self.online(state) if self.strict else self._kept(state, MOVED)
        found = self.first_doomed(state, failing)
        return next(iter(self.worse(state)), None) if found is None else found

    def _beyond_rescue(self, state: State, failing: Sequence[int]) -> list[int]:
        """Those of `failing` that lose more than before and who came back."""
        back = self._down.back(state) if failing else (0, 0)
        if not back[0]:
            return list(failing)
        found = losses_of(state, self.group, self.rules, failing)
        return [
            index
            for index in failing
            if found[index].exceeds(self._losses.get(index, NO_LOSS).with_more(*back))
        ]

    def down(self, state: State) -> int:
        """How many instances are on nodes that were not online at the beginning, and are not now.

        Counted where it matters: with ``no-worse``.
        """
        if not self.rules.exact:
            return 0
        nodes = state.cluster.nodes
        return sum(len(state.primaries[i]) for i in self._dead if not nodes[i].online)

    def worse(self, state: State) -> list[int]:
        """The nodes whose failure was lost at the beginning, and loses more in `state`."""
        if not self._losses:
            return []
        left = [index for index in self.online(state) if index in self._losses]
        found = losses_of(state, self.group, self.rules, left)
        return [index for index in left if found[index].exceeds(self._losses[index])]

    def problem(self, state: State) -> str:
        """What `lost` finds, in words, with the first instance without a place; "" if nothing."""
        lost = self.first_lost(state)
        if lost is None:
            return ""
        found = simulation_of(state, self.group, self.rules, failures=ASKED).fail(lost)
        name = state.cluster.nodes[lost].name
        told = f"the failure of {name} would not be survived"
        if lost in self._losses:
            return f"more would be lost if {name} failed"
        return f"{told}: {found.instance.name} is lost, {found.why}" if found else told


class FailureGuard:
    """Says after each move of a plan whether a failure has become one that is not survived.

    What the failures ask for is kept from one move to the next; only what a move touches
    is looked at again.  No failure that could be survived once is lost later, in
    ``strict`` mode also not one that moves of the plan have made survivable.  `rescues`: as for
    `Survival.lost`.
    """

    __slots__ = ("_demands", "_rescues", "_rules", "_saved", "_state", "_survival", "_suspect")

    def __init__(self, survival: Survival, state: State, rescues: bool = False) -> None:
        self._rescues = rescues
        self._survival = survival
        self._state = state
        self._rules = survival.rules
        self._suspect = -1  # the failure that spoke against a move last
        self._saved = set(survival.saved)
        self._demands = {index: demand_of(state, index, self._rules) for index in self._saved}

    def keeps(self, touched: Collection[int] | None = None) -> bool:
        """Whether all is well as the state is now; `touched` are the nodes that have changed.

        None: any may have.  Those that `moved` knows of count no more.
        """
        state, rules, group = self._state, self._rules, self._survival.group
        if self._rescues:
            return not self._survival.lost(state, rescues=True)
        targets = rules.targets(state.cluster, group)
        room: TargetCapacity | None = None
        unknown = []
        for index in self._saved:
            demand = self._demand(index, touched)
            if touched is not None and _unaffected(index, demand, touched):
                continue
            if room is None:
                room = TargetCapacity(state, targets)
            kind, _ = check_bounds(state, index, demand, rules, targets, room)
            if kind == LOST:
                return False
            if kind != SAFE:
                unknown.append(index)
        return not (self._refuted(unknown) or self._survival.worse(state))

    def _refuted(self, unknown: Sequence[int]) -> bool:
        """Whether one of `unknown` is not survived; who spoke against a move is asked first."""
        first = [index for index in unknown if index == self._suspect]
        rest = [index for index in unknown if index != self._suspect]
        for part in filter(None, (first, rest)):
            lost = self._survival.first_doomed(self._state, part)
            if lost is not None:
                self._suspect = lost
                return True
        return False

    def _demand(self, index: int, touched: Collection[int] | None) -> Demand:
        if touched is None or index in touched:
            return demand_of(self._state, index, self._rules)
        return self._demands[index]

    def moved(self, touched: Collection[int]) -> None:
        """Go on from the state as it is now; `touched` are the nodes that have changed."""
        state = self._state
        if self._survival.strict:
            rest = [index for index in self._survival.online(state) if index not in self._saved]
            safe = set(rest).difference(self._survival.doomed(state, rest))
            self._saved |= safe
            touched = safe.union(touched)
        for index in self._saved.intersection(touched):
            self._demands[index] = demand_of(state, index, self._rules)


def _unaffected(index: int, demand: Demand, touched: Collection[int]) -> bool:
    """Whether a failure asks nothing of the nodes that have changed."""
    if demand.movers or demand.intricate or index in touched:
        return False
    return demand.failovers.keys().isdisjoint(touched)
