"""Plain-text tables and pages, and lists of nodes and instances as htools print them.

Colour is used only if a terminal shows the text.
"""

from __future__ import annotations

import os

from iallocator.errors import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from re import Pattern
    from typing import Any

    from iallocator.aliases import Json

__all__ = [
    "ALL_DIGITS", "Column", "Page", "Table", "aligned", "columns_named", "columns_of", "listed",
    "numeric", "wants_colour", "width_of",
]  # fmt: skip

TONES = {"head": "1", "good": "32", "bad": "31", "faint": "2"}
"""Tone -> terminal attribute."""

GAP = "  "


def wants_colour(stream: Any) -> bool:
    """Return whether `stream` is a terminal, and ``NO_COLOR`` does not forbid colours."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(stream.isatty())


WIDTH = 100
"""Columns of text in a file or a pipe."""

NARROWEST, WIDEST = 60, 200
"""Columns of text on a terminal: at least and at most."""


def width_of(stream: Any) -> int:
    """Return the width of text on `stream`: that of the terminal within bounds, or `WIDTH`."""
    try:
        columns = os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    except (OSError, ValueError):
        columns = 0
    return min(max(columns, NARROWEST), WIDEST) if columns else WIDTH


class Column:
    """A column of a table, in text or on a page.

    Attributes
    ----------
    title:
        The title.
    number:
        Whether it has numbers, which are aligned to the right.
    above:
        A word above the titles of neighbours with the same word; "" for none.
    hint:
        The meaning of the column, which pages show.
    """

    __slots__ = ("above", "hint", "number", "title")

    def __init__(self, title: str, number: bool = False, above: str = "", hint: str = "") -> None:
        self.title = title
        self.number = number
        self.above = above
        self.hint = hint


def numeric(title: str) -> Column:
    """Return a column of numbers."""
    return Column(title, number=True)


def columns_named(columns: Iterable[Column | str]) -> list[Column]:
    """Return `columns`; a title stands for a column of text."""
    return [Column(column) if isinstance(column, str) else column for column in columns]


class Table:
    """Rows of text under titles, each with a tone."""

    def __init__(self, *columns: Column | str) -> None:
        self._columns = columns_named(columns)
        self._rows: list[tuple[list[str], str]] = []
        self._starts: list[int] = []

    def add(self, *cells: str, tone: str = "", below: bool = False) -> None:
        """Add a row, one cell for each column; `below`: it belongs to the row above it."""
        if not below:
            self._starts.append(len(self._rows))
        self._rows.append(([shown(cell) for cell in cells], tone))

    def cut(self, most: int) -> int:
        """Keep the first `most` rows, with the rows below them; return how many are left out."""
        left = len(self._starts) - most
        if left > 0:
            del self._rows[self._starts[most] :], self._starts[most:]
        return max(left, 0)

    def lines(self, short: Callable[[str], str] = str, most: int = 0) -> list[tuple[str, str]]:
        """Return (text, tone) of every line, titles first; `short` is applied to every cell.

        If a line is wider than `most` (0: any width), cells are wrapped: those of the last column
        first, then those of the widest columns of text.
        """
        titles = [shown(column.title) for column in self._columns]
        rows = [([short(cell) for cell in row], tone) for row, tone in self._rows]
        rows.insert(0, (titles, "head"))
        widths = [max(columns_of(row[k]) for row, _ in rows) for k in range(len(titles))]
        if most and sum(widths) + len(GAP) * (len(widths) - 1) > most:
            columns = list(zip(*(row for row, _ in rows)))
            widths = self._narrowed(widths, columns, most)
            rows = [(row, tone) for cells, tone in rows for row in _wrapped(cells, widths)]
        lines = [(self._line(row, widths), tone) for row, tone in rows]
        return [*self._above(widths), *lines]

    def _narrowed(
        self, widths: Sequence[int], cells: Sequence[Sequence[str]], most: int
    ) -> list[int]:
        """Return `widths` reduced to a total of `most`, as far as texts and titles can be wrapped.

        `cells` are those of each column, its title first.  Numbers are never wrapped.
        """
        found, last = list(widths), len(widths) - 1
        whole = [
            max(_piece(texts[0]), max(map(columns_of, texts[1:]), default=0))
            if column.number
            else min(NARROW[0], max(NARROW[-1], *map(_piece, set(texts))))
            for texts, column in zip(cells, self._columns)
        ]
        for narrowest in NARROW:
            least = [
                min(width, most if column.number or not narrowest else narrowest)
                for width, most, column in zip(widths, whole, self._columns)
            ]
            over = sum(found) + len(GAP) * last - most
            cut = min(max(over, 0), found[last] - least[last])
            found[last] -= cut
            for _ in range(over - cut):
                room = [width - low for width, low in zip(found, least)]
                widest = room.index(max(room))
                found[widest] -= room[widest] > 0
        return found

    def _line(self, cells: Sequence[str], widths: Sequence[int]) -> str:
        padded = [
            _padded(cell, width, column.number)
            for cell, width, column in zip(cells, widths, self._columns)
        ]
        return GAP.join(padded).rstrip()

    def _above(self, widths: Sequence[int]) -> list[tuple[str, str]]:
        """Return the line of common titles, each over its columns; nothing without titles."""
        from itertools import groupby

        parts = []
        pairs = zip(self._columns, widths)
        for above, members in groupby(pairs, key=lambda pair: pair[0].above):
            covered = [width for _, width in members]
            width = sum(covered) + len(GAP) * (len(covered) - 1)
            parts.append(above.center(width, "-" if above else " "))
        line = GAP.join(parts).rstrip()
        return [(line, "head")] if line else []


NARROW = (24, 0, 12, 8)
"""The least widths of a column of text, tried in this order; 0 is its longest word."""


def columns_of(text: str) -> int:
    """Return the width of `text` on a terminal: letters of East Asia take two columns."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 1 + (east_asian_width(char) in "WF") for char in text)


