"""Every input that ever failed, and some new ones; `make fuzz` tries as many as time allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from .__main__ import examine
from .case import Case, run
from .oracles import complaints

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.json"))


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_corpus_case_fails_no_more(path: Path) -> None:
    """What once crashed, hung, or broke the form of the answer."""
    case = Case.load(path)
    assert complaints(case, run(case)) == []


@pytest.mark.parametrize(
    ("damager", "start"),
    [("values", start) for start in range(100, 1100, 100)]
    + [("grammar", start) for start in range(0, 2000, 100)],
)
def test_new_cases_keep_all_promises(damager: str, start: int) -> None:
    """A hundred cases of every kind: no exception but ours, whole answers, in time."""
    cases = range(start, start + 100)
    assert {number: found for number in cases if (found := examine(number, damager))} == {}
