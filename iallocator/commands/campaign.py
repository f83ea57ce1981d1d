"""Execute a campaign of maintenance: plan a group, execute it, and begin again with the rest.

Each group is one plan, executed by `iallocator.commands.execution` with a journal of its own.
Before each group, the cluster is read and the rest is planned anew. One lock is held for the whole
campaign.

Exit status 0: everything is done that can be done now; the rest waits for an administrator, or for
another run after --until. 1: a step failed, or a node is left out. 128 plus the number of a signal:
interrupted.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from secrets import token_hex
from time import localtime, strftime, time

from iallocator.commands.command import print_json
from iallocator.commands.execution import begin, complete_journal, records_in, show_report
from iallocator.commands.maintain import plan_for
from iallocator.commands.maintenance_options import CampaignSettings
from iallocator.commands.planner_options import NodesAway
from iallocator.commands.planning import Planned
from iallocator.commands.progress import progress_line
from iallocator.commands.runner import read_again, read_source, write_metrics
from iallocator.deadline import Deadline
from iallocator.documents.metrics import campaign_metrics
from iallocator.engine import effective_settings
from iallocator.errors import STATUS_INTERRUPTED, UsageError, many, printable, tell
from iallocator.execution.campaign import CampaignState
from iallocator.execution.jobs import describe
from iallocator.execution.journal import default_path
from iallocator.execution.lock import ClusterLock
from iallocator.execution.node_work import NodeCommands, NodeWork
from iallocator.execution.queue_access import open_queue
from iallocator.execution.records import DONE, FAILED, REJECTED, RETURNING, SENDING, SENT
from iallocator.render.words import duration_words
from iallocator.transition.step import PROMOTE, REBOOT, UNDRAIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from iallocator.aliases import Json
    from iallocator.commands.command import Command, Result
    from iallocator.execution.records import Records
    from iallocator.execution.session import Session
    from iallocator.model.cluster import Cluster

__all__ = ["carry_out_campaign", "resume_campaign"]

KEPT = (
    "n1", "no_capacity_checks", "ignore_soft_errors", "ignore_dynu", "static_kvm_node_memory",
    "exclusion_tags", "tag_prefix", "optimal", "time_limit", "bandwidth", "reason", "priority",
    "memory_ratio", "disk_reserve", "ahead", "boot_timeout", "assume_offline",
)  # fmt: skip
"""Common options that a campaign keeps in its state file for its resumption."""

PLAIN_NAME = re.compile(r"[A-Za-z0-9._-]+")
"""Names of nodes that are safe in a command of a shell."""


def carry_out_campaign(command: Command, result: Result) -> int:
    """Execute the campaign of which `result` is the plan; return the exit status.

    Raises
    ------
    ExecutionError, LiveError, UsageError
        If the execution cannot begin; no job was submitted then.
    """
    settings = command.settings
    plan = result.json()
    nodes = [node for group in plan["reboots"] for node in group["nodes"]]
    if settings.run or settings.check_command:
        odd = [name for name in nodes if not PLAIN_NAME.fullmatch(name)]
        if odd:
            raise UsageError(f"--run: node {odd[0]} has a name that is not safe in a command")
    _, name = open_queue(settings)
    own = {one.target for one in (*CampaignSettings.options, *NodesAway.options)}
    kept = {target: getattr(settings, target) for target in sorted(settings.chosen & {*own, *KEPT})}
    with ClusterLock(name):
        run = f"{strftime('%Y%m%d-%H%M%S')}-{token_hex(3)}"
        path = settings.journal or default_path("maintain", run)
        state = CampaignState.create(path, name, kept)
        state.nodes = nodes
        state.save()
        tell(f"state of the campaign: {path}")
        campaign = _Campaign(command, state)
        return campaign.finish(campaign.run(), plan)


def resume_campaign(command: Command) -> int:
    """Resume the campaign of ``--resume``, or without ``-X`` show it; return the exit status."""
    settings = command.settings
    state = CampaignState.read(settings.resume)
    campaign = _Campaign(command, state)
    if not settings.execute:
        return campaign.finish(0 if state.complete else 1, {})
    for target, value in state.options.items():
        if target not in settings.chosen:
            setattr(settings, target, value)
    settings.chosen |= state.options.keys()
    settings.check(command.positional)
    _, name = open_queue(settings)
    if name != state.cluster:
        raise UsageError(
            f"{state.path}: the campaign is of cluster {state.cluster}, this is {name}"
        )
    with ClusterLock(name):
        status = campaign.go_on()
        return campaign.finish(campaign.run() if status is None else status, {})


class _Campaign:
    """One run of a campaign, which begins with the state that its file contains."""

    def __init__(self, command: Command, state: CampaignState) -> None:
        self._command = command
        self._state = state
        self._report: Json = {}

    def run(self) -> int:
        """Plan and execute one group after the other; return the exit status."""
        command, state, settings = self._command, self._state, self._command.settings
        while True:
            if self._too_late(state.longest()):
                return 0
            with progress_line("reading the cluster"):
                command.source = read_source(command)
            command.cluster = command.source.cluster
            command.effective = effective_settings(command.cluster, {}, settings, [])
            deadline = Deadline(command.effective.planning_seconds)
            done = plan_for(command, deadline, state.done, first_only=True)
            planned = Planned(done, command, deadline)
            sound = planned.complete()
            if planned.interrupted:
                return STATUS_INTERRUPTED
            if not sound or planned.problems:
                tell(*(f"iallocator: {problem}" for problem in planned.problems))
                return 1
            names = command.cluster.node_names
            state.left = {names([index])[0]: why for index, why in done.left.items()}
            state.save()
            if not done.rounds:
                tell(*planned.remarks)
                return planned.status
            estimate = done.document()["campaign"]["estimated_seconds"]
            if not state.longest() and self._too_late(estimate):
                return 0
            nodes = names(done.rounds[0].nodes)
            left = len(state.to_do)
            seconds = state.seconds_left(left)
            time_left = f", about {duration_words(seconds)} left" if seconds else ""
            count = f"{len(state.done)} of {len(state.done) + left} nodes done{time_left}"
            tell(
                f"{strftime('%H:%M:%S')} group {len(state.groups) + 1}: {', '.join(nodes)} "
                f"({count})"
            )
            path = state.begin_group(nodes)
            self._report, status = begin(
                settings, command.name, planned.transition(), command.cluster, self._load,
                working=self._work, path=path,
            )  # fmt: skip
            stopped = self._settle(status, again=False)
            if stopped is not None:
                return stopped

    def _too_late(self, seconds: float) -> bool:
        """Report and return whether a group that takes `seconds` would not end before --until."""
        until = self._command.settings.until
        if until is None or time() + seconds <= until:
            return False
        when = strftime("%Y-%m-%d %H:%M", localtime(until))
        tell(f"no further group begins: it would not end before {when} (--until)")
        return True

    def go_on(self) -> int | None:
        """Complete the group in maintenance; return an exit status if the campaign must stop.

        The result is None if the campaign can continue.
        """
        state, settings = self._state, self._command.settings
        one = state.away
        if one is None:
            return None
        if not begun(one["journal"]):
            state.groups.pop()
            state.save()
            return None
        self._report, status = complete_journal(
            settings, one["journal"], self._load, working=self._work
        )
        settings.done_by_hand = False
        return self._settle(status, again=True)

    def _settle(self, status: int, again: bool) -> int | None:
        """Record which nodes of the group in maintenance are done.

        `again`: failed jobs have been retried. Return an exit status if the campaign must stop, or
        None if it can continue.
        """
        state = self._state
        one = state.away
        assert one is not None
        _, records = records_in(one["journal"])
        away = nodes_away(records)
        open_jobs = [job for job in records.jobs.values() if records.of[job.number].state != DONE]
        done = [node for node in one["nodes"] if node not in away]
        if open_jobs and not (again and status == 1 and self._gives_up(records, away)):
            return status
        if open_jobs and away:
            self._undrain(records, away)
        state.end_group(done)
        self._write_metrics()
        return None

    def _gives_up(self, records: Records, away: Collection[str]) -> bool:
        """Report the jobs that cannot go on; return whether the rest of a group is given up.

        The rest of a group of nodes is planned anew if these jobs only move instances, and if no
        work has begun on the nodes that are `away`.
        """
        if records.in_state(SENDING, SENT, RETURNING):
            return False
        for job in records.jobs.values():
            step, record = job.steps[0], records.of[job.number]
            if step.get("node") in away and (record.boot or record.state in (FAILED, REJECTED)):
                return False
        for job in records.in_state(FAILED, REJECTED):
            tell(f"given up: {describe(job)}: {records.of[job.number].why}")
        return True

    def _undrain(self, records: Records, nodes: Collection[str]) -> None:
        """Undrain nodes that are not rebooted; these jobs have a journal of their own.

        `records`: the records of the plan that drained the nodes.
        """
        command, state = self._command, self._state
        undrained = [
            step
            for number, job in records.whole.items() for step in job.steps
            if (step["kind"] == UNDRAIN and step["node"] in nodes)
            or (step["kind"] == PROMOTE and records.of[number].state != DONE)
        ]  # fmt: skip
        transition: Json = {"steps": [], "jobs": []}
        for number, step in enumerate(undrained, start=1):
            transition["steps"].append({**step, "number": number, "after": []})
            transition["jobs"].append({"steps": [number]})
        path = f"{state.groups[-1]['journal']}.undrain"
        with suppress(FileNotFoundError):
            os.unlink(path)  # the journal of an interrupted attempt
        begin(command.settings, command.name, transition, self._load(), self._load, path=path)

    def _load(self) -> Cluster:
        cluster = read_again(self._command)
        effective_settings(cluster, {}, self._command.settings, [])  # also sets limits of nodes
        return cluster

    def _work(self, session: Session, path: str) -> NodeWork:
        own = self._command.settings
        commands = NodeCommands(own.run, own.check_command, own.boot_id, not own.no_reboot)
        return NodeWork(session, commands, path)

    def _write_metrics(self) -> None:
        path = self._command.settings.metrics
        if path and self._command.cluster is not None:
            write_metrics(path, self._command.measured(campaign_metrics(self._state.progress())))

    def finish(self, status: int, plan: Json) -> int:
        """Print the progress of the campaign, with ``--json`` as a member of `plan`.

        Return `status`.
        """
        self._write_metrics()
        settings, progress = self._command.settings, self._state.progress()
        if settings.json:
            plan = plan or {"moves": [], "job_sets": []}
            executed = {"execution": self._report} if self._report else {}
            print_json(self._command.versioned({**plan, **executed, "progress": progress}))
            return status
        if self._report and not all(job["state"] == "done" for job in self._report["jobs"]):
            show_report(self._report, settings, anew=False)
        for line in progress_lines(progress):
            print(printable(line))
        return status


def begun(path: str) -> bool:
    """Return whether the journal at `path` has a complete first line, and so may record jobs."""
    try:
        with open(path, "rb") as file:
            return b"\n" in file.read()
    except FileNotFoundError:
        return False


def nodes_away(records: Records) -> list[str]:
    """Return the nodes in an execution that are still to be rebooted or undrained."""
    return list(
        dict.fromkeys(
            step["node"]
            for number, job in records.whole.items()
            for step in job.steps
            if step["kind"] in (REBOOT, UNDRAIN) and records.of[number].state != DONE
        )
    )


def progress_lines(progress: Json) -> Iterator[str]:
    """Yield the lines of the progress of a campaign as text."""
    done, to_do, left = progress["done"], progress["to_do"], progress["left_out"]
    total = len(done) + len(to_do) + len(left)
    groups = many(progress["groups_done"], "group")
    yield f"Campaign: {len(done)} of {total} nodes done in {groups}"
    if done:
        yield f"  done: {', '.join(done)}"
    if to_do:
        yield f"  to do: {', '.join(to_do)}"
    for one in left:
        yield f"  left out: {one['node']}: {one['reason']}"
    if to_do or left:
        yield f"  (iallocator maintain -X --resume {progress['state_file']} goes on)"
