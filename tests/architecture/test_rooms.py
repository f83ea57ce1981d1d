"""ARCHITECTURE.md and CONTRIBUTING.md name every package, and packages import in one direction."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from .imports import PACKAGE, imports, room_of, sources
from .test_imports import MAY_IMPORT

ROOT = PACKAGE.parent
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()

BESIDE = ("benchmarks", "bin", "docs", "fixtures", "packaging", "schemas", "tests", "tools", ".ci")
"""The folders beside the package."""

PACKAGES = sorted(name for name, path in sources().items() if path.name == "__init__.py")

SUB_ROOMS = [name for name in PACKAGES if name.count(".") > 1]


def _table(text: str) -> dict[str, str]:
    """Name in the first column of a table -> the row."""
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    names = ((re.findall(r"`([^`]+)`", row.split("|")[1]), row) for row in rows)
    return {name.strip("/").removesuffix(".py"): row for found, row in names for name in found}


def _below(parent: str, module: str) -> str:
    """The sub-room of `parent` that holds `module`, or ""."""
    name = ".".join(module.split(".")[: parent.count(".") + 2])
    return name if name in PACKAGES and name.startswith(parent + ".") else ""


def test_every_room_is_named_in_the_architecture() -> None:
    """Packages and single modules alike, each in the table of rooms."""
    assert set(MAY_IMPORT) - set(_table(ARCHITECTURE)) == set()


@pytest.mark.parametrize("room", SUB_ROOMS)
def test_sub_room_is_named_in_the_row_of_its_room(room: str) -> None:
    """Nobody has to guess what a folder is for."""
    assert f"`{room.rpartition('.')[2]}/`" in _table(ARCHITECTURE)[room_of(room)]


@pytest.mark.parametrize("folder", BESIDE)
def test_folder_beside_the_package_is_named_in_the_architecture(folder: str) -> None:
    """What is not the program has a purpose, too."""
    assert (ROOT / folder).is_dir()
    assert folder in _table(ARCHITECTURE)


def test_every_package_is_in_the_glossary_for_contributors() -> None:
    """Each room has its question."""
    packages = {room_of(name) for name in PACKAGES if name.count(".") == 1}
    assert packages - set(_table(CONTRIBUTING)) == set()


def _floors() -> Iterator[list[str]]:
    """The lines of the picture of imports, from the top."""
    picture = ARCHITECTURE.split("```text\n")[1].split("```")[0]
    return (line.split(" · ") for line in picture.splitlines())


def test_picture_of_imports_shows_every_room_above_what_it_uses() -> None:
    """The picture is the table of imports, drawn."""
    floors = {room: floor for floor, rooms in enumerate(_floors()) for room in rooms}
    assert set(floors) == set(MAY_IMPORT)
    wrong = [
        f"{room} uses {other}, which is not below it"
        for room, allowed in MAY_IMPORT.items()
        for other in allowed.split()
        if floors[room] >= floors[other]
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("parent", [name for name in PACKAGES if name != "iallocator"])
def test_sub_rooms_of_a_room_need_each_other_in_one_direction(parent: str) -> None:
    """Of two planners that share something, it stands in one, or below both."""
    needs: dict[str, set[str]] = {}
    for found in imports():
        here, there = _below(parent, found.module), _below(parent, found.imported)
        if here and there and here != there:
            needs.setdefault(here, set()).add(there)
    while free := [room for room in needs if not needs[room] & needs.keys()]:
        for room in free:
            del needs[room]
    assert needs == {}
