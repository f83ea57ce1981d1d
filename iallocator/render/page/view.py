"""What a page shows, as plain values: sections, tables, bars.  Texts are not escaped here."""

from __future__ import annotations

import re
from dataclasses import dataclass

from iallocator.errors import shown
from iallocator.names import common_domain
from iallocator.render.table import columns_named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iallocator.aliases import Json
    from iallocator.render.table import Column

__all__ = [
    "SHOWN", "Bar", "Cell", "Grid", "Link", "PageView", "Row", "Section", "Tile",
    "decimals", "gib", "natural", "number_cell", "score_cell", "signed", "size_cell",
]  # fmt: skip

SHOWN = 5e-5
"""Scores, no unit: a smaller change is not seen in four decimals."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A number that stands at the top: what it is, its value, and a line below it.

    `tone`: ``good``, ``bad`` or "".
    """

    title: str
    value: str
    note: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """A word that leads to the element `anchor` of the page; `hint` says why."""

    text: str
    anchor: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """Parts of a whole, in percent: used, then reserved; what is left is free.

    `used` may be more than 100; the drawing ends there.
    """

    used: float
    reserved: float = 0.0
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell.

    Attributes
    ----------
    text:
        What stands there.
    note:
        A second, smaller line.
    tone:
        ``good``, ``bad``, ``faint`` or ``strong``.
    sort:
        What rows are sorted by, if not by the text.
    """

    text: str = ""
    note: str = ""
    tone: str = ""
    sort: float | None = None
    links: Sequence[Link] = ()
    bar: Bar | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A row; `anchor` is its name for links."""

    cells: Sequence[Cell]
    anchor: str = ""


class Grid:
    """A table.

    Attributes
    ----------
    title, intro:
        Text above the table.
    empty:
        Text instead of a table without rows.
    """

    def __init__(
        self, *columns: Column | str, title: str = "", intro: str = "", empty: str = "Nothing."
    ) -> None:
        self.columns = columns_named(columns)
        self.rows: list[Row] = []
        self.title = title
        self.intro = intro
        self.empty = empty

    def add(self, *cells: Cell | str, anchor: str = "") -> None:
        """Add a row, one cell for each column; links lead to `anchor`."""
        every = [cell if isinstance(cell, Cell) else Cell(shown(cell)) for cell in cells]
        self.rows.append(Row(every, anchor))


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page.

    `kind` names the template; `data` is what that template shows.  `count` stands beside the
    title in the contents.
    """

    kind: str
    key: str
    title: str
    data: object
    intro: str = ""
    count: str = ""


class PageView:
    """A whole page, to which the renderer of a document adds.

    Attributes
    ----------
    command:
        The command that found what the page shows.
    cluster:
        The name of the cluster.
    headline:
        The one sentence that matters.
    tone:
        How the headline is meant, as of `Tile`.
    names:
        Each node and instance -> its name without `domain`; empty without a domain.
    domain:
        The end that all names have in common.
    """

    def __init__(self, cluster: Json) -> None:
        every = [*cluster["nodes"], *cluster["instances"]]
        self.command = ""
        self.cluster = shown(cluster["name"])
        self.headline = ""
        self.tone = ""
        self.details: list[str] = []
        self.tiles: list[Tile] = []
        self.sections: list[Section] = []
        self.domain = domain = common_domain(every)
        self.names = {name: name.removesuffix(domain) for name in every} if domain else {}

    def short(self, name: str) -> str:
        """Return the name of a node or an instance as the page shows it."""
        short: str = self.names.get(name, name)
        return short

    def strong(self, name: str) -> Cell:
        """Return a cell with the name that a row is about."""
        return Cell(shown(self.short(name)), tone="strong")

    def placement(self, nodes: Iterable[str]) -> str:
        """Return the nodes of an instance: ``primary : secondary``."""
        return " : ".join(map(self.short, nodes))

    def table(
        self, key: str, title: str, grids: Grid | list[Grid], intro: str = "", count: str = ""
    ) -> None:
        """Add a section with a table, or with several."""
        data = [grids] if isinstance(grids, Grid) else grids
        self.sections.append(Section("grids", key, title, data, intro, count))


def gib(mib: float) -> str:
    """An amount for people: MiB below one GiB, then GiB, then TiB."""
    if abs(mib) < 1024:
        return f"{mib:.0f} MiB"
    if abs(mib) < 10 * 1024**2:
        return f"{mib / 1024:.1f} GiB"
    return f"{mib / 1024**2:.1f} TiB"


def size_cell(mib: float) -> Cell:
    """Return a cell with an amount of memory or disk."""
    return Cell(gib(mib), sort=mib)


def number_cell(number: int, tone: str = "") -> Cell:
    """Return a cell with a whole number."""
    return Cell(str(number), tone=tone, sort=number)


def score_cell(score: float) -> Cell:
    """Return a cell with a score."""
    return Cell(decimals(score), sort=score)


def decimals(value: float) -> str:
    """A score, with four decimals."""
    return f"{value:.4f}"


def natural(name: str) -> list[tuple[int, str]]:
    """What names are sorted by so that node10 comes after node9; digits may be any number."""
    parts = ((part, part.lstrip("0")) for part in re.split("([0-9]+)", name))
    return [(len(bare), bare) if part[:1].isdecimal() else (-1, part) for part, bare in parts]


def signed(value: float) -> str:
    """A change of a score; "" if there is none that shows."""
    text = f"{value:+.4f}".replace("-", "\N{MINUS SIGN}")
    return "" if float(f"{value:.4f}") == 0 else text
