"""Test the steps of a transition, on problems with known answers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from iallocator.aliases import Nodes
from iallocator.ganeti.jobs import transition_document
from iallocator.ganeti.opcodes import opcodes_of
from iallocator.model.cluster import Cluster
from iallocator.model.constraints import MUST, SHOULD
from iallocator.model.instance import Instance
from iallocator.model.state import State
from iallocator.transition.assemble import plan_transition
from iallocator.transition.execution import check
from iallocator.transition.paths import NoWayError, shortest
from iallocator.transition.requirements import Demands, NodeChanges, StopRules
from iallocator.transition.transition import Transition

from .scenarios import machine, make_cluster

Line = tuple[str, str, list[int]]


def plan(
    cluster: Cluster,
    wanted: dict[str, Nodes | None],
    new: Sequence[Instance] = (),
    demands: Demands | None = None,
) -> Transition:
    """Return the transition to the placement `wanted`; assert that it is safe."""
    state = State(cluster)
    transition = plan_transition(state, wanted, new, demands)
    assert check(state, transition) == []
    return transition


def lines(transition: Transition) -> list[Line]:
    """Return kind, instance or node, and dependencies of every step."""
    nodes = transition.cluster.nodes
    return [
        (s.action.kind, s.action.name or nodes[s.action.node or 0].name, s.after)
        for s in transition.steps
    ]


def test_arrival_waits_for_no_departure_it_does_not_need() -> None:
    """An arrival does not depend on a departure if the node has enough capacity."""
    cluster = make_cluster(3, [machine("a", (0,), 4), machine("b", (1,), 4)])
    assert lines(plan(cluster, {"a": (1,), "b": (2,)})) == [
        ("migrate", "a", []),
        ("migrate", "b", []),
    ]


def test_arrival_waits_for_one_departure_that_is_enough() -> None:
    """An arrival depends on only one of two departures if that one is enough."""
    held = [machine("a", (0,), 6), machine("big", (1,), 6), machine("small", (1,), 2)]
    found = lines(plan(make_cluster(3, held), {"a": (1,), "big": (2,), "small": (2,)}))
    assert found == [("migrate", "big", []), ("migrate", "small", []), ("migrate", "a", [1])]


def test_arrival_waits_for_both_departures_if_it_needs_them() -> None:
    """An arrival that needs two departures depends on both; its reason names resource and node."""
    held = [machine("a", (0,), 9), machine("b", (1,), 5), machine("c", (1,), 5)]
    found = plan(make_cluster(3, held), {"a": (1,), "b": (2,), "c": (2,)})
    assert found.steps[-1].after == [1, 2]
    assert found.steps[-1].because == ["memory on node2"] * 2


def test_arrivals_that_fit_only_one_by_one_do_not_share_free_capacity() -> None:
    """Two arrivals that fit only one by one have a departure between them."""
    held = [machine("a", (0,), 4), machine("b", (2,), 4), machine("c", (1,), 5)]
    found = plan(make_cluster(4, held), {"a": (1,), "b": (1,), "c": (3,)})
    waiting = [step for step in found.steps if step.after]
    assert [step.action.kind for step in found.steps] == ["migrate"] * 3
    assert len(waiting) == 1


def test_cycle_is_resolved_through_a_third_node() -> None:
    """A cycle is resolved by a live move through a third node."""
    held = [machine("a", (0,), 8), machine("b", (1,), 8)]
    found = plan(make_cluster(3, held), {"a": (1,), "b": (0,)})
    assert lines(found) == [("migrate", "a", []), ("migrate", "b", [1]), ("migrate", "a", [2])]
    assert found.steps[0].action.after is not None
    assert found.steps[0].action.after.nodes == (2,)
    assert found.remarks == ["a goes through node3: others need its room"]


def test_cycle_without_a_third_node_stops_an_instance() -> None:
    """A cycle without a third node is resolved by stopping the instance with less memory."""
    held = [machine("a", (0,), 8), machine("b", (1,), 7)]
    found = plan(make_cluster(2, held), {"a": (1,), "b": (0,)})
    kinds = [kind for kind, name, _ in lines(found) if name == "b"]
    assert kinds == ["stop", "failover", "start"]


def test_cycle_of_instances_that_must_keep_running_is_reported() -> None:
    """A cycle of instances that must keep running is reported, and none of them moves."""
    held = [machine("a", (0,), 8), machine("b", (1,), 7)]
    demands = Demands(stops=StopRules(keep_running=frozenset({"a", "b"})))
    found = plan(make_cluster(2, held), {"a": (1,), "b": (0,)}, (), demands)
    assert found.steps == []
    assert [name for name, _ in found.left] == ["a", "b"]
    assert "a waits for b waits for a" in found.left[0][1]


def test_reported_cycle_does_not_delay_other_moves() -> None:
    """A cycle that cannot be resolved does not delay moves of other instances."""
    held = [machine("a", (0,), 8), machine("b", (1,), 7), machine("c", (0,), 1)]
    demands = Demands(stops=StopRules(keep_running=frozenset({"a", "b"})))
    found = plan(make_cluster(2, held), {"a": (1,), "b": (0,), "c": (1,)}, (), demands)
    assert lines(found) == [("migrate", "c", [])]


def test_cycle_of_disks_of_drbd_instances_is_resolved_through_a_third_node() -> None:
    """A cycle of secondaries on full disks is resolved through a third node."""
    held = [machine("a", (0, 1), 1, 8), machine("b", (0, 2), 1, 8)]
    cluster = make_cluster(4, held, disk=16)
    cluster.nodes[1].reported_disk = cluster.nodes[2].reported_disk = 1
    found = plan(cluster, {"a": (0, 2), "b": (0, 1)})
    assert not found.left
    assert [kind for kind, _, _ in lines(found)] == ["replace-disks"] * 3


@pytest.mark.parametrize(
    ("wanted", "kinds"),
    [
        ((1, 0), ["migrate"]),
        ((0, 2), ["replace-disks"]),
        ((2, 0), ["replace-disks", "migrate"]),
        ((1, 2), ["migrate", "replace-disks"]),
        ((2, 1), ["migrate", "replace-disks", "migrate"]),
        ((2, 3), ["replace-disks", "migrate", "replace-disks"]),
    ],
)
def test_drbd_instance_takes_the_shortest_route(wanted: Nodes, kinds: list[str]) -> None:
    """A drbd instance gets the route with the fewest copies of its disks."""
    found = plan(make_cluster(4, [machine("a", (0, 1), 4, 4)]), {"a": wanted})
    assert [kind for kind, _, _ in lines(found)] == kinds
    assert [after for _, _, after in lines(found)] == [[], [1], [2]][: len(kinds)]


def test_drbd_instance_avoids_a_secondary_that_may_not_receive_it() -> None:
    """A drbd instance is copied once more if migration tags forbid the shortest route.

    If all routes fail, the instance does not move.
    """
    cluster = make_cluster(3, [machine("a", (0, 1), 4, 4)])
    cluster.nodes[0].migration = frozenset({"cpu:new"})
    cluster.nodes[2].receives = frozenset({"cpu:new"})
    found = plan(cluster, {"a": (2, 1)})
    assert [kind for kind, _, _ in lines(found)] == ["replace-disks", "migrate", "replace-disks"]
    cluster.nodes[2].receives = frozenset()
    assert plan(cluster, {"a": (2, 1)}).left == [("a", "a node on its way lacks a migration tag")]


def test_offline_node_is_fenced_for_what_ran_there_only() -> None:
    """Only steps of instances that ran on an offline node depend on its fencing."""
    held = [
        machine("ran", (0,), 2), machine("down", (0,), 2, running=False),
        machine("mirrored", (1, 0), 1, 1), machine("other", (1,), 1),
    ]  # fmt: skip
    cluster = make_cluster(4, held)
    cluster.nodes[0].offline, cluster.nodes[0].online = True, False
    wanted: dict[str, Nodes | None] = {
        "ran": (1,), "down": (2,), "mirrored": (1, 2), "other": (3,),
    }  # fmt: skip
    found = plan(cluster, wanted)
    fence = next(step for step in found.steps if step.action.kind == "fence")
    assert fence.after == []
    assert [s.action.name for s in found.steps if fence.number in s.after] == ["ran"]
    ran = next(step for step in found.steps if step.action.name == "ran")
    assert ran.action.kind == "failover"
    assert opcodes_of(cluster, ran.action)[0]["ignore_consistency"] is True


@pytest.mark.parametrize(("program", "codes"), [("", []), ("/oob", ["OP_OOB_COMMAND"])])
def test_fencing_is_by_hand_without_a_program(program: str, codes: list[str]) -> None:
    """Fencing is manual if Ganeti cannot switch the power of the node."""
    cluster = make_cluster(2, [machine("a", (0,), 2)])
    cluster.nodes[0].offline, cluster.nodes[0].online = True, False
    cluster.nodes[0].oob_program = program
    found = plan(cluster, {"a": (1,)})
    assert [code["OP_ID"] for code in opcodes_of(cluster, found.steps[0].action)] == codes
    assert transition_document(found)["jobs"][-1].get("by_hand", []) == ([] if codes else [1])


def test_hard_order_delays_the_second_instance() -> None:
    """With a hard order, the second instance starts or arrives after the first."""
    cluster = make_cluster(3, [machine("a", (0,), 2), machine("b", (1,), 2)])
    demands = Demands(orders=[("b", "a", MUST)])
    found = plan(cluster, {"a": (2,), "b": (2,)}, (), demands)
    assert lines(found) == [("migrate", "b", []), ("migrate", "a", [1])]


def test_hard_order_is_reversed_for_stopping() -> None:
    """With a hard order, the second instance stops before the first."""
    cluster = make_cluster(1, [machine("base", (0,), 2), machine("web", (0,), 2)])
    demands = Demands(orders=[("base", "web", MUST)])
    found = plan(cluster, {"base": None, "web": None}, (), demands)
    assert lines(found) == [("stop", "web", []), ("stop", "base", [1])]


def test_cycle_of_hard_orders_is_reported() -> None:
    """Instances in a cycle of hard orders do not move, which is reported."""
    held = [machine(name, (0,), 2) for name in "abc"]
    demands = Demands(orders=[("a", "b", MUST), ("b", "a", MUST)])
    found = plan(make_cluster(2, held), {"a": (1,), "b": (1,), "c": (1,)}, (), demands)
    assert lines(found) == [("migrate", "c", [])]
    assert sorted(name for name, _ in found.left) == ["a", "b"]
    assert "must start after itself: a after b after a" in found.left[0][1]


def test_hard_order_fails_instances_that_depend_on_a_failed_one() -> None:
    """If an instance fails, those with a hard order after it fail, along the chain."""
    new = [machine("db", (), 20), machine("web", (), 1), machine("proxy", (), 1)]
    demands = Demands(orders=[("db", "web", MUST), ("web", "proxy", MUST)])
    wanted: dict[str, Nodes | None] = {"db": (0,), "web": (0,), "proxy": (0,)}
    found = plan(make_cluster(1, []), wanted, new, demands)
    why = dict(found.left)
    assert found.steps == []
    assert why["db"].startswith("needs 20 MiB memory on node1, 10 free")
    assert why["web"] == "must start after db, which does not start"
    assert why["proxy"] == "must start after web, which does not start"


def test_soft_order_that_capacity_prevents_is_dropped() -> None:
    """A soft order that capacity makes impossible is dropped and reported."""
    held = [machine("a", (0,), 8), machine("b", (1,), 8)]
    demands = Demands(
        orders=[("a", "b", SHOULD)], stops=StopRules(keep_running=frozenset({"a", "b"}))
    )
    found = plan(make_cluster(3, held), {"a": (1,), "b": (2,)}, (), demands)
    assert lines(found) == [("migrate", "b", []), ("migrate", "a", [1])]
    assert found.remarks == ["b does not wait for a: no room in that order"]


def test_new_instance_waits_for_the_capacity_that_it_needs() -> None:
    """A new instance is created after the departure that frees its capacity."""
    cluster = make_cluster(2, [machine("a", (0,), 8)])
    found = plan(cluster, {"a": (1,), "new": (0,)}, [machine("new", (), 6)])
    assert lines(found) == [("migrate", "a", []), ("create", "new", [1])]
    assert opcodes_of(cluster, found.steps[1].action)[0]["pnode"] == "node1"


def test_node_of_a_stuck_instance_is_fenced_after_all_others_left() -> None:
    """The node of an instance that cannot be stopped is fenced after all others have left.

    A dependent instance must keep running.
    """
    held = [
        machine("base", (0,), 2), machine("stays", (0,), 2), machine("goes", (0,), 2),
        machine("web", (1,), 1), machine("far", (1,), 1),
    ]  # fmt: skip
    demands = Demands(
        stops=StopRules(stuck=frozenset({"base"}), keep_running=frozenset({"web"})),
        orders=[("base", "mid", MUST), ("mid", "web", MUST)],
    )
    wanted: dict[str, Nodes | None] = {"base": (2,), "goes": (2,), "far": (2,)}
    found = plan(make_cluster(3, held), wanted, (), demands)
    steps = {step.action.name or step.action.kind: step for step in found.steps}
    fence = steps["fence"]
    assert fence.after == sorted([steps["goes"].number, steps["stays"].number])
    assert steps["base"].after == [fence.number]
    assert steps["base"].action.kind == "failover"
    assert steps["far"].after == []


def test_stuck_instance_on_which_nothing_depends_stays() -> None:
    """An instance that cannot be stopped, and on which none depends, stays without fencing."""
    cluster = make_cluster(2, [machine("a", (0,), 2)])
    found = plan(cluster, {"a": (1,)}, (), Demands(stops=StopRules(stuck=frozenset({"a"}))))
    assert found.steps == []
    assert found.left == [
        ("a", "cannot be stopped, and nothing that must keep running depends on it")
    ]


def test_stuck_instance_that_stays_or_is_new_causes_no_fencing() -> None:
    """An instance that cannot be stopped and stays, or is new, causes no fencing."""
    cluster = make_cluster(2, [machine("stays", (0,), 2), machine("off", (0,), 2, running=False)])
    demands = Demands(stops=StopRules(stuck=frozenset({"stays", "new", "off"})))
    found = plan(cluster, {"new": (1,), "off": (1,)}, [machine("new", (), 2)], demands)
    assert {kind: name for kind, name, _ in lines(found)} == {"create": "new", "failover": "off"}
    assert (found.left, found.remarks) == ([], [])


def test_nodes_are_drained_first_and_powered_off_last() -> None:
    """A node is drained, emptied, set offline, powered off and tagged, in this order."""
    cluster = make_cluster(2, [machine("a", (0,), 2)])
    demands = Demands(nodes=NodeChanges(power_off=[0], add_tags={0: ["htools:standby:auto"]}))
    found = plan(cluster, {"a": (1,)}, (), demands)
    assert [kind for kind, _, _ in lines(found)] == [
        "drain", "migrate", "offline", "power-off", "tag",
    ]  # fmt: skip
    assert [after for _, _, after in lines(found)] == [[], [1], [2], [3], [4]]


def test_node_with_a_remaining_instance_is_not_powered_off() -> None:
    """A node with a remaining instance is not powered off, which is reported."""
    cluster = make_cluster(2, [machine("a", (0,), 2)])
    found = plan(cluster, {}, (), Demands(nodes=NodeChanges(power_off=[0])))
    assert found.steps == []
    assert found.left == [("node1", "a stays there")]


def test_nodes_are_powered_on_before_arrivals() -> None:
    """Only arrivals at a node depend on its power-on."""
    cluster = make_cluster(3, [machine("a", (0,), 2), machine("b", (0,), 2)])
    cluster.nodes[1].offline, cluster.nodes[1].online = True, False
    demands = Demands(nodes=NodeChanges(power_on=[1], remove_tags={1: ["htools:standby:auto"]}))
    found = plan(cluster, {"a": (1,), "b": (2,)}, (), demands)
    steps = {(s.action.kind, s.action.name): s for s in found.steps}
    assert steps["migrate", "a"].after == [steps["online", ""].number]
    assert steps["migrate", "b"].after == []
    assert steps["online", ""].after == [steps["power-on", ""].number]
    assert steps["untag", ""].after == [steps["online", ""].number]


def test_plain_instance_is_not_moved() -> None:
    """An instance with plain disks does not move."""
    one = machine("a", (0,), 2).as_template("plain")
    one.nodes = (0,)
    found = plan(make_cluster(2, [one]), {"a": (1,)})
    assert found.left == [("a", "instances of type plain cannot be moved")]


def test_unknown_instance_is_an_error() -> None:
    """A target for an unknown instance is an error of the caller."""
    with pytest.raises(LookupError, match="unknown instances: absent"):
        plan(make_cluster(1, []), {"absent": (0,)})


@pytest.mark.parametrize(
    ("open_", "primaries"), [(True, [1, 1, 2]), (False, [0, 2, 2])], ids=["may pass", "may not"]
)
def test_route_avoids_a_node_that_is_forbidden_for_the_instance(
    open_: bool, primaries: list[int]
) -> None:
    """A route avoids running on a node that a hard constraint forbids."""
    state = State(make_cluster(3, [machine("vm1", (0, 1), 1, 1)]))
    demands = Demands(allows_temporary_move=lambda instance, node, where: node != 1 or open_)
    transition = plan_transition(state, {"vm1": (2, 1)}, demands=demands)
    places = [step.action.after for step in transition.steps]
    assert [place.nodes[0] for place in places if place] == primaries
    assert transition.left == []


@pytest.mark.parametrize(("present", "wanted"), [((0,), (0, 1)), ((0, 1), (0,)), ((0, 1), (2,))])
def test_route_to_another_number_of_nodes_does_not_exist(
    present: tuple[int, ...], wanted: tuple[int, ...]
) -> None:
    """No route leads to another number of nodes."""
    with pytest.raises(NoWayError, match="it would have to change its disk template"):
        shortest(present, wanted)
