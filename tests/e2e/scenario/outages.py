"""Use nodes that are drained, offline or cannot run instances, and groups closed to allocation."""

from __future__ import annotations

from collections.abc import Iterator

from vcluster.layout import FIRST_GROUP, SECOND_GROUP, VOLUME_GROUP, instance

from scenario.creation import ALLOCATE, add
from scenario.expectations import Check, Expect, Outcome
from scenario.moves import evacuate
from scenario.runner import Runner

_ONLY_NEW = "iallocator:n1:no-new"
"""The tag of N+1 mode ``no-new``, with which instances lost before may stay lost."""

_MODIFY = ("gnt-node", "modify", "--force")


def nodes(run: Runner) -> None:
    """Test requests while some nodes accept no instances.

    Parameters
    ----------
    run : Runner
        Runs the steps.
    """
    run.section("nodes that are drained, offline or not for instances")
    good, offline, drained = run.nodes_of(SECOND_GROUP)
    run.arrange(*add("of1", "sharedfile", f"--node={good}"))
    run.arrange(*_MODIFY, "--drained=yes", drained)
    run.arrange(*_MODIFY, "--offline=yes", offline)
    here = f"--node-group={SECOND_GROUP}"
    avoid = Expect(calls=("allocate",), check=_not_on({offline, drained}))
    run.step("create around them", *add("of2", "plain"), expect=avoid)
    rejected = Expect(calls=("allocate",), rejected=True)
    run.step("create where no node could take over", *add("of3", "plain", here), expect=rejected)
    run.arrange("gnt-group", "add-tags", SECOND_GROUP, _ONLY_NEW)
    only = Expect(calls=("allocate",), check=_on(instance("of3"), good))
    run.step("create in their group", *add("of3", "plain", here), expect=only)
    run.arrange("gnt-group", "remove-tags", SECOND_GROUP, _ONLY_NEW)
    run.step("create drbd where one node is left", *add("of4", "drbd", here), expect=rejected)
    run.drop("of2", "of3")
    evacuate(run, "evacuate where no other node is left", "--primary-only", good, rejected=True)
    run.arrange(*_MODIFY, "--offline=no", offline)
    evacuate(run, "evacuate where one node is drained", "--primary-only", good)
    run.arrange(*_MODIFY, "--drained=no", drained)
    run.arrange(*_MODIFY, "--vm-capable=no", drained)
    avoid = Expect(calls=("allocate",), check=_not_on({drained}))
    run.step("create where a node is not for instances", *add("of5", "drbd", here), expect=avoid)
    run.arrange(*_MODIFY, "--vm-capable=yes", drained)
    _drained_primary(run, run.primary("of5"))
    _offline_primary(run, run.primary("of5"))


def _drained_primary(run: Runner, node: str) -> None:
    run.arrange(*_MODIFY, "--drained=yes", node)
    evacuate(run, "evacuate primaries of a drained node", "--primary-only", node)
    evacuate(run, "evacuate secondaries of a drained node", "--secondary-only", node)
    run.arrange(*_MODIFY, "--drained=no", node)


def _offline_primary(run: Runner, node: str) -> None:
    run.arrange(*add("of6", "sharedfile", f"--node={node}"))
    run.arrange(*_MODIFY, "--offline=yes", node)
    evacuate(run, "evacuate primaries of an offline node", "--primary-only", node)
    evacuate(run, "evacuate secondaries of an offline node", "--secondary-only", node)
    # The node returns as if new: nothing runs, no DRBD device is configured, no disk is left.
    forget = "rm -f /run/e2e/drbd.json /run/ganeti/fake-hypervisor/*; drbdsetup down resource0"
    wipe = f"for v in $(lvs --noheadings -o lv_name); do lvremove -f {VOLUME_GROUP}/$v; done"
    run.cluster.nodes[node].run("sh", "-c", f"{forget}; {wipe}")
    run.arrange(*_MODIFY, "--offline=no", node)


def group_policies(run: Runner) -> None:
    """Test requests while a group is closed to allocation.

    Parameters
    ----------
    run : Runner
        Runs the steps.
    """
    run.section("group policies")
    modify = ("gnt-group", "modify")
    run.arrange(*modify, "--alloc-policy=unallocable", FIRST_GROUP)
    other = Expect(calls=("allocate",), check=_not_on(set(run.nodes_of(FIRST_GROUP))))
    run.step("create outside an unallocable group", *add("un1", "plain"), expect=other)
    inside = add("un2", "plain", f"--node-group={FIRST_GROUP}")
    expect = Expect(calls=("allocate",), check=_warns)
    run.step("create inside it, named", *inside, expect=expect, hail="does not mention the policy")
    run.arrange(*modify, "--alloc-policy=last_resort", FIRST_GROUP)
    run.step("create with one group as last resort", *add("un3", "plain"), expect=other)
    run.arrange(*modify, "--alloc-policy=preferred", FIRST_GROUP)
    run.step("create with both groups preferred", *add("un4", "plain"), expect=ALLOCATE)


def _not_on(forbidden: set[str]) -> Check:
    def check(outcome: Outcome) -> Iterator[str]:
        for call in outcome.calls:
            for node in forbidden.intersection(call.response["result"]):
                yield f"{call.stem}: {node} was chosen"

    return check


def _on(name: str, node: str) -> Check:
    def check(outcome: Outcome) -> Iterator[str]:
        found = outcome.after.get(name)
        if found and found.nodes[0] != node:
            yield f"{name} should be on {node}"

    return check


def _warns(outcome: Outcome) -> Iterator[str]:
    for call in outcome.calls:
        if "unallocable" not in call.response["info"]:
            yield f"info does not say that the group is unallocable: {call.response['info']}"
