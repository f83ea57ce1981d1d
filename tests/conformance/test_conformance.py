"""Test that the answers of iallocator equal hail's, document by document."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from .oracle import installed
from .runner import MODES, Case, Summary, check_document, ours, run

pytestmark = pytest.mark.skipif(not installed(), reason="hail (ganeti-htools) is not installed")

CHUNK = 25
DOCUMENTS = {
    ("allocate", "hail"): 75,
    ("allocate", "no-capacity-checks"): 25,
    ("allocate", "ignore-soft-errors"): 50,
    ("allocate", "strict"): 25,
    ("multi-allocate", "hail"): 50,
    ("allocate-secondary", "hail"): 25,
    ("relocate", "hail"): 50,
    ("relocate", "ignore-soft-errors"): 25,
    ("node-evacuate", "hail"): 50,
    ("node-evacuate", "ignore-soft-errors"): 25,
    ("node-evacuate-exhausted", "hail"): 50,
    ("node-evacuate-exhausted", "ignore-soft-errors"): 25,
    ("relocate-exhausted", "hail"): 25,
    ("change-group", "hail"): 50,
    ("change-group", "no-capacity-checks"): 25,
    ("allocate-alike", "hail"): 50,
    ("relocate-alike", "hail"): 50,
    ("node-evacuate-alike", "hail"): 25,
    ("change-group-alike", "hail"): 25,
    ("allocate-odd", "hail"): 25,
    ("allocate-secondary-odd", "hail"): 25,
    ("node-evacuate-odd", "hail"): 25,
    ("change-group-odd", "hail"): 25,
}
CHUNKS = [
    (kind, mode, start)
    for (kind, mode), count in DOCUMENTS.items()
    for start in range(0, count, CHUNK)
]


RARE = [
    (6100091, "node-evacuate"),
    (6100078, "allocate-secondary"),
    (8300942, "node-evacuate"),
    (12000985, "node-evacuate-odd"),
    (8300932, "allocate"),
    (8300934, "allocate"),
    (13000928, "allocate"),
    (13000537, "allocate"),
    (14000774, "allocate"),
    (14000577, "multi-allocate"),
    (1300023, "node-evacuate-exhausted"),
    (1310293, "node-evacuate-exhausted"),
    (2300003, "node-evacuate-exhausted"),
    (2300296, "relocate-exhausted"),
    (1700479, "change-group-exhausted"),
]
"""Seeds and kinds of rare documents.

They have disks with unknown spindles, instances that hail confuses with new ones, groups that
differ by rounding only, full nodes without a reserve, and an instance that restarts first because
it has just arrived.
"""


@pytest.mark.parametrize(("kind", "mode", "start"), CHUNKS)
def test_generated_documents_get_the_answers_of_hail(kind: str, mode: str, start: int) -> None:
    """The program gives hail's answers to generated documents."""
    summary = run([Case(seed, kind, mode) for seed in range(start, start + CHUNK)])
    assert not summary.different, _explain(summary)
    assert summary.equal, "every document of the chunk was left out"


@pytest.mark.parametrize(("seed", "kind"), RARE)
def test_document_of_a_rare_kind_gets_the_answer_of_hail(seed: int, kind: str) -> None:
    """The program gives hail's answer to a document of a rare kind."""
    summary = run([Case(seed, kind, "hail")])
    assert (summary.equal, summary.different) == (1, []), _explain(summary)


def _captures() -> list[Path]:
    folder = os.environ.get("IALLOCATOR_CAPTURES")
    if not folder:
        return []
    found = [*Path(folder).glob("*.request.json"), *Path(folder).glob("hail-*.json")]
    return sorted(found)


@pytest.mark.parametrize("path", _captures(), ids=lambda path: path.name)
def test_captured_request_gets_the_answer_of_hail(path: Path) -> None:
    """The program gives hail's answer to a real request from the folder IALLOCATOR_CAPTURES."""
    outcome = check_document(json.loads(path.read_bytes()), MODES["hail"], ours)
    if isinstance(outcome, str):
        pytest.skip(outcome)
    assert outcome == []


def _explain(summary: Summary) -> str:
    lines = [
        f"{case.reproduce}\n  " + "\n  ".join(differences)
        for case, differences in summary.different[:3]
    ]
    return "\n".join([f"{len(summary.different)} documents differ", *lines])
