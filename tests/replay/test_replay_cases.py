"""Test that every case in ``fixtures`` has the stored answer, and hail's stored answer."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from iallocator.cli import answer
from iallocator.replay.cases import case_of
from iallocator.replay.run import answer_case
from iallocator.wire.codec import pretty
from iallocator.wire.validation import problems
from tests.command import respond
from tests.conformance.compare import differences
from tests.conformance.oracle import HAIL, installed, read
from tests.patience import PATIENCE

from .beside import Ranking, Response, all_cases, allocate_cases, case_id
from .ranking import ranking

TABLES = ("nodes", "instances", "nodegroups")
every_case = pytest.mark.parametrize("case", all_cases(), ids=case_id)


@every_case
def test_case_has_the_stored_response(case: Path, snapshot: SnapshotAssertion) -> None:
    """The response of each case equals the stored one, byte for byte."""
    answered = answer_case(case_of(str(case / "request.json")))
    assert pretty(answered.document) + "\n" == snapshot(extension_class=Response)


@every_case
def test_case_has_the_stored_stderr(case: Path) -> None:
    """The text on stderr of each case equals the stored text."""
    found = case_of(str(case / "request.json"))
    stored = Path(found.stderr)
    expected = stored.read_text(encoding="utf-8") if stored.exists() else ""
    assert answer_case(found).stderr == expected


@pytest.mark.parametrize("case", allocate_cases(), ids=case_id)
def test_case_has_the_stored_ranking(case: Path, snapshot: SnapshotAssertion) -> None:
    """The ranking of each case, with scores and terms, equals the stored one."""
    found = case_of(str(case / "request.json"))
    table = ranking(Path(found.request).read_bytes(), found.options())
    assert table == snapshot(extension_class=Ranking)


@every_case
def test_case_with_reversed_tables_has_the_same_answer(case: Path) -> None:
    """The answer of each case does not depend on the order of nodes, instances and groups."""
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
    """The request of each case fits the published schema, unless an error is expected."""
    found = case_of(str(case / "request.json"))
    stored = json.loads(Path(found.response).read_text(encoding="utf-8"))
    assert bool(problems(Path(found.request).read_bytes())) == ("error" in stored)


@every_case
def test_readme_of_case_reports_scenario_and_outcome(case: Path) -> None:
    """The README of each case has a scenario and an expected result."""
    text = (case / "README").read_text(encoding="utf-8")
    assert text.startswith("The scenario is ")
    assert "\nThe expected outcome " in text


pytestmark = pytest.mark.skipif(not installed(), reason="hail (ganeti-htools) is not installed")

KNOWN_TO_HAIL = (
    "--ignore-dynu", "--ignore-soft-errors", "--no-capacity-checks", "--restrict-allocation-to",
    "--static-kvm-node-memory",
)  # fmt: skip
STORED = [case for case in allocate_cases() if list(case.glob("hail.*"))]
READ_BY_HAIL = [case for case in allocate_cases() if not (case / "hail.txt").exists()]


def options_of(case: Path) -> list[str]:
    """Return the options of a case that hail has, too."""
    options = case_of(str(case / "request.json")).options()
    return [option for option in options if option.partition("=")[0] in KNOWN_TO_HAIL]


def ask_hail(case: Path) -> tuple[str, str]:
    """Return the name and the text of the file with hail's answer."""
    command = [str(HAIL), str(case / "request.json"), *options_of(case)]
    done = subprocess.run(command, capture_output=True, check=False, timeout=PATIENCE, text=True)
    if done.returncode:
        return "hail.txt", done.stdout + done.stderr
    return "hail.json", pretty(json.loads(done.stdout)) + "\n"


@pytest.mark.parametrize("case", STORED, ids=case_id)
def test_stored_answer_of_hail_is_that_of_the_installed_hail(case: Path) -> None:
    """The stored answer of hail is that of the installed hail."""
    name, text = ask_hail(case)
    assert (case / name).read_text(encoding="utf-8") == text


@pytest.mark.parametrize("case", allocate_cases(), ids=case_id)
def test_answer_that_differs_from_hail_has_that_of_hail_stored(case: Path) -> None:
    """Each case with another answer than hail's has hail's answer stored beside it."""
    name, text = ask_hail(case)
    ours = json.loads((case / "response.json").read_text(encoding="utf-8"))
    theirs = json.loads(text) if name == "hail.json" else {}
    alike = all(ours.get(key) == theirs.get(key) for key in ("success", "result"))
    assert alike or case in STORED


@pytest.mark.parametrize("case", READ_BY_HAIL, ids=case_id)
def test_case_with_compat_hail_has_the_answer_of_hail(case: Path) -> None:
    """With ``--compat hail``, each valid case has the answer of hail."""
    if "error" in json.loads((case / "response.json").read_text(encoding="utf-8")):
        pytest.skip("we refuse the request")
    ours = answer((case / "request.json").read_bytes(), [*options_of(case), "--compat=hail"])
    theirs = ask_hail(case)[1].encode()
    assert differences(read(ours), read(theirs)) == []
