"""What acts on the command line acts from the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iallocator.commands import options_of
from iallocator.configuration import BY_HAND, OF_COMMANDS
from iallocator.options.table import COMMON, Option

from .effects import EFFECTS, Effect
from .test_option_effects import said_by

Capture = pytest.CaptureFixture[str]

NOT_HERE = {*BY_HAND, *OF_COMMANDS, "no_config"}
"""Refused, or a source of which the command line of the effect names another one."""


def option_named(command: str, name: str) -> Option:
    """The option of a command, or of requests."""
    table = options_of(command) if command else COMMON
    return next(option for option in table if name in option.names)


def typed_anyway(command: str, name: str) -> bool:
    """Whether the option is on the command line of the effect both times, where it counts more."""
    words = {word.partition("=")[0] for word in EFFECTS[command, name].words}
    return not words.isdisjoint(option_named(command, name).names)


CASES = sorted(
    key for key in EFFECTS if option_named(*key).target not in NOT_HERE and not typed_anyway(*key)
)

TELLS_MORE = {"--log", "--capture", "--capture-keep", "--capture-days", "--junit", "--inter-group"}
"""What is said or written has times in it, or says where a setting comes from."""


def written(command: str, option: Option, word: str) -> str:
    """A configuration file that says what `word` says on the command line."""
    _, sign, text = word.partition("=")
    value: object = text
    if not sign:
        value = True
    elif isinstance(read := option.read(text) if option.read else text, (int, float)):
        value = float(text) if text[-1:].isdigit() else text
        value = int(text) if isinstance(read, int) and text.isdigit() else value
    elif isinstance(read, list):
        value = text.split(",")
    head = f"[{command}]\n" if command else ""
    return f"{head}{option.names[0][2:]} = {json.dumps(value)}\n"


@pytest.mark.slow
@pytest.mark.parametrize(("command", "name"), CASES, ids=lambda word: word or "request")
def test_option_in_the_file_acts_as_on_the_command_line(
    command: str, name: str, tmp_path: Path, capsys: Capture
) -> None:
    """The same is said, and written, with the option in a file and without."""
    effect: Effect = EFFECTS[command, name]
    option = option_named(command, name)
    folder = tmp_path / "run"
    file = tmp_path / "conf"
    file.write_text(written(command, option, effect.option.replace("{folder}", str(folder))))
    typed = said_by(command, effect, (*effect.words, effect.option), folder, capsys)
    folder.rename(tmp_path / "before")
    filed = said_by(command, effect, (*effect.words, f"--config={file}"), folder, capsys)
    if command == "config" or name in TELLS_MORE:
        assert (typed[0], typed[3].keys()) == (filed[0], filed[3].keys())
    else:
        assert typed == filed
