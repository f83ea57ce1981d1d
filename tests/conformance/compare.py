"""Compare two answers to one document, without the parts that can differ by design."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.builders import Json

from .oracle import Answer, GroupResult

# hail keeps running sums: on a nearly uniform cluster a rounding error of 1e-16 in a variance
# is one of 1e-8 in the deviation, and several statistics add up.
TOLERANCE = 1e-7


def differences(ours: Answer, theirs: Answer) -> list[str]:
    """Return the differences, one line each; empty if the answers are equal.

    Success, nodes, counts and opcodes must be equal, scores to within `TOLERANCE`. The words of
    failure messages are not compared.
    """
    if ours.status or theirs.status:
        found = list(_unlike("exit status is zero", ours.status == 0, theirs.status == 0))
        return found and [*found, ours.stderr or theirs.stderr]
    found = list(_unlike("success", ours.success, theirs.success))
    found += _unlike("selected group", ours.selected, theirs.selected)
    found += _unlike("failed and done", ours.counts, theirs.counts)
    if ours.success and theirs.success:
        found += _unlike_results(ours.result, theirs.result)
    return found + list(_unlike_group_results(ours.group_results, theirs.group_results))


def best_score_differences(ours: Answer, theirs: Answer) -> list[str]:
    """Compare success and the score of the best placement, but not its nodes."""
    if ours.status or theirs.status:
        return differences(ours, theirs)
    found = list(_unlike("success", ours.success, theirs.success))
    if found or not ours.success:
        return found
    mine, yours = best_score(ours), best_score(theirs)
    return [] if close(mine, yours) else [f"best score: ours {mine}, hail's {yours}"]


def batch_differences(ours: Answer) -> list[str]:
    """Return differences to hail's rejection of a batch, which does not name instances.

    The only requirement is that iallocator also rejects at least one instance.
    """
    if ours.status:
        return [f"batch: ours fails: {ours.stderr}"]
    if ours.success and not ours.result[1]:
        return ["batch: ours places every instance, hail does not"]
    return []


def best_score(answer: Answer) -> tuple[float, ...]:
    """Return the score of the chosen placement; () if the answer has none."""
    placed = [one for one in answer.group_results if one.nodes]
    chosen = [one for one in placed if one.group == answer.selected]
    return (chosen or placed)[0].score if placed else ()


def close(mine: tuple[float, ...], yours: tuple[float, ...]) -> bool:
    """Return whether two scores are equal except for rounding."""
    pairs = zip(mine, yours, strict=False)
    return len(mine) == len(yours) and all(abs(a - b) <= TOLERANCE for a, b in pairs)


def _unlike(what: str, mine: object, yours: object) -> Iterator[str]:
    if mine != yours:
        yield f"{what}: ours {mine!r}, hail's {yours!r}"


def _unlike_results(mine: Any, yours: Any) -> Iterator[str]:
    if not _is_evacuation(mine) or not _is_evacuation(yours):
        yield from _unlike("result", mine, yours)
        return
    yield from _unlike("moved", mine[0], yours[0])
    yield from _unlike("failed", _names(mine[1]), _names(yours[1]))
    if len(mine) == 3 and len(yours) == 3:
        yield from _unlike_jobs(mine[2], yours[2])


def _is_evacuation(result: Any) -> bool:
    """Return whether `result` is `[moved, failed, jobs]` or `[allocated, failed]`."""
    return isinstance(result, list) and len(result) in (2, 3) and isinstance(result[0], list)


def _names(failed: list[Any]) -> list[str]:
    """Return the names of the failed instances, which may have messages."""
    return [entry if isinstance(entry, str) else entry[0] for entry in failed]


def _unlike_jobs(mine: list[list[Json]], yours: list[list[Json]]) -> Iterator[str]:
    yield from _unlike("number of jobs", len(mine), len(yours))
    for number, (job, other) in enumerate(zip(mine, yours, strict=False)):
        yield from _unlike(f"job {number}: opcodes", _opcodes(job), _opcodes(other))
        for step, (opcode, twin) in enumerate(zip(job, other, strict=False)):
            for key in sorted(set(opcode) | set(twin)):
                where = f"job {number}, opcode {step}, {key}"
                yield from _unlike(where, opcode.get(key, "(absent)"), twin.get(key, "(absent)"))


def _opcodes(job: list[Json]) -> list[str]:
    return [opcode["OP_ID"] for opcode in job]


def _unlike_group_results(
    mine: tuple[GroupResult, ...], yours: tuple[GroupResult, ...]
) -> Iterator[str]:
    by_group = {one.group: one for one in yours}
    yield from _unlike("groups", sorted(v.group for v in mine), sorted(by_group))
    for one in mine:
        if one.group in by_group:
            yield from _unlike_group(one, by_group[one.group])


def _unlike_group(mine: GroupResult, yours: GroupResult) -> Iterator[str]:
    where = f"group {mine.group or '(unnamed)'}"
    yield from _unlike(f"{where}: not tried", bool(mine.error), bool(yours.error))
    yield from _unlike(f"{where}: policy", mine.policy, yours.policy)
    yield from _unlike(f"{where}: successes", mine.successes, yours.successes)
    yield from _unlike(f"{where}: failures", mine.failures, yours.failures)
    yield from _unlike(f"{where}: nodes", mine.nodes, yours.nodes)
    if not close(mine.score, yours.score):
        yield f"{where}: score: ours {mine.score}, hail's {yours.score}"
