"""A captured call that is asked again: with the settings that it had."""

from __future__ import annotations

import os

from iallocator.calls.layout import referred, request_path
from iallocator.commands import options_of
from iallocator.configuration import configure
from iallocator.files import read_file
from iallocator.options.parser import parse, words_of
from iallocator.options.table import COMMON
from iallocator.replay.cases import case_of
from iallocator.wire.codec import decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TypeVar

    from iallocator.options.settings import Settings
    from iallocator.replay.cases import Case

    Own = TypeVar("Own", bound=Settings)

__all__ = ["as_then", "case_named", "since_then"]

NOT_OF_A_CALL = {"config", "no_config", "ialloc_src"}


def case_named(files: Sequence[str]) -> Case | None:
    """The captured call among `files`, as ``FOLDER#7``; None if they are files."""
    for name in files:
        if referred(name) is not None:
            return case_of(request_path(name))
    return None


def as_then(case: Case, given: Own, command: str) -> Own:
    """The settings that a captured call had; the command line, as `given`, counts more.

    What a configuration file says of requests by now does not count.
    """
    table = options_of(command)
    own = {option.target for option in table} - {option.target for option in COMMON}
    targets = (given.chosen | (given.origins.keys() & own)) - NOT_OF_A_CALL
    settings = type(given)()
    parse([*case.options(), *words_of(given, targets, table)], settings, table)
    if case.configured:
        configure(settings, case.conf, (), ())
    return settings


def since_then(case: Case, response: dict[str, Any]) -> list[str]:
    """What to say where a captured call was answered otherwise than now."""
    if not os.path.isfile(case.response):
        return ["This call was not answered then."]
    then = decode(read_file(case.response))
    if all(then.get(key) == response.get(key) for key in ("success", "result")):
        return []
    return [f"The answer then was another: iallocator replay '{case.name}' shows how it differs."]
