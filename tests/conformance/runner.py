"""Compare answers to many generated documents, and count the results."""

from __future__ import annotations

import json
import multiprocessing
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from tests.builders import Json

from . import compare, fairness
from .documents import document
from .oracle import Answer, hail, read

COMPAT = "--compat=hail"
NO_CAPACITY_CHECKS = "--no-capacity-checks"
IGNORE_SOFT_ERRORS = "--ignore-soft-errors"
Program = Callable[[Json, tuple[str, ...]], Answer]


@dataclass(frozen=True)
class Mode:
    """The options for both programs.

    Attributes
    ----------
    ours, theirs
        Options for each side.
    same_place
        Whether the whole answers must be equal, or only the best scores.
    """

    ours: tuple[str, ...]
    theirs: tuple[str, ...] = ()
    same_place: bool = True


MODES = {
    "hail": Mode((COMPAT,)),
    "no-capacity-checks": Mode((COMPAT, NO_CAPACITY_CHECKS), (NO_CAPACITY_CHECKS,)),
    "ignore-soft-errors": Mode((COMPAT, IGNORE_SOFT_ERRORS), (IGNORE_SOFT_ERRORS,)),
    "strict": Mode(("--n1", "strict"), same_place=False),
}


@dataclass(frozen=True)
class Case:
    """One generated document, by number and kind, in one mode."""

    seed: int
    kind: str
    mode: str

    @property
    def reproduce(self) -> str:
        """Return the command that runs only this case."""
        return (
            f"python -m tests.conformance --kind {self.kind} --mode {self.mode} "
            f"--start {self.seed} --seeds 1"
        )


@dataclass
class Summary:
    """Counts the results of many cases."""

    equal: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    different: list[tuple[Case, list[str]]] = field(default_factory=list)

    def add(self, case: Case, outcome: str | list[str]) -> None:
        """Count the result of one case: differences, or the reason for its exclusion."""
        if isinstance(outcome, str):
            self.left_out[outcome] += 1
        elif outcome:
            self.different.append((case, outcome))
        else:
            self.equal += 1


def ours(request: Json, options: tuple[str, ...]) -> Answer:
    """Return iallocator's answer, or the exception that it raised, from this process."""
    from iallocator.cli import answer  # not needed to test the suite itself
    from iallocator.errors import RequestError

    try:
        return read(answer(json.dumps(request).encode(), list(options)))
    except RequestError as error:
        return Answer(status=2, stderr=str(error))
    except Exception:
        return Answer(status=1, stderr=traceback.format_exc())


def theirs(request: Json, options: tuple[str, ...]) -> Answer:
    """Return hail's answer as a stand-in for `ours`, to test the comparison itself."""
    return hail(
        request,
        *(option for option in options if option in (NO_CAPACITY_CHECKS, IGNORE_SOFT_ERRORS)),
    )


def check(case: Case, program: Program = ours) -> str | list[str]:
    """Return the differences of one case, or the reason for its exclusion."""
    return check_document(document(case.seed, case.kind), MODES[case.mode], program)


def check_document(request: Json, mode: Mode, program: Program = ours) -> str | list[str]:
    """Return the differences of the answers to a document, or why it is excluded."""
    reason = _left_out(request, mode)
    if reason:
        return reason
    # Without --compat, ties go to the first by name; in hail, to the last in the document.
    shown = request if mode.same_place else last_by_name_first(request)
    expected = hail(shown, *mode.theirs)
    if "score: NaN" in expected.info:
        return fairness.NO_NUMBER
    found = program(request, mode.ours)
    if _whole_batch_rejected(request, expected):
        return compare.batch_differences(found)
    if not mode.same_place:
        return compare.best_score_differences(found, expected)
    return compare.differences(found, expected)


def _left_out(request: Json, mode: Mode) -> str:
    if not mode.same_place and fairness.ranked_otherwise(request):
        return fairness.LOST_ALLOCATIONS
    return fairness.incomparable(request, like_hail=mode.same_place)


def _whole_batch_rejected(request: Json, expected: Answer) -> bool:
    """Return whether hail rejects the whole batch without naming instances that fit."""
    several = request["request"]["type"] == "multi-allocate"
    return several and expected.status == 0 and not expected.success


def last_by_name_first(request: Json) -> Json:
    """Return the document with every table in descending order of names."""
    tables = ("nodes", "instances", "nodegroups")
    sorted_ = {table: dict(sorted(request[table].items(), reverse=True)) for table in tables}
    groups = sorted(request["nodegroups"].items(), key=lambda item: item[1]["name"], reverse=True)
    return {**request, **sorted_, "nodegroups": dict(groups)}


def run(cases: Sequence[Case], program: Program = ours, jobs: int = 1) -> Summary:
    """Return the counted results of `program` compared with hail, in `jobs` processes."""
    summary = Summary()
    for case, outcome in zip(cases, _outcomes(cases, program, jobs), strict=True):
        summary.add(case, outcome)
    return summary


def _outcomes(cases: Sequence[Case], program: Program, jobs: int) -> Iterator[str | list[str]]:
    work = partial(check, program=program)
    if jobs == 1:
        yield from map(work, cases)
        return
    with multiprocessing.Pool(jobs) as pool:
        yield from pool.imap(work, cases, chunksize=16)
