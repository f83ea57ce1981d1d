"""Load the state of a cluster from its source, for planning and dry runs.

======================  =============================================================
a file, ``-``, nothing  a captured request document, compressed or not
``-t FILE``             htools' text format
``-L``                  a running cluster, through LUXI on its master
``-m ADDRESS``          a running cluster, through RAPI; or a folder with its answers
``--simulate SPEC``     an empty simulated cluster
======================  =============================================================

Each source is loaded only if it is requested.
"""

from __future__ import annotations

import sys

from iallocator.errors import STDIN, InFile, UsageError
from iallocator.files import read_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.policy import Policy
    from iallocator.model.state import State
    from iallocator.options.settings import Settings
    from iallocator.sources.text import TextCluster
    from iallocator.wire.fields import Raw
    from iallocator.wire.reading import Reading

__all__ = [
    "Source", "document_path", "load", "named", "read_document", "source_name",
    "source_of_document", "source_of_text", "substitute",
]  # fmt: skip

NO_CLUSTER = (
    "no cluster is given: expected FILE (- for stdin), -t FILE, -L, -m ADDRESS or --simulate SPEC; "
    "iallocator help COMMAND lists them"
)


class Source:
    """A cluster, and what its source reports in addition.

    Attributes
    ----------
    policy:
        The policy of the whole cluster.
    masters:
        The names of the master nodes. Usually, there is one. Sources that do not report it have
        none; text files that combine several clusters can have several.
    document:
        The captured document, if the cluster comes from one; its request is ignored. For a running
        cluster, the document that Ganeti would write, without a request.
    state:
        The placement of all instances, if it has been computed already; else None.
    """

    __slots__ = ("cluster", "document", "masters", "policy", "state")

    def __init__(
        self,
        cluster: Cluster,
        policy: Policy,
        masters: tuple[str, ...] = (),
        document: Raw | None = None,
    ) -> None:
        self.cluster = cluster
        self.policy = policy
        self.masters = masters
        self.document = document
        self.state: State | None = None

    @property
    def master(self) -> str:
        """Return the name of the first master node; "" if there is none."""
        return next(iter(self.masters), "")


def load(
    settings: Settings, positional: Sequence[str], reading: Reading, in_run: bool = True
) -> Source:
    """Return the cluster for a planning command.

    `in_run`: whether the time limit of the run includes reading a running cluster. It is false
    while a plan is executed.

    Raises
    ------
    UsageError
        If more than one source is named, or the source cannot be read.
    RequestError
        If the document is invalid.
    """
    path = document_path(settings, positional, bool(named(settings)))
    other = substitute(settings, reading, in_run)
    if other is not None:
        return other
    return source_of_document(read_document(settings, path), path, reading)


def source_of_document(raw: bytes, path: str, reading: Reading) -> Source:
    """Return the cluster in `raw`, the content of the document at `path`.

    Raises
    ------
    RequestError
        If the document is invalid.
    """
    from iallocator.wire.codec import decode
    from iallocator.wire.document import cluster_policy, read_cluster

    with InFile(path):
        document = decode(raw)
        return Source(read_cluster(document, reading), cluster_policy(document), (), document)


def document_path(settings: Settings, positional: Sequence[str], elsewhere: bool = False) -> str:
    """Return the path of the request document; "" if the cluster is from `elsewhere`.

    A word ``FOLDER#7`` is the request of the captured call 7 in FOLDER.

    Raises
    ------
    UsageError
        If there is more than one source, or the call does not exist.
    """
    files = [*positional, *([settings.ialloc_src] if settings.ialloc_src else [])]
    if len(files) + elsewhere > 1:
        given = [*positional, *_words(settings, "ialloc_src"), *named(settings)]
        raise UsageError(
            "one cluster at most: a file, --text-data, --luxi, --rapi or --simulate, got "
            + " ".join(given)
        )
    if elsewhere:
        return ""
    if not files and sys.stdin is not None and sys.stdin.isatty():
        raise UsageError(NO_CLUSTER)
    from iallocator.calls.layout import request_path

    return request_path(files[0] if files else STDIN)


def read_document(settings: Settings, path: str) -> bytes:
    """Return the content of the document at `path`.

    Raises
    ------
    UsageError
        If the document cannot be read, or standard input has no content.
    """
    raw = read_file(path, settings.max_input)
    if path == STDIN and not raw.strip():
        raise UsageError(NO_CLUSTER)
    return raw


def substitute(settings: Settings, reading: Reading, in_run: bool = True) -> Source | None:
    """Return the cluster that an option names instead of the document; None without such an option.

    `in_run`: whether the time limit of the run includes reading a running cluster.

    Raises
    ------
    UsageError
        If several options name a cluster, or options for reaching a running cluster are given
        without one.
    """
    given = named(settings)
    if len({word.partition("=")[0] for word in given}) > 1:
        raise UsageError(f"one cluster at most, got {' '.join(given)}")
    # An option for servers would have no effect if no server is asked
    by_rapi = settings.rapi and not settings.rapi.startswith("file:")
    idle = [name for name in ("cacert", "insecure", "credentials") if getattr(settings, name)]
    if idle and not by_rapi:
        raise UsageError(f"--{idle[0]} needs -m HOST: it is about the connection to a cluster")
    if "read_timeout" in settings.chosen and not settings.asks_servers:
        raise UsageError("--read-timeout is for a cluster that is asked: -L, -m HOST or --mond")
    if "volume_groups" in settings.chosen and not settings.asks_running_cluster:
        raise UsageError("--volume-groups is for a running cluster: -L or -m HOST")
    if settings.text_data:
        return source_of_text(read_file(settings.text_data, settings.max_input), settings, reading)
    if settings.simulate:
        from iallocator.sources.simulate import simulate

        return _source(simulate(settings.simulate, reading))
    if settings.luxi is not None or settings.rapi:
        from iallocator.sources.live.load import read_live

        cluster, policy, master, document = read_live(settings, reading, in_run)
        return Source(cluster, policy, (master,) if master else (), document)
    return None


def source_of_text(raw: bytes, settings: Settings, reading: Reading) -> Source:
    """Return the cluster in `raw`, the content of the text file that `settings` names.

    Raises
    ------
    RequestError
        At the first invalid line; the error names the file and the line.
    """
    from iallocator.sources.text import read_text

    return _source(read_text(raw, settings.text_data, reading))


def _source(given: TextCluster) -> Source:
    return Source(given.cluster, given.policy, given.masters)


def named(settings: Settings) -> list[str]:
    """Return the options in `settings` that name a cluster, as on the command line."""
    given = [*_words(settings, "text_data"), *_words(settings, "rapi")]
    if settings.luxi is not None:
        given.append(f"--luxi={settings.luxi}" if settings.luxi else "--luxi")
    return [*given, *(f"--simulate={spec}" for spec in settings.simulate)]


def source_name(settings: Settings, positional: Sequence[str]) -> str:
    """Return the source of the cluster as in JSON documents: ``cluster.json`` or ``rapi:HOST``.

    `positional`: the words of the command line that are not options.
    """
    if settings.luxi is not None:
        return f"luxi:{settings.luxi}" if settings.luxi else "luxi"
    if settings.rapi:
        return f"rapi:{settings.rapi}"
    if settings.simulate:
        return f"simulate:{' '.join(settings.simulate)}"
    return settings.text_data or settings.ialloc_src or next(iter(positional), "-")


def _words(settings: Settings, target: str) -> list[str]:
    """Return the option that sets `target`, with its value, in a list; [] if it was not given."""
    value = getattr(settings, target)
    return [f"--{target.replace('_', '-')}={value}"] if value else []
