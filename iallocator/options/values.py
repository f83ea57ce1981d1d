"""Read the values of options on the command line.

A reader takes text and returns a value. For an invalid text, it raises a `ValueError` with the
expected form.
"""

from __future__ import annotations

from iallocator.ranking import ALIASES, STRATEGIES
from iallocator.tolerances import LARGEST_NUMBER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

__all__ = [
    "NODE_PLACE", "Choice", "Numbers", "Several", "Size", "amount", "bandwidth", "byte_size",
    "disk_reserve", "file_name", "for_node", "gibibytes", "mebibytes", "name_list",
    "number_between", "positive", "score", "share", "signed", "strategy", "whole", "whole_between",
]  # fmt: skip

NODE_PLACE = "{node}"
"""The text in a command that is replaced by the name of a node."""


def for_node(command: str, node: str) -> str:
    """Return a shell command in which `NODE_PLACE` is replaced by the quoted name of a node."""
    from shlex import quote

    return command.replace(NODE_PLACE, quote(node))


UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
"""First letter of a unit -> bytes."""


NO_ALIASES: Mapping[str, str] = {}
"""The empty mapping of aliases."""


class Numbers:
    """Reads a number within bounds.

    Attributes
    ----------
    lowest, highest:
        The bounds, both included.
    whole:
        Whether only whole numbers are read.
    """

    __slots__ = ("highest", "lowest", "whole")

    def __init__(self, lowest: float, highest: float, whole: bool) -> None:
        self.lowest = lowest
        self.highest = highest
        self.whole = whole

    def __str__(self) -> str:
        return f"a {'whole ' * self.whole}number from {self.lowest} to {self.highest}"

    def __contains__(self, value: float) -> bool:
        return self.lowest <= value <= self.highest

    def __call__(self, text: str) -> Any:
        value = self._whole_number(text) if self.whole else self._number(text)
        if value is None or value not in self:
            raise ValueError(str(self))
        return value

    def _whole_number(self, text: str) -> int | None:
        digits = text.lstrip("0") or "0"
        known = text.isascii() and text.isdigit() and len(digits) <= len(str(self.highest))
        return int(digits) if known else None

    def _number(self, text: str) -> float | None:
        try:
            return float(text) if set(text) <= set("0123456789.+-eE") else None
        except ValueError:
            return None


def whole_between(lowest: int, highest: int = LARGEST_NUMBER) -> Numbers:
    """Return a reader of whole numbers from `lowest` to `highest`, both included."""
    return Numbers(lowest, highest, whole=True)


def number_between(lowest: float, highest: float = LARGEST_NUMBER) -> Numbers:
    """Return a reader of decimal numbers from `lowest` to `highest`, both included."""
    return Numbers(lowest, highest, whole=False)


whole = whole_between(0)

signed = number_between(-LARGEST_NUMBER)
amount = number_between(0)
positive = number_between(0.001)
share = number_between(0, 1)


class Size(Numbers):
    """Reads a size: a number, then a unit such as ``m``, ``MB`` or ``MiB``; every unit is binary.

    The bounds apply to the result. A result that must be whole is rounded down.

    Attributes
    ----------
    unit:
        The first letter of the unit of the result, and of a number without a unit; "" for bytes.
    examples:
        Examples of sizes, for the message about an invalid text.
    """

    __slots__ = ("examples", "unit")

    def __init__(
        self,
        unit: str,
        examples: str,
        lowest: int = 0,
        highest: int = LARGEST_NUMBER,
        whole: bool = True,
    ) -> None:
        super().__init__(lowest, highest, whole)
        self.unit = unit
        self.examples = examples

    def __str__(self) -> str:
        if self.highest == LARGEST_NUMBER:
            return f"a size such as {self.examples}"
        unit = {"": "bytes", "m": "MiB", "g": "GiB"}[self.unit]
        return f"a size from {self.lowest} to {self.highest} {unit}, such as {self.examples}"

    def __call__(self, text: str) -> Any:
        digits, given = text, self.unit
        for ending in ("", "b", "ib"):
            start = text[: len(text) - len(ending)]
            if text.lower().endswith(ending) and start[-1:].lower() in UNITS:
                digits, given = start[:-1], start[-1].lower()
        if given == self.unit:
            return super().__call__(digits)
        number = self._number(digits)
        amount = (number or 0.0) * UNITS.get(given, 1) / UNITS.get(self.unit, 1)
        if number is None or not (number >= 0 and amount in self):
            raise ValueError(str(self))
        return int(amount) if self.whole else amount


byte_size = Size("", "500000, 64m or 2g", lowest=1)
mebibytes = Size("m", "512, 512m or 4g")
gibibytes = Size("g", "5, 500m or 1t", whole=False)
bandwidth = Size("m", "100, 500m or 1g", lowest=1, highest=1_000_000, whole=False)


def disk_reserve(text: str) -> str:
    """Parse a share of the disk of a node, like ``10%``, or a size; without a unit, in MiB.

    ``10percent`` means ``10%``, because Ganeti accepts no percent sign in a tag.
    """
    if text.endswith("percent"):
        text = text.removesuffix("percent") + "%"
    try:
        if text.endswith("%"):
            number_between(0, 100)(text[:-1])
        else:
            mebibytes(text)
    except ValueError:
        raise ValueError("a share such as 10% or 10percent, or a size such as 20g") from None
    return text


def name_list(text: str) -> list[str]:
    """Parse names with commas between them."""
    names = text.split(",")
    if not all(names):
        raise ValueError("names with commas between them")
    return names


def file_name(text: str) -> str:
    """Return `text`, the name of a file; reject names that cannot exist."""
    if not text or "\0" in text:
        raise ValueError("the name of a file")
    return text


def json_version(text: str) -> int:
    """Parse the version of the JSON documents to write; 0 for none."""
    versions = {"1": 1, "2": 2, "yes": 2, "no": 0}
    if text not in versions:
        raise ValueError("1 or 2")
    return versions[text]


def score(text: str) -> float:
    """Parse a score of Pacemaker: a number of either sign, ``INFINITY``, or ``-INFINITY``."""
    from iallocator.tags.pacemaker_scores import read_score

    try:
        return read_score(text, whole=False)
    except ValueError:
        raise ValueError("a number, INFINITY or -INFINITY") from None


class Choice:
    """Reads a value that must be one of a few words.

    Parameters
    ----------
    words:
        The words, if they are always the same.
    names:
        The words, if the collection may grow after this object is made.
    aliases:
        Short word -> the word for which it stands.
    """

    __slots__ = ("aliases", "names")

    def __init__(
        self,
        *words: str,
        names: Collection[str] = (),
        aliases: Mapping[str, str] = NO_ALIASES,
    ) -> None:
        self.names = words or names
        self.aliases = aliases

    def __str__(self) -> str:
        return "one of " + ", ".join(self.names)

    def __call__(self, text: str) -> str:
        if text not in self.names and text not in self.aliases:
            raise ValueError(str(self))
        return self.aliases.get(text, text)

    @property
    def words(self) -> tuple[str, ...]:
        """Return all accepted words, aliases last."""
        return (*self.names, *self.aliases)


class Several:
    """Reads a list of words, separated by commas, each of which must be one of a few words."""

    __slots__ = ("words",)

    def __init__(self, *words: str) -> None:
        self.words = words

    def __call__(self, text: str) -> list[str]:
        names = name_list(text)
        if not set(names) <= set(self.words):
            raise ValueError("some of " + ",".join(self.words))
        return names


strategy = Choice(names=STRATEGIES, aliases=ALIASES)
