"""Store snapshots of tests beside their case in ``fixtures``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from syrupy.data import SnapshotCollections
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from syrupy.location import PyTestLocation
from syrupy.types import SnapshotIndex

from iallocator.commands.replay import stored_commands
from iallocator.replay.cases import Case, find_cases
from iallocator.replay.run import HTOOLS
from tests.paths import FIXTURES


class Beside(SingleFileSnapshotExtension):
    """A text file in the folder of a case, which is the test's parameter ``case``.

    The folder has other files, too, so `discover_snapshots` reports none of them as unused.
    """

    _write_mode = WriteMode.TEXT
    stem = ""

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        item: Any = test_location.item
        return str(item.callspec.params["case"])

    @classmethod
    def discovery_dirname(cls, *, test_location: PyTestLocation) -> str:
        return str(FIXTURES)

    @classmethod
    def get_file_basename(cls, *, test_location: PyTestLocation, index: SnapshotIndex) -> str:
        return cls.stem

    @classmethod
    def matches_test_location(
        cls, *, test_location: PyTestLocation, snapshot_location: str
    ) -> bool:
        return Path(snapshot_location).parent == Path(cls.dirname(test_location=test_location))

    def discover_snapshots(
        self, *, test_location: PyTestLocation, ignore_extensions: list[str] | None = None
    ) -> SnapshotCollections:
        return SnapshotCollections()


class Response(Beside):
    """The file ``response.json`` of a case, which ``iallocator replay`` also compares."""

    stem, file_extension = "response", "json"


class Ranking(Beside):
    """The file ``ranking.txt`` of a case: the expected ranking of its nodes."""

    stem, file_extension = "ranking", "txt"


def all_cases() -> list[Path]:
    """Return the folder of every case that is a request."""
    return [Path(case.request).parent for case in _cases() if not _command(case)]


def command_cases() -> list[Path]:
    """Return the folder of every case that is a command."""
    return [Path(case.request).parent for case in _cases() if _command(case)]


def case_in(folder: Path) -> Case:
    """Return the stored case in `folder`."""
    return find_cases([str(folder)])[0]


def _cases() -> list[Case]:
    return sorted(find_cases([str(FIXTURES)]), key=lambda case: case.name)


def _command(case: Case) -> bool:
    return case.options()[:1] != [] and case.options()[0] in {HTOOLS, *stored_commands().names}


def allocate_cases() -> list[Path]:
    """Return the folder of every case that places one new instance."""
    return [case for case in all_cases() if case.parent.name == "allocate"]


def case_id(case: Path) -> str:
    """Return the test ID of `case`."""
    return str(case.relative_to(FIXTURES))
