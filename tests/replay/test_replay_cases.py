"""Every case in ``fixtures`` is answered as it was, for the same reasons.

``python -m pytest tests/replay --snapshot-update`` stores new answers; read the diff.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from iallocator.replay.cases import case_of
from iallocator.replay.outcome import pretty
from iallocator.replay.run import answer_case
from iallocator.wire.validation.validate import problems
from tests.command import respond

from .beside import Ranking, Response, all_cases, allocate_cases, case_id
from .ranking import ranking

TABLES = ("nodes", "instances", "nodegroups")
every_case = pytest.mark.parametrize("case", all_cases(), ids=case_id)


@every_case
def test_case_answered_again_has_the_stored_response(
    case: Path, snapshot: SnapshotAssertion
) -> None:
    """The response document is, byte for byte, the one stored beside the case."""
    answered = answer_case(case_of(str(case / "request.json")))
    assert pretty(answered.document) == snapshot(extension_class=Response)


@every_case
def test_case_answered_again_complains_as_stored(case: Path) -> None:
    """Nothing is written on stderr but what is stored beside the case."""
    found = case_of(str(case / "request.json"))
    stored = Path(found.stderr)
    expected = stored.read_text(encoding="utf-8") if stored.exists() else ""
    assert answer_case(found).stderr == expected


@pytest.mark.parametrize("case", allocate_cases(), ids=case_id)
def test_case_ranked_again_has_the_stored_ranking(case: Path, snapshot: SnapshotAssertion) -> None:
    """The placements, their scores and the terms of the best are as stored."""
    found = case_of(str(case / "request.json"))
    table = ranking(Path(found.request).read_bytes(), found.options())
    assert table == snapshot(extension_class=Ranking)


@every_case
def test_case_with_tables_reversed_has_the_same_answer(case: Path) -> None:
    """The order of nodes, instances and groups in the document changes nothing."""
    found = case_of(str(case / "request.json"))
    stored = json.loads(Path(found.response).read_text(encoding="utf-8"))
    if "error" in stored:
        pytest.skip("there is no answer")
    if "--compat hail" in " ".join(found.options()):
        pytest.skip("hail goes by the order of the document")
    document: dict[str, Any] = json.loads(Path(found.request).read_bytes())
    for table in TABLES:
        if table in document:
            document[table] = dict(reversed(document[table].items()))
    assert respond(document, *(found.options())) == stored


@every_case
def test_request_of_case_is_valid_unless_its_answer_is_an_error(case: Path) -> None:
    """Cases are documents as the published contract wants them."""
    found = case_of(str(case / "request.json"))
    stored = json.loads(Path(found.response).read_text(encoding="utf-8"))
    assert bool(problems(Path(found.request).read_bytes())) == ("error" in stored)


@every_case
def test_readme_of_case_tells_scenario_and_outcome(case: Path) -> None:
    """Whoever reads a case finds what it is about and what must come out."""
    text = (case / "README").read_text(encoding="utf-8")
    assert text.startswith("The scenario is ")
    assert "\nThe expected outcome " in text
