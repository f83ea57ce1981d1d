"""The command ``rescue``: restart the instances of a dead node on other nodes."""

from __future__ import annotations

import os

from iallocator.commands.progress import progress_line
from iallocator.commands.rescue_watch import candidates_before, watched
from iallocator.deadline import TIME_IS_UP
from iallocator.errors import MOST_NAMES
from iallocator.execution.dead_node import evidence_of_death
from iallocator.execution.jobs import ExecutionError
from iallocator.execution.journal import default_path
from iallocator.execution.queue_access import open_queue
from iallocator.model.state import State
from iallocator.planners.eligible import nodes_named, set_offline
from iallocator.planners.repair.rescue import ReturnResult, plan_rescue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Json
    from iallocator.commands.command import Command
    from iallocator.deadline import Deadline
    from iallocator.model.cluster import Node
    from iallocator.planners.repair.rescue import RescueResult
    from iallocator.planners.result import PlanResult

__all__ = ["rescue"]


def rescue(command: Command, deadline: Deadline) -> PlanResult:
    """Plan the rescue of a dead node, or its return to service.

    On a running cluster, the function first verifies that the node is dead.

    Raises
    ------
    ExecutionError
        If the node to rescue is the master, or is not dead.
    """
    if command.settings.watch:
        return watched(command, lambda node: rescue_of(command, node, deadline))
    cluster = command.source.cluster
    (name,) = nodes_named(cluster, command.words, "rescue")
    node = next(node for node in cluster.nodes if node.name == name)
    if command.settings.returns:
        return _return_of(command, node)
    return rescue_of(command, node, deadline)


def _return_of(command: Command, node: Node) -> ReturnResult:
    """Plan the return of a node.

    If its rescue found the node as master candidate, it becomes one again. Ganeti itself gives the
    role back only if there are too few candidates, but it gave the role to another node.

    Nodes that became candidates while the node was offline lose the role. Ganeti wrote their SSH
    keys to the online nodes only, and writes none to a node that comes back. When they lose the
    role, Ganeti removes their keys everywhere; if it then promotes nodes, it writes the keys of
    these nodes to all nodes. The master node cannot lose the role.

    Without a journal of the rescue, the roles are unknown, and the plan has a warning.
    """
    cluster, folders = command.source.cluster, [command.settings.state]
    found: list[str] | None = []
    if command.settings.asks_running_cluster and node.offline:
        if command.settings.journal:
            folders.append(os.path.dirname(os.path.abspath(command.settings.journal)))
        default = os.path.dirname(default_path("rescue", ""))
        found = candidates_before(cluster.name, node.name, default, folders)
        folders.append(default)
    before = found or []
    promoted = [
        one
        for one in cluster.nodes
        if before and one.master_candidate and one is not node and one.name not in before
    ]
    node.master_candidate = node.name in before
    done = ReturnResult(State(cluster), node.index)
    if node.master_candidate:
        done.remarks.append(f"{node.name} becomes a master candidate again")
    for one in promoted:
        what = f"{one.name} became master candidate while {node.name} was away"
        if one.name == command.master:
            what = (
                f"Warning: {what}, and is the master node now: {node.name} lacks its SSH key; "
                f"run gnt-node add --readd {node.name}"
            )
        else:
            done.demoted.append(one.index)
            what += f", and loses the role: {node.name} lacks its SSH key"
        done.remarks.append(what)
    if found is None:
        done.remarks.append(
            f"Warning: no journal of a rescue of {node.name} in "
            f"{', '.join(dict.fromkeys(folders))} (--state FOLDER names another folder): if the "
            "node was a master candidate, run gnt-node modify --master-candidate=yes "
            f"{node.name} after its return. If gnt-cluster verify then reports that {node.name} "
            "lacks the SSH key of a master candidate, run gnt-node modify --master-candidate=no "
            "--auto-promote for that candidate"
        )
    return done


def rescue_of(command: Command, node: Node, deadline: Deadline) -> RescueResult:
    """Plan the rescue of a node, after verifying on a running cluster that it is dead.

    If the cluster comes from a file, the node is assumed to be dead.

    Raises
    ------
    ExecutionError
        If the node is the master, or is not dead.
    """
    own, cluster = command.settings, command.source.cluster
    if node.name == command.master:
        raise ExecutionError(
            f"{node.name} is the master node: run gnt-cluster master-failover on another master "
            "candidate first"
        )
    marked = node.offline and node.name not in cluster.assumed_offline
    evidence: Json = {"assumed": True}
    if own.asks_running_cluster:
        evidence = _evidence(command, node, marked)
        command.dead = [node.name]
    set_offline(cluster, [node.name])
    if own.fenced:
        node.oob_program = ""
    cluster.assumed_offline = [name for name in cluster.assumed_offline if name != node.name]
    done = plan_rescue(cluster, command.effective, node.index, marked, deadline)
    done.evidence = evidence
    if not command.master:
        done.remarks.append(
            f"Warning: the master node is unknown: {node.name} must not be it (--master-node)"
        )
    for what, names in (
        ("cannot be saved", list(done.lost)),
        ("have no new secondary", list(done.degraded)),
    ):
        if names:
            more = f", ... ({len(names)} in all)" * (len(names) > MOST_NAMES)
            done.shortfalls.append(f"instances that {what}: {', '.join(names[:MOST_NAMES])}{more}")
    if TIME_IS_UP in (*done.lost.values(), *done.degraded.values()):
        done.shortfalls.append(f"{TIME_IS_UP}: some instances have no place yet")
    return done


def _evidence(command: Command, node: Node, marked: bool) -> Json:
    """Return the evidence that the node is dead, as plain data.

    Raises
    ------
    ExecutionError
        If something shows that the node is alive, or no other node answers either.
    """
    own = command.settings
    document = command.source.document
    assert document is not None

    def addresses(name: str) -> Sequence[str]:
        raw = document["nodes"].get(name, {})
        own_addresses = (raw.get("primary_ip"), raw.get("secondary_ip"))
        return list(dict.fromkeys(one for one in own_addresses if isinstance(one, str) and one))

    known = [one for one in command.source.cluster.nodes if one is node or not one.offline]
    queue, _ = open_queue(own)
    with progress_line(f"examining {node.name}"):
        return evidence_of_death(
            queue,
            node.name,
            {one.name: addresses(one.name) for one in known},
            marked=marked,
            asks_power=bool(node.oob_program) and own.execute and not own.dry_run,
            reason=own.reason,
        )
