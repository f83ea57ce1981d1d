"""Where the state of a cluster comes from, for planning and dry runs.

======================  =============================================================
a file, ``-``, nothing  a captured request document, compressed or not
``-t FILE``             htools' text format
``-L``                  a running cluster, asked on its master through LUXI
``-m ADDRESS``          a running cluster, asked through RAPI; or what it once answered
``--simulate SPEC``     an empty cluster made up on the spot
======================  =============================================================

Nothing here is loaded unless it is asked for.
"""

from __future__ import annotations

import sys

from iallocator.calls.layout import request_path
from iallocator.errors import UsageError
from iallocator.files import read_file
from iallocator.wire.codec import decode
from iallocator.wire.document import cluster_policy, read_cluster

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.policy import Policy
    from iallocator.options.settings import Settings
    from iallocator.sources.text import TextCluster
    from iallocator.wire.fields import Raw
    from iallocator.wire.reading import Reading

__all__ = ["Source", "document_path", "load", "named", "substitute"]


class Source:
    """A cluster, and what its source knows beyond it.

    Attributes
    ----------
    policy:
        The policy of the whole cluster.
    master:
        The name of the master node; "" if the source does not say.
    document:
        The captured document itself, if it comes from one; its request is not looked at.
        Of a running cluster what Ganeti would write, without a request.
    """

    __slots__ = ("cluster", "document", "master", "policy")

    def __init__(
        self,
        cluster: Cluster,
        policy: Policy,
        master: str = "",
        document: Raw | None = None,
    ) -> None:
        self.cluster = cluster
        self.policy = policy
        self.master = master
        self.document = document


def load(
    settings: Settings, positional: Sequence[str], reading: Reading, in_run: bool = True
) -> Source:
    """The cluster that a planning command is to work on.

    `in_run`: whether the time limit of the run counts for reading a running cluster.  It does
    not while a plan is carried out.

    Raises
    ------
    UsageError
        If more than one source is named, or it cannot be read.
    RequestError
        If it is not understood.
    """
    path = document_path(settings, positional, bool(named(settings)))
    return substitute(settings, reading, in_run) or _document(
        read_file(path, settings.max_input), reading
    )


def document_path(settings: Settings, positional: Sequence[str], elsewhere: bool = False) -> str:
    """The file with the document, that of ``FOLDER#7`` too; "" if it comes from `elsewhere`.

    Raises
    ------
    UsageError
        If there is more than one source, or no such call.
    """
    files = [*positional, *([settings.ialloc_src] if settings.ialloc_src else [])]
    if len(files) + elsewhere > 1:
        given = [*positional, *_words(settings, "ialloc_src"), *named(settings)]
        raise UsageError(
            "one cluster at most: a file, --text-data, --luxi, --rapi or --simulate, got "
            + " ".join(given)
        )
    return "" if elsewhere else request_path(files[0] if files else _piped())


def _piped() -> str:
    """The file that nobody named: what is piped in; from a terminal nothing is."""
    if sys.stdin is not None and sys.stdin.isatty():
        raise UsageError(
            "no file is given and nothing is piped in; usage: iallocator COMMAND [OPTIONS] FILE "
            "(- for the terminal), iallocator help COMMAND"
        )
    return "-"


def substitute(settings: Settings, reading: Reading, in_run: bool = True) -> Source | None:
    """The cluster that an option puts in the place of the document's; None if none does.

    `in_run`: as of `load`.

    Raises
    ------
    UsageError
        If more than one does, or options say how to reach a cluster that is not asked.
    """
    given = named(settings)
    if len({word.partition("=")[0] for word in given}) > 1:
        raise UsageError(f"one cluster at most, got {' '.join(given)}")
    # An option for servers that are not asked would do nothing
    asked = settings.rapi and not settings.rapi.startswith("file:")
    idle = [name for name in ("cacert", "insecure", "credentials") if getattr(settings, name)]
    if idle and not asked:
        raise UsageError(f"--{idle[0]} is for a cluster that is asked with -m HOST")
    if "read_timeout" in settings.chosen and not settings.asks_servers:
        raise UsageError("--read-timeout is for a cluster that is asked: -L, -m HOST or --mond")
    if settings.text_data:
        from iallocator.sources.text import read_text

        raw = read_file(settings.text_data, settings.max_input)
        return _source(read_text(raw, settings.text_data, reading))
    if settings.simulate:
        from iallocator.sources.simulate import simulate

        return _source(simulate(settings.simulate, reading))
    if settings.luxi is not None or settings.rapi:
        from iallocator.sources.live.load import read_live

        cluster, policy, master, document = read_live(settings, reading, in_run)
        return Source(cluster, policy, master, document)
    return None


def _source(given: TextCluster) -> Source:
    return Source(given.cluster, given.policy, given.master)


def named(settings: Settings) -> list[str]:
    """The options that name a cluster, as on the command line."""
    given = [*_words(settings, "text_data"), *_words(settings, "rapi")]
    if settings.luxi is not None:
        given.append(f"--luxi={settings.luxi}" if settings.luxi else "--luxi")
    return [*given, *(f"--simulate={spec}" for spec in settings.simulate)]


def _words(settings: Settings, target: str) -> list[str]:
    """The option that sets `target`, with its value, if it was given."""
    value = getattr(settings, target)
    return [f"--{target.replace('_', '-')}={value}"] if value else []


def _document(raw: bytes, reading: Reading) -> Source:

    document = decode(raw)
    return Source(read_cluster(document, reading), cluster_policy(document), "", document)
