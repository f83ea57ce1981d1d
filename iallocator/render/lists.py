"""Lists of nodes and instances as htools print them: chosen fields, one blank between."""

from __future__ import annotations

from iallocator.errors import shown
from iallocator.render.table import columns_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iallocator.aliases import Json

__all__ = ["aligned", "listed"]


KEYS = 2
"""So many columns say which row it is."""

WIDEST = 100
"""Columns of a terminal that a list takes where it need not be as htools print it."""


def listed(table: Json) -> str:
    """Return a table of nodes or instances: as wide as htools print it, or fitted to a terminal."""
    return aligned(
        table["titles"], table["rows"], table["left"], 0 if table["any_width"] else WIDEST
    )


def aligned(
    titles: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[bool], most: int = 0
) -> str:
    """The rows under their titles, each line begun with a blank; `left` ones left-aligned.

    Lines wider than `most` (0: any width) are cut: what is beyond stands in further lists
    below, each with the first two columns again.
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
    """Which columns stand beside each other in lines of `most`; the first two in each list."""
    first = list(range(min(KEYS, len(widths))))
    parts = [list(first)]
    for k in range(len(first), len(widths)):
        width = sum(widths[i] + 1 for i in [*parts[-1], k])
        if most and len(parts[-1]) > len(first) and width > most:
            parts.append(list(first))
        parts[-1].append(k)
    return parts
