"""Test that an option has one effect in the configuration file and on the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from iallocator.commands import COMMANDS, options_of
from iallocator.configuration import BY_HAND, OF_COMMANDS
from iallocator.options.table import COMMON, Option
from iallocator.options.values import Choice
from iallocator.ranking import ALIASES
from iallocator.ranking import STRATEGIES as NAMES
from tests.aliases import Capture

from .effects import EFFECTS, Effect
from .test_option_effects import output_of

STRATEGIES = (*NAMES, *ALIASES)

NOT_HERE = {*BY_HAND, *OF_COMMANDS, "no_config"}
"""Options that the file cannot set, or that name the file."""


def option_named(command: str, name: str) -> Option:
    """Return the option called `name` of a command, or of requests."""
    table = options_of(command) if command else COMMON
    return next(option for option in table if name in option.names)


def overrides_file(command: str, name: str) -> bool:
    """Return whether the command line of the option's case sets the option, too.

    The command line would override a configuration file.
    """
    words = {word.partition("=")[0] for word in EFFECTS[command, name].words}
    return not words.isdisjoint(option_named(command, name).names)


CASES = sorted(
    key for key in EFFECTS if option_named(*key).target not in NOT_HERE and not overrides_file(*key)
)

TELLS_MORE = {"--log", "--capture", "--capture-keep", "--capture-days", "--junit", "--inter-group"}
"""Options that print times, or the origin of a setting."""


def written(command: str, option: Option, word: str) -> str:
    """Return a configuration file that sets the option as `word` does on the command line."""
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
    """An option in the file gives the output and files that it gives on the command line."""
    effect: Effect = EFFECTS[command, name]
    option = option_named(command, name)
    folder = tmp_path / "run"
    file = tmp_path / "conf"
    file.write_text(written(command, option, effect.option.replace("{folder}", str(folder))))
    typed = output_of(command, effect, (*effect.words, effect.option), folder, capsys)
    folder.rename(tmp_path / "before")
    filed = output_of(command, effect, (*effect.words, f"--config={file}"), folder, capsys)
    if command == "config" or name in TELLS_MORE:
        assert (typed[0], typed[3].keys()) == (filed[0], filed[3].keys())
    else:
        assert typed == filed


VALUES = {
    "n1": "strict", "compat": "hail", "exact_search": "no", "mond": "no",
    "exclusion_tags": "srv", "restrict_allocation_to": "node1,node2", "print_nodes": "name",
    "save_cluster": "{folder}/saved", "mond_data": "{folder}/mond", "log": "{folder}/log",
    "capture": "{folder}", "max_input": "900m", "tag_prefix": "x:",
}  # fmt: skip
"""Values for options that are neither numbers nor flags nor choices."""


def value_of(option: Option) -> str:
    """Return a value that the option accepts, in the form of the command line."""
    if isinstance(option.read, Choice):
        return VALUES.get(option.target, list(option.read.names)[-1])
    return VALUES.get(option.target, "3")


AT_TOP = [
    (option, value)
    for option in COMMON
    if option.target not in {*BY_HAND, *OF_COMMANDS}
    for value in (
        STRATEGIES
        if option.target == "strategy"
        else ("0", "2")
        if option.target == "make_room"
        else ("",)
        if option.read is None
        else (value_of(option),)
    )
]


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_common_options_of_the_file_make_no_command_fail(
    command: str, tmp_path: Path, capsys: Capture
) -> None:
    """A command ignores an option at the top of the file that only requests have."""
    usual = EFFECTS[command, "--max-input"]
    words = tuple(word for word in usual.words if not word.startswith("--strategy"))
    if command == "place":
        words = usual.words
    files = {**usual.files, "mond": "[]"}
    failing = []
    for number, (option, value) in enumerate(AT_TOP):
        folder = tmp_path / f"run{number}"
        word = f"{option.names[0]}={value}" if value else option.names[0]
        conf = written("", option, word.replace("{folder}", str(folder)))
        file = tmp_path / "conf"
        file.write_text(conf)
        effect = replace(usual, files=files)
        done = output_of(command, effect, (*words, f"--config={file}"), folder, capsys)
        if done[0] == 2:
            failing.append((conf, done[2]))
    assert not failing
