"""Represent one run of a command, and its result, for `iallocator.commands.runner`."""

from __future__ import annotations

import sys
from os import environ
from os.path import isfile
from time import gmtime, monotonic, strftime, time

from iallocator.commands import SETS_OFFLINE
from iallocator.constraints import relations_of
from iallocator.deadline import Running
from iallocator.engine import request_in, summary
from iallocator.errors import IallocatorError, InFile, UsageError, cut, tell
from iallocator.files import read_file
from iallocator.model.cluster import set_loads
from iallocator.names import short_names, whole_name
from iallocator.planners.eligible import set_offline
from iallocator.sources import document_path, load, source_name
from iallocator.tolerances import LARGEST_LOAD
from iallocator.wire.codec import decode, pretty_bytes
from iallocator.wire.reading import Reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import Any

    from iallocator.aliases import Json
    from iallocator.commands import Row
    from iallocator.commands.shared_options import Execution
    from iallocator.constraints.relations import Relations
    from iallocator.execution.queue import JobQueue
    from iallocator.execution.records import Records
    from iallocator.model.cluster import Cluster, Load
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.options.settings import Settings
    from iallocator.requests.existing import Request
    from iallocator.sources import Source

    Follower = Callable[[Records], None]
    """A function that is called with the records of an execution whenever they change."""

    Followed = Callable[[JobQueue], Follower]

__all__ = [
    "Command", "Result", "ShownState", "enforced_relations", "print_json", "reject_silent_nodes",
    "time_of_reading",
]  # fmt: skip


FROZEN = "SOURCE_DATE_EPOCH"
"""The environment variable that sets the time in documents, in seconds since 1970."""


class ShownState:
    """A state that options can list on stderr and save in a file.

    Attributes
    ----------
    moment:
        The word before the titles of the lists, for example ``Initial``.
    suffix:
        The ending of the file with the state; "" for no file.
    state:
        Function that makes the state; called only if the state is shown or saved.
    """

    __slots__ = ("moment", "state", "suffix")

    def __init__(self, moment: str, suffix: str, state: Callable[[], State]) -> None:
        self.moment = moment
        self.suffix = suffix
        self.state = state


class Result:
    """The result of a command: one document, and further data for its renderers.

    Attributes
    ----------
    status:
        The exit status, unless a signal ended the work early.
    interrupted:
        Whether a signal ended the work early.
    executable:
        Whether ``-X`` may execute the result.
    finite:
        Whether no number of the document can be infinite, so that a faster writer may be used.
    remarks:
        Remarks, reported on stderr first.
    problems:
        Messages about problems, reported on stderr last.
    before, after:
        The states to show before and after the document is written.
    """

    finite = False
    interrupted = False
    executable = True
    before: Iterable[ShownState] = ()
    after: Iterable[ShownState] = ()

    def __init__(
        self, document: Json | None = None, facts: Json | None = None, status: int = 0
    ) -> None:
        self._document: Json = {} if document is None else document
        self._facts: Json = {} if facts is None else facts
        self.status = status
        self.remarks: Iterable[str] = ()
        self.problems: list[str] = []

    def complete(self) -> bool:
        """Complete the result, for example verify a plan; return whether it may be shown."""
        return True

    def document(self) -> Json:
        """Return the result as plain data, for the renderers."""
        return self._document

    def json(self) -> Json:
        """Return the document for ``--json``, which can differ from that for the renderers."""
        return self.document()

    def facts(self, medium: str) -> Json:
        """Return the facts that the renderer for `TEXT` or `PAGE` adds to the document."""
        return self._facts

    def machine_lines(self) -> Iterable[str]:
        """Return lines for programs: ``KEY=value`` as of htools, or the line that Nagios reads."""
        raise NotImplementedError

    def metrics(self) -> list[Json]:
        """Return the metrics of the result, for ``--metrics``."""
        raise NotImplementedError

    def transition(self) -> Json:
        """Return the transition of the result as plain data, for a drawing or an execution."""
        transition: Json = self.json()["transition"]
        return transition

    def script(self) -> list[str]:
        """Return the shell commands that execute the result."""
        raise NotImplementedError