def _padded(text: str, width: int, right: bool) -> str:
    """Return `text` with blanks up to `width` columns after it, or with `right` before it."""
    if text.isascii():
        return text.rjust(width) if right else text.ljust(width)
    blank = " " * (width - columns_of(text))
    return blank + text if right else text + blank


def _wrapped(cells: Sequence[str], widths: Sequence[int]) -> list[list[str]]:
    """Return the lines of a row; no cell is wider than its column."""
    parts = [
        [cell] if columns_of(cell) <= width else _broken(cell, width)
        for cell, width in zip(cells, widths)
    ]
    height = max(map(len, parts))
    return [[part[k] if k < len(part) else "" for part in parts] for k in range(height)]


def _pieces(text: str) -> list[str]:
    """Return the parts of `text` between which a line may end, each with the blanks before it."""
    import re

    return re.findall(r"\s*\S+?(?:(?<=[:,/.-])(?=\w)|(?=\s)|$)", text)


def _piece(title: str) -> int:
    """Return the width of the longest part of a title."""
    return max((columns_of(part.strip()) for part in _pieces(title)), default=0)


def _broken(cell: str, width: int) -> list[str]:
    """Return the lines of `cell`, broken at blanks, or else after a mark in or between names."""
    lines = [""]
    for word in _pieces(cell):
        piece = word
        if columns_of(lines[-1] + piece) > width and lines[-1]:
            lines.append("")
            piece = piece.lstrip()
        while columns_of(piece) > width:
            fits = next(k for k in range(len(piece), 0, -1) if columns_of(piece[:k]) <= width)
            lines[-1], piece = piece[:fits], piece[fits:]
            lines.append("")
        lines[-1] += piece
    return lines


ROWS = 20
"""Rows of a long list on a terminal."""

DIGITS, ALL_DIGITS = 4, 8
"""Decimals of a score: those that matter, and all that are computed."""


