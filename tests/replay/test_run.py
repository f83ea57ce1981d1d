"""What comes of one stored request, where that is hard to bring about from outside."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from iallocator.options.settings import Settings
from iallocator.replay.cases import Case, case_of
from iallocator.replay.outcome import DIFFERS, ERROR, OK, UPDATED, WRITTEN
from iallocator.replay.run import How, run_case
from iallocator.reply import Reply


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """A request without a response."""
    (tmp_path / "request.json").write_text("{}")
    return case_of(str(tmp_path / "request.json"))


@pytest.fixture
def chatty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that warns."""

    def respond(raw: bytes, settings: Settings) -> Reply:
        print("node1 is missing memory", file=sys.stderr)
        return Reply(True, "", [], [])

    monkeypatch.setattr("iallocator.replay.run.respond", respond)


@pytest.mark.usefixtures("chatty")
def test_answer_with_unexpected_stderr_differs(case: Case) -> None:
    """A warning that is not stored is a difference, unless only some members count."""
    run_case(case, How(update=True))
    Path(case.stderr).unlink()
    outcome = run_case(case, How())
    assert (outcome.status, outcome.passed) == (DIFFERS, False)
    assert outcome.details == ('stderr: "" → "node1 is missing memory\\n"',)
    assert run_case(case, How(keys=("success",))).status == OK


@pytest.mark.usefixtures("chatty")
def test_answer_with_stored_stderr_is_ok(case: Case) -> None:
    """A warning is stored by an update, and compared from then on."""
    assert run_case(case, How(update=True)).status == WRITTEN
    assert Path(case.stderr).read_text() == "node1 is missing memory\n"
    assert run_case(case, How()).status == OK
    Path(case.stderr).write_text("another warning\n")
    assert run_case(case, How(update=True)).status == UPDATED
    assert run_case(case, How()).status == OK


def test_answer_without_warning_removes_the_stored_one(case: Case) -> None:
    """An update leaves no file where nothing is said any more."""
    Path(case.stderr).write_text("node1 is missing memory\n")
    assert run_case(case, How(update=True)).status == WRITTEN
    assert not Path(case.stderr).exists()


def test_bug_while_answering_is_an_error_with_its_traceback(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is no RequestError does not stop the command, and does not pass."""

    def respond(raw: bytes, settings: Settings) -> Reply:
        raise ZeroDivisionError("no nodes")

    monkeypatch.setattr("iallocator.replay.run.respond", respond)
    outcome = run_case(case, How())
    assert outcome.status == ERROR
    assert outcome.details[-1] == "ZeroDivisionError: no nodes"


def test_request_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """A file that vanished is said so."""
    outcome = run_case(case_of(str(tmp_path / "gone.request.json")), How())
    assert outcome.status == ERROR
    assert "No such file or directory" in outcome.details[0]
