"""Write the help: the overview of the commands, and the options of one command in groups.

A help fits the terminal, or 100 columns in a pipe. It shows the options that are often used, and
with ``--all`` every option.
"""

from __future__ import annotations

import re
import sys
from textwrap import wrap

from iallocator.commands import (
    COMMANDS,
    OLD_NAMES,
    PURPOSES,
    form_of,
    options_of,
    settings_of,
    shown_name,
    unknown_command,
)
from iallocator.commands.usage import USAGE, description, exit_statuses
from iallocator.errors import UsageError, cut, terminal_width
from iallocator.options.table import COMMON, OPTION_GROUPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TextIO

    from iallocator.options.table import Option

__all__ = ["help_of", "overview", "show_help"]

CALLS = (
    "usage: iallocator COMMAND [OPTIONS] [FILE]",
    "       iallocator [OPTIONS] [FILE]",
    "       iallocator help [COMMAND] [--all]",
    "",
)

SOURCES = (
    "Without a command it answers the request in FILE, as Ganeti's plugin. FILE (- or none: stdin) "
    "is a document that Ganeti writes for plugins. -t FILE, -L, -m ADDRESS and --simulate SPEC "
    "name other sources of a cluster."
)
"""The text on sources of input in the overview; with `CALLS`, at most eight lines of 80 columns."""

NAME_COLUMNS = 32
"""The largest width, in columns, of the names of options in a help.

A longer name has a line of its own."""


def show_help(words: Sequence[str]) -> None:
    """Print the help for the words after ``help``: a command or none, and ``--all``.

    Raises
    ------
    UsageError
        If there is another option, no such command, or more than one.
    """
    names = [word for word in words if not word.startswith("-") and word != "help"]
    name, words = form_of("".join(names[:1]), words)
    options = {word for word in words if word.startswith("-")} - {"--all"}
    if options - {"--help", "-h"}:
        raise UsageError(
            f"help: unknown option {cut(min(options))}; usage: iallocator help [COMMAND] [--all]"
        )
    if len(names) > 1:
        raise UsageError(f"help: one command at most, got {' '.join(map(cut, names))}")
    unknown = [name for name in names if name not in COMMANDS]
    if unknown:
        raise UsageError(unknown_command(unknown[0]))
    every = "--all" in words
    if names:
        lines = help_of(name, every)
    else:
        width = terminal_width(sys.stdout)
        lines = [*overview(sys.stdout), "", "Options of requests, without a command:"]
        lines += [*_groups(COMMON, every, width), *_rest(COMMON, every, "")]
    print("\n".join(lines))


def overview(stream: TextIO) -> list[str]:
    """Return how to call the program, then the commands in groups, as wide as `stream`."""
    width = terminal_width(stream)
    column = max(map(len, COMMANDS)) + 4
    lines = [*CALLS, *wrap(SOURCES, width)]
    for purpose, title in PURPOSES.items():
        lines += ["", f"{title}:"]
        for name, row in COMMANDS.items():
            if row.purpose == purpose and name not in OLD_NAMES:
                lines += _entry(name, row.summary, column, width)
    return lines


def help_of(name: str, every: bool = False) -> list[str]:
    """Return the help of the command `name`; `every`: with the options that are rarely used."""
    width = terminal_width(sys.stdout)
    table = options_of(name)
    lines = wrap(
        f"usage: iallocator {shown_name(name)} {settings_of(name).usage}", width,
        subsequent_indent=" " * 7, break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    for paragraph in description(name).split("\n\n"):
        lines += ["", *wrap(paragraph, width, break_on_hyphens=False)]
    lines += [*_groups(table, every, width), "", "Examples:"]
    for example in USAGE[name].examples:
        lines += _command(f"iallocator {example.words}", width)
        lines += wrap(example.purpose, width, initial_indent=" " * 6, subsequent_indent=" " * 6)
    lines += ["", "Exit status:"]
    for status, meaning in exit_statuses(name).items():
        lines += _entry(status, meaning, 12, width)
    return [*lines, *_rest(table, every, f" {name}")]


def _groups(table: Sequence[Option], every: bool, width: int) -> Iterator[str]:
    """Yield the options of `table` in groups, each with an empty line and a title before it."""
    for group in OPTION_GROUPS:
        shown = [one for one in table if one.group == group and (every or not one.rare)]
        if shown:
            yield ""
            yield f"{group.capitalize()}:"
        for option in shown:
            short = [name for name in option.names if not name.startswith("--")]
            names = ", ".join([*short, *(name for name in option.names if name not in short)])
            value = (" " if option.takes_next else "") + option.metavar
            yield from _entry(names + value, option.help, min(NAME_COLUMNS, width // 3), width)


def _rest(table: Sequence[Option], every: bool, command: str) -> list[str]:
    """Return the lines which say how to see the rarely used options of `table`."""
    count = 0 if every else sum(option.rare for option in table)
    if not count:
        return []
    more = "1 more option" if count == 1 else f"{count} more options"
    return ["", f"{more}: iallocator help{command} --all"]


def _command(command: str, width: int) -> list[str]:
    """Return a command line for a shell: lines that continue end with a backslash."""
    first, *words = re.findall(r"(?:'[^']*'|\S)+", command)
    lines = [f"  {first}"]
    for position, word in enumerate(words, start=1):
        end = "" if position == len(words) else " \\"
        if len(f"{lines[-1]} {word}{end}") <= width:
            lines[-1] += f" {word}"
        else:
            lines[-1] += " \\"
            lines.append(f"{' ' * 8}{word}")
    return lines


def _entry(name: str, text: str, column: int, width: int) -> list[str]:
    """Return `name` with its `text`, which begins in `column`, or on the next line."""
    first = f"  {name}".ljust(column)
    fits = len(first) == column and first.endswith("  ")
    indent = " " * column
    lines = wrap(
        text, width, initial_indent=first if fits else indent, subsequent_indent=indent,
        break_on_hyphens=False,
    )  # fmt: skip
    return lines if fits else [first.rstrip(), *lines]
