"""Outcomes as JUnit XML, which programs for continuous integration read."""

from __future__ import annotations

import os
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from iallocator.files import write_file
from iallocator.replay.outcome import ERROR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.replay.outcome import Outcome

__all__ = ["write_junit"]

HEAD = "<?xml version='1.0' encoding='utf-8'?>\n"

SUITE = "iallocator replay"


def write_junit(path: str, outcomes: Sequence[Outcome]) -> None:
    """Write `outcomes` to the file at `path`.

    Raises
    ------
    UsageError
        If it cannot be written.
    """
    failed = [outcome for outcome in outcomes if not outcome.passed]
    errors = sum(1 for outcome in failed if outcome.status == ERROR)
    numbers = {
        "name": SUITE,
        "tests": str(len(outcomes)),
        "failures": str(len(failed) - errors),
        "errors": str(errors),
        "time": f"{sum(outcome.seconds for outcome in outcomes):.6f}",
    }
    root = Element("testsuites", numbers)
    suite = SubElement(root, "testsuite", numbers)
    for outcome in outcomes:
        folder, name = os.path.split(outcome.case.name)
        attributes = {
            "classname": _clean(folder) or SUITE,
            "name": _clean(name),
            "file": _clean(outcome.case.request),
            "time": f"{outcome.seconds:.6f}",
        }
        case = SubElement(suite, "testcase", attributes)
        if not outcome.passed:
            kind = "error" if outcome.status == ERROR else "failure"
            verdict = SubElement(case, kind, {"message": outcome.status, "type": kind})
            verdict.text = _clean("\n".join(outcome.details))
    indent(root)
    write_file(path, HEAD + tostring(root, encoding="unicode"))


def _clean(text: str) -> str:
    """`text` without the characters that XML cannot hold."""
    unknown = "\N{REPLACEMENT CHARACTER}"
    return "".join(c if c.isprintable() or c in "\n\t" else unknown for c in text)