class Page:
    """Lines of text for people; prose is wrapped.

    Attributes
    ----------
    rows:
        The most rows of a table; 0 for all.
    everything:
        Whether no list is cut.
    option:
        The option with which no list is cut.
    digits:
        Decimals of scores.
    verbose:
        Whether details are shown.
    hail:
        Whether text is as with ``--compat hail``: with hbal's notation, all digits and all rows.
    """

    def __init__(self, colour: bool = False, width: int = WIDTH) -> None:
        self._colour = colour
        self._width = width
        self._lines: list[str] = []
        self.rows = 0
        self.everything = False
        self.option = "--all"
        self.digits = DIGITS
        self.verbose = False
        self.hail = False
        self.leave_out(())

    @classmethod
    def on(cls, stream: Any, settings: Any) -> Page:
        """Return the page for `stream`, as `settings` require."""
        hail = settings.behaviour.prints_as_htools
        page = cls(wants_colour(stream), WIDTH if hail else width_of(stream))
        page.hail = hail
        page.verbose = bool(settings.verbose)
        page.digits = ALL_DIGITS if hail or page.verbose else DIGITS
        page.everything = bool(getattr(settings, "all_rows", False))
        if stream.isatty() and not (hail or page.everything):
            page.rows = ROWS
        names = {one.target: one.names[-1] for one in settings.options}
        page.option = names.get("all_rows", "--json")
        return page

    def score(self, value: float) -> str:
        """Return a score, or a difference of scores, with the decimals that matter."""
        text = f"{value:.{self.digits}f}"
        if value and not text.strip("-0."):
            return f"{value:.1e}"
        return text

    def rounded(self, text: str) -> str:
        """Return `text`, in which scores have all decimals, with the decimals of the page."""
        if self.digits == ALL_DIGITS or "." not in text:
            return text
        import re

        pattern = rf"(?<![\d.])\d+\.\d{{{ALL_DIGITS}}}(?!\d)"
        return re.sub(pattern, lambda found: self.score(float(found[0])), text)

    def scores(self, before: float, after: float) -> tuple[str, str]:
        """Return two scores, with as many more decimals as are needed to distinguish them."""
        for digits in range(self.digits, ALL_DIGITS + 1):
            found = f"{before:.{digits}f}", f"{after:.{digits}f}"
            if found[0] != found[1]:
                return found
        return self.score(before), self.score(after)

    def most(self, usual: int, number: int) -> int:
        """Return how many of `number` things a line names: `usual`, or all if nothing is cut."""
        return number if self.everything else usual

    def leave_out(self, domains: Sequence[str]) -> None:
        """Leave `domains` out of names from now on."""
        self._left_out = [shown(domain) for domain in domains]
        self._domains = tuple(domains)
        self._pattern: Pattern[str] | None = None

    def text(self) -> str:
        """Return the whole page; "" if nothing was added."""
        return "".join(f"{line}\n" for line in self._lines)

    def verbatim(self, text: str) -> None:
        """Add lines as they are, however long."""
        self._lines.append(text)

    def short(self, text: str) -> str:
        """Return `text` with names as they are shown."""
        if not any(domain in text for domain in self._domains):
            return text
        if self._pattern is None:
            import re

            every = "|".join(map(re.escape, self._domains))
            self._pattern = re.compile(rf"(?:{every})(?!\.?[\w-])")
        return self._pattern.sub("", text)

    def blank(self) -> None:
        """Add an empty line, unless the last one is empty."""
        if self._lines and self._lines[-1]:
            self._lines.append("")

    def heading(self, text: str) -> None:
        """Begin a part."""
        self.blank()
        self.say(text, tone="head", indent=0)

    def say(self, text: str, tone: str = "", indent: int = 2) -> None:
        """Add a sentence, wrapped with a deeper indent."""
        line = self.short(shown(text))
        fits = indent + columns_of(line) <= self._width
        if line and fits and line == line.strip() and line.isprintable():
            self._lines.append(self._paint(" " * indent + line, tone))
            return
        if columns_of(line) > len(line):  # textwrap counts letters, not columns
            first, *rest = _broken(line, self._width - indent - 4)
            self._lines.append(self._paint(" " * indent + first, tone))
            self._lines += [self._paint(" " * (indent + 4) + text, tone) for text in rest]
            return
        import textwrap

        wrapped = textwrap.wrap(
            line,
            self._width,
            initial_indent=" " * indent,
            subsequent_indent=" " * (indent + 4),
            break_long_words=False,
            break_on_hyphens=False,
        )
        self._lines += [self._paint(line, tone) for line in wrapped]

    def say_left_out(self) -> None:
        """Add the endings that are left out of names, if there are any."""
        if self._left_out:
            self.blank()
            ends = " and ".join(self._left_out)
            self._lines.append(self._paint(f"(Names above without {ends})", "faint"))
            self._left_out = []

    def table(self, table: Table, indent: int = 2) -> None:
        """Add a table that fits the width; of many rows, the first and the number of others."""
        left = table.cut(self.rows) if self.rows else 0
        lines = table.lines(self.short, self._width - indent)
        self._lines += [self._paint(" " * indent + text, tone) for text, tone in lines]
        if left:
            self.say_more(left, indent)

    def say_more(self, left: int, indent: int = 2) -> None:
        """Add how many entries of a list are left out, and the options that show them."""
        option = self.option if self.option == "--json" else f"{self.option} or --json"
        self.say(f"{left} more ({option})", tone="faint", indent=indent)

    def _paint(self, text: str, tone: str) -> str:
        if not (self._colour and tone and text):
            return text
        return f"\x1b[{TONES[tone]}m{text}\x1b[0m"


KEYS = 2
"""The first columns, which are repeated in each part of a list that is cut."""


def listed(table: Json, width: int) -> str:
    """Return a table of nodes or instances: as wide as htools print it, or fitted to `width`."""
    return aligned(
        table["titles"], table["rows"], table["left"], 0 if table["any_width"] else width
    )


def aligned(
    titles: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[bool], most: int = 0
) -> str:
    """Return rows under titles; a line begins with a blank, `left` columns are to the left.

    Lines wider than `most` (0: any width) are cut: the other columns are in further lists below,
    each with the first two columns again.
    """
    cells = [list(titles), *([shown(cell) for cell in row] for row in rows)]
    widths = [max(columns_of(row[k]) for row in cells) for k in range(len(titles))]
    parts = _parts(widths, most)
    return "\n".join(
        "".join(f" {_line(row, widths, left, part)}\n" for row in cells) for part in parts
    )


def _line(
    row: Sequence[str], widths: Sequence[int], left: Sequence[bool], part: Sequence[int]
) -> str:
    found = []
    for k in part:
        blank = " " * (widths[k] - columns_of(row[k]))
        found.append(row[k] + blank if left[k] else blank + row[k])
    return " ".join(found).rstrip()


def _parts(widths: Sequence[int], most: int) -> list[list[int]]:
    """Return the columns of each part of a list of lines of `most`; each has the first two."""
    first = list(range(min(KEYS, len(widths))))
    parts = [list(first)]
    for k in range(len(first), len(widths)):
        width = sum(widths[i] + 1 for i in [*parts[-1], k])
        if most and len(parts[-1]) > len(first) and width > most:
            parts.append(list(first))
        parts[-1].append(k)
    return parts
