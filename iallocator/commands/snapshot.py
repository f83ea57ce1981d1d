"""The command ``snapshot``: write the data of clusters to files."""

from __future__ import annotations

import os

from iallocator.commands.command import Result
from iallocator.commands.questions import request_in_words
from iallocator.commands.states import lists_of
from iallocator.compat import IN_ORDER
from iallocator.documents.overview import bad_items, total_score
from iallocator.engine import summary
from iallocator.errors import IallocatorError, UsageError, one_line, tell
from iallocator.model.state import State
from iallocator.planners.eligible import nodes_named, set_offline
from iallocator.render.table import aligned
from iallocator.sources import load
from iallocator.sources.live.load import warnings_of_silent_nodes
from iallocator.sources.writer import write_text
from iallocator.units import GIB
from iallocator.wire.codec import pretty
from iallocator.wire.reading import Reading
from iallocator.written_files import write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iallocator.commands.command import Command
    from iallocator.commands.other_options import Snapshot
    from iallocator.sources import Source

__all__ = ["snapshot"]

ENDINGS = {"text": "data", "json": "json"}
"""Form -> the ending of the file."""

TITLES = ("Name", "Nodes", "Inst", "BNode", "BInst", "t_mem", "f_mem", "t_disk", "f_disk", "Score")
"""The titles of the lines about clusters; memory in MiB, disk in GiB, as of hscan."""


def snapshot(command: Command) -> Result:
    """Write several clusters into a folder, or return the text of a single one."""
    settings: Snapshot = command.settings
    sources = _sources(settings, command.positional)
    if settings.output_dir:
        return _write_all(sources, settings)
    _, source = next(sources)
    if isinstance(source, IallocatorError):
        raise source
    result = Result(facts={"text": _written(source, settings)})
    result.remarks = _lists(source, settings)
    return result


def _write_all(
    sources: Iterator[tuple[str, Source | IallocatorError]], settings: Snapshot
) -> Result:
    """Write every cluster into its file, and return a line about each."""
    rows: list[tuple[str, ...]] = []
    failed = False
    seen: set[str] = set()
    for name, source in sources:
        try:
            if isinstance(source, IallocatorError):
                raise source
            if name in seen:
                raise UsageError(f"two clusters are called {name}")
            seen.add(name)
            lists = _lists(source, settings)
            file = name.replace("/", "_") + "." + ENDINGS[settings.form]
            write_file(os.path.join(settings.output_dir, file), _written(source, settings))
            state, nodes = State(source.cluster), source.cluster.nodes
            figures = [
                len(nodes),
                len(source.cluster.instances),
                *map(len, bad_items(state, range(len(nodes)))),
                sum(node.total_memory for node in nodes),
                sum(node.reported_memory for node in nodes),
                sum(node.total_disk for node in nodes) // GIB,
                sum(node.reported_disk for node in nodes) // GIB,
            ]
            rows.append((name, *map(str, figures), f"{total_score(state):.8f}"))
            tell(*lists)
        except IallocatorError as error:
            failed = True
            tell(f"iallocator: {one_line(f'{name}: {error}')}")
    lines = aligned(TITLES, rows, [k == 0 for k in range(len(TITLES))])
    titles, _, body = lines.partition("\n")
    text = body if settings.no_headers else f"{titles}\n{body}"
    return Result(facts={"text": text}, status=(1 if rows else 2) if failed else 0)


def _sources(
    settings: Snapshot, positional: Sequence[str]
) -> Iterator[tuple[str, Source | IallocatorError]]:
    """Yield the name of each cluster with the cluster, or with the error if it cannot be read."""
    reading = Reading(IN_ORDER, settings.static_kvm_node_memory)
    for address in settings.addresses or [""]:
        settings.rapi = address
        try:
            source = load(settings, positional, reading)
            set_offline(source.cluster, settings.offline)
            yield _name(settings, positional), source
        except IallocatorError as error:
            yield _name(settings, positional), error


def _name(settings: Snapshot, positional: Sequence[str]) -> str:
    """Return the name of the cluster: LOCAL, its host, or its file without the ending."""
    if settings.luxi is not None:
        return "LOCAL"
    if settings.rapi and not settings.rapi.startswith("file:"):
        return settings.rapi.partition("//")[2] or settings.rapi
    path = settings.rapi or settings.text_data or settings.ialloc_src or "".join(positional)
    base = os.path.basename(path.rstrip("/")) or "cluster"
    return base if settings.rapi else base.partition(".")[0] or base


def _written(source: Source, settings: Snapshot) -> str:
    """Return the cluster as text in the form that ``--form`` names."""
    if settings.form == "text":
        state = State(source.cluster)
        return write_text(
            source.cluster, state, policy=source.policy, masters=source.masters, backwards=True
        )

    if source.document is None:
        raise UsageError("a text file or a simulated cluster lacks data that --form json needs")
    document = {key: value for key, value in source.document.items() if key != "request"}
    if settings.offline:
        down = nodes_named(source.cluster, settings.offline, "--offline")
        document["nodes"] = {
            name: {**node, "offline": True} if name in down else node
            for name, node in document["nodes"].items()
        }
    if settings.request:
        document["request"] = request_in_words(settings.request, source)
    return pretty(document) + "\n"


def _lists(source: Source, settings: Snapshot) -> list[str]:
    """Return text for stderr: a summary of what was read, and the requested lists.

    Raises
    ------
    UsageError
        If an option names an unknown field.
    """
    lists = [summary(source.cluster)] if settings.verbose else []
    if source.cluster.assumed_offline:
        lists += warnings_of_silent_nodes(source.cluster)
    if settings.print_nodes is not None or settings.print_instances:
        lists += lists_of(State(source.cluster), settings, backwards=True)
    return lists
