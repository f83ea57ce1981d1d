"""Plain-text tables and pages; colour only where a person looks at a terminal."""

from __future__ import annotations

import os

from iallocator.errors import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

__all__ = ["Column", "Page", "Table", "wants_colour"]

TONES = {"head": "1", "good": "32", "bad": "31", "faint": "2"}
"""Tone -> terminal attribute."""

GAP = "  "


def wants_colour(stream: Any, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether `stream` is a terminal and nobody objects to colours (``NO_COLOR``)."""
    if environment.get("NO_COLOR") or environment.get("TERM") == "dumb":
        return False
    return bool(stream.isatty())


class Column:
    """A column: its title, and whether it holds numbers, which stand to the right.

    Neighbours with the same ``above`` share that word as a common title.
    """

    __slots__ = ("above", "number", "title")

    def __init__(self, title: str, number: bool = False, above: str = "") -> None:
        self.title = title
        self.number = number
        self.above = above


class Table:
    """Rows of text under titles, each with a tone."""

    def __init__(self, *columns: Column) -> None:
        self._columns = columns
        self._rows: list[tuple[list[str], str]] = []

    def add(self, *cells: str, tone: str = "") -> None:
        """Add a row, one cell for each column."""
        self._rows.append(([shown(cell) for cell in cells], tone))

    def lines(self, short: Callable[[str], str] = str, most: int = 0) -> list[tuple[str, str]]:
        """(text, tone) of every line, titles first; `short` is applied to every cell.

        What stands in the last column goes on below itself where a line would have more
        than `most` characters (0: any number).
        """
        titles = [shown(column.title) for column in self._columns]
        rows = [([short(cell) for cell in row], tone) for row, tone in self._rows]
        rows.insert(0, (titles, "head"))
        widths = [max(len(row[k]) for row, _ in rows) for k in range(len(titles))]
        before = sum(widths[:-1]) + len(GAP) * (len(widths) - 1)
        if most and not self._columns[-1].number:
            rows = [one for row, tone in rows for one in _wrapped(row, tone, most - before)]
        lines = [(self._line(row, widths), tone) for row, tone in rows]
        return [*self._above(widths), *lines]

    def _line(self, cells: Sequence[str], widths: Sequence[int]) -> str:
        padded = [
            cell.rjust(width) if column.number else cell.ljust(width)
            for cell, width, column in zip(cells, widths, self._columns)
        ]
        return GAP.join(padded).rstrip()

    def _above(self, widths: Sequence[int]) -> list[tuple[str, str]]:
        """The line of common titles, each over its columns; none if there are none."""
        from itertools import groupby

        parts = []
        pairs = zip(self._columns, widths)
        for above, members in groupby(pairs, key=lambda pair: pair[0].above):
            covered = [width for _, width in members]
            width = sum(covered) + len(GAP) * (len(covered) - 1)
            parts.append(above.center(width, "-" if above else " "))
        line = GAP.join(parts).rstrip()
        return [(line, "head")] if line else []


NARROWEST = 24
"""No column is wrapped to fewer characters."""


def _wrapped(row: list[str], tone: str, width: int) -> list[tuple[list[str], str]]:
    """`row`, and rows below it for what of its last cell is beyond `width`."""
    if len(row[-1]) <= max(width, NARROWEST):
        return [(row, tone)]
    import textwrap

    parts = textwrap.wrap(
        row[-1], max(width, NARROWEST), break_long_words=False, break_on_hyphens=False
    )
    empty = [""] * (len(row) - 1)
    return [([*(empty if k else row[:-1]), part], tone) for k, part in enumerate(parts)]


class Page:
    """Lines for a person, wrapped where they are prose, coloured where that is wanted.

    `domain` is what most names end with (``.example.com``): it is left out.
    """

    def __init__(self, colour: bool = False, width: int = 100, domain: str = "") -> None:
        import re

        self._colour = colour
        self._width = width
        self.domain = shown(domain)
        self._lines: list[str] = []
        self._domain = re.compile(re.escape(domain) + r"(?!\.?[\w-])") if domain else None

    def text(self) -> str:
        """The whole page."""
        return "\n".join(self._lines) + "\n"

    def short(self, text: str) -> str:
        """`text` with names as they are shown."""
        return self._domain.sub("", text) if self._domain else text

    def blank(self) -> None:
        """Leave a line empty, unless the last one is."""
        if self._lines and self._lines[-1]:
            self._lines.append("")

    def heading(self, text: str) -> None:
        """Begin a part."""
        self.blank()
        self.say(text, tone="head", indent=0)

    def say(self, text: str, tone: str = "", indent: int = 2) -> None:
        """Add a sentence, continued below itself a little to the right."""
        import textwrap

        wrapped = textwrap.wrap(
            self.short(shown(text)),
            self._width,
            initial_indent=" " * indent,
            subsequent_indent=" " * (indent + 4),
            break_long_words=False,
            break_on_hyphens=False,
        )
        self._lines += [self._paint(line, tone) for line in wrapped]

    def say_left_out(self) -> None:
        """Say at the end what is left out of names, if something is."""
        if self.domain:
            self.blank()
            self._lines.append(self._paint(f"(Names above without {self.domain})", "faint"))

    def table(self, table: Table, indent: int = 2) -> None:
        """Add a table; its last column is wrapped where it does not fit."""
        lines = table.lines(self.short, self._width - indent)
        self._lines += [self._paint(" " * indent + text, tone) for text, tone in lines]

    def _paint(self, text: str, tone: str) -> str:
        if not (self._colour and tone and text):
            return text
        return f"\x1b[{TONES[tone]}m{text}\x1b[0m"
