"""``iallocator report``: a cluster as it is, as a page for a browser.

Exit status 0, whatever is wrong with the cluster: the page says so.
"""

from __future__ import annotations

from iallocator.commands.shared.plan_output import check_outputs, write_html
from iallocator.commands.shared.source import load_source, measure
from iallocator.constraints.affinity_factory import relations_of
from iallocator.deadline import Deadline, limit_reached
from iallocator.errors import tell
from iallocator.files import WholeOutput
from iallocator.model.state import State
from iallocator.options import settings as options
from iallocator.options.table import Option
from iallocator.planners.eligible import set_offline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.render.page.view import PageView
    from iallocator.sources import Source

__all__ = ["OPTIONS", "USAGE", "Settings", "run"]

USAGE = "[OPTIONS] [FILE]"


class Settings(options.Settings):
    """What is reported, and where to."""

    html: str = "-"
    offline: Sequence[str] = ()


OPTIONS = (
    Option("--html", "html", "write the page to this file (default: stdout)", str, "FILE"),
    Option("--offline -O", "offline", "treat this node as offline; may repeat", str, "NODE",
           repeats=True),
)  # fmt: skip


def run(settings: Settings, positional: Sequence[str]) -> int:
    """Report on the cluster in the file (- or none: stdin), or elsewhere."""
    check_outputs(settings)
    source = load_source(settings, positional)
    set_offline(source.cluster, settings.offline)
    measure(source, settings)
    with WholeOutput():
        write_html(settings.html, lambda: _page(source, settings))
    return 0


def _page(source: Source, settings: Settings) -> PageView:
    from iallocator.render.page.check_page import report_page
    from iallocator.render.page.standing import Judging

    relations = relations_of(source.cluster, (), settings.tag_prefix)
    deadline = Deadline.of_run(settings.planning_seconds)
    judging = Judging(settings.n1, relations=relations, over=deadline.over)
    page = report_page(State(source.cluster), judging, source.master)
    if deadline.over():
        tell(f"iallocator: {limit_reached(settings.planning_seconds)}")
    return page
