"""Lists of nodes and instances as htools print them: chosen fields, one blank between."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal

from iallocator.errors import UsageError, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iallocator.model.cluster import Cluster

__all__ = ["aligned", "choose_fields", "common_domain", "decimal", "ratio"]


def aligned(titles: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[bool]) -> str:
    """The rows under their titles, each line begun with a blank; `left` ones left-aligned."""
    cells = [list(titles), *([shown(cell) for cell in row] for row in rows)]
    widths = [max(len(row[k]) for row in cells) for k in range(len(titles))]
    lines = [
        " ".join(
            cell.ljust(width) if keep_left else cell.rjust(width)
            for cell, width, keep_left in zip(row, widths, left)
        ).rstrip()
        for row in cells
    ]
    return "".join(f" {line}\n" for line in lines)


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
