"""Test that every accepted option of a command changes its output or a written file."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from unittest import mock
from uuid import UUID

import pytest

from iallocator.cli import main
from iallocator.commands import COMMANDS, settings_of
from iallocator.commands.common_options import table_of
from iallocator.options.table import COMMON
from iallocator.planners.repair import round as repairs
from tests.aliases import Capture
from tests.builders import as_bytes
from tests.command import without_identity

from .effects import EFFECTS, NEEDS_A_SERVER, Effect

FASTER_ONLY = {("replay", "--jobs")}
"""Options that only change how long the command takes."""

ON_TERMINALS = {"--all", "--all-rows"}
"""Options with an effect on a terminal only, which other tests show."""

OF_QUESTIONS = {"--config", "--no-config",
    "--group", "--offline", "--json", "--brief", "--node", "--instance", "--graph", "--html",
    "--ialloc-src", "--max-input",
}  # fmt: skip
"""Common options that the tests of `explain` and `ask` share."""

ANSWERED = {0, 1, 3}
"""Exit statuses of a valid run: 1 if a problem was found, 3 if the analysis is incomplete."""

REJECTS = {"--max-input", "--steady", "--validate"}
"""Options for which a rejection (status 2) is the effect."""

EXCLUDES = {
    "--text-data": {"--text-data", "-t"},
    "--ialloc-src": {"--ialloc-src", "-I"},
    "--rapi": {"--rapi"},
    "--no-config": {"--config"},
    "--history": {"--history"},
    "--now": {"--now"},
}
"""Option -> arguments that cannot be given with it."""

Output = tuple[int, str, str, dict[str, bytes]]


def output_of(
    command: str, effect: Effect, words: tuple[str, ...], folder: Path, capsys: Capture
) -> Output:
    """Return the status, both streams, and the written files of a command."""
    folder.mkdir()
    for name, text in effect.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    arguments = [command] if command else []
    named = [word.replace("{folder}", str(folder)) for word in words]
    if effect.document is not None:
        path = str(folder / "document.json")
        (folder / "document.json").write_bytes(as_bytes(effect.document))
        named = [*named, path] if command == "rescue" else [path, *named]  # first its node
    with _always_the_same_repairs():
        status = main([*arguments, *named])
    out, err = (text.replace(str(folder), "FOLDER") for text in capsys.readouterr())
    known = {"document.json"}
    written = {
        p.name: without_identity(p.read_bytes().decode("utf-8", "backslashreplace")).encode()
        for p in folder.iterdir()
        if p.is_file() and p.name not in known
    }
    return status, without_identity(out), err, written


@contextlib.contextmanager
def _always_the_same_repairs() -> Iterator[None]:
    """Return a ``with`` block in which records of repairs have fixed times and numbers."""
    numbers = count(1)
    with (
        mock.patch("uuid.uuid4", side_effect=lambda: UUID(int=next(numbers))),
        mock.patch.object(repairs, "time", SimpleNamespace(time=lambda: 1e9)),
    ):
        yield


WITHOUT: dict[str, Output] = {}
"""Command line without any option -> its output."""


def output_without(command: str, effect: Effect, folder: Path, capsys: Capture) -> Output:
    """Return the output without the option; each command line runs once."""
    asked = json.dumps([command, effect.document, effect.words, effect.files])
    if asked not in WITHOUT:
        WITHOUT[asked] = output_of(command, effect, effect.words, folder, capsys)
    return WITHOUT[asked]


def with_option(effect: Effect) -> tuple[str, ...]:
    """Return the arguments with the option, without those that it excludes."""
    excluded = EXCLUDES.get(effect.option.partition("=")[0], set())
    found, rest = [], list(effect.words)
    while rest:
        word = rest.pop(0)
        if word.partition("=")[0] not in excluded:
            found.append(word)
        elif not word.startswith("--"):
            rest.pop(0)
    return (*found, effect.option)


@pytest.mark.parametrize(("command", "option"), sorted(EFFECTS), ids=lambda word: word or "request")
def test_accepted_option_changes_the_output(
    command: str, option: str, tmp_path: Path, capsys: Capture
) -> None:
    """Each option that a command accepts changes its output on some document."""
    if option == "--html" or command == "report":
        pytest.importorskip("jinja2", reason="the template library is not installed")
    effect = EFFECTS[command, option]
    assert effect.option.startswith(option)
    plain = output_without(command, effect, tmp_path / "plain", capsys)
    changed = output_of(command, effect, with_option(effect), tmp_path / "with", capsys)
    assert {plain[0], changed[0]} <= ANSWERED | ({2} if option in REJECTS else set())
    assert plain != changed


def test_table_of_effects_is_complete_for_requests() -> None:
    """The table of effects has every option of requests."""
    taken = {option.names[0] for option in COMMON} - NEEDS_A_SERVER
    assert {name for command, name in EFFECTS if not command} == taken


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_table_of_effects_is_complete(command: str) -> None:
    """The table of effects has every option of every command."""
    own = settings_of(command).options
    wanted = {option.names[0] for option in (*own, *table_of(command, own))}
    if command == "ask":  # explain has a request here, and both share code
        wanted -= {name for one, name in EFFECTS if one == "explain"} - OF_QUESTIONS
    seen = {name for one, name in EFFECTS.keys() | FASTER_ONLY if one == command}
    assert seen - ON_TERMINALS == wanted - NEEDS_A_SERVER - ON_TERMINALS
