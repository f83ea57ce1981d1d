"""Test that separated instances never share a node, at any moment of a transition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from random import Random

import pytest

from iallocator.aliases import Nodes
from iallocator.model.moves import Move
from iallocator.model.state import State
from iallocator.transition.assemble import plan_transition, transition_of_moves
from iallocator.transition.paths import shortest
from iallocator.transition.requirements import Demands
from iallocator.transition.resources import Place, room
from iallocator.transition.separations import Separations
from iallocator.transition.transition import Transition
from tests.seeds import seeds

from .scenarios import machine, make_cluster

Where = Mapping[str, Nodes]


class Case:
    """A cluster with separated instances, and their target placement."""

    def __init__(self, seed: int, drbd: bool = False) -> None:
        rng = Random(f"apart/{seed}/{drbd}")
        count = rng.randint(2, 4)
        names = [f"vm{k}" for k in range(rng.randint(3, 6))]
        self.tags = {name: rng.choice(("", "role:a", "role:b")) for name in names}
        self.pairs = [pair for pair in combinations(names, 2) if rng.random() < 0.2]
        first, last = self._places(rng, count, names, drbd), self._places(rng, count, names, drbd)
        made = [machine(name, first[name], 1, 1) for name in names]
        for one in made:
            one.exclusion = (self.tags[one.name],) if self.tags[one.name] else ()
        self.wanted = last
        self.demands = Demands(apart=lambda names: [(one, other, "") for one, other in self.pairs])
        self.state = State(make_cluster(count, made, memory=100))

    def _places(self, rng: Random, count: int, names: list[str], drbd: bool) -> dict[str, Nodes]:
        """Return a random placement that keeps separations, if there are enough nodes."""
        found: dict[str, Nodes] = {}
        for name in names:
            nodes = list(range(count))
            rng.shuffle(nodes)
            home = next((n for n in nodes if not self.meets(name, n, found)), nodes[0])
            secondary = rng.choice([n for n in range(count) if n != home])
            found[name] = (home, secondary) if drbd else (home,)
        return found

    def meets(self, name: str, node: int, where: Where) -> list[str]:
        """Return the instances on `node` from which `name` is separated."""
        return [
            other
            for other, nodes in where.items()
            if other != name and nodes[0] == node and self._apart(name, other)
        ]

    def _apart(self, one: str, other: str) -> bool:
        alike = bool(self.tags[one]) and self.tags[one] == self.tags[other]
        return alike or tuple(sorted((one, other))) in self.pairs

    @property
    def peaceful(self) -> bool:
        """Return whether all separations are kept initially and at the targets."""
        return not any(
            self.meets(name, nodes[0], where)
            for where in (self.state.where, self.wanted)
            for name, nodes in where.items()
        )


def moments(transition: Transition) -> Iterator[tuple[frozenset[int], frozenset[int]]]:
    """Yield the started and the completed steps at each moment that dependencies permit."""
    waits = {step.number: set(step.after) for step in transition.steps}
    waiting = [(frozenset[int](), frozenset[int]())]
    seen = set(waiting)
    while waiting:
        begun, done = waiting.pop()
        yield begun, done
        following = [(begun, done | {n}) for n in begun - done]
        following += [(begun | {n}, done) for n in waits if n not in begun and waits[n] <= done]
        for moment in following:
            if moment not in seen:
                seen.add(moment)
                waiting.append(moment)


def meetings(case: Case, transition: Transition) -> list[str]:
    """Return the separated instances that share a node at some moment."""
    tasks = {step.number: step.action for step in transition.steps}
    found = []
    for begun, done in moments(transition):
        at = {
            name: {nodes[0]}
            for name, nodes in case.state.where.items()
        }  # fmt: skip
        for number in sorted(begun):  # a later step of an instance has a higher number
            task = tasks[number]
            after = _homes(task.after)
            at[task.name] = after if number in done else after | _homes(task.before)
        for one, other in combinations(sorted(at), 2):
            for node in at[one] & at[other]:
                if case.meets(one, node, {other: (node,)}):
                    found.append(f"{one} and {other} on {node}: {sorted(begun)}, {sorted(done)}")
    return found


def _homes(place: Place | None) -> set[int]:
    return {place.nodes[0]} if place is not None and place.running else set()


CASES = [(seed, drbd) for drbd in (False, True) for seed in seeds(20, 60)]


@pytest.mark.parametrize(("seed", "drbd"), CASES)
def test_planned_transition_keeps_separate_instances_apart_at_any_moment(
    seed: int, drbd: bool
) -> None:
    """A transition keeps separations at any moment, for any overlap of steps."""
    case = Case(seed, drbd)
    transition = plan_transition(case.state, case.wanted, demands=case.demands)
    if case.peaceful and len(transition.steps) <= 9:
        assert meetings(case, transition) == []
        assert drbd or transition.left == []


def test_generated_cases_without_conflicts_are_many_and_some_need_waits() -> None:
    """Some generated cases violate separations without extra dependencies."""
    cases = [case for case in (Case(*one) for one in CASES) if case.peaceful]
    assert len(cases) > 12
    met = 0
    for case in cases:
        for one in case.state.cluster.instances:
            one.exclusion = ()
        transition = plan_transition(case.state, case.wanted)
        met += len(transition.steps) <= 9 and bool(meetings(case, transition))
    assert met > 10


@pytest.mark.parametrize("seed", seeds(20, 60))
def test_legal_moves_keep_separate_instances_apart_side_by_side(seed: int) -> None:
    """Moves that would violate a separation if they overlap depend on each other."""
    case = Case(seed)
    moves, where = [], dict(case.state.where)
    for one in case.state.cluster.instances:
        goes = case.wanted[one.name]
        if goes != where[one.name] and not case.meets(one.name, goes[0], where):
            moves.append(Move(one, where[one.name], goes, shortest(where[one.name], goes)))
            where[one.name] = goes
    separations = Separations(
        case.state, {m.instance.name: where[m.instance.name] for m in moves}, case.demands
    )
    transition = transition_of_moves(
        case.state.cluster, room(case.state), moves, separations=separations
    )
    assert transition.remarks == [] or not case.peaceful
    if not any(case.meets(name, n[0], case.state.where) for name, n in case.state.where.items()):
        assert meetings(case, transition) == []


def test_two_separated_instances_exchange_nodes_with_a_stop() -> None:
    """Two separated instances that swap two nodes are never on one node: one is stopped."""
    one, other = machine("vm1", (0,), 1), machine("vm2", (1,), 1)
    one.exclusion = other.exclusion = ("role:a",)
    state = State(make_cluster(2, [one, other]))
    transition = plan_transition(state, {"vm1": (1,), "vm2": (0,)})
    kinds = [step.action.kind for step in transition.steps]
    assert sorted(kinds) == ["failover", "migrate", "start", "stop"]
    assert transition.left == []


def test_wait_for_an_exclusion_tag_has_the_reason() -> None:
    """A step that waits for an exclusion tag has the tag in its reason."""
    one, other = machine("vm1", (0,), 1), machine("vm2", (1,), 1)
    one.exclusion = other.exclusion = ("role:a",)
    state = State(make_cluster(3, [one, other]))
    transition = plan_transition(state, {"vm1": (1,), "vm2": (2,)})
    steps = {step.action.name: step for step in transition.steps}
    assert steps["vm1"].after == [steps["vm2"].number]
    assert steps["vm1"].because == ["exclusion tag role:a on node2"]


def test_instances_apart_by_failure_domain_wait_for_each_other() -> None:
    """Instances separated by room: one enters the room after the other has left it."""
    one, other = machine("vm1", (0,), 1), machine("vm2", (2,), 1)
    state = State(make_cluster(4, [one, other]))
    demands = Demands(
        apart=lambda names: [("vm1", "vm2", "room")],
        sites=lambda node, domain: [f"room:{node // 2}"],
    )
    transition = plan_transition(state, {"vm1": (3,), "vm2": (0,)}, demands=demands)
    kinds = sorted(step.action.kind for step in transition.steps)
    assert kinds == ["failover", "migrate", "start", "stop"]


def test_each_instance_that_shares_a_node_temporarily_is_reported() -> None:
    """Each instance that shares a node with a separated one for a while is reported.

    Two instances fail over from an offline node to one node, one after the other. A third instance
    stays on that node.
    """
    stays, one, other = (
        machine(name, nodes, 1) for name, nodes in (("a", (1, 3)), ("b", (0, 1)), ("c", (0, 1)))
    )
    for each in (stays, one, other):
        each.exclusion = ("role:a",)
    state = State(make_cluster(4, [stays, one, other]))
    wanted = {"b": (2, 1), "c": (3, 1)}
    moves = [
        Move(each, (0, 1), wanted[each.name], shortest((0, 1), wanted[each.name], bool))
        for each in (one, other)
    ]
    separations = Separations(state, wanted)
    transition = transition_of_moves(state.cluster, room(state), moves, separations=separations)
    assert transition.remarks == [
        f"{name} shares node2 for a while: exclusion tag role:a" for name in "bc"
    ]
    assert transition.shares == {("b", 1), ("c", 1)}


def test_only_reported_instances_share_a_node_temporarily() -> None:
    """Only instances that share a node with a separated one for a while are reported.

    One instance passes through before another arrives; only a third one shares the node with it.
    """
    first, stays, third = (machine(name, (0, 1), 1) for name in "abc")
    for each in (first, stays, third):
        each.exclusion = ("role:a",)
    state = State(make_cluster(4, [first, stays, third]))
    wanted = {"a": (2, 1), "b": (1, 2), "c": (3, 1)}
    moves = [
        Move(i, (0, 1), wanted[i.name], shortest((0, 1), wanted[i.name], bool))
        for i in (first, stays, third)
    ]
    separations = Separations(state, wanted)
    transition = transition_of_moves(state.cluster, room(state), moves, separations=separations)
    assert transition.shares == {("c", 1)}
    at = {
        (one.action.name, one.action.after.nodes[0]): one
        for one in reversed(transition.steps)  # the first of each
        if one.action.after is not None
    }
    assert at["a", 2].number in at["b", 1].after


def test_detours_are_searched_unless_they_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Temporary moves are searched unless there are too many nodes to try."""
    held = [machine(f"vm{k}", (k % 2,), 1) for k in range(4)]
    for k, one in enumerate(held):
        one.exclusion = (f"role:{k // 2}",)
    state = State(make_cluster(3, held))
    rooms: list[list[tuple[int, str]]] = []
    for many in (7, 5):
        monkeypatch.setattr("iallocator.transition.separations.MANY_UNITS", many)
        rooms.append(list(Separations(state, {"vm0": (0,), "vm2": (0,)}).room))
    tags = [f"exclusion tag role:{k}" for k in range(2)]
    assert rooms == [[(node, tag) for node in range(nodes) for tag in tags] for nodes in (3, 2)]


def test_instances_that_share_a_node_in_the_end_have_units_for_all() -> None:
    """A node on which two instances share an exclusion tag at the end has a unit for each."""
    held = [machine(name, (0,), 1) for name in ("vm1", "vm2", "vm3")]
    for one in held:
        one.exclusion = ("role:a",)
    state = State(make_cluster(3, held))
    found = Separations(state, {"vm1": (1,), "vm2": (1,), "vm3": None})
    assert [found.room[node, "exclusion tag role:a"] for node in range(3)] == [-2, 2, 1]
