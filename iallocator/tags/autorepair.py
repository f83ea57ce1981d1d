"""Parse and write the tags that allow and record repairs, compatible with harep.

``ganeti:watcher:autorepair:TYPE`` on an instance, its group or the cluster allows repairs up to
that type. The tags of the nearest object apply. Of several tags on one object, the least
destructive applies. ``...:suspend[:SECONDS]`` suspends the permission, for ever or until the time
SECONDS. ``...:pending:TYPE:ID:SECONDS:JOBS`` and ``...:result:TYPE:ID:SECONDS:RESULT:JOBS`` on an
instance record a repair. Seconds are since 1970, jobs are joined by ``+``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from iallocator.model.tags import REPAIR_TYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance

__all__ = [
    "REPAIR_ENOPERM", "REPAIR_FAILURE", "REPAIR_SUCCESS", "STATE_FAILED", "STATE_HEALTHY",
    "STATE_NEEDS_REPAIR", "STATE_PENDING", "Permission", "Record", "RepairState", "is_record",
    "permission_of", "state_of",
]  # fmt: skip

AUTOREPAIR_PREFIX = "ganeti:watcher:autorepair:"
SUSPEND = AUTOREPAIR_PREFIX + "suspend"

REPAIR_ENOPERM, REPAIR_SUCCESS, REPAIR_FAILURE = REPAIR_RESULTS = ("enoperm", "success", "failure")
"""The results of repairs. If a repair has several results, the last one in this list applies."""

STATE_HEALTHY, STATE_FAILED, STATE_PENDING, STATE_NEEDS_REPAIR = (
    "Healthy",
    "Failure",
    "Pending repair",
    "Needs repair",
)
"""The states of an instance, in harep's words."""


@dataclass(frozen=True)
class Permission:
    """The repairs that are allowed for an instance.

    Attributes
    ----------
    upto:
        The most destructive type of repair that is allowed; "" for none.
    suspended:
        End of the suspension in seconds since 1970 (infinity: for ever); 0 without suspension.
    """

    upto: str = ""
    suspended: float = 0

    def allows(self, kind: str) -> bool:
        """Return whether a repair of the type `kind` is allowed."""
        return bool(self.upto) and REPAIR_TYPES.index(kind) <= REPAIR_TYPES.index(self.upto)

    def or_up_to(self, kind: str) -> Permission:
        """Return a permission that also allows repairs up to the type `kind`; "" adds no type."""
        return Permission(kind, self.suspended) if kind and not self.allows(kind) else self

    def __str__(self) -> str:
        if self.suspended:
            until = "" if self.suspended == inf else f" until {self.suspended:.0f}"
            return f"repairs are suspended{until}"
        return f"only repairs up to {self.upto} are allowed" if self.upto else "no tag allows it"


@dataclass(frozen=True)
class Record:
    """A repair that a tag of an instance records; `result` is "" while it is pending."""

    kind: str
    identity: str
    seconds: int
    jobs: tuple[int, ...] = ()
    result: str = ""

    @property
    def tag(self) -> str:
        """Return the tag that represents this record."""
        word = "result" if self.result else "pending"
        middle = [self.result] if self.result else []
        jobs = "+".join(map(str, self.jobs))
        parts = [word, self.kind, self.identity, str(self.seconds), *middle, jobs]
        return AUTOREPAIR_PREFIX + ":".join(parts)

    def ended(self, result: str, seconds: int) -> Record:
        """Return a copy of the record for a repair that ended with `result` at a time.

        `seconds`: the time in seconds since 1970.
        """
        return replace(self, result=result, seconds=seconds)


@dataclass(frozen=True)
class RepairState:
    """The repair state of an instance, from its tags.

    Attributes
    ----------
    name:
        One of `STATE_HEALTHY`, `STATE_FAILED`, `STATE_PENDING`, `STATE_NEEDS_REPAIR`.
    record:
        The record in the decisive tag; None if there is none.
    outdated:
        The tags to remove with the next change of tags.
    """

    name: str
    record: Record | None = None
    outdated: tuple[str, ...] = ()

    def changed(self, name: str, record: Record) -> RepairState:
        """Return the state `name` with a new `record`; the present tag becomes outdated."""
        old = () if self.record is None else (self.record.tag,)
        return RepairState(name, record, (*old, *self.outdated))


def permission_of(cluster: Cluster, instance: Instance, now: float) -> Permission:
    """Return the permission in the tags of the instance, else of its group, else of the cluster."""
    group = cluster.nodes[instance.nodes[0]].group
    for tags in (instance.tags, group.tags, cluster.tags):
        words = [tag[len(SUSPEND) :] for tag in tags if tag.startswith(SUSPEND)]
        times = [inf if word in ("", ":") else _seconds(word) for word in words]
        until = max((time for time in times if time > now), default=0)
        if until:
            return Permission(suspended=until)
        allowed = [kind for kind in REPAIR_TYPES if AUTOREPAIR_PREFIX + kind in tags]
        if allowed:
            return Permission(allowed[0])
    return Permission()


def _seconds(word: str) -> float:
    """Return the time in `word`, which is ``:SECONDS``; 0 if the time is invalid."""
    text = word[1:]
    return float(text) if word.startswith(":") and text.isascii() and text.isdigit() else 0


def state_of(instance: Instance) -> RepairState:
    """Return the repair state of an instance, from its tags.

    If a repair has failed, the earliest failure decides the state. Otherwise, the latest repair
    decides it.

    Raises
    ------
    ValueError
        If a repair began while another was pending.
    """
    repairs: dict[str, list[Record]] = {}
    for record in filter(None, map(_record, instance.tags)):
        repairs.setdefault(record.identity, []).append(record)
    state = RepairState(STATE_HEALTHY)
    # By the earliest moment of a repair; of repairs that began at the same time, by name
    begun = sorted(
        repairs.values(), key=lambda some: (min(r.seconds for r in some), some[0].identity)
    )
    ranks = ("", *REPAIR_RESULTS)
    for records in begun:
        last = max(records, key=lambda one: (ranks.index(one.result), one.seconds))
        if state.name == STATE_FAILED:
            break
        if state.name == STATE_PENDING and state.record is not None:
            raise ValueError(
                f"{instance.name}: tag {last.tag}, though {state.record.tag} is pending"
            )
        earlier = tuple(one.tag for one in records if one != last)
        name = (
            STATE_PENDING
            if not last.result
            else STATE_FAILED
            if last.result == REPAIR_FAILURE
            else STATE_HEALTHY
        )
        state = state.changed(name, last)
        state = replace(state, outdated=(*state.outdated, *earlier))
    return state


def is_record(tag: str) -> bool:
    """Return whether a tag is a valid record of a repair."""
    return _record(tag) is not None


def _record(tag: str) -> Record | None:
    """Return the record in a tag; None if it is another tag, or invalid."""
    if not tag.startswith((AUTOREPAIR_PREFIX + "pending:", AUTOREPAIR_PREFIX + "result:")):
        return None
    word, *parts = tag[len(AUTOREPAIR_PREFIX) :].split(":")
    if len(parts) != (5 if word == "result" else 4):
        return None
    kind, identity, seconds, *result, jobs = parts
    numbers = jobs.split("+") if jobs else []
    known = kind in REPAIR_TYPES and (not result or result[0] in REPAIR_RESULTS)
    if not known or not all(n.isascii() and n.isdigit() for n in (seconds, *numbers)):
        return None
    return Record(kind, identity, int(seconds), tuple(map(int, numbers)), "".join(result))
