"""The command line: arguments in, exit status out.

`iallocator.commands.usage.exit_statuses` describes the statuses. With status 2, one line on stderr
has the reason (with --validate, one line per problem). Status 130 means that a signal came. If it
came during a search, the response is printed all the same; it is at least as good as a response
without the search.
"""

from __future__ import annotations

import posix  # `os` loads more: see `iallocator.light`
import sys

from iallocator import __version__
from iallocator.deadline import Running, Stopped
from iallocator.errors import (
    STATUS_INTERRUPTED,
    STATUS_MISTAKE,
    STDIN,
    IallocatorError,
    UsageError,
    Voice,
    one_line,
    tell,
)
from iallocator.files import WholeOutput, read_file
from iallocator.options.settings import Settings, configuration_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.engine import Heard
    from iallocator.reply import Reply

__all__ = ["answer", "main"]


def main(arguments: Sequence[str] | None = None, program: str | None = None) -> int:
    """Run the program with `arguments`, by default those of the process; return the exit status.

    `program`: the program of htools that the name of the executable stands for; None for none.
    """
    if arguments is None:
        arguments = sys.argv[1:]
    if sys.stdout is None:
        _complain("standard output is closed")
        return 1
    Voice.quiet = False
    try:
        with Running():
            status = _run(list(arguments)) if program is None else _run_htools(program, arguments)
        sys.stdout.flush()
        return status
    except IallocatorError as error:
        _complain(str(error))
        return error.exit_status
    except Stopped:  # before there was anything to show
        return STATUS_INTERRUPTED
    except MemoryError:
        _complain("not enough memory for an input of this size")
        return STATUS_MISTAKE
    except OSError as error:
        # No program reads stdout any more: let the interpreter end without another complaint
        posix.dup2(posix.open("/dev/null", posix.O_WRONLY), sys.stdout.fileno())
        _complain(f"{error.filename or 'standard output'}: {error.strerror or error}")
        return 1


def _run_htools(program: str, arguments: Sequence[str]) -> int:
    from iallocator.compat.htools import run

    return run(program, arguments)


def _run(arguments: list[str]) -> int:
    if arguments[:1] == ["htools"]:
        return _run_htools("".join(arguments[1:2]) or "htools", arguments[2:])
    if arguments[:1] == ["help"]:
        from iallocator.commands.help import show_help

        show_help(arguments[1:])
        return 0
    from iallocator.commands import COMMANDS, check_command, find_command

    command = find_command(arguments)
    if command:
        from iallocator.commands.start import run_command

        return run_command(command, arguments)
    check_command(arguments)
    settings = Settings()
    try:
        files = _files(arguments, settings)
    except UsageError:
        from iallocator.calls.call import logged

        with logged(arguments, settings, COMMANDS):
            raise
    if settings.help:
        from iallocator.commands.help import show_help

        show_help([])
        return 0
    if settings.version:
        print(f"iallocator {__version__}")
        return 0
    if not files and sys.stdin is not None and sys.stdin.isatty():
        from iallocator.commands.help import overview

        tell(*overview(sys.stderr))
        return STATUS_MISTAKE
    path = files[0] if files else STDIN
    if settings.validate:
        from iallocator.commands.runner import validate
        from iallocator.options.table import COMMON
        from iallocator.wire.validation import NEEDED

        return validate("", settings, files, NEEDED, COMMON)
    if settings.log or settings.capture:
        from iallocator.calls.call import Call

        with Call(settings) as call:
            raw = call.came(read_file(path, settings.max_input))
            reply = _reply(raw, settings, call.understood, path)
            encoded = _encoded(reply)
            with WholeOutput():
                if call.answered(reply, encoded):
                    encoded = _encoded(reply)
                _say(reply, encoded, settings)
        return STATUS_INTERRUPTED if reply.interrupted else 0
    reply = _reply(read_file(path, settings.max_input), settings, path=path)
    with WholeOutput():
        _say(reply, _encoded(reply), settings)
    return STATUS_INTERRUPTED if reply.interrupted else 0


def _files(arguments: Sequence[str], settings: Settings) -> list[str]:
    """Complete `settings` from `arguments` and the configuration file.

    Return the names of the request files: at most one, or several with ``--validate``.

    Raises
    ------
    UsageError
        If the arguments are invalid, or contradict each other.
    """
    from iallocator.options.parser import parse

    positional = parse(arguments, settings)
    if settings.help or settings.version:
        return []
    if file := configuration_path(settings):
        from iallocator.commands import COMMANDS
        from iallocator.configuration import configure

        configure(settings, file, COMMANDS, positional)
    Voice.quiet = settings.quiet
    files = [*positional, *([settings.ialloc_src] if settings.ialloc_src else [])]
    if len(files) > 1:
        raise UsageError(f"one request file at most, got {' '.join(files)}")
    if settings.validate:
        return files
    # Options without effect
    idle = [target for target in ("capture_keep", "capture_days") if target in settings.chosen]
    if idle and not settings.capture:
        name = idle[0].replace("_", "-")
        raise UsageError(f"--{name} needs --capture FOLDER: it is about captured calls")
    if "read_timeout" in settings.chosen and not settings.asks_servers:
        raise UsageError("--read-timeout needs a running cluster: -L, -m HOST or --mond")
    if "volume_groups" in settings.chosen:
        raise UsageError(
            "--volume-groups is for commands: in a request of Ganeti, its jobs would wait for the "
            "job that sends the request"
        )
    if "cost" in settings.chosen and not settings.make_room:
        raise UsageError("--cost needs --make-room N: it limits the moves of other instances")
    return files


def _say(reply: Reply, encoded: bytes, settings: Settings) -> None:
    remarks = reply.remarks
    if remarks and settings.behaviour.warns_in_info and not settings.verbose:
        from iallocator.reply import few_details

        remarks = few_details(remarks)
    tell(*remarks)
    sys.stdout.buffer.write(encoded)


def answer(raw: bytes, arguments: Sequence[str] = ()) -> bytes:
    """Return the response to the request document `raw`, given the options in `arguments`.

    Raises
    ------
    RequestError, UsageError
        If the program would end with exit status 2.
    """
    from iallocator.options.parser import parse

    settings = Settings()
    parse(arguments, settings)
    with Running():
        return _encoded(_reply(raw, settings))


def _reply(raw: bytes, settings: Settings, heard: Heard | None = None, path: str = STDIN) -> Reply:
    if settings.save_cluster or settings.print_instances or settings.print_nodes is not None:
        from iallocator.commands import states

        return states.respond(raw, settings, heard, path)
    from iallocator.engine import respond

    return respond(raw, settings, heard, path)


def _encoded(reply: Reply) -> bytes:
    from iallocator.wire.codec import encode

    return encode(reply)


def _complain(problem: str) -> None:
    """Print one line to stderr, if that is open."""
    tell(f"iallocator: {one_line(problem)}")
