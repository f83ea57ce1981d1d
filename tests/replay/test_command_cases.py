"""Test that the output of every command in ``fixtures`` equals the stored output.

``iallocator replay --update fixtures`` stores new answers; read the diff.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iallocator.commands.replay import stored_commands
from iallocator.replay.outcome import CASE_OK
from iallocator.replay.run import How, run_case
from tests.schemas import OF_COMMAND, conforms

from .beside import case_id, case_in, command_cases

every_case = pytest.mark.parametrize("case", command_cases(), ids=case_id)


@every_case
def test_command_case_has_the_stored_output(case: Path) -> None:
    """The output and the exit status of each stored command are as stored."""
    outcome = run_case(case_in(case), How(commands=stored_commands()))
    assert (outcome.status, outcome.details) == (CASE_OK, ())


@every_case
def test_answer_of_command_case_fits_its_schema(case: Path) -> None:
    """The JSON output of each stored command fits its schema."""
    found = Path(case_in(case).response)
    stored = json.loads(found.read_text(encoding="utf-8")) if found.exists() else {}
    command, *words = case_in(case).options()
    if command not in OF_COMMAND or not stored.keys() - {"error"} or "--json=1" in words:
        pytest.skip("what it prints has no schema")
    conforms(stored | {"time": "2026-01-02T03:10:00Z"}, OF_COMMAND[command])


@every_case
def test_readme_of_command_case_reports_scenario_and_outcome(case: Path) -> None:
    """The README of each stored command has a scenario and an expected result."""
    text = (case / "README").read_text(encoding="utf-8")
    assert text.startswith("The scenario is ")
    assert "\nThe expected outcome " in text


def test_cases_of_commands_are_found() -> None:
    """Stored commands exist, so that the tests of this module run."""
    assert len(command_cases()) >= 8
