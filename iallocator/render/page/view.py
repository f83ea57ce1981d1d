"""What a page shows, as plain values: sections, tables, bars.  Texts are not escaped here."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from iallocator.errors import shown
from iallocator.names import common_domain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iallocator.aliases import Json

__all__ = [
    "SHOWN", "Bar", "Cell", "Column", "Grid", "Link", "PageView", "Row", "Section", "Tile",
    "decimals", "gib", "natural", "page_of", "row_of", "short_names", "signed",
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
class Column:
    """A column: its title, what it means, and whether it holds numbers."""

    title: str
    number: bool = False
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A row; `anchor` is its name for links."""

    cells: Sequence[Cell]
    anchor: str = ""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table; `empty` is said where it has no rows."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    intro: str = ""
    empty: str = "Nothing."


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


@dataclass(slots=True)
class PageView:
    """A whole page.

    `verdict`: the one sentence that matters, and `tone` how it is meant.
    """

    command: str
    cluster: str
    verdict: str
    tone: str = ""
    details: list[str] = field(default_factory=list)
    tiles: list[Tile] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    domain: str = ""


def page_of(command: str, cluster: Json, verdict: str, tone: str = "") -> PageView:
    """A page about a cluster: its name, and the end that all names have in common."""
    domain = common_domain([*cluster["nodes"], *cluster["instances"]])
    return PageView(command, shown(cluster["name"]), verdict, tone, domain=domain)


def short_names(cluster: Json, domain: str) -> dict[str, str]:
    """Every node and instance -> its name without `domain`; nothing without a domain."""
    names = [*cluster["nodes"], *cluster["instances"]]
    return {name: name.removesuffix(domain) for name in names} if domain else {}


def row_of(cells: Iterable[Cell | str], anchor: str = "") -> Row:
    """A row of cells, some of which are only text."""
    return Row([cell if isinstance(cell, Cell) else Cell(shown(cell)) for cell in cells], anchor)


def gib(mib: float) -> str:
    """An amount for people: MiB below one GiB, then GiB, then TiB."""
    if abs(mib) < 1024:
        return f"{mib:.0f} MiB"
    if abs(mib) < 10 * 1024**2:
        return f"{mib / 1024:.1f} GiB"
    return f"{mib / 1024**2:.1f} TiB"


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