class Command:
    """One run of a command: its options, and the data that were read.

    Attributes
    ----------
    row:
        The row of the command in the table.
    request:
        The request that was read.
    source:
        The cluster that was read, and what its source reports in addition.
    cluster:
        The cluster that was read; None if the command reads none.
    time:
        The time at which the data were read, as text for documents.
    arguments:
        The command line, the name of the command among them.
    effective:
        The settings of the command line and the configuration file, completed from tags.
    warnings:
        Messages about invalid settings in tags.
    partial:
        The result to show if a signal ends a command that reads its input itself.
    follower:
        Function that makes the object to call as the jobs of an execution proceed; None for none.
    broken_promises:
        Function that returns the purposes that a verified plan does not fulfil.
    hindrance:
        Function that returns why ``-X`` must not execute a plan that breaks no limit; "" if it may.
    words:
        The words of the command line that are not names of files.
    dead:
        The names of nodes that are known to be dead, so that they need not report data.
    """

    request: Request | None = None
    source: Source
    cluster: Cluster | None = None
    effective: Settings
    settings: Any
    partial: Result | None = None
    follower: Followed | None = None

    def __init__(self, name: str, row: Row, settings: Settings, positional: Sequence[str]) -> None:
        self.name = name
        self.row = row
        self.settings = settings
        self.positional = positional
        self.words: Sequence[str] = ()
        self.dead: Collection[str] = ()
        self.warnings: list[str] = []
        self.broken_promises: Callable[[], list[str]] = list
        self.hindrance: Callable[[], str] = str
        self.arguments: Sequence[str] = ()
        self.time = time_of_reading()
        self._request_document: Any = None

    def read(self) -> Source:
        """Read the cluster; with ``-v`` report on stderr what was read.

        A command with the option ``--request`` can read the cluster from another source than the
        file. Then, without that option, the file contains only the request.

        Raises
        ------
        UsageError, RequestError
            If the source cannot be read, or the document is invalid.
        """
        settings = self.settings
        if getattr(settings, "request", None) == "" and settings.names_another_cluster:
            path = document_path(settings, self.positional)
            raw = read_file(path, settings.max_input)
            if not raw.strip():
                raise UsageError(
                    f"{self.name} needs a request: a document with one, in FILE or piped in"
                )
            with InFile(path):
                self._request_document = decode(raw)
            self.positional, settings.ialloc_src = [], ""
        elif not (self.positional or settings.ialloc_src or settings.names_another_cluster):
            given_file = next(filter(isfile, self.words), "")
            if given_file:
                raise UsageError(
                    f"{given_file} is read as the name that {self.name} needs: name FILE after it"
                )
        try:
            source = load(settings, self.positional, Reading.of(settings))
        except IallocatorError as error:
            if not settings.rapi or getattr(settings, "master_node", None) != "":
                raise
            hint = "--master is the address of RAPI, the master node is --master-node"
            raise UsageError(f"{error}; {hint}") from None
        Running.has_read()
        self.cluster, self.time = source.cluster, time_of_reading()
        if settings.verbose:
            tell(summary(source.cluster))
        if source.cluster.assumed_offline:
            from iallocator.sources.live.load import warnings_of_silent_nodes

            tell(*warnings_of_silent_nodes(source.cluster))
        return source

    def adjust(self, source: Source) -> None:
        """Apply options to the cluster before planning, for example ``--offline``.

        Raises
        ------
        UsageError
            If ``--racks`` asks for failure domains, and no node is in one.
        """
        settings = self.settings
        if getattr(settings, "undo", ""):
            return
        if getattr(settings, "racks", False) and not any(
            node.locations for node in source.cluster.nodes
        ):
            raise UsageError(
                "--racks: no node is in a failure domain (cluster tag htools:nlocation:PREFIX, "
                "node tag PREFIX:NAME)"
            )
        if SETS_OFFLINE in self.row.traits:
            set_offline(source.cluster, settings.offline)
        if getattr(settings, "dynu_file", "") and not settings.ignore_dynu:
            _take_loads(source.cluster, settings.dynu_file, settings.max_input)

    def asked(self, source: Source) -> Mapping[str, Any]:
        """Read the request from `source` or from ``--request``; return the settings in it.

        Raises
        ------
        UsageError
            If a command with the option ``--request`` has no request.
        """
        if not self.row.request:
            return {}
        words = getattr(self.settings, "request", None)  # None: the command has no such option
        document = self._request_document or source.document
        if words:
            from iallocator.commands.questions import request_in_words

            document = {"request": request_in_words(words, source)}
        self.request = request_in(document, source.cluster, self.settings)
        group: str = getattr(self.settings, "group", "")
        if group and document is not None and self.request is not None:
            from iallocator.commands.questions import in_group

            request = in_group(document["request"], source.cluster, self.settings)
            document = {**document, "request": request}
            self.request = request_in(document, source.cluster, self.settings)
        if self.request is None and words is not None:
            raise UsageError(f"{self.name} needs a document with a request, or --request WORDS")
        return self.request.asked if self.request else {}

    def versioned(self, document: Json) -> Json:
        """Return `document` as ``--json`` writes it: after keys about its origin, such as the time.

        With ``--json=1``, these keys are absent, and the others are those of version 0.1.
        """
        from iallocator.documents.keys import DOCUMENT_VERSION, KEYS, enveloped, with_old_keys

        settings = self.settings
        kind = self.name if self.name in KEYS else self.row.document
        if settings.json < DOCUMENT_VERSION:
            return with_old_keys(kind, document)
        envelope: Json = {"command": self.name, "version": DOCUMENT_VERSION}
        if self.cluster is not None:
            envelope["cluster"] = self.cluster.name
        elif "execution" in document:
            envelope["cluster"] = document["execution"]["cluster"]
        resumed = "" if self.cluster is not None else getattr(settings, "resume", "")
        envelope["source"] = resumed or source_name(settings, self.positional)
        envelope["time"] = self.time
        return enveloped(kind, document, envelope)

    def measured(self, metrics: list[Json]) -> list[Json]:
        """Return the metrics of the cluster's source and of the run time, followed by `metrics`.

        The run time is 0 seconds if the clock is frozen.
        """
        from iallocator.documents.metrics import source_metrics

        assert self.cluster is not None
        began = Running.began
        timed = began is not None and FROZEN not in environ
        seconds = monotonic() - began if timed and began is not None else 0.0
        return [*source_metrics(self.name, self.cluster.name, self.time, seconds), *metrics]

    @property
    def master(self) -> str:
        """Return the name of the first master node; "" if it is unknown."""
        return next(iter(self.masters), "")

    @property
    def masters(self) -> tuple[str, ...]:
        """Return the names of the master nodes: the one that an option names, or all known ones."""
        named = getattr(self.settings, "master_node", "")
        return (named,) if named else self.source.masters


