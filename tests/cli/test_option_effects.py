"""What a command accepts acts: with the option something else is said, or written."""

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
from iallocator.commands import COMMANDS, command_of
from iallocator.commands.common_options import table_of
from iallocator.options.table import COMMON
from iallocator.planners.repair import round as repairs
from tests.builders import as_bytes

from .effects import EFFECTS, NEEDS_A_SERVER, Effect

Capture = pytest.CaptureFixture[str]

FASTER_ONLY = {("replay", "--jobs")}
"""Options that change nothing but the time it takes."""

OF_QUESTIONS = {"--config", "--no-config",
    "--json", "--brief", "--node", "--instance", "--graph", "--html", "--ialloc-src", "--max-input",
}  # fmt: skip
"""What explain and ask have in common, and is tried with both."""

ANSWERED = {0, 1}
"""Exit statuses of a run that was understood; 1: `check` found something wrong."""

REJECTS = {"--max-input", "--validate"}
"""Options that act by refusing something: exit status 2; or that need less than the command."""

Said = tuple[int, str, str, dict[str, bytes]]


def said_by(
    command: str, effect: Effect, words: tuple[str, ...], folder: Path, capsys: Capture
) -> Said:
    """Status, both streams, and the files that were written."""
    folder.mkdir()
    for name, text in effect.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    arguments = [command] if command else []
    if effect.document is not None:
        (folder / "document.json").write_bytes(as_bytes(effect.document))
        arguments.append(str(folder / "document.json"))
    with _always_the_same_repairs():
        status = main([*arguments, *(word.replace("{folder}", str(folder)) for word in words)])
    out, err = (text.replace(str(folder), "FOLDER") for text in capsys.readouterr())
    known = {"document.json"}
    written = {
        p.name: p.read_bytes() for p in folder.iterdir() if p.is_file() and p.name not in known
    }
    return status, out, err, written


@contextlib.contextmanager
def _always_the_same_repairs() -> Iterator[None]:
    """Have records of repairs the same times and numbers each run."""
    numbers = count(1)
    with (
        mock.patch.object(repairs, "uuid4", side_effect=lambda: UUID(int=next(numbers))),
        mock.patch.object(repairs, "time", SimpleNamespace(time=lambda: 1e9)),
    ):
        yield


WITHOUT: dict[str, Said] = {}
"""What was said without any option; many options of a command act on the same."""


def said_without(command: str, effect: Effect, folder: Path, capsys: Capture) -> Said:
    """The same of the words that are given anyway, run once for all options that share them."""
    asked = json.dumps([command, effect.document, effect.words, effect.files])
    if asked not in WITHOUT:
        WITHOUT[asked] = said_by(command, effect, effect.words, folder, capsys)
    return WITHOUT[asked]


@pytest.mark.parametrize(("command", "option"), sorted(EFFECTS), ids=lambda word: word or "request")
def test_option_that_is_accepted_changes_what_is_said(
    command: str, option: str, tmp_path: Path, capsys: Capture
) -> None:
    """The same document and words, without the option and with it."""
    if option == "--html" or command == "report":
        pytest.importorskip("jinja2", reason="the template library is not installed")
    effect = EFFECTS[command, option]
    assert effect.option.startswith(option)
    plain = said_without(command, effect, tmp_path / "plain", capsys)
    changed = said_by(command, effect, (*effect.words, effect.option), tmp_path / "with", capsys)
    assert {plain[0], changed[0]} <= ANSWERED | ({2} if option in REJECTS else set())
    assert plain != changed


def test_table_of_effects_is_complete_for_requests() -> None:
    """An option that requests take has a document on which it acts."""
    taken = {option.names[0] for option in COMMON} - NEEDS_A_SERVER
    assert {name for command, name in EFFECTS if not command} == taken


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_table_of_effects_is_complete(command: str) -> None:
    """Every option of the command, its own and the common ones, has a document on which it acts."""
    own = command_of(command).options
    wanted = {option.names[0] for option in (*own, *table_of(command, own))}
    if command == "ask":  # and explain is asked of a request: the same code answers
        wanted -= {name for one, name in EFFECTS if one == "explain"} - OF_QUESTIONS
    seen = {name for one, name in EFFECTS.keys() | FASTER_ONLY if one == command}
    assert seen == wanted - NEEDS_A_SERVER
