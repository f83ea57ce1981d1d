"""Format plain-text tables and pages, and lists of nodes and instances as htools print them.

Colour is used only if a terminal shows the text.
"""

from __future__ import annotations

import os
from itertools import groupby, zip_longest

from iallocator.errors import IN_PIPE, printable, terminal_width
from iallocator.tolerances import WRITTEN_DECIMALS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from re import Pattern
    from typing import Any

    from iallocator.aliases import Json

__all__ = [
    "ALL_DIGITS", "Column", "Page", "Table", "aligned", "columns_named", "columns_of", "listed",
    "numeric", "option_for_all", "wants_colour", "words_for_more",
]  # fmt: skip

TONE_CODES = {"head": "1", "good": "32", "bad": "31", "faint": "2"}
"""Tone of a text -> the attribute that a terminal shows it with (a code of ANSI escapes)."""

COLUMN_GAP = "  "


def wants_colour(stream: Any) -> bool:
    """Return whether `stream` is a terminal, and ``NO_COLOR`` does not forbid colours."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(stream.isatty())


class Column:
    """A column of a table, in text or on a page.

    Attributes
    ----------
    title:
        The title of the column.
    number:
        Whether the column has numbers, which are aligned to the right.
    above:
        A title above this column and its neighbours with an equal `above`; "" for none.
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
    """Return a column of numbers with a `title`."""
    return Column(title, number=True)


def columns_named(columns: Iterable[Column | str]) -> list[Column]:
    """Return `columns`; replace each title that is a string by a column of text."""
    return [Column(column) if isinstance(column, str) else column for column in columns]


