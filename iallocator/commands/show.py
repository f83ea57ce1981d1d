"""The commands that show a cluster as it is: ``show`` as text, ``report`` as a page."""

from __future__ import annotations

import sys

from iallocator.commands.command import Command, Result
from iallocator.constraints.affinity_factory import relations_of
from iallocator.deadline import Deadline, limit_reached
from iallocator.errors import tell
from iallocator.model.state import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.options.settings import Settings
    from iallocator.render.page.view import PageView
    from iallocator.sources import Source

__all__ = ["Report", "Show"]


class Show(Command):
    """Shows groups, networks, statistics, nodes, and instances."""

    sets_offline = True

    def plan(self, source: Source, settings: Settings, deadline: Deadline) -> Result:
        """Return what there is."""
        return Overview(source, self.settings)


class Overview(Result):
    """Groups, networks, statistics, nodes, and instances."""

    def __init__(self, source: Source, settings: Settings) -> None:
        from iallocator.commands.states import lists_of
        from iallocator.documents.overview import overview

        backwards = not settings.behaviour.orders_by_name
        super().__init__(overview(source, settings.print_nodes, backwards))
        self._lists = lists_of(State(source.cluster), settings, backwards)

    def text(self) -> str:
        """Return everything as text for people; nodes and instances if they are asked for."""
        from iallocator.render.overview import overview_page
        from iallocator.render.table import wants_colour

        lists = "".join(f"\n{text}\n" for text in self._lists)
        return overview_page(self._document, wants_colour(sys.stdout)) + lists


class Report(Command):
    """Shows a cluster as it is, as a page for a browser."""

    sets_offline = True

    def plan(self, source: Source, settings: Settings, deadline: Deadline) -> Result:
        """Return the page."""
        return Reported(source, settings)


class Reported(Result):
    """A cluster as it is, as a page."""

    def __init__(self, source: Source, settings: Settings) -> None:
        super().__init__()
        self._source = source
        self._settings = settings

    def text(self) -> str:
        """Return nothing: there is only a page."""
        return ""

    def page(self) -> PageView:
        """Return the page."""
        from iallocator.documents.moments import Examination, cluster_facts
        from iallocator.render.page.check_page import report_page

        source, settings = self._source, self._settings
        relations = relations_of(source.cluster, (), settings.tag_prefix)
        deadline = Deadline.of_run(settings.planning_seconds)
        how = Examination(settings.n1, relations=relations, deadline=deadline)
        page = report_page({
            **cluster_facts(State(source.cluster), how),
            "master": source.master,
        })  # fmt: skip
        if deadline.over():
            tell(f"iallocator: {limit_reached(settings.planning_seconds)}")
        return page
