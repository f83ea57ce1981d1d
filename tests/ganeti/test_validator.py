"""Test that Ganeti accepts every answer: success, partial failure and failure."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.builders import Json
from tests.command import respond
from tests.conformance.documents import KINDS, document
from tests.patience import PATIENCE
from tests.seeds import seeds

VALIDATOR = Path(__file__).parents[1] / "e2e" / "validate.py"
INTERPRETER = Path("/usr/bin/python3")
SEEDS = seeds(12, 60)
MOVES = ("node-evacuate", "change-group")


def validate(pairs: list[Json]) -> list[str | None]:
    """Return Ganeti's objection to each pair of request and response, or None."""
    done = subprocess.run(
        [INTERPRETER, VALIDATOR], input=json.dumps(pairs), capture_output=True, text=True,
        check=False, timeout=PATIENCE,
    )  # fmt: skip
    if done.returncode == 2:
        pytest.skip(f"Ganeti's Python code is not installed: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


def pair(request: Json, *options: str) -> Json:
    """Return a request and the response to it."""
    response = respond(request, *options)
    return {"request": request, "response": response}


def outcome(kind: str, response: Json) -> str:
    """Return whether an answer is a success, a failure, or partly both."""
    result = response["result"]
    if not response["success"]:
        return "failure"
    failed = result[1] if kind in (*MOVES, "multi-allocate") else []
    return "partial" if failed else "success"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [(), ("--inter-group=yes",), ("--top=3", "--n1=off")], ids=str)
def test_ganeti_accepts_every_answer(kind: str, options: tuple[str, ...]) -> None:
    """Ganeti accepts every answer to a generated request."""
    pairs = [pair(document(seed, kind), *options) for seed in SEEDS]
    objections = [
        f"seed {seed}: {objection}"
        for seed, objection in zip(SEEDS, validate(pairs), strict=True)
        if objection and not _between_groups(pairs[seed], options)
    ]
    assert not objections, "\n".join(objections)
    outcomes = {outcome(kind, one["response"]) for one in pairs}
    assert "success" in outcomes
    assert outcomes & {"partial", "failure"}


def _between_groups(one: Json, options: tuple[str, ...]) -> bool:
    """Return whether the answer moves instances to another group because of the options."""
    return "--inter-group=yes" in options and any(
        "remote" in entry for entry in one["response"]["solutions"]
    )


def test_ganeti_rejects_pairs_in_the_failed_list() -> None:
    """Ganeti rejects hail's form of failed instances, so that the validation can fail."""
    request = document(1, "multi-allocate")
    names = [one["name"] for one in request["request"]["instances"]]
    response = {"success": True, "info": "", "result": [[], [[name, "no room"] for name in names]]}
    assert validate([{"request": request, "response": response}])[0]
