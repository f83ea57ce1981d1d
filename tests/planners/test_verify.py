"""Test that the verifier rejects wrong plans, each of which violates one limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from iallocator.constraints import relations_of
from iallocator.model.cluster import Cluster
from iallocator.model.columns import MEMORY
from iallocator.model.moves import DRBD_FAILOVER, FAILOVER_TO, REPLACE_SECONDARY, Move
from iallocator.model.state import State
from iallocator.n1 import Failure
from iallocator.options.settings import Settings
from iallocator.planners.outcome import Failures
from iallocator.planners.plan import PlanEntry
from iallocator.planners.plan_limits import PlanLimits, PowerChanges
from iallocator.planners.restarts import Restarts
from iallocator.planners.verify import verify_moves, verify_transition
from iallocator.transition.assemble import plan_transition, transition_of_moves
from iallocator.transition.requirements import Demands, NodeChanges
from iallocator.transition.resources import room
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading
from tests import builders
from tests.builders import Json

Wanted = tuple[str, str]
"""An instance, and its elementary moves, such as ``f r:node3`` or ``fa:node2``."""

KINDS = {"f": DRBD_FAILOVER, "r": REPLACE_SECONDARY, "fa": FAILOVER_TO}


def rbd(node: str, **members: Any) -> Json:
    """Return an instance on shared storage on `node`."""
    return builders.instance(node, **{"disk_template": "rbd", **members})


def drbd(*nodes: str, **members: Any) -> Json:
    """Return a drbd instance on two nodes, primary first."""
    return builders.instance(*nodes, **members)


class Plan:
    """A cluster, and a plan on it that the verifier has not checked."""

    def __init__(self, document: Json, *moves: Wanted, **settings: Any) -> None:
        self.cluster: Cluster = read_cluster(document, Reading(static_kvm_memory=0))
        self.state = State(self.cluster)
        self.settings = Settings()
        for name, value in settings.items():
            setattr(self.settings, name, value)
        where = dict(self.state.where)
        self.entries = [PlanEntry(self._move(where, *move)) for move in moves]

    def _move(self, where: dict[str, tuple[int, ...]], name: str, letters: str) -> Move:
        index = {node.name: node.index for node in self.cluster.nodes}
        instance = self.cluster.instance_named(name)
        assert instance is not None
        before = nodes = where[name]
        steps = []
        for word in letters.split():
            letter, _, target = word.partition(":")
            steps.append((KINDS[letter], index[target] if target else nodes[1]))
            nodes = (nodes[1], nodes[0]) if letter == "f" else nodes
        move = Move.by_steps(instance, before, steps)
        where[name] = move.after
        return move

    def problems(self, **limits: Any) -> str:
        """Return the verifier's messages about the moves, in one text."""
        relations = relations_of(self.cluster)
        held = PlanLimits(self.settings, relations, **limits)
        return "\n".join(map(str, verify_moves(self.state, self.entries, held)))

    def of_steps(self, **limits: Any) -> str:
        """Return the verifier's messages about the steps, verified with the moves or alone."""
        moves = [entry.move for entry in self.entries]
        made = transition_of_moves(self.cluster, room(self.state), moves)
        held = PlanLimits(self.settings, relations_of(self.cluster), **limits)
        known, found = Failures(held), verify_transition(self.state, made, held)
        verify_moves(self.state, self.entries, held, known)
        assert verify_transition(self.state, made, held, failures=known) == found
        return "\n".join(found)


TAGGED = ("htools:iextags:service", "htools:migration:hv")


def scenario(
    instances: Mapping[str, Json],
    changes: Mapping[str, Json] | None = None,
    nodes: int | Mapping[str, int] = 3,
    **members: Any,
) -> Json:
    """Return a cluster with exclusion tags by service and migration tags by hypervisor."""
    return builders.cluster(nodes, instances=instances, changes=changes, tags=TAGGED, **members)


def small(group: str, document: Json, **members: Any) -> Json:
    """Return `document` with its node group `group` changed by `members`."""
    document["nodegroups"][f"uuid-{group}"] |= members
    return document


STUCK = ("cannot-stop", "no-force-stop")
TWO = {"east": 2, "west": 2}
LITTLE = builders.policy(high=builders.spec(512, 1, 1024, 1, 1))
BIG = {"memory": 5000}

FRAGMENTING = {
    "a": rbd("node1", memory=4500), "b": rbd("node2", memory=3000),
    "c": rbd("node3", memory=3000), "d": rbd("node1"), "e": rbd("node1"),
}  # fmt: skip
"""A cluster where a large instance could not restart after two small ones have moved."""