class Table:
    """A table to print: rows of text under the titles of the columns.

    Each row has a tone, which decides how it is highlighted; "" for none.
    """

    def __init__(self, *columns: Column | str) -> None:
        self._columns = columns_named(columns)
        self._rows: list[tuple[list[str], str]] = []

    def add(self, *cells: str, tone: str = "") -> None:
        """Add a row, one cell for each column."""
        self._rows.append(([printable(cell) for cell in cells], tone))

    def cut(self, most: int) -> int:
        """Keep the first `most` rows; return how many are left out."""
        left = len(self._rows) - most
        if left > 0:
            del self._rows[most:]
        return max(left, 0)

    def lines(
        self, short: Callable[[str], str] = str, most: int = 0, split: bool = True
    ) -> list[tuple[str, str]]:
        """Return (text, tone) of every line, titles first; `short` converts the text of every cell.

        If a line is wider than `most` (0: any width), cells are wrapped: those of the last column
        first, then those of the widest columns of text. If the words of a line do not fit either, a
        table that may be `split` continues below with the other columns, after the first one.
        """
        rows = [([short(cell) for cell in row], tone) for row, tone in self._rows]
        rows.insert(0, ([printable(column.title) for column in self._columns], "head"))
        whole = range(len(self._columns))
        widths = [max(columns_of(row[k]) for row, _ in rows) for k in whole]
        # Otherwise, the line with the widest last cell is too long
        if not most or _total(widths) <= most or not widths[-1]:
            lines = self._above(whole, widths, narrow=False)
            lines += [(self._line(row, whole, widths), tone) for row, tone in rows]
            if not most or max(columns_of(text) for text, _ in lines) <= most:
                return lines
        cells: list[Sequence[str]] = list(zip(*(row for row, _ in rows)))
        least = [self._least(k, texts, widths[k]) for k, texts in enumerate(cells)]
        lines = []
        for part in self._parts(least, most) if split else [whole]:
            widths_fit = self._narrowed([widths[k] for k in part], least, part, most)
            if split:
                widths_fit = self._with_fewer_lines(
                    widths_fit, [widths[k] for k in part], cells, part
                )
            if lines:
                lines.append(("", ""))
            lines += self._part(rows, part, widths_fit, split)
        return lines

    def _part(
        self,
        rows: Sequence[tuple[Sequence[str], str]],
        part: Sequence[int],
        widths: Sequence[int],
        narrow: bool,
    ) -> list[tuple[str, str]]:
        """Return the lines of the columns `part`; a row without text in these columns has no line.

        `narrow`: titles above several columns are wrapped, too.
        """
        lines = self._above(part, widths, narrow)
        known: dict[tuple[str, int], Sequence[str]] = {}
        for cells, tone in rows:
            chosen = [cells[k] for k in part]
            if len(part) < len(cells) and not any(chosen):
                continue
            lines += [
                (self._line(row, part, widths), tone) for row in _wrapped(chosen, widths, known)
            ]
        return lines

    def _parts(self, least: Sequence[int], most: int) -> list[list[int]]:
        """Return the columns of each part of a table that is cut into parts of the width `most`.

        Each part begins with the first column. Columns under a common title stay in one part, if
        that is possible. `least`: the least width of each column.
        """
        blocks: list[list[int]] = []
        others = range(1, len(least))
        for above, members in groupby(others, key=lambda k: self._columns[k].above):
            block = list(members)
            whole = above and _total([least[k] for k in (0, *block)]) <= most
            blocks += [block] if whole else [[k] for k in block]
        parts = [[0]]
        for block in blocks:
            if len(parts[-1]) > 1 and _total([least[k] for k in (*parts[-1], *block)]) > most:
                parts.append([0])
            parts[-1] += block
        return parts

    def _least(self, k: int, texts: Sequence[str], widest: int) -> int:
        """Return the least width of column number `k`, which has these `texts`, its title first.

        Numbers and words are not wrapped. `widest`: the width without wrapping.
        """
        if self._columns[k].number:
            whole = max(_piece(texts[0]), max(map(columns_of, texts[1:]), default=0))
            return min(widest, whole)
        return min(widest, NARROW[0], max(NARROW[-1], *map(_piece, set(texts))))

    def _narrowed(
        self, widths: Sequence[int], least: Sequence[int], part: Sequence[int], most: int
    ) -> list[int]:
        """Return `widths` of the columns `part`, reduced to `most` characters in all if possible.

        `least`: the least width of each column of the table, if no word is broken.
        """
        narrowed, last = list(widths), len(widths) - 1
        for narrowest in NARROW:
            lows = [
                least[k] if self._columns[k].number or not narrowest else min(width, narrowest)
                for k, width in zip(part, widths)
            ]
            over = _total(narrowed) - most
            cut = min(max(over, 0), max(narrowed[last] - lows[last], 0))
            narrowed[last] -= cut
            for _ in range(over - cut):
                room = [width - low for width, low in zip(narrowed, lows)]
                widest = room.index(max(room))
                narrowed[widest] -= room[widest] > 0
        return narrowed

    def _with_fewer_lines(
        self,
        narrowed: list[int],
        widths: Sequence[int],
        cells: Sequence[Sequence[str]],
        part: Sequence[int],
    ) -> list[int]:
        """Return widths with the total of `narrowed`, but only one narrower column if possible.

        `widths` are those without wrapping. Often, one column has a few long cells. If only this
        column is narrower, rows without such a cell need one line each. `narrowed` is returned
        unless that saves lines and breaks no name.
        """
        over = _total(widths) - _total(narrowed)
        columns = [[columns_of(text) for text in cells[k][1:]] for k in part]
        best, fewest = narrowed, _count_of_lines(columns, narrowed)
        for number, k in enumerate(part):
            one = [*widths[:number], widths[number] - over, *widths[number + 1 :]]
            if self._columns[k].number or one[number] <= 0:
                continue
            lines = _count_of_lines([columns[number]], [one[number]])
            names = (name.strip() for text in set(cells[k]) for name in _names(text))
            if lines < fewest and max(map(columns_of, names), default=0) <= one[number]:
                best, fewest = one, lines
        return best

    def _line(self, cells: Sequence[str], part: Sequence[int], widths: Sequence[int]) -> str:
        padded: list[str] = []
        for cell, width, k in zip(cells, widths, part):
            blank = " " * (width - columns_of(cell))
            padded.append(blank + cell if self._columns[k].number else cell + blank)
        return COLUMN_GAP.join(padded).rstrip()

    def _above(
        self, part: Sequence[int], widths: Sequence[int], narrow: bool
    ) -> list[tuple[str, str]]:
        """Return the lines with titles above several columns; none if there are no such titles.

        `narrow`: wrap each title to the width of its columns.
        """
        blocks: list[list[str]] = []
        pairs = zip((self._columns[k] for k in part), widths)
        for above, members in groupby(pairs, key=lambda pair: pair[0].above):
            width = _total([width for _, width in members])
            texts = _broken(above, width) if narrow else [above]
            blocks.append([text.center(width, "-" if above else " ") for text in texts])
        lines = (
            COLUMN_GAP.join(
                text or " " * len(block[0]) for text, block in zip(texts, blocks)
            ).rstrip()
            for texts in zip_longest(*blocks, fillvalue="")
        )
        return [(line, "head") for line in lines if line]


