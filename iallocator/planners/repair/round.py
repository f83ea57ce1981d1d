"""Plan one round of repairs: the results of pending repairs, and repairs of broken instances.

The repair state of an instance depends on its tags, its nodes, and the job queue if there is one.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field, replace

from iallocator.deadline import TIME_IS_UP, Deadline, check
from iallocator.errors import UsageError
from iallocator.model.state import State
from iallocator.model.tags import REPAIR_REINSTALL
from iallocator.planners.repair.repair import Repairs
from iallocator.tags.autorepair import (
    REPAIR_ENOPERM,
    REPAIR_FAILURE,
    REPAIR_SUCCESS,
    STATE_FAILED,
    STATE_HEALTHY,
    STATE_NEEDS_REPAIR,
    STATE_PENDING,
    Permission,
    Record,
    permission_of,
    state_of,
)
from iallocator.tags.foreign import misspelt_repairs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Protocol

    from iallocator.aliases import Json
    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance
    from iallocator.options.settings import Settings
    from iallocator.planners.repair.repair import Repair
    from iallocator.tags.autorepair import RepairState

    class Jobs(Protocol):
        """The job queue of the running cluster."""

        def possible(self, opcodes: Sequence[Json]) -> bool:
            """Return whether the cluster accepts a job with all `opcodes`."""

        def busy_with(self, instance: str) -> int | None:
            """Return the number of a job for `instance` that has not ended; None for none."""

        def ended(self, jobs: Iterable[int]) -> bool | None:
            """Return whether all `jobs` succeeded; None if one of the jobs has not ended."""

        def retag(self, instance: str, added: Sequence[str], removed: Sequence[str]) -> None:
            """Add the tags `added` to an instance, and remove the tags `removed`."""


__all__ = ["RepairEntry", "RepairRound"]


@dataclass
class TagChanges:
    """Changes of the tags of an instance, and whether the running cluster has the changes."""

    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    written: bool = False

    def record(self, tag: str, outdated: Iterable[str]) -> None:
        """Add `tag`, and remove the tags `outdated`; `tag` replaces added tags not written yet."""
        before, unwritten = ([], []) if self.written else (self.removed, self.added)
        removed = dict.fromkeys((*before, *outdated))
        self.added, self.removed = [tag], [other for other in removed if other not in unwritten]
        self.written = False


@dataclass
class RepairEntry:
    """An instance in a round of repairs: its repair state, its repair, and messages.

    Attributes
    ----------
    state:
        The repair state that the tags of the instance record.
    repair:
        The repair that the instance requires; None for none.
    steps:
        The steps that this round plans for the instance; [] for none.
    note:
        A message for the administrator; "" for none.
    tag_changes:
        The changes of the tags of the instance.
    permit:
        The type of repair that is required, but not allowed; "" for none.
    command:
        A command that the administrator can run; "" for none.
    history:
        The changes of the repair state, each as (state before, state after).
    """

    instance: Instance
    state: RepairState
    repair: Repair | None = field(default=None, init=False)
    note: str = field(default="", init=False)
    tag_changes: TagChanges = field(default_factory=TagChanges, init=False)
    steps: list[Json] = field(default_factory=list, init=False)
    permit: str = field(default="", init=False)
    command: str = field(default="", init=False)
    history: list[tuple[RepairState, RepairState]] = field(default_factory=list, init=False)

    @property
    def endless(self) -> bool:
        """Return whether a pending repair never ends, because its tag names no jobs."""
        record = self.state.record
        waits = self.state.name == STATE_PENDING and record is not None and not record.jobs
        return waits and not self.steps

    def become(self, name: str, record: Record) -> None:
        """Set the state `name`, and record `record` in a tag in place of tags not written yet."""
        before_change, self.state = self.state, self.state.changed(name, record)
        self.history.append((before_change, self.state))
        self.tag_changes.record(record.tag, self.state.outdated)
        self.state = replace(self.state, outdated=())


class RepairRound:
    """One round of repairs for all instances.

    Parameters
    ----------
    jobs:
        The job queue; None if the cluster is not running.
    execute:
        Whether tags are changed on the running cluster.
    delay:
        The delay of each repair before its first step, in seconds.
    deadline:
        After it has passed, no more repairs are planned in this round.
    allow:
        The most destructive type of repair that is allowed for every instance in this round, in
        addition to tags; "" for none.
    command:
        The command line that carries out the repairs.

    Raises
    ------
    UsageError
        If tags record two repairs of one instance at the same time.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        jobs: Jobs | None = None,
        execute: bool = False,
        delay: float = 0.0,
        deadline: Deadline | None = None,
        allow: str = "",
        command: str = "iallocator repair -X",
    ) -> None:
        self._allow = allow
        self._command = command
        self._deadline = deadline or Deadline(None)
        self._cluster = cluster
        self._jobs = jobs
        self._execute = execute and jobs is not None
        self._delay = delay
        self._now = int(time.time())
        self._repairs = Repairs(cluster, settings, self._deadline)
        try:
            self._entries = [RepairEntry(i, state_of(i)) for i in cluster.instances]
        except ValueError as error:
            raise UsageError(str(error)) from None
        self._entries.sort(key=lambda one: one.instance.name)

    def restrict_to(self, group: Group) -> None:
        """Keep only the instances with their primary node in `group`."""
        members = {instance.name for instance in self._cluster.members(group)}
        self._entries = [one for one in self._entries if one.instance.name in members]

    def misspelt_permissions(self) -> list[str]:
        """Return a message for each permission that a tag misspells, and that has no effect."""
        cluster = self.before.cluster
        return list(map(str, misspelt_repairs(cluster, cluster.instances)))

    def follow_up(self) -> None:
        """Update the states, notes and tags of instances with pending or failed repairs."""
        for one in self._entries:
            record = one.state.record
            if one.state.name == STATE_PENDING and record is not None:
                done = self._jobs.ended(record.jobs) if self._jobs and record.jobs else None
                if done is not None:
                    one.note = "its repair succeeded" if done else "its repair failed"
                    result, name = (
                        (REPAIR_SUCCESS, STATE_HEALTHY) if done else (REPAIR_FAILURE, STATE_FAILED)
                    )
                    one.become(name, record.ended(result, self._now))
                elif record.jobs:
                    known = self._jobs is not None
                    one.note = "its jobs have not ended" if known else "its jobs are not known here"
                    one.command = ""
                else:
                    left = f"left alone as long as it has {record.tag}"
                    one.note = f"a repair without jobs is pending: {left}"
                    one.command = _forget(one.instance, record)
            self._commit(one)
            if one.state.name == STATE_FAILED and one.state.record is not None and not one.note:
                one.note = f"a repair failed: left alone as long as it has {one.state.record.tag}"
                one.command = _forget(one.instance, one.state.record)

    def plan(self) -> None:
        """Plan repairs of broken instances that may be repaired; set notes for the others."""
        admitted: dict[str, RepairEntry] = {}
        for one in self._entries:
            one.repair = self._repairs.needed(one.instance)
            if one.repair is not None and one.state.name == STATE_HEALTHY and self._admits(one):
                admitted[one.instance.name] = one
        repairs = [one.repair for one in admitted.values() if one.repair is not None]
        for unit in self._repairs.in_units(repairs):
            check()
            if self._deadline.over():
                for repair in unit:
                    why = f"{repair.kind} is needed ({repair.reason}): {TIME_IS_UP}"
                    admitted[repair.instance.name].note = why
                continue
            self._repairs.placed(unit)
            for repair in unit:
                one = admitted[repair.instance.name]
                if not repair.steps:
                    one.note = f"{repair.kind}: {repair.reason}"
                    continue
                if self._jobs is not None and not self._jobs.possible(repair.opcodes):
                    one.note = f"{repair.kind}: RAPI does not accept this job, LUXI does"
                    continue
                places = ":".join(self._cluster.node_names(repair.nodes))
                one.note = f"{repair.kind}: {repair.reason}; it goes to {places}"
                record = Record(repair.kind, _new_identity(), self._now)
                one.become(STATE_PENDING, record)
                # The execution writes tags that record the repair; each step has their data
                noted = {"type": record.kind, "id": record.identity, "seconds": record.seconds}
                one.steps = [{**step, "repair": noted} for step in repair.steps]
                delay = _delay(self._delay)
                if self._delay and (self._jobs is None or self._jobs.possible([delay])):
                    one.steps[0]["opcodes"] = [delay, *one.steps[0]["opcodes"]]
        # Note the effect of --allow for each instance with a repair that is not allowed
        wanted = {one.instance.name: one for one in self._entries if one.permit}
        repairs = [one.repair for one in wanted.values() if one.repair is not None]
        for unit in self._repairs.in_units(repairs):
            check()
            if self._deadline.over():
                return
            with self._repairs.state.trial():
                self._repairs.placed(unit)
            for repair in unit:
                one = wanted[repair.instance.name]
                if repair.steps:
                    one.command = f"{self._command} --allow {repair.kind}"
                    places = ":".join(self._cluster.node_names(repair.nodes))
                    one.note += f"; --allow {repair.kind} would repair it: it goes to {places}"
                    one.note += ", the data on its disks is lost" * (
                        repair.kind == REPAIR_REINSTALL
                    )
                else:
                    one.note += f"; --allow {repair.kind} would not help: {repair.reason}"
                repair.steps, repair.nodes = [], ()

    def _admits(self, one: RepairEntry) -> bool:
        """Return whether an instance may be repaired now; if not, set its note.

        The repair must be possible and allowed, and the instance must not have an unfinished job.
        """
        repair = one.repair
        assert repair is not None
        if not repair.kind:
            one.note = f"its disks are on {repair.dead}, which is offline: bring the node back"
            return False
        permission = permission_of(self._cluster, one.instance, self._now)
        allowed = permission.or_up_to(self._allow) if repair.by_tags else Permission(self._allow)
        if permission.suspended or not allowed.allows(repair.kind):
            why = str(permission if permission.suspended else allowed)
            if not repair.by_tags and not permission.suspended and not self._allow:
                why = "tags act on drbd and plain instances only, as with harep"
            one.note = f"{repair.kind} is needed ({repair.reason}): {why}"
            one.permit = "" if permission.suspended else repair.kind
            if permission.upto and repair.by_tags:
                one.become(
                    STATE_NEEDS_REPAIR,
                    Record(repair.kind, _new_identity(), self._now, (), REPAIR_ENOPERM),
                )
                self._commit(one)
            return False
        job = self._jobs.busy_with(one.instance.name) if self._jobs else None
        if job is not None:
            one.note = f"{repair.kind} is needed ({repair.reason}): job {job} is about it"
        return job is None

    def _commit(self, one: RepairEntry) -> None:
        """Write the tag changes of an instance to the running cluster, if this round executes."""
        if self._execute and self._jobs is not None and one.tag_changes.added:
            self._jobs.retag(one.instance.name, one.tag_changes.added, one.tag_changes.removed)
            one.tag_changes.written = True

    # The results

    @property
    def entries(self) -> Sequence[RepairEntry]:
        """Return the entries of all instances, sorted by name."""
        return self._entries

    @property
    def before(self) -> State:
        """Return the state of the cluster before the repairs."""
        return State(self._cluster)

    @property
    def after(self) -> State:
        """Return the state of the cluster after all planned repairs."""
        return self._repairs.state

    def transition(self) -> Json:
        """Return the repairs as a transition for execution: a chain of steps for each instance."""
        steps: list[Json] = []
        jobs: list[Json] = []
        for one in self._entries:
            chain: list[int] = []
            for step in one.steps:
                number = len(steps) + 1
                after = chain[-1:]
                because = ["the step before"] * len(after)
                steps.append({"number": number, **step, "after": after, "because": because})
                chain.append(number)
            if chain:
                codes = [code for step in one.steps for code in step["opcodes"]]
                jobs.append({"steps": chain, "opcodes": codes})
        return {"steps": steps, "jobs": jobs}

    def status(self) -> int:
        """Return the exit status: 1 if an instance requires the administrator, else 0.

        Such an instance has a failed repair, a repair that is not allowed or not possible, or a
        pending repair that never ends.
        """
        sick = [
            one for one in self._entries if one.state.name in (STATE_FAILED, STATE_NEEDS_REPAIR)
        ]
        helpless = [o for o in self._entries if o.repair and o.state.name == STATE_HEALTHY]
        endless = [o for o in self._entries if o.endless]
        return 1 if sick or helpless or endless else 0

    def document(self) -> Json:
        """Return the round as plain data: instances that are broken or have a note, and counts."""
        return {
            "command": "repair",
            "executed": self._execute,
            "instances": [
                self._entry(one)
                for one in self._entries
                if one.note or one.state.name != STATE_HEALTHY
            ],
            "broken": sum(one.repair is not None and not one.steps for one in self._entries),
            "counts": dict(sorted(Counter(one.state.name for one in self._entries).items())),
        }

    def _entry(self, one: RepairEntry) -> Json:
        entry: Json = {"instance": one.instance.name, "state": one.state.name, "note": one.note}
        if one.repair is not None:
            entry["broken"] = f"{one.repair.dead} offline"
            if one.repair.kind:
                entry["repair"] = one.repair.kind
        if one.command:
            entry["command"] = one.command
        if one.steps and one.repair is not None:
            entry |= {
                "to": self._cluster.node_names(one.repair.nodes),
                "opcodes": [code for step in one.steps for code in step["opcodes"]],
            }
        if one.tag_changes.added and not (self._execute and one.steps):  # the jobs change these
            entry["tags"] = {"add": one.tag_changes.added, "remove": one.tag_changes.removed}
        return entry


def _forget(instance: Instance, record: Record) -> str:
    """Return the command that removes the tag of `record`, which prevents further repairs."""
    return f"gnt-instance remove-tags {instance.name} {record.tag}"


def _delay(seconds: float) -> Json:
    """Return an opcode that delays a job by `seconds`."""
    return {
        "OP_ID": "OP_TEST_DELAY", "duration": seconds, "on_master": True, "on_nodes": [],
        "repeat": 0, "interruptible": False, "no_locks": False,
    }  # fmt: skip


def _new_identity() -> str:
    """Return a new universally unique identifier (UUID) for the tag that records a repair."""
    from uuid import uuid4

    return str(uuid4())
