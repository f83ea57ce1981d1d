"""What must be true of every run, whatever it is given."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from iallocator.commands import COMMANDS
from iallocator.wire.validation.schemas import directory

from .case import Case, Outcome

__all__ = ["SLOW", "complaints"]

SLOW = 30.0
"""Seconds of work that no small case takes."""

STATUSES = (0, 1, 2)

LONE_NUMBER = re.compile(
    r"(?<![\w\".':/|,=-])(nan|inf|NaN|-?Infinity|-inf)(?![\w\"']| is not a JSON number)"
)
"""What numbers become that are none; names and words are longer, or stand in quotes."""

SCHEMAS = {
    "balance": "plan", "squeeze": "plan", "redistribute": "plan", "compress": "plan",
    "balance-groups": "plan", "place": "plan", "reboot": "plan", "capacity": "capacity",
    "make-room": "plan", "constraints": "constraints", "show": "show",
}  # fmt: skip


@cache
def _validator(name: str) -> Any:
    schemas = {
        path.name: json.loads(path.read_text())
        for path in sorted(directory().iterdir())
        if path.suffix == ".json"
    }
    registry: Any = Registry().with_resources(
        [(key, Resource.from_contents(value)) for key, value in schemas.items()]
        + [(v["$id"], Resource.from_contents(v)) for v in schemas.values() if "$id" in v]
    )
    return Draft202012Validator(schemas[f"{name}.schema.json"], registry=registry)


def complaints(case: Case, done: Outcome) -> list[str]:
    """What is wrong with a run; nothing, it is to be hoped."""
    if done.crash:
        return [f"crash: {done.crash.strip().splitlines()[-1]}", done.crash]
    wrong = []
    if done.status not in STATUSES:
        wrong.append(f"exit status {done.status}")
    if done.work > SLOW:
        wrong.append(f"took {done.work:.1f} s")
    last = done.err.rstrip("\n").rsplit("\n", 1)[-1]
    if done.status == 2 and not last.startswith("iallocator: "):  # warnings may come before it
        wrong.append(f"status 2 without a word: {done.err[:200]!r}")
    said = done.out.decode("utf-8", "replace") + done.err
    if not all(line.isprintable() for line in said.split("\n")):
        wrong.append("control characters in the output")
    if done.status in (0, 1) and (found := LONE_NUMBER.search(said)):
        wrong.append(f"{found.group()} among the numbers")
    if "does not stand the test" in done.err:
        wrong.append("a plan that the verifier does not accept")
    return wrong + _shape(case, done)


def _shape(case: Case, done: Outcome) -> list[str]:
    """Whether what should be JSON is, by its schema."""
    command = case.arguments[0] if case.arguments[0] in COMMANDS else ""
    if done.status != 0 or not done.out.strip() or _says_more(case):
        return []
    if command and "--json" not in case.arguments:
        return []
    try:
        document = json.loads(done.out.decode("utf-8", "replace"), parse_constant=_no_constant)
    except ValueError as error:
        return [f"no JSON: {error}: {done.out[:200]!r}"]
    schema = SCHEMAS.get(command, "" if command else "response")
    if not schema:
        return []
    first = next(iter(_validator(schema).iter_errors(document)), None)
    return [f"not by {schema}.schema.json: {first.message[:300]}"] if first else []


def _says_more(case: Case) -> bool:
    """Whether something else than JSON stands on stdout, too: a drawing, commands, a page."""
    return any(word.startswith(("--graph", "-C", "--print-c", "--html", "--validate", "--machine"))
               for word in case.arguments)  # fmt: skip


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
