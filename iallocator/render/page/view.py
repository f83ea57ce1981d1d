"""A page for a browser as plain values (sections, tables, bars), and as HTML by templates.

The templates, and the functions that write rows of tables and tiles, escape all texts.
"""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from itertools import repeat
from pathlib import Path

from iallocator import __version__
from iallocator.errors import UsageError, printable
from iallocator.names import common_domain
from iallocator.render.table import columns_named
from iallocator.units import GIB

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jinja2 import Template
    from markupsafe import Markup

    from iallocator.aliases import Json
    from iallocator.render.table import Column

__all__ = [
    "SMALLEST_SEEN", "Bar", "Cell", "Grid", "Link", "PageView", "Row", "Section", "Tile",
    "check_library", "decimals", "escaped", "gib", "html_of", "natural", "number_cell",
    "score_cell", "signed", "size_cell",
]  # fmt: skip

TEMPLATE_FOLDER = Path(__file__).parent / "templates"

PAGES = {"cluster": "Cluster", "plan": "Plan", "failures": "Failures", "rules": "Rules"}
"""Name of a page in a folder of pages -> its title."""

PAGE_OF = {
    **dict.fromkeys(("moves", "transition", "repairs", "decision", "step", "move"), "plan"),
    **dict.fromkeys(("problems", "failures", "joint", "domains"), "failures"),
    **dict.fromkeys(("rules", "tags"), "rules"),
}
"""First word of the key of a section or of an anchor -> its page, if that is not ``cluster``."""

SMALLEST_SEEN = 5e-5
"""The smallest change of a score that is visible in four decimals."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A number at the top of the page: its title, its value, and a line below it.

    `tone`: ``good``, ``bad`` or "".
    """

    title: str
    value: str
    note: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Identity:
    """The origin of a page: source of the cluster, time of reading, command line.

    `time` is in UTC, as in JSON documents.
    """

    source: str
    time: str
    line: str


@dataclass(frozen=True, slots=True)
class Link:
    """A link to the element `anchor` of the page; `hint` is its tooltip."""

    text: str
    anchor: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """The used and reserved parts of a resource, in percent; the rest is free.

    `used` may be more than 100; the drawing ends at 100.
    """

    used: float
    reserved: float = 0.0
    tone: str = ""


@dataclass(slots=True)  # frozen objects take three times as long to make
class Cell:
    """One cell of a table.

    Attributes
    ----------
    text:
        The text of the cell.
    note:
        A second, smaller line.
    tone:
        ``good``, ``bad``, ``faint`` or ``strong``.
    sort:
        The value by which rows are sorted, if not by the text.
    """

    text: str = ""
    note: str = ""
    tone: str = ""
    sort: float | None = None
    links: Sequence[Link] = ()
    bar: Bar | None = None


@dataclass(slots=True)
class Row:
    """A row of a table; `anchor` is the name of the row for links."""

    cells: Sequence[Cell]
    anchor: str = ""


class Grid:
    """A table on a page.

    Attributes
    ----------
    title, intro:
        Text above the table.
    empty:
        The text that is shown if the table has no rows.
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
        """Add a row with one cell for each column; `anchor` is the name of the row for links."""
        every = [cell if isinstance(cell, Cell) else Cell(printable(cell)) for cell in cells]
        self.rows.append(Row(every, anchor))

    def rows_as_html(self, href: Callable[[str], str]) -> Markup:
        """Return all rows as HTML; `href` returns the link to an anchor.

        Tables can have 100 000 cells. A template would take several times as long for them.
        """
        from markupsafe import Markup

        parts: list[str] = []
        for row in self.rows:
            parts.append(f'<tr id="{escaped(row.anchor)}">' if row.anchor else "<tr>")
            parts += map(_cell_as_html, row.cells, self.columns, repeat(href))
            parts.append("</tr>\n")
        return Markup("".join(parts))


def _cell_as_html(cell: Cell, column: Column, href: Callable[[str], str]) -> str:
    text = escaped(cell.text)
    if cell.links:
        text += " ".join(
            f'<a href="{escaped(href(link.anchor))}"'
            + (f' title="{escaped(link.hint)}">' if link.hint else ">")
            + f"{escaped(link.text)}</a>"
            for link in cell.links
        )
    if cell.bar is not None:
        bar = cell.bar
        style = f"--u:{bar.used}%;--r:{bar.reserved}%"
        text = f'<i class="bar {bar.tone}" style="{style}"></i>{text}'
    if cell.note:
        text += f"<small>{escaped(cell.note)}</small>"
    attributes = ""
    if column.number or cell.tone:
        attributes = f' class="{"n " if column.number else ""}{cell.tone}"'
    if cell.sort is not None:
        attributes += f' data-v="{cell.sort}"'
    return f"<td{attributes}>{text}</td>"


SPECIAL = re.compile("[&<>\"']")


def escaped(text: str) -> str:
    """Return `text` for HTML, as the templates escape it."""
    if not SPECIAL.search(text):
        return text
    from markupsafe import escape

    return str(escape(text))


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page.

    `kind` names the template, which shows `data`. `count` is shown beside the title. `page` names
    the page with this section, in a folder of pages.
    """

    kind: str
    key: str
    title: str
    data: object
    intro: str = ""
    count: str = ""

    @property
    def page(self) -> str:
        """Return the page with this section in a folder of pages, as a key of `PAGES`."""
        return PAGE_OF.get(self.key.partition("-")[0], "cluster")