NARROW = (24, 0, 12, 8)
"""The least widths of a column of text, tried in this order; 0 is the width of its longest word."""


def _total(widths: Sequence[int]) -> int:
    """Return the width of a line with columns of these `widths`."""
    return sum(widths) + len(COLUMN_GAP) * (len(widths) - 1)


def columns_of(text: str) -> int:
    """Return the width of `text` on a terminal: letters of East Asia take two columns."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 1 + (east_asian_width(char) in "WF") for char in text)


def _count_of_lines(columns: Sequence[Sequence[int]], widths: Sequence[int]) -> int:
    """Return how many lines the rows of a table need; `columns`: the widths of their cells."""
    wrapped = ([-(-cell // width) for cell in column] for column, width in zip(columns, widths))
    return sum(max(1, *row) for row in zip(*wrapped))


def _wrapped(
    cells: Sequence[str], widths: Sequence[int], known: dict[tuple[str, int], Sequence[str]]
) -> list[list[str]]:
    """Return the lines of a row; no cell is wider than its column.

    `known`: (text, width) -> lines of cells that were wrapped before, because many are equal.
    """
    parts: list[Sequence[str]] = []
    for cell, width in zip(cells, widths):
        if columns_of(cell) <= width:
            parts.append((cell,))
        else:
            key = cell, width
            if key not in known:
                known[key] = _broken(cell, width)
            parts.append(known[key])
    height = max(map(len, parts))
    return [[part[k] if k < len(part) else "" for part in parts] for k in range(height)]


def _pieces(text: str) -> list[str]:
    """Return the parts of `text` between which a line may end, each with the blanks before it."""
    import re

    return re.findall(r"\s*\S+?(?:(?<=[:,/.-])(?=\w)|(?=\s)|$)", text)


def _names(text: str) -> list[str]:
    """Return the words of `text`, and the names in lists, each with the blanks before it."""
    import re

    return re.findall(r"\s*\S+?(?:(?<=[:,])(?=\w)|(?=\s)|$)", text)


def _piece(title: str) -> int:
    """Return the width of the widest part of a text between places where a line may end."""
    return max((columns_of(part.strip()) for part in _pieces(title)), default=0)


def _broken(cell: str, width: int) -> list[str]:
    """Return the lines of `cell`, broken at blanks or after punctuation marks.

    A name is broken only if it does not fit into a line.
    """
    lines, line, used = [], "", 0
    for name in _names(cell):
        for part in [name] if columns_of(name.strip()) <= width else _pieces(name):
            piece, needed = part, columns_of(part)
            if used + needed > width and line:
                lines.append(line)
                piece = part.lstrip()
                line, used, needed = "", 0, columns_of(piece)
            while needed > width:
                fits = next(k for k in range(len(piece), 0, -1) if columns_of(piece[:k]) <= width)
                lines.append(piece[:fits])
                piece = piece[fits:]
                needed = columns_of(piece)
            line += piece
            used += needed
    lines.append(line)
    return lines


def _broken_at_blanks(text: str, first: int, rest: int) -> list[str]:
    """Return the lines of `text`, broken at blanks: the first one of `first` letters, then `rest`.

    A longer word has a line of its own. `textwrap` does the same, and loads in 0.7 ms.
    """
    lines = [""]
    for word in text.split(" "):
        width = first if len(lines) == 1 else rest
        if not lines[-1].strip() and (word or len(lines) > 1):
            blanks = lines[-1] if len(lines[-1]) + len(word) <= width else ""
            lines[-1] = blanks + word
        elif len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return [line.rstrip() for line in lines if line.strip()]


MOST_TERMINAL_ROWS = 20
"""The most rows of a long list on a terminal."""

SCORE_DIGITS, ALL_DIGITS = 4, WRITTEN_DECIMALS
"""Decimals of a score in text: by default, and with ``-v`` or ``--compat hail``."""


class Page:
    """The lines of a text; prose is wrapped.

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
        Whether the text is that of ``--compat hail``: with hbal's notation, all digits and all
        rows.
    """

    def __init__(self, colour: bool = False, width: int = IN_PIPE) -> None:
        self._colour = colour
        self._width = width
        self._lines: list[str] = []
        self.rows = 0
        self.everything = False
        self.option = "--all"
        self.digits = SCORE_DIGITS
        self.verbose = False
        self.hail = False
        self._shortened = False
        self.leave_out(())

    @classmethod
    def on(cls, stream: Any, settings: Any) -> Page:
        """Return the page for `stream`, as `settings` require."""
        hail = settings.behaviour.prints_as_htools
        page = cls(wants_colour(stream), IN_PIPE if hail else terminal_width(stream))
        page.hail = hail
        page.verbose = bool(settings.verbose)
        page.digits = ALL_DIGITS if hail or page.verbose else SCORE_DIGITS
        page.everything = bool(getattr(settings, "all_rows", False))
        if stream.isatty() and not (hail or page.everything):
            page.rows = MOST_TERMINAL_ROWS
        page.option = option_for_all(settings)
        return page

    def score(self, value: float) -> str:
        """Return a score, or a difference of scores, with the decimals of the page."""
        text = f"{value:.{self.digits}f}"
        if value and not text.strip("-0."):
            return f"{value:.1e}"
        return text

    def rounded(self, text: str) -> str:
        """Return `text` with the decimals of its scores reduced to those of the page."""
        if self.digits == ALL_DIGITS or "." not in text:
            return text
        import re

        pattern = rf"(?<![\d.])\d+\.\d{{{ALL_DIGITS}}}(?!\d)"
        return re.sub(pattern, lambda match: self.score(float(match[0])), text)

    def scores(self, before: float, after: float) -> tuple[str, str]:
        """Return two scores as texts, with as many decimals as are needed to distinguish them."""
        for digits in range(self.digits, ALL_DIGITS + 1):
            texts = f"{before:.{digits}f}", f"{after:.{digits}f}"
            if texts[0] != texts[1]:
                return texts
        return self.score(before), self.score(after)

    def most(self, usual: int, number: int) -> int:
        """Return the maximum number of names in a line: `usual`, or `number` if no list is cut."""
        return number if self.everything else usual

    def some(self, names: Sequence[str], usual: int, noun: str = "") -> str:
        """Return `names` in one line; of many, only the first `usual` and the number of others.

        With `noun`, such as ``instances``, a list that is cut begins with the number of all names.
        """
        most = self.most(usual, len(names))
        few = ", ".join(names[:most])
        if len(names) <= most:
            return few
        self._shortened = True
        if noun:
            return f"{len(names)} {noun}, {few}, ..."
        return f"{few} and {len(names) - most} more"

    def leave_out(self, domains: Sequence[str]) -> None:
        """Leave `domains` out of the ends of names in all text that is added later."""
        self._left_out = [printable(domain) for domain in domains]
        self._domains = tuple(domains)
        self._pattern: Pattern[str] | None = None

    def text(self) -> str:
        """Return the whole page; "" if nothing was added."""
        return "".join(f"{line}\n" for line in self._lines)

    def verbatim(self, text: str) -> None:
        """Add the lines of `text` unchanged, however long they are."""
        self._lines.append(text)

    def short(self, text: str) -> str:
        """Return `text` with names as the page shows them, without domains."""
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
        """Begin a part of the text with a title."""
        self.blank()
        self.say(text, tone="head", indent=0)

    def say(self, text: str, tone: str = "", indent: int = 2) -> None:
        """Add a sentence, wrapped with a deeper indent."""
        line = self.short(printable(text))
        fits = indent + columns_of(line) <= self._width
        if line and fits and line == line.strip() and line.isprintable():
            self._lines.append(self._paint(" " * indent + line, tone))
            return
        room = self._width - indent - 4
        too_long = not self.hail and any(len(word) > room for word in line.split())
        if columns_of(line) > len(line) or too_long:
            # `_broken_at_blanks` counts letters, not columns, and does not break names
            first, *rest = _broken(line, room)
            self._lines.append(self._paint(" " * indent + first, tone))
            self._lines += [self._paint(" " * (indent + 4) + text, tone) for text in rest]
            return
        wrapped = _broken_at_blanks(line, room + 4, room)
        indents = [indent] + [indent + 4] * len(wrapped)
        self._lines += [
            self._paint(" " * margin + text, tone) for margin, text in zip(indents, wrapped)
        ]

    def say_left_out(self) -> None:
        """Add a line with the endings that are left out of names, if there are any."""
        if self._left_out:
            self.blank()
            ends = " and ".join(self._left_out)
            domains, self._domains = self._domains, ()
            self.say(f"(Names above without {ends})", tone="faint", indent=0)
            self._domains = domains
            self._left_out = []

    def say_shortened(self) -> None:
        """Add a line with the options that show all names, if a list of names was cut."""
        if self._shortened and not self.hail:
            self.blank()
            options = options_for_more(self.option)
            self.say(
                f"(Lists of names above are shortened: {options} shows all)", "faint", indent=0
            )

    def table(self, table: Table, indent: int = 2) -> None:
        """Add a table that fits the width; of many rows, the first and the number of others."""
        left = table.cut(self.rows) if self.rows else 0
        lines = table.lines(self.short, self._width - indent, split=not self.hail)
        self._lines += [self._paint((" " * indent + text).rstrip(), tone) for text, tone in lines]
        if left:
            self.say_more(left, indent)

    def say_more(self, left: int, indent: int = 2) -> None:
        """Add the number of entries that are left out of a list, and the options for them."""
        self.say(words_for_more(left, self.option), tone="faint", indent=indent)

    def _paint(self, text: str, tone: str) -> str:
        if not (self._colour and tone and text):
            return text
        return f"\x1b[{TONE_CODES[tone]}m{text}\x1b[0m"


REPEATED_COLUMNS = 2
"""The number of first columns that are repeated in each part of a list that is cut."""


def option_for_all(settings: Any) -> str:
    """Return the option of a command with which no list is cut."""
    names: dict[str, str] = {one.target: one.names[-1] for one in settings.options}
    return names.get("all_rows", "--json")


def words_for_more(left: int, option: str) -> str:
    """Return the number of entries left out of a list, and the options for them, in words."""
    return f"{left} more ({options_for_more(option)})"


def options_for_more(option: str) -> str:
    """Return the option of a command with which no list is cut, and ``--json``."""
    return option if option == "--json" else f"{option} or --json"


def listed(table: Json, width: int, rows: int = 0, option: str = "") -> str:
    """Return a table of nodes or instances: as wide as htools print it, or fitted to `width`.

    At most `rows` rows are shown (0: all). If more exist, the last line has the number of rows
    left out, and the `option` that shows them.
    """
    all_rows = list(table["rows"])
    few = all_rows[:rows] if rows else all_rows
    text = aligned(table["titles"], few, table["left"], 0 if table["any_width"] else width)
    left = len(all_rows) - len(few)
    return f"{text} {words_for_more(left, option)}\n" if left else text


def aligned(
    titles: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[bool], most: int = 0
) -> str:
    """Return rows under titles as text; each line begins with a blank.

    `left`: whether each column is aligned to the left. If lines are wider than `most` (0: any
    width), the list is cut: the other columns follow in further lists, each with the first two
    columns. Names that are wider than about half of `most` are wrapped.
    """
    cells = [list(titles), *([printable(cell) for cell in row] for row in rows)]
    if most:
        widest = [
            (most - REPEATED_COLUMNS * len(COLUMN_GAP) - REPEATED_COLUMNS) // REPEATED_COLUMNS
        ] * len(titles)
        cells = [line for row in cells for line in _wrapped(row, widest, {})]
    widths = [max(columns_of(row[k]) for row in cells) for k in range(len(titles))]
    parts = _parts(widths, most)
    return "\n".join(
        "".join(f" {_line(row, widths, left, part)}\n" for row in cells) for part in parts
    )


def _line(
    row: Sequence[str], widths: Sequence[int], left: Sequence[bool], part: Sequence[int]
) -> str:
    pieces = []
    for k in part:
        blank = " " * (widths[k] - columns_of(row[k]))
        pieces.append(row[k] + blank if left[k] else blank + row[k])
    return " ".join(pieces).rstrip()


def _parts(widths: Sequence[int], most: int) -> list[list[int]]:
    """Return the columns of each part of a list that is cut into parts of the width `most`."""
    first = list(range(min(REPEATED_COLUMNS, len(widths))))
    parts = [list(first)]
    for k in range(len(first), len(widths)):
        width = sum(widths[i] + 1 for i in [*parts[-1], k])
        if most and len(parts[-1]) > len(first) and width > most:
            parts.append(list(first))
        parts[-1].append(k)
    return parts
