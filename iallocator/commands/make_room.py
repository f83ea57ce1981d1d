"""The command ``make-room``."""

from __future__ import annotations

from iallocator.commands.planning import PLAN_OPTIONS, PlanCommand, PlanSettings
from iallocator.errors import UsageError
from iallocator.options.table import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from iallocator.deadline import Deadline
    from iallocator.options.settings import Settings as Common
    from iallocator.planners.result import PlanResult
    from iallocator.requests import Request
    from iallocator.sources import Source

__all__ = ["MakeRoom"]


class Settings(PlanSettings):
    """The settings of this command."""

    make_room: int = 3
    request: str = ""


OPTIONS = (
    Option("--request", "request",
           "for this instead of the request in FILE: 'allocate --memory 4G ...', as for ask",
           str, "WORDS"),
    *PLAN_OPTIONS,
)  # fmt: skip


class MakeRoom(PlanCommand):
    """``iallocator make-room``: the few moves of others after which a request can be satisfied.

    Exit status 0: there are such moves, or none are needed; 1: there are none, or the plan failed
    the check that every plan goes through before it is printed; stderr says which limits it breaks.
    """

    options = OPTIONS
    settings_type = Settings
    suffix = "roomy"
    settings: Settings
    _document: Any = None
    _request: Request

    def check(self) -> None:
        """Reject a search for no move at all."""
        settings = self.settings
        if not (settings.make_room or settings.asks_here("make_room")):
            settings.make_room = Settings.make_room  # 0 at the top of a file is about requests
        if not settings.make_room:
            raise UsageError("make-room needs at least one move: --make-room N")
        super().check()

    def read(self) -> Source:
        """Read the cluster; if it comes from elsewhere, the file has only the request."""
        settings = self.settings
        if settings.names_another_cluster and not settings.request:
            from iallocator.files import read_file
            from iallocator.sources import document_path
            from iallocator.wire.codec import decode

            path = document_path(settings, self.positional)
            raw = read_file(path, settings.max_input)
            if not raw.strip():
                raise UsageError(
                    "make-room needs a request: a document with one, in FILE or piped in"
                )
            self._document = decode(raw)
            self.positional, settings.ialloc_src = [], ""
        return super().read()

    def asked(self, source: Source) -> Mapping[str, Any]:
        """Return the settings of the request."""
        from iallocator.engine import request_in

        document = self._document or source.document
        if self.settings.request:
            from iallocator.commands.questions import request_in_words

            document = {"request": request_in_words(self.settings.request, source)}
        request = request_in(document, source.cluster, self.settings)
        if request is None:
            raise UsageError("make-room needs a document with a request, or --request WORDS")
        self._request = request
        return request.asked

    def planner(self, source: Source, settings: Common, deadline: Deadline) -> PlanResult:
        """Look for the moves."""
        from iallocator.planners.make_room.make_room import make_room

        most = settings.make_room
        coming = self._request.coming
        done = make_room(source.cluster, self._request, settings, deadline, coming, most)
        done.plan.reason = done.summary(most)
        return done

    def broken_promises(self, done: PlanResult) -> list[str]:
        """Return whether the request does not fit in the end, asked again."""
        from iallocator.planners.make_room.make_room import RoomMade, fits_after

        assert isinstance(done, RoomMade)
        coming = self._request.coming
        if not done.moves or fits_after(done, self._request, self.effective, coming):
            return []
        return ["the request does not fit after the moves"]

    def incomplete(self, done: PlanResult) -> bool:
        """Return whether moves are needed and none were found."""
        from iallocator.planners.make_room.make_room import RoomMade

        assert isinstance(done, RoomMade)
        return done.needed and not done.moves
