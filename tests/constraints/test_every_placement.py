"""Compare answers and plans on tiny clusters with all placements, for each kind of constraint.

The kind `SEVERAL` stands for clusters with tags for two to four kinds of constraints at once.

``make conformance`` asks each question about 3 000 clusters of each kind.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.constraints.brute.draw import KINDS, SEVERAL
from tests.constraints.brute.questions import QUESTIONS, SLOW, ask
from tests.seeds import seeds

pytest.importorskip("highspy")

EACH = 3000
"""Clusters of each kind, and for each question, in ``make conformance``."""


@pytest.mark.parametrize("kind", [*KINDS, SEVERAL])
@pytest.mark.parametrize("question", QUESTIONS)
def test_answers_equal_brute_force(question: str, kind: str) -> None:
    """The answer is legal, and no legal answer is better; a plan is legal after each move."""
    outcomes: Counter[str] = Counter()
    for seed in seeds(4 if question in SLOW else 25, EACH):
        try:
            outcomes[ask(kind, question, seed)] += 1
        except AssertionError as error:
            error.add_note(f"{kind}, {question}, seed {seed}")
            raise
    if kind in ("spread", SEVERAL) or question not in ("change group", "between groups"):
        assert len(outcomes) > 1 or question in SLOW, outcomes
