"""Where our answers differ from hail's, hail's are stored too, and are still what hail says.

``hail.json`` holds its response, ``hail.txt`` what it prints if it rejects the document.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from iallocator.cli import answer
from iallocator.replay.cases import case_of
from iallocator.replay.outcome import pretty
from tests.conformance.compare import differences
from tests.conformance.oracle import HAIL, installed, read
from tests.patience import PATIENCE

from .beside import allocate_cases, case_id

pytestmark = pytest.mark.skipif(not installed(), reason="hail (ganeti-htools) is not installed")

KNOWN_TO_HAIL = (
    "--ignore-dynu", "--ignore-soft-errors", "--no-capacity-checks", "--restrict-allocation-to",
    "--static-kvm-node-memory",
)  # fmt: skip
STORED = [case for case in allocate_cases() if list(case.glob("hail.*"))]
READ_BY_HAIL = [case for case in allocate_cases() if not (case / "hail.txt").exists()]


def options_of(case: Path) -> list[str]:
    """Return the options of a case that hail has too; `--n1 strict` is how hail is."""
    options = case_of(str(case / "request.json")).options()
    return [option for option in options if option.partition("=")[0] in KNOWN_TO_HAIL]


def ask_hail(case: Path) -> tuple[str, str]:
    """Return the name and the text of the file that would hold hail's answer."""
    command = [str(HAIL), str(case / "request.json"), *options_of(case)]
    done = subprocess.run(command, capture_output=True, check=False, timeout=PATIENCE, text=True)
    if done.returncode:
        return "hail.txt", done.stdout + done.stderr
    return "hail.json", pretty(json.loads(done.stdout))


@pytest.mark.parametrize("case", STORED, ids=case_id)
def test_stored_answer_of_hail_is_what_hail_says(case: Path) -> None:
    """The peer's answer that the case shows has not been made up."""
    name, text = ask_hail(case)
    assert (case / name).read_text(encoding="utf-8") == text


@pytest.mark.parametrize("case", allocate_cases(), ids=case_id)
def test_answer_unlike_that_of_hail_has_it_stored_beside(case: Path) -> None:
    """No case differs from hail without showing it."""
    name, text = ask_hail(case)
    ours = json.loads((case / "response.json").read_text(encoding="utf-8"))
    theirs = json.loads(text) if name == "hail.json" else {}
    alike = all(ours.get(key) == theirs.get(key) for key in ("success", "result"))
    assert alike or case in STORED


@pytest.mark.parametrize("case", READ_BY_HAIL, ids=case_id)
def test_case_with_compat_hail_has_the_answer_of_hail(case: Path) -> None:
    """With --compat hail every difference is gone, but for requests we do not understand."""
    if "error" in json.loads((case / "response.json").read_text(encoding="utf-8")):
        pytest.skip("we refuse the request")
    ours = answer((case / "request.json").read_bytes(), [*options_of(case), "--compat=hail"])
    theirs = ask_hail(case)[1].encode()
    assert differences(read(ours), read(theirs)) == []
