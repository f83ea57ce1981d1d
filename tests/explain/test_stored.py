"""Test that the explanation of every stored request describes its decision."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iallocator.commands import COMMANDS
from iallocator.engine import respond
from iallocator.explain.explain import explain
from iallocator.options.parser import parse
from iallocator.options.settings import Settings
from iallocator.replay.cases import Case, find_cases
from tests.paths import FIXTURES

CASES = [
    case
    for case in find_cases([str(FIXTURES)])
    if not (case.options() and case.options()[0] in (*COMMANDS, "htools"))
    and "error" not in json.loads(Path(case.response).read_text())
]


def read(case: Case, *more: str) -> tuple[bytes, Settings]:
    """Return the document of a stored case, and its settings."""
    settings = Settings()
    parse([*case.options(), *more], settings)
    return Path(case.request).read_bytes(), settings


@pytest.mark.parametrize("more", [(), ("--optimal",)], ids=" ".join)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_explanation_of_stored_request_agrees_with_the_response(
    case: Case, more: tuple[str, ...]
) -> None:
    """The explanation of each stored request has its answer, and the nodes of each instance."""
    found = explain(*read(case, *more))
    plain = respond(*read(case, *more)).document()
    assert json.loads(json.dumps(found.response)) == json.loads(json.dumps(plain))
    entries = {e["instance"]: e for e in found.response["solutions"] if "instance" in e}
    for decision in found.decisions:
        entry = entries.get(decision.instance)
        if entry is None:
            continue
        remote = "remote" in entry and decision.elsewhere is not None
        wanted = [entry["nodes"], *([entry["remote"]["nodes"]] if remote else [])]
        assert (decision.answer.nodes if decision.answer else []) in wanted
        if decision.answer is not None and not remote:
            assert decision.answer.score == pytest.approx(entry["score"], abs=1e-8)
