"""Report an execution: the state of each job with its reason, and the places of instances."""

from __future__ import annotations

from iallocator.execution.jobs import describe
from iallocator.execution.records import (
    DONE,
    FAILED,
    PENDING,
    REJECTED,
    RETURNING,
    SENDING,
    SENT,
    STUCK,
    route_deviation,
)
from iallocator.transition.step import REBOOT, START, STOP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iallocator.aliases import Json
    from iallocator.execution.cluster_check import Places
    from iallocator.execution.jobs import Job
    from iallocator.execution.records import Records


__all__ = [
    "HALF_MOVED", "complete", "due_by_hand", "execution_document", "moved_away", "rebooted_nodes",
    "report_lines",
]  # fmt: skip

HALF_MOVED = "half moved"


STATE_WORDS = {
    DONE: "done",
    FAILED: "failed",
    REJECTED: "not done",
    SENT: "in the queue",
    SENDING: "perhaps in the queue",
    RETURNING: "coming back",
}


def complete(records: Records) -> bool:
    """Return whether every job is done, except jobs that an administrator must do now."""
    open_jobs = [job for job in records.jobs.values() if records.of[job.number].state != DONE]
    return all(due_by_hand(job, records) for job in open_jobs)


def due_by_hand(job: Job, records: Records) -> bool:
    """Return whether an administrator must do `job` by hand now: its dependencies are done."""
    return job.by_hand and records.of[job.number].state == PENDING and records.free(job)


def execution_document(head: Json, records: Records, places: Places | None) -> Json:
    """Return the progress of an execution as plain data, by ``schemas/plan.schema.json``.

    `head`: the head of its journal. `places`: the present places; None if they are unknown.
    """
    jobs = list(records.whole.values())
    document: Json = {
        "run": head["run"],
        "cluster": head["cluster"],
        "complete": complete(records),
        "jobs": [_job_entry(job, records) for job in jobs],
    }
    rebooted = rebooted_nodes(records)
    if rebooted:
        document["rebooted"] = rebooted
    if places is not None:
        chains: dict[str, list[Json]] = {}
        for job in jobs:
            for step in job.steps:
                if "instance" in step:
                    chains.setdefault(step["instance"], []).append(step)
        document["instances"] = []
        for name, chain in chains.items():
            chain.sort(key=lambda step: int(step["number"]))
            now, runs = list(places.instances.get(name, ())), name in places.running
            document["instances"].append(
                {
                    "instance": name,
                    "from": chain[0]["from"],
                    "to": chain[-1]["to"],
                    "now": now,
                    "state": _progress(now, runs, chain),
                    "runs": runs,
                }
            )
        nodes = {step["node"]: None for job in jobs for step in job.steps if "node" in step}
        document["nodes"] = [
            {"node": name, "offline": name in places.offline, "drained": name in places.drained}
            for name in nodes
        ]
    # Work for the administrator: jobs that failed or were rejected
    stuck = [job for job in records.jobs.values() if records.of[job.number].state in STUCK]
    if not stuck:
        return document
    of_instance: dict[str, list[Job]] = {}
    for job in records.jobs.values():
        if job.instance and records.of[job.number].state != DONE:
            of_instance.setdefault(job.instance, []).append(job)
    to_do, off_way = [], 0
    planner = "--undo" if head["command"] == "undo" else head["command"]
    for job in stuck:
        why = places and route_deviation(of_instance.get(job.instance, [job]), places)
        if why:
            off_way += 1
            to_do.append(
                f"{why}: make a new plan with iallocator {planner}, "
                f"or bring {job.instance} to {':'.join(job.steps[0]['from'])}"
            )
    if off_way < len(stuck):
        to_do.append(
            "remove the causes of the failures, then repeat the command with -X and --resume: "
            "each job goes on from where its instance is then"
        )
    document["to_do"] = to_do
    return document


def rebooted_nodes(records: Records) -> list[str]:
    """Return the names of the nodes that have been rebooted, in the order of the plan."""
    return [
        step["node"]
        for number, job in records.whole.items()
        for step in job.steps
        if step["kind"] == REBOOT and records.of[number].state == DONE
    ]


