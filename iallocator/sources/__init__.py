"""Where the state of a cluster comes from, for planning and dry runs.

======================  =============================================================
a file, ``-``, nothing  a captured request document, compressed or not
``-t FILE``             htools' text format
``--simulate SPEC``     an empty cluster made up on the spot
======================  =============================================================

Nothing here is loaded unless it is asked for.
"""

from __future__ import annotations

from iallocator.errors import UsageError
from iallocator.files import read_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.policy import Policy
    from iallocator.options import Settings
    from iallocator.sources.text import TextCluster
    from iallocator.wire.document import Reading
    from iallocator.wire.fields import Raw

__all__ = ["Source", "load", "substitute"]


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


def load(settings: Settings, positional: Sequence[str], reading: Reading) -> Source:
    """The cluster that a planning command is to work on.

    Raises
    ------
    UsageError
        If more than one source is named, or it cannot be read.
    RequestError
        If it is not understood.
    """
    given = substitute(settings, reading)
    if len(positional) + (given is not None) > 1:
        raise UsageError(
            "one cluster at most: a file, --text-data or --simulate, got "
            + " ".join([*positional, *_named(settings)])
        )
    if given is not None:
        return Source(given.cluster, given.policy, given.master)
    return _document(read_file(positional[0] if positional else "-"), reading)


def substitute(settings: Settings, reading: Reading) -> TextCluster | None:
    """The cluster that ``-t`` or ``--simulate`` put in the place of the document's."""
    if settings.text_data and settings.simulate:
        raise UsageError("--text-data and --simulate exclude each other")
    if settings.text_data:
        from iallocator.sources.text import read_text

        return read_text(read_file(settings.text_data), settings.text_data, reading)
    if settings.simulate:
        from iallocator.sources.simulate import simulate

        return simulate(settings.simulate, reading)
    return None


def _named(settings: Settings) -> list[str]:
    """The source options that were given, as on the command line."""
    text = [f"--text-data {settings.text_data}"] if settings.text_data else []
    return [*text, *(f"--simulate {spec}" for spec in settings.simulate)]


def _document(raw: bytes, reading: Reading) -> Source:
    from iallocator.wire.document import cluster_policy, read_cluster
    from iallocator.wire.read import decode

    document = decode(raw)
    return Source(read_cluster(document, reading), cluster_policy(document), "", document)
