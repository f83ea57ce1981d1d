"""Convert transitions to jobs for Ganeti, with job sets, dependencies and the document of both.

The member ``depends`` of a job has the order of the transition. The moves of a job set share no
node and may run at the same time.
"""

from __future__ import annotations

from iallocator.ganeti.opcodes import opcodes_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from iallocator.aliases import Json
    from iallocator.model.cluster import Cluster
    from iallocator.transition.resources import Place
    from iallocator.transition.transition import ScheduledStep, Transition

__all__ = ["chains", "job_sets", "jobs_of", "link_jobs", "transition_document"]


def jobs_of(transition: Transition) -> list[Json]:
    """Return the jobs of a transition, each after the jobs it depends on, for one submission."""
    steps = {step.number: step for step in transition.steps}
    codes = {n: opcodes_of(transition.cluster, step.action) for n, step in steps.items()}
    job_of: dict[int, int] = {}
    jobs: list[Json] = []
    for chain in chains(transition.steps):
        opcodes = [opcode for number in chain for opcode in codes[number]]
        if not opcodes:
            continue
        by_hand: set[int] = set()
        before = _before(chain[0], steps, codes, by_hand)
        waits = sorted({job_of[number] for number in before}, reverse=True)
        for number in chain:
            job_of[number] = len(jobs)
        entry: Json = {"steps": chain, "opcodes": _depending(opcodes, len(jobs), waits)}
        if by_hand:
            entry["by_hand"] = sorted(by_hand)
        jobs.append(entry)
    return jobs


def _before(
    number: int,
    steps: Mapping[int, ScheduledStep],
    codes: Mapping[int, list[Json]],
    by_hand: set[int],
) -> list[int]:
    """Return the steps with opcodes that step `number` depends on.

    Dependencies through steps that a person must do are included.
    """
    positions = []
    for other in steps[number].after:
        if codes[other]:
            positions.append(other)
        else:
            by_hand.add(other)
            positions += _before(other, steps, codes, by_hand)
    return positions


def chains(steps: Sequence[ScheduledStep]) -> list[list[int]]:
    """Divide `steps` into chains, and return the numbers of the steps of each chain.

    The steps of a chain are steps of one instance. Each of them, except the first, depends only on
    the step before, and no other step depends on that one.
    """
    followers: dict[int, int] = {}
    for step in steps:
        for number in step.after:
            followers[number] = followers.get(number, 0) + 1
    by_number = {step.number: step for step in steps}
    made: dict[int, list[int]] = {}
    for step in steps:
        last = step.after[0] if len(step.after) == 1 else 0
        same = last and step.action.name and by_number[last].action.name == step.action.name
        if same and followers[last] == 1 and not step.action.alone:
            made[last].append(step.number)
            made[step.number] = made[last]
        else:
            made[step.number] = [step.number]
    return [chain for number, chain in made.items() if chain[0] == number]


def _depending(opcodes: Sequence[Json], position: int, waits: Sequence[int]) -> list[Json]:
    """Return the opcodes of the job at `position`, which depends on the jobs at `waits`."""
    if not waits:
        return list(opcodes)
    depends = [[other - position, ["success"]] for other in waits]
    return [{**opcodes[0], "depends": depends}, *opcodes[1:]]


def link_jobs(transition: Transition, jobs: Sequence[list[Json]], names: Sequence[str]) -> None:
    """Set the dependencies of `jobs`, one for each instance in `names`, from those of the steps.

    The instances move in the order of `names` in the sequence from which the transition was made.
    Therefore every job depends on earlier jobs only.
    """
    position = {name: k for k, name in enumerate(names)}
    name_of = {step.number: step.action.name for step in transition.steps}
    waits: dict[int, set[int]] = {}
    for step in transition.steps:
        here = position.get(step.action.name)
        if here is None:
            continue
        others = (position.get(name_of[number]) for number in step.after)
        waits.setdefault(here, set()).update(k for k in others if k is not None and k != here)
    for here, earlier in waits.items():
        jobs[here][:] = _depending(jobs[here], here, sorted(earlier, reverse=True))


def job_sets(touched: Iterable[Collection[int]]) -> list[list[int]]:
    """Divide moves into consecutive sets in which no two moves share a node; return positions.

    `touched`: the nodes of each move.
    """
    sets: list[list[int]] = []
    busy: set[int] = set()
    for position, nodes in enumerate(touched):
        if not sets or busy.intersection(nodes):
            sets.append([])
            busy = set()
        sets[-1].append(position)
        busy.update(nodes)
    return sets


def transition_document(transition: Transition) -> Json:
    """Return a transition as plain data, by ``schemas/plan.schema.json``."""
    cluster = transition.cluster
    steps = []
    for step in transition.steps:
        action = step.action
        entry: Json = {"number": step.number, "kind": action.kind}
        if action.instance is not None:
            entry["instance"] = action.instance.name
            entry["from"] = _names(cluster, action.before)
            entry["to"] = _names(cluster, action.after)
        if action.node is not None:
            entry["node"] = cluster.nodes[action.node].name
        if action.tags:
            entry["tags"] = list(action.tags)
        entry["after"], entry["because"] = step.after, step.because
        entry["opcodes"] = opcodes_of(cluster, action)
        steps.append(entry)
    return {
        "steps": steps,
        "waits": transition.waits,
        "longest": transition.longest,
        "left": [{"name": name, "reason": reason} for name, reason in transition.left],
        "remarks": transition.remarks,
        "jobs": jobs_of(transition),
    }


def _names(cluster: Cluster, place: Place | None) -> list[str]:
    return cluster.node_names(place.nodes) if place else []
