"""What was done, what was not and why, and where everything is now."""

from __future__ import annotations

from iallocator.execution.jobs import describe
from iallocator.execution.records import DONE, FAILED, PENDING, REFUSED, SENDING, SENT
from iallocator.transition.step import START, STOP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iallocator.aliases import Json
    from iallocator.execution.ground import Places
    from iallocator.execution.jobs import Job
    from iallocator.execution.records import Records

    Standing = tuple[list[str], bool | None]
    """Nodes, and whether it runs; None: whatever."""

__all__ = ["HALF_MOVED", "complete", "execution_document", "report_lines"]

HALF_MOVED = "half moved"

WORDS = {
    DONE: "done",
    FAILED: "failed",
    REFUSED: "not done",
    SENT: "in the queue",
    SENDING: "perhaps in the queue",
}


def complete(records: Records) -> bool:
    """Whether every job has been done, but for what is to be done by hand in the end."""
    open_jobs = [job for job in records.jobs.values() if records.of[job.number].state != DONE]
    return all(job.by_hand and records.free(job) for job in open_jobs)


def execution_document(head: Json, records: Records, places: Places | None) -> Json:
    """An execution as plain data; see ``schemas/plan.schema.json``.

    `head`: of its journal.  `places`: where everything is now; None if nobody can say.
    """
    jobs = list(records.whole.values())
    found: Json = {
        "run": head["run"],
        "cluster": head["cluster"],
        "complete": complete(records),
        "jobs": [_job(job, records) for job in jobs],
    }
    if places is not None:
        found["instances"] = list(_instances(jobs, places))
        found["nodes"] = list(_nodes(jobs, places))
    return found


def _job(job: Job, records: Records) -> Json:
    record = records.of[job.number]
    word, why = _fate(job, records)
    found: Json = {
        "number": job.number,
        "steps": [step["number"] for step in job.steps],
        "what": describe(job),
        "state": word,
    }
    if record.id is not None:
        found["id"] = record.id
    if why:
        found["why"] = why
    return found


def _fate(job: Job, records: Records) -> tuple[str, str]:
    """How a job ended, or why it was not begun."""
    record = records.of[job.number]
    if record.state != PENDING:
        return WORDS[record.state], record.why
    blocker = records.blocked().get(job.number)
    if blocker is not None:
        return "not done", f"it waits for: {describe(records.jobs[blocker])}"
    return ("by hand" if job.by_hand else "not begun"), ""


def _instances(jobs: Sequence[Job], places: Places) -> Iterator[Json]:
    """Where each instance of the plan was, was to go, and is."""
    steps: dict[str, list[Json]] = {}
    for job in jobs:
        for step in job.steps:
            if "instance" in step:
                steps.setdefault(step["instance"], []).append(step)
    for name, chain in steps.items():
        chain.sort(key=lambda step: int(step["number"]))
        before, after = chain[0]["from"], chain[-1]["to"]
        now = list(places.instances.get(name, ()))
        runs = name in places.running
        yield {
            "instance": name,
            "from": before,
            "to": after,
            "now": now,
            "state": _standing((now, runs), _begins(chain), _ends(chain), chain),
            "runs": runs,
        }


def _begins(chain: Sequence[Json]) -> Standing:
    """Where the instance of a chain of steps is before it, and whether it runs if that changes."""
    runs = [step["kind"] == STOP for step in chain if step["kind"] in (START, STOP)]
    return chain[0]["from"], runs[0] if runs else None


def _ends(chain: Sequence[Json]) -> Standing:
    """The same after it."""
    runs = [step["kind"] == START for step in chain if step["kind"] in (START, STOP)]
    return chain[-1]["to"], runs[-1] if runs else None


def _standing(now: Standing, before: Standing, after: Standing, chain: Sequence[Json]) -> str:
    """How far an instance has come."""

    def like(then: Standing) -> bool:
        return now[0] == then[0] and then[1] in (None, now[1])

    if like(after):
        return "as planned"
    if like(before):
        return "not moved" if now[0] else "not made"
    if not now[0]:
        return "gone"
    way = [before[0], *(step["to"] for step in chain)]
    return HALF_MOVED if now[0] in way else "elsewhere"


def _nodes(jobs: Sequence[Job], places: Places) -> Iterator[Json]:
    names = {step["node"]: None for job in jobs for step in job.steps if "node" in step}
    for name in names:
        yield {
            "node": name,
            "offline": name in places.offline,
            "drained": name in places.drained,
        }


def report_lines(found: Json) -> Iterator[str]:
    """The same for people."""
    by_state: dict[str, list[Json]] = {}
    for job in found["jobs"]:
        by_state.setdefault(job["state"], []).append(job)
    amounts = ", ".join(f"{len(jobs)} {state}" for state, jobs in by_state.items())
    yield f"Carried out on {found['cluster']}: {amounts or 'nothing to do'}"
    for state, jobs in by_state.items():
        if state != "done":
            yield from (f"  {state}: {_job_line(job)}" for job in jobs)
    if "instances" not in found:
        return
    yield "Now:"
    for one in found["instances"]:
        yield f"  {one['instance']}: {_place(one)}"
    for node in found["nodes"]:
        flags = [flag for flag in ("offline", "drained") if node[flag]]
        yield f"  {node['node']}: {' and '.join(flags) or 'online'}"


def _job_line(job: Json) -> str:
    number = f"job {job['id']}: " if "id" in job else ""
    why = f": {job['why']}" if "why" in job else ""
    return f"{number}{job['what']}{why}"


def _place(one: Json) -> str:
    here = f"on {':'.join(one['now'])}" if one["now"] else "on no node"
    here += "" if one["runs"] or not one["now"] else " (not running)"
    if one["state"] == "as planned":
        return f"{here}, as planned"
    planned = f"was on {':'.join(one['from']) or 'no node'}, planned {':'.join(one['to'])}"
    return f"{one['state']}: {here}; {planned}"