WRONG: dict[str, tuple[Plan, str]] = {
    "offline": (
        Plan(scenario({"i": rbd("node1")}, {"node2": {"offline": True}}), ("i", "fa:node2")),
        "node2 is not online",
    ),
    "drained": (
        Plan(scenario({"i": rbd("node1")}, {"node2": {"drained": True}}), ("i", "fa:node2")),
        "node2 is not online",
    ),
    "not vm_capable": (
        Plan(scenario({"i": rbd("node1")}, {"node2": {"vm_capable": False}}), ("i", "fa:node2")),
        "node2 is not online",
    ),
    "memory": (
        Plan(scenario({"i": rbd("node1", **BIG), "j": rbd("node2", **BIG)}), ("i", "fa:node2")),
        "node2: needs 5000 MiB memory, 3192 free",
    ),
    "memory on the way": (
        Plan(scenario({"i": drbd("node1", "node2", **BIG), "j": rbd("node2", **BIG)}),
             ("i", "f r:node3 f")),
        "node2: needs 5000 MiB memory",
    ),
    "disk": (
        Plan(scenario({"i": drbd("node1", "node2", disk=1024)}, {"node3": {"free_disk": 900}}),
             ("i", "r:node3")),
        "node3: needs 1152 MiB disk, 900 free",
    ),
    "cpu ratio": (
        Plan(scenario({"i": rbd("node1", vcpus=5), "j": rbd("node2", vcpus=4)}, cpus=2),
             ("i", "fa:node2")),
        "node2: virtual cpus in use would be 9",
    ),
    "memory kept for failovers": (
        Plan(scenario({"i": rbd("node1", memory=4000), "j": drbd("node3", "node2", memory=5000)}),
             ("i", "fa:node2")),
        "are reserved for failovers",
    ),
    "exclusion tags": (
        Plan(
            scenario({
                "i": rbd("node1", tags=["service:a"]),
                "j": rbd("node2", tags=["service:a"]),
            }),
            ("i", "fa:node2"),
        ),
        "exclusion tags (service:a)",
    ),
    "migration tags": (
        Plan(scenario({"i": rbd("node1")}, {"node1": {"tags": ["hv:new"]}}), ("i", "fa:node2")),
        "node2 does not receive what node1 requires: hv:new",
    ),
    "migration tags of a failover": (
        Plan(scenario({"i": drbd("node1", "node2")}, {"node1": {"tags": ["hv:new"]}}), ("i", "f")),
        "does not receive what node1 requires",
    ),
    "together": (
        Plan(scenario({n: rbd("node1", tags=["iallocator:colocate:must:web"]) for n in "ij"}),
             ("i", "fa:node2")),
        "must be together with",
    ),
    "apart": (
        Plan(scenario({n: rbd(f"node{k}", tags=["iallocator:separate:must:db"])
                    for k, n in ((1, "i"), (2, "j"))}),
             ("i", "fa:node2")),
        "must be apart from",
    ),
    "apart on the way": (
        Plan(scenario({n: rbd(f"node{k}", tags=["iallocator:separate:must:db"])
                    for k, n in ((1, "i"), (2, "j"))}),
             ("i", "fa:node2"), ("j", "fa:node3")),
        "move 1: i: must be apart from",
    ),
    "hard score": (
        Plan(scenario({"i": rbd("node1", tags=["iallocator:score:node2:-INFINITY"])}),
             ("i", "fa:node2")),
        "must be not on node2",
    ),
    "hard score of a secondary": (
        Plan(scenario({"i": drbd("node1", "node2", tags=["iallocator:score:node3:-INFINITY"])}),
             ("i", "r:node3")),
        "its secondary must be not on node3",
    ),
    "into maintenance": (
        Plan(scenario({"i": rbd("node1")}, {"node2": {"tags": ["iallocator:maintenance"]}}),
             ("i", "fa:node2")),
        "must be not on node2",
    ),
    "out of maintenance": (
        Plan(scenario({"i": rbd("node1")}, {"node1": {"tags": ["iallocator:maintenance"]}}),
             ("i", "fa:node2")),
        "must be on node1",
    ),
    "cannot be stopped": (
        Plan(scenario({"i": rbd("node1", tags=[f"iallocator:{mark}" for mark in STUCK])}),
             ("i", "fa:node2")),
        "i: cannot be stopped",
    ),
    "another group": (
        Plan(scenario({"i": rbd("node1")}, nodes=TWO), ("i", "fa:node3")),
        "must not change its group",
    ),
    "N+1 on shared storage": (
        Plan(scenario(FRAGMENTING), ("d", "fa:node2"), ("e", "fa:node3")),
        "move 2: the failure of node1 would not be tolerated",
    ),
}  # fmt: skip
"""Kind of error -> a wrong plan, and a part of the verifier's message about it."""


