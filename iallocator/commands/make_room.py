"""The command ``make-room``."""

from __future__ import annotations

from iallocator.commands.planning import PlanCommand
from iallocator.commands.questions import request_in_words
from iallocator.engine import request_in
from iallocator.errors import UsageError
from iallocator.files import read_file
from iallocator.planners.make_room.make_room import fits_after, make_room
from iallocator.sources import document_path
from iallocator.wire.codec import decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from iallocator.deadline import Deadline
    from iallocator.options.settings import Settings
    from iallocator.planners.result import PlanResult
    from iallocator.sources import Source

__all__ = ["MakeRoom"]


class MakeRoom(PlanCommand):
    """Plans the few moves of other instances after which a request can be satisfied."""

    suffixes = ("original", "roomy")
    _document: Any = None

    def read(self) -> Source:
        """Read the cluster; if it comes from elsewhere, the file has only the request."""
        settings = self.settings
        if settings.names_another_cluster and not settings.request:
            raw = read_file(document_path(settings, self.positional), settings.max_input)
            if not raw.strip():
                raise UsageError(
                    "make-room needs a request: a document with one, in FILE or piped in"
                )
            self._document = decode(raw)
            self.positional, settings.ialloc_src = [], ""
        return super().read()

    def asked(self, source: Source) -> Mapping[str, Any]:
        """Return the settings of the request."""
        document = self._document or source.document
        if self.settings.request:
            document = {"request": request_in_words(self.settings.request, source)}
        self.request = request_in(document, source.cluster, self.settings)
        if self.request is None:
            raise UsageError("make-room needs a document with a request, or --request WORDS")
        return self.request.asked

    def planner(self, source: Source, settings: Settings, deadline: Deadline) -> PlanResult:
        """Look for the moves."""
        assert self.request is not None
        most, coming = settings.make_room, self.request.coming
        done = make_room(source.cluster, self.request, settings, deadline, coming, most)
        done.plan.reason = done.summary(most)
        return done

    def broken_promises(self, done: PlanResult) -> list[str]:
        """Return whether the request does not fit in the end, asked again."""
        assert self.request is not None
        if not done.moves or fits_after(done, self.request, self.effective, self.request.coming):
            return []
        return ["the request does not fit after the moves"]
