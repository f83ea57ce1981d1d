"""The command ``snapshot``."""

from __future__ import annotations

import os

from iallocator.commands.command import Command, Result
from iallocator.compat import IN_ORDER
from iallocator.errors import IallocatorError, RequestError, UsageError, one_line, tell
from iallocator.options.settings import Settings as Common
from iallocator.options.table import Option
from iallocator.options.values import Choice, file_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iallocator.sources import Source

__all__ = ["Snapshot"]

ENDINGS = {"text": "data", "json": "json"}
"""Form -> the ending of the file."""

TITLES = ("Name", "Nodes", "Inst", "BNode", "BInst", "t_mem", "f_mem", "t_disk", "f_disk", "Score")
"""Of the line about each cluster; memory in MiB, disk in GiB, as hscan shows it."""


class Settings(Common):
    """Which clusters, and what is written of them."""

    addresses: Sequence[str] = ()
    output_dir: str = ""
    form: str = "text"
    request: str = ""
    no_headers: bool = False


OPTIONS = (
    Option("--rapi --master -m", "addresses",
           "a running cluster at HOST[:PORT], or its answers: file://FOLDER; may repeat",
           file_name, "ADDRESS", repeats=True),
    Option("--output-dir -d", "output_dir",
           "write NAME.data or NAME.json into this folder, and say what each cluster is like",
           file_name, "FOLDER"),
    Option("--form", "form", "text: htools' format (default); json: a captured document",
           Choice(*ENDINGS), "FORM"),
    Option("--request", "request",
           "a document with this question in it: 'allocate --memory 4G ...', as for ask",
           str, "WORDS"),
    Option("--no-headers", "no_headers", "no titles above what each cluster is like"),
)  # fmt: skip


class Snapshot(Command):
    """``iallocator snapshot``: clusters as files that every planner, and every htool, reads.

    Exit status 0: all are written; 2: some are not, and why is on stderr.
    """

    usage = "[OPTIONS] [FILE|-t FILE|-L|-m ADDRESS...]"
    options = OPTIONS
    settings_type = Settings
    settings: Settings

    def check(self) -> None:
        """Reject a request in a text file, and several clusters on standard output."""
        settings = self.settings
        if settings.request:
            if "form" in settings.chosen and settings.form != "json":
                raise UsageError("a text file has no place for a --request")
            settings.form = "json"
        if not settings.output_dir and len(settings.addresses) > 1:
            raise UsageError("several clusters need --output-dir FOLDER")

    def find(self) -> Result:
        """Write the clusters into the folder, or return the only one."""
        settings = self.settings
        sources = _sources(settings, self.positional)
        if settings.output_dir:
            return _write_all(sources, settings)
        _, source = next(sources)
        if isinstance(source, IallocatorError):
            raise source
        return Written(_written(source, settings), _lists(source, settings))


class Written(Result):
    """What is written on standard output: the only cluster, or what each cluster is like."""

    def __init__(self, text: str, lists: Sequence[str] = (), failed: bool = False) -> None:
        super().__init__()
        self._text = text
        self._lists = lists
        self.status = 2 if failed else 0

    def text(self) -> str:
        """Return the text."""
        return self._text

    def remarks(self) -> Sequence[str]:
        """Return what was read, and the lists that are asked for."""
        return self._lists


def _write_all(
    sources: Iterator[tuple[str, Source | IallocatorError]], settings: Settings
) -> Written:
    """Write every cluster into its file."""
    from iallocator.files import write_file
    from iallocator.render.states.listing import aligned

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
            rows.append((name, *_figures(source)))
            tell(*lists)
        except IallocatorError as error:
            failed = True
            tell(f"iallocator: {one_line(f'{name}: {error}')}")
    lines = aligned(TITLES, rows, [k == 0 for k in range(len(TITLES))])
    titles, _, body = lines.partition("\n")
    return Written(body if settings.no_headers else f"{titles}\n{body}", failed=failed)


def _sources(
    settings: Settings, positional: Sequence[str]
) -> Iterator[tuple[str, Source | IallocatorError]]:
    """Yield the name of each cluster, and the cluster or why it cannot be read."""
    from iallocator.sources import load
    from iallocator.wire.reading import Reading

    reading = Reading(IN_ORDER, settings.static_kvm_node_memory)
    for address in settings.addresses or [""]:
        settings.rapi = address
        try:
            yield _name(settings, positional), load(settings, positional, reading)
        except IallocatorError as error:
            yield _name(settings, positional), error


def _name(settings: Settings, positional: Sequence[str]) -> str:
    """What the cluster is called: LOCAL, its host, or the name of its file, without its ending."""
    if settings.luxi is not None:
        return "LOCAL"
    if settings.rapi and not settings.rapi.startswith("file:"):
        return settings.rapi.partition("//")[2] or settings.rapi
    path = settings.rapi or settings.text_data or settings.ialloc_src or "".join(positional)
    base = os.path.basename(path.rstrip("/")) or "cluster"
    return base if settings.rapi else base.partition(".")[0] or base


def _written(source: Source, settings: Settings) -> str:
    """Return the cluster in the form that is asked for."""
    if settings.form == "text":
        from iallocator.model.state import State
        from iallocator.sources.writer import write_text

        state = State(source.cluster)
        return write_text(
            source.cluster, state, policy=source.policy, master=source.master, backwards=True
        )

    if source.document is None:
        raise UsageError("a text file or a simulated cluster does not say enough for --form json")
    from iallocator.wire.codec import infinite_number, pretty

    document = {key: value for key, value in source.document.items() if key != "request"}
    if settings.request:
        from iallocator.commands.questions import request_in_words

        document["request"] = request_in_words(settings.request, source)
    try:
        return pretty(document) + "\n"
    except ValueError:
        raise RequestError(*infinite_number(document)) from None


def _figures(source: Source) -> tuple[str, ...]:
    """Return the rest of the line about a cluster."""
    from iallocator.model.state import State
    from iallocator.planners.check.overview import bad_items, total_score

    state = State(source.cluster)
    nodes = source.cluster.nodes
    bad_nodes, bad_instances = bad_items(state, range(len(nodes)))
    return (
        str(len(nodes)),
        str(len(source.cluster.instances)),
        str(len(bad_nodes)),
        str(len(bad_instances)),
        str(sum(node.total_memory for node in nodes)),
        str(sum(node.reported_memory for node in nodes)),
        str(sum(node.total_disk for node in nodes) // 1024),
        str(sum(node.reported_disk for node in nodes) // 1024),
        f"{total_score(state):.8f}",
    )


def _lists(source: Source, settings: Settings) -> list[str]:
    """What was read, and the lists that are asked for: for stderr.

    Raises
    ------
    UsageError
        If there is no such field.
    """
    from iallocator.engine import summary

    lists = [summary(source.cluster)] if settings.verbose else []
    if source.cluster.assumed_offline:
        from iallocator.sources.live.load import silence_warnings

        lists += silence_warnings(source.cluster)
    if settings.print_nodes is not None or settings.print_instances:
        from iallocator.model.state import State
        from iallocator.render.states.before_after import lists_of

        lists += lists_of(State(source.cluster), settings, backwards=True)
    return lists
