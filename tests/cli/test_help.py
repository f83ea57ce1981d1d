"""Test the help: groups of commands and options, its width, and errors about wrong words."""

from __future__ import annotations

import os
import pty
import shlex
import subprocess

import pytest

from iallocator.commands import COMMANDS, OLD_NAMES, options_of
from iallocator.commands.usage import USAGE, exit_statuses
from iallocator.options.table import COMMON
from tests.command import COMMAND, ENVIRONMENT, complaint, printed, run

COMMAND_GROUPS = [
    "Ask where instances can go:",
    "See a cluster as it is:",
    "Plan changes of a cluster:",
    "Operate nodes and instances:",
    "Develop and test:",
]

OPTION_GROUPS = ["Cluster:", "Selection:", "Limits:", "Output:", "Execution:", "Tuning:"]


def titles(text: str) -> list[str]:
    """Return the lines of a help text that are titles."""
    return [line for line in text.splitlines() if line.endswith(":") and line[0] != " "]


def on_terminal(columns: int, *words: str) -> tuple[int, str]:
    """Return the exit status and output of the program on a terminal of `columns` columns."""
    ours, its = pty.openpty()
    subprocess.run(["stty", "rows", "40", "cols", str(columns)], stdin=its, check=True)
    with subprocess.Popen(
        [*COMMAND, *words], stdin=its, stdout=its, stderr=its, env=ENVIRONMENT, close_fds=True
    ) as process:
        os.close(its)
        found = b""
        while True:
            try:
                some = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not some:
                break
            found += some
    os.close(ours)
    return process.returncode, found.decode().replace("\r\n", "\n")


def test_overview_lists_every_command_once_in_its_group() -> None:
    """The overview lists every command once in its group, with aligned summaries."""
    text = printed("help")
    head, _, rest = text.partition(f"\n\n{COMMAND_GROUPS[0]}\n")
    assert len(head.splitlines()) <= 8
    assert titles(text)[:5] == COMMAND_GROUPS
    commands = rest.partition("\nOptions of requests")[0].splitlines()
    entries = [line for line in commands if line.startswith("  ")]
    current = COMMANDS.keys() - OLD_NAMES.keys()
    assert sorted(line.split()[0] for line in entries) == sorted(current)
    for line in entries:
        name = line.split()[0]
        assert line == f"  {name:16}{COMMANDS[name].summary}"
        assert len(line) <= 80


def test_program_without_arguments_on_a_terminal_lists_the_commands() -> None:
    """Without arguments on a terminal, the program lists its commands and ends with status 2."""
    status, text = on_terminal(80)
    assert status == 2
    assert text.startswith("usage: iallocator COMMAND [OPTIONS] [FILE]")
    assert text.index(COMMAND_GROUPS[0]) <= len("\n".join(text.splitlines()[:8])) + 1
    assert titles(text) == COMMAND_GROUPS
    assert "--strategy" not in text


@pytest.mark.parametrize(("columns", "most"), [(40, 60), (72, 72), (130, 130), (300, 200)])
@pytest.mark.parametrize("words", [("help",), ("help", "balance", "--all"), ("ask", "--help")])
def test_help_fits_the_terminal(words: tuple[str, ...], columns: int, most: int) -> None:
    """The help is as wide as the terminal, from 60 to 200 columns; in a pipe it has 100."""
    status, text = on_terminal(columns, *words)
    assert status == 0
    widest = max(map(len, text.splitlines()))
    assert most - 35 < widest <= most or columns == 300


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_of_the_help_continue_on_the_next_line_as_in_a_shell(command: str) -> None:
    """On a narrow terminal, a long example is broken so that a shell reads the same words."""
    text = on_terminal(60, "help", command)[1]
    assert max(map(len, text.splitlines())) <= 60
    examples = text.replace("\\\n", "").partition("\nExamples:\n")[2]
    lines = [shlex.split(line) for line in examples.splitlines() if line[:13] == "  iallocator "]
    assert lines == [shlex.split(f"iallocator {one.words}") for one in USAGE[command].examples]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_groups_its_options(command: str) -> None:
    """The help of a command groups its options; ``--all`` adds rare ones."""
    short, whole = (printed("help", command, *words) for words in ((), ("--all",)))
    table = options_of(command)
    for text in (short, whole):
        assert [title for title in OPTION_GROUPS if title in titles(text)] == titles(text)[:-2]
        assert titles(text)[-2:] == ["Examples:", "Exit status:"]
        for example in USAGE[command].examples:
            assert f"\n  iallocator {example.words}\n      {example.purpose}" in text
        for status in exit_statuses(command):
            assert f"\n  {status:10}" in text.partition("\nExit status:")[2]
    for option in table:
        name = f"{option.names[0]}"
        listed = [
            name in line.replace("[", " ").replace(",", " ").split()
            for line in short.splitlines()
            if line.startswith("  -")
        ]
        assert any(listed) != option.rare, name
    rare = sum(option.rare for option in table)
    assert 4 <= rare < len(table)
    assert short.endswith(f"\n{rare} more options: iallocator help {command} --all\n")
    assert "more options" not in whole


def test_help_of_requests_lists_rare_options_only_on_demand() -> None:
    """The help of requests lists common options; ``--all`` lists every one."""
    assert "--msav-steps" not in printed("help")
    whole = printed("help", "--all")
    assert all(name in whole for option in COMMON for name in option.names)


@pytest.mark.parametrize(
    ("words", "output"),
    [
        ("hbal", "hbal: use iallocator balance"),
        ("hbal -L", "hbal: use iallocator balance"),
        ("help hspace", "hspace: use iallocator capacity"),
        ("hail", "hail: use iallocator --compat hail FILE"),
        ("harep", "harep: use iallocator repair"),
        ("hcheck", "hcheck: use iallocator check"),
        ("hinfo", "hinfo: use iallocator show"),
        ("hroller", "hroller: use iallocator reboot"),
        ("hscan", "hscan: use iallocator snapshot"),
        ("hsqueeze", "hsqueeze: use iallocator squeeze"),
        (
            "help balanc",
            "balanc: no such command or file (did you mean balance or balance-groups?); "
            "iallocator help lists the commands",
        ),
        ("help balance check", "help: one command at most, got balance check"),
        (
            "help balance --al",
            "help: unknown option --al; usage: iallocator help [COMMAND] [--all]",
        ),
    ],
)
def test_wrong_command_is_reported_with_the_usage(words: str, output: str) -> None:
    """A wrong command is reported in one line with the usage; the exit status is 2."""
    assert complaint(run(*words.split())) == output
