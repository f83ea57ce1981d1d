"""The command line: arguments in, exit status out.

With `iallocator.report` the only code that prints.  Exit status 0: a response is on
stdout, whether the request can be satisfied or not.  2: the command line or the
document cannot be understood; one line on stderr says why.
"""

from __future__ import annotations

import sys

from iallocator import __version__
from iallocator.commands import COMMANDS, find_command
from iallocator.errors import IallocatorError, UsageError
from iallocator.files import read_file
from iallocator.options import COMMON, Settings, help_lines, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["answer", "main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program with `arguments`, by default those of the process."""
    if arguments is None:
        arguments = sys.argv[1:]
    try:
        return _run(list(arguments))
    except IallocatorError as error:
        print(f"iallocator: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        _abandon_stdout()
        return 1


def _run(arguments: list[str]) -> int:
    command = find_command(arguments)
    if command:
        return _run_command(command, arguments)
    settings = Settings()
    positional = parse(arguments, settings)
    if settings.help:
        print(_usage(), end="")
        return 0
    if settings.version:
        print(f"iallocator {__version__}")
        return 0
    if len(positional) > 1:
        raise UsageError(f"one request file at most, got {' '.join(positional)}")
    response = _answer(read_file(positional[0] if positional else "-"), settings)
    sys.stdout.buffer.write(response)
    sys.stdout.buffer.flush()
    return 0


def _run_command(name: str, arguments: list[str]) -> int:
    from importlib import import_module

    module = import_module(f"iallocator.commands.{name}")
    settings = module.Settings()
    positional = parse(arguments, settings, (*module.OPTIONS, *COMMON))
    positional.remove(name)
    if settings.help:
        lines = [f"usage: iallocator {name} {module.USAGE}", "", COMMANDS[name], ""]
        print("\n".join([*lines, *help_lines((*module.OPTIONS, *COMMON)), ""]), end="")
        return 0
    return int(module.run(settings, positional))


def answer(raw: bytes, arguments: Sequence[str] = ()) -> bytes:
    """The response to the request document `raw` with these options.

    Raises
    ------
    RequestError, UsageError
        Where the program would end with exit status 2.
    """
    settings = Settings()
    parse(arguments, settings)
    return _answer(raw, settings)


def _answer(raw: bytes, settings: Settings) -> bytes:
    from iallocator.engine import respond
    from iallocator.wire.write import encode

    return encode(respond(raw, settings))


def _abandon_stdout() -> None:
    """Nobody reads stdout any more: let the interpreter end without another complaint."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage() -> str:
    return "\n".join(
        [
            "usage: iallocator [OPTIONS] [FILE]",
            "       iallocator COMMAND [OPTIONS] ...",
            "",
            "Answers the request in FILE (- or none: stdin) on stdout.",
            "",
            *(f"  {name:10} {purpose}" for name, purpose in COMMANDS.items()),
            "",
            *help_lines(COMMON),
            "",
        ]
    )