def print_json(document: object, finite: bool = False) -> None:
    """Print a document for programs, with one member per line.

    `finite`: no number of the document can be infinite, so that a faster writer is used.
    """
    text = pretty_bytes(document, finite)
    if text.isascii():  # ASCII needs no encoding: write large documents at once
        sys.stdout.flush()
        sys.stdout.buffer.writelines((text, b"\n"))
    else:
        print(text.decode())


def reject_silent_nodes(cluster: Cluster, settings: Execution, dead: Collection[str] = ()) -> None:
    """Reject a change of `cluster` if nodes are only assumed to be offline.

    The instances of such nodes may be running. Nodes that are known to be `dead` are accepted, and
    are removed from the list of such nodes.

    Raises
    ------
    LiveError
        If there are such nodes, and the change is executed without ``--assume-offline``.
    """
    cluster.assumed_offline = [name for name in cluster.assumed_offline if name not in dead]
    if not (settings.execute and cluster.assumed_offline) or settings.assume_offline:
        return
    from iallocator.sources.live.load import reject_silence

    reject_silence(cluster, "--assume-offline")


def enforced_relations(
    cluster: Cluster, settings: Settings, new: Sequence[Instance] = (), optional: bool = False
) -> Relations | None:
    """Return the constraints between instances, `new` ones included; None if none is enforced.

    `optional`: moves are optional, so that the stickiness of instances counts.
    """
    if not settings.behaviour.knows_affinity:
        return None
    return relations_of(cluster, new, settings.tag_prefix, settings, optional)


def _take_loads(cluster: Cluster, path: str, limit: int) -> None:
    """Give the instances of `cluster` the dynamic utilisation in a file of at most `limit` bytes.

    Raises
    ------
    UsageError
        If the file cannot be read.
    NotFoundError
        For a short name that may be several instances.
    """
    # Read the lines: an instance and four numbers, as of hbal
    loads: dict[str, Load] = {}
    lines = read_file(path, limit).decode("utf-8", "replace").splitlines()
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if not words:
            continue
        try:
            name, cpu, memory, disk, net = words
            loads[name] = _load(cpu), _load(memory), _load(disk), _load(net)
        except ValueError:
            raise UsageError(
                f"{path}: line {number}: expected an instance and four numbers from 0 to "
                f"{LARGEST_LOAD:g}, got {line!r}"
            ) from None

    # Find the instances, by whole names first, and leave out those that are unknown
    names = [instance.name for instance in cluster.instances]
    known, short = set(names), short_names(names)
    unknown = [name for name in loads if name not in known and name not in short]
    if unknown:
        more = ", ..." if len(unknown) > 1 else ""
        tell(f"{path}: {len(unknown)} unknown: {cut(unknown[0])}{more}; left out")
    known_loads = {name: load for name, load in loads.items() if name in known}
    for word, load_of in loads.items():
        if word not in known and word in short:
            known_loads.setdefault(whole_name(word, short[word], path, "instance"), load_of)
    set_loads(cluster, known_loads)


def _load(text: str) -> float:
    value = float(text)
    if not (0 <= value <= LARGEST_LOAD and text.isascii() and "_" not in text):
        raise ValueError(text)
    return value


def time_of_reading() -> str:
    """Return the present time as text for documents; the environment can set it.

    Raises
    ------
    UsageError
        If ``SOURCE_DATE_EPOCH`` is not a number of seconds.
    """
    frozen = environ.get(FROZEN)
    try:
        moment = time() if frozen is None else int(frozen)
        return strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(moment))
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"{FROZEN}: expected seconds since 1970, got {frozen!r}") from None
