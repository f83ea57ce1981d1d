"""``iallocator make-room``: the few moves of others after which a request can be satisfied.

Exit status 0: there are such moves, or none are needed; 1: there are none, or the plan failed
the check that every plan goes through before it is printed; stderr says which limits it breaks.
"""

from __future__ import annotations

from iallocator.commands.shared import run_plan
from iallocator.commands.shared.questions import request_in_words
from iallocator.engine import request_in
from iallocator.errors import UsageError
from iallocator.files import read_file
from iallocator.options.table import Option
from iallocator.planners.make_room.make_room import RoomMade, fits_after
from iallocator.sources import document_path
from iallocator.wire.codec import decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from iallocator.deadline import Deadline
    from iallocator.options import settings as options
    from iallocator.planners.result import PlanResult
    from iallocator.requests import Request
    from iallocator.sources import Source

__all__ = ["OPTIONS", "USAGE", "Settings", "run"]

USAGE = "[OPTIONS] [FILE]"

OPTIONS = (
    Option("--request", "request",
           "for this instead of the request in FILE: 'allocate --memory 4G ...', as for ask",
           str, "WORDS"),
    *run_plan.OPTIONS,
)  # fmt: skip


class Settings(run_plan.Settings):
    """The settings of every command that plans; some moves are looked for."""

    make_room: int = 3
    request: str = ""


class _MakingRoom(run_plan.Planner):
    """Makes room for the request of the document."""

    command = "make-room"
    suffix = "roomy"

    def __init__(self, settings: Settings, document: Any = None) -> None:
        self._settings = settings
        self._document = document
        self._request: Request | None = None
        self.in_vain = False

    def asked(self, source: Source) -> Mapping[str, Any]:
        """What the request asks for."""
        document = self._document or source.document
        if self._settings.request:
            document = {"request": request_in_words(self._settings.request, source)}
        self._request = request_in(document, source.cluster, self._settings)
        if self._request is None:
            raise UsageError("make-room needs a document with a request, or --request WORDS")
        return self._request.asked

    def plan(self, source: Source, settings: options.Settings, deadline: Deadline) -> PlanResult:
        """Look for the moves."""
        from iallocator.planners.make_room.make_room import make_room

        assert self._request is not None
        most = settings.make_room
        coming = self._request.coming
        done = make_room(source.cluster, self._request, settings, deadline, coming, most)
        done.plan.reason = done.summary(most)
        self.in_vain = done.needed and not done.moves
        return done

    def broken_promises(
        self, source: Source, settings: options.Settings, done: PlanResult
    ) -> list[str]:
        """That the request fits in the end, asked again."""
        assert isinstance(done, RoomMade)
        assert self._request is not None
        coming = self._request.coming
        if not done.moves or fits_after(done, self._request, settings, coming):
            return []
        return ["the request does not fit after the moves"]


def run(settings: Settings, positional: Sequence[str]) -> int:
    """Make room for the request in the file (- or none: stdin), print the plan.

    Where the cluster comes from elsewhere, only the request is the file's; `--request` says it
    in words.
    """
    if not (settings.make_room or settings.asks_here("make_room")):
        settings.make_room = Settings.make_room  # 0 at the top of a file is about requests
    if not settings.make_room:
        raise UsageError("make-room needs at least one move: --make-room N")
    document = None
    goes_by_journal = settings.resume or settings.undo
    if settings.names_another_cluster and not settings.request and not goes_by_journal:
        raw = read_file(document_path(settings, positional), settings.max_input)
        if not raw.strip():
            raise UsageError("make-room needs a request: a document with one, in FILE or piped in")
        document = decode(raw)
        positional, settings.ialloc_src = [], ""
    planner = _MakingRoom(settings, document)
    status = run_plan.run_planner(settings, positional, planner)
    return status or int(planner.in_vain)