@pytest.mark.parametrize("case", WRONG)
def test_verify_moves_names_the_violated_limit(case: str) -> None:
    """The verifier names the violated limit of a wrong plan."""
    plan, words = WRONG[case]
    assert words in plan.problems()


def test_verify_moves_ends_at_a_move_that_begins_on_another_node() -> None:
    """If a move starts at a wrong node, the verifier reports it and checks no later move."""
    plan = Plan(scenario({"i": rbd("node1")}), ("i", "fa:node2"), ("i", "fa:node3"))
    assert plan.problems() == ""
    plan.entries.reverse()
    assert plan.problems() == "move 1: i: is not where the step begins"


BETWEEN: dict[str, tuple[Plan, str]] = {
    "networks": (
        Plan(small("east", scenario({"i": rbd("node1", nics=[{"network": "lan"}])}, nodes=TWO),
                   networks=["lan"]), ("i", "fa:node3")),
        "group west is not connected to network lan",
    ),
    "policy": (
        Plan(small("west", scenario({"i": rbd("node1")}, nodes=TWO), ipolicy=LITTLE),
             ("i", "fa:node3")),
        "the policy of group west rejects it",
    ),
    "unallocable": (
        Plan(small("west", scenario({"i": rbd("node1")}, nodes=TWO), alloc_policy="unallocable"),
             ("i", "fa:node3")),
        "group west is unallocable",
    ),
    "split": (
        Plan(scenario({"i": drbd("node1", "node2")}, nodes=TWO), ("i", "r:node3")),
        "its nodes are in two groups",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BETWEEN)
def test_verify_moves_names_the_limit_of_the_other_group(case: str) -> None:
    """If instances may change their group, the verifier checks the limits of the new group."""
    plan, words = BETWEEN[case]
    assert words in plan.problems(between_groups=True)


def test_verify_moves_accepts_a_route_through_both_groups() -> None:
    """The verifier accepts a secondary in another group as a step of a move to that group."""
    plan = Plan(scenario({"i": drbd("node1", "node2")}, nodes=TWO), ("i", "r:node3 f r:node4"))
    assert plan.problems(between_groups=True) == ""


def test_verify_moves_reports_an_instance_left_on_a_freed_node() -> None:
    """The verifier reports an instance that stays on, or moves to, a node to be powered down."""
    plan = Plan(scenario({"i": rbd("node1"), "j": rbd("node2")}), ("i", "fa:node2"))
    assert plan.problems(power=PowerChanges(off=frozenset({0}))) == ""
    assert "node2 is to be left, nothing may come to it" in plan.problems(
        power=PowerChanges(off=frozenset({1}))
    )
    assert "node2 is not empty: i" in plan.problems(power=PowerChanges(off=frozenset({1})))


def test_verify_moves_accepts_moves_to_a_node_that_is_powered_on_first() -> None:
    """The verifier accepts moves to a standby node that the plan powers on first."""
    plan = Plan(scenario({"i": rbd("node1")}, {"node2": {"offline": True}}), ("i", "fa:node2"))
    assert plan.problems(power=PowerChanges(on=frozenset({1}))) == ""


def test_verify_moves_accepts_soft_violations_off_a_dead_node() -> None:
    """The verifier accepts violations of soft limits, but not of hard ones, off an offline node."""
    tagged = {"i": rbd("node1", tags=["service:a"]), "j": rbd("node2", tags=["service:a"])}
    dead = {"node1": {"offline": True}}
    assert Plan(scenario(tagged, dead), ("i", "fa:node2")).problems() == ""
    assert Plan(scenario(tagged), ("i", "fa:node2"), ignore_soft_errors=True).problems() == ""
    full = {"i": rbd("node1", **BIG), "j": rbd("node2", **BIG)}
    assert "needs 5000 MiB" in Plan(scenario(full, dead), ("i", "fa:node2")).problems()


SPREAD = (("d", "fa:node2"), ("e", "fa:node3"))


@pytest.mark.parametrize(
    ("mode", "lost"), [("no-new", True), ("no-worse", True), ("strict", True), ("off", False)]
)
def test_verify_moves_checks_n1_in_the_effective_mode(mode: str, lost: bool) -> None:
    """The verifier checks N+1 in the effective mode.

    The second move of the plan uses the last failover capacity for a large instance.
    """
    found = Plan(scenario(FRAGMENTING), *SPREAD, n1=mode).problems()
    assert ("the failure of node1" in found) is lost


def test_verify_moves_with_n1_of_a_group_overrides_that_of_the_rest() -> None:
    """The verifier uses the N+1 mode of a group for that group's nodes."""
    plan = Plan(scenario(FRAGMENTING), *SPREAD)
    lenient = Settings()
    lenient.n1 = "off"
    plan.settings.by_group = {0: lenient}
    assert plan.problems() == ""


def test_verify_transition_names_the_limit_violated_at_its_end() -> None:
    """The verifier checks the final placement of the steps against the constraints."""
    for case in ("exclusion tags", "together", "apart", "hard score", "another group"):
        plan, words = WRONG[case]
        assert words in plan.of_steps(), case
    for case in ("migration tags", "memory", "offline"):
        plan, words = WRONG[case]
        assert words in plan.of_steps(), case


def test_verify_transition_reports_a_stop_of_an_instance_that_must_keep_running() -> None:
    """The verifier rejects a step that stops an instance which must keep running."""
    full = {"a": rbd("node1", memory=6000), "b": rbd("node2", memory=6000)}
    both = {n: {**one, "tags": ["iallocator:keep-running"]} for n, one in full.items()}
    plan = Plan(scenario(both, nodes=2))
    made = plan_transition(plan.state, {"a": (1,), "b": (0,)})
    assert any(step.action.kind == "stop" for step in made.steps)
    held = PlanLimits(plan.settings, relations_of(plan.cluster))
    reported = "\n".join(verify_transition(plan.state, made, held))
    assert "must keep running, and is stopped" in reported


def test_verify_transition_reports_a_drained_target() -> None:
    """The verifier rejects a step that moves an instance to a drained node."""
    plan = Plan(scenario({"i": rbd("node1")}), ("i", "fa:node2"))
    assert plan.of_steps() == ""
    made = plan_transition(plan.state, {"i": (1,)}, demands=Demands(nodes=NodeChanges(drain=[1])))
    held = PlanLimits(plan.settings)
    assert "node2 is to be left" in "\n".join(verify_transition(plan.state, made, held))


@pytest.mark.parametrize(
    ("tag", "output"),
    [
        ("service:web", "meets another with exclusion tag service:web on node2"),
        ("iallocator:separate:must:web", "apart from b (tag iallocator:separate:must:web)"),
    ],
)
def test_transition_without_waits_between_separated_instances_is_rejected(
    tag: str, output: str
) -> None:
    """The verifier rejects steps where a separated instance arrives before the other has left."""
    document = scenario({"a": rbd("node1", tags=[tag]), "b": rbd("node2", tags=[tag])})
    plan = Plan(document, ("b", "fa:node3"), ("a", "fa:node2"))
    assert plan.problems() == ""
    assert output in plan.of_steps()


def test_transition_that_starts_an_instance_too_early_is_rejected() -> None:
    """The verifier rejects steps that restart a dependent instance too early.

    Both instances restart elsewhere after their node has failed, and no dependency orders them.
    """
    tags = ["iallocator:order:after:a"]
    document = scenario(
        {"a": rbd("node1"), "b": rbd("node1", tags=tags)}, {"node1": {"offline": True}}
    )
    plan = Plan(document, ("a", "fa:node2"), ("b", "fa:node3"))
    assert "b starts, and must start after a" in plan.of_steps()


def test_nodes_powered_off_without_a_move_are_checked_for_n1() -> None:
    """The verifier checks N+1 also if a plan powers nodes off without any move."""
    plan = Plan(builders.cluster(3, instances={"a": rbd("node1"), "b": rbd("node2", **BIG)}))
    free = plan.state.columns[MEMORY][1]
    plan.state.columns[MEMORY][1] = 1
    assert free > 1
    found = plan.problems(power=PowerChanges(off=frozenset({2})))
    assert "the failure of node1 would not be tolerated" in found


def test_failures_known_from_the_moves_are_not_simulated_again_for_the_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The verifier simulates failures for the steps only if their final placement is a new one."""
    simulated: list[Failure] = []
    succeed = Restarts.succeed

    def counted(restarts: Restarts, failure: Failure, by_score_only: bool = False) -> object:
        simulated.append(failure)
        return succeed(restarts, failure, by_score_only)

    monkeypatch.setattr(Restarts, "succeed", counted)
    residents = {f"i{k}": rbd("node1") for k in range(3)} | {"far": rbd("node4")}
    moves = ("i0", "fa:node2"), ("i1", "fa:node3")
    plan = Plan(builders.cluster(5, instances=residents), *moves, n1="no-new")
    held = PlanLimits(plan.settings, None)
    known = Failures(held)
    for count, some in ((5, plan.entries), (7, plan.entries[:1])):
        made = transition_of_moves(plan.cluster, room(plan.state), [entry.move for entry in some])
        verify_moves(plan.state, some, held, known)
        verify_transition(plan.state, made, held, failures=known)
        assert len(simulated) == count, simulated
