"""Start a command: complete its settings, then show its help, check its input, or run it."""

from __future__ import annotations

from iallocator import __version__
from iallocator.commands import (
    COMMANDS,
    PLAN,
    PLANNER_MODULE,
    Row,
    commands_with,
    form_of,
    options_of,
    settings_of,
    shown_name,
)
from iallocator.commands.common_options import rejection_of
from iallocator.errors import Voice
from iallocator.options.parser import parse
from iallocator.options.settings import configuration_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["run_command"]

UNDO = Row(PLAN, "", PLANNER_MODULE, "plans", "plan", states=("original", "undone"))
"""The row for ``--undo`` of any command that plans moves: another plan, with the same options."""


def run_command(name: str, arguments: Sequence[str]) -> int:
    """Run the command `name` with `arguments`, its own name among them; return the exit status.

    Raises
    ------
    IallocatorError
        If the program would end with exit status 2.
    """
    typed = name
    name, arguments = form_of(name, arguments)
    row = COMMANDS[name]
    settings = settings_of(name)()
    table = options_of(name)
    rejection = rejection_of(name, table, shown_name(name), commands_with)
    positional = parse(arguments, settings, table, rejection, commands_with)
    positional.remove(typed)
    if settings.version:
        print(f"iallocator {__version__}")
        return 0
    if settings.help:
        from iallocator.commands.help import help_of

        print("\n".join(help_of(name)))
        return 0
    if path := configuration_path(settings):
        from iallocator.configuration import configure

        files = settings.files_of(positional)
        configure(
            settings,
            path,
            COMMANDS,
            files,
            name,
            table,
            rejection,
        )
    Voice.quiet = settings.quiet
    if settings.validate:
        from iallocator.commands.runner import validate

        return validate(name, settings, settings.files_of(positional), row.request, table)
    from iallocator.commands.command import Command
    from iallocator.commands.runner import run

    if getattr(settings, "undo", ""):
        name, row = "undo", UNDO
    command = Command(name, row, settings, positional)
    command.arguments = arguments
    return run(command)
