"""Check the properties that each run must have, for any input."""

from __future__ import annotations

import json
import re

from iallocator.commands import COMMANDS, FORMS
from tests.schemas import OF_COMMAND, validator

from .case import Case, Outcome

__all__ = ["SLOW", "complaints"]

SLOW = 30.0
"""Seconds of processor time that no small case needs."""

STATUSES = (0, 1, 2, 3)

LONE_NUMBER = re.compile(
    r"(?<![\w\".':/|,=-])(nan|inf|NaN|-?Infinity|-inf)(?![\w\"']| is not a JSON number)"
)
"""Pattern of values that are not finite numbers, outside names and words."""


def _is_a_name(word: str, case: Case) -> bool:
    """Return whether `word` may be printed, as a name, a tag or an option in a file of `case`."""
    lines = f"\n{word}|".encode(), f"\n{word}\n".encode()
    ends = f':{word}"'.encode(), f'= "{word}"'.encode()
    return any(
        any(line in b"\n" + raw for line in lines) or any(end in raw for end in ends)
        for raw in case.files.values()
    )


def complaints(case: Case, done: Outcome) -> list[str]:
    """Return the errors of a run; [] if it is correct."""
    if done.crash:
        return [f"crash: {done.crash.strip().splitlines()[-1]}", done.crash]
    wrong = []
    if done.status not in STATUSES:
        wrong.append(f"exit status {done.status}")
    if done.work > SLOW:
        wrong.append(f"took {done.work:.1f} s")
    last = done.err.rstrip("\n").rsplit("\n", 1)[-1]
    options = {word.partition("=")[0] for word in case.arguments}
    problems_on_stdout = {"--validate", "--json"} <= options or "--nagios" in options
    if done.status == 2 and not (problems_on_stdout or last.startswith("iallocator: ")):
        # Warnings may come before the error
        wrong.append(f"status 2 without a word: {done.err[:200]!r}")
    output = done.out.decode("utf-8", "replace") + done.err
    shown = done.err if case.arguments[0] == "snapshot" else output  # it writes a file of data
    if not all(line.isprintable() for line in shown.split("\n")):
        wrong.append("control characters in the output")
    found = LONE_NUMBER.search(output) if done.status in (0, 1) else None
    if found and not _is_a_name(found.group(), case):
        wrong.append(f"{found.group()} among the numbers")
    if "does not stand the test" in done.err or "iallocator: left out: " in done.err:
        wrong.append("a plan that the verifier does not accept")
    return wrong + _shape(case, done)


def _shape(case: Case, done: Outcome) -> list[str]:
    """Return the errors of the JSON output against its schema; ``--json=1`` has no schema."""
    command = case.arguments[0] if case.arguments[0] in COMMANDS else ""
    for option, name in FORMS.items():  # `show --settings` writes the document of `config`
        command = name if command == "show" and f"--{option}" in case.arguments else command
    if done.status != 0 or not done.out.strip() or _says_more(case):
        return []
    forms = [word for word in case.arguments if word.partition("=")[0] == "--json"]
    if command and "--json" not in forms:
        return []
    try:
        document = json.loads(done.out.decode("utf-8", "replace"), parse_constant=_no_constant)
    except ValueError as error:
        return [f"no JSON: {error}: {done.out[:200]!r}"]
    schema = OF_COMMAND.get(command, "" if command else "response")
    if not schema or forms[-1:] not in ([], ["--json"]):  # the last one counts
        return []
    first = next(iter(validator(f"{schema}.schema.json").iter_errors(document)), None)
    return [f"not by {schema}.schema.json: {first.message[:300]}"] if first else []


def _says_more(case: Case) -> bool:
    """Return whether stdout has more than JSON: a drawing, commands, or a page."""
    return any(word.startswith(("--graph", "-C", "--print-c", "--html", "--validate", "--machine"))
               for word in case.arguments)  # fmt: skip


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
