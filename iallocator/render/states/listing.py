"""Lists of nodes and instances as htools print them: chosen fields, one blank between."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal

from iallocator.errors import UsageError, shown
from iallocator.names import guesses
from iallocator.render.table import columns_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iallocator.model.cluster import Cluster

__all__ = ["WIDEST", "aligned", "choose_fields", "common_domain", "decimal", "ratio"]


KEYS = 2
"""So many columns say which row it is."""

WIDEST = 100
"""Columns of a terminal that a list takes where it need not be as htools print it."""


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


def choose_fields(wanted: str, usual: Sequence[str], known: Mapping[str, object]) -> list[str]:
    """The fields that `wanted` names, separated by commas; after a ``+`` besides the usual.

    Raises
    ------
    UsageError
        If one is not `known`.
    """
    more = wanted.removeprefix("+")
    names = [name for name in more.split(",") if name]
    for name in names:
        if name not in known:
            raise UsageError(
                f"--print-nodes: expected fields out of {', '.join(known)}, got {name!r}"
                f"{guesses(name, known)}"
            )
    return [*usual, *names] if wanted.startswith("+") or not names else names


def common_domain(cluster: Cluster) -> str:
    """What the names of all nodes and instances end with, from a dot on; or ""."""
    names = [node.name for node in cluster.nodes] + [i.name for i in cluster.instances]
    if not names:
        return ""
    ends = [name.split(".")[1:] for name in names]
    common: list[str] = []
    for labels in zip(*(reversed(end) for end in ends)):
        if len(set(labels)) > 1:
            break
        common.insert(0, labels[0])
    return "".join(f".{label}" for label in common)


def ratio(part: float, whole: float) -> float | None:
    """`part` of `whole`; None where there is nothing to divide by."""
    return part / whole if whole else None


def decimal(value: float | None, places: int) -> str:
    """`value` with so many decimals; ``-`` if there is none.

    Rounded as it is written, to even: 0.57875 is exactly between 0.5787 and 0.5788.
    """
    if value is None:
        return "-"
    return str(Decimal(repr(value)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN))
