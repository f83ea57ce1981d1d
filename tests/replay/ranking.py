"""Print the ranking behind an answer as a table, so that a diff shows why it changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from iallocator.cli import answer
from iallocator.engine import effective_settings, read
from iallocator.errors import RequestError
from iallocator.model.node_view import Capacities
from iallocator.options.parser import parse
from iallocator.options.settings import Settings
from iallocator.placement.context import Context
from iallocator.requests import Allocate
from iallocator.scoring.metrics import STATISTICS
from iallocator.scoring.scalar import ScalarKernel
from tests.builders import Json

Terms = list[float]

ALL = "--top=1000"
SHOWN = 12
"""Number of placements of a group in the table."""


def ranking(raw: bytes, options: Sequence[str]) -> str:
    """Return the placements of every group, best first, and the terms of their scores.

    Terms are statistics times their weights, with the instance placed; lower is better. The table
    has the terms of the best placement, of the second in its group, and of the best of every other
    group. Statistics that are 0 in all of them are left out.
    """
    try:
        response = json.loads(answer(raw, [*options, ALL]))
    except RequestError as error:
        return f"not understood: {error}\n"
    board = _Board(raw, options)
    lines = [board.title(), ""]
    if not response["solutions"]:
        lines.append(response["info"])
    for solution in response["solutions"]:
        lines += [*_group(solution), ""]
    lines += board.table(_compared(response["solutions"]))
    return "\n".join(lines).rstrip() + "\n"


def _group(solution: Json) -> Iterator[str]:
    """Yield lines of text with the best placements of one group, and its rejected nodes."""
    yield f"group {solution['group']} ({solution['alloc_policy']})"
    rejected = ", ".join(f"{reason} {count}" for reason, count in solution["failures"].items())
    yield f"  {solution['successes']} possible, refused: {rejected or 'none'}"
    placements = solution.get("placements", [])
    if not placements and not rejected:
        yield f"  {solution['reason']}"
    width = max((len(_where(placed)) for placed in placements), default=0)
    for number, placed in enumerate(placements[:SHOWN], start=1):
        yield f"  {number:2}  {_where(placed):{width}}  {_number(placed['score'])}"
    if len(placements) > SHOWN:
        yield f"  and {len(placements) - SHOWN} more"


def _compared(solutions: Sequence[Json]) -> list[Json]:
    """Return the placements to compare by terms: two of the first group, one of each other."""
    found = [solution.get("placements", []) for solution in solutions]
    return [placed for rank, group in enumerate(found) for placed in group[: 1 if rank else 2]]


def _where(placed: Json) -> str:
    return "/".join(placed["nodes"])


class _Board:
    """The cluster of a request, on which placements are scored term by term."""

    def __init__(self, raw: bytes, options: Sequence[str]) -> None:
        settings = Settings()
        parse(list(options), settings)
        cluster, request = read(raw, settings)
        assert isinstance(request, Allocate)
        self._instance = request.instance
        # Tags, such as the memory ratio of a group, change what nodes have
        state = Context(cluster, effective_settings(cluster, {}, settings, [])).state
        scope: Sequence[int] = range(len(cluster.nodes))
        if request.recreated is not None:
            scope = cluster.group_of(request.recreated).nodes
            state.remove(request.recreated, request.recreated.nodes)
        for group in cluster.groups:
            if group.name == request.group_name:
                scope = group.nodes
        fixed = Capacities(cluster.nodes)
        self._kernel = ScalarKernel(state, scope, fixed)
        self._index = {node.name: node.index for node in cluster.nodes}

    def title(self) -> str:
        """Return a line that describes the requested instance."""
        i = self._instance
        tags = f", tags {' '.join(i.tags)}" if i.tags else ""
        return (
            f"{i.name}: {i.template}, {i.memory} MiB memory, {i.disk} MiB disk, "
            f"{i.vcpus} virtual cpus{tags}"
        )

    def terms(self, placed: Json) -> Terms:
        """Return the terms of one placement; their sum is its score."""
        nodes = tuple(self._index[name] for name in placed["nodes"])
        terms = self._kernel.terms_of(self._instance, nodes)
        assert round(sum(terms), 8) == placed["score"], "the score is not the sum of its terms"
        return terms

    def table(self, placements: Sequence[Json]) -> Iterator[str]:
        """Yield a table of the terms of `placements`."""
        if not placements:
            return
        heads = [_where(placed) for placed in placements]
        widths = [max(12, len(head)) for head in heads]
        columns = [self.terms(placed) for placed in placements]
        yield _row("terms", heads, widths)
        for position, statistic in enumerate(STATISTICS):
            values = [_number(column[position]) for column in columns]
            if any(float(value) for value in values):
                yield _row(statistic.name, values, widths)
        yield _row("score", [_number(sum(column)) for column in columns], widths)


def _number(value: float) -> str:
    """Return a number with eight decimals, and without a sign before zero."""
    return f"{round(value, 8) + 0.0:.8f}"


def _row(name: str, cells: Sequence[str], widths: Sequence[int]) -> str:
    shown = "".join(f"  {cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
    return f"{name:18}{shown}"
