"""hroller: plan which nodes can be rebooted together."""

from __future__ import annotations

from iallocator.commands.planner_options import Reboot
from iallocator.compat.htools.backend import ProgramError, adjust, group_of, load, save
from iallocator.deadline import Deadline
from iallocator.errors import say
from iallocator.planners.reboot.drain_plan import IGNORED, MOVED, SKIPPED, RebootOptions
from iallocator.planners.reboot.reboot import plan_reboots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.compat.htools.backend import Given

__all__ = ["run"]


def run(given: Given) -> int:
    """Print the groups of nodes; the status is 1 if there is no plan for all of them."""
    own = Reboot()
    source = load(given, own, in_order=True)
    adjust(given, source.cluster)
    if not source.master:
        missing = "No master node found (maybe not supported by backend)."
        if not given.force:
            raise ProgramError(f"Error: {missing}")
        say(f"Warning: {missing}")
    group = "" if given.group is None else group_of(source.cluster, given.group).name
    ignored = IGNORED if given.ignore_non_redundant else MOVED
    wanted = RebootOptions(
        down=bool(given.offline_maintenance),
        evacuate=bool(given.full_evacuation),
        single=SKIPPED if given.skip_non_redundant else ignored,
        node_tags=given.node_tags or (),
        group=group,
        master=source.master,
        first_only=bool(given.one_step_only),
        force=True,
    )
    own.n1 = "off"
    done = plan_reboots(source.cluster, own, wanted, Deadline(None))
    cluster = source.cluster
    if given.save is not None:
        save(f"{given.save}.original", source, done.before, backwards=False)
        say(
            f"The cluster state before hroller run has been written to file '{given.save}.original'"
        )
    if not given.no_headers:
        print("'First Reboot Group'" if given.one_step_only else "'Node Reboot Groups'")
    for one in done.rounds:
        names = cluster.node_names(one.nodes)
        print("\n".join(names) if given.one_step_only else ",".join(names))
        for entry in one.out if given.print_moves else ():
            move = entry.move
            if len(move.before) == 1 or given.full_evacuation:
                print(f"  {move.instance.name} {' '.join(cluster.node_names(move.after))}")
    return 0