def _job_entry(job: Job, records: Records) -> Json:
    """Return the entry of a job in `execution_document`: its end, or why it was not submitted."""
    record = records.of[job.number]
    if record.state != PENDING:
        word, why = STATE_WORDS[record.state], record.why
    elif (blocker := records.blocked().get(job.number)) is not None:
        word, why = "not done", f"it waits for: {describe(records.jobs[blocker])}"
    else:
        word, why = ("by hand" if due_by_hand(job, records) else "not begun"), record.why
    entry: Json = {
        "number": job.number,
        "steps": [step["number"] for step in job.steps],
        "what": describe(job),
        "state": word,
    }
    if record.id is not None:
        entry["id"] = record.id
    if why:
        entry["why"] = why
    return entry


def _progress(now: Sequence[str], runs: bool, chain: Sequence[Json]) -> str:
    """Return how far the moves of an instance are, in words.

    `now`: its present nodes. `runs`: whether it runs. `chain`: all of its steps in the plan.
    """
    before, after = chain[0]["from"], chain[-1]["to"]
    switches = [step["kind"] == START for step in chain if step["kind"] in (START, STOP)]
    if now == after and (not switches or runs is switches[-1]):
        return "as planned"
    if now == before and (not switches or runs is not switches[0]):
        return "not moved" if now else "not made"
    if not now:
        return "gone"
    return HALF_MOVED if now in [before, *(step["to"] for step in chain)] else "elsewhere"


def report_lines(document: Json, anew: bool = True) -> Iterator[str]:
    """Yield the lines of an execution document as text.

    `anew`: whether a line says how to leave rebooted nodes out of a new plan.
    """
    by_state: dict[str, list[Json]] = {}
    for job in document["jobs"]:
        by_state.setdefault(job["state"], []).append(job)
    amounts = ", ".join(f"{len(jobs)} {state}" for state, jobs in by_state.items())
    yield f"Carried out on {document['cluster']}: {amounts or 'nothing to do'}"
    for state, jobs in by_state.items():
        if state != "done":
            for job in jobs:
                number = f"job {job['id']}: " if "id" in job else ""
                why = f": {job['why']}" if "why" in job else ""
                yield f"  {state}: {number}{job['what']}{why}"
    if "rebooted" in document:
        nodes = ",".join(document["rebooted"])
        yield f"Rebooted: {nodes}"
        if anew and not document["complete"]:
            yield f"  (a new plan without them: iallocator reboot --done {nodes})"
    if "instances" in document:
        yield "Now:"
        for one in document["instances"]:
            here = f"on {':'.join(one['now'])}" if one["now"] else "on no node"
            here += "" if one["runs"] or not one["now"] else " (not running)"
            planned = f"was on {':'.join(one['from']) or 'no node'}, planned {':'.join(one['to'])}"
            if one["state"] == "as planned":
                yield f"  {one['instance']}: {here}, as planned"
            else:
                yield f"  {one['instance']}: {one['state']}: {here}; {planned}"
        for node in document["nodes"]:
            flags = [flag for flag in ("offline", "drained") if node[flag]]
            yield f"  {node['node']}: {' and '.join(flags) or 'online'}"
    if "to_do" in document:
        yield "To do:"
        yield from (f"  {line}" for line in document["to_do"])


def moved_away(records: Records, now: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return instance that jobs have moved and that is not back -> its nodes before the plan.

    `now`: instance -> its present nodes.

    An instance that no longer exists is included. An instance that a job created is not.
    """
    by_node: dict[str, list[str]] = {}
    for number, job in records.whole.items():
        steps = [step for step in job.steps if "instance" in step]
        if not steps:
            continue
        left = records.jobs[number].steps
        made = steps if records.of[number].state == DONE else steps[: len(steps) - len(left)]
        here = now.get(job.instance)
        failed_late = not made and records.of[number].attempt and here in [s["to"] for s in steps]
        if (made or failed_late) and steps[0]["from"]:
            by_node.setdefault(job.instance, list(steps[0]["from"]))
    return {name: home for name, home in by_node.items() if now.get(name) != home}