class PageView:
    """A whole page. Renderers of documents add to it.

    Attributes
    ----------
    command:
        The command that computed the result on the page.
    cluster:
        The name of the cluster.
    headline:
        The main result in one sentence.
    tone:
        The tone of the headline: ``good``, ``bad`` or "".
    identity:
        The origin of the page.
    bandwidth:
        MiB that can be copied in a second, for estimates.
    late:
        The message that the time limit was reached, so that the largest parts are left out; "" if
        the page is complete.
    sizes:
        Name of an instance, also of a new one -> its memory and disk in MiB.
    names:
        Name of a node or an instance -> the name without `domain`; empty if there is no domain.
    domain:
        The common end of the names of all nodes and instances; "" for none.
    """

    def __init__(self, facts: Json) -> None:
        cluster = facts["cluster"]
        every = [*cluster["nodes"], *cluster["instances"]]
        self.bandwidth: float = facts["bandwidth"]
        self.identity = Identity(**facts["identity"])
        self.sizes = dict(cluster["instances"])
        for state in facts["states"]:
            self.sizes |= state["created"]
        self.late: str = facts["late"]
        nodes = () if self.late else facts["states"][0]["nodes"]
        self.positions = {node["name"]: k for k, node in enumerate(nodes)}
        self.command = ""
        self.cluster = printable(cluster["name"])
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

    def without_domain(self, text: str) -> str:
        """Return `text` with the names of nodes and instances in it as the page shows them."""
        if not self.domain or self.domain not in text:
            return text
        return re.sub(rf"{re.escape(self.domain)}(?![\w-]|\.\w)", "", text)

    def strong(self, name: str) -> Cell:
        """Return a cell with the name of a row's subject; the name of a node links to its tile."""
        text = printable(self.short(name))
        if name in self.positions:
            return Cell(tone="strong", links=[Link(text, f"tile-{self.positions[name]}")])
        return Cell(text, tone="strong")

    def placement(self, nodes: Iterable[str]) -> str:
        """Return the nodes of an instance: ``primary : secondary``."""
        return " : ".join(map(self.short, nodes))

    def table(
        self, key: str, title: str, grids: Grid | list[Grid], intro: str = "", count: str = ""
    ) -> None:
        """Add a section with one table or several tables."""
        data = [grids] if isinstance(grids, Grid) else grids
        self.sections.append(Section("grids", key, title, data, intro, count))

    def leave_out(self, key: str, title: str) -> None:
        """Add a section with the message that its contents are left out because the time is up."""
        self.table(key, title, [], f"Left out: {self.late}.")


def gib(mib: float) -> str:
    """Return an amount with its unit: in MiB below 1 GiB, in GiB below 10 TiB, or in TiB."""
    if abs(mib) < GIB:
        return f"{mib:.0f} MiB"
    if abs(mib) < 10 * GIB**2:
        return f"{mib / GIB:.1f} GiB"
    return f"{mib / GIB**2:.1f} TiB"


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
    """Return a score with four decimals."""
    return f"{value:.4f}"


def natural(name: str) -> list[tuple[int, str]]:
    """Return the key by which names are sorted, so that node10 follows node9."""
    parts = ((part, part.lstrip("0")) for part in re.split("([0-9]+)", name))
    return [(len(bare), bare) if part[:1].isdecimal() else (-1, part) for part, bare in parts]


def signed(value: float) -> str:
    """Return a change of a score with four decimals; "" if it is 0."""
    text = f"{value:+.4f}".replace("-", "\N{MINUS SIGN}")
    return "" if float(f"{value:.4f}") == 0 else text


def check_library() -> None:
    """Check, before any work, that the template library for pages is installed.

    Raises
    ------
    UsageError
        If the template library is not installed.
    """
    if find_spec("jinja2") is None:
        raise UsageError("--html needs the module jinja2: pip install 'iallocator[html]'")


@cache
def _page() -> Template:
    """Return the template of all pages; it is made once in a process."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATE_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html")


def html_of(view: PageView, current: str = "") -> str:
    """Return the page as one HTML document, which contains style and script and loads nothing.

    The content security policy of the page allows only this script.

    `current`: the page of a folder of pages, as a key of `PAGES`, or ``index``. If it is "", the
    document has all sections.
    """
    from markupsafe import Markup

    script = (TEMPLATE_FOLDER / "page.js").read_text("utf-8")
    pages = list(dict.fromkeys(section.page for section in view.sections)) if current else []
    pages.sort(key=list(PAGES).index)

    def href(anchor: str) -> str:
        """Return the link to an element, which may be on another page of the folder."""
        page = PAGE_OF.get(anchor.partition("-")[0], "cluster")
        return f"#{anchor}" if current in ("", page) else f"{page}.html#{anchor}"

    digest = b64encode(sha256(script.encode()).digest()).decode()
    return _page().render(
        view=view,
        sections=[one for one in view.sections if current in ("", one.page)],
        current=current,
        pages={page: PAGES[page] for page in pages},
        href=href,
        version=__version__,
        style=Markup((TEMPLATE_FOLDER / "page.css").read_text("utf-8")),
        script=Markup(script),
        script_hash=Markup(f"sha256-{digest}"),
    )
