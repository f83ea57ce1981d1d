"""``iallocator show``: a cluster as it is: groups, networks, statistics, nodes, instances."""

from __future__ import annotations

import sys

from iallocator.commands.shared.source import load_source, measure
from iallocator.files import WholeOutput
from iallocator.model.state import State
from iallocator.options import settings as options
from iallocator.options.table import Option
from iallocator.planners.eligible import set_offline
from iallocator.render.states.before_after import lists_of
from iallocator.render.table import wants_colour
from iallocator.wire.codec import pretty

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.sources import Source

__all__ = ["OPTIONS", "USAGE", "Settings", "run"]

USAGE = "[OPTIONS] [FILE]"


class Settings(options.Settings):
    """What is shown, and how."""

    json: bool = False
    offline: Sequence[str] = ()


OPTIONS = (
    Option("--json", "json", "write everything as one JSON document"),
    Option("--offline -O", "offline", "treat this node as offline; may repeat", str, "NODE",
           repeats=True),
)  # fmt: skip


def run(settings: Settings, positional: Sequence[str]) -> int:
    """Show the cluster in the file (- or none: stdin), or elsewhere."""
    source = load_source(settings, positional)
    set_offline(source.cluster, settings.offline)
    measure(source, settings)
    text = _json(source, settings) if settings.json else _page(source, settings)
    with WholeOutput():
        sys.stdout.write(text)
    return 0


def _json(source: Source, settings: Settings) -> str:
    from iallocator.render.overview import overview

    backwards = not settings.behaviour.orders_by_name
    return pretty(overview(source, settings.print_nodes, backwards)) + "\n"


def _page(source: Source, settings: Settings) -> str:
    """Everything for a person; nodes and instances where they are asked for."""
    from iallocator.render.overview import overview, overview_page

    document = overview(source, settings.print_nodes, not settings.behaviour.orders_by_name)
    lists = lists_of(State(source.cluster), settings, not settings.behaviour.orders_by_name)
    return overview_page(document, wants_colour(sys.stdout)) + "".join(
        f"\n{text}\n" for text in lists
    )
