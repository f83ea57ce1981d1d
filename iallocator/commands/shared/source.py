"""What a command that reads one document begins with: the cluster, and what was read."""

from __future__ import annotations

from iallocator.deadline import Running
from iallocator.engine import effective_settings, reading_for, summary
from iallocator.errors import tell
from iallocator.sources import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.options.settings import Settings
    from iallocator.sources import Source

__all__ = ["completed_settings", "load_source", "measure"]


def load_source(settings: Settings, positional: Sequence[str]) -> Source:
    """The cluster that a command is to work on; with ``-v`` what was read is said on stderr.

    Raises
    ------
    UsageError, RequestError
        As `iallocator.sources.load`.
    """
    source = load(settings, positional, reading_for(settings))
    Running.has_read()
    if settings.verbose:
        tell(summary(source.cluster))
    if source.cluster.assumed_offline:
        from iallocator.sources.live.load import silence_warnings

        tell(*silence_warnings(source.cluster))
    return source


def measure(source: Source, settings: Settings) -> None:
    """Let what monitoring daemons say count, more than what a file says of dynamic utilisation.

    Raises
    ------
    IallocatorError
        As `iallocator.sources.live.measured.add_measured`.
    """
    if not (settings.measures or settings.mond_xen or settings.exit_on_missing_mond_data):
        return
    from iallocator.sources.live.measured import add_measured

    tell(*add_measured(source.cluster, settings))


def completed_settings(settings: Settings, source: Source) -> Settings:
    """The settings, completed from tags of the cluster and its groups; complaints on stderr."""
    remarks: list[str] = []
    whole = effective_settings(source.cluster, {}, settings, remarks)
    tell(*remarks)
    return whole
