"""Move instances inside a group: relocate, allocate-secondary, recreate-disks, node-evacuate."""

from __future__ import annotations

from collections.abc import Iterator

from vcluster.layout import FIRST_GROUP, SECOND_GROUP, VOLUME_GROUP, instance

from scenario.creation import add
from scenario.expectations import Check, Expect, Outcome
from scenario.runner import Runner

RELOCATE = Expect(calls=("relocate",))
# Three instances of a kind show nothing that one does not, and take three times as long.
_BATCHES = ("ma1", "ma3", "mb1", "mc1", "mc3")
EVACUATE = ("gnt-node", "evacuate", "--force")


def single(run: Runner) -> None:
    """Test moves of single instances.

    Parameters
    ----------
    run : Runner
        Runs the steps.
    """
    run.section("move one instance")
    # The next steps do not need the instances that cannot move.
    run.drop("fi1", "pl2", "ma2", "mc2", "dl1", "dl2", "sf3", "fc1", *_BATCHES)
    allocator = f"--iallocator={run.cluster.allocator}"
    replace = ("gnt-instance", "replace-disks", allocator, instance("dr1"))
    run.step("replace the secondary of a drbd instance", *replace, expect=RELOCATE)
    sf1 = instance("sf1")
    run.step(
        "migrate a sharedfile instance", "gnt-instance", "migrate", "--force", sf1, expect=RELOCATE
    )
    run.step(
        "fail over a sharedfile instance",
        "gnt-instance",
        "failover",
        "--force",
        sf1,
        expect=RELOCATE,
    )
    run.arrange("gnt-instance", "stop", "--timeout=0", instance("pl1"))
    modify = ("gnt-instance", "modify", "--disk-template=drbd", allocator, instance("pl1"))
    run.step("convert plain to drbd", *modify, expect=Expect(calls=("allocate-secondary",)))
    run.step("start it again", "gnt-instance", "start", instance("pl1"), expect=Expect())
    _recreate(run, allocator)


def _recreate(run: Runner, allocator: str) -> None:
    # Ganeti sends "allocate" under the name of the instance, which exists, and holds no locks
    # outside its group.  An answer from another group leaves it pointing at nodes without disks.
    for name, group in (("rc1", FIRST_GROUP), ("rc2", SECOND_GROUP)):
        run.arrange(*add(name, "drbd", "--no-start", f"--node-group={group}"))
        run.arrange("gnt-instance", "deactivate-disks", instance(name))
        mine = "lvs --noheadings -o lv_name,lv_tags | grep originstname+$0 | cut -d' ' -f3"
        lose = f"for v in $({mine}); do lvremove -f {VOLUME_GROUP}/$v; done"
        for node in run.cluster.nodes.values():
            node.run("sh", "-c", lose, instance(name))
        run.step(
            f"recreate the disks of an instance in group {group}",
            *("gnt-instance", "recreate-disks", allocator, instance(name)),
            expect=Expect(calls=("allocate",), check=_stays(name, group)),
            hail="may choose another group, which Ganeti cannot carry out",
        )
        run.drop(name)


def _stays(name: str, group: str) -> Check:
    def check(outcome: Outcome) -> Iterator[str]:
        if outcome.group_of(instance(name)) != group:
            yield f"{name} left group {group} for {outcome.group_of(instance(name))}"

    return check


def whole_nodes(run: Runner) -> None:
    """Empty nodes of their primary and secondary instances.

    Parameters
    ----------
    run : Runner
        Runs the steps.
    """
    run.section("evacuate nodes")
    evacuate(run, "evacuate secondaries", "--secondary-only", run.secondary("dr1"))
    evacuate(run, "evacuate primaries", "--primary-only", run.primary("dr1"))
    evacuate(
        run,
        "evacuate primaries, soft errors ignored",
        "--primary-only",
        run.primary("dr1"),
        soft=True,
    )
    node = run.primary("dr2")
    evacuate(run, "evacuate primaries in the other group", "--primary-only", node)
    evacuate(run, "evacuate secondaries from the same node", "--secondary-only", node)
    run.arrange("gnt-instance", "stop", "--timeout=0", instance("sf2"))
    evacuate(run, "evacuate a stopped sharedfile instance", "--primary-only", run.primary("sf2"))
    run.arrange("gnt-instance", "start", instance("sf2"))
    run.arrange(*add("pl3", "plain"))
    evacuate(run, "evacuate a plain instance", "--primary-only", run.primary("pl3"), rejected=True)
    run.drop("pl3")


def evacuate(
    run: Runner,
    label: str,
    mode: str,
    node: str,
    *,
    soft: bool = False,
    rejected: bool = False,
    hail: str = "",
) -> None:
    """Evacuate a node, and check the result.

    Parameters
    ----------
    run : Runner
        Runs the step.
    label : str
        Title of the step.
    mode : str
        ``--primary-only`` or ``--secondary-only``.
    node : str
        The node.
    soft : bool, optional
        Ignore soft errors.
    rejected : bool, optional
        Whether the move should be impossible.
    hail : str, optional
        Why Ganeti's own allocator fails here.
    """

    def leaves(nodes: tuple[str, ...]) -> bool:
        return node in (nodes[:1] if mode == "--primary-only" else nodes[1:])

    def check(outcome: Outcome) -> Iterator[str]:
        left = sorted(name for name, its in outcome.after.items() if leaves(its.nodes))
        if left and not rejected:
            yield f"left on {node}: {', '.join(left)}"
        for call in outcome.calls:
            if soft != ("--ignore-soft-errors" in call.arguments):
                yield f"{call.stem}: unexpected arguments: {call.arguments}"

    flags = ("--ignore-soft-errors",) if soft else ()
    # Without instances to move, Ganeti does not call the allocator.
    some = any(leaves(its.nodes) for its in run.instances.values())
    expect = Expect(calls=("node-evacuate",) if some else (), rejected=rejected, check=check)
    run.step(label, *EVACUATE, mode, *flags, node, expect=expect, hail=hail)
