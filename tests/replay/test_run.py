"""Test the result of one stored request, and the comparison of two JSON documents."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from iallocator.options.settings import Settings
from iallocator.replay.cases import Case, case_of
from iallocator.replay.outcome import (
    CASE_DIFFERS,
    CASE_ERROR,
    CASE_OK,
    CASE_UPDATED,
    CASE_WRITTEN,
    differences,
)
from iallocator.replay.run import How, run_case
from iallocator.reply import Reply


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """Return a request without a response."""
    (tmp_path / "request.json").write_text("{}")
    return case_of(str(tmp_path / "request.json"))


@pytest.fixture
def chatty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the program by one that prints a warning."""

    def respond(raw: bytes, settings: Settings) -> Reply:
        print("node1 is missing memory", file=sys.stderr)
        return Reply(True, "", [], [])

    monkeypatch.setattr("iallocator.replay.run.respond", respond)


@pytest.mark.usefixtures("chatty")
def test_answer_with_unexpected_stderr_differs(case: Case) -> None:
    """A warning that is not stored is a difference, unless only some members are compared."""
    run_case(case, How(update=True))
    Path(case.stderr).unlink()
    outcome = run_case(case, How())
    assert (outcome.status, outcome.passed) == (CASE_DIFFERS, False)
    assert outcome.details == ('stderr: "" → "node1 is missing memory\\n"',)
    assert run_case(case, How(keys=("success",))).status == CASE_OK


@pytest.mark.usefixtures("chatty")
def test_answer_with_stored_stderr_is_ok(case: Case) -> None:
    """`replay --update` stores a warning, which is compared from then on."""
    assert run_case(case, How(update=True)).status == CASE_WRITTEN
    assert Path(case.stderr).read_text() == "node1 is missing memory\n"
    assert run_case(case, How()).status == CASE_OK
    Path(case.stderr).write_text("another warning\n")
    assert run_case(case, How(update=True)).status == CASE_UPDATED
    assert run_case(case, How()).status == CASE_OK


def test_answer_without_warning_removes_the_stored_one(case: Case) -> None:
    """`replay --update` removes a stored warning that is not printed any more."""
    Path(case.stderr).write_text("node1 is missing memory\n")
    assert run_case(case, How(update=True)).status == CASE_WRITTEN
    assert not Path(case.stderr).exists()


def test_bug_while_answering_is_an_error_with_its_traceback(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unexpected exception fails its case with the traceback."""

    def respond(raw: bytes, settings: Settings) -> Reply:
        raise ZeroDivisionError("no nodes")

    monkeypatch.setattr("iallocator.replay.run.respond", respond)
    outcome = run_case(case, How())
    assert outcome.status == CASE_ERROR
    assert outcome.details[-1] == "ZeroDivisionError: no nodes"


def test_unreadable_request_is_an_error(tmp_path: Path) -> None:
    """A request file that cannot be read is an error of its case."""
    outcome = run_case(case_of(str(tmp_path / "gone.request.json")), How())
    assert outcome.status == CASE_ERROR
    assert "No such file or directory" in outcome.details[0]


def printed_differences(stored: object, now: object) -> list[str]:
    """Return every difference of two documents as `replay` prints it."""
    return [str(found) for found in differences(stored, now)]


@pytest.mark.parametrize(
    ("stored", "now"),
    [
        ({"a": 1, "b": [True, None]}, {"b": [True, None], "a": 1}),
        (1.234567891, 1.234567893),
        (2, 2.0),
    ],
)
def test_differences_of_equal_documents_are_none(stored: object, now: object) -> None:
    """Differences in order and beyond the eighth decimal are ignored."""
    assert printed_differences(stored, now) == []


@pytest.mark.parametrize(
    ("stored", "now", "difference"),
    [
        (1.23456789, 1.23456788, "(the whole): 1.23456789 → 1.23456788"),
        (True, 1, "(the whole): true → 1"),
        (None, False, "(the whole): null → false"),
        ([1], {"0": 1}, '(the whole): [1] → {"0": 1}'),
        ({"a": [1, 2]}, {"a": [1]}, "a/1: 2 → (absent)"),
        ({"a": {}}, {"a": {"é": "ü"}}, 'a/é: (absent) → "ü"'),
    ],
)
def test_difference_of_values_is_reported_with_its_path(
    stored: object, now: object, difference: str
) -> None:
    """A difference of values has its path; booleans are not numbers, and null is not missing."""
    assert printed_differences(stored, now) == [difference]


def test_difference_of_long_values_takes_two_lines() -> None:
    """A difference of long values is printed in two lines."""
    assert printed_differences({"info": "a" * 60}, {"info": "b" * 60}) == [
        f'info: "{"a" * 60}"\n    → "{"b" * 60}"'
    ]
