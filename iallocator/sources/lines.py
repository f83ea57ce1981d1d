"""Read lines of htools' text format: fields are separated by ``|``, sections by blank lines.

Each error message begins with the file and the line: ``cluster.data:12: memory: ...``.

A policy is ``GROUP|STANDARD|MIN;MAX;...|TEMPLATES|VCPU RATIO|SPINDLE RATIO``.  A size is
``MEMORY,CPUS,DISK,DISKS,NICS,SPINDLES`` (MiB).  The line without a group's name is the policy of
the cluster.
"""

from __future__ import annotations

from sys import intern

from iallocator.errors import RequestError
from iallocator.model.policy import Interval, Policy, Spec
from iallocator.model.templates import TEMPLATES, in_htools_order
from iallocator.tolerances import LARGEST_NUMBER, LEAST_DIVISOR
from iallocator.units import shortest
from iallocator.wire.fields import describe, is_factor, not_utf8

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import NoReturn

__all__ = ["Line", "default_policy", "policy_line", "read_policies", "sections"]

MOST_DIGITS = len(str(LARGEST_NUMBER))
"""More digits, after zeros, are too large a number; `int` rejects more than 4300."""


class Line:
    """One line of a text file, with its number.

    Fields are read by position. Messages contain the given name of a field. If an older file lacks
    a field, its default is returned.
    """

    __slots__ = ("fields", "number", "path")

    def __init__(self, path: str, number: int, text: str) -> None:
        self.path = path
        self.number = number
        self.fields = text.split("|")

    def fail(self, name: str, problem: str) -> NoReturn:
        """Raise an error about the field called `name`."""
        raise RequestError(f"{self.path}:{self.number}", f"{name}: {problem}")

    def require(self, what: str, fewest: int) -> None:
        """Raise an error if the line has fewer than `fewest` fields; `what`: the line's object."""
        if len(self.fields) < fewest:
            problem = f"expected at least {fewest} fields, got {len(self.fields)}"
            self.fail(what, problem)

    def text(self, position: int, default: str = "") -> str:
        """Return the field at `position` as text."""
        return self.fields[position] if position < len(self.fields) else default

    def name(self, position: int, what: str) -> str:
        """Return the field at `position`, which must not be empty; `what`: its name in messages."""
        value = self.text(position)
        if not value:
            self.fail(what, "expected a name, got an empty field")
        return value

    def one_of(self, position: int, what: str, choices: Collection[str], default: str) -> str:
        """Return the field at `position`, which must be one of `choices`."""
        value = self.fields[position] if position < len(self.fields) else default
        if value not in choices:
            self.fail(what, f"expected one of {', '.join(choices)}, got {describe(value)}")
        return intern(value)  # many lines have the same: it is kept once

    def flag(self, position: int, what: str, default: bool) -> bool:
        """Return whether the field at `position` is Y; it must be Y or N."""
        return self.one_of(position, what, ("Y", "N"), "Y" if default else "N") == "Y"

    def integer(
        self, position: int, what: str, default: int | None = None, negative: bool = False
    ) -> int:
        """Return a field as a whole number; `negative`: negative numbers are allowed."""
        fields = self.fields
        if position < len(fields):
            value = whole(fields[position], negative)
        elif default is not None:
            return default
        else:
            value = None
        if value is None:
            expected = "a whole number" if negative else f"an integer from 0 to {LARGEST_NUMBER}"
            self.fail(what, f"expected {expected}, got {describe(self.text(position))}")
        return value

    def number_of(self, position: int, what: str, default: float) -> float:
        """Return a field as a number; raise an error if it is negative."""
        text = self.text(position, str(default))
        try:
            value = float(text) if text.isascii() and "_" not in text else -1.0
        except ValueError:
            value = -1.0
        if not 0 <= value <= LARGEST_NUMBER:
            self.fail(what, f"expected a number from 0 to {LARGEST_NUMBER}, got {describe(text)}")
        return value

    def factor_of(self, position: int, what: str, default: float) -> float:
        """Return a field as a divisor: 0 (unknown), or a number large enough to divide by."""
        value = self.number_of(position, what, default)
        if not is_factor(value):
            self.fail(
                what, f"expected 0 or at least {LEAST_DIVISOR}, got {describe(self.text(position))}"
            )
        return value

    def names(self, position: int) -> list[str]:
        """Return the names in a field; they are separated by commas."""
        text = self.text(position)
        return text.split(",") if text else []


