"""Calls whose options cannot be understood: logged all the same, if it is known where."""

from __future__ import annotations

from contextlib import nullcontext

from iallocator.calls.call import Call
from iallocator.errors import UsageError
from iallocator.options.parser import last_value
from iallocator.options.settings import configuration_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from contextlib import AbstractContextManager

    from iallocator.options.settings import Settings

__all__ = ["logged"]


def logged(
    arguments: Sequence[str], settings: Settings, commands: Collection[str]
) -> AbstractContextManager[object]:
    """A ``with`` block that logs what ends it, where `arguments` or the file say that calls are.

    `settings` are as far as they could be understood.
    """
    settings.log = last_value(arguments, "log") or settings.log or _of_file(arguments, commands)
    return Call(settings) if settings.log else nullcontext()


def _of_file(arguments: Sequence[str], commands: Collection[str]) -> str:
    """Where the configuration file says that calls are logged; "" if it does not."""
    from iallocator.configuration import Configuration
    from iallocator.options.settings import Settings

    named = Settings()
    named.config = last_value(arguments, "config") or ""
    named.no_config = last_value(arguments, "no_config") in ("", "yes")
    path = configuration_path(named)
    try:
        return Configuration(path, commands).text("log") if path else ""
    except UsageError:
        return ""