def whole(text: str, negative: bool = False) -> int | None:
    """Return `text` as a whole number; None if it is not a number, or too large."""
    digits = text[1:] if negative and text.startswith("-") else text
    if not (digits.isascii() and digits.isdigit()):
        return None
    if len(digits) > MOST_DIGITS:
        digits = digits.lstrip("0") or "0"
        if len(digits) > MOST_DIGITS:
            return None
    size = int(digits)
    if size > LARGEST_NUMBER:
        return None
    return -size if text[0] == "-" else size


def sections(
    path: str, raw: bytes, kinds: Sequence[tuple[str, int]], blank: bool = False
) -> list[list[Line]]:
    """Return the sections of the text `raw`, in their order; further sections are ignored.

    Every blank line ends a section. Therefore, two blank lines enclose an empty section. `kinds`:
    for each section, the object that a line describes, and the least number of its fields. The last
    section may be missing. `blank`: whether the text may have blank lines only.

    Raises
    ------
    RequestError
        If the text is not UTF-8, a line is too short, or the file ends too early.
    """
    try:
        lines = raw.decode("utf-8").removeprefix("\ufeff").removesuffix("\n").split("\n")
    except UnicodeError as error:
        raise RequestError(path, not_utf8(error)) from None
    if not raw.strip() and not blank:
        raise RequestError(path, "expected a cluster in htools' text format, got nothing")
    if raw.lstrip().startswith(b"{"):
        raise RequestError(
            path, "expected htools' text format, got what looks like JSON: name the file without -t"
        )
    parts: list[list[Line]] = [[]]
    for number, line in enumerate(lines, 1):
        text = line.removesuffix("\r")
        if text:
            parts[-1].append(Line(path, number, text))
        else:
            parts.append([])
    for (what, fewest), section in zip(kinds, parts):
        for one in section:
            one.require(what, fewest)
    if len(parts) < len(kinds) - 1:
        problem = f"expected at least {len(kinds) - 1} sections, got {len(parts)}"
        raise RequestError(path, f"{problem}; is it complete?")
    return (parts + [[]])[: len(kinds)]


PARTS = ("memory", "cpus", "disk", "disks", "nics", "spindles")
"""The parts of an instance size in the line of a policy, in their order."""


def default_policy() -> Policy:
    """Return the policy of groups that have none in the file, with templates in htools' order."""
    return Policy(templates=in_htools_order())


def read_policies(lines: Sequence[Line]) -> dict[str, tuple[Policy, Line]]:
    """Return name of a group -> its policy and the last line about it; "" means the cluster."""
    policies: dict[str, tuple[Policy, Line]] = {}
    for line in lines:
        texts = line.text(2).split(";")
        if len(texts) % 2:
            line.fail("sizes", f"expected pairs of minimum and maximum, got {len(texts)} sizes")
        specs = [_spec(line, "size", text) for text in texts]
        intervals = [Interval(low, high) for low, high in zip(specs[::2], specs[1::2])]
        standard = _spec(line, "standard size", line.text(1))
        templates = line.names(3)
        unknown = next((one for one in templates if one not in TEMPLATES), None)
        if unknown is not None:
            expected = f"expected names out of {', '.join(TEMPLATES)}"
            line.fail("disk templates", f"{expected}, got {unknown!r}")
        policy = Policy(
            intervals,
            standard,
            templates,
            line.factor_of(4, "vcpu ratio", 0),
            line.factor_of(5, "spindle ratio", 0),
        )
        policies[line.text(0)] = policy, line
    return policies


def _spec(line: Line, what: str, text: str) -> Spec:
    numbers = [number for part in text.split(",") if (number := whole(part)) is not None]
    if len(numbers) != len(PARTS) or len(text.split(",")) != len(PARTS):
        line.fail(what, f"expected {','.join(PARTS)}, got {text!r}")
    memory, cpus, disk, disks, nics, spindles = numbers
    return Spec(memory, cpus, disk, disks, nics, spindles)


def policy_line(name: str, policy: Policy) -> str:
    """Return the line with the policy of the group called `name`; "" means the cluster."""
    bounds = [bound for pair in policy.intervals for bound in (pair.low, pair.high)]
    return "|".join(
        (
            name,
            _spec_text(policy.standard),
            ";".join(map(_spec_text, bounds)),
            ",".join(policy.templates),
            shortest(policy.vcpu_ratio),
            shortest(policy.spindle_ratio),
        )
    )


def _spec_text(spec: Spec) -> str:
    return ",".join(str(getattr(spec, part)) for part in PARTS)
